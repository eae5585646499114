"""Creation of arrays: from data, filled with a value, or as a sequence."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from ..base import (
    ArgumentError,
    ArgumentTypeError,
    Array,
    CheckError,
    DTypeArg,
    Forwarded,
    MXNetError,
    OutOfMemory,
    wrong_type,
)
from ..context import Context, current_context, resolve
from ..core.shape_semantics import is_np_shape
from ..ops import OPS
from ..ops.device import device_of, synchronize
from .host_array import as_dtype, host_array
from .mutation import share
from .ndarray import NDArray, invoke

__all__ = ["array", "from_numpy", "empty", "zeros", "ones", "full", "arange", "linspace", "eye",
           "concatenate", "imdecode", "moveaxis", "onehot_encode", "split_v2", "histogram",
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
    >>> import nbmod as mx
    >>> x = mx.nd.array([[1, 2], [3, 4]])
    >>> x.shape, x.dtype.__name__, x.asnumpy().tolist()
    ((2, 2), 'float32', [[1.0, 2.0], [3.0, 4.0]])
    >>> mx.nd.array([1, 2], dtype="int32").asnumpy().tolist()
    [1, 2]
    """
    if getattr(source_array, "is_sparse", False) or hasattr(source_array, "indptr"):
        from . import sparse

        return sparse.array(source_array, ctx, dtype)
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
    """Make an array on the CPU from a NumPy array, of the same element type.

    Parameters
    ----------
    ndarray : numpy.ndarray
        Source.  With `zero_copy` it must be C-contiguous, and becomes read-only, since both share
        memory; arrays of one source share one memory.
    zero_copy : bool, default True
        Whether to share memory instead of copying.

    Returns
    -------
    NDArray
        Array on `cpu(0)`.

    Raises
    ------
    TypeError
        If the source is not a NumPy array, or its element type is not supported.
    ValueError
        If the source is not C-contiguous and `zero_copy` is set.

    Examples
    --------
    >>> import nbmod as mx
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
    >>> import nbmod as mx
    >>> mx.nd.empty((2, 3)).shape
    (2, 3)
    """
    if stype not in (None, "default"):
        from . import sparse

        return sparse.empty(stype, shape, ctx, dtype)
    ctx = context_of(ctx)
    return NDArray(device_of(ctx).empty(shape_of(shape), as_dtype(dtype)), ctx)


