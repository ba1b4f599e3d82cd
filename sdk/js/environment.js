// The interface `environment`, as the host calls it.

import Plugin from "./plugin.js";
import { Environment, MessageEnvironment, Opening, Step } from "clawhost/environment.js";
import { about, Context, message, taskFor, taskOf, textOf, answering } from "clawhost/values.js";

/** An environment of text, as one of messages. */
class OfText extends MessageEnvironment {
    static name = Plugin.name;
    static version = Plugin.version;
    static summary = Plugin.summary;
    inner = new Plugin();

    start(params) {
        return new Opening(this.inner.start(params.task.input, params.context.seed), [], Plugin.systemHint);
    }

    step(action, signals) {
        const { text, status } = this.inner.step(action.text, signals);
        return Object.assign(new Step().say(text), { status });
    }
}

if (!(Plugin?.prototype instanceof Environment || Plugin?.prototype instanceof MessageEnvironment)) {
    throw new Error("the default export of src/plugin.js must be a class that extends Environment or MessageEnvironment");
}
const Own = Plugin.prototype instanceof MessageEnvironment ? Plugin : OfText;

function paramsOf(params) {
    const { seed, options } = params.context;
    return { task: taskOf(params.task), context: new Context(seed, options), maxTurns: params.maxTurns };
}

/** The result of an error: the agent reads it as the answer to each of its calls, or as an observation. */
function refused(action, text) {
    return action.toolCalls.length === 0
        ? new Step().say(text)
        : action.toolCalls.reduce((step, call) => step.answer(call, text), new Step());
}

const error = (tag) => (error) => {
    throw { tag, val: error.message };
};

class Episode {
    constructor(inner) {
        this.inner = inner;
    }

    static start(params) {
        const inner = new Own();
        const opening = answering(() => inner.start(paramsOf(params)), error("other"));
        const tools = opening.tools.map(({ name, description, schema }) => ({
            name,
            description,
            inputSchema: JSON.stringify(schema),
            extra: [],
        }));
        const observation = opening.text ? [message("user", opening.text)] : [];
        const { artefacts, systemHint } = opening;
        return [new Episode(inner), { observation, tools, artefacts, systemHint, extra: [] }];
    }

    static restore(params, state) {
        if (!Own.snapshots) {
            throw { tag: "unsupported", val: "this environment has no snapshots" };
        }
        const inner = new Own();
        answering(() => inner.restore(paramsOf(params), state), error("invalid-snapshot"));
        return new Episode(inner);
    }

    snapshot() {
        if (!Own.snapshots) {
            throw { tag: "unsupported", val: "this environment has no snapshots" };
        }
        return answering(() => this.inner.snapshot(), error("other"));
    }

    step(action) {
        const toolCalls = action.message.toolCalls.map(({ id, name, arguments: text }) => ({ id, name, arguments: JSON.parse(text) }));
        const taken = { text: textOf(action.message), toolCalls, refused: action.toolResults };
        let signals = {};
        const step = answering(
            () => this.inner.step(taken, signals),
            (error) => {
                signals.invalid_action = 1;
                return refused(taken, error.message);
            },
        );
        const measured = Object.entries(signals).map(([name, value]) => ({ name, value: Number(value) }));
        return { observation: step.observation, status: step.status, signals: measured, artefacts: step.artefacts, extra: [] };
    }
}

export const environment = {
    Episode,

    describe() {
        const splits = Object.entries(Own.splits).map(([name, tasks]) => ({ name, tasks, extra: [] }));
        return { about: about(Own, Own.snapshots ? ["snapshot"] : [], []), splits, extra: [] };
    },

    check(options) {
        answering(() => void Own.check(new Context(0, options)), error("invalid-option"));
    },

    tasks(context, split, offset, limit) {
        const chosen = new Context(context.seed, context.options);
        return answering(() => Own.tasks(chosen, split, offset, limit).map(taskFor), error("other"));
    },
};
