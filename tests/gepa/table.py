"""Learning with few episodes beside PyPI's `gepa` and beside `--evolve`, as one table over many houses of the shop.

Opt-in: no test and no build runs this. It needs what `compare.py` needs:

    cargo build && cargo xtask guests
    python3 -m venv .venv && .venv/bin/pip install gepa==0.1.4
    .venv/bin/python tests/gepa/table.py --first 101 --houses 20 --budgets 100,150,300,1000

Each way gets the same number of episodes for everything that decides: training and gate, or evaluations of candidates. The lift of a house is the
mean reward on 200 test tasks after learning, less that before. Nothing was chosen on those tasks. Where the gate rejects what was found, the lift is 0.

- `learn`: `clawhost learn --layer harness --budget N` with the reflector `reflector-rules`, which counts rules over all tasks.
- `evolve`: `--evolve N` with the same reflector, which adds one rule at a time. Its best candidate counts, without a gate.
- `gepa`: `gepa` with a proposer that adds one rule at a time, as in `compare.py`.
- `gepa, counting`: `gepa` with a proposer that counts all rules over all tasks it has seen (`counting.py`), as `learn` does.

`evolve` and `gepa` need 106 episodes for the first child (50 tasks choose); with fewer they keep what they began with.

The last columns are differences of `learn` from each other way, paired by house: mean and 95 % interval (Student's t).
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile

import compare
from counting import Counting

WAYS = ["learn", "evolve", "gepa", "gepa, counting"]
# Quantiles of Student's t at .975 for 4 to 30 degrees of freedom, from tables; 1.96 beyond.
STUDENT = {4: 2.776, 9: 2.262, 14: 2.145, 19: 2.093, 24: 2.064, 29: 2.045}
# A budget below cannot compare a first child with its parent: twice the fixed set of 50, and two minibatches of 3.
LEAST_EVOLUTION = 106


class CountingAdapter(compare.Adapter):
    """Proposes all rules that hold over the episodes of all tasks that were seen."""

    def __init__(self, program, tasks, seed, prompt):
        super().__init__(program, tasks, seed)
        self.counting, self.prompt = Counting(), prompt

    def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
        for record in eval_batch.trajectories:
            self.counting.see(record)
        return {component: [{}] for component in components_to_update}

    def propose_new_texts(self, candidate, reflective_dataset, components_to_update):
        rules = "".join(f"{rule}\n" for rule in self.counting.rules())
        return {component: f"{self.prompt}{rules}" for component in components_to_update}


def tested(program, prompt, tests):
    return program.mean(prompt, "test", tests, compare.HELD_OUT_SEED)["mean"]


def learn(program, arguments, budget, seed):
    reflector = str(pathlib.Path(arguments.guests) / "reflector_rules.wasm")
    flags = ["--reward", program.reward, "--reflector", reflector, "--layer", "harness", "--budget", budget]
    flags += ["--seed", seed, "--test-pairs", arguments.tests, "--playbook", f"learn-{budget}"]
    document = json.loads(program.call("learn", program.environment, *flags, "--json", "--quiet"))
    return document["heldout_after"]["mean"] - document["heldout_before"]["mean"]


def evolve(program, arguments, budget, seed, hint, before):
    settings = argparse.Namespace(**vars(arguments), seed=seed, budget=budget, gate_pairs=8, held_out=1)
    return tested(program, compare.ours(program, settings, hint)["prompt"], arguments.tests) - before


def gepa(program, arguments, budget, seed, adapter, hint, before):
    settings = argparse.Namespace(**vars(arguments), seed=seed, budget=budget)
    best = compare.best_of(adapter, settings, hint).best_candidate[compare.SECTION]
    return tested(program, best, arguments.tests) - before


def house(arguments, number, budgets):
    """The lifts of a house: by budget, by way."""
    settings = argparse.Namespace(**vars(arguments), house=number)
    with tempfile.TemporaryDirectory() as data:
        program = compare.Program(settings, data)
        hint = program.hint()
        before = tested(program, hint, arguments.tests)
        lifts = {}
        for budget in budgets:
            row = {"learn": learn(program, arguments, budget, number)}
            row |= {way: 0.0 for way in WAYS[1:]}
            if budget >= LEAST_EVOLUTION:
                row["evolve"] = evolve(program, arguments, budget, number, hint, before)
                drawn = compare.Adapter(program, arguments.tasks, number)
                counted = CountingAdapter(program, arguments.tasks, number, hint)
                row["gepa"] = gepa(program, arguments, budget, number, drawn, hint, before)
                row["gepa, counting"] = gepa(program, arguments, budget, number, counted, hint, before)
            lifts[budget] = row
        return lifts


def interval(values):
    """Mean, and half the width of its 95 % interval."""
    if len(values) < 2:
        return statistics.fmean(values), math.nan
    degrees = len(values) - 1
    quantile = next((value for most, value in sorted(STUDENT.items(), reverse=True) if most <= degrees), 12.7)
    return statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/debug/clawhost", help="the built program")
    parser.add_argument("--guests", default="target/guests", help="folder of built guests")
    parser.add_argument("--environment", default="env_shop.wasm")
    parser.add_argument("--reward", default="reward_state.wasm")
    parser.add_argument("--first", type=int, default=101, help="the first house")
    parser.add_argument("--houses", type=int, default=20)
    parser.add_argument("--budgets", default="100,150,300,1000", help="episodes, separated by commas")
    parser.add_argument("--tests", type=int, default=200, help="test tasks per house")
    parser.add_argument("--tasks", type=int, default=150, help="tasks of `gepa`, the fixed set among them")
    parser.add_argument("--pareto", type=int, default=50, help="tasks of the fixed set of `gepa`")
    parser.add_argument("--verbose", action="store_true", help="what gepa says, on standard error")
    arguments = parser.parse_args()
    budgets = [int(budget) for budget in arguments.budgets.split(",")]
    houses = {}
    for number in range(arguments.first, arguments.first + arguments.houses):
        houses[number] = house(arguments, number, budgets)
        print(f"house {number}: {json.dumps(houses[number])}", file=sys.stderr, flush=True)
    heads = [*WAYS, *(f"learn less {way}" for way in WAYS[1:])]
    print(f"houses {arguments.first} to {arguments.first + arguments.houses - 1}")
    print(f"| budget | {' | '.join(heads)} |")
    print(f"|{'---|' * (len(heads) + 1)}")
    for budget in budgets:
        rows = [lifts[budget] for lifts in houses.values()]
        cells = [f"{statistics.fmean(row[way] for row in rows):+.3f}" for way in WAYS]
        for way in WAYS[1:]:
            mean, half = interval([row["learn"] - row[way] for row in rows])
            cells.append(f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})")
        print(f"| {budget} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
