"""An environment plugin: tasks of the datasets of one group of the library reasoning-gym.

The file has to be called `environment.py`, see `examples/python-quiz`, which explains the rules of the sandbox.
"""

import json

import draw
import group
import library
import wire
from componentize_py_types import Err
from reasoning_gym.dataset import ProceduralDataset
from wit_world import exports
from wit_world.exports.environment import (
    Action,
    Description,
    EnvError_InvalidOption,
    EnvError_Other,
    EnvError_UnknownTask,
    EnvError_Unsupported,
    Opening,
    Params,
    Split,
    Status_Terminated,
    StepResult,
)
from wit_world.imports.types import About, Context, Message, OptionSpec, Origin, Part_Text, Role, Task

library.warm_all()


def dataset_name(options: list[tuple[str, str]]) -> str:
    """The operator's choice. The host refuses unknown names of options, but knows nothing about values."""
    name = library.chosen(options)
    if name is None:
        value = dict(options)["dataset"][:40]
        raise Err(EnvError_InvalidOption(f"dataset={value!r}: must be one of {library.names()}"))
    return name


def reference(name: str, dataset: ProceduralDataset, index: int, entry: dict) -> str:
    """All that the reward needs, as JSON. `config` and `index` say how to make the entry again."""
    config = {"seed": dataset.seed, "size": dataset.size, **group.DATASETS[name]["config"]}
    return json.dumps({"dataset": name, "config": config, "index": index, "entry": wire.encode(entry)})


def task_at(name: str, dataset: ProceduralDataset, split: str, place: int) -> Task:
    for index in draw.indices(split, place):
        entry = dataset[index]
        if draw.home(name, entry["question"]) == split:
            return Task(
                id=f"{split}-{place}",
                split=split,
                input=entry["question"],
                reference=reference(name, dataset, index, entry),
                tags=[name],
                extra=[],
            )
    raise Err(EnvError_Other(f"{name}: no question for {split}-{place} in {draw.DRAWS} draws"))


def message(text: str) -> Message:
    """A message of the environment. The host writes `origin` itself."""
    return Message(
        role=Role.USER,
        parts=[Part_Text(text)],
        tool_calls=[],
        tool_call_id=None,
        origin=Origin.ENVIRONMENT,
        extra=[],
    )


class Environment(exports.Environment):
    """The functions of the interface."""

    def describe(self) -> Description:
        about = About(
            name=group.NAME,
            version=group.VERSION,
            summary=group.SUMMARY,
            features=[],
            options=[
                OptionSpec(
                    name="dataset",
                    summary=f"one of {library.names()}",
                    default_value=library.DEFAULT,
                    extra=[],
                )
            ],
            extra=[],
        )
        splits = [Split(name, tasks, extra=[]) for name, tasks in draw.SPLITS.items()]
        return Description(about, splits, extra=[])

    def check(self, options: list[tuple[str, str]]) -> None:
        dataset_name(options)

    def tasks(self, context: Context, split: str, offset: int, limit: int) -> list[Task]:
        name = dataset_name(context.options)
        if split not in draw.SPLITS:
            raise Err(EnvError_Other(f"no split {split[:100]!r}: there are {', '.join(draw.SPLITS)}"))
        # Fewer than asked for: a call has a budget, and the host asks again.
        end = min(draw.SPLITS[split], offset + min(limit, group.DATASETS[name]["page"]))
        if offset >= end:
            return []
        dataset = library.make(name, draw.dataset_seed(context.seed, split), draw.dataset_size(split))
        return [task_at(name, dataset, split, place) for place in range(offset, end)]


class Episode(exports.environment.Episode):
    """One question, one answer."""

    @classmethod
    def start(cls, params: Params) -> tuple["Episode", Opening]:
        question = params.task.input
        if not question:
            raise Err(EnvError_UnknownTask(f"{params.task.id[:100]}: no question in it"))
        opening = Opening(
            observation=[message(question)],
            tools=[],
            artefacts=[],
            system_hint="Answer with the final answer in the format that is asked for, and nothing else.",
            extra=[],
        )
        return cls(), opening

    @classmethod
    def restore(cls, params: Params, state: bytes) -> "Episode":
        raise Err(EnvError_Unsupported(f"{group.NAME} has no snapshots"))

    def step(self, action: Action) -> StepResult:
        # The reward judges the answer: the episode does not know the right one.
        return StepResult(
            observation=[message("Thank you.")],
            status=Status_Terminated(),
            signals=[],
            artefacts=[],
            extra=[],
        )

    def snapshot(self) -> bytes:
        raise Err(EnvError_Unsupported(f"{group.NAME} has no snapshots"))
