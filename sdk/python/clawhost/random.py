"""Numbers from a seed: equal in every language of the SDK."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

MASK = (1 << 64) - 1


class Random:
    """A generator whose numbers follow from its seed (SplitMix64, Steele et al. 2014). Not for secrets."""

    def __init__(self, seed: int):
        self._state = seed & MASK

    @classmethod
    def at(cls, seed: int, split: str, position: int) -> "Random":
        """A generator for a position of a split, the same whatever else is drawn: an environment makes its tasks with it."""
        name = 0
        for byte in split.encode():
            name = (name * 257 + byte) & MASK
        return cls(seed ^ cls(name ^ cls(position).next()).next())

    def next(self) -> int:
        """Any 64-bit number."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """A number below `bound`, or 0 if `bound` is 0."""
        return (self.next() * bound) >> 64

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(max(high - low, 0) + 1)

    def choose(self, items: Sequence[Item]) -> Item | None:
        """One of the items, or `None` if there are none."""
        at = self.below(len(items))
        return items[at] if items else None
