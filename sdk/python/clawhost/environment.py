"""Environments: they publish tasks and answer actions."""

from dataclasses import dataclass, field

from wit_world.imports import types as wit

from .values import Context, Option, Task, Tool, ToolCall, message


@dataclass
class Continue:
    """The episode continues with this observation."""

    text: str


@dataclass
class Done:
    """The episode is terminated, with this observation."""

    text: str


@dataclass
class Stop:
    """The episode is truncated for a reason outside the task."""

    text: str
    reason: str


Next = Continue | Done | Stop


class Environment:
    """An environment with text observations and actions: the common case.

    The host makes a new instance for every episode, so `self` is one episode. Equal seeds must give equal episodes.
    """

    name = ""
    version = "0.1.0"
    summary = ""
    system_hint: str | None = None

    def start(self, task: str, seed: int) -> str:
        """Begins an episode. The text is the agent's first observation. An `Error` fails the episode: it is not scored."""
        raise NotImplementedError

    def step(self, action: str, signals: dict[str, float]) -> Next:
        """Executes an action. An `Error` is the agent's next observation, and the signal `invalid_action` is 1."""
        raise NotImplementedError


@dataclass
class Params:
    """The parameters of an episode."""

    task: Task
    context: Context
    max_turns: int


def _artefact(name: str, media_type: str, content: bytes | str) -> wit.Artefact:
    return wit.Artefact(name, media_type, content.encode() if isinstance(content, str) else content, [])


@dataclass
class Opening:
    """The beginning of an episode."""

    text: str = ""
    tools: list[Tool] = field(default_factory=list)
    system_hint: str | None = None
    artefacts: list[wit.Artefact] = field(default_factory=list)

    def leave(self, name: str, media_type: str, content: bytes | str) -> "Opening":
        """Adds an artefact that exists before the first action. If the agent never acts, it is also the final one."""
        self.artefacts.append(_artefact(name, media_type, content))
        return self


@dataclass
class Action:
    """What the agent did: its text, the calls of tools that can be run, and what the host answered to the others."""

    text: str
    tool_calls: list[ToolCall]
    refused: list[wit.Message]


class Step:
    """The result of an action. The episode continues, unless it is done or stopped."""

    def __init__(self) -> None:
        self.observation: list[wit.Message] = []
        self.artefacts: list[wit.Artefact] = []
        self.is_done = False
        self.stop_reason: str | None = None

    def say(self, text: str) -> "Step":
        """Adds a text to the observation."""
        self.observation.append(message(wit.Role.USER, text))
        return self

    def answer(self, call: ToolCall, text: str) -> "Step":
        """Adds the answer to a tool call."""
        self.observation.append(message(wit.Role.TOOL, text, call.id))
        return self

    def leave(self, name: str, media_type: str, content: bytes | str) -> "Step":
        """Adds an artefact. A later one replaces an earlier one with the same name."""
        self.artefacts.append(_artefact(name, media_type, content))
        return self

    def done(self) -> "Step":
        """The episode is terminated."""
        self.is_done = True
        return self

    def stop(self, reason: str) -> "Step":
        """The episode is truncated for a reason outside the task."""
        self.stop_reason = reason
        return self


class MessageEnvironment:
    """An environment with messages: the second level, with tool calls, tasks, options, artefacts and snapshots."""

    name = ""
    version = "0.1.0"
    summary = ""
    snapshots = False
    """Whether `snapshot` and `restore` work."""
    splits = {"train": 1000, "val": 200, "test": 200}
    """How many tasks each split has."""

    @classmethod
    def options(cls) -> list[Option]:
        """All options that this environment reads. The host refuses others."""
        return []

    @classmethod
    def check(cls, context: Context) -> None:
        """Raises `Error` if the operator's options make no sense."""

    @classmethod
    def tasks(cls, context: Context, split: str, offset: int, limit: int) -> list[Task]:
        """Tasks of a split from `offset` on, at most `limit`. Equal contexts must give equal tasks, and no task is in two splits."""
        end = min(cls.splits.get(split, 0), offset + limit)
        return [Task(split, f"{split}-{position}", "") for position in range(offset, end)]

    def start(self, params: Params) -> Opening:
        """Begins an episode. An `Error` fails it: it is not scored."""
        raise NotImplementedError

    def step(self, action: Action, signals: dict[str, float]) -> Step:
        """Executes an action. An `Error` is the answer to each of its calls, or the agent's next observation."""
        raise NotImplementedError

    def snapshot(self) -> bytes:
        """The whole state."""
        raise NotImplementedError

    def restore(self, params: Params, state: bytes) -> None:
        """Continues from a state that `snapshot` gave, instead of `start`."""
        raise NotImplementedError
