"""An environment plugin in Python: "Which word does not belong with the others?"

The file has to be called `environment.py`: componentize-py looks for a resource's class (`Episode`) in a module that is
named after the interface. The names imported from `wit_world` are generated from the WIT folder by build.sh.

Rules of the sandbox:

- This module is imported once, while the component is built, and the result is frozen into it. A module that is not imported
  then is not packed and cannot be imported later: import everything at the top.
- All randomness comes from `context.seed`. `random` and `time` work, but with a seed and a clock of the host.
- There is no file and no network. Printed text goes into the log, as does the traceback of an exception that is not
  caught; such an exception ends the plugin, so raise `Err` where the WIT has a `result`.
- A C stack that runs out ends the plugin, where elsewhere it would be a RecursionError. So do not parse JSON that the
  policy wrote, unless it is a tool call's arguments, which the host has checked.
"""

import json
import random
import string
import zlib

from componentize_py_types import Err
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
    Status_Running,
    Status_Terminated,
    Status_Truncated,
    StepResult,
)
from wit_world.imports import log
from wit_world.imports.types import (
    About,
    Context,
    Message,
    OptionSpec,
    Origin,
    Part_Text,
    Role,
    Signal,
    Task,
)

# How many tasks each split holds.
SPLITS = {"train": 400, "val": 100, "test": 100}

# How many replies the policy has.
TRIES = 3

# The option `words`: default, least and greatest value.
WORDS, FEWEST_WORDS, MOST_WORDS = 4, 3, 6

# At most this many tasks may be returned by one call of `tasks`.
PAGE = 256

# No word belongs to two topics.
TOPICS = [
    ["horse", "goat", "rabbit", "otter", "badger", "camel", "donkey", "zebra"],
    ["apple", "pear", "cherry", "mango", "apricot", "banana", "melon", "quince"],
    ["hammer", "saw", "drill", "pliers", "axe", "chisel", "screwdriver", "spade"],
    ["piano", "violin", "flute", "trumpet", "guitar", "drum", "harp", "cello"],
    ["table", "chair", "sofa", "bed", "wardrobe", "desk", "cupboard", "stool"],
    ["rain", "snow", "fog", "hail", "wind", "thunder", "frost", "sleet"],
    ["shirt", "coat", "sock", "glove", "scarf", "hat", "jacket", "trousers"],
    ["car", "bus", "tram", "bicycle", "lorry", "train", "ship", "ferry"],
]


def error(text: str) -> Err:
    """What a call raises when it cannot be answered."""
    return Err(EnvError_Other(text))


def word_count(options: list[tuple[str, str]]) -> int:
    """The operator's choice. The host refuses unknown names, but knows nothing about values: check them here."""
    value = dict(options).get("words", str(WORDS))
    # Compared as text: `int` would also take " 4", "4_0" and digits of other scripts.
    for count in range(FEWEST_WORDS, MOST_WORDS + 1):
        if value == str(count):
            return count
    raise Err(EnvError_InvalidOption(f"words={value[:20]!r}: must be a whole number from {FEWEST_WORDS} to {MOST_WORDS}"))


def home(choices: list[str]) -> str:
    """The split of a question, for every seed: so no question is in two splits."""
    bucket = zlib.crc32(" ".join(sorted(choices)).encode()) % 6
    return {0: "val", 1: "test"}.get(bucket, "train")


def question_at(seed: int, split: str, position: int, count: int) -> tuple[list[str], str]:
    """The choices and the correct one. They do not depend on earlier positions."""
    # A text as seed is hashed the same way everywhere; `hash()` is not.
    generator = random.Random(f"{seed}/{split}/{position}/{count}")
    while True:
        topic, other = generator.sample(TOPICS, 2)
        odd = generator.choice(other)
        choices = generator.sample(topic, count - 1) + [odd]
        if home(choices) == split:
            generator.shuffle(choices)
            return choices, odd


def question(choices: list[str]) -> str:
    """The question. The follower, clawhost's built-in model, understands the words from "one of:" on."""
    return f"Which word does not belong with the others? Answer with one of: {', '.join(choices)}."


