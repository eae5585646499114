"""A square of numbers turned over in registers: rows become columns.

    transpose    target[j, i] = source[i, j],  i, j < lanes; rows lie `steps[0]` and `steps[1]`
                 numbers apart
    transpose_past    the same past the caches: rows of the target are multiples of a vector
    spread       the same, but row j of the target lies places[j] steps behind its beginning; of
                 rows in one place the first stays
    collect      the same, but so do the rows i of the source

Where the steps of `transpose` have a third number the source has only so many rows: the last stands
for the others.

In the turn of size s two rows that are s apart exchange their off-diagonal blocks of s numbers;
after log2(LANES) turns the square is transposed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .ir import Micro, Vectors, width_of

__all__ = ["collect", "spread", "transpose", "transpose_past"]


def _emit(v: Vectors, past: bool = False) -> None:
    source, target = (v.at(getattr(v.args, name), start)
                      for name, start in zip(("source", "target"), v.args.at, strict=True))
    near, far, *count = v.args.steps
    places = [v.least(i, v.add(count[0], -1)) if count else i for i in range(v.width)]
    rows = [v.load(v.at(source, v.mul(near, place))) for place in places]
    for j, row in enumerate(_turned(v, rows)):
        (v.stream if past else v.store)(row, v.at(target, v.mul(far, j)))


def _turned(v: Vectors, rows: list[Any]) -> list[Any]:
    """The columns of a square of rows."""
    rows, size, lanes_of = list(rows), v.width // 2, range(v.width)
    while size:
        for i in (i for i in range(v.width) if not i & size):
            a, b = rows[i], rows[i + size]
            rows[i] = v.chosen(a, b, [v.width + j - size if j & size else j for j in lanes_of])
            rows[i + size] = v.chosen(a, b, [v.width + j if j & size else j + size
                                             for j in lanes_of])
        size //= 2
    return rows


def _ends(v: Vectors) -> tuple[Any, Any, list[Any], tuple[Any, Any]]:
    """Pointers to source and target, the places, the steps."""
    source, target, places = (v.at(getattr(v.args, name), start) for name, start in zip(
        ("source", "target", "places"), v.args.at, strict=True))
    return source, target, [v.integer_at(places, i) for i in range(v.width)], v.args.steps


def _emit_spread(v: Vectors) -> None:
    source, target, places, (near, far) = _ends(v)
    rows = _turned(v, [v.load(v.at(source, v.mul(near, i))) for i in range(v.width)])
    for place, row in reversed(list(zip(places, rows, strict=True))):
        v.store(row, v.at(target, v.mul(far, place)))


def _emit_collect(v: Vectors) -> None:
    source, target, places, (near, far) = _ends(v)
    rows = _turned(v, [v.load(v.at(source, v.mul(near, place))) for place in places])
    for j, row in enumerate(rows):
        v.store(row, v.at(target, v.mul(far, j)))


def _twin(source: Any, target: Any, at: Any, steps: Any) -> None:
    near, far, *count = steps
    width = width_of(source.dtype)
    for i, j in np.ndindex(width, width):
        row = min(i, count[0] - 1) if count else i
        target[at[1] + j * far + i] = source[at[0] + row * near + j]


transpose = Micro(("source", "target", "at", "steps"), _emit, _twin)
transpose_past = Micro(("source", "target", "at", "steps"), partial(_emit, past=True), _twin)


def _spread(source: Any, target: Any, places: Any, at: Any, steps: Any) -> None:
    width = width_of(source.dtype)
    for j, i in np.ndindex(width, width):
        row = width - 1 - j
        target[at[1] + places[at[2] + row] * steps[1] + i] = source[at[0] + i * steps[0] + row]


def _collect(source: Any, target: Any, places: Any, at: Any, steps: Any) -> None:
    width = width_of(source.dtype)
    for i, j in np.ndindex(width, width):
        target[at[1] + j * steps[1] + i] = source[at[0] + places[at[2] + i] * steps[0] + j]


_ARGUMENTS = ("source", "target", "places", "at", "steps")
spread = Micro(_ARGUMENTS, _emit_spread, _spread)
collect = Micro(_ARGUMENTS, _emit_collect, _collect)
