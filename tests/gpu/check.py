"""Checks a GPU with the program and its device tests, and measures it beside PyTorch. README.txt says how; check.sh starts this.

Standard library only. Every row is written and flushed as soon as it is known: a run that is stopped keeps its rows.
"""

import argparse
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import machine

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("1", "2", "3", "4")
GAME = "env_guess.wasm?size=50&guesses=6&talk=terse"
ALPHABET = "0123456789+=<>?#"
# Models of part 2: what `model init` is told, and the iterations.
MODELS = {
    "tiny (99 k weights)": ([], 8),
    "small (10 M weights)": (["--width", "384", "--layers", "6", "--heads", "6", "--mlp", "1024"], 4),
}
FIGURES = {"3": "small", "4": "qwen3-0.6b"}
NO_DEVICE = 3
# A line that programs print may be long; of a failure the last lines are kept.
LAST_LINES, LONGEST = 12, 400


def arguments(given):
    parser = argparse.ArgumentParser(prog="check.sh", description="Checks a GPU. README.txt says what the parts are.")
    parser.add_argument("parts", nargs="+", metavar="PART", choices=[*PARTS, "all"], help="1, 2, 3, 4 or all")
    parser.add_argument("--out", default=os.environ.get("OUT") or "results", help="folder of the results [default: $OUT, or results]")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu to try the check itself")
    parser.add_argument("--minutes", type=float, default=8.0, help="most minutes of each part [default: 8]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of a measurement after the first [default: 5]")
    asked = parser.parse_args(given)
    is_cuda = asked.device.startswith("cuda:") and asked.device[5:].isdigit()
    if not is_cuda and asked.device != "cpu":
        parser.error(f"--device is {asked.device}; it takes cpu, or cuda: with a number")
    if not 0 < asked.minutes <= 600 or not 1 <= asked.rounds <= 1000:
        parser.error("--minutes is above 0 and at most 600, --rounds from 1 to 1000")
    asked.parts = [part for part in PARTS if part in asked.parts or "all" in asked.parts]
    return asked


def figure_of(line):
    """What a line says that begins with `figure:`; none: it is another line, or a broken one."""
    before, mark, text = line.partition("figure: ")
    if not mark:
        return None
    try:
        found = json.loads(text)
        return found if found["seconds"] > 0 and found["tokens"] > 0 else None
    except (ValueError, KeyError, TypeError):
        return None


def speeds(figures):
    """Median tokens per second of each figure and batch. Round 0 compiles, so it counts for nothing."""
    found = {}
    for one in figures:
        if one["round"] > 0:
            found.setdefault((one["figure"], one["batch"]), []).append(one["tokens"] / one["seconds"])
    return {key: statistics.median(values) for key, values in found.items()}


def verdict(code, lines):
    """How a device test ended: state, and what it said."""
    said = [line for line in lines if not line.startswith(("running ", "test result:", "successes", "failures:")) and line.strip()]
    said = [line[:LONGEST] for line in said][-LAST_LINES:]
    if code is None:
        return "stopped", said
    if code != 0:
        return "failed", said
    return ("skipped" if any("skipped " in line for line in said) else "ok"), said


