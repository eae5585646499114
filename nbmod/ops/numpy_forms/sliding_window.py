"""Convolution, deconvolution, pooling and resizing with NumPy, and gradients.

Every tap of a window sees a strided view of the padded image (`_taps`).  Convolutions copy these
views into a matrix, multiply, and deconvolutions do so backwards (see `nn.conv_im2col`); pooling
reduces them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..dispatch import REFERENCE, implements
from ..image.resize import BilinearResize2D, UpSampling
from ..nn.adaptive_pooling import AdaptiveAvgPooling2D
from ..nn.convolution import Convolution, ConvolutionV1, FilterOp
from ..nn.deconvolution import Deconvolution
from ..nn.pooling import Pooling
from ..nn.pooling_kernels import AVG, CUBE, MAX, SQUARE
from ..nn.sliding_window import Geometry, Window
from ..op import Call
from ..rules import fill_zero

__all__ = ["convolution", "convolution_gradient", "pooling", "pooling_gradient"]


Convolve: TypeAlias = Callable[[Geometry, np.ndarray, np.ndarray], np.ndarray]
Products: TypeAlias = tuple[Any, ...]
"""One of the three directions of a convolution, and its arguments."""

# -- windows ----------------------------------------------------------------------------------


def _framed(window: Window, planes: int, fill: float, dtype: np.dtype) -> tuple[Any, Any]:
    """An array (planes, ...) for padded images, filled, and the view of it that is the images."""
    sizes = [max(pad + image, (out - 1) * stride + (kernel - 1) * dilate + 1)
             for image, out, kernel, stride, pad, dilate in window.axes]
    padded = np.full((planes, *sizes), fill, dtype)
    inside = tuple(slice(axis.pad, axis.pad + axis.image) for axis in window.axes)
    return padded, padded[(slice(None), *inside)]


def _taps(window: Window, padded: np.ndarray) -> Iterator[Any]:
    """For every tap of the window the pixels (planes, *out) that it sees."""
    return (padded[seen] for seen in _seen(window))


@lru_cache(maxsize=256)
def _seen(window: Window) -> list[tuple[slice, ...]]:
    """For every tap the indices of the pixels that it sees."""
    return [(slice(None), *(
        slice(at * axis.dilate, at * axis.dilate + (axis.out - 1) * axis.stride + 1, axis.stride)
        for at, axis in zip(tap, window.axes, strict=True))) for tap in np.ndindex(*window.kernel)]


def _unrolled(window: Window, image: np.ndarray) -> Any:
    """im2col: (channels, taps, positions) of an image (channels, ...)."""
    if window.is_pixelwise:
        return image
    padded, inside = _framed(window, len(image), 0, image.dtype)
    inside[...] = image
    steps = [*zip(window.axes, padded.strides[1:], strict=True)]
    strides = [padded.strides[0], *(axis.dilate * step for axis, step in steps),
               *(axis.stride * step for axis, step in steps)]
    seen = as_strided(padded, (len(image), *window.kernel, *window.out), strides, writeable=False)
    return seen.reshape(len(image), window.taps, *window.out)


def _rolled(window: Window, columns: np.ndarray) -> Any:
    """col2im: the image of (channels, taps, positions), where each pixel is a sum."""
    if window.is_pixelwise:
        return columns
    padded, inside = _framed(window, len(columns), 0, columns.dtype)
    columns = columns.reshape(len(columns), window.taps, *window.out)
    for tap, seen in enumerate(_taps(window, padded)):
        seen += columns[:, tap]
    return inside


# -- filters ----------------------------------------------------------------------------------


def _convolved(geo: Geometry, x: np.ndarray, w: np.ndarray) -> Any:
    """(N, filters, positions) of x (N, channels, ...)."""
    matrices = w.reshape(geo.groups, geo.group_filters, geo.depth)
    y = np.empty((geo.images, geo.groups, geo.group_filters, geo.window.positions), x.dtype)
    for image, sums in zip(x.reshape(geo.images, geo.channels, *geo.window.image), y, strict=True):
        columns = _unrolled(geo.window, image).reshape(geo.groups, geo.depth, -1)
        np.matmul(matrices, columns, out=sums)
    return y.reshape(geo.images, geo.filters, -1)


def _transposed(geo: Geometry, x: np.ndarray, w: np.ndarray) -> Any:
    """(N, channels, pixels) of x (N, filters, ...), as the gradient of a convolution's data."""
    matrices = w.reshape(geo.groups, geo.group_filters, geo.depth).transpose(0, 2, 1)
    y = np.empty((geo.images, geo.channels, *geo.window.image), x.dtype)
    for image, sums in zip(x.reshape(geo.images, geo.groups, geo.group_filters, -1), y,
                           strict=True):
        columns = np.matmul(matrices, image).reshape(geo.channels, geo.window.taps, -1)
        sums[...] = _rolled(geo.window, columns).reshape(sums.shape)
    return y.reshape(geo.images, geo.channels, -1)