def task_at(seed: int, split: str, position: int, count: int) -> Task:
    choices, odd = question_at(seed, split, position, count)
    return Task(
        id=f"{split}-{position}",
        split=split,
        input=question(choices),
        # JSON, for rewards only. The host takes it out before an episode sees the task.
        reference=json.dumps(odd),
        tags=["odd-one-out"],
        # What the episode needs. It tells no more than the question does.
        extra=[("choices", json.dumps(choices))],
    )


def choices_of(task: Task) -> list[str]:
    """Reads the output of `task_at`. Never trust that a task is your own."""
    try:
        choices = json.loads(dict(task.extra)["choices"])
    except (KeyError, ValueError):
        choices = None
    if not (isinstance(choices, list) and choices and all(isinstance(word, str) for word in choices)):
        raise Err(EnvError_UnknownTask(f"{task.id[:100]}: no list of choices in it"))
    return choices


def plain(text: str) -> str:
    """A word, normalised for comparison: case, surrounding whitespace and full stops do not count."""
    return text.strip(string.whitespace + ".").casefold()


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
    """The functions of the interface. The class is named after the interface."""

    def describe(self) -> Description:
        about = About(
            name="python-quiz",
            version="0.1.0",
            summary="Odd one out: which word does not belong with the others?",
            # No "snapshot": `restore` and `snapshot` are not offered.
            features=[],
            options=[
                OptionSpec(
                    name="words",
                    summary=f"how many words to choose from, {FEWEST_WORDS} to {MOST_WORDS}",
                    default_value=str(WORDS),
                    extra=[],
                )
            ],
            extra=[],
        )
        splits = [Split(name, tasks, extra=[]) for name, tasks in SPLITS.items()]
        return Description(about, splits, extra=[])

    def check(self, options: list[tuple[str, str]]) -> None:
        word_count(options)

    def tasks(self, context: Context, split: str, offset: int, limit: int) -> list[Task]:
        count = word_count(context.options)
        if split not in SPLITS:
            raise error(f"no split {split[:100]!r}: there are {', '.join(SPLITS)}")
        end = min(SPLITS[split], offset + min(limit, PAGE))
        return [task_at(context.seed, split, position, count) for position in range(offset, end)]


class Episode(exports.environment.Episode):
    """One episode: a resource, so the host holds a handle to an object of this class."""

    def __init__(self, choices: list[str]):
        self.choices = choices
        self.tries = 0

    @classmethod
    def start(cls, params: Params) -> tuple["Episode", Opening]:
        choices = choices_of(params.task)
        log.write(log.Level.DEBUG, f"{params.task.id}: {len(choices)} choices")
        opening = Opening(
            observation=[message(question(choices))],
            tools=[],
            artefacts=[],
            system_hint="Answer each question with one word and nothing else.",
            extra=[],
        )
        return cls(choices), opening

    @classmethod
    def restore(cls, params: Params, state: bytes) -> "Episode":
        raise Err(EnvError_Unsupported("python-quiz has no snapshots"))

    def step(self, action: Action) -> StepResult:
        self.tries += 1
        # Only text counts; a policy may also send JSON or stored bytes.
        reply = plain("\n".join(part.value for part in action.message.parts if isinstance(part, Part_Text)))
        if any(reply == plain(word) for word in self.choices):
            # The reward judges the answer: this plugin does not know the correct one.
            text, status = "Thank you.", Status_Terminated()
        elif self.tries < TRIES:
            text, status = f"That is none of the words. {question(self.choices)}", Status_Running()
        else:
            text, status = "That is none of the words.", Status_Truncated(f"no word in {TRIES} tries")
        return StepResult(
            observation=[message(text)],
            status=status,
            signals=[Signal("tries", float(self.tries))],
            artefacts=[],
            extra=[],
        )

    def snapshot(self) -> bytes:
        raise Err(EnvError_Unsupported("python-quiz has no snapshots"))
