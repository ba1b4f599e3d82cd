"""Values that environments, rewards and reflectors share."""

import json
from dataclasses import dataclass, field

from wit_world.imports import types as wit

from .error import Error

ABOUT_SDK = ("sdk", "python 0.1.0")


@dataclass
class Option:
    """Something that an operator may choose: `plugin.wasm?name=value`."""

    name: str
    default: str
    summary: str


class Context:
    """The seed, and what the operator chose."""

    def __init__(self, seed: int, options: list[tuple[str, str]]):
        self.seed = seed
        self.options = dict(options)

    def option(self, name: str, default: str = "") -> str:
        """The operator's value of an option, or the default."""
        return self.options.get(name, default)

    def number(self, name: str, default: int) -> int:
        """The operator's value of an option, a whole number. Raises `Error` if it is none."""
        text = self.options.get(name)
        if text is None:
            return default
        # Compared as text: `int` would also take " 4", "4_0" and digits of other scripts.
        if text.isascii() and text.removeprefix("-").isdigit():
            return int(text)
        raise Error(f"{name}={text[:20]} cannot be read; write it as in {name}={default}")


@dataclass
class Task:
    """Something to do. The reference is JSON, for rewards only."""

    split: str
    id: str
    input: str
    reference: str | None = None
    tags: list[str] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)

    def to_wit(self) -> wit.Task:
        return wit.Task(self.id, self.split, self.input, self.reference, self.tags, list(self.extra.items()))

    @classmethod
    def of_wit(cls, task: wit.Task) -> "Task":
        return cls(task.split, task.id, task.input, task.reference, task.tags, dict(task.extra))


@dataclass
class Tool:
    """A tool that the agent may call. The schema of its arguments is JSON Schema, as a dictionary."""

    name: str
    description: str
    schema: dict

    def to_wit(self) -> wit.ToolSpec:
        return wit.ToolSpec(self.name, self.description, json.dumps(self.schema), [])


@dataclass
class ToolCall:
    """A call of a tool."""

    id: str
    name: str
    arguments: str

    def read(self) -> dict:
        """The arguments. In an environment they are a JSON object: the host has checked it. They may still not fit the schema."""
        return json.loads(self.arguments)


def text_of(message: wit.Message) -> str:
    """The text of a message: its text and JSON parts, a line each."""
    return "\n".join(part.value for part in message.parts if isinstance(part, (wit.Part_Text, wit.Part_Json)))


def message(role: wit.Role, text: str, answers: str | None = None) -> wit.Message:
    """A message of a plugin. The host writes `origin` itself."""
    return wit.Message(role, [wit.Part_Text(text)], [], answers, wit.Origin.ENVIRONMENT, [])


def about(plugin: type, features: list[str], extra: list[tuple[str, str]]) -> wit.About:
    options = [wit.OptionSpec(option.name, option.summary, option.default, []) for option in plugin.options()]
    return wit.About(plugin.name, plugin.version, plugin.summary, features, options, [ABOUT_SDK, *extra])
