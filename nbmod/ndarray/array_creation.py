"""Creation of arrays: from data, filled with a value, or as a sequence."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from ..base import ArgumentTypeError, Array, DTypeArg, Forwarded, MXNetError, OutOfMemory
from ..context import Context, current_context, resolve
from ..core.shape_semantics import is_np_shape
from ..ops import OPS
from ..ops.device import device_of, synchronize
from .host_array import as_dtype, host_array
from .invocation import invoke
from .mutation import share
from .ndarray import NDArray

__all__ = ["array", "from_numpy", "empty", "zeros", "ones", "full", "arange", "linspace", "eye",
           "waitall"]

Shape = int | Sequence[int]


def context_of(ctx: Context | str | None) -> Context:
    """Return the device that a `ctx` argument names.

    Parameters
    ----------
    ctx : Context, str or None
        A context, text such as 'cpu(0)', or None for the current context.

    Raises
    ------
    MXNetError
        If the device does not exist.
    """
    if isinstance(ctx, str) and ctx:
        kind, _, number = ctx.rstrip(")").partition("(")
        if not number.isdecimal():
            raise MXNetError(f"ctx is {ctx!r}, expected a Context or text such as 'cpu(0)'")
        ctx = Context(kind, int(number))
    return resolve(ctx or current_context())


def shape_of(shape: object) -> tuple[int, ...]:
    """Return a shape as a tuple.

    Parameters
    ----------
    shape : int or sequence of int
        As given.

    Raises
    ------
    ArgumentTypeError
        If it is no shape.
    """
    dims: tuple[int, ...] | None = None
    try:
        dims = (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        try:
            dims = tuple(map(operator.index, shape))  # type: ignore[call-overload]
        except TypeError:
            pass
    if dims is None or min(dims, default=0) < 0 or not (dims or is_np_shape()):
        raise ArgumentTypeError(f"shape is {shape!r}, expected a positive integer or a tuple of "
                                "them")
    return dims


def array(source_array: object, ctx: Context | None = None, dtype: DTypeArg = None) -> NDArray:
    """Make an array with a copy of given elements.

    Parameters
    ----------
    source_array : array_like
        Number, nested lists, NumPy array or NDArray.  A sparse array or a
        `scipy.sparse.csr_matrix` gives a sparse array.
    ctx : Context, optional
        Device of the result; None: the current context.
    dtype : str or numpy type, optional
        Element type; None: that of the source if it is an NDArray, or else float32, also for a
        NumPy array of another type.

    Raises
    ------
    TypeError
        If the source does not consist of numbers, or the element type is not supported.

    Examples
    --------
    >>> x = mx.nd.array([[1, 2], [3, 4]])
    >>> x.shape, x.dtype.__name__, x.asnumpy().tolist()
    ((2, 2), 'float32', [[1.0, 2.0], [3.0, 4.0]])
    >>> mx.nd.array([1, 2], dtype="int32").asnumpy().tolist()
    [1, 2]
    """
    if getattr(source_array, "is_sparse", False) or hasattr(source_array, "indptr"):
        from . import sparse_array

        return sparse_array.array(source_array, ctx, dtype)
    if dtype is None and isinstance(source_array, NDArray):
        dtype = source_array.dtype
    ctx, element_type = context_of(ctx), as_dtype(dtype)
    try:
        source = host_array(source_array, element_type)
    except TypeError as error:
        raise TypeError(f"source_array must be array like object: {error}") from None
    data = device_of(ctx).empty(source.shape, element_type)
    device_of(ctx).copy(np.ascontiguousarray(source).reshape(source.shape), data)
    return NDArray(data, ctx)


def from_numpy(ndarray: Array, zero_copy: bool = True) -> NDArray:
    """Make an array on `cpu(0)` from a NumPy array, of the same element type.

    Parameters
    ----------
    ndarray : numpy.ndarray
        Source.  With `zero_copy` it must be C-contiguous, and becomes read-only, since both share
        memory; arrays of one source share one memory.
    zero_copy : bool, default True
        Whether to share memory instead of copying.

    Raises
    ------
    TypeError
        If the source is not a NumPy array, or its element type is not supported.
    ValueError
        If the source is not C-contiguous and `zero_copy` is set.

    Examples
    --------
    >>> import numpy as np
    >>> source = np.arange(3, dtype="int32")
    >>> mx.nd.from_numpy(source).asnumpy().tolist(), source.flags.writeable
    ([0, 1, 2], False)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: given a {type(ndarray).__name__}, expected a numpy.ndarray")
    as_dtype(ndarray.dtype)
    ctx = Context("cpu", 0)
    if not zero_copy:
        return NDArray(device_of(ctx).from_numpy(ndarray), ctx)
    if not ndarray.flags.c_contiguous:
        raise ValueError("from_numpy: only C-contiguous arrays can be shared; use zero_copy=False")
    with suppress(ValueError):  # of memory that is read-only for others, too
        ndarray.flags.writeable = True  # an earlier call has made it read-only
    shared = ndarray.view()
    ndarray.flags.writeable = False
    share(shared)
    return NDArray(shared, ctx)