def _weight_gradient(geo: Geometry, x: np.ndarray, gy: np.ndarray) -> Any:
    """The gradient (filters, group channels * taps) of the weight of a convolution of x with
    results like gy."""
    gw = np.zeros((geo.groups, geo.group_filters, geo.depth), x.dtype)
    for image, sums in zip(x.reshape(geo.images, geo.channels, *geo.window.image),
                           gy.reshape(geo.images, geo.groups, geo.group_filters, -1), strict=True):
        columns = _unrolled(geo.window, image).reshape(geo.groups, geo.depth, -1)
        gw += np.matmul(sums, columns.transpose(0, 2, 1))
    return gw


def convolution(op: Convolution, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """Convolution."""
    _filtered(op, _convolved, ins, outs[0])


def _deconvolution(op: Deconvolution, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    _filtered(op, _transposed, ins, outs[0])


def convolution_gradient(op: FilterOp, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """Gradients of Convolution."""
    gy, x, w = ins
    geo = op.geometry(x)
    _store_gradients(op, (_transposed, geo, gy, w), (_weight_gradient, geo, x, gy), gy, outs)


def deconvolution_gradient(op: FilterOp, ins: Sequence[Any], outs: Sequence[Any], call: Call
                           ) -> None:
    """Gradients of Deconvolution, whose input is the result of a convolution."""
    gy, x, w = ins
    geo = op.geometry(x)
    _store_gradients(op, (_convolved, geo, gy, w), (_weight_gradient, geo, gy, x), gy, outs)


def _store_gradients(op: FilterOp, data: Products, weight: Products, gy: np.ndarray,
                     outs: Sequence[Any]) -> None:
    for out, (multiply, *arguments) in zip(outs, (data, weight), strict=False):
        if out is not None:
            out[...] = multiply(*arguments).reshape(out.shape)
    if len(outs) > 2 and outs[2] is not None:
        np.sum(gy.reshape(*gy.shape[:2], -1).sum(axis=2), axis=0, out=outs[2])


def _upsampling_gradient(op: UpSampling, ins: Sequence[Any], outs: Sequence[Any], call: Call
                        ) -> None:
    if op.sample_type == "nearest":
        op.backward(ins, outs, call)
    else:
        deconvolution_gradient(op._by(ins[1].shape[1]), ins, outs, call)


def upsampling(op: UpSampling, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """UpSampling: a deconvolution, or no kernel."""
    if op.sample_type == "nearest":
        op.forward(ins, outs, call)
    else:
        _filtered(op._by(ins[0].shape[1]), _transposed, ins, outs[0])


def _filtered(op: FilterOp, convolve: Convolve, ins: Sequence[Any], out: np.ndarray) -> None:
    y = convolve(op.geometry(ins[0]), *ins[:2])
    if not op.no_bias:
        y += ins[2][:, None]
    out[...] = y.reshape(out.shape)


# -- pooling ----------------------------------------------------------------------------------


def pooling(op: Pooling, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """Pooling."""
    (x, *_), (y,) = ins, outs
    window = op.window(x.shape[2:])
    y[...] = _pooled(op, window, x.reshape(-1, *window.image)).reshape(y.shape)


def _pooled(op: Pooling, window: Window, planes: np.ndarray) -> Any:
    """Planes (planes, *out) of planes (planes, *image)."""
    start = np.finfo(planes.dtype).min if op.mode == MAX else 0
    reduce = np.fmax if op.mode == MAX else np.add
    power = {SQUARE: 2, CUBE: 3}.get(op.mode, 1)
    planes = planes if power == 1 else planes ** power
    if op.is_whole(window):
        y = reduce.reduce(planes, axis=(1, 2, 3), initial=start, keepdims=True)
    else:
        padded, inside = _framed(window, len(planes), start, planes.dtype)
        inside[...] = planes
        y = np.full((len(planes), *window.out), start, planes.dtype)
        for seen in _taps(window, padded):
            reduce(y, seen, out=y)
    if op.mode == AVG:
        y /= op.sizes(window).reshape(window.out).astype(y.dtype)
    return y if power == 1 else np.sqrt(y) if power == 2 else np.cbrt(y)


def pooling_gradient(op: Pooling, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """The gradient of Pooling."""
    gx = outs[0]
    window = op.window(gx.shape[2:])
    gy, *rest = ins
    images = [array.reshape(-1, *window.image) for array in rest[:1]]
    results = [array.reshape(-1, *window.out) for array in (gy, *rest[1:])]
    gx[...] = _pooled_back(op, window, results[0], images + results[1:]).reshape(gx.shape)


def _pooled_back(op: Pooling, window: Window, gy: np.ndarray, tensors: list[Any]) -> Any:
    """The gradient of planes (planes, *image); `tensors` are the input for maxima and lp pooling,
    for the latter followed by the output."""
    padded, inside = _framed(window, len(gy), 0, gy.dtype)
    if op.mode == MAX:
        _to_first_maxima(window, gy, tensors[0], padded)
        return inside
    power = {SQUARE: 1, CUBE: 2}.get(op.mode, 0)
    if op.mode == AVG:
        gy = gy / op.sizes(window).reshape(window.out).astype(gy.dtype)
    elif power:
        root = tensors[1] ** power
        gy = np.divide(gy, root, out=np.zeros_like(gy), where=root != 0)
    for seen in _taps(window, padded):
        seen += gy
    if power:
        np.multiply(inside, tensors[0] ** power, out=inside, where=_is_seen(window))
    return inside


def _is_seen(window: Window) -> Any:
    """Whether any window sees a pixel of the image (1, ...)."""
    padded, inside = _framed(window, 1, 0, np.dtype(bool))
    for seen in _taps(window, padded):
        seen[...] = True
    return inside


def _to_first_maxima(window: Window, gy: np.ndarray, planes: np.ndarray, gradients: np.ndarray
                    ) -> None:
    """Add gy to the first largest pixel that each window sees, if it sees one that is not the
    lowest number."""
    lowest = np.finfo(planes.dtype).min
    padded, inside = _framed(window, len(planes), lowest, planes.dtype)
    inside[...] = planes
    largest = np.full(gy.shape, lowest, planes.dtype)
    for seen in _taps(window, padded):
        np.fmax(largest, seen, out=largest)
    unfound = largest > lowest
    for seen, into in zip(_taps(window, padded), _taps(window, gradients), strict=True):
        hit = unfound & (seen == largest)
        np.add(into, gy, out=into, where=hit)
        unfound &= ~hit


def _adaptive_windows(images: Any, grid: Any) -> Iterator[tuple[Any, Any]]:
    """The pixels (N, C, h, w) of each window, and its element (N, C) of the grid."""
    for place in np.ndindex(*grid.shape[2:]):
        window = tuple(slice(i * size // count, -(-(i + 1) * size // count)) for i, size, count
                       in zip(place, images.shape[2:], grid.shape[2:], strict=True))
        yield images[(..., *window)], grid[(..., *place)]


def _adaptive_pooling(op: AdaptiveAvgPooling2D, ins: Sequence[Any], outs: Sequence[Any], call: Call
                     ) -> None:
    for pixels, mean in _adaptive_windows(ins[0], outs[0]):
        np.mean(pixels, axis=(2, 3), out=mean)


def _adaptive_pooling_gradient(op: AdaptiveAvgPooling2D, ins: Sequence[Any], outs: Sequence[Any],
                               call: Call) -> None:
    outs[0].fill(0)
    for pixels, g in _adaptive_windows(outs[0], ins[0]):
        pixels += (g / g.dtype.type(pixels[0, 0].size))[..., None, None]


def bilinear_resize(op: BilinearResize2D, ins: Sequence[Any], outs: Sequence[Any], call: Call
                    ) -> None:
    """_contrib_BilinearResize2D: first between rows, then between columns."""
    rows, columns, down, right = op._tables(ins[0], outs[0])
    upper, lower = ins[0][:, :, rows[0]], ins[0][:, :, rows[1]]
    lines = upper * (1 - down)[:, None] + lower * down[:, None]
    outs[0][...] = lines[..., columns[0]] * (1 - right) + lines[..., columns[1]] * right


def bilinear_resize_gradient(op: BilinearResize2D, ins: Sequence[Any], outs: Sequence[Any],
                             call: Call) -> None:
    """The gradient of _contrib_BilinearResize2D: to columns, then to rows."""
    g, gx = ins[0], outs[0]
    fill_zero(outs)
    if gx is None:
        return
    rows, columns, down, right = op._tables(gx, g)
    lines = np.zeros((*g.shape[:3], gx.shape[3]), g.dtype)
    for column, weight in zip(columns, (1 - right, right), strict=True):
        at: Any = (..., column)
        np.add.at(lines, at, g * weight)
    for row, weight in zip(rows, (1 - down, down), strict=True):
        at = (slice(None), slice(None), row)
        np.add.at(gx, at, lines * weight[:, None])


implements((Convolution, ConvolutionV1), REFERENCE, convolution, convolution_gradient)
implements(Deconvolution, REFERENCE, _deconvolution, deconvolution_gradient)
implements(Pooling, REFERENCE, pooling, pooling_gradient)
implements(AdaptiveAvgPooling2D, REFERENCE, _adaptive_pooling, _adaptive_pooling_gradient)
implements(BilinearResize2D, REFERENCE, bilinear_resize, bilinear_resize_gradient)
implements(UpSampling, REFERENCE, upsampling, _upsampling_gradient)
