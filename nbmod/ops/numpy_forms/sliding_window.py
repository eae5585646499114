"""Convolution, deconvolution, pooling and resizing with NumPy.

Every tap of a window sees a strided view of the padded image (`_taps`).  Convolutions copy these
views into a matrix, multiply, and deconvolutions do so backwards (see `nn.conv_im2col`); pooling
reduces them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..image.resize import BilinearResize2D, UpSampling
from ..nn.adaptive_pooling import AdaptiveAvgPooling2D
from ..nn.convolution import Convolution, FilterOp
from ..nn.deconvolution import Deconvolution
from ..nn.pooling import Pooling
from ..nn.pooling_kernels import AVG, CUBE, MAX, SQUARE
from ..nn.sliding_window import Geometry, Window
from ..op import Call

__all__ = ["adaptive_pooling", "bilinear_resize", "convolution", "deconvolution", "pooling",
           "upsampling"]


# -- windows ----------------------------------------------------------------------------------


def _framed(window: Window, planes: int, fill: float, dtype: np.dtype) -> tuple[Any, Any]:
    """An array (planes, ...) for padded images, filled, and the view of it that is the images."""
    sizes = [max(pad + image, (out - 1) * stride + (kernel - 1) * dilate + 1)
             for image, out, kernel, stride, pad, dilate in window.axes]
    padded = np.full((planes, *sizes), fill, dtype)
    inside = tuple(slice(axis.pad, axis.pad + axis.image) for axis in window.axes)
    return padded, padded[(slice(None), *inside)]


def _taps(window: Window, padded: Any) -> Iterator[Any]:
    """For every tap of the window the pixels (planes, *out) that it sees."""
    for tap in np.ndindex(*window.kernel):
        seen = tuple(slice(at * axis.dilate, at * axis.dilate + (axis.out - 1) * axis.stride + 1,
                           axis.stride) for at, axis in zip(tap, window.axes, strict=True))
        yield padded[(slice(None), *seen)]


def _unrolled(window: Window, image: Any) -> Any:
    """im2col: (channels, taps, positions) of an image (channels, ...)."""
    if window.is_pixelwise:
        return image
    padded, inside = _framed(window, len(image), 0, image.dtype)
    inside[...] = image
    columns = np.empty((len(image), window.taps, *window.out), image.dtype)
    for tap, seen in enumerate(_taps(window, padded)):
        columns[:, tap] = seen
    return columns


def _rolled(window: Window, columns: Any) -> Any:
    """col2im: the image of (channels, taps, positions), where each pixel is a sum."""
    if window.is_pixelwise:
        return columns
    padded, inside = _framed(window, len(columns), 0, columns.dtype)
    columns = columns.reshape(len(columns), window.taps, *window.out)
    for tap, seen in enumerate(_taps(window, padded)):
        seen += columns[:, tap]
    return inside


# -- filters ----------------------------------------------------------------------------------


def _convolved(geo: Geometry, x: Any, w: Any) -> Any:
    """(N, filters, positions) of x (N, channels, ...)."""
    matrices = w.reshape(geo.groups, geo.group_filters, geo.depth)
    y = np.empty((geo.images, geo.groups, geo.group_filters, geo.window.positions), x.dtype)
    for image, sums in zip(x.reshape(geo.images, geo.channels, *geo.window.image), y, strict=True):
        columns = _unrolled(geo.window, image).reshape(geo.groups, geo.depth, -1)
        np.matmul(matrices, columns, out=sums)
    return y.reshape(geo.images, geo.filters, -1)


def _transposed(geo: Geometry, x: Any, w: Any) -> Any:
    """(N, channels, pixels) of x (N, filters, ...), as the gradient of a convolution's data."""
    matrices = w.reshape(geo.groups, geo.group_filters, geo.depth).transpose(0, 2, 1)
    y = np.empty((geo.images, geo.channels, *geo.window.image), x.dtype)
    for image, sums in zip(x.reshape(geo.images, geo.groups, geo.group_filters, -1), y,
                           strict=True):
        columns = np.matmul(matrices, image).reshape(geo.channels, geo.window.taps, -1)
        sums[...] = _rolled(geo.window, columns).reshape(sums.shape)
    return y.reshape(geo.images, geo.channels, -1)


def convolution(op: Convolution, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """Convolution."""
    _filtered(op, _convolved, ins, outs[0])


def deconvolution(op: Deconvolution, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """Deconvolution."""
    _filtered(op, _transposed, ins, outs[0])


def upsampling(op: UpSampling, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """UpSampling: a deconvolution, or no kernel."""
    if op.sample_type == "nearest":
        op.compute(ins, outs, call)
    else:
        _filtered(op._by(ins[0].shape[1]), _transposed, ins, outs[0])


def _filtered(op: FilterOp, convolve: Any, ins: Sequence[Any], out: Any) -> None:
    x, w = _first(op, ins[0]), _first(op, ins[1])
    y = convolve(op.directions(x).geo, x, w)
    if not op.no_bias:
        y += ins[2][:, None]
    target = _first(op, out)
    target[...] = y.reshape(target.shape)


def _first(op: FilterOp | Pooling, array: Any) -> Any:
    """A tensor with its channels first."""
    return np.moveaxis(array, -1, 1) if op.channels_last else array


# -- pooling ----------------------------------------------------------------------------------


def pooling(op: Pooling, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """Pooling."""
    x, y = _first(op, ins[0]), _first(op, outs[0])
    window = op.window(x.shape[2:])
    y[...] = _pooled(op, window, x.reshape(-1, *window.image)).reshape(y.shape)


def _pooled(op: Pooling, window: Window, planes: Any) -> Any:
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


def adaptive_pooling(op: AdaptiveAvgPooling2D, ins: Sequence[Any], outs: Sequence[Any], call: Call
                     ) -> None:
    """_contrib_AdaptiveAvgPooling2D."""
    x, y = ins[0], outs[0]
    for row, column in np.ndindex(*y.shape[2:]):
        window = tuple(slice(i * size // count, -(-(i + 1) * size // count)) for i, size, count
                       in zip((row, column), x.shape[2:], y.shape[2:], strict=True))
        np.mean(x[(..., *window)], axis=(2, 3), out=y[:, :, row, column])


def bilinear_resize(op: BilinearResize2D, ins: Sequence[Any], outs: Sequence[Any], call: Call
                    ) -> None:
    """_contrib_BilinearResize2D: first between rows, then between columns."""
    rows, columns, down, right = op._tables(ins[0], outs[0])
    upper, lower = ins[0][:, :, rows[0]], ins[0][:, :, rows[1]]
    lines = upper * (1 - down)[:, None] + lower * down[:, None]
    outs[0][...] = lines[..., columns[0]] * (1 - right) + lines[..., columns[1]] * right
