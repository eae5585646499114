"""How ops compute with sparse values.

`compute` returns the result in the storage type that `storage_types` gives it:

    KEEPS_ZEROS   the op itself runs on the stored elements
    has a row     a function here, which the table of implementations has under "sparse"
    others        the op runs on dense arrays, and its result is converted

A function returns NotImplemented for storage types that it has no form for.  Sums are in the order
in which elements are stored, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np

from ...base import MXNetError
from .. import OPS
from ..dispatch import SPARSE, Prepare, find, implements
from ..op import Call, Op
from ..tensor.gather_scatter import in_range
from .formats import (
    CSR,
    RowSparse,
    Sparse,
    as_dense,
    from_dense,
    letters_of,
    require_inside,
    to_dense,
)
from .products import multiply, multiply_rows, multiply_transposed, sum_equal
from .reductions import mean, norm, square_sum, sum_stored
from .storage_types import CONDITIONAL, KEEPS_ZEROS, STYPES, result

__all__ = ["Value", "compute", "declare", "places_set"]

Value: TypeAlias = "Sparse | np.ndarray"
Dense: TypeAlias = Callable[[Op, Sequence[np.ndarray]], Any]
"""Runs an op on dense arrays."""


def compute(op: Op, ins: Sequence[Value], letter: str, dense: Dense) -> Value:
    """The first output of an op, in the storage type `letter`; `dense` runs ops on dense arrays."""
    value = ins[0]
    on_stored = op.name in KEEPS_ZEROS or op.name in ON_STORED
    if on_stored and letter != "d" and not isinstance(value, np.ndarray):
        return value.with_data(dense(op, [value.data])) if value.data.size else value
    kinds = letters_of(ins)
    row = find(type(op), SPARSE)
    if row is not None and letter == result(op, kinds, natural=True):
        outs: list[Value] = [NotImplemented]
        row.prepare(op, ins, outs, Call())()
        if outs[0] is not NotImplemented:
            return outs[0]
    return from_dense(dense(op, [*map(as_dense, ins)]), STYPES[letter])


ON_STORED = {name for name in CONDITIONAL if name.endswith("_scalar")} | {"clip",
                                                                         "_contrib_quadratic"}


# -- products ---------------------------------------------------------------------------------


def _dot(op: Any, lhs: Value, rhs: Value) -> Value:
    """csr . dense, or csr . row_sparse: a product with the rows that lhs names.

    That of the transposed csr has a row for every column of lhs that has elements.
    """
    if not isinstance(lhs, CSR):
        return NotImplemented
    if op.transpose_a:
        return multiply_transposed(lhs, as_dense(rhs))
    return multiply_rows(lhs, rhs) if isinstance(rhs, RowSparse) else multiply(
        lhs, as_dense(rhs))


# -- rows -------------------------------------------------------------------------------------


def _sum_rows(op: Any, *terms: Value) -> Value:
    """The union of rows, each the sum of those of the terms, in their order."""
    rows = [term for term in terms if isinstance(term, RowSparse)]
    if len(rows) < len(terms):
        return NotImplemented
    first, *rest = rows
    if rest and all(np.array_equal(first.indices, term.indices) for term in rest):
        return first.with_data(sum((term.data for term in rest), first.data))
    shape, ids = first.shape, np.concatenate([term.indices for term in rows])
    values = np.concatenate([term.data for term in rows])
    total = sum_equal(ids, values.reshape(len(ids), prod(shape[1:])), len(first))
    return RowSparse(total.indices, total.data.reshape(-1, *shape[1:]), shape)


def _subtract_rows(op: Any, lhs: Value, rhs: Value) -> Value:
    if not isinstance(rhs, RowSparse):
        return NotImplemented
    return _sum_rows(op, lhs, rhs.with_data(-rhs.data))


def _at_places(op: Op, lhs: Value, rhs: Value) -> Value:
    """The product of a sparse and a dense array, which may be repeated along an axis: at the
    places that the sparse one stores."""
    sparse, dense = (rhs, lhs) if isinstance(lhs, np.ndarray) else (lhs, rhs)
    if isinstance(sparse, np.ndarray) or not isinstance(dense, np.ndarray):
        return NotImplemented
    return sparse.with_data(sparse.data * _places(sparse, dense))


def _over_places(op: Op, lhs: Sparse, rhs: Value) -> Value:
    """A quotient, likewise."""
    return lhs.with_data(lhs.data / _places(lhs, as_dense(rhs)))


def _places(sparse: Sparse, dense: np.ndarray) -> np.ndarray:
    """The elements of a dense array where the sparse one stores some."""
    require_inside(sparse)
    whole = np.broadcast_to(dense, sparse.shape)
    if isinstance(sparse, CSR):
        return whole[sparse.row_of_each, sparse.indices]
    return whole[sparse.indices]


def _zeros(op: Op, like: Sparse) -> Sparse:
    return type(like).empty(like.shape, like.dtype)


def _retain(op: Any, data: RowSparse, indices: np.ndarray) -> RowSparse:
    return data.retain(in_range(indices, len(data), "raise"))


def _slice(op: Any, data: CSR) -> CSR:
    """Rows, and columns if they are given, without a step."""
    rows, *columns = op.region(data.shape, ())
    part = data[rows]
    return part.columns(*columns[0].indices(data.shape[1])[:2]) if columns else part


def _count(op: Any, data: CSR) -> np.ndarray:
    """Stored elements, of each row or column if there is an axis."""
    op.require_axis()
    require_inside(data)
    if op.axis == 1:
        return np.diff(data.indptr)
    if op.axis == 0:
        return np.bincount(data.indices, minlength=data.shape[1])
    return np.array([len(data.data)])


def _concatenate(op: Any, *parts: CSR) -> CSR:
    return CSR.concatenate(parts)


def _take(op: Any, data: Sparse, indices: np.ndarray) -> Value:
    """Rows by their indices."""
    rows = in_range(indices, len(data), op.mode)
    if isinstance(data, RowSparse):
        return data.retain(rows.reshape(-1)).data.reshape(*rows.shape, *data.shape[1:])
    if rows.ndim != 1:
        raise MXNetError(f"take: indices have shape {rows.shape}, expected one axis: rows of a csr "
                         "array are a matrix")
    return data.take(rows)


def _where(op: Op, condition: CSR, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x at the places of elements that are not 0."""
    out, (rows, columns) = y.copy(), places_set(condition)
    out[rows, columns] = x[rows, columns]
    return out


