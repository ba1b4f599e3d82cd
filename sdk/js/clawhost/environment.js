// Environments: they publish tasks and answer actions.

import { message } from "./values.js";

/** The episode continues with this observation. */
export function continueWith(text) {
    return { text, status: { tag: "running" } };
}

/** The episode is terminated, with this observation. */
export function done(text) {
    return { text, status: { tag: "terminated" } };
}

/** The episode is truncated for a reason outside the task. */
export function stop(text, reason) {
    return { text, status: { tag: "truncated", val: reason } };
}

/**
 * An environment with text observations and actions: the common case.
 *
 * The host makes a new instance for every episode, so `this` is one episode. Equal seeds must give equal episodes.
 */
export class Environment {
    static name = "";
    static version = "0.1.0";
    static summary = "";
    static systemHint = null;

    /** Begins an episode. Returns the agent's first observation. A `PluginError` fails the episode: it is not scored. */
    start(task, seed) {
        throw new Error(`start(${task}, ${seed}) is not there`);
    }

    /**
     * Executes an action: returns what `continueWith`, `done` or `stop` gives. `signals` is an object of numbers. A `PluginError` is the
     * agent's next observation, and the signal `invalid_action` is 1.
     */
    step(action, signals) {
        throw new Error(`step(${action}, ${signals}) is not there`);
    }
}

function artefact(name, mediaType, content) {
    const bytes = typeof content === "string" ? Uint8Array.from(unescape(encodeURIComponent(content)), (byte) => byte.charCodeAt(0)) : content;
    return { name, mediaType, bytes, extra: [] };
}

/** The beginning of an episode. A tool is `{ name, description, schema }`; the schema of its arguments is JSON Schema, as an object. */
export class Opening {
    constructor(text = "", tools = [], systemHint = null) {
        this.text = text;
        this.tools = tools;
        this.systemHint = systemHint;
        this.artefacts = [];
    }

    /** Adds an artefact that exists before the first action. If the agent never acts, it is also the final one. */
    leave(name, mediaType, content) {
        this.artefacts.push(artefact(name, mediaType, content));
        return this;
    }
}

/** The result of an action. The episode continues, unless it is done or stopped. */
export class Step {
    observation = [];
    artefacts = [];
    status = { tag: "running" };

    /** Adds a text to the observation. */
    say(text) {
        this.observation.push(message("user", text));
        return this;
    }

    /** Adds the answer to a tool call. */
    answer(call, text) {
        this.observation.push(message("tool", text, call.id));
        return this;
    }

    /** Adds an artefact. A later one replaces an earlier one with the same name. */
    leave(name, mediaType, content) {
        this.artefacts.push(artefact(name, mediaType, content));
        return this;
    }

    /** The episode is terminated. */
    done() {
        this.status = { tag: "terminated" };
        return this;
    }

    /** The episode is truncated for a reason outside the task. */
    stop(reason) {
        this.status = { tag: "truncated", val: reason };
        return this;
    }
}

/** An environment with messages: the second level, with tool calls, tasks, options, artefacts and snapshots. */
export class MessageEnvironment {
    static name = "";
    static version = "0.1.0";
    static summary = "";
    /** Whether `snapshot` and `restore` work. */
    static snapshots = false;
    /** How many tasks each split has. */
    static splits = { train: 1000, val: 200, test: 200 };
    /** All options that this environment reads, each as `{ name, usual, summary }`. The host refuses others. */
    static options = [];

    /** Throws `PluginError` if the operator's options make no sense. */
    static check(context) {
        void context;
    }

    /** Tasks of a split from `offset` on, at most `limit`. Equal contexts must give equal tasks, and no task is in two splits. */
    static tasks(context, split, offset, limit) {
        return this.positions(split, offset, limit).map((position) => ({ split, id: `${split}-${position}`, input: "" }));
    }

    /** The positions that a request for tasks asks for. */
    static positions(split, offset, limit) {
        const end = Math.min(this.splits[split] ?? 0, Number(offset) + limit);
        return Array.from({ length: Math.max(end - Number(offset), 0) }, (_, at) => Number(offset) + at);
    }

    /** Begins an episode: returns an `Opening`. `params` has `task`, `context` and `maxTurns`. A `PluginError` fails it: it is not scored. */
    start(params) {
        throw new Error(`start(${params}) is not there`);
    }

    /**
     * Executes an action: returns a `Step`. `action` has `text`, `toolCalls`, each with `id`, `name` and `arguments` (an object), and
     * `refused`. A `PluginError` is the answer to each of its calls, or the agent's next observation.
     */
    step(action, signals) {
        throw new Error(`step(${action}, ${signals}) is not there`);
    }

    /** The whole state, as bytes. */
    snapshot() {
        throw new Error("snapshot() is not there");
    }

    /** Continues from a state that `snapshot` gave, instead of `start`. */
    restore(params, state) {
        throw new Error(`restore(${params}, ${state}) is not there`);
    }
}
