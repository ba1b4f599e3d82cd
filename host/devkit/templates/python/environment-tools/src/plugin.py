import json

from clawhost import Action, Context, Error, MessageEnvironment, Opening, Params, Random, Step, Task, Tool, ToolCall

BOX = "box.json"
FRUIT = {"type": "integer", "minimum": 0}
FRUITS = {"type": "object", "properties": {"apples": FRUIT, "pears": FRUIT}, "required": ["apples", "pears"]}


def packed(apples: int, pears: int) -> str:
    """What is in a box."""
    return json.dumps({"apples": apples, "pears": pears}, separators=(",", ":"))


def fruits(call: ToolCall) -> str:
    """What a call asks for. The arguments are JSON, but may not fit the schema."""
    asked = call.read()
    apples, pears = asked.get("apples"), asked.get("pears")
    if type(apples) is not int or type(pears) is not int:
        raise Error("apples and pears must be whole numbers")
    return packed(apples, pears)


class {{type}}(MessageEnvironment):
    """One episode: an order, and the box in which it is packed."""

    name = "{{name}}"
    version = "0.1.0"
    summary = "pack what an order asks for, with tools"

    @classmethod
    def tasks(cls, context: Context, split: str, offset: int, limit: int) -> list[Task]:
        """Equal contexts give equal tasks, and no task is in two splits. The reference is JSON, for rewards only."""
        return [cls.order(context.seed, split, at) for at in range(offset, min(cls.splits[split], offset + limit))]

    @staticmethod
    def order(seed: int, split: str, position: int) -> Task:
        random = Random.at(seed, split, position)
        apples, pears = random.between(1, 9), random.between(1, 9)
        id = f"{split}-{position}"
        text = f"Order {id}\napples: {apples}\npears: {pears}\npacked: no"
        return Task(split, id, text, reference=packed(apples, pears))

    def start(self, params: Params) -> Opening:
        self.box = packed(0, 0)
        tools = [
            Tool("pack", "Puts so much fruit into the box, in place of what is in it.", FRUITS),
            Tool("send", "Sends the box. This ends the episode.", {"type": "object"}),
        ]
        # The artefact before the first action. If the agent never acts, it is also the final one.
        return Opening(params.task.input, tools).leave(BOX, "application/json", self.box)

    def step(self, action: Action, signals: dict[str, float]) -> Step:
        step = Step()
        for call in action.tool_calls:
            if call.name == "pack":
                self.pack(call, step)
            else:
                step.answer(call, "The box is on its way.").done()
        if not action.tool_calls and not action.refused:
            step.say("Nothing happened: use a tool.")
        return step.leave(BOX, "application/json", self.box)

    def pack(self, call: ToolCall, step: Step) -> None:
        try:
            self.box = fruits(call)
            step.answer(call, "packed: yes")
        except Error as error:
            step.answer(call, str(error))
