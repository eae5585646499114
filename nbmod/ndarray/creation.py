"""Making arrays: from data, filled, or as a sequence of numbers."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..base import MXNetError, OutOfMemory
from ..changes import share
from ..context import Context, current_context, resolve
from ..ops import OPS
from ..ops.device import device_of, synchronize
from .ndarray import NDArray, as_dtype, host_array, invoke

__all__ = ["array", "from_numpy", "empty", "zeros", "ones", "full", "arange", "linspace", "eye",
           "concatenate", "moveaxis", "onehot_encode", "split_v2", "histogram", "waitall"]

Shape = int | Sequence[int]


def place_of(ctx: Context | str | None) -> Context:
    """The device meant by a `ctx` argument, which may also be text such as 'cpu(0)'."""
    if isinstance(ctx, str) and ctx:
        kind, _, number = ctx.rstrip(")").partition("(")
        if not number.isdecimal():
            raise MXNetError(f"ctx is {ctx!r}, expected a Context or text such as 'cpu(0)'")
        ctx = Context(kind, int(number))
    return resolve(ctx or current_context())


def _shape(shape: Shape) -> tuple[int, ...]:
    dims: tuple[int, ...] = ()
    try:
        dims = (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        try:
            dims = tuple(map(operator.index, shape))  # type: ignore[arg-type]
        except TypeError:
            pass
    if not dims or min(dims) < 0:
        raise MXNetError(f"shape is {shape!r}, expected a positive integer or a tuple of them")
    return dims


def _dense_only(stype: str | None) -> None:
    if stype not in (None, "default"):
        raise MXNetError(f"storage type {stype!r} is not supported, expected 'default'")


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """A copy of numbers, nested lists, a NumPy array or an NDArray.

    The type is `dtype`, else that of an NDArray source, else float32, whatever NumPy's is.
    Raises TypeError for what is not numbers.
    """
    if dtype is None and isinstance(source_array, NDArray):
        dtype = source_array.dtype
    place, wanted = place_of(ctx), as_dtype(dtype)
    try:
        source = host_array(source_array, wanted)
    except TypeError as error:
        raise TypeError(f"source_array must be array like object: {error}") from None
    data = device_of(place).empty(source.shape, wanted)
    device_of(place).copy(np.ascontiguousarray(source).reshape(source.shape), data)
    return NDArray(data, place)


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True) -> NDArray:
    """An array of the same type on the CPU; with `zero_copy` it shares memory with `ndarray`.

    `ndarray` must then be C-contiguous, and is read-only from now on: both would otherwise change
    behind each other's back.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: given a {type(ndarray).__name__}, expected a numpy.ndarray")
    as_dtype(ndarray.dtype)
    place = Context("cpu", 0)
    if not zero_copy:
        return NDArray(device_of(place).from_numpy(ndarray), place)
    if not ndarray.flags.c_contiguous:
        raise ValueError("from_numpy: only C-contiguous arrays can be shared; use zero_copy=False")
    shared = ndarray.view()
    ndarray.flags.writeable = False
    share(shared)
    return NDArray(shared, place)


def empty(shape: Shape, ctx: Context | None = None, dtype: Any = None, stype: str | None = None
          ) -> NDArray:
    """An array of undefined contents."""
    _dense_only(stype)
    place = place_of(ctx)
    return NDArray(device_of(place).empty(_shape(shape), as_dtype(dtype)), place)


def _filled(shape: Shape, value: float, ctx: Context | None, dtype: Any, kwargs: dict) -> NDArray:
    out = kwargs.pop("out", None)
    if kwargs:
        raise TypeError(f"unknown keyword(s) {', '.join(kwargs)}")
    if out is not None:
        out[:] = value
        return out
    place = place_of(ctx)
    return NDArray(device_of(place).full(_shape(shape), as_dtype(dtype), value), place)


def zeros(shape: Shape, ctx: Context | None = None, dtype: Any = None, stype: str | None = None,
          **kwargs: Any) -> NDArray:
    """An array of zeros; `out=` fills an existing one."""
    _dense_only(stype)
    return _filled(shape, 0.0, ctx, dtype, kwargs)


