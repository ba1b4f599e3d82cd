// Values that environments, rewards and reflectors share.

import log from "clawhost:log/log@0.1.0";
import { PluginError } from "./error.js";

const ABOUT_SDK = ["sdk", "js 0.1.0"];

/** The seed, and what the operator chose. */
export class Context {
    constructor(seed, options) {
        this.seed = seed;
        this.options = new Map(options);
    }

    /** The operator's value of an option, or the default. */
    option(name, usual = "") {
        return this.options.get(name) ?? usual;
    }

    /** The operator's value of an option, a whole number. Throws `PluginError` if it is none. */
    number(name, usual) {
        const text = this.options.get(name);
        if (text === undefined) {
            return usual;
        }
        if (/^-?[0-9]{1,15}$/.test(text)) {
            return Number(text);
        }
        throw new PluginError(`${name}=${text.slice(0, 20)} cannot be read; write it as in ${name}=${usual}`);
    }
}

/** The text of a message: its text and JSON parts, a line each. */
export function textOf(message) {
    return message.parts
        .filter((part) => part.tag === "text" || part.tag === "json")
        .map((part) => part.val)
        .join("\n");
}

/** A message of a plugin. The host writes `origin` itself. */
export function message(role, text, answers = null) {
    return {
        role,
        parts: [{ tag: "text", val: text }],
        toolCalls: [],
        toolCallId: answers,
        origin: "environment",
        extra: [],
    };
}

/** A task, as authors see it: `extra` is an object. */
export function taskOf(task) {
    return { ...task, reference: task.reference ?? null, extra: Object.fromEntries(task.extra) };
}

/** A task for the host, with the fields that an author left out. */
export function taskFor(task) {
    const { id, split, input = "", reference = null, tags = [], extra = {} } = task;
    return { id, split, input, reference, tags, extra: Object.entries(extra) };
}

export function about(plugin, features, extra) {
    const options = plugin.options.map(({ name, usual, summary }) => ({ name, summary, defaultValue: String(usual), extra: [] }));
    const { name, version, summary } = plugin;
    return { name, version, summary, features, options, extra: [ABOUT_SDK, ...extra] };
}

/** Answers a call of the host. A `PluginError` becomes what `refuse` makes of it; any other exception is a bug, which is logged. */
export function answering(work, refuse) {
    try {
        return work();
    } catch (error) {
        if (error instanceof PluginError) {
            return refuse(error);
        }
        bug(error);
        throw error;
    }
}

/** Logs an exception: its text is lost otherwise. */
export function bug(error) {
    if (!error?.tag) {
        log.write("error", `${error}\n${error?.stack ?? ""}`);
    }
}
