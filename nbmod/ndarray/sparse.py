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


def array(source_array: object, ctx: Context | None = None, dtype: DTypeArg = None) -> NDArray:
    """Make a copy of a sparse array.

    Parameters
    ----------
    source_array : CSRNDArray, RowSparseNDArray or scipy.sparse.csr_matrix
        Source.
    ctx : Context, optional
        Device that the array reports, a CPU; None: the current context.
    dtype : str or numpy type, optional
        Element type; None: that of the source.

    Raises
    ------
    ValueError
        For dense sources, of which `mx.nd.array` makes arrays.

    Examples
    --------
    >>> mx.nd.sparse.array(mx.nd.sparse.zeros("csr", (2, 3))).stype
    'csr'
    """
    value = source_array._data if isinstance(source_array, BaseSparseNDArray) else of_scipy(
        source_array)
    if value is None:
        raise ArgumentError("Please use mx.nd.array to create an NDArray with source_array of type "
                         f"{type(source_array)}")
    return of_value(value.astype(as_dtype(value.dtype if dtype is None else dtype)), on_cpu(ctx))


def zeros(stype: str, shape: int | Sequence[int], ctx: Context | None = None,
          dtype: DTypeArg = None, **kwargs: Forwarded) -> NDArray:
    """Make an array of zeros; a sparse one stores no elements.

    Parameters
    ----------
    stype : {'default', 'csr', 'row_sparse'}
        Storage type.
    shape, ctx, dtype
        As for `nd.zeros`.
    **kwargs
        Only `out` is accepted: an NDArray to fill and return.

    Raises
    ------
    ValueError
        For another storage type.

    Examples
    --------
    >>> mx.nd.sparse.zeros("row_sparse", (5, 2)).data.shape
    (0, 2)
    """
    if stype not in LETTERS:
        raise ArgumentError(f"unknown storage type {stype!r}, expected one of {[*LETTERS]}")
    if stype == "default" or kwargs:
        return array_creation.zeros(shape, ctx, dtype, **kwargs)
    sizes = array_creation.shape_of(shape)
    if stype == "csr" and len(sizes) != 2:
        raise MXNetError(f"zeros: shape is {sizes}, expected 2 axes for csr")
    kind = CSR if stype == "csr" else RowSparse
    return of_value(kind.empty(sizes, as_dtype(dtype)), on_cpu(ctx))


def empty(stype: str, shape: int | Sequence[int], ctx: Context | None = None, dtype: DTypeArg = None
          ) -> NDArray:
    """Make an array with undefined contents; a sparse one has zeros.

    Parameters
    ----------
    stype, shape, ctx, dtype
        As for `zeros`.

    Examples
    --------
    >>> mx.nd.sparse.empty("csr", (2, 3)).shape
    (2, 3)
    """
    return zeros(stype, shape, ctx, dtype) if stype != "default" else array_creation.empty(
        shape, ctx, dtype)
