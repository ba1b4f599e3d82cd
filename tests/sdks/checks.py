"""Checks of the SDK scripts: a line for each, and an exit status that says whether one failed."""

import sys

_failed = 0


def check(name, got, expect):
    if got == expect:
        print(f"ok {name}")
    else:
        fail(f"{name}: got {got!r}, expected {expect!r}")


def fail(why):
    global _failed
    _failed = 1
    print(f"FAILED {why}")


def finish():
    sys.exit(_failed)