def empty(shape: Shape, ctx: Context | None = None, dtype: DTypeArg = None, stype: str | None = None
          ) -> NDArray:
    """Make an array with undefined contents.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the result.
    ctx : Context, optional
        Device of the result; None: the current context.
    dtype : str or numpy type, optional
        Element type; None: float32.
    stype : {'default', 'csr', 'row_sparse'}, optional
        Storage type; None: 'default', which is dense.

    Examples
    --------
    >>> mx.nd.empty((2, 3)).shape
    (2, 3)
    """
    if stype not in (None, "default"):
        from . import sparse_array

        return sparse_array.empty(stype, shape, ctx, dtype)
    ctx = context_of(ctx)
    return NDArray(device_of(ctx).empty(shape_of(shape), as_dtype(dtype)), ctx)


def describes_node(keyword: str) -> bool:
    """Whether a keyword is for the node of a symbol: calls on arrays ignore it.

    Parameters
    ----------
    keyword : str
        A keyword, such as 'name' or '__layout__'.
    """
    return keyword == "name" or keyword.startswith("__") and keyword.endswith("__")


def _filled(shape: Shape, value: float, ctx: Context | None, dtype: DTypeArg,
            kwargs: dict[str, Forwarded]) -> NDArray:
    out = kwargs.pop("out", None)
    if unknown := [key for key in kwargs if not describes_node(key)]:
        raise TypeError(f"unknown keyword(s) {', '.join(unknown)}")
    if out is not None:
        out[:] = value
        return out
    ctx = context_of(ctx)
    return NDArray(device_of(ctx).full(shape_of(shape), as_dtype(dtype), value), ctx)