def ones(shape: Shape, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """An array of ones; `out=` fills an existing one."""
    return _filled(shape, 1.0, ctx, dtype, kwargs)


def full(shape: Shape, val: Any, ctx: Context | None = None, dtype: Any = np.float32,
         out: NDArray | None = None) -> NDArray:
    """An array filled with `val`, a number or an array that broadcasts to `shape`."""
    out = empty(shape, ctx, dtype) if out is None else out
    out[:] = val
    return out


def _generate(name: str, ctx: Context | None, **params: Any) -> NDArray:
    """Run an op that has parameters only."""
    params = {key: value for key, value in params.items() if value is not None}
    return invoke(OPS.find(name).from_attrs(params), (), None, place_of(ctx))


def arange(start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1,
           infer_range: bool | None = None, ctx: Context | None = None, dtype: Any = np.float32
           ) -> NDArray:
    """start, start + step, ... below `stop`, each `repeat` times; `arange(n)` starts at 0."""
    if stop is None:
        start, stop = 0, start
    return _generate("_arange", ctx, start=start, stop=stop, step=step, repeat=repeat,
                     infer_range=infer_range, dtype=as_dtype(dtype))


def linspace(start: float, stop: float, num: int, endpoint: bool = True, ctx: Context | None = None,
             dtype: Any = np.float32) -> NDArray:
    """`num` numbers at equal distances from `start` to `stop`, which `endpoint` includes."""
    with _enough_memory("linspace"):
        return array(np.linspace(start, stop, num, endpoint=endpoint), ctx, dtype)


@contextmanager
def _enough_memory(function: str) -> Iterator[None]:
    """Give the function's name to NumPy's MemoryError."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(f"{function}: {error}") from None


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: Any = None,
        **kwargs: Any) -> NDArray:
    """An N x M matrix (N x N if M is 0) with ones on diagonal `k`."""
    return _generate("_eye", ctx, N=N, M=M, k=k, dtype=as_dtype(dtype), **kwargs)


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Join arrays of one type along `axis`; a single array is itself with `always_copy=False`."""
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise MXNetError("concatenate: expected a list of at least one NDArray")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    op = OPS.find("Concat").from_attrs({"num_args": len(arrays), "dim": axis})
    return invoke(op, list(arrays))


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """With axes `source` moved to positions `destination`; the others keep their order."""
    sources = _axes(source, tensor.ndim, "source")
    targets = _axes(destination, tensor.ndim, "destination")
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of "
                         f"elements, given {sources} and {targets}")
    order = [axis for axis in range(tensor.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return tensor.transpose(axes=order)


def _axes(axes: Any, ndim: int, name: str) -> list[int]:
    listed = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
    if any(not -ndim <= axis < ndim for axis in listed) or len(set(listed)) != len(listed):
        raise ValueError(f"{name} is {axes}, expected distinct axes in [{-ndim}, {ndim})")
    return [int(axis) % ndim for axis in listed]


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write the one-hot rows of `indices` (n,) to `out` (n, depth) and return it."""
    op = OPS.find("one_hot").from_attrs({"depth": out.shape[1]})
    out[:] = invoke(op, [indices])
    return out


def split_v2(ary: NDArray, indices_or_sections: int | Sequence[int], axis: int = 0,
             squeeze_axis: bool = False) -> list[NDArray] | NDArray:
    """Split into equal parts, or before the given indices, along `axis`."""
    size = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1 or size % indices_or_sections:
            raise ValueError("array split does not result in an equal division: "
                             f"{size} into {indices_or_sections}")
        part = size // indices_or_sections
        cuts = list(range(0, size + 1, part))
    else:
        cuts = [0, *indices_or_sections, size]
    lead = (slice(None),) * (axis % ary.ndim)
    parts = [ary[(*lead, slice(begin, end))].copy()
             for begin, end in zip(cuts, cuts[1:], strict=False)]
    if squeeze_axis:
        parts = [part.squeeze(axis=axis) for part in parts]
    return parts[0] if len(parts) == 1 else parts


def histogram(a: NDArray, bins: int | NDArray = 10, range: tuple[float, float] | None = None
              ) -> list[NDArray]:
    """[counts (int64), bin edges]; `bins` is their number, over `range`, or the edges."""
    edges = bins.asnumpy() if isinstance(bins, NDArray) else bins
    with _enough_memory("histogram"):
        counts, found = np.histogram(a.asnumpy(), edges, range)
    place = a.context
    return [array(counts, place, np.int64),
            bins if isinstance(bins, NDArray) else array(found, place, a.dtype)]


def waitall() -> None:
    """Return when all work on all devices is done."""
    synchronize()
