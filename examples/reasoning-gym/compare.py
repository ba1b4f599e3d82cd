#!/usr/bin/env python3
"""Compares the components with the library: compare.py CLAWHOST OUTPUT_FOLDER DATA_FOLDER [--tasks N] [--seed S] [--split SPLIT] [GROUP...]

Run it with the Python that has the library; OUTPUT_FOLDER is that of build.py. DATA_FOLDER is a data folder of clawhost: what is
compiled and recorded goes there.

For each dataset `clawhost run` plays N tasks, and the reward component judges. The policy is a server in this program that gives
each question a right answer, a wrong one, an empty one and others, see answers.py. Then the recorded episodes are compared with
the library as it is installed, without a shim:

- the tasks: question, and the whole entry that the reward reads
- the scores: exactly what `score_answer` says of the answer and the library's own entry. Where it raises, the score is 0.

Prints a table. Exit codes: 0 no difference, 1 a difference, or fewer comparisons than there should be, 2 usage.
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import reasoning_gym
from reasoning_gym.dataset import ProceduralDataset

import draw
import wire
from answers import KINDS, Server

SOURCE = Path(__file__).resolve().parent


@dataclass
class Task:
    """A task as the library makes it."""

    id: str
    index: int
    entry: dict[str, Any]


@dataclass
class Result:
    """What was compared of a dataset."""

    tasks: int = 0
    scores: int = 0
    # Scores above 0, scores of right answers that are 1, and scorers that raised.
    positive: int = 0
    full: int = 0
    raised: int = 0
    fuel: int = 0
    differences: list[str] = field(default_factory=list)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def native_dataset(name: str, config: dict[str, Any], seed: int, split: str) -> ProceduralDataset:
    options = config["datasets"][name].get("config", {})
    return reasoning_gym.create_dataset(name, seed=draw.dataset_seed(seed, split), size=draw.dataset_size(split), **options)


def native_tasks(name: str, dataset: ProceduralDataset, split: str, count: int) -> list[Task]:
    tasks = []
    for place in range(count):
        for index in draw.indices(split, place):
            entry = dataset[index]
            if draw.home(name, entry["question"]) == split:
                tasks.append(Task(f"{split}-{place}", index, entry))
                break
    return tasks


def native_score(dataset: ProceduralDataset, answer: str, entry: dict[str, Any]) -> float | None:
    """None: the library raises. Some scorers print."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return float(dataset.score_answer(answer, entry))
    except Exception:
        return None


def play(arguments: argparse.Namespace, group: str, name: str, server: Server) -> list[dict[str, Any]]:
    """The recorded episodes of a run: every task with every kind of answer."""
    output = arguments.output
    command = [arguments.clawhost, "--data", arguments.data, "run", "--quiet", "--allow-interpreters"]
    command += [f"{output}/rg-{group}.wasm?dataset={name}", "--reward", f"{output}/rg-{group}-reward.wasm"]
    command += ["--tasks", arguments.split, "--seed", str(arguments.seed), "--policy", f"openai:answers@{server.url}"]
    command += ["--episodes", str(arguments.tasks * len(KINDS)), "--group", str(len(KINDS)), "--failure-budget", "1"]
    environment = {**os.environ, "OPENAI_API_KEY": "none"}
    played = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True)
    if played.returncode != 0:
        raise RuntimeError(cause(played.stdout + played.stderr))
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as file:
        export = [arguments.clawhost, "--data", arguments.data, "episodes", "export", "--output", file.name]
        subprocess.run(export, check=True, capture_output=True)
        return [json.loads(line) for line in file]


def cause(text: str) -> str:
    """The line of a message that says why."""
    lines = text.strip().splitlines()
    return next((line for line in lines if line.startswith("cause:")), " ".join(lines)[:300])


def right_answer(entry: dict[str, Any]) -> str:
    """Where there are many right answers, the library has none in `answer`, but an example elsewhere."""
    metadata = entry["metadata"]
    for answer in (entry["answer"], metadata.get("example_answer"), metadata.get("possible_answer")):
        if answer is not None:
            return answer if isinstance(answer, str) else json.dumps(answer)
    raise ValueError("the library gives no right answer")


def answer_of(episode: dict[str, Any]) -> str:
    parts = episode["turns"][-1]["action"]["parts"]
    return "\n".join(part["text"] for part in parts)


