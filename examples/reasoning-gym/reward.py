"""A reward plugin: the library's own `score_answer` for the datasets of one group of reasoning-gym.

The file has to be called `reward.py`, see `examples/python-quiz`, which explains the rules of the sandbox.
"""

import json
from typing import Any

import group
import library
import wire
from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.reward import (
    Description,
    RewardError_Other,
    Scope,
    ScoreCard,
    Source_Outcome,
    Verdict,
    Verdict_Failed,
    Verdict_NotApplicable,
    Verdict_Scored,
)
from wit_world.imports.types import About, Context, Message, Part_Json, Part_Text
from wit_world.imports.view import EpisodeView, Group

# Made while the component is built. Scorers read the configuration, but not the seed.
SCORERS = library.warm_all()


def text_of(message: Message) -> str:
    """A message's text, as the WIT defines it."""
    return "\n".join(part.value for part in message.parts if isinstance(part, (Part_Text, Part_Json)))


def last_answer(episode: EpisodeView) -> str | None:
    count = episode.turn_count()
    return text_of(episode.turns(count - 1, 1)[0].action) if count else None


def read(reference: str | None) -> tuple[str, dict[str, Any]] | None:
    """The dataset's name and the entry. None: no reference of this group's environment."""
    try:
        value = json.loads(reference or "null")
        name, entry = value["dataset"], wire.decode(value["entry"])
    except (ValueError, TypeError, KeyError):
        return None
    return (name, entry) if name in SCORERS and isinstance(entry, dict) else None


def judge(episode: EpisodeView) -> Verdict:
    known = read(episode.task().reference)
    if known is None:
        return Verdict_NotApplicable(f"no task of {group.NAME}")
    name, entry = known
    value, remark = library.score(SCORERS[name], last_answer(episode), entry)
    if not 0.0 <= value <= 1.0:
        return Verdict_Failed(f"{name}: the library's score {value!r} is not between 0 and 1")
    return Verdict_Scored(
        ScoreCard(
            value=value,
            confidence=1.0,
            parts=[],
            rationale=f"{name}: {value!r}" + (f", {remark}" if remark else ""),
            per_turn=[],
            extra=[],
        )
    )


class Reward(exports.Reward):
    """The functions of the interface."""

    def describe(self) -> Description:
        about = About(
            name=f"{group.NAME}-reward",
            version=group.VERSION,
            summary=f"What reasoning-gym says of the last answer; for tasks of {group.NAME}",
            features=[],
            options=[],
            extra=[],
        )
        return Description(
            about, minimum=0.0, maximum=1.0, source=Source_Outcome(), scope=Scope.EACH, extra=[]
        )

    def check(self, options: list[tuple[str, str]]) -> None:
        pass

    def score(self, context: Context, group: Group) -> list[Verdict]:
        return [judge(group.episode(index)) for index in range(group.size())]
