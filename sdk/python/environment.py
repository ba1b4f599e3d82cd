"""The interface `environment`, as the host calls it. componentize-py looks for the class `Episode` in a module with this name."""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import environment as wit
from wit_world.imports import types

from clawhost.environment import Action, Continue, Done, Environment as TextEnvironment
from clawhost.environment import MessageEnvironment, Opening, Params, Step
from clawhost.error import Error
from clawhost.plugin import the_class
from clawhost.values import Context, Task, ToolCall, about, message, text_of


class _OfText(MessageEnvironment):
    """An environment of text, as one of messages."""

    plugin: type[TextEnvironment]

    def __init__(self) -> None:
        self.inner = self.plugin()

    def start(self, params: Params) -> Opening:
        text = self.inner.start(params.task.input, params.context.seed)
        return Opening(text, system_hint=self.inner.system_hint)

    def step(self, action: Action, signals: dict[str, float]) -> Step:
        following = self.inner.step(action.text, signals)
        step = Step().say(following.text)
        if isinstance(following, Done):
            step.done()
        elif not isinstance(following, Continue):
            step.stop(following.reason)
        return step


def _messages(plugin: type) -> type[MessageEnvironment]:
    if issubclass(plugin, MessageEnvironment):
        return plugin
    names = {"plugin": plugin, "name": plugin.name, "version": plugin.version, "summary": plugin.summary}
    return type(plugin.__name__, (_OfText,), names)


PLUGIN = _messages(the_class(TextEnvironment, MessageEnvironment))


def _params(params: wit.Params) -> Params:
    context = Context(params.context.seed, params.context.options)
    return Params(Task.of_wit(params.task), context, params.max_turns)


def _error(step: Step, action: Action, text: str) -> Step:
    if not action.tool_calls:
        return step.say(text)
    for call in action.tool_calls:
        step.answer(call, text)
    return step


class Environment(exports.Environment):
    def describe(self) -> wit.Description:
        features = ["snapshot"] if PLUGIN.snapshots else []
        splits = [wit.Split(name, tasks, []) for name, tasks in PLUGIN.splits.items()]
        return wit.Description(about(PLUGIN, features, []), splits, [])

    def check(self, options: list[tuple[str, str]]) -> None:
        try:
            PLUGIN.check(Context(0, options))
        except Error as error:
            raise Err(wit.EnvError_InvalidOption(str(error))) from error

    def tasks(self, context: types.Context, split: str, offset: int, limit: int) -> list[types.Task]:
        try:
            found = PLUGIN.tasks(Context(context.seed, context.options), split, offset, limit)
        except Error as error:
            raise Err(wit.EnvError_Other(str(error))) from error
        return [task.to_wit() for task in found]


class Episode:
    def __init__(self, inner: MessageEnvironment):
        self.inner = inner

    @classmethod
    def start(cls, params: wit.Params) -> tuple["Episode", wit.Opening]:
        inner = PLUGIN()
        try:
            opening = inner.start(_params(params))
        except Error as error:
            raise Err(wit.EnvError_Other(str(error))) from error
        said = [message(types.Role.USER, opening.text)] if opening.text else []
        tools = [tool.to_wit() for tool in opening.tools]
        return cls(inner), wit.Opening(said, tools, opening.artefacts, opening.system_hint, [])

    @classmethod
    def restore(cls, params: wit.Params, state: bytes) -> "Episode":
        inner = PLUGIN()
        if not PLUGIN.snapshots:
            raise Err(wit.EnvError_Unsupported("this environment has no snapshots"))
        try:
            inner.restore(_params(params), state)
        except Error as error:
            raise Err(wit.EnvError_InvalidSnapshot(str(error))) from error
        return cls(inner)

    def snapshot(self) -> bytes:
        if not PLUGIN.snapshots:
            raise Err(wit.EnvError_Unsupported("this environment has no snapshots"))
        return self.inner.snapshot()

    def step(self, action: wit.Action) -> wit.StepResult:
        calls = [ToolCall(call.id, call.name, call.arguments) for call in action.message.tool_calls]
        taken = Action(text_of(action.message), calls, action.tool_results)
        signals: dict[str, float] = {}
        try:
            step = self.inner.step(taken, signals)
        except Error as error:
            signals["invalid_action"] = 1.0
            step = _error(Step(), taken, str(error))
        status: wit.Status = wit.Status_Running()
        if step.is_done:
            status = wit.Status_Terminated()
        elif step.stop_reason is not None:
            status = wit.Status_Truncated(step.stop_reason)
        measured = [types.Signal(name, float(value)) for name, value in signals.items()]
        return wit.StepResult(step.observation, status, measured, step.artefacts, [])
