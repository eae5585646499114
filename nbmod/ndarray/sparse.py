"""`mx.nd.sparse`: CSR matrices of iterators, and functions of arrays of storage type 'default'.

`LibSVMIter` yields `CSRNDArray`.  It can be read, sliced by rows, copied, and passed to functions
of NDArrays, which receive it as a dense array.  Other sparse arrays cannot be made; their classes
exist for `isinstance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from ..base import MXNetError
from ..context import Context
from . import array_creation
from .compressed import BaseSparseNDArray
from .compressed import CSRNDArray as CSRNDArray
from .functions import ARITHMETIC, namespace
from .ndarray import NDArray

if TYPE_CHECKING:
    from ..base import DTypeArg, Forwarded
    from ._op_stubs.sparse import *  # noqa: F403

_ARITHMETIC = ("add", "subtract", "multiply", "divide")
globals().update({name: ARITHMETIC[name] for name in _ARITHMETIC})
__getattr__, __dir__ = namespace(__name__, "_sparse_")


class RowSparseNDArray(BaseSparseNDArray):
    """An array of which some rows are stored; there are no instances."""

    __slots__ = ()


def _refuse(what: str) -> NoReturn:
    raise MXNetError(f"{what}: sparse storage is not supported; use a dense array "
                     "(mx.nd.array, mx.nd.zeros)")


def csr_matrix(arg1: object, shape: Sequence[int] | None = None, ctx: Context | None = None,
               dtype: DTypeArg = None) -> NoReturn:
    """Not supported: raises MXNetError.

    Parameters
    ----------
    arg1 : object
        Not used.
    shape : tuple of int, optional
        Not used.
    ctx : Context, optional
        Not used.
    dtype : str or numpy type, optional
        Not used.
    """
    _refuse("csr_matrix")


def row_sparse_array(arg1: object, shape: Sequence[int] | None = None, ctx: Context | None = None,
                     dtype: DTypeArg = None) -> NoReturn:
    """Not supported: raises MXNetError.

    Parameters
    ----------
    arg1 : object
        Not used.
    shape : tuple of int, optional
        Not used.
    ctx : Context, optional
        Not used.
    dtype : str or numpy type, optional
        Not used.
    """
    _refuse("row_sparse_array")


def array(source_array: object, ctx: Context | None = None, dtype: DTypeArg = None) -> NoReturn:
    """Not supported: raises MXNetError.

    Parameters
    ----------
    source_array : object
        Not used.
    ctx : Context, optional
        Not used.
    dtype : str or numpy type, optional
        Not used.
    """
    _refuse("sparse.array")


def zeros(stype: str, shape: int | Sequence[int], ctx: Context | None = None,
          dtype: DTypeArg = None, **kwargs: Forwarded) -> NDArray:
    """Make an array of zeros.

    Parameters
    ----------
    stype : {'default'}
        Storage type; another one raises MXNetError.
    shape : int or tuple of int
        Shape of the result.
    ctx : Context, optional
        Device of the result; None: the current context.
    dtype : str or numpy type, optional
        Element type; None: float32.
    **kwargs
        Only `out` is accepted: an NDArray to fill and return.
    """
    return array_creation.zeros(shape, ctx, dtype, stype, **kwargs)


def empty(stype: str, shape: int | Sequence[int], ctx: Context | None = None, dtype: DTypeArg = None
          ) -> NDArray:
    """Make an array with undefined contents.

    Parameters
    ----------
    stype : {'default'}
        Storage type; another one raises MXNetError.
    shape : int or tuple of int
        Shape of the result.
    ctx : Context, optional
        Device of the result; None: the current context.
    dtype : str or numpy type, optional
        Element type; None: float32.
    """
    return array_creation.empty(shape, ctx, dtype, stype)
