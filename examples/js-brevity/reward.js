// A reward plugin in JavaScript: how few words the policy needed.
//
// An exported interface is an exported object of the same name: `reward`. WIT names become camel case, a variant is
// `{ tag, val }`, an enum is its name as a string, `option<T>` is a value or null, and a function with a `result`
// returns its value or throws its error.
//
// Rules of the sandbox:
//
// - This module is evaluated once, while the component is built, and the result is frozen into it.
// - There is no console, and build.sh leaves WASI out: what needs a clock or entropy ends the plugin.
// - An exception that the WIT does not name ends the plugin too, and its text is lost: see `told`.
// - A `u64`, like `context.seed`, arrives as a number and is exact up to 2^53 only.
// - A loop over characters costs thousands of times what it costs in compiled code: let built-in functions do it, and
//   read no more than the answer needs.

import log from "clawhost:log/log@0.1.0";

// The option `words`: default, least and greatest value.
const WORDS = 20;
const FEWEST_WORDS = 1;
const MOST_WORDS = 1000;

// The score reaches 0 at this many times `words`.
const SPAN = 10;

// The host returns at most this many turns at once.
const PAGE = 64;

/** The operator's choice. The host refuses unknown names, but knows nothing about values: check them here. */
function allowance(options) {
    const value = new Map(options).get("words") ?? String(WORDS);
    const words = /^[0-9]{1,4}$/.test(value) ? Number(value) : NaN;
    if (words >= FEWEST_WORDS && words <= MOST_WORDS) {
        return words;
    }
    const range = `must be a whole number from ${FEWEST_WORDS} to ${MOST_WORDS}`;
    throw { tag: "invalid-option", val: `words="${value.slice(0, 20)}": ${range}` };
}

/** The words of a message, or `most` if there are more. Only text counts, of all that a policy may send. */
function countWords(message, most) {
    // Every 30 characters count as a word: omitting the spaces must not pay.
    const word = /\S{1,30}/g;
    let words = 0;
    for (const part of message.parts) {
        if (part.tag === "text") {
            word.lastIndex = 0;
            while (words < most && word.test(part.val)) {
                words++;
            }
        }
    }
    return words;
}

/** The words of all turns, or `most` if there are more. Read page by page: a long episode is never held as a whole. */
function wordsOf(episode, most) {
    let words = 0;
    let read = 0;
    while (words < most) {
        const page = episode.turns(read, PAGE);
        if (page.length === 0) {
            break;
        }
        read += page.length;
        for (const turn of page) {
            words += countWords(turn.action, most - words);
        }
    }
    return words;
}

function judge(episode, allowed) {
    // From `most` words on the value is 0, however many there are.
    const most = SPAN * allowed;
    const words = wordsOf(episode, most);
    if (words === 0) {
        // An empty answer is not brief: it must not pay.
        return { tag: "not-applicable", val: "the policy wrote no text" };
    }
    log.write("debug", `${episode.id()}: ${words} words`);
    return {
        tag: "scored",
        val: {
            // 1 up to `allowed` words, then falling in a straight line.
            value: Math.min(1, (most - words) / (most - allowed)),
            confidence: 1,
            parts: [{ name: "words", value: words }],
            rationale: `words: ${words}${words === most ? " or more" : ""}; 1 up to ${allowed}, 0 from ${most} on`,
            perTurn: [],
            extra: [],
        },
    };
}

/** One verdict per episode, in order. */
function judgeAll(context, group) {
    const allowed = allowance(context.options);
    const verdicts = [];
    for (let index = 0; index < group.size(); index++) {
        const episode = group.episode(index);
        try {
            verdicts.push(judge(episode, allowed));
        } finally {
            // A handle: release it when done, not when the garbage collector runs.
            episode[Symbol.dispose]();
        }
    }
    return verdicts;
}

/** Errors of the WIT pass; any other error is a bug here, and is converted to an error of the WIT. */
function told(answer) {
    try {
        return answer();
    } catch (error) {
        throw error.tag ? error : { tag: "other", val: `${error}\n${error.stack}` };
    }
}

export const reward = {
    describe() {
        return {
            about: {
                name: "js-brevity",
                version: "0.1.0",
                summary: "1 for a brief policy, falling to 0 for a long-winded one",
                features: [],
                options: [
                    {
                        name: "words",
                        summary: `how many words may be used for full marks, ${FEWEST_WORDS} to ${MOST_WORDS}`,
                        defaultValue: String(WORDS),
                        extra: [],
                    },
                ],
                extra: [],
            },
            minimum: 0,
            maximum: 1,
            // It judges the form of the answers, not the outcome: see `source` in the WIT.
            source: { tag: "execution" },
            scope: "each",
            extra: [],
        };
    },

    check(options) {
        return told(() => void allowance(options));
    },

    score(context, group) {
        return told(() => judgeAll(context, group));
    },
};
