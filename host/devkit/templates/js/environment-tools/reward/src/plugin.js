import { PluginError, Reward, scored } from "clawhost";

/** Compares what was left with the task's reference, which the environment and the agent never see. */
export default class {{type}}Reward extends Reward {
    static name = "{{name}}-reward";
    static version = "0.1.0";
    static summary = "1 if the box holds what was ordered";
    static reads = ["artefact box.json", "reference"];

    score(episode) {
        const { reference } = episode.task;
        const left = episode.artefact("box.json");
        if (reference === null || left === null) {
            throw new PluginError("there is no reference, or no box.json");
        }
        return left === reference ? scored(1, { because: "as ordered" }) : scored(0, { because: "not as ordered" });
    }
}