def places_set(condition: CSR) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the elements that are not 0."""
    require_inside(condition)
    mask = condition.data != 0
    return condition.row_of_each[mask], condition.indices[mask]


def _embed(op: Any, indices: np.ndarray, weight: RowSparse) -> np.ndarray:
    rows = np.clip(indices.astype(np.int64), 0, len(weight) - 1)
    return weight.retain(rows.reshape(-1)).data.reshape(*indices.shape, -1)


def _to_dense(op: Any, data: Value) -> Value:
    return to_dense(data) if op.stype == "default" else NotImplemented


@cache
def declare() -> None:
    """Add the forms to the table of implementations, which imports their ops."""
    for form, names in (
            (_dot, "dot"), (_sum_rows, "elemwise_add _grad_add add_n"),
            (_subtract_rows, "elemwise_sub"), (_at_places, "elemwise_mul broadcast_mul"),
            (_over_places, "_scatter_elemwise_div broadcast_div"), (_zeros, "zeros_like"),
            (_retain, "_sparse_retain"), (_to_dense, "cast_storage"), (sum_stored, "sum"),
            (mean, "mean"), (norm, "norm"), (square_sum, "_square_sum"), (_take, "take"),
            (_where, "where"), (_slice, "slice"), (_concatenate, "Concat"),
            (_count, "_contrib_getnnz"), (_embed, "Embedding _contrib_SparseEmbedding")):
        _declare(form, names)


def _declare(form: Callable[..., Value], names: str) -> None:
    def run(op: Op, ins: Sequence[Value], outs: list[Value], call: Call) -> None:
        outs[0] = form(op, *ins)

    run.__module__, run.__qualname__ = form.__module__, form.__qualname__
    implements(tuple(map(OPS.find, names.split())), SPARSE, cast("Prepare", run))
