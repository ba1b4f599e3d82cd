"""Rewards: they judge episodes."""

from dataclasses import dataclass, field

from .episode import Episode
from .error import Error
from .values import Context, Option


@dataclass
class Scored:
    """It has a value, in the reward's range: the host refuses other values."""

    value: float
    because: str = ""
    """The reason, for people."""
    confidence: float = 1.0
    """From 0 to 1."""
    parts: dict[str, float] = field(default_factory=dict)
    """What the value is made of."""
    per_turn: list[float] = field(default_factory=list)
    """One value for each turn, or none."""


@dataclass
class NotApplicable:
    """This reward has nothing to say about the episode. Never a number."""

    why: str


@dataclass
class Failed:
    """It could not be judged. Never a number."""

    why: str


Verdict = Scored | NotApplicable | Failed


class Reward:
    """A reward. It runs in an instance of its own, never with the environment, and reads what the host recorded."""

    name = ""
    version = "0.1.0"
    summary = ""
    range = (0.0, 1.0)
    """Smallest and largest value, in -1 to 1."""
    source = "outcome"
    """Where its verdicts come from: `outcome`, `execution` or `judge`. The most reliable source decides."""
    scope = "each"
    """What a verdict depends on: `each` episode alone, or the whole `group`."""
    reads: list[str] = []
    """What it reads of an episode, as `signal NAME`, `artefact NAME`, `reference`: the host warns if no episode has any of it."""

    @classmethod
    def options(cls) -> list[Option]:
        """All options that this reward reads. The host refuses others."""
        return []

    @classmethod
    def check(cls, context: Context) -> None:
        """Raises `Error` if the operator's options make no sense."""

    def score(self, episode: Episode, context: Context) -> Verdict:
        """Judges one episode. An `Error` is the verdict `Failed`."""
        raise NotImplementedError

    def score_group(self, episodes: list[Episode], context: Context) -> list[Verdict]:
        """Judges a group: exactly one verdict for each episode, in order."""
        verdicts: list[Verdict] = []
        for episode in episodes:
            try:
                verdicts.append(self.score(episode, context))
            except Error as error:
                verdicts.append(Failed(str(error)))
        return verdicts
