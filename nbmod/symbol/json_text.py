"""JSON parser with bounds on depth and memory, for untrusted text.

Before parsing, one pass over the bytes finds the nesting depth and estimates the memory of the
values from the counts of brackets, strings and commas, so that deeply nested text or text of many
small values is rejected at little cost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from ..base import MXNetError
from ..core.foreign import HEAD_SIZE, foreign_format

__all__ = ["parse_json"]

MAX_DEPTH = 100
"""A subgraph adds five levels; real graphs nest fewer than twenty."""

MEMORY = 64 << 20
"""Maximum memory of the parsed values in bytes, in addition to `PER_BYTE` times the text."""

PER_BYTE = 8
"""Real graphs take four bytes a byte as MXNet writes them, seven without white space."""

MAX_DIGITS = 18

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of a surrogate, which is valid only in a pair."""

_COST = {b"{": 72, b"[": 64, b'"': 32, b",": 36, b":": -64}
"""Bytes of memory per character.  A string has two quotes; the negative cost of the colon is that
keys are shared by all objects."""


def parse_json(text: str | bytes, where: str) -> object:
    """The values of JSON `text`; an MXNetError that begins with `where` if it is invalid."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MXNetError(f"{where}: not UTF-8 text: byte {error.start}: {error.reason}"
                         f"{foreign_format(data[:HEAD_SIZE])}") from None
    _check_bounds(data, where)
    try:
        value = json.loads(text, strict=False, parse_int=_integer, parse_float=_number,
                           parse_constant=_number)
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except json.JSONDecodeError as error:
        near = text[max(error.pos - 20, 0):error.pos + 20]
        raise MXNetError(f"{where}: not JSON: {error.msg} at line {error.lineno} column "
                         f"{error.colno}, near {near!r}{_other(data)}") from None
    except (ValueError, RecursionError) as error:
        raise MXNetError(f"{where}: not a graph: {error}") from None


def _other(data: bytes) -> str:
    """The format of what is no JSON, as far as its first byte tells."""
    return "" if data.lstrip()[:1] in (b"{", b"[") else foreign_format(data[:HEAD_SIZE])


def _check_bounds(data: bytes, where: str) -> None:
    depth, cost = 0, 0
    for chunk in _without_strings(data):
        steps = ((chunk == ord("[")) | (chunk == ord("{"))).astype(np.int32)
        steps -= (chunk == ord("]")) | (chunk == ord("}"))
        depths = depth + np.cumsum(steps, dtype=np.int32)
        if depths.size and int(depths.max()) > MAX_DEPTH:
            raise MXNetError(f"{where}: brackets nest deeper than {MAX_DEPTH} levels, which no "
                             "graph does")
        depth = int(depths[-1]) if depths.size else depth
        cost += sum(price * int(np.count_nonzero(chunk == ord(byte)))
                    for byte, price in _COST.items())
    if cost > PER_BYTE * len(data) + MEMORY:
        raise MXNetError(f"{where}: {len(data)} bytes of text hold so many tiny parts that they "
                         f"would take some {cost >> 20} MB; no graph does")


def _without_strings(data: bytes, size: int = 1 << 20) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes outside strings, in chunks; the quotes of strings are kept."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    inside = 0
    for start in range(0, len(data), size):
        chunk = np.frombuffer(data, np.uint8, min(size, len(data) - start), start)
        quotes = chunk == ord('"')
        opened = inside + np.cumsum(quotes, dtype=np.int32)
        inside = int(opened[-1]) & 1
        yield chunk[quotes | (opened & 1 == 0)]


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"the number {text[:MAX_DIGITS]}... has {len(text)} digits")
    return int(text)


def _number(text: str) -> NoReturn:
    raise ValueError(f"{text[:MAX_DIGITS]!r} where only integers are allowed")
