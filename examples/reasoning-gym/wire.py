"""An entry of a dataset as JSON, and back.

JSON has lists, but no tuples; and its keys are texts. What JSON cannot say becomes an object with one key that begins with `$`:

    (1, 2)               {"$tuple": [1, 2]}
    {1, 2}               {"$set": [1, 2]}
    {1: "a"}             {"$dict": [[1, "a"]]}
    Fraction(1, 2)       {"$fraction": "1/2"}
    Decimal("0.10")      {"$decimal": "0.10"}
    complex(1, 2)        {"$complex": [1.0, 2.0]}
    datetime(2024, 1, 1) {"$datetime": "2024-01-01T00:00:00"}

Anything else is a TypeError: a dataset with such an entry cannot be packaged.
"""

import json
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any


def encode(value: Any) -> Any:
    """A value that `json.dumps` writes without loss."""
    # Exact types: an enum that is also a text would come back as a plain text.
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [encode(item) for item in value]
    if kind is tuple:
        return {"$tuple": [encode(item) for item in value]}
    if kind is dict:
        return encode_dict(value)
    if kind in (set, frozenset):
        # Sorted: the order of a set is not the same everywhere.
        name = "$set" if kind is set else "$frozenset"
        return {name: sorted((encode(item) for item in value), key=json.dumps)}
    if kind is Fraction:
        return {"$fraction": f"{value.numerator}/{value.denominator}"}
    if kind is Decimal:
        return {"$decimal": str(value)}
    if kind is complex:
        return {"$complex": [value.real, value.imag]}
    if kind is datetime:
        return {"$datetime": value.isoformat()}
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be written as JSON")


def encode_dict(value: dict[Any, Any]) -> dict[str, Any]:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: encode(item) for key, item in value.items()}
    return {"$dict": [[encode(key), encode(item)] for key, item in value.items()]}


def decode(value: Any) -> Any:
    """The reverse of `encode`."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(name, inner)] = value.items()
        if name in DECODERS:
            return DECODERS[name](inner)
    return {key: decode(item) for key, item in value.items()}


DECODERS = {
    "$tuple": lambda inner: tuple(decode(item) for item in inner),
    "$set": lambda inner: {decode(item) for item in inner},
    "$frozenset": lambda inner: frozenset(decode(item) for item in inner),
    "$dict": lambda inner: {decode(key): decode(item) for key, item in inner},
    "$fraction": Fraction,
    "$decimal": Decimal,
    "$complex": lambda inner: complex(*inner),
    "$datetime": datetime.fromisoformat,
}
