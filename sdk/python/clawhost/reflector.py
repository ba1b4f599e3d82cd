"""Reflectors: they propose lessons from episodes. A proposal is data: the host measures it before it is served."""

from dataclasses import dataclass, field

from .episode import Episode
from .values import Context, Option


@dataclass
class Entry:
    """A lesson of a playbook. The host chooses its id."""

    text: str
    tags: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    """Entries without which it is useless: their ids, or their names in the same answer."""
    id: str = ""
    extra: dict[str, str] = field(default_factory=dict)


@dataclass
class Playbook:
    """What is known so far."""

    version: str
    entries: list[Entry]
    sections: dict[str, str]
    attempt: int
    """How often another approach was asked for, because training found nothing."""
    tried: list[Entry]
    """Lessons that training tried in vain, the latest last."""


@dataclass
class Proposal:
    """A suggestion. Make one with a class method."""

    kind: str
    value: object
    expected_effect: str
    evidence: list[tuple[str, list[int]]] = field(default_factory=list)

    @classmethod
    def add(cls, lesson: str | Entry, expected_effect: str) -> "Proposal":
        """A new entry."""
        return cls("add", Entry(lesson) if isinstance(lesson, str) else lesson, expected_effect)

    @classmethod
    def update(cls, id: str, entry: Entry, expected_effect: str) -> "Proposal":
        """Another entry in the place of the one with this id."""
        entry.id = id
        return cls("update", entry, expected_effect)

    @classmethod
    def retire(cls, id: str, expected_effect: str) -> "Proposal":
        """Takes the entry with this id out."""
        return cls("retire", id, expected_effect)

    @classmethod
    def merge(cls, ids: list[str], entry: Entry, expected_effect: str) -> "Proposal":
        """One entry in the place of several."""
        return cls("merge", (ids, entry), expected_effect)

    @classmethod
    def rewrite_section(cls, name: str, text: str, expected_effect: str) -> "Proposal":
        """Another text for a section."""
        return cls("rewrite_section", (name, text), expected_effect)

    def seen_in(self, episode: str, turns: list[int]) -> "Proposal":
        """Adds an episode that shows it, at most 64."""
        self.evidence.append((episode, turns))
        return self


class Reflector:
    """A reflector."""

    name = ""
    version = "0.1.0"
    summary = ""

    @classmethod
    def options(cls) -> list[Option]:
        """All options that this reflector reads. The host refuses others."""
        return []

    @classmethod
    def check(cls, context: Context) -> None:
        """Raises `Error` if the operator's options make no sense."""

    def reflect(self, episodes: list[Episode], playbook: Playbook, context: Context) -> list[Proposal]:
        """Proposals from these episodes, at most 64. Raises `ModelError` if a model is why there are none."""
        raise NotImplementedError
