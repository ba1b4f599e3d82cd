"""Recorded episodes, as rewards and reflectors read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wit_world.imports import types as wit

from .values import Task, text_of

if TYPE_CHECKING:
    # The interface of an environment has no recorded episodes.
    from wit_world.imports import view

CORRECTION = "correction: "


class Episode:
    """One recorded episode. It is read lazily: only what is asked for is copied into the plugin."""

    def __init__(self, handle: view.EpisodeView):
        self._view = handle

    @property
    def id(self) -> str:
        """Unique inside its run."""
        return self._view.id()

    @property
    def task(self) -> Task:
        """The task as it was published before the episode. Rewards see its `reference`."""
        return Task.of_wit(self._view.task())

    @property
    def tools(self) -> list[wit.ToolSpec]:
        """The tools on offer."""
        return self._view.tools()

    @property
    def environment(self) -> str:
        """The environment's name."""
        return self._view.environment()

    @property
    def turn_count(self) -> int:
        """The number of turns."""
        return self._view.turn_count()

    def turns(self, start: int = 0) -> list[view.Turn]:
        """All turns from `start` on."""
        found: list[view.Turn] = []
        while page := self._view.turns(start + len(found), 64):
            found.extend(page)
        return found

    def last_answer(self) -> str:
        """The text of the agent's last message; empty if it never acted."""
        last = self._view.turns(self.turn_count - 1, 1) if self.turn_count else []
        return text_of(last[0].action) if last else ""

    def closing(self) -> list[wit.Message]:
        """The environment's messages after the last action."""
        return self._view.closing()

    def corrections(self) -> list[str]:
        """What the user of a live session says its answers should have been, a text for each correction."""
        stated = [text_of(one) for one in self.closing() if one.origin == wit.Origin.ENVIRONMENT]
        lines = [line for text in stated for line in text.splitlines() if line.startswith(CORRECTION)]
        texts = [line.removeprefix(CORRECTION).strip() for line in lines]
        return [text for text in texts if text]

    @property
    def ending(self) -> view.Ending:
        """How it ended: a value of a class of `wit_world.imports.view`."""
        return self._view.ending()

    @property
    def signals(self) -> dict[str, float]:
        """The last value of every signal."""
        return {signal.name: signal.value for signal in self._view.signals()}

    def artefact(self, name: str) -> bytes | None:
        """The content of the artefact with this name."""
        found = self._view.artefact(name)
        return None if found is None else found.bytes

    @property
    def reward(self) -> float | None:
        """What the run's rewards gave it. For reflectors only: `None` in rewards, and where it was not scored."""
        return self._view.reward()


def read(group: view.Group) -> tuple[list[Episode], list[view.EpisodeView]]:
    """The episodes of a group, and their handles, which are given back when the call ends."""
    handles = [group.episode(index) for index in range(group.size())]
    return [Episode(handle) for handle in handles], handles
