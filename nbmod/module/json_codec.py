"""Encode plain data as JSON and decode it; other types than JSON's are dicts with one `$` key.

Numbers, strings, None, lists and dicts with string keys are encoded as they are.  Tuples, dicts
with other keys and arrays (of NumPy, and NDArrays, which are decoded to the CPU) are tagged:

    {"$tuple": [...]}   {"$pairs": [[key, value], ...]}   {"$array": [type, shape, base64]}
"""

from __future__ import annotations

import base64
import re
from typing import Any, TypeAlias

import numpy as np

from ..base import Array
from ..ndarray import NDArray, array

__all__ = ["Plain", "decode", "encode"]

Plain: TypeAlias = Any  # type: ignore[explicit-any]
"""Plain data (see the module docstring).  Any: of a recursive union readers would have to check the
type at every level."""

_TYPE = re.compile(r"[<|][biuf]\d{1,2}")


def encode(value: Plain) -> Plain:
    """Encode plain data for `json.dumps`; TypeError naming the type of anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [encode(part) for part in value]
    if isinstance(value, tuple):
        return {"$tuple": [encode(part) for part in value]}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: encode(part) for key, part in value.items()}
        return {"$pairs": [[encode(key), encode(part)] for key, part in value.items()]}
    if isinstance(value, NDArray):
        return {"$ndarray": encode(value.asnumpy())["$array"]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        return {"$array": [little.dtype.str, list(value.shape),
                           base64.b64encode(little.tobytes()).decode()]}
    raise TypeError(f"a {type(value).__name__} is no plain data")


def decode(value: Plain) -> Plain:
    """Decode the result of `encode`; ValueError, TypeError or KeyError for anything else."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "$tuple" in value:
        return tuple(decode(value["$tuple"]))
    if "$pairs" in value:
        return {decode(key): decode(part) for key, part in value["$pairs"]}
    if "$array" in value:
        return _array(*value["$array"])
    if "$ndarray" in value:
        host = _array(*value["$ndarray"])
        return array(host, dtype=host.dtype)
    return {key: decode(part) for key, part in value.items()}


def _array(kind: str, shape: list[int], content: str) -> Array:
    if not _TYPE.fullmatch(kind):  # NumPy parses other texts, in part as Python expressions
        raise ValueError(f"an array of type {kind!r}")
    dtype = np.dtype(kind)
    return np.frombuffer(base64.b64decode(content), dtype).reshape(shape).astype(
        dtype.newbyteorder("="))
