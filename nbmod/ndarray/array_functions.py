"""Functions of arrays that are no operators: they join, split, count, and decode images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base import ArgumentError, CheckError, MXNetError, integer_types, wrong_type
from ..ops import OPS
from .array_creation import Shape, _enough_memory, array
from .invocation import invoke
from .ndarray import NDArray

__all__ = ["concatenate", "moveaxis", "onehot_encode", "imdecode", "split_v2", "histogram"]


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
    >>> mx.nd.concatenate([mx.nd.ones((1, 2)), mx.nd.zeros((2, 2))]).shape
    (3, 2)
    """
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise CheckError("concatenate: expected a list of at least one NDArray")
    for each in arrays:
        if not isinstance(each, NDArray):
            raise wrong_type("concatenate: one of arrays", each, "an NDArray")
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
    >>> [part.asnumpy().tolist() for part in mx.nd.split_v2(mx.nd.arange(5), (2, 3))]
    [[0.0, 1.0], [2.0], [3.0, 4.0]]
    """
    size = ary.shape[axis]
    if isinstance(indices_or_sections, integer_types):
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
    >>> counts, edges = mx.nd.histogram(mx.nd.array([0, 1, 1, 4]), bins=2, range=(0, 4))
    >>> counts.asnumpy().tolist(), edges.asnumpy().tolist()
    ([3, 1], [0.0, 2.0, 4.0])
    """
    edges = bins.asnumpy() if isinstance(bins, NDArray) else bins
    with _enough_memory("histogram"):
        counts, bounds = np.histogram(a.asnumpy(), edges, range)
    return [array(counts, a.context, np.int64),
            bins if isinstance(bins, NDArray) else array(bounds, a.context, a.dtype)]