def compare_task(task: dict[str, Any], expected: Task) -> list[str]:
    """What differs in a published task."""
    reference = json.loads(task["reference"])
    differences = []
    if task["input"] != expected.entry["question"]:
        differences.append("question")
    if reference["index"] != expected.index:
        differences.append("index")
    if not same(wire.decode(reference["entry"]), expected.entry):
        differences.append("entry")
    return [f"{task['id']}: {what} differs" for what in differences]


def compare_score(episode: dict[str, Any], answer: str, score: float | None) -> list[str]:
    """What differs in a verdict."""
    found = episode.get("reward")
    wanted = 0.0 if score is None else score
    if found == wanted:
        return []
    verdict = json.dumps(episode.get("verdicts", episode.get("failure")))
    return [f"{episode['task']['id']}: {answer[:60]!r} is worth {wanted!r}, and the component says {found!r}: {verdict[-200:]}"]


def compare(arguments: argparse.Namespace, config: dict[str, Any], group: str, name: str, server: Server) -> Result:
    result = Result()
    dataset = native_dataset(name, config, arguments.seed, arguments.split)
    tasks = {task.id: task for task in native_tasks(name, dataset, arguments.split, arguments.tasks)}
    server.expect({task.entry["question"]: right_answer(task.entry) for task in tasks.values()})
    try:
        episodes = play(arguments, group, name, server)
    except RuntimeError as error:
        result.differences.append(str(error))
        return result
    given: dict[str, list[str]] = {task: [] for task in tasks}
    for episode in episodes:
        expected = tasks.get(episode["task"]["id"])
        if expected is None or not episode["turns"]:
            result.differences.append(f"{episode['task']['id']}: {json.dumps(episode.get('failure', 'unexpected'))}")
            continue
        if not given[expected.id]:
            result.tasks += 1
            result.differences += compare_task(episode["task"], expected)
        answer = answer_of(episode)
        given[expected.id].append(answer)
        score = native_score(dataset, answer, expected.entry)
        result.scores += 1
        result.positive += score is not None and score > 0
        result.raised += score is None
        result.fuel = max(result.fuel, *(turn["fuel"] for turn in episode["turns"]))
        if answer == right_answer(expected.entry):
            result.full += score == 1
        result.differences += compare_score(episode, answer, score)
    for task in tasks.values():
        # Every kind was given, and nothing else. Equal questions share the kinds among them.
        wanted = sorted(kind(right_answer(task.entry)) for kind in KINDS.values())
        twins = sum(other.entry["question"] == task.entry["question"] for other in tasks.values())
        if twins == 1 and sorted(given[task.id]) != wanted:
            result.differences.append(f"{task.id}: the answers that were recorded are not those that were given")
    return result


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares the components with the library.")
    parser.add_argument("clawhost")
    parser.add_argument("output")
    parser.add_argument("data")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--split", choices=list(draw.SPLITS), default="val")
    parser.add_argument("--dataset", help="only this one")
    parser.add_argument("groups", nargs="*")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    config = tomllib.loads((SOURCE / "groups.toml").read_text())
    server = Server()
    datasets = tasks = scores = positive = bad = 0
    print(f"{'dataset':26}{'tasks':>6}{'scores':>8}{'above 0':>9}{'full':>6}{'raised':>8}{'step fuel':>11}  differences")
    for group in arguments.groups or [name for name in config["groups"] if name != "small"]:
        for name in config["groups"][group]["datasets"]:
            if arguments.dataset not in (None, name):
                continue
            result = compare(arguments, config, group, name, server)
            if result.tasks != arguments.tasks or result.scores != arguments.tasks * len(KINDS):
                result.differences.append(f"only {result.tasks} tasks and {result.scores} scores were compared")
            datasets, tasks, scores = datasets + 1, tasks + result.tasks, scores + result.scores
            positive, bad = positive + result.positive, bad + bool(result.differences)
            counts = f"{result.tasks:6}{result.scores:8}{result.positive:9}{result.full:6}{result.raised:8}{result.fuel:11}"
            print(f"{name:26}{counts}  {len(result.differences)}", flush=True)
            for difference in result.differences[:3]:
                print(f"    {difference}", flush=True)
    print(f"{datasets} datasets, {tasks} tasks, {scores} scores compared, {positive} above 0; {bad} datasets differ")
    sys.exit(0 if datasets and positive and not bad else 1)


if __name__ == "__main__":
    main()
