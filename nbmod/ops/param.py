"""Op parameters: conversion between MXNet's strings and typed dataclass fields.

The type annotation of a field determines how its text is parsed.  Supported are
`int`, `float`, `bool`, `str`, `Shape` (also written as one bare integer), `Ints` (entries may be
None), `Floats`, `Literal[...]` for enumerations (`DType` is one), and `X | None` of each.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, Union

import numpy as np

from ..base import MXNetError, did_you_mean, warn_user

__all__ = ["Shape", "Ints", "Floats", "DType", "HIDDEN_KEYS", "MAX_TENSORS", "float_parameters",
           "has_negative_zero", "is_hidden", "parse_params", "to_text", "field_types", "fields_of",
           "reader_of"]

Shape = tuple[int, ...]
Ints = tuple[int | None, ...]
Floats = tuple[float, ...]
DType = Literal["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool",
                "bfloat16", "int16", "uint16"]

HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
"""Attribute names that mean something to the framework and are stored as `__name__`."""

MAX_TENSORS = 1 << 16
"""Largest number of inputs, outputs or layers: larger ones would exhaust memory."""

_COUNTS = ("num_args", "num_outputs", "num_weights", "num_tensors", "num_arrays", "num_layers",
           "sections")


def is_hidden(key: str) -> bool:
    """Whether an attribute is the user's or the framework's (`__x__`), not an op parameter."""
    return key.startswith("__") and key.endswith("__")


def to_text(value: Any) -> str:
    """The string MXNet stores for a Python value: `(3, 3)`, `True`, `float32`, `0.5`."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, type) and issubclass(value, (np.generic, float, int)):
        return np.dtype(value).name
    if isinstance(value, list):
        return f"[{', '.join(to_text(item) for item in value)}]"
    if isinstance(value, (tuple, np.ndarray)):
        parts = [to_text(item) for item in value]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    return str(value)


def _int(text: str) -> int:
    if not _INTEGER.fullmatch(text) or text.endswith("L"):
        raise ValueError(text)
    value = int(text)
    if not -2 ** 63 <= value < 2 ** 63:
        raise OverflowError(text)
    return value


_INTEGER = re.compile(r"[+-]?\d+L?")
_SUFFIX = re.compile(r"(?<=[\d.])f$")  # of a float literal in C: 0.5f
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def _sequence(text: str, item: Callable[[str], Any]) -> tuple:
    body = text.strip()
    if body[:1] in ("(", "["):
        if body[-1:] != {"(": ")", "[": "]"}[body[0]]:
            raise ValueError(text)
        body = body[1:-1]
    parts = [part.strip() for part in body.split(",")]
    if parts and parts[-1] == "":
        parts.pop()
    return tuple(item(part) for part in parts)


def _dimension(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return _int(text.rstrip("L"))


_READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (_int, "an integer"),
    float: (lambda text: float(_SUFFIX.sub("", text)), "a number"),
    bool: (lambda text: _BOOLS[text.lower()], "True or False"),
    str: (str, "text"),
    Shape: (lambda text: _sequence(text, _dimension), "integers such as (3, 3)"),
    Ints: (lambda text: _sequence(text, lambda item: None if item == "None" else _dimension(item)),
           "integers or None, such as (0, None)"),
    Floats: (lambda text: _sequence(text, float), "numbers such as (0.1, 0.2)"),
}


def _read_choice(choices: tuple[str, ...], text: str) -> str:
    if text not in choices:
        raise ValueError(text)
    return text


def reader_of(annotation: Any) -> tuple[Callable[[str], Any], str]:
    """(function from text to value, description of valid text) for a field's annotation."""
    if annotation in _READERS:
        return _READERS[annotation]
    if typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
        return lambda text: _read_choice(choices, text), "one of " + ", ".join(map(repr, choices))
    if typing.get_origin(annotation) in (Union, types.UnionType):
        inner, = [a for a in typing.get_args(annotation) if a is not type(None)]
        read, expected = (_dimension, "an integer") if inner is int else reader_of(inner)
        return lambda text: None if text == "None" else read(text), f"{expected}, or None"
    raise TypeError(f"no reader for op parameter type {annotation!r}")


