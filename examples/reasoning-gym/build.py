#!/usr/bin/env python3
"""Builds the components: build.py WIT_FOLDER OUTPUT_FOLDER BUILD_FOLDER [GROUP...]

Without groups it builds all of `groups.toml`. Two components are written for each: rg-GROUP.wasm and rg-GROUP-reward.wasm.

Needs Python 3.11, and in a virtual environment `pip install componentize-py==0.25.1`; name the program in COMPONENTIZE_PY if it is
not on PATH. Needs a Python with `pip install reasoning-gym==0.1.25`; name it in REASONING_GYM_PYTHON if it is another one.
"""

import base64
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent

# What both components are made of, beside `environment.py` or `reward.py`.
SHARED = ["library.py", "wire.py"]
OWN = {"environment": ["environment.py", "draw.py"], "reward": ["reward.py"]}

# How many tasks a call of `tasks` returns, where groups.toml does not say.
PAGE = 16

# Largest component that the host loads.
MOST_BYTES = 32 << 20

FIND = """
import importlib.metadata, importlib.util, json, os
folder = os.path.dirname(importlib.util.find_spec("reasoning_gym").origin)
print(json.dumps([folder, importlib.metadata.version("reasoning-gym")]))
"""

# Uses every dataset once, and tells which modules that took.
TRACE = """
import json, sys
sys.dont_write_bytecode = True
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
import library
library.warm_all()
files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if name not in before]
print()
print(json.dumps([file for file in files if file]))
"""


@dataclass
class Library:
    """The installed library."""

    python: str
    # The folder `reasoning_gym`. Beside it lie the other installed packages.
    folder: Path
    version: str
    # Digests of its files, as pip recorded them: path relative to `site-packages`, digest.
    digests: dict[str, str]

    @property
    def packages(self) -> Path:
        return self.folder.parent


def fail(text: str) -> None:
    sys.exit(f"build.py: {text}")


def find_library(version: str) -> Library:
    python = os.environ.get("REASONING_GYM_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", FIND], capture_output=True, text=True)
    if found.returncode != 0:
        fail(f"{python} has no reasoning-gym: pip install reasoning-gym=={version}")
    folder, installed = json.loads(found.stdout)
    if installed != version:
        fail(f"reasoning-gym is {installed}, and groups.toml says {version}")
    packages = Path(folder).parent
    with open(packages / f"reasoning_gym-{version}.dist-info" / "RECORD", newline="") as record:
        digests = {row[0]: row[1].removeprefix("sha256=") for row in csv.reader(record)}
    return Library(python, Path(folder), version, digests)


def digest(path: Path) -> str:
    """As pip writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


def write_group(folder: Path, name: str, config: dict[str, Any]) -> None:
    """`group.py`: what the group is. Importing it imports the modules of its datasets."""
    entries = {dataset: config["datasets"][dataset] for dataset in config["groups"][name]["datasets"]}
    settings = {
        dataset: {"page": entry.get("page", PAGE), "config": entry.get("config", {})} for dataset, entry in entries.items()
    }
    lines = [
        '"""Written by build.py."""',
        *sorted({f"import reasoning_gym.{entry['module']}" for entry in entries.values()}),
        f"NAME = {'rg-' + name!r}",
        f"VERSION = {config['version']!r}",
        f"SUMMARY = {config['groups'][name]['summary']!r}",
        f"DATASETS = {settings!r}",
    ]
    (folder / "group.py").write_text("\n".join(lines) + "\n")


def data_files(name: str, config: dict[str, Any]) -> set[str]:
    return {file for dataset in config["groups"][name]["datasets"] for file in config["datasets"][dataset].get("data", [])}


def shim_of(path: Path) -> str | None:
    """What stands in for a file of the library, given by its path inside the library. None: nothing, it is taken as it is."""
    if path == Path("data/__init__.py"):
        return (SOURCE / "shims" / "data.py").read_text()
    if path == Path("coaching/__init__.py"):
        return (SOURCE / "shims" / "coaching.py").read_text()
    # The library's own file and those of its families import everything there is.
    if path.name == "__init__.py" and len(path.parts) <= 2:
        return ""
    return None


def copy_module(source: Path, library: Library, target: Path) -> str | None:
    """Copies a module into the component's folder. Returns a line about it."""
    inside = source.relative_to(library.packages)
    output = target / inside
    output.parent.mkdir(parents=True, exist_ok=True)
    if source.is_relative_to(library.folder):
        shim = shim_of(source.relative_to(library.folder))
        if shim is not None:
            output.write_text(shim)
            return f"{'replaced' if shim else 'emptied':10}{inside}"
        if digest(source) != library.digests[str(inside)]:
            fail(f"{inside} is not the file that was installed")
    shutil.copyfile(source, output)
    if digest(output) != digest(source):
        fail(f"{inside} was not copied as it is")
    return f"{'unchanged':10}{inside}"