def _filled(shape: Shape, value: float, ctx: Context | None, dtype: DTypeArg,
            kwargs: dict[str, Forwarded]) -> NDArray:
    out = kwargs.pop("out", None)
    if kwargs:
        raise TypeError(f"unknown keyword(s) {', '.join(kwargs)}")
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
        Only `out` is accepted: an NDArray to fill and return, instead of making a new one; the
        other arguments then have no effect.

    Returns
    -------
    NDArray
        New array, or `out`.

    Raises
    ------
    MXNetError
        For an invalid shape or storage type.
    TypeError
        For an element type that is not supported, or an unknown keyword.

    Examples
    --------
    >>> import nbmod as mx
    >>> mx.nd.zeros((2, 3), dtype="int32").asnumpy().tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    if stype not in (None, "default") and not kwargs:
        from . import sparse

        return sparse.zeros(stype, shape, ctx, dtype)
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
    >>> mx.nd.eye(2, 3, k=1).asnumpy().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return _generate("_eye", ctx, N=N, M=M, k=k, dtype=as_dtype(dtype), **kwargs)


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Join arrays along an axis.

    Parameters
    ----------
    arrays : list of NDArray
        Arrays of one element type, whose shapes differ only along `axis`.
    axis : int, default 0
        Axis along which they are joined.
    always_copy : bool, default True
        False: a single array is returned itself.

    Raises
    ------
    MXNetError
        If the list is empty, or shapes or types do not fit.

    Examples
    --------
    >>> import nbmod as mx
    >>> mx.nd.concatenate([mx.nd.ones((1, 2)), mx.nd.zeros((2, 2))]).shape
    (3, 2)
    """
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise CheckError("concatenate: expected a list of at least one NDArray")
    for array in arrays:
        if not isinstance(array, NDArray):
            raise wrong_type("concatenate: one of arrays", array, "an NDArray")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    op = OPS.find("Concat").from_attrs({"num_args": len(arrays), "dim": axis})
    return invoke(op, list(arrays))


def moveaxis(tensor: NDArray, source: Shape, destination: Shape) -> NDArray:
    """Move axes to other positions; the others keep their order.

    Parameters
    ----------
    tensor : NDArray
        Array.
    source : int or sequence of int
        Axes to move.
    destination : int or sequence of int
        Their positions in the result.

    Raises
    ------
    ValueError
        If the axes are not distinct, do not exist, or differ in number.

    Examples
    --------
    >>> import nbmod as mx
    >>> mx.nd.moveaxis(mx.nd.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    sources = _axes(source, tensor.ndim, "source")
    targets = _axes(destination, tensor.ndim, "destination")
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of "
                         f"elements, given {sources} and {targets}")
    order = [axis for axis in range(tensor.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return tensor.transpose(axes=order)


def _axes(axes: Shape, ndim: int, name: str) -> list[int]:
    listed = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
    if any(not -ndim <= axis < ndim for axis in listed) or len(set(listed)) != len(listed):
        raise ValueError(f"{name} is {axes}, expected distinct axes in [{-ndim}, {ndim})")
    return [int(axis) % ndim for axis in listed]


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write the one-hot vectors of indices to an array.

    Parameters
    ----------
    indices : NDArray
        Indices of shape (n,).
    out : NDArray
        Array of shape (n, depth) to write to.

    Returns
    -------
    NDArray
        `out`.

    Raises
    ------
    MXNetError
        If the shapes do not agree.

    Examples
    --------
    >>> import nbmod as mx
    >>> mx.nd.onehot_encode(mx.nd.array([2, 0]), mx.nd.zeros((2, 3))).asnumpy().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if indices.ndim != 1 or out.ndim != 2 or len(indices) != len(out):
        raise MXNetError(f"onehot_encode: indices has shape {indices.shape} and out {out.shape}, "
                         "expected (n,) and (n, depth)")
    op = OPS.find("one_hot").from_attrs({"depth": out.shape[1]})
    out[:] = invoke(op, [indices])
    return out


def imdecode(str_img: bytes, clip_rect: Sequence[int] = (0, 0, 0, 0), out: NDArray | None = None,
             index: int = 0, channels: int = 3, mean: NDArray | None = None) -> NDArray:
    """Decode an image to one plane per channel; deprecated, `mx.image.imdecode` is newer.

    Parameters
    ----------
    str_img : bytes
        Contents of the file.
    clip_rect : sequence of 4 int, default (0, 0, 0, 0)
        Left, top, right and bottom of the part to return; the whole image if it has no rows.
    out : NDArray, optional
        Array of shape (channels, height, width) to write to, or of (n, channels, height, width).
    index : int, default 0
        Which of n images in `out` is written.
    channels : {3, 1}, default 3
        Blue, green and red, or gray.
    mean : NDArray, optional
        Array of the shape of the result, subtracted from it.

    Returns
    -------
    NDArray
        float32 array of shape (channels, height, width); `out` if it is given.

    Raises
    ------
    MXNetError
        If the contents are no image, or a shape does not fit.
    """
    from ..imgproc.codecs import decode  # few programs decode images this way

    image = decode(str_img, 1 if channels == 1 else 3)[..., ::-1]
    left, top, right, bottom = clip_rect if clip_rect[3] != clip_rect[1] else (
        0, 0, image.shape[1], image.shape[0])
    if not (0 <= left < right <= image.shape[1] and 0 <= top < bottom <= image.shape[0]):
        raise MXNetError(f"imdecode: clip_rect is {tuple(clip_rect)}, but the image has "
                         f"{image.shape[1]} x {image.shape[0]} pixels")
    planes = image[top:bottom, left:right].transpose(2, 0, 1).astype(np.float32)
    if mean is not None:
        if mean.shape != planes.shape:
            raise MXNetError(f"imdecode: mean has shape {mean.shape}, expected {planes.shape}")
        planes -= mean.asnumpy()
    if out is None:
        return array(planes)
    target = out if out.ndim == 3 else out[index]
    if target.shape != planes.shape:
        raise MXNetError(f"imdecode: out has shape {out.shape}, expected {planes.shape}, or n "
                         "such images")
    target[:] = planes
    return out


def split_v2(ary: NDArray, indices_or_sections: int | Sequence[int], axis: int = 0,
             squeeze_axis: bool = False) -> list[NDArray] | NDArray:
    """Split an array into equal parts, or at given indices.

    Parameters
    ----------
    ary : NDArray
        Array.
    indices_or_sections : int or sequence of int
        Number of equal parts, or the indices before which to split.
    axis : int, default 0
        Axis to split.
    squeeze_axis : bool, default False
        Remove `axis` from the parts, which must have length 1 along it.

    Returns
    -------
    list of NDArray, or NDArray
        Copies of the parts; a single part is not in a list.

    Raises
    ------
    ArgumentError
        If the axis cannot be divided into that many equal parts, or `indices_or_sections` is
        neither a number nor a sequence.

    Examples
    --------
    >>> import nbmod as mx
    >>> [part.asnumpy().tolist() for part in mx.nd.split_v2(mx.nd.arange(5), (2, 3))]
    [[0.0, 1.0], [2.0], [3.0, 4.0]]
    """
    size = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1 or size % indices_or_sections:
            raise ArgumentError("array split does not result in an equal division: "
                                f"{size} into {indices_or_sections}")
        part = size // indices_or_sections
        cuts = list(range(0, size + 1, part))
    elif isinstance(indices_or_sections, (list, tuple)):
        cuts = [0, *indices_or_sections, size]
    else:
        raise ArgumentError("split_v2: indices_or_sections is a "
                            f"{type(indices_or_sections).__name__}, expected an integer or a tuple")
    lead = (slice(None),) * (axis % ary.ndim)
    parts = [ary[(*lead, slice(begin, end))].copy()
             for begin, end in zip(cuts, cuts[1:], strict=False)]
    if squeeze_axis:
        parts = [part.squeeze(axis=axis) for part in parts]
    return parts[0] if len(parts) == 1 else parts


def histogram(a: NDArray, bins: int | NDArray = 10, range: tuple[float, float] | None = None
              ) -> list[NDArray]:
    """Count elements in intervals.

    Parameters
    ----------
    a : NDArray
        Array; all elements are counted.
    bins : int or NDArray, default 10
        Number of intervals of equal width, or their edges in increasing order.
    range : tuple of float, optional
        Lower and upper end of the intervals, if `bins` is a number; None: the smallest and the
        largest element.

    Returns
    -------
    list of NDArray
        Counts (int64) and edges; there is one more edge than counts.

    Examples
    --------
    >>> import nbmod as mx
    >>> counts, edges = mx.nd.histogram(mx.nd.array([0, 1, 1, 4]), bins=2, range=(0, 4))
    >>> counts.asnumpy().tolist(), edges.asnumpy().tolist()
    ([3, 1], [0.0, 2.0, 4.0])
    """
    edges = bins.asnumpy() if isinstance(bins, NDArray) else bins
    with _enough_memory("histogram"):
        counts, bounds = np.histogram(a.asnumpy(), edges, range)
    return [array(counts, a.context, np.int64),
            bins if isinstance(bins, NDArray) else array(bounds, a.context, a.dtype)]


def waitall() -> None:
    """Wait until all work on all devices is done.

    On the CPU, work is done when a call returns.
    """
    synchronize()
