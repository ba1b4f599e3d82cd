"""The datasets of the group, made by the library.

`group` is written by build.py: it imports the modules of its datasets, and each registers itself with the library.
"""

import gc
from typing import Any

import group
from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.factory import create_dataset

DEFAULT = next(iter(group.DATASETS))

# Longest answer that is scored, in characters, and the deepest brackets in it. Some scorers parse an answer as JSON, and a deep one
# would exhaust the stack, which ends the component. No right answer comes near.
MOST_CHARACTERS = 50_000
DEEPEST = 100


def chosen(options: list[tuple[str, str]]) -> str | None:
    """The dataset that the operator chose. None: there is no such dataset in this group."""
    name = dict(options).get("dataset", DEFAULT)
    return name if name in group.DATASETS else None


def names() -> str:
    return ", ".join(group.DATASETS)


def make(name: str, seed: int, size: int) -> ProceduralDataset:
    return create_dataset(name, seed=seed, size=size, **group.DATASETS[name]["config"])


def deep(text: str) -> bool:
    """Whether brackets are nested deeper than any answer needs."""
    depth = 0
    for character in text:
        if character in "[{(":
            depth += 1
            if depth > DEEPEST:
                return True
        elif character in "]})":
            depth -= 1
    return False


def score(dataset: ProceduralDataset, answer: str | None, entry: dict[str, Any]) -> tuple[float, str]:
    """What the library says of an answer, and a remark."""
    if answer is not None and (len(answer) > MOST_CHARACTERS or deep(answer)):
        return 0.0, "the answer is too long or too deep"
    try:
        return float(dataset.score_answer(answer, entry)), ""
    except RecursionError:
        return 0.0, "the library raised RecursionError"
    except Exception as error:
        # An answer must not be able to escape its score.
        return 0.0, f"the library raised {type(error).__name__}"


def warm(name: str) -> ProceduralDataset:
    """Makes a dataset and uses it once. What the library imports or compiles late is frozen into the component this way."""
    dataset = make(name, seed=0, size=8)
    for index in range(4):
        entry = dataset[index]
        for answer in (entry["answer"], "", "no"):
            score(dataset, answer, entry)
    return dataset


def warm_all() -> dict[str, ProceduralDataset]:
    datasets = {name: warm(name) for name in group.DATASETS}
    gc.collect()
    return datasets