def stage(folder: Path, name: str, library: Library, config: dict[str, Any]) -> None:
    """The whole library with its shims, to find out which part of it the group needs."""
    shutil.copytree(library.folder, folder / "reasoning_gym", ignore=shutil.ignore_patterns("__pycache__", "data"))
    (folder / "reasoning_gym" / "data").mkdir()
    shutil.copyfile(library.folder / "data" / "wordle_words.py", folder / "reasoning_gym" / "data" / "wordle_words.py")
    for path in [Path("data/__init__.py"), *(p.relative_to(library.folder) for p in library.folder.glob("**/__init__.py"))]:
        shim = shim_of(path)
        if shim is not None:
            (folder / "reasoning_gym" / path).write_text(shim)
    for file in data_files(name, config):
        shutil.copyfile(library.folder / "data" / file, folder / "reasoning_gym" / "data" / file)
    for file in SHARED:
        shutil.copyfile(SOURCE / file, folder / file)
    write_group(folder, name, config)


def needed(staged: Path, library: Library) -> list[Path]:
    """The files of the library, and of other installed packages, that the group's datasets load."""
    traced = subprocess.run([library.python, "-c", TRACE, str(staged)], capture_output=True, text=True)
    if traced.returncode != 0:
        fail(f"a dataset cannot be used:\n{traced.stderr}")
    files = []
    for file in map(Path, json.loads(traced.stdout.splitlines()[-1])):
        if file.is_relative_to(staged / "reasoning_gym"):
            files.append(library.packages / file.relative_to(staged))
        elif file.is_relative_to(library.packages):
            if file.suffix != ".py":
                fail(f"{file.name} is not written in Python")
            files.append(file)
    return sorted(files)


def prepare(build: Path, name: str, library: Library, config: dict[str, Any]) -> list[str]:
    """Fills the folder that becomes the component. Returns what is in it."""
    shutil.rmtree(build, ignore_errors=True)
    stage(build / "stage", name, library, config)
    app = build / "app"
    app.mkdir()
    lines = [copy_module(file, library, app) for file in needed(build / "stage", library)]
    for file in sorted(data_files(name, config)):
        shutil.copyfile(library.folder / "data" / file, app / "reasoning_gym" / "data" / file)
        lines.append(f"{'data':10}reasoning_gym/data/{file}")
    for file in SHARED:
        shutil.copyfile(SOURCE / file, app / file)
    write_group(app, name, config)
    shutil.rmtree(build / "stage")
    return lines


def componentize(build: Path, kind: str, packages: Path, output: Path) -> None:
    folder = build / kind
    # Copies, so that nothing is written beside the source and nothing but the source is packed. For the same reason VIRTUAL_ENV
    # names an empty environment: installed packages stay out.
    shutil.copytree(build / "app", folder / "app")
    (folder / "none" / "lib" / "python3" / "site-packages").mkdir(parents=True)
    (folder / "wit").mkdir()
    for file in OWN[kind]:
        shutil.copyfile(SOURCE / file, folder / "app" / file)
    shutil.copyfile(SOURCE / f"world-{kind}.wit", folder / "wit" / "world.wit")
    shutil.copytree(packages, folder / "wit" / "deps")
    program = os.environ.get("COMPONENTIZE_PY", "componentize-py")
    if "/" in program:
        program = os.path.abspath(program)
    command = [program, "--quiet", "--wit-path", "wit", "--world", "plugin"]
    command += ["componentize", "--python-path", "app", "--output", str(output), kind]
    # A fixed seed: how a set of texts is ordered is frozen into the component.
    environment = {**os.environ, "VIRTUAL_ENV": str(folder / "none"), "PYTHONHASHSEED": "0"}
    subprocess.run(command, cwd=folder, env=environment, check=True)
    if output.stat().st_size > MOST_BYTES:
        fail(f"{output.name} has {output.stat().st_size} bytes, and the host loads {MOST_BYTES}")


def main() -> None:
    if len(sys.argv) < 4:
        print("usage: build.py WIT_FOLDER OUTPUT_FOLDER BUILD_FOLDER [GROUP...]", file=sys.stderr)
        sys.exit(2)
    packages = Path(sys.argv[1]).resolve() / "deps"
    output, build = Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    config = tomllib.loads((SOURCE / "groups.toml").read_text())
    groups = sys.argv[4:] or list(config["groups"])
    unknown = [name for name in groups if name not in config["groups"]]
    if unknown:
        fail(f"no group {', '.join(unknown)}: there are {', '.join(config['groups'])}")
    library = find_library(config["library"])
    output.mkdir(parents=True, exist_ok=True)
    for name in groups:
        lines = prepare(build / name, name, library, config)
        (output / f"rg-{name}.packed.txt").write_text("\n".join(lines) + "\n")
        componentize(build / name, "environment", packages, output / f"rg-{name}.wasm")
        print(output / f"rg-{name}.wasm", flush=True)
        componentize(build / name, "reward", packages, output / f"rg-{name}-reward.wasm")
        print(output / f"rg-{name}-reward.wasm", flush=True)


if __name__ == "__main__":
    main()