def fields_of(cls: type) -> list[dataclasses.Field]:
    """The parameters of an op class: all its fields but the graphs it holds."""
    return [field for field in dataclasses.fields(cls) if field.name != "subgraphs"]


def field_types(cls: type) -> dict[str, Any]:
    """The types of an op class's parameters, which its source has as text.

    `typing.get_type_hints` does not support bare `ClassVar`s in Python 3.10.
    """
    words: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        words.update(getattr(sys.modules.get(base.__module__), "__dict__", {}))
    return {field.name: eval(field.type, words) if isinstance(field.type, str) else field.type
            for field in fields_of(cls)}


@cache
def float_parameters(cls: type) -> tuple[str, ...]:
    """The names of the parameters of an op class that are single floating-point numbers."""
    return tuple(name for name, kind in field_types(cls).items() if kind is float)


@cache
def _readers_of(cls: type) -> dict[str, tuple[Callable[[str], Any], str, bool]]:
    """field name -> (reader, description of valid text, required) of an op class."""
    hints = field_types(cls)
    readers = {}
    for field in fields_of(cls):
        required = (field.default is dataclasses.MISSING
                    and field.default_factory is dataclasses.MISSING)
        readers[field.name] = (*reader_of(hints[field.name]), required)
    return readers


def without_ignored(cls: type, attrs: Mapping[str, Any], where: str = "") -> Mapping[str, Any]:
    """Attributes of a call without those that its op ignores, after a warning that names them.

    In MXNet an op that has no parameters accepts any: `Flatten(data, p=0.5)` runs.
    """
    if fields_of(cls):
        return attrs
    ignored = [key for key in attrs if not is_hidden(key)]
    if ignored:
        _warn_of_ignored(cls.name, tuple(ignored), where)  # type: ignore[attr-defined]
    return {key: value for key, value in attrs.items() if is_hidden(key)}


_warned: set[tuple[str, tuple[str, ...]]] = set()


def _warn_of_ignored(op: str, names: tuple[str, ...], where: str) -> None:
    if (op, names) not in _warned:
        _warned.add((op, names))
        warn_user(f"{where or op}: the operator has no parameters and ignores "
                  f"{', '.join(map(repr, names))}, as in MXNet; leave them out")


def parse_params(cls: type, attrs: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Field values of op class `cls` from attributes (strings, or Python values).

    Hidden attributes (`__x__`) are skipped; an unknown or unreadable one is an MXNetError that
    names the op, the parameter, what was expected and what was given.  `where` names the node.
    """
    readers = _readers_of(cls)
    place = f"{where} ({cls.name})" if where else cls.name  # type: ignore[attr-defined]
    values = {}
    for key, value in attrs.items():
        if is_hidden(key):
            continue
        if key not in readers:
            raise MXNetError(f"{place}: unknown parameter {key!r} = {to_text(value)!r}; "
                             f"it takes {sorted(readers) or 'no parameters'}"
                             f"{did_you_mean(key, readers)}")
        read, expected, _ = readers[key]
        text = to_text(value).strip()
        try:
            values[key] = read(text)
        except (ValueError, KeyError, OverflowError) as error:
            bits = ", of at most 64 bits" * isinstance(error, OverflowError)
            raise MXNetError(f"{place}: parameter {key} is {text[:200]!r}, expected {expected}"
                             f"{bits}") from None
        if key in _COUNTS and values[key] > MAX_TENSORS:
            raise MXNetError(f"{place}: {key} is {text[:200]}, expected at most {MAX_TENSORS}")
    for key, (_, expected, required) in readers.items():
        if required and key not in values:
            raise MXNetError(f"{place}: required parameter {key} is not given, expected {expected}")
    return values


def has_negative_zero(value: object) -> bool:
    """Whether a parameter, or a number in it, is -0.0: it equals 0.0, so a cache would take the
    one for the other."""
    if isinstance(value, tuple):
        return any(map(has_negative_zero, value))
    return isinstance(value, (float, np.floating)) and not value and bool(np.signbit(value))
