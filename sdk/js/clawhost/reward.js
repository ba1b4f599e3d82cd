// Rewards: they judge episodes.

import { PluginError } from "./error.js";

/**
 * It has a value, in the reward's range: the host refuses other values. Further: `because`, the reason, for people; `confidence`, 0 to 1;
 * `parts`, an object of numbers that the value is made of; `perTurn`, one value for each turn.
 */
export function scored(value, { because = "", confidence = 1, parts = {}, perTurn = [] } = {}) {
    const made = Object.entries(parts).map(([name, part]) => ({ name, value: part }));
    return { tag: "scored", val: { value: Number(value), confidence, parts: made, rationale: because, perTurn, extra: [] } };
}

/** This reward has nothing to say about the episode. Never a number. */
export function notApplicable(why) {
    return { tag: "not-applicable", val: why };
}

/** It could not be judged. Never a number. */
export function failed(why) {
    return { tag: "failed", val: why };
}

/** A reward. It runs in an instance of its own, never with the environment, and reads what the host recorded. */
export class Reward {
    static name = "";
    static version = "0.1.0";
    static summary = "";
    /** Smallest and largest value, in -1 to 1. */
    static range = [0, 1];
    /** Where its verdicts come from: `outcome`, `execution` or `judge`. The most reliable source decides. */
    static source = "outcome";
    /** What a verdict depends on: `each` episode alone, or the whole `group`. */
    static scope = "each";
    /** What it reads of an episode, as `signal NAME`, `artefact NAME`, `reference`: the host warns if no episode has any of it. */
    static reads = [];
    /** All options that this reward reads, each as `{ name, usual, summary }`. The host refuses others. */
    static options = [];

    /** Throws `PluginError` if the operator's options make no sense. */
    static check(context) {
        void context;
    }

    /** Judges one episode: returns what `scored`, `notApplicable` or `failed` gives. A `PluginError` is the verdict `failed`. */
    score(episode, context) {
        throw new Error(`score(${episode}, ${context}) is not there`);
    }

    /** Judges a group: exactly one verdict for each episode, in order. */
    scoreGroup(episodes, context) {
        return episodes.map((episode) => {
            try {
                return this.score(episode, context);
            } catch (error) {
                if (error instanceof PluginError) {
                    return failed(error.message);
                }
                throw error;
            }
        });
    }
}
