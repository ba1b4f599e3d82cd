"""Evolving a prompt with PyPI's `gepa`, on the environments of this repository: a yardstick for our own evolution.

Opt-in: no test and no build runs this. It needs a built program, built guests, and `gepa` in a virtual environment:

    cargo build && cargo xtask guests
    python3 -m venv .venv && .venv/bin/pip install gepa==0.1.4
    .venv/bin/python tests/gepa/compare.py --program target/debug/clawhost --guests target/guests --budget 1000

It prints one JSON document: for `gepa` and for `ours` the evaluations used, the mean of the best candidate on the tasks
that chose it, and its mean on held-out tasks that neither was chosen by. Only the last is a fair number. (The gate, which
judges what ours found once it is found, is a service of ours; it changes nothing about the comparison.) `seed` is the
prompt that both begin with. One run says little, because all hangs on which rules are drawn: repeat it with several
`--seed`.

How the two are made comparable:

- *One evaluation* is one candidate on one task with one seed, counted as `gepa` counts it. `gepa` looks at its budget
  between iterations, so it may pass it by one iteration; ours never does. `gepa` plays a parent again on each of its
  minibatches; ours remembers.
- *Tasks* are addressed by position: `clawhost run --episodes N` plays the first N of a split. So this adapter plays a
  candidate once on all training tasks and hands out what `gepa` asks for; what it plays beyond that is free here, but
  not counted against `gepa` either. (A run of three episodes under another seed would play the first three tasks each
  time.) Ours chooses the tasks itself: the first 100 and a fixed set of 50, with the same seeds. So with `--tasks` and
  `--pareto` as they are, both learn from the same tasks, though each draws its own fixed set among them.
- *Reflection* needs no model. It reads rules from what the environment says at the end, as the plugin
  `reflector-rules` does: `expected: DEED` and `because: FACT is VALUE and ...` become `when FACT is VALUE and ...:
  DEED` and the same with one fact, and `not looked up: FACT, which DEED shows` becomes `when FACT is VALUE: DEED`
  with the value in the opening. Of the 16 that most of the minibatch suggests, one is drawn and appended.
- *Failures.* `gepa` demands a number for every task, so a failed episode is 0 there, and is counted in
  `failed_as_zero`. In ours a failure is no number.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SECTION = "rules"
# Suggestions among which one is drawn, as in `reflector-rules`.
MOST = 16
# The run's seed of held-out tasks: theirs alone.
HELD_OUT_SEED = 900_001
# The arguments on which the numbers depend.
SETTINGS = ["environment", "reward", "house", "budget", "tasks", "pareto", "held_out", "seed"]


class Program:
    """The built program with a data folder of its own."""

    def __init__(self, arguments, data):
        guests = pathlib.Path(arguments.guests)
        self.program = arguments.program
        self.data = pathlib.Path(data)
        self.environment = f"{guests / arguments.environment}?house={arguments.house}"
        self.reward = str(guests / arguments.reward)

    def call(self, *arguments):
        command = [self.program, *map(str, arguments), "--data", str(self.data)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def play(self, prompt, split, episodes, seed):
        """Plays the first tasks of a split: the run's name and its episodes, with a reward or none each."""
        file = self.data / "prompt.txt"
        file.write_text(prompt)
        flags = ["--reward", self.reward, "--policy", "follower", "--system-prompt-file", file, "--tasks", split]
        # What fails is counted here, so no failure stops the run.
        flags += ["--episodes", episodes, "--seed", seed, "--failure-budget", 1, "--json", "--quiet"]
        document = json.loads(self.call("run", self.environment, *flags))
        return document["timing"]["run"], document["episodes"]

    def records(self, run):
        lines = self.call("episodes", "export", "--run", run).splitlines()
        return {record["id"]: record for record in map(json.loads, lines)}

    def hint(self):
        """The environment's own prompt: what evolution begins with."""
        command = ["run", self.environment, "--episodes", 1, "--json", "--quiet"]
        run = json.loads(self.call(*command))["timing"]["run"]
        return next(iter(self.records(run).values()))["system_hint"] + "\n"

    def mean(self, prompt, split, episodes, seed):
        rewards = [episode["reward"] for episode in self.play(prompt, split, episodes, seed)[1]]
        scored = [reward for reward in rewards if reward is not None]
        return {"mean": sum(scored) / len(scored) if scored else None, "scored": len(scored)}


