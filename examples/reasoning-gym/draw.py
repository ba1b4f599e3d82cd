"""Which entry of a dataset is which task.

A task's place in its split gives a row of entries: `place`, `place + N`, `place + 2 N` and so on, where N is the number of tasks
of the split. The first one whose question is at home in the split is the task. So a task does not depend on those before it.
"""

import random
import zlib
from collections.abc import Iterator

# How many tasks each split holds.
SPLITS = {"train": 400, "val": 100, "test": 100}

# The split of a question: one entry of these four. So half of all questions are in `train`.
HOMES = ["train", "train", "val", "test"]

# How many entries are tried for a task. A quarter of the questions is at home in `val`, so this many fail once in 10^8 times.
DRAWS = 64


def home(dataset: str, question: str) -> str:
    """The split of a question, for every seed: so no question is in two splits."""
    return HOMES[zlib.crc32(f"{dataset}/{question}".encode()) % len(HOMES)]


def dataset_seed(seed: int, split: str) -> int:
    """The seed of the library's dataset. Its entry i is drawn with this seed plus i, so seeds must lie far apart."""
    # A text as seed is hashed the same way everywhere; `hash()` is not.
    return random.Random(f"{seed}/{split}").getrandbits(48)


def dataset_size(split: str) -> int:
    """Every index that `indices` gives lies below it."""
    return SPLITS[split] * DRAWS


def indices(split: str, place: int) -> Iterator[int]:
    """The entries that are tried for a task, in order."""
    return (place + draw * SPLITS[split] for draw in range(DRAWS))
