"""`mx.nd.sparse`: the compressed rows that iterators read, and arrays of storage 'default'.

A `CSRNDArray` is what `LibSVMIter` yields.  It can be read, cut, copied, and given to anything that
takes an NDArray, which sees it dense.  Other sparse arrays cannot be made yet; their classes exist
so that `isinstance` has its answer.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..base import MXNetError
from ..context import Context
from . import creation
from .csr import BaseSparseNDArray
from .csr import CSRNDArray as CSRNDArray
from .functions import ARITHMETIC, namespace
from .ndarray import NDArray

_ARITHMETIC = ("add", "subtract", "multiply", "divide")
globals().update({name: ARITHMETIC[name] for name in _ARITHMETIC})
__getattr__, __dir__ = namespace(__name__, "_sparse_")


class RowSparseNDArray(BaseSparseNDArray):
    """Some rows of an array; there are no instances."""

    __slots__ = ()


def _refuse(what: str) -> NoReturn:
    raise MXNetError(f"{what}: sparse storage is not supported; use a dense array "
                     "(mx.nd.array, mx.nd.zeros)")


def csr_matrix(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None
               ) -> NoReturn:
    """Not supported: raises MXNetError."""
    _refuse("csr_matrix")


def row_sparse_array(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None
                     ) -> NoReturn:
    """Not supported: raises MXNetError."""
    _refuse("row_sparse_array")


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NoReturn:
    """Not supported: raises MXNetError."""
    _refuse("sparse.array")


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any
          ) -> NDArray:
    """Zeros of storage type `stype`, which must be 'default'."""
    return creation.zeros(shape, ctx, dtype, stype, **kwargs)


def empty(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """An array of undefined contents of storage type `stype`, which must be 'default'."""
    return creation.empty(shape, ctx, dtype, stype)
