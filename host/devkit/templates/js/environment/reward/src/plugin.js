import { Reward, scored } from "clawhost";

/** Judges what the host recorded, in a sandbox of its own: an environment never scores itself. */
export default class {{type}}Reward extends Reward {
    static name = "{{name}}-reward";
    static version = "0.1.0";
    static summary = "1 if the answer was right";
    static reads = ["signal right"];

    score(episode) {
        const { right } = episode.signals;
        return right === undefined ? scored(0, { because: "there was no answer" }) : scored(right);
    }
}
