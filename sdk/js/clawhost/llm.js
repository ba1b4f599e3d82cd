// Models that the operator granted (`--grant llm:ALIAS=SPEC`), for judges, reflectors and simulated users. claw.toml names the alias in `llm`
// of [grants].

import llm from "clawhost:llm/llm@0.1.0";
import { ModelError } from "./error.js";
import { message, textOf } from "./values.js";

/** Asks one question, at temperature 0. Throws `ModelError` if there is no answer. */
export function ask(alias, question, maxTokens = 512) {
    const messages = [message("user", question)];
    const request = { alias, messages, tools: [], maxTokens, temperature: 0, seed: null, stop: [], extra: [] };
    try {
        return textOf(llm.complete(request).message);
    } catch (error) {
        const { tag, val } = error.payload ?? error;
        throw tag ? new ModelError(`${alias}: ${tag}: ${val}`) : error;
    }
}