def texts(messages):
    return "\n".join(part.get("text", "") for message in messages for part in message["parts"])


def suggestions(record):
    """The rules that one episode suggests; none if its end says nothing of what was expected."""
    last = record["turns"][-1]["tool_results"] if record["turns"] else []
    end = texts([*record["closing"], *last])
    expected = re.search(r"^expected: (.+)$", end, re.MULTILINE)
    because = re.search(r"^because: (.+)$", end, re.MULTILINE)
    found = []
    if expected and because:
        conditions = because[1].split(" and ")
        found.append(f"when {because[1]}: {expected[1]}")
        if len(conditions) > 1:
            found += [f"when {condition}: {expected[1]}" for condition in conditions]
    if expected and record["turns"]:
        opening = texts(record["turns"][0]["observation"])
        for fact, deed in re.findall(r"^not looked up: (.+?), which (.+) shows$", end, re.MULTILINE):
            value = re.search(rf"^{re.escape(fact)}: (.+)$", opening, re.MULTILINE)
            found += [f"when {fact} is {value[1]}: {deed}"] if value else []
    return found


class Adapter:
    """What `gepa` asks for: playing candidates, material for reflection, new texts. A batch is a list of positions."""

    def __init__(self, program, tasks, seed):
        self.program, self.tasks, self.seed = program, tasks, seed
        self.random = random.Random(seed)
        self.played = {}
        self.failed_as_zero = 0

    def runs(self, prompt):
        if prompt not in self.played:
            run, episodes = self.program.play(prompt, "train", self.tasks, self.seed)
            self.played[prompt] = (run, {episode["task"]: episode for episode in episodes})
        return self.played[prompt]

    def evaluate(self, batch, candidate, capture_traces=False):
        from gepa.core.adapter import EvaluationBatch

        run, episodes = self.runs(candidate[SECTION])
        chosen = [episodes[f"train-{position}"] for position in batch]
        failed = sum(episode["reward"] is None for episode in chosen)
        self.failed_as_zero += failed
        scores = [episode["reward"] or 0.0 for episode in chosen]
        records = self.program.records(run) if capture_traces else None
        trajectories = [records[episode["id"]] for episode in chosen] if capture_traces else None
        return EvaluationBatch(outputs=[episode["id"] for episode in chosen], scores=scores, trajectories=trajectories)

    def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
        records = [{"suggestions": suggestions(record)} for record in eval_batch.trajectories]
        return {component: records for component in components_to_update}

    def propose_new_texts(self, candidate, reflective_dataset, components_to_update):
        new = {}
        for component in components_to_update:
            text = candidate[component]
            known = {line.lower() for line in text.splitlines()}
            found = [line for record in reflective_dataset[component] for line in dict.fromkeys(record["suggestions"])]
            counts = collections.Counter(line for line in found if line.lower() not in known)
            most = [line for line, _ in counts.most_common(MOST)]
            # Without a suggestion the text stays: `gepa` then pays for a child that is its parent.
            new[component] = f"{text}{self.random.choice(most)}\n" if most else text
        return new


def best_of(adapter, arguments, seed_prompt):
    """What `gepa` finds."""
    import gepa
    from gepa.logging.logger import LoggerProtocol

    class Silent(LoggerProtocol):
        def log(self, message):
            print(message, file=sys.stderr) if arguments.verbose else None

    positions = list(range(arguments.tasks))
    random.Random(arguments.seed).shuffle(positions)
    return gepa.optimize(
        seed_candidate={SECTION: seed_prompt},
        trainset=positions[arguments.pareto :],
        valset=positions[: arguments.pareto],
        adapter=adapter,
        max_metric_calls=arguments.budget,
        cache_evaluation=True,
        seed=arguments.seed,
        logger=Silent(),
    )


