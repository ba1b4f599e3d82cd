import { MessageEnvironment, Opening, PluginError, Random, Step } from "clawhost";

const BOX = "box.json";
const FRUIT = { type: "integer", minimum: 0 };
const FRUITS = { type: "object", properties: { apples: FRUIT, pears: FRUIT }, required: ["apples", "pears"] };

/** What is in a box. */
function packed(apples, pears) {
    return JSON.stringify({ apples, pears });
}

/** What a call asks for. The arguments are JSON, but may not fit the schema. */
function fruits({ apples, pears }) {
    if (!Number.isInteger(apples) || !Number.isInteger(pears)) {
        throw new PluginError("apples and pears must be whole numbers");
    }
    return packed(apples, pears);
}

/** One episode: an order, and the box in which it is packed. */
export default class {{type}} extends MessageEnvironment {
    static name = "{{name}}";
    static version = "0.1.0";
    static summary = "pack what an order asks for, with tools";

    // Equal contexts give equal tasks, and no task is in two splits. The reference is JSON, for rewards only.
    static tasks(context, split, offset, limit) {
        return this.positions(split, offset, limit).map((position) => {
            const random = Random.at(context.seed, split, position);
            const [apples, pears] = [random.between(1, 9), random.between(1, 9)];
            const id = `${split}-${position}`;
            const input = `Order ${id}\napples: ${apples}\npears: ${pears}\npacked: no`;
            return { split, id, input, reference: packed(apples, pears) };
        });
    }

    start(params) {
        this.box = packed(0, 0);
        const tools = [
            { name: "pack", description: "Puts so much fruit into the box, in place of what is in it.", schema: FRUITS },
            { name: "send", description: "Sends the box. This ends the episode.", schema: { type: "object" } },
        ];
        // The artefact before the first action. If the agent never acts, it is also the final one.
        return new Opening(params.task.input, tools).leave(BOX, "application/json", this.box);
    }

    step(action) {
        const step = new Step();
        for (const call of action.toolCalls) {
            if (call.name === "pack") {
                step.answer(call, this.pack(call.arguments));
            } else {
                step.answer(call, "The box is on its way.").done();
            }
        }
        if (action.toolCalls.length === 0 && action.refused.length === 0) {
            step.say("Nothing happened: use a tool.");
        }
        return step.leave(BOX, "application/json", this.box);
    }

    pack(asked) {
        try {
            this.box = fruits(asked);
            return "packed: yes";
        } catch (error) {
            return error.message;
        }
    }
}
