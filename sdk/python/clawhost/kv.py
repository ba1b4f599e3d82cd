"""A small private key-value store, if the operator granted one (`--grant kv`)."""

from componentize_py_types import Err

from .error import Error

try:
    from wit_world.imports import kv as wit_kv
except ImportError as error:
    raise ImportError("claw.toml asks for no notes: write `kv = true` in [grants]") from error


def get(key: str) -> bytes | None:
    """The value, or none."""
    return _answer(wit_kv.get, key)


def set(key: str, value: bytes) -> None:
    """Stores a value."""
    _answer(wit_kv.set, key, value)


def delete(key: str) -> bool:
    """Removes a value; says whether there was one."""
    return _answer(wit_kv.delete, key)


def keys(prefix: str, limit: int = 1000) -> list[str]:
    """Keys that begin with `prefix`, in byte order."""
    return _answer(wit_kv.keys, prefix, limit)


def _answer(call, *arguments):
    try:
        return call(*arguments)
    except Err as error:
        raise Error(f"notes: {type(error.value).__name__}: {error.value.value}") from error