def theirs(program, arguments, seed_prompt):
    adapter = Adapter(program, arguments.tasks, arguments.seed)
    result = best_of(adapter, arguments, seed_prompt)
    best = result.best_candidate[SECTION]
    return {
        "evaluations": result.total_metric_calls,
        "candidates": result.num_candidates,
        "failed_as_zero": adapter.failed_as_zero,
        "chosen_at": result.val_aggregate_scores[result.best_idx],
        "held_out": program.mean(best, "val", arguments.held_out, HELD_OUT_SEED),
        "rules": best[len(seed_prompt) :].splitlines(),
    }


def ours(program, arguments, seed_prompt):
    """`clawhost learn --evolve`, and the evolved section behind the prompt as a playbook shows it."""
    reflector = f"{pathlib.Path(arguments.guests) / 'reflector_rules.wasm'}?write=section&section={SECTION}"
    flags = ["--reward", program.reward, "--policy", "follower", "--seed", arguments.seed, "--failure-budget", 1]
    flags += ["--layer", "harness", "--evolve", arguments.budget, "--evolve-section", SECTION]
    flags += ["--evolve-reflector", reflector, "--playbook", f"ours-{arguments.seed}"]
    # One short iteration behind it: it changes nothing about the section.
    flags += ["--iterations", 1, "--episodes", 4, "--gate-pairs", arguments.gate_pairs, "--test-pairs", 0]
    document = json.loads(program.call("learn", program.environment, *flags, "--json", "--quiet"))
    evolution = document["learn"]["evolution"]
    section = evolution["best"].get(SECTION, "")
    prompt = f"{seed_prompt}\n{SECTION}:\n{section}\n" if section else seed_prompt
    gate = evolution["gate"]
    return {
        "prompt": prompt,
        "evaluations": evolution["evaluations"],
        "cached": evolution["cached"],
        "candidates": evolution["candidates"],
        "failures": evolution["failures"],
        "why": evolution["why"],
        "chosen_at": evolution["curve"][-1]["mean"] if evolution["curve"] else None,
        "held_out": program.mean(prompt, "val", arguments.held_out, HELD_OUT_SEED),
        "gate": gate and {"decision": gate["decision"], "pairs": gate["evidence"]["pairs"]},
        "rules": section.splitlines(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/debug/clawhost", help="the built program")
    parser.add_argument("--guests", default="target/guests", help="folder of built guests")
    parser.add_argument("--environment", default="env_shop.wasm", help="with an option `house`, splits train and val")
    parser.add_argument("--reward", default="reward_state.wasm")
    parser.add_argument("--house", type=int, default=7, help="which house: its rules and cases")
    parser.add_argument("--budget", type=int, default=1000, help="evaluations")
    parser.add_argument("--tasks", type=int, default=150, help="tasks to learn from, the fixed set among them")
    parser.add_argument("--pareto", type=int, default=50, help="tasks of the fixed set")
    parser.add_argument("--gate-pairs", type=int, default=256, help="pairs by which the gate judges what ours found")
    parser.add_argument("--held-out", type=int, default=500, help="tasks that judge at the end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="what gepa says, on standard error")
    arguments = parser.parse_args()
    try:
        import gepa  # noqa: F401
    except ImportError:
        sys.exit("`gepa` is not installed: python3 -m venv .venv && .venv/bin/pip install gepa==0.1.4")
    with tempfile.TemporaryDirectory() as data:
        program = Program(arguments, data)
        hint = program.hint()
        document = {
            "arguments": {name: getattr(arguments, name) for name in SETTINGS},
            "seed": {"held_out": program.mean(hint, "val", arguments.held_out, HELD_OUT_SEED)},
            "gepa": theirs(program, arguments, hint),
            "ours": ours(program, arguments, hint),
        }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
