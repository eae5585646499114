"""`mx.nd.sparse`: sparse arrays, how they are made, and the ops that have sparse forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..base import ArgumentError
from ..context import Context
from ..ops.sparse.formats import CSR, RowSparse, from_dense
from . import array_creation
from .functions import ARITHMETIC, namespace
from .host_array import as_dtype, elements_of, indices_of
from .sparse_array import BaseSparseNDArray as BaseSparseNDArray
from .sparse_array import CSRNDArray, RowSparseNDArray, of_scipy, on_cpu
from .sparse_array import array as array
from .sparse_array import empty as empty
from .sparse_array import zeros as zeros

if TYPE_CHECKING:
    from ..base import DTypeArg
    from ._op_stubs.sparse import *  # noqa: F403

_ARITHMETIC = ("add", "subtract", "multiply", "divide")
globals().update({name: ARITHMETIC[name] for name in _ARITHMETIC})
_get, __dir__ = namespace(__name__, "_sparse_", own=(
    "BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "array", "csr_matrix", "empty",
    "row_sparse_array", "zeros", *_ARITHMETIC))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get


# -- csr --------------------------------------------------------------------------------------


def csr_matrix(arg1: object, shape: Sequence[int] | None = None, ctx: Context | None = None,
               dtype: DTypeArg = None) -> CSRNDArray:
    """Make a matrix in compressed sparse rows.

    Parameters
    ----------
    arg1 : array_like, CSRNDArray, scipy.sparse.csr_matrix or tuple
        A dense matrix; a sparse one; ``(rows, columns)``, the shape of a matrix of zeros;
        ``(data, indices, indptr)``, the parts; or ``(data, (row, column))``, elements and their
        places, where those of one place are added.
    shape : tuple of int, optional
        Shape of the result; None: as large as the indices need.
    ctx : Context, optional
        Device that the matrix reports, a CPU; None: the current context.
    dtype : str or numpy type, optional
        Element type; None: that of the source if it is an array, or else float32.

    Returns
    -------
    CSRNDArray
        New matrix.  Its indices are taken as they are; `check_format` checks them.

    Raises
    ------
    ValueError
        If the source is not a matrix, or does not have the given shape.

    Examples
    --------
    >>> mx.nd.sparse.csr_matrix([[0, 1], [2, 0]]).data.asnumpy().tolist()
    [1.0, 2.0]
    >>> mx.nd.sparse.csr_matrix(([5, 6], ([0, 1], [1, 1])), shape=(2, 2)).asnumpy().tolist()
    [[0.0, 5.0], [0.0, 6.0]]
    """
    sizes = None if shape is None else array_creation.shape_of(shape)
    if sizes is not None and len(sizes) != 2:
        raise ArgumentError(f"csr_matrix: shape is {sizes}, expected 2 axes")
    value = _csr_of(arg1, sizes, dtype)
    if sizes is not None and sizes != value.shape:
        raise ArgumentError(f"Shape mismatch detected. {value.shape} v.s. {sizes}")
    return CSRNDArray(value if dtype is None else value.astype(as_dtype(dtype)), on_cpu(ctx))


def _csr_of(source: object, shape: tuple[int, ...] | None, dtype: DTypeArg) -> CSR:
    if isinstance(source, tuple):
        return _csr_of_tuple(source, shape, dtype)
    if isinstance(source, RowSparseNDArray):
        raise ArgumentError("Unexpected input type: RowSparseNDArray; use tostype('default') first")
    if isinstance(source, CSRNDArray):
        return source._data.astype(source._data.dtype)
    if (matrix := of_scipy(source)) is not None:
        return matrix
    dense = elements_of(source, dtype)
    if dense.ndim != 2:
        raise ArgumentError("To convert to a CSR, the NDArray should be 2 Dimensional. Current "
                            f"shape is {dense.shape}")
    value = from_dense(dense, "csr")
    assert isinstance(value, CSR)
    return value


def _csr_of_tuple(source: tuple[object, ...], shape: tuple[int, ...] | None, dtype: DTypeArg
                  ) -> CSR:
    if len(source) == 3:
        data, (indices, indptr) = elements_of(source[0], dtype), map(indices_of, source[1:])
        if shape is None and not indices.size:
            raise ArgumentError("csr_matrix: without elements, the number of columns is unknown; "
                                "give the shape")
        return CSR(indptr, indices, data, shape or (len(indptr) - 1, int(indices.max()) + 1))
    if len(source) != 2:
        raise ArgumentError(f"csr_matrix: a tuple of {len(source)}, expected a shape, (data, "
                            "indices, indptr) or (data, (row, column))")
    if not isinstance(source[1], (tuple, list)):
        return CSR.empty(array_creation.shape_of(source), as_dtype(dtype))
    data, places = elements_of(source[0], dtype), [*map(indices_of, source[1])]
    full = shape or tuple(int(part.max(initial=-1)) + 1 for part in places)
    if any(part.size and not 0 <= part.min() <= part.max() < size
           for part, size in zip(places, full, strict=True)):
        raise ArgumentError(f"csr_matrix: a row or column is outside of shape {full}")
    return CSR.of_places(data, (places[0], places[1]), full)


# -- row_sparse -------------------------------------------------------------------------------


def row_sparse_array(arg1: object, shape: Sequence[int] | None = None, ctx: Context | None = None,
                     dtype: DTypeArg = None) -> RowSparseNDArray:
    """Make an array of which some rows are stored.

    Parameters
    ----------
    arg1 : array_like, RowSparseNDArray or tuple
        A dense array; a sparse one; a tuple of integers, the shape of an array of zeros; or
        ``(data, indices)``, the rows and their places.
    shape, ctx, dtype
        As for `csr_matrix`.

    Returns
    -------
    RowSparseNDArray
        New array.  Its indices are taken as they are; `check_format` checks them.

    Raises
    ------
    ValueError
        If the source does not have the given shape.

    Examples
    --------
    >>> x = mx.nd.sparse.row_sparse_array(([[1, 2], [3, 4]], [0, 2]), shape=(4, 2))
    >>> x.asnumpy().tolist()
    [[1.0, 2.0], [0.0, 0.0], [3.0, 4.0], [0.0, 0.0]]
    """
    sizes = None if shape is None else array_creation.shape_of(shape)
    value = _rows_of(arg1, sizes, dtype)
    if sizes is not None and sizes != value.shape:
        raise ArgumentError(f"Shape mismatch detected. {value.shape} v.s. {sizes}")
    return RowSparseNDArray(value if dtype is None else value.astype(as_dtype(dtype)), on_cpu(ctx))


def _rows_of(source: object, shape: tuple[int, ...] | None, dtype: DTypeArg) -> RowSparse:
    if isinstance(source, tuple):
        if len(source) == 2 and not isinstance(source[0], (int, np.integer)):
            data, indices = elements_of(source[0], dtype), indices_of(source[1])
            rows = int(indices.max(initial=-1)) + 1
            return RowSparse(indices, data, shape or (rows, *data.shape[1:]))
        return RowSparse.empty(array_creation.shape_of(source), as_dtype(dtype))
    if isinstance(source, CSRNDArray):
        raise ArgumentError("Unexpected input type: CSRNDArray; use tostype('default') first")
    if isinstance(source, RowSparseNDArray):
        return source._data.astype(source._data.dtype)
    value = from_dense(elements_of(source, dtype), "row_sparse")
    assert isinstance(value, RowSparse)
    return value


# -- both -------------------------------------------------------------------------------------
