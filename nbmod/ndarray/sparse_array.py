"""Sparse arrays: `CSRNDArray` and `RowSparseNDArray`, NDArrays whose `_data` is a sparse value.

They are on the CPU.  Every function of `mx.nd` takes them (`sparse_eager`): with sparse kernels
where there are some, and as dense arrays elsewhere.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from ..base import (
    AbstractError,
    ArgumentError,
    ArgumentTypeError,
    MXNetError,
    NotSupportedForSparseNDArray,
    OutOfRange,
    numeric_types,
)
from ..context import Context, cpu, resolve
from ..ops.sparse.formats import CSR, RowSparse, Sparse, from_dense, parts_of, to_dense
from ..ops.sparse.storage_types import LETTERS
from . import array_creation
from .eager import named_op
from .host_array import as_dtype, host_array, indices_of
from .invocation import invoke
from .ndarray import NDArray
from .operators import BinaryOperator

if TYPE_CHECKING:
    from ..base import DTypeArg, Forwarded

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "array", "empty", "of_scipy",
           "of_value", "on_cpu", "share_rows", "stored_parts", "zeros"]

SAME_SHAPE = {"broadcast_add": "elemwise_add", "broadcast_sub": "elemwise_sub",
              "broadcast_mul": "elemwise_mul", "broadcast_div": "elemwise_div"}
"""Ops of operands that are not broadcast."""


class BaseSparseNDArray(NDArray):
    """Base class of the sparse storage types.

    Parameters
    ----------
    handle : CSR or RowSparse
        The value; None for an array that gets its contents later, as in unpickling.
    ctx : Context, optional
        Device that the array reports; None: the current context, or `cpu(0)` for a GPU.
    """

    __slots__ = ()

    is_sparse = True
    _data: Sparse
    _format: ClassVar[type[Sparse]]

    def __init__(self, handle: Any, ctx: Context | None = None):
        if type(self) is BaseSparseNDArray:
            raise MXNetError("BaseSparseNDArray: make a CSRNDArray or a RowSparseNDArray, by "
                             "mx.nd.sparse.csr_matrix or row_sparse_array")
        super().__init__(handle, ctx)
        if self._ctx.is_gpu:
            raise MXNetError(f"{type(self).__name__}: sparse arrays are on the CPU, given "
                             f"{self._ctx}; use mx.cpu(), or tostype('default') first")

    @property
    def size(self) -> int:
        raise AbstractError(f"{type(self).__name__}: size is not defined for sparse arrays; data "
                            "has the stored elements")

    @property
    def stype(self) -> str:
        return self._format.stype

    @property
    def data(self) -> NDArray:
        """A copy of the stored elements."""
        return array_creation.array(self._data.data, self._ctx, self.dtype)

    @property
    def indices(self) -> NDArray:
        """A copy of the indices, int64."""
        return array_creation.array(self._data.indices, self._ctx, np.int64)

    @property
    def _num_aux(self) -> int:
        return len(self._data.aux)

    def __bool__(self) -> bool:
        if self._data.size > 1:
            raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")
        return bool(self.asnumpy().any())

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"\n<{type(self).__name__} {shape} @{self._ctx}>"

    # -- copies -----------------------------------------------------------------------------

    def asnumpy(self) -> np.ndarray:
        """Return the dense array as a NumPy array; MXNetError for an index outside of the shape."""
        return to_dense(self._data)

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        target = as_dtype(dtype)
        if not copy and target == self._data.dtype:
            return self
        return type(self)(self._data.astype(target), self._ctx)

    def copy(self) -> NDArray:
        return self.astype(self.dtype)

    def copyto(self, other: NDArray | Context) -> NDArray | bool:
        """Copy to a dense array or one of this storage type, of the same shape, or to a device.

        ArgumentTypeError for the other sparse storage type, MXNetError for another shape.
        """
        if isinstance(other, Context):
            return type(self)(self._data.astype(self._data.dtype), resolve(other))
        if not isinstance(other, NDArray) or other.stype not in ("default", self.stype):
            raise ArgumentTypeError("copyto does not support destination NDArray stype "
                                    f"{getattr(other, 'stype', type(other))}")
        if other is self:
            return super().copyto(other)
        if other.shape != self.shape:
            raise MXNetError(f"copyto: shapes {self.shape} and {other.shape} do not agree")
        if other.stype == "default":
            other[:] = self.asnumpy()
        elif other._data is not self._data:     # `share_rows`
            other._data = self._data.astype(other._data.dtype)
        return other

    def tostype(self, stype: str) -> NDArray:
        """Return a copy with another storage type; ArgumentError for the other sparse one."""
        if stype in ("csr", "row_sparse") and stype != self.stype:
            raise ArgumentError(f"cast_storage from {self.stype} to {stype} is not supported; "
                                f"tostype('default').tostype({stype!r}) takes memory for all "
                                "elements")
        return super().tostype(stype)

    def check_format(self, full_check: bool = True) -> None:
        """Check the indices.

        Parameters
        ----------
        full_check : bool, default True
            Check every index; otherwise sizes and ends alone, which takes no time.

        Raises
        ------
        MXNetError
            If they are not ascending, or outside of the shape.
        """
        problem = self._data.problem(full_check)
        if problem:
            raise MXNetError(f"{type(self).__name__} of shape {self.shape}: {problem}")

    def detach(self) -> NDArray:
        return type(self)(self._data, self._ctx)

    def reshape(self, *shape: Any, **kwargs: Any) -> NoReturn:
        """Raise NotSupportedForSparseNDArray: sparse arrays have no reshape."""
        raise NotSupportedForSparseNDArray(f"{type(self).__name__}: reshape is not supported; use "
                                           "tostype('default') first")

    def _sync_copyfrom(self, source_array: object) -> None:
        self[:] = host_array(source_array, self._data.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None,), self.__getstate__()

    def __getstate__(self) -> dict[str, bytearray | None]:
        from ..core.serialization import record_bytes

        return {"handle": None if self._data is None else bytearray(record_bytes(self._data))}

    def _require_host(self, what: str) -> NoReturn:
        raise NotSupportedForSparseNDArray(f"{what}: {type(self).__name__}s do not share memory; "
                                           "data has the stored elements")

    def __setstate__(self, state: Mapping[str, bytes | bytearray | memoryview | None]) -> None:
        super().__setstate__(state)
        self._ctx = on_cpu(None)

    # -- elements ---------------------------------------------------------------------------

    def __iter__(self) -> Any:
        return (self[row] for row in range(len(self)))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace all elements: `x[:] = value`."""
        if key != slice(None):
            raise ArgumentTypeError(f"{type(self).__name__} only supports [:] for assignment, "
                                    f"given [{key!r}]")
        if isinstance(value, NDArray):
            if value is not self:
                value.copyto(self)
            return
        self._data = self._assigned(value)

    def _assigned(self, value: Any) -> Sparse:
        source = host_array(value, self._data.dtype)
        if source.shape != self.shape:
            raise ArgumentError(f"Shape inconsistent: expected {self.shape} vs got {source.shape}")
        sparse = from_dense(source.astype(self._data.dtype), self.stype)
        assert not isinstance(sparse, np.ndarray)
        return sparse

    def _binary(self, operation: BinaryOperator, other: Any, reflected: bool = False,
                out: NDArray | None = None) -> NDArray:
        if isinstance(other, NDArray) and other.shape == self.shape and (
                operation.arrays in SAME_SHAPE):
            pair = (other, self) if reflected else (self, other)
            return invoke(named_op(SAME_SHAPE[operation.arrays]), pair, out)
        return super()._binary(operation, other, reflected, out)


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed sparse rows (CSR).

    Row i has the value `data[k]` in column `indices[k]`, for k from `indptr[i]` to `indptr[i + 1]`.

    Parameters
    ----------
    handle, ctx
        As for `BaseSparseNDArray`.

    Examples
    --------
    >>> x = mx.nd.sparse.csr_matrix(([3, 4], [0, 2], [0, 1, 2]), shape=(2, 3))
    >>> x.asnumpy().tolist(), x[1].indices.asnumpy().tolist()
    ([[3.0, 0.0, 0.0], [0.0, 0.0, 4.0]], [2])
    """

    __slots__ = ()

    _data: CSR
    _format = CSR

    @property
    def indptr(self) -> NDArray:
        """A copy of the start of each row, and the end of the last one, int64."""
        return array_creation.array(self._data.indptr, self._ctx, np.int64)

    def asscipy(self) -> Any:
        """Return a copy as a `scipy.sparse.csr_matrix`."""
        try:
            from scipy.sparse import csr_matrix
        except ImportError:
            raise MXNetError("asscipy: scipy is not installed; pip install scipy") from None
        value = self._data.astype(self._data.dtype)
        return csr_matrix((value.data, value.indices, value.indptr), shape=self.shape)

    def __getitem__(self, key: Any) -> CSRNDArray:
        """Return some rows: an integer or a slice without a step; for `x[:]`, `x` itself."""
        if key == slice(None):
            return self
        if isinstance(key, (int, np.integer)):
            row = operator.index(key)
            if not -len(self) <= row < len(self):
                raise OutOfRange(f"CSRNDArray: row {row} of {len(self)}")
            key = slice(row, row + 1 or None)
        if isinstance(key, tuple):
            raise ArgumentError("CSRNDArray: Multi-dimension indexing is not supported; use "
                             "tostype('default') first")
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise ArgumentError(f"CSRNDArray: cannot be indexed with {key!r}; use an integer or a "
                             "slice of rows, or tostype('default') first")
        return CSRNDArray(self._data[key], self._ctx)

    def _assigned(self, value: Any) -> Sparse:
        if isinstance(value, numeric_types):
            raise ArgumentError("Assigning numeric types to CSRNDArray is not implemented: all "
                             "elements would be stored; use tostype('default') first")
        return super()._assigned(value)


class RowSparseNDArray(BaseSparseNDArray):
    """A tensor of which some rows are stored; all others are zeros.

    Parameters
    ----------
    handle, ctx
        As for `BaseSparseNDArray`.

    Examples
    --------
    >>> x = mx.nd.sparse.row_sparse_array(([[1, 2]], [1]), shape=(3, 2))
    >>> x.asnumpy().tolist(), x.indices.asnumpy().tolist()
    ([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]], [1])
    """

    __slots__ = ()

    _data: RowSparse
    _format = RowSparse

    def __getitem__(self, key: Any) -> RowSparseNDArray:
        """Return the array itself: `x[:]`."""
        if key != slice(None):
            raise ArgumentError(f"RowSparseNDArray only supports [:] for __getitem__, given "
                                f"[{key!r}]; use tostype('default') first")
        return self

    def retain(self, *args: Any, **kwargs: Any) -> NDArray:
        """Return `mx.nd.sparse.retain` of this array."""
        from .functions import op_function

        return op_function("_sparse_retain")(self, *args, **kwargs)

    def _assigned(self, value: Any) -> Sparse:
        if isinstance(value, numeric_types):
            return RowSparse(np.arange(len(self)), np.full(self.shape, value, self._data.dtype),
                             self.shape)
        return super()._assigned(value)


def of_value(value: Any, ctx: Context) -> NDArray:
    """Return the NDArray of a value in any storage type."""
    if isinstance(value, CSR):
        return CSRNDArray(value, ctx)
    return RowSparseNDArray(value, ctx) if isinstance(value, RowSparse) else NDArray(value, ctx)


def share_rows(source: NDArray, *targets: NDArray) -> bool:
    """Let row_sparse arrays have the value of another itself, without a copy.

    Updates of one by an optimizer (`sparse_update`), which are in place, are then those of all;
    assignments replace the value of one.  Returns False, and does nothing, unless all are
    row_sparse, of one shape and one element type.
    """
    if any((array.stype, array.shape, array.dtype) != ("row_sparse", source.shape, source.dtype)
           for array in (source, *targets)):
        return False
    for target in targets:
        target._data = source._data
    return True


def stored_parts(array: NDArray) -> tuple[np.ndarray, ...]:
    """Return the elements that an array stores, then the indices if it is sparse.

    Of a sparse array no dense copy is made, which may be too large for memory.
    """
    return parts_of(array._data if array.is_sparse else array.asnumpy())


def on_cpu(ctx: Context | None) -> Context:
    """Return a context for sparse arrays: `cpu(0)` where the current context is a GPU."""
    context = array_creation.context_of(ctx)
    return cpu() if ctx is None and context.is_gpu else context


def of_scipy(source: Any) -> CSR | None:
    """Return the value of a `scipy.sparse.csr_matrix`, or None for other sources."""
    if getattr(source, "format", None) != "csr" or not hasattr(source, "indptr"):
        return None
    if not source.has_canonical_format:     # duplicates are added, columns are sorted
        source = source.copy()
        source.sum_duplicates()
    return CSR(indices_of(source.indptr), indices_of(source.indices), np.array(source.data),
               tuple(source.shape))


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
