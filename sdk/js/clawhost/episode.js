// Recorded episodes, as rewards and reflectors read them.

import { taskOf, textOf } from "./values.js";

// The host returns at most this many turns at once.
const PAGE = 64;
const CORRECTION = "correction: ";

/** One recorded episode. It is read lazily: only what is asked for is copied into the plugin. */
export class Episode {
    #view;

    constructor(view) {
        this.#view = view;
    }

    /** Unique inside its run. */
    get id() {
        return this.#view.id();
    }

    /** The task as it was published before the episode. Rewards see its `reference`. */
    get task() {
        return taskOf(this.#view.task());
    }

    /** The tools on offer. */
    get tools() {
        return this.#view.tools();
    }

    /** The environment's name. */
    get environment() {
        return this.#view.environment();
    }

    /** The number of turns. */
    get turnCount() {
        return this.#view.turnCount();
    }

    /** All turns from `start` on. */
    turns(start = 0) {
        const found = [];
        for (;;) {
            const page = this.#view.turns(start + found.length, PAGE);
            if (page.length === 0) {
                return found;
            }
            found.push(...page);
        }
    }

    /** The text of the agent's last message; empty if it never acted. */
    lastAnswer() {
        const count = this.turnCount;
        return count === 0 ? "" : textOf(this.#view.turns(count - 1, 1)[0].action);
    }

    /** The environment's messages after the last action. */
    closing() {
        return this.#view.closing();
    }

    /** What the user of a live session says its answers should have been, a text for each correction. */
    corrections() {
        const lines = this.closing()
            .filter((one) => one.origin === "environment")
            .flatMap((one) => textOf(one).split("\n"));
        const texts = lines.filter((line) => line.startsWith(CORRECTION)).map((line) => line.slice(CORRECTION.length).trim());
        return texts.filter((text) => text !== "");
    }

    /** How it ended: `{ tag, val }`. */
    get ending() {
        return this.#view.ending();
    }

    /** The last value of every signal, as an object. */
    get signals() {
        return Object.fromEntries(this.#view.signals().map(({ name, value }) => [name, value]));
    }

    /** The text of the artefact with this name, or `null`. */
    artefact(name) {
        const found = this.#view.artefact(name);
        return found ? decodeURIComponent(escape(String.fromCharCode(...found.bytes))) : null;
    }

    /** The bytes of the artefact with this name, or `null`. */
    artefactBytes(name) {
        return this.#view.artefact(name)?.bytes ?? null;
    }

    /** What the run's rewards gave it. For reflectors only: `null` in rewards, and where it was not scored. */
    get reward() {
        return this.#view.reward() ?? null;
    }
}

/** Calls `work` with the episodes of a group, and gives their handles back. */
export function reading(group, work) {
    const handles = Array.from({ length: group.size() }, (_, index) => group.episode(index));
    try {
        return work(handles.map((handle) => new Episode(handle)));
    } finally {
        handles.forEach((handle) => handle[Symbol.dispose]());
    }
}
