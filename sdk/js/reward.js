// The interface `reward`, as the host calls it.

import Plugin from "./plugin.js";
import { reading } from "clawhost/episode.js";
import { Reward } from "clawhost/reward.js";
import { about, Context, answering } from "clawhost/values.js";

if (!(Plugin?.prototype instanceof Reward)) {
    throw new Error("the default export of src/plugin.js must be a class that extends Reward");
}

const error = (tag) => (error) => {
    throw { tag, val: error.message };
};

export const reward = {
    describe() {
        const { range, source, scope, reads } = Plugin;
        const described = about(Plugin, [], reads.map((what) => ["reads", what]));
        return { about: described, minimum: range[0], maximum: range[1], source: { tag: source }, scope, extra: [] };
    },

    check(options) {
        answering(() => void Plugin.check(new Context(0, options)), error("invalid-option"));
    },

    score(context, group) {
        const chosen = new Context(context.seed, context.options);
        return answering(() => reading(group, (episodes) => new Plugin().scoreGroup(episodes, chosen)), error("other"));
    },
};
