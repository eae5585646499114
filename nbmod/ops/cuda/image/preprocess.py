"""ToTensor, Normalize, crops, flips, resizing and borders: a thread per element of the result.

Source pixels are addressed by a view, or by index tables per axis that the host computes, as it
does interpolation weights.  Results are rounded to bytes exactly as on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from ...dispatch import implements
from ...image.preprocess import (
    CvCopyMakeBorder,
    CvResize,
    ImageCrop,
    ImageResize,
    Normalize,
    ToTensor,
    _Flip,
    _RandomFlip,
)
from ...image.resample import plan
from ...op import Call
from ...random.rng import generator
from ..lib.fill import fill
from ..lib.kernel_math import CASTS, MATH, maximum, minimum
from ..lib.strided_copy import copy_view, fill_view, view_of
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, PerRun, cache, device_function, each, grid_stride

__all__ = ["saturate_function"]

floor = MATH["floor"]


@cache
def saturate_function(dtype: np.dtype, real: type[np.number], rounds: bool = False) -> Callable:
    """saturate(x): a real number as it is stored; integers saturate, and are rounded, ties to even,
    or truncated."""
    if dtype.kind == "f":
        return device_function(lambda x: x)
    limits, cut = np.iinfo(dtype), CASTS[dtype.name]
    least, most, half, one, two = map(real, (limits.min, limits.max, 0.5, 1, 2))

    @device_function
    def saturate(x):
        if rounds:
            whole = floor(x)
            over = x - whole
            x = whole + one if over > half or (
                over == half and whole - two * floor(whole * half) == one) else whole
        return cut(minimum(maximum(x, least), most))
    return saturate


# -- ToTensor, Normalize ------------------------------------------------------------------------


@cache
def _to_tensor_kernel(backward: bool) -> CudaKernel:
    """Images (.., pixels, channels) to tensors (.., channels, pixels), or backward."""
    scale = np.float32(255)

    @grid_stride
    def to_tensor(i, x, y, pixels, channels):
        image = i // (pixels * channels) * (pixels * channels)
        if backward:
            source = image + i % channels * pixels + i // channels % pixels
        else:
            source = image + i % pixels * channels + i // pixels % channels
        y[i] = np.float32(x[source]) / scale
    return to_tensor


def _to_tensor(x: Array, y: Array, backward: bool) -> list[Launch]:
    *_, height, width, channels = y.shape if backward else x.shape
    return each(_to_tensor_kernel(backward), y.size, x, y, height * width, channels)


implements(ToTensor, "cuda", lambda op, ins, outs, call: _to_tensor(ins[0], outs[0], False),
           lambda op, ins, outs, call: _to_tensor(ins[0], outs[0], True))


@cache
def _normalize_kernel(dtype: np.dtype, real: type[np.number]) -> CudaKernel:
    """Normalise every `step`-th plane of `area` pixels from plane `first` on."""
    cut = CASTS[dtype.name] if dtype.kind in "iu" else device_function(lambda x: x)

    @grid_stride
    def normalize(i, x, y, mean, std, first, step, area):
        at = (i // area * step + first) * area + i % area
        y[at] = cut((real(x[at]) - mean) / std)
    return normalize


def _normalized(op: Normalize, x: Array, y: Array, centred: bool) -> list[Launch]:
    """A launch for each distinct pair of mean and deviation."""
    *_, channels, height, width = x.shape
    means, stds = (values.reshape(-1) for values in op._per_channel(channels))
    step = max(len(means), len(stds))
    real: Any = np.result_type(x.dtype, np.float32).type
    return [launch for first in range(step)
            for launch in each(_normalize_kernel(y.dtype, real), x.size // step, x, y,
                               real(means[first % len(means)] if centred else 0),
                               real(stds[first % len(stds)]), first, step, height * width)]


implements(Normalize, "cuda", lambda op, ins, outs, call: _normalized(op, ins[0], outs[0], True),
           lambda op, ins, outs, call: _normalized(op, ins[0], outs[0], False))

# -- crops and flips ----------------------------------------------------------------------------


def _crop_backward(op: ImageCrop, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return fill(outs[0], 0) + copy_view(view_of(ins[0]), view_of(outs[0], op._part))


implements(ImageCrop, "cuda",
           lambda op, ins, outs, call: copy_view(view_of(ins[0], op._part), view_of(outs[0])),
           _crop_backward)


def _mirrored(op: _Flip, x: Array, y: Array) -> list[Launch]:
    return copy_view(view_of(x, lambda model: np.flip(model, op.axis)), view_of(y))


def _flip(op: _Flip, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _mirrored(op, ins[0], outs[0])


def _flip_or_not(op: _RandomFlip, ins: Arrays, outs: Arrays, call: Call) -> list[PerRun]:
    (x,), (y, flipped) = ins, outs
    variants = [copy_view(view_of(x), view_of(y)), _mirrored(op, x, y)]
    if flipped is not None:
        for value, launches in enumerate(variants):
            launches += fill(flipped, value)
    return [PerRun(lambda: variants[generator().random() < 0.5])]


@grid_stride
def _unflip(i, g, flipped, gx, size, inner, zero):
    position = i // inner % size
    shift = size - 1 - 2 * position if flipped[0] != zero else 0
    gx[i] = g[i + shift * inner]


def _flip_back(op: _RandomFlip, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (g, flipped), (gx,) = ins, outs
    _, width, channels = g.shape
    inner = channels if op.axis else width * channels
    return each(_unflip, gx.size, g, flipped, gx, g.shape[op.axis], inner,
                np.float32(0))


implements(_Flip, "cuda", _flip, _flip)
implements(_RandomFlip, "cuda", _flip_or_not, _flip_back)

# -- resizing and borders -----------------------------------------------------------------------


def _with_tables(kernel: CudaKernel, x: Array, y: Array, *tables: np.ndarray) -> list[Launch]:
    """Launches of a kernel (x, *tables, y, count)."""
    own = tuple(map(x.device.from_numpy, tables))
    return [launch._replace(own=own) for launch in each(kernel, y.size, x, *own, y)]


@cache
def _pick_kernel(size: tuple[int, ...], grid: tuple[int, ...], channels: int) -> CudaKernel:
    """Gather pixels by tables of row and column indices."""
    (height, width), (out_height, out_width) = size, grid

    @grid_stride
    def pick_pixels(i, x, rows, columns, y):
        row, pixel = i // (channels * out_width * out_height) * height, i // channels
        row += rows[pixel // out_width % out_height]
        y[i] = x[(row * width + columns[pixel % out_width]) * channels + i % channels]
    return pick_pixels


def _pick(x: Array, y: Array, rows: np.ndarray, columns: np.ndarray) -> list[Launch]:
    make = _pick_kernel(x.shape[-3:-1], y.shape[-3:-1], y.shape[-1])
    return _with_tables(make, x, y, rows.astype(np.int32), columns.astype(np.int32))


def _sum_functions(kind: np.dtype, real: type[np.number]) -> tuple[Callable, Callable]:
    """share(weight, x): a term of the sum over rows; finish(total): the stored value.

    Fixed-point sums of bytes drop low bits on the way (see `resample`).
    """
    saturate = saturate_function(kind, np.float32 if real is np.int32 else real, True)

    @device_function
    def share_real(weight, x):
        return weight * x

    @device_function
    def share_fixed(weight, x):
        return weight * (x // 16) // 65536

    @device_function
    def finish_fixed(total):
        return (total + 2) // 4

    return (share_fixed, finish_fixed) if real is np.int32 else (share_real, saturate)


@cache
def _resize_kernel(sizes: tuple[int, ...], kind: np.dtype, real: type[np.number]) -> CudaKernel:
    """Separable interpolation by weighted sums of pixels: `sizes` are those of the image, of the
    result, the channels, and the taps along both axes."""
    height, width, out_height, out_width, channels, taps_y, taps_x = sizes
    share, finish = _sum_functions(kind, real)

    @grid_stride(exact=True)
    def resize_image(i, x, rows, shares, columns, weights, y):
        image, pixel = i // (channels * out_width * out_height) * height, i // channels
        row, column = pixel // out_width % out_height * taps_y, pixel % out_width * taps_x
        total = real(0)
        for v in range(row, row + taps_y):
            line, row_sum = (image + rows[v]) * width, real(0)
            for u in range(column, column + taps_x):
                row_sum += weights[u] * real(x[(line + columns[u]) * channels + i % channels])
            total += share(shares[v], row_sum)
        y[i] = finish(total)
    return resize_image


def _resize(op: ImageResize | CvResize, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y = ins[0], outs[0]
    (rows, shares), (columns, weights), kind = plan(x.shape[-3:], y.shape[-3:], op.interp, x.dtype)
    if kind is None:
        return _pick(x, y, rows, columns)
    real: Any = kind.type
    sizes = (*x.shape[-3:-1], *y.shape[-3:], rows.shape[1], columns.shape[1])
    return _with_tables(_resize_kernel(sizes, y.dtype, real), x, y, rows.astype(np.int32),
                        shares.astype(kind), columns.astype(np.int32), weights.astype(kind))


def _border(op: CvCopyMakeBorder, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y = ins[0], outs[0]
    if op.type:
        return _pick(x, y, *op.sources(x.shape))
    around = [launch for channel, value in enumerate(op.edge(y.shape[2], y.dtype))
              for launch in fill_view(view_of(y, itemgetter((..., channel))), value)]
    return around + copy_view(view_of(x), view_of(y, partial(op.inside, shape=x.shape)))


implements((ImageResize, CvResize), "cuda", _resize)
implements(CvCopyMakeBorder, "cuda", _border)
