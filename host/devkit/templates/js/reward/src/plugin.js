import { notApplicable, Reward, scored } from "clawhost";

/** Compares the last answer with the task's reference, which is JSON: a text in quotes, or a number. */
export default class {{type}} extends Reward {
    static name = "{{name}}";
    static version = "0.1.0";
    static summary = "1 if the last answer is the reference";
    static reads = ["reference"];

    score(episode) {
        const { reference } = episode.task;
        if (reference === null) {
            return notApplicable("the task has no reference");
        }
        const wanted = reference.replace(/^"|"$/g, "");
        return scored(episode.lastAnswer().trim() === wanted ? 1 : 0, { because: `wanted \`${wanted}\`` });
    }
}
