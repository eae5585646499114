"""How ops compute with sparse values.

`compute` returns the result in the storage type that `storage_types` gives it:

    KEEPS_ZEROS   the op itself runs on the stored elements
    FORMS         a function here
    others        the op runs on dense arrays, and its result is converted

Sums are in the order in which elements are stored, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ...base import MXNetError
from ..op import Op
from ..tensor.indexing import in_range
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

__all__ = ["Value", "compute", "places_set"]

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
    form = VARIADIC.get((op.name, *set(kinds)), FORMS.get((op.name, letter, *kinds)))
    if form is not None and letter == result(op, kinds, natural=True):
        return form(op, *ins)
    return from_dense(dense(op, [*map(as_dense, ins)]), STYPES[letter])


ON_STORED = {name for name in CONDITIONAL if name.endswith("_scalar")} | {"clip",
                                                                         "_contrib_quadratic"}


# -- products ---------------------------------------------------------------------------------


def _dot_csr(op: Any, lhs: CSR, rhs: np.ndarray) -> np.ndarray:
    """csr . dense."""
    return multiply(lhs, rhs)


def _dot_csr_rows(op: Any, lhs: CSR, rhs: RowSparse) -> np.ndarray:
    """csr . row_sparse: a product with the rows that lhs names."""
    return multiply_rows(lhs, rhs)


def _dot_transposed(op: Any, lhs: CSR, rhs: np.ndarray) -> RowSparse:
    """csr^T . dense: a row for every column of lhs that has elements."""
    return multiply_transposed(lhs, rhs)


def _dot_transposed_rows(op: Any, lhs: CSR, rhs: RowSparse) -> RowSparse:
    """csr^T . row_sparse."""
    return multiply_transposed(lhs, as_dense(rhs))


# -- rows -------------------------------------------------------------------------------------


def _sum_rows(op: Any, *terms: RowSparse) -> RowSparse:
    """The union of rows, each the sum of those of the terms, in their order."""
    first, *rest = terms
    if rest and all(np.array_equal(first.indices, term.indices) for term in rest):
        return first.with_data(sum((term.data for term in rest), first.data))
    shape, ids = terms[0].shape, np.concatenate([term.indices for term in terms])
    values = np.concatenate([term.data for term in terms])
    total = sum_equal(ids, values.reshape(len(ids), prod(shape[1:])), len(terms[0]))
    return RowSparse(total.indices, total.data.reshape(-1, *shape[1:]), shape)


def _subtract_rows(op: Any, lhs: RowSparse, rhs: RowSparse) -> RowSparse:
    return _sum_rows(op, lhs, rhs.with_data(-rhs.data))


def _at_places(op: Op, lhs: Value, rhs: Value) -> Value:
    """The product of a sparse and a dense array, which may be repeated along an axis: at the
    places that the sparse one stores."""
    sparse, dense = (rhs, lhs) if isinstance(lhs, np.ndarray) else (lhs, rhs)
    assert not isinstance(sparse, np.ndarray) and isinstance(dense, np.ndarray)
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
    kept = condition.data != 0
    return condition.row_of_each[kept], condition.indices[kept]


def _embed(op: Any, indices: np.ndarray, weight: RowSparse) -> np.ndarray:
    rows = np.clip(indices.astype(np.int64), 0, len(weight) - 1)
    return weight.retain(rows.reshape(-1)).data.reshape(*indices.shape, -1)


FORMS: dict[tuple[str, ...], Callable[..., Value]] = {
    ("dot", "d", "c", "d"): _dot_csr,
    ("dot", "d", "c", "r"): _dot_csr_rows,
    ("dot", "r", "c", "d"): _dot_transposed,
    ("dot", "r", "c", "r"): _dot_transposed_rows,
    ("elemwise_add", "r", "r", "r"): _sum_rows,
    ("_grad_add", "r", "r", "r"): _sum_rows,
    ("elemwise_sub", "r", "r", "r"): _subtract_rows,
    **{(name, *kinds): _at_places for name in ("elemwise_mul", "broadcast_mul")
       for kinds in ("rrd", "rdr", "ccd", "cdc")},
    **{("_scatter_elemwise_div", "r", "r", kind): _over_places for kind in "drc"},
    ("broadcast_div", "c", "c", "d"): _over_places,
    ("zeros_like", "r", "r"): _zeros,
    ("zeros_like", "c", "c"): _zeros,
    ("_sparse_retain", "r", "r", "d"): _retain,
    ("cast_storage", "d", "r"): lambda op, data: to_dense(data),
    ("cast_storage", "d", "c"): lambda op, data: to_dense(data),
    **{(name, "d", kind): form for kind in "rc"
       for name, form in (("sum", sum_stored), ("mean", mean), ("norm", norm))},
    ("_square_sum", "d", "r"): square_sum,
    ("_square_sum", "r", "r"): square_sum,
    ("take", "c", "c", "d"): _take,
    ("take", "d", "r", "d"): _take,
    ("where", "d", "c", "d", "d"): _where,
    ("slice", "c", "c"): _slice,
    ("_contrib_getnnz", "d", "c"): _count,
    ("Embedding", "d", "d", "r"): _embed,
    ("_contrib_SparseEmbedding", "d", "d", "r"): _embed,
}
"""(op, letter of the result, letters of the inputs) -> function of the op and its inputs."""
VARIADIC: dict[tuple[str, ...], Callable[..., Value]] = {
    ("add_n", "r"): _sum_rows, ("Concat", "c"): _concatenate}
"""(op, letter of all inputs) -> function of the op and its inputs."""
