"""Sums over the stored elements of sparse arrays: `sum`, `mean`, `norm` and `_square_sum`.

Elements are added in the order in which they are stored, by one thread; those of floating point in
float64.  Nothing takes memory for elements that are not stored, but for a result that is dense.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..tensor.reduce import divide, reduced_axes, reduced_shape
from .formats import CSR, RowSparse, Sparse, require_inside, to_dense

__all__ = ["mean", "norm", "square_sum", "sum_stored"]


def sum_stored(op: Any, data: Sparse) -> np.ndarray:
    """`sum`."""
    return _reduced(op, data, _same, lambda total, terms, out: np.copyto(out, total,
                                                                        casting="unsafe"))


def mean(op: Any, data: Sparse) -> np.ndarray:
    """`mean`: the sum over the number of elements, stored or not."""
    return _reduced(op, data, _same, divide)


def norm(op: Any, data: Sparse) -> np.ndarray:
    """`norm`: the sum of magnitudes, or the root of that of squares."""
    def write(total: np.ndarray, terms: int, out: np.ndarray) -> None:
        np.copyto(out, np.sqrt(total) if op.ord == 2 else total, casting="unsafe")

    return _reduced(op, data, np.abs if op.ord == 1 else _squares, write)


def square_sum(op: Any, data: RowSparse) -> Sparse | np.ndarray:
    """`_square_sum`: sums of squares of the rows stored, or over them."""
    if op.axis == (0,):
        return np.add.reduce(np.square(data.data), axis=0, keepdims=op.keepdims)
    squares = np.einsum("rk,rk->r", data.data, data.data)
    sums = RowSparse(data.indices, squares[:, None], (data.shape[0], 1))
    return sums if op.keepdims else to_dense(sums).reshape(-1)


def _same(elements: np.ndarray) -> np.ndarray:
    return elements


def _squares(elements: np.ndarray) -> np.ndarray:
    return np.square(elements, dtype=np.float64)


def _reduced(op: Any, data: Sparse, term: Callable[[np.ndarray], np.ndarray],
             write: Callable[[np.ndarray, int, np.ndarray], None]) -> np.ndarray:
    """`write(sums of the terms, number of terms, out)` for the axes of `op`."""
    axes = reduced_axes(op.axis, data.ndim, getattr(op, "exclude", False))
    dtype = np.dtype(getattr(op, "out_dtype", None) or data.dtype)
    out = np.empty(reduced_shape(data.shape, axes, op.keepdims), dtype)
    require_inside(data)
    terms = term(data.data)
    if not axes:
        total = to_dense(data.with_data(terms))
    elif isinstance(data, CSR):
        total = _of_matrix(data, axes, terms)
    else:
        total = _of_rows(data, axes, terms)
    write(total.reshape(out.shape), prod(data.shape[axis] for axis in axes), out)
    return out


def _of_matrix(data: CSR, axes: tuple[int, ...], terms: np.ndarray) -> np.ndarray:
    """Sums of the terms of a matrix: all, or those of every row or column."""
    if len(axes) == 2:
        return np.add.reduce(terms, dtype=_wide(terms))
    where, size = ((data.indices, data.shape[1]) if axes == (0,) else
                   (data.row_of_each, len(data)))
    if terms.dtype.kind == "f":
        return np.bincount(where, terms, size)
    total = np.zeros(size, _wide(terms))
    np.add.at(total, where, terms)
    return total


def _of_rows(data: RowSparse, axes: tuple[int, ...], terms: np.ndarray) -> np.ndarray:
    """Sums of the terms of rows: over the rows, too, or for each of them."""
    sums = np.add.reduce(terms, axis=axes, dtype=_wide(terms))
    if 0 in axes:
        return sums
    total = np.zeros((len(data), *sums.shape[1:]), sums.dtype)
    total[data.indices] = sums
    return total


def _wide(terms: np.ndarray) -> Any:
    """The type to add terms in."""
    return np.float64 if terms.dtype.kind == "f" else terms.dtype