def zeros(shape: Shape, ctx: Context | None = None, dtype: DTypeArg = None,
          stype: str | None = None, **kwargs: Forwarded) -> NDArray:
    """Make an array of zeros.

    Parameters
    ----------
    shape, ctx, dtype, stype
        As for `empty`.
    **kwargs
        `out`, an NDArray to fill and return instead of making a new one; the other arguments then
        have no effect.  `name` and attributes such as `__layout__` are for symbols, and have none.

    Raises
    ------
    MXNetError
        For an invalid shape or storage type.
    TypeError
        For an element type that is not supported, or an unknown keyword.

    Examples
    --------
    >>> mx.nd.zeros((2, 3), dtype="int32").asnumpy().tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    if stype not in (None, "default") and all(map(describes_node, kwargs)):
        from . import sparse_array

        return sparse_array.zeros(stype, shape, ctx, dtype)
    return _filled(shape, 0.0, ctx, dtype, kwargs)


def ones(shape: Shape, ctx: Context | None = None, dtype: DTypeArg = None, **kwargs: Forwarded
         ) -> NDArray:
    """Make an array of ones.

    Parameters
    ----------
    shape, ctx, dtype, **kwargs
        As for `zeros`.

    Examples
    --------
    >>> mx.nd.ones(3).asnumpy().tolist()
    [1.0, 1.0, 1.0]
    """
    return _filled(shape, 1.0, ctx, dtype, kwargs)


def full(shape: Shape, val: float | NDArray, ctx: Context | None = None,
         dtype: DTypeArg = np.float32, out: NDArray | None = None) -> NDArray:
    """Make an array filled with a value.

    Parameters
    ----------
    shape, ctx, dtype
        As for `empty`.
    val : float or array_like
        Value of all elements, or values that broadcast to `shape`.
    out : NDArray, optional
        Array to fill and return, instead of making a new one.

    Examples
    --------
    >>> mx.nd.full((2, 2), 7).asnumpy().tolist()
    [[7.0, 7.0], [7.0, 7.0]]
    """
    out = empty(shape, ctx, dtype) if out is None else out
    out[...] = val
    return out


def _generate(name: str, ctx: Context | None, **params: Forwarded) -> NDArray:
    """Run an op that has parameters only."""
    params = {key: value for key, value in params.items() if value is not None}
    return invoke(OPS.find(name).from_attrs(params), (), None, context_of(ctx))


def arange(start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1,
           infer_range: bool | None = None, ctx: Context | None = None, dtype: DTypeArg = np.float32
           ) -> NDArray:
    """Make a sequence of equally spaced elements in [start, stop).

    Parameters
    ----------
    start : float
        First element; with `stop` None the end of a sequence that starts at 0.
    stop : float, optional
        End of the sequence, which is excluded.
    step : float, default 1
        Difference of consecutive elements.
    repeat : int, default 1
        Number of times that each element is repeated.
    infer_range : bool, optional
        Accepted for compatibility; has no effect here.
    ctx, dtype
        As for `empty`.

    Examples
    --------
    >>> mx.nd.arange(3).asnumpy().tolist()
    [0.0, 1.0, 2.0]
    >>> mx.nd.arange(2, 6, step=2, repeat=2, dtype="int32").asnumpy().tolist()
    [2, 2, 4, 4]
    """
    if stop is None:
        start, stop = 0, start
    return _generate("_arange", ctx, start=start, stop=stop, step=step, repeat=repeat,
                     infer_range=infer_range, dtype=as_dtype(dtype))


def linspace(start: float, stop: float, num: int, endpoint: bool = True, ctx: Context | None = None,
             dtype: DTypeArg = np.float32) -> NDArray:
    """Make a sequence of `num` equally spaced elements from `start` to `stop`.

    Parameters
    ----------
    start, stop : float
        First element and end of the sequence.
    num : int
        Number of elements.
    endpoint : bool, default True
        Whether `stop` is the last element.
    ctx, dtype
        As for `empty`.

    Examples
    --------
    >>> mx.nd.linspace(0, 1, 5).asnumpy().tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    with _enough_memory("linspace"):
        return array(np.linspace(start, stop, num, endpoint=endpoint), ctx, dtype)


@contextmanager
def _enough_memory(function: str) -> Iterator[None]:
    """Give the function's name to NumPy's MemoryError."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(f"{function}: {error}") from None


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: DTypeArg = None,
        **kwargs: Forwarded) -> NDArray:
    """Make a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    N : int
        Number of rows.
    M : int, default 0
        Number of columns; 0: `N`.
    k : int, default 0
        Diagonal: 0 is the main one, positive ones are above, negative ones below it.
    ctx, dtype
        As for `empty`.
    **kwargs
        Nothing else is accepted; an unknown name raises MXNetError.

    Examples
    --------
    >>> mx.nd.eye(2, 3, k=1).asnumpy().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return _generate("_eye", ctx, N=N, M=M, k=k, dtype=as_dtype(dtype), **kwargs)


def waitall() -> None:
    """Wait until all work on all devices is done.

    On the CPU, work is done when a call returns.
    """
    synchronize()
