"""In-register transposition of a square of `lanes` x `lanes` elements.

    transpose               target[j, i] = source[i, j]; row strides are `steps[0]` and `steps[1]`
    transpose_nontemporal   the same with non-temporal stores: rows of the target are aligned
    transpose_scatter       row j of the target is row places[j]; of equal places the first counts
    transpose_gather        row i of the source is row places[i]

A third element of the steps of `transpose` is the number of rows of the source: the last one is
read in place of those beyond it.

In the stage of size s, rows that are s apart exchange their off-diagonal blocks of s elements;
after log2(lanes) stages the square is transposed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .ir import MicroKernel, Vectors, width_of

__all__ = ["transpose", "transpose_gather", "transpose_nontemporal", "transpose_scatter"]


def _emit(v: Vectors, nontemporal: bool = False) -> None:
    source, target = (v.at(getattr(v.args, name), start)
                      for name, start in zip(("source", "target"), v.args.at, strict=True))
    near, far, *count = v.args.steps
    places = [v.minimum(i, v.add(count[0], -1)) if count else i for i in range(v.width)]
    rows = [v.load(v.at(source, v.mul(near, place))) for place in places]
    for j, row in enumerate(_transposed_rows(v, rows)):
        (v.store_nontemporal if nontemporal else v.store)(row, v.at(target, v.mul(far, j)))


def _transposed_rows(v: Vectors, rows: list[Any]) -> list[Any]:
    """The columns of a square of rows."""
    rows, size, lanes_of = list(rows), v.width // 2, range(v.width)
    while size:
        for i in (i for i in range(v.width) if not i & size):
            a, b = rows[i], rows[i + size]
            rows[i] = v.shuffle(a, b, [v.width + j - size if j & size else j for j in lanes_of])
            rows[i + size] = v.shuffle(a, b, [v.width + j if j & size else j + size
                                             for j in lanes_of])
        size //= 2
    return rows


def _operands(v: Vectors) -> tuple[Any, Any, list[Any], tuple[Any, Any]]:
    """Pointers to source and target, places, strides."""
    source, target, places = (v.at(getattr(v.args, name), start) for name, start in zip(
        ("source", "target", "places"), v.args.at, strict=True))
    return source, target, [v.load_int(places, i) for i in range(v.width)], v.args.steps


def _emit_scatter(v: Vectors) -> None:
    source, target, places, (near, far) = _operands(v)
    rows = _transposed_rows(v, [v.load(v.at(source, v.mul(near, i))) for i in range(v.width)])
    for place, row in reversed(list(zip(places, rows, strict=True))):
        v.store(row, v.at(target, v.mul(far, place)))


def _emit_gather(v: Vectors) -> None:
    source, target, places, (near, far) = _operands(v)
    rows = _transposed_rows(v, [v.load(v.at(source, v.mul(near, place))) for place in places])
    for j, row in enumerate(rows):
        v.store(row, v.at(target, v.mul(far, j)))


def _reference(source: Any, target: Any, at: Any, steps: Any) -> None:
    near, far, *count = steps
    width = width_of(source.dtype)
    for i, j in np.ndindex(width, width):
        row = min(i, count[0] - 1) if count else i
        target[at[1] + j * far + i] = source[at[0] + row * near + j]


transpose = MicroKernel(("source", "target", "at", "steps"), _emit, _reference)
transpose_nontemporal = MicroKernel(("source", "target", "at", "steps"),
                                    partial(_emit, nontemporal=True), _reference)


def _scatter_reference(source: Any, target: Any, places: Any, at: Any, steps: Any) -> None:
    width = width_of(source.dtype)
    for j, i in np.ndindex(width, width):
        row = width - 1 - j
        target[at[1] + places[at[2] + row] * steps[1] + i] = source[at[0] + i * steps[0] + row]


def _gather_reference(source: Any, target: Any, places: Any, at: Any, steps: Any) -> None:
    width = width_of(source.dtype)
    for i, j in np.ndindex(width, width):
        target[at[1] + j * steps[1] + i] = source[at[0] + places[at[2] + i] * steps[0] + j]


_ARGUMENTS = ("source", "target", "places", "at", "steps")
transpose_scatter = MicroKernel(_ARGUMENTS, _emit_scatter, _scatter_reference)
transpose_gather = MicroKernel(_ARGUMENTS, _emit_gather, _gather_reference)
