"""Random sparse arrays, drawn from NumPy's global generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..base import ArgumentError, CheckError
from ..context import Context
from ..ndarray.sparse import CSRNDArray, RowSparseNDArray, csr_matrix, row_sparse_array
from .tolerance import default_dtype

__all__ = ["create_sparse_array", "create_sparse_array_zd", "rand_sparse_ndarray",
           "shuffle_csr_column_indices"]

SparseArray = CSRNDArray | RowSparseNDArray


def rand_sparse_ndarray(shape: Sequence[int], stype: str, density: float | None = None,
                        dtype: Any = None, distribution: str | None = None,
                        data_init: float | None = None, rsp_indices: Any = None,
                        modifier_func: Callable | None = None, shuffle_csr_indices: bool = False,
                        ctx: Context | None = None) -> tuple[SparseArray, tuple]:
    """Draw a sparse array with elements from 0 to 1.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    stype : {'csr', 'row_sparse'}
        Storage type.
    density : float, optional
        Share of the elements (csr) or the probability of each row (row_sparse) that is stored, from
        0 to 1; drawn unless given.
    dtype : dtype, optional
        Element type; float32 unless given.
    distribution : {'uniform', 'powerlaw'}, optional
        Where elements of a csr array are: anywhere, or in the first columns of each row, twice as
        many in a row as in that before it.
    data_init : float, optional
        The value of all stored elements.
    rsp_indices : array of int, optional
        The rows that a row_sparse array stores.
    modifier_func : callable, optional
        Function that is applied to each stored element.
    shuffle_csr_indices : bool, default False
        Store the elements of each row of a csr array in a random order.
    ctx : Context, optional
        The device; the current context unless given.

    Returns
    -------
    array : CSRNDArray or RowSparseNDArray
        The array.
    parts : tuple
        (indptr, indices, data) of a csr array, (data, indices) of a row_sparse one.

    Raises
    ------
    ArgumentError
        If the density is not from 0 to 1, or has no such distribution.
    CheckError
        For another storage type or distribution.

    Examples
    --------
    >>> array, (data, indices) = mx.test_utils.rand_sparse_ndarray((5, 2), "row_sparse", density=1)
    >>> indices.tolist(), data.shape
    ([0, 1, 2, 3, 4], (5, 2))
    """
    density = np.random.rand() if density is None else density
    dtype = default_dtype() if dtype is None else dtype
    distribution = distribution or "uniform"
    if not 0 <= density <= 1:
        raise ArgumentError(f"rand_sparse_ndarray: density is {density}, expected 0 to 1")
    if stype == "row_sparse":
        if distribution != "uniform":
            raise CheckError(f"rand_sparse_ndarray: distribution {distribution!r} is not for "
                             "row_sparse arrays, expected 'uniform'")
        return _row_sparse(shape, density, dtype, data_init, rsp_indices, modifier_func, ctx)
    if stype != "csr":
        raise CheckError(f"rand_sparse_ndarray: stype is {stype!r}, expected 'csr' or "
                         "'row_sparse'")
    rows, columns = shape
    if distribution == "uniform":
        places = np.sort(np.random.choice(rows * columns, int(rows * columns * density), False))
        counts, indices = np.bincount(places // columns, minlength=rows), places % columns
    elif distribution == "powerlaw":
        counts = _powerlaw_counts(rows, columns, density)
        indices = np.concatenate([np.arange(count) for count in counts])
    else:
        raise CheckError(f"rand_sparse_ndarray: distribution is {distribution!r}, expected "
                         "'uniform' or 'powerlaw'")
    values = _values((len(indices),), data_init, modifier_func)
    parts = (values, indices, np.concatenate([[0], np.cumsum(counts)]))
    array = csr_matrix(parts, shape=(rows, columns), dtype=dtype, ctx=ctx)
    if shuffle_csr_indices:
        shuffle_csr_column_indices(array)
    return array, (array.indptr, array.indices, array.data)


def _row_sparse(shape: Sequence[int], density: float, dtype: Any, data_init: float | None,
                rows: Any, modifier_func: Callable | None, ctx: Context | None
                ) -> tuple[RowSparseNDArray, tuple]:
    if rows is None:
        rows = np.flatnonzero(np.random.rand(shape[0]) < density)
    indices = np.sort(np.asarray(rows).astype(np.int64))
    data = _values((len(indices), *shape[1:]), data_init, modifier_func).astype(dtype)
    array = row_sparse_array((data, indices), shape=tuple(shape), dtype=dtype, ctx=ctx)
    return array, (data, indices)


def _values(shape: Sequence[int], value: float | None, modify: Callable | None) -> np.ndarray:
    """Drawn elements, or all of one value."""
    drawn = np.random.rand(prod(shape)) if value is None else np.full(prod(shape), value)
    if modify is not None:
        drawn = np.array([modify(element) for element in drawn])
    return drawn.reshape(shape)


def _powerlaw_counts(rows: int, columns: int, density: float) -> np.ndarray:
    """Stored elements of each row: 2, 4, 8, ..., until they are used up, and 1 in other rows."""
    total = int(rows * columns * density)
    if total < 2 * rows:
        raise ArgumentError(f"rand_sparse_ndarray: powerlaw needs {2 * rows} elements for {rows} "
                            f"rows, density {density} gives {total}")
    most = np.array([min(2 ** min(row + 1, 62), columns) for row in range(rows)])
    before = np.concatenate([[0], np.cumsum(most - 1)])[:-1]
    counts = 1 + np.clip(total - rows - before, 0, most - 1)
    if counts.sum() < total:
        raise ArgumentError(f"rand_sparse_ndarray: powerlaw fills {counts.sum()} elements of shape "
                            f"{(rows, columns)}, density {density} gives {total}")
    return counts


def create_sparse_array(shape: Sequence[int], stype: str, data_init: float | None = None,
                        rsp_indices: Any = None, dtype: Any = None,
                        modifier_func: Callable | None = None, density: float = 0.5,
                        shuffle_csr_indices: bool = False) -> SparseArray:
    """Draw a sparse array, as `rand_sparse_ndarray`, and return it alone.

    Parameters
    ----------
    shape, stype, data_init, rsp_indices, dtype, modifier_func, density, shuffle_csr_indices
        As for `rand_sparse_ndarray`.
    """
    return rand_sparse_ndarray(
        shape, stype, density, dtype, data_init=data_init, rsp_indices=rsp_indices,
        modifier_func=modifier_func, shuffle_csr_indices=shuffle_csr_indices)[0]


def create_sparse_array_zd(shape: Sequence[int], stype: str, density: float,
                           data_init: float | None = None, rsp_indices: Any = None,
                           dtype: Any = None, modifier_func: Callable | None = None,
                           shuffle_csr_indices: bool = False) -> SparseArray:
    """Draw a sparse array whose rows, if it is row_sparse, are given.

    Parameters
    ----------
    shape, stype, density, data_init, rsp_indices, dtype, modifier_func, shuffle_csr_indices
        As for `rand_sparse_ndarray`.

    Raises
    ------
    CheckError
        If a row is beyond the shape.
    """
    if stype == "row_sparse" and rsp_indices is not None and max(rsp_indices, default=-1) >= (
            shape[0]):
        raise CheckError(f"create_sparse_array_zd: rsp_indices are {list(rsp_indices)}, expected "
                         f"rows below {shape[0]}")
    return create_sparse_array(shape, stype, data_init, rsp_indices, dtype, modifier_func, density,
                               shuffle_csr_indices)


def shuffle_csr_column_indices(csr: CSRNDArray) -> None:
    """Store the elements of each row of a csr array in a random order, in place.

    Parameters
    ----------
    csr : CSRNDArray
        The array; its values stay the same.
    """
    indptr, indices, data = (part.asnumpy().copy() for part in (csr.indptr, csr.indices, csr.data))
    for start, stop in zip(indptr, indptr[1:], strict=False):
        order = start + np.random.permutation(stop - start)
        indices[start:stop], data[start:stop] = indices[order], data[order]
    csr_matrix((data, indices, indptr), shape=csr.shape, dtype=csr.dtype).copyto(csr)
