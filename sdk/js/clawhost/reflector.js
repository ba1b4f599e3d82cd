// Reflectors: they propose lessons from episodes. A proposal is data: the host measures it before it is served.

function entry(lesson) {
    const { text, tags = [], needs = [], id = "", extra = {} } = typeof lesson === "string" ? { text: lesson } : lesson;
    return { id, text, tags, needs, extra: Object.entries(extra) };
}

/** Suggestions. A lesson is a text, or `{ text, tags, needs, id, extra }`. Each may name up to 64 episodes that show it: `[[id, turns]]`. */
export const Proposal = {
    /** A new entry. */
    add: (lesson, expectedEffect, seenIn = []) => proposal({ tag: "add", val: entry(lesson) }, expectedEffect, seenIn),
    /** Another entry in the place of the one with this id. */
    update: (id, lesson, expectedEffect, seenIn = []) =>
        proposal({ tag: "update", val: { ...entry(lesson), id } }, expectedEffect, seenIn),
    /** Takes the entry with this id out. */
    retire: (id, expectedEffect, seenIn = []) => proposal({ tag: "retire", val: id }, expectedEffect, seenIn),
    /** One entry in the place of several. */
    merge: (ids, lesson, expectedEffect, seenIn = []) =>
        proposal({ tag: "merge", val: [ids, entry(lesson)] }, expectedEffect, seenIn),
    /** Another text for a section. */
    rewriteSection: (name, text, expectedEffect, seenIn = []) =>
        proposal({ tag: "rewrite-section", val: [name, text] }, expectedEffect, seenIn),
};

function proposal(change, expectedEffect, seenIn) {
    const evidence = seenIn.map(([episode, turns]) => ({ episode, turns, extra: [] }));
    return { change, evidence, expectedEffect, extra: [] };
}

/** A reflector. */
export class Reflector {
    static name = "";
    static version = "0.1.0";
    static summary = "";
    /** All options that this reflector reads, each as `{ name, usual, summary }`. The host refuses others. */
    static options = [];

    /** Throws `PluginError` if the operator's options make no sense. */
    static check(context) {
        void context;
    }

    /** Proposals from these episodes, at most 64. Throws `ModelError` if a model is why there are none. */
    reflect(episodes, playbook, context) {
        throw new Error(`reflect(${episodes}, ${playbook}, ${context}) is not there`);
    }
}
