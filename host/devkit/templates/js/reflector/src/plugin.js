import { Proposal, Reflector, textOf } from "clawhost";

// The beginning of a line in which an environment says what it expected.
const EXPECTED = "expected: ";

/** Makes a lesson of every line that says what was expected. A proposal is data: the host measures it before it is served. */
export default class {{type}} extends Reflector {
    static name = "{{name}}";
    static version = "0.1.0";
    static summary = "proposes lessons from what the environment says at the end";

    reflect(episodes, playbook) {
        const bad = episodes.filter((episode) => episode.reward !== null && episode.reward < 1);
        const lines = bad.flatMap((episode) => episode.closing()).flatMap((message) => textOf(message).split("\n"));
        const expected = lines.filter((line) => line.startsWith(EXPECTED));
        const lessons = new Set(expected.map((line) => `always: ${line.slice(EXPECTED.length)}`));
        playbook.entries.forEach((entry) => lessons.delete(entry.text));
        return [...lessons].sort().map((lesson) => Proposal.add(lesson, "does what was expected"));
    }
}
