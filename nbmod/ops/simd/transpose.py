"""In-register transposition of a square of `lanes` x `lanes` elements.

    transpose               target[j, i] = source[i, j]; row strides are `steps[0]` and `steps[1]`
    transpose_nontemporal   the same with non-temporal stores: rows of the target are aligned
    transpose_scatter       row j of the target is row rows[j]; of equal ones the first counts
    transpose_gather        row i of the source is row rows[i]

A third element of the steps of `transpose` is the number of rows of the source: the last one is
read in place of those beyond it.

In the stage of size s, rows that are s apart exchange their off-diagonal blocks of s elements;
after log2(lanes) stages the square is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from .ir import IRValue, MicroKernel, Vectors, width_of

__all__ = ["transpose", "transpose_gather", "transpose_nontemporal", "transpose_scatter"]


def _emit(v: Vectors, nontemporal: bool = False) -> None:
    source, target = v.starts("source", "target")
    near, far, *count = v.args.steps
    indices = [v.minimum(i, v.add(count[0], -1)) if count else i for i in range(v.width)]
    rows = [v.load(v.at(source, v.mul(near, i))) for i in indices]
    for j, row in enumerate(_transposed_rows(v, rows)):
        (v.store_nontemporal if nontemporal else v.store)(row, v.at(target, v.mul(far, j)))


def _transposed_rows(v: Vectors, rows: list[IRValue]) -> list[IRValue]:
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


def _emit_scatter(v: Vectors) -> None:
    (source, target, rows), (near, far) = v.starts("source", "target", "rows"), v.args.steps
    vectors = _transposed_rows(v, [v.load(v.at(source, v.mul(near, i))) for i in range(v.width)])
    indices = [v.load_int(rows, i) for i in range(v.width)]
    for index, row in reversed(list(zip(indices, vectors, strict=True))):
        v.store(row, v.at(target, v.mul(far, index)))


def _emit_gather(v: Vectors) -> None:
    (source, target, rows), (near, far) = v.starts("source", "target", "rows"), v.args.steps
    indices = [v.load_int(rows, i) for i in range(v.width)]
    vectors = _transposed_rows(v, [v.load(v.at(source, v.mul(near, index))) for index in indices])
    for j, row in enumerate(vectors):
        v.store(row, v.at(target, v.mul(far, j)))


def _reference(source: np.ndarray, target: np.ndarray, at: Sequence[int], steps: Sequence[int]
               ) -> None:
    near, far, *count = steps
    width = width_of(source.dtype)
    for j, i in np.ndindex(width, width):  # rows of the target in order: they may overlap
        row = min(i, count[0] - 1) if count else i
        target[at[1] + j * far + i] = source[at[0] + row * near + j]


transpose = MicroKernel(("source", "target", "at", "steps"), _emit, _reference)
transpose_nontemporal = MicroKernel(("source", "target", "at", "steps"),
                                    partial(_emit, nontemporal=True), _reference)


def _scatter_reference(source: np.ndarray, target: np.ndarray, rows: np.ndarray,
                       at: Sequence[int], steps: Sequence[int]) -> None:
    width = width_of(source.dtype)
    for j, i in np.ndindex(width, width):
        row = width - 1 - j
        target[at[1] + rows[at[2] + row] * steps[1] + i] = source[at[0] + i * steps[0] + row]


def _gather_reference(source: np.ndarray, target: np.ndarray, rows: np.ndarray,
                      at: Sequence[int], steps: Sequence[int]) -> None:
    width = width_of(source.dtype)
    for j, i in np.ndindex(width, width):
        target[at[1] + j * steps[1] + i] = source[at[0] + rows[at[2] + i] * steps[0] + j]


_ARGUMENTS = ("source", "target", "rows", "at", "steps")
transpose_scatter = MicroKernel(_ARGUMENTS, _emit_scatter, _scatter_reference)
transpose_gather = MicroKernel(_ARGUMENTS, _emit_gather, _gather_reference)
