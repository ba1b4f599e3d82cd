// The interface `reflector`, as the host calls it.

import Plugin from "./plugin.js";
import { reading } from "clawhost/episode.js";
import { ModelError } from "clawhost/error.js";
import { Reflector } from "clawhost/reflector.js";
import { about, Context, answering } from "clawhost/values.js";

if (!(Plugin?.prototype instanceof Reflector)) {
    throw new Error("the default export of src/plugin.js must be a class that extends Reflector");
}

const entryOf = (entry) => ({ ...entry, extra: Object.fromEntries(entry.extra) });

/** What is known so far, as authors see it. */
function playbookOf(playbook) {
    const { version, entries, sections, attempt, tried } = playbook;
    return { version, entries: entries.map(entryOf), sections: Object.fromEntries(sections), attempt, tried: tried.map(entryOf) };
}

export const reflector = {
    describe() {
        return about(Plugin, [], []);
    },

    check(options) {
        answering(
            () => void Plugin.check(new Context(0, options)),
            (error) => {
                throw { tag: "invalid-option", val: error.message };
            },
        );
    },

    reflect(context, playbook, group) {
        const chosen = new Context(context.seed, context.options);
        return answering(
            () => reading(group, (episodes) => new Plugin().reflect(episodes, playbookOf(playbook), chosen)),
            (error) => {
                throw { tag: error instanceof ModelError ? "model" : "other", val: error.message };
            },
        );
    },
};