class Check:
    def __init__(self, asked):
        self.asked = asked
        self.out = pathlib.Path(asked.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.results = open(self.out / "results.jsonl", "a", encoding="utf-8")
        self.log = open(self.out / "log.txt", "a", encoding="utf-8", errors="replace")
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="clawhost-gpu-check-"))
        packages = machine.package_folders()
        self.environment, self.headers = machine.child_environment(dict(os.environ), packages, self.work)
        self.part, self.failed, self.until = "0", False, 0.0

    def row(self, name, state, **more):
        """One result, on the disk before anything else happens."""
        line = json.dumps({"part": self.part, "name": name, "state": state, **more}, ensure_ascii=False)
        self.results.write(line + "\n")
        self.results.flush()
        os.fsync(self.results.fileno())
        print(line, flush=True)
        self.failed |= state in ("failed", "stopped")

    def run(self, command, variables=None, environment=None, each=None, glance=None, share=1.0):
        """Runs a command for as long as its part has time, or for a share of that. Gives its exit code (none: it was stopped) and its lines."""
        left = (self.until - time.monotonic()) * share
        until = time.monotonic() + left
        environment = dict(environment or self.environment, **(variables or {}))
        print("$", *command, file=self.log, flush=True)
        if left <= 0:
            return None, ["the part's time was over before this began"]
        try:
            child = subprocess.Popen(
                [str(one) for one in command], env=environment, cwd=self.work, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        except OSError as error:
            return 127, [str(error)]
        said, lines = queue.Queue(), []
        reader = threading.Thread(target=lambda: [said.put(line) for line in child.stdout], daemon=True)
        reader.start()
        stopped = False
        while True:
            try:
                line = said.get(timeout=0.2).rstrip("\n")
                print(line[:4000], file=self.log, flush=True)
                lines.append(line)
                if each:
                    each(line)
                continue
            except queue.Empty:
                pass
            if glance:
                glance()
            if not stopped and time.monotonic() > until:
                stopped = True
                child.kill()
            if child.poll() is not None and (stopped or not reader.is_alive()) and said.empty():
                break
        return (None if stopped else child.returncode), lines

    def probe(self, about, environment=None):
        """What the program says of a backend or a device."""
        code, lines = self.run([HERE / "clawhost-gpu", "probe-device", about], environment=environment)
        for line in reversed(lines):
            try:
                return json.loads(line)
            except ValueError:
                continue
        return {"failed": f"the program that tries it ended with {code}: " + " ".join(lines[-3:])[:LONGEST]}

    def describe(self):
        """What this machine is. Never fails."""
        self.until = time.monotonic() + 120
        code, lines = self.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
        self.row("driver", "known" if code == 0 else "unknown", says=lines[:4])
        self.row("headers of CUDA", "known" if self.headers["headers"] else "unknown", **self.headers)
        ask = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
        code, lines = self.run([sys.executable, "-c", ask], environment=dict(os.environ))
        self.has_torch = code == 0
        self.row("PyTorch", "known" if self.has_torch else "unknown", says=lines[-1:])
        if self.asked.device != "cpu":
            # Without the help of this script: the program looks for headers and compiler by itself.
            said = self.probe(self.asked.device, dict(os.environ))
            self.row("the program finds CUDA by itself", "known" if "works" in said else "unknown", says=said)

    def device_is_there(self):
        """Whether the device computes; if not, a row says so by name."""
        device = self.asked.device
        if device == "cpu":
            return True
        listed = self.probe("cuda")
        if not listed.get("devices"):
            why = listed.get("failed", "the driver lists none")
            self.row(device, "failed", says=f"no CUDA device: {why}")
            return False
        said = self.probe(device)
        self.row(device, "ok" if "works" in said else "failed", says=said, devices=listed["devices"])
        return "works" in said

    def tests(self, device):
        """Device tests on a device, one per process: a crash ends one of them."""
        variables = {} if device == "cpu" else {"CLAWHOST_TEST_DEVICE": device}
        code, lines = self.run([HERE / "devices", "--list"])
        names = [line[: -len(": test")] for line in lines if line.endswith(": test") and "figures" not in line]
        if not names:
            self.row("device tests", "failed", says=[f"no list of tests ({code})", *lines[-3:]])
        for name in names:
            began = time.monotonic()
            code, lines = self.run([HERE / "devices", "--exact", name, "--nocapture", "--test-threads=1"], variables)
            state, said = verdict(code, lines)
            self.row(f"device test on {device}: {name}", state, seconds=round(time.monotonic() - began, 2), says=said)

    def vulkan(self):
        if not machine.loads("libvulkan.so.1"):
            self.row("vulkan", "skipped", says="vulkan skipped: no loader (libvulkan.so.1)")
            return
        listed = self.probe("vulkan")
        hardware = [one for one in listed.get("devices", []) if one["kind"] != "software"]
        if not hardware:
            why = listed.get("failed", "the loader lists no GPU")
            self.row("vulkan", "skipped", says=f"vulkan skipped: {why}", devices=listed.get("devices", []))
            return
        name = hardware[0]["name"]
        said = self.probe(name)
        self.row(name, "ok" if "works" in said else "failed", says=said, devices=hardware)
        if "works" in said:
            self.tests(name)

    def grpo(self, model, shape, iterations, device):
        """Iterations of a learning run. Gives the median seconds of those after the first."""
        said_name = f"GRPO, {model}, on {device}"
        folder = self.work / model.split()[0]
        program, data = HERE / "clawhost-gpu", ["--data", self.work / "data"]
        if not folder.exists():
            code, lines = self.run([program, "model", "init", folder, "--seed", "7", "--alphabet", ALPHABET, *shape, *data])
            if code != 0:
                self.row(said_name, "failed", says=["no model was made", *lines[-3:]])
                return None
        out = self.work / f"run-{folder.name}-{device.replace(':', '-')}"
        command = [program, "learn", str(HERE / "guests" / GAME), "--layer", "weights", "--model", folder, "--device", device]
        command += ["--objective", "grpo", "--max-tokens", "4", "--demonstrations", "demonstrate=clumsy", "--demonstrations-steps", "40"]
        command += ["--iterations", iterations, "--episodes", "256", "--group", "16", "--seed", "7", "--refills", "0"]
        command += ["--evaluate-every", "0", "--evaluate-episodes", "16", "--test-pairs", "0", "--out", out, *data]
        seen, times = [0], []

        def glance():
            # In a folder that is named after the run.
            files = list(out.glob("*/metrics.jsonl"))
            lines = files[0].read_text(encoding="utf-8").splitlines(keepends=True) if files else []
            for line in [line for line in lines if line.endswith("\n")][seen[0] :]:
                seen[0] += 1
                one = json.loads(line)
                timing = one.get("timing") or {}
                if timing.get("seconds"):
                    times.append(timing["seconds"])
                metrics = {name: one["metrics"].get("weights." + name) for name in ("tokens", "loss", "gradient_norm")}
                number, reward, skipped = one["iteration"], one["reward"], one["not_learned"]
                self.row(f"{said_name}: iteration {number}", "ok", reward=reward, not_learned=skipped, **timing, **metrics)

        code, lines = self.run(command, glance=glance)
        glance()
        middle = statistics.median(times[1:] or times) if times else None
        state = "ok" if code == 0 and times else "stopped" if code is None else "failed"
        self.row(said_name, state, seconds_per_iteration=middle, says=[] if state == "ok" else lines[-LAST_LINES:])
        return middle

    def learning(self):
        for model, (shape, iterations) in MODELS.items():
            devices = list(dict.fromkeys([self.asked.device, "cpu"]))
            found = {device: self.grpo(model, shape, iterations, device) for device in devices}
            if len(devices) == 2 and all(found.values()):
                here = self.asked.device
                self.row(f"GRPO, {model}: {here} against cpu", "ok", times_as_fast=round(found["cpu"] / found[here], 3))

    def measured(self, name, command, variables=None, environment=None, share=1.0):
        figures = []

        def each(line):
            one = figure_of(line)
            if one:
                figures.append(one)
                speed = round(one["tokens"] / one["seconds"], 1)
                batch, round_ = one["batch"], one["round"]
                self.row(f"{name}, batch {batch}, round {round_}", "ok", tokens_per_second=speed, **one)

        code, lines = self.run(command, variables, environment, each, share=share)
        if code != 0:
            self.row(name, "stopped" if code is None else "failed", says=[line[:LONGEST] for line in lines[-LAST_LINES:]])
        return speeds(figures)

    def figures(self, model):
        device, rounds = self.asked.device, self.asked.rounds
        variables = {"CLAWHOST_FIGURES_MODEL": model, "CLAWHOST_FIGURES_ROUNDS": str(rounds)}
        if device != "cpu":
            variables["CLAWHOST_TEST_DEVICE"] = device
        precisions = ("f32", "tf32") if device != "cpu" else ("f32",)
        # What is left of the part is shared by the measurements that are still to come.
        waiting = 2 * (1 + len(precisions) * self.has_torch)
        for figure, test in (("decode", "figures::figures_of_decoding"), ("train", "figures::figures_of_training")):
            command = [HERE / "devices", "--exact", test, "--ignored", "--nocapture", "--test-threads=1"]
            ours = self.measured(f"clawhost, {model} on {device}: {figure}", command, variables, share=1 / waiting)
            waiting -= 1
            if not self.has_torch:
                self.row(f"PyTorch, {model}: {figure}", "skipped", says="PyTorch is not here")
            for precision in precisions:
                if not self.has_torch:
                    continue
                command = [sys.executable, HERE / "torch_figures.py", figure, model, device, precision, rounds]
                # PyTorch brings its own libraries: the path of ours would put others before them.
                title = f"PyTorch {precision}, {model} on {device}: {figure}"
                environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
                theirs = self.measured(title, command, environment=environment, share=1 / waiting)
                waiting -= 1
                for key in sorted(set(ours) & set(theirs)):
                    self.row(
                        f"{model} on {device}: {key[0]}, batch {key[1]}, against PyTorch {precision}", "ok", unit="tokens/s",
                        clawhost=round(ours[key], 1), torch=round(theirs[key], 1), times_as_fast=round(ours[key] / theirs[key], 3),
                    )  # fmt: skip

    def main(self):
        began = time.monotonic()
        self.row("check", "begun", arguments=vars(self.asked), python=sys.version.split()[0])
        self.describe()
        found_device = True
        for self.part in self.asked.parts:
            start = time.monotonic()
            self.until = start + 60 * self.asked.minutes
            is_there = self.device_is_there()
            found_device &= is_there
            if self.part == "1":
                if is_there:
                    self.tests(self.asked.device)
                self.vulkan()
            elif is_there and self.part == "2":
                self.learning()
            elif is_there:
                self.figures(FIGURES[self.part])
            self.row("part", "over", seconds=round(time.monotonic() - start, 1))
        self.part = "0"
        code = NO_DEVICE if not found_device else 1 if self.failed else 0
        self.row("check", "over", seconds=round(time.monotonic() - began, 1), exit_code=code)
        return code


if __name__ == "__main__":
    import shutil

    check = Check(arguments(sys.argv[1:]))
    try:
        sys.exit(check.main())
    finally:
        shutil.rmtree(check.work, ignore_errors=True)
