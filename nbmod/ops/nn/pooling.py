"""Pooling: the maximum, mean, sum or p-norm of every window.

Means are sums divided by a table of window sizes made at bind, which alone depends on the padding
convention.  Global pooling is a plain reduction program; other windows run the kernels of
`pooling_kernels`, or of `pooling_interleaved` for many small planes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..elementwise.float_op import FloatOp
from ..elementwise.formula_op import kernels
from ..elementwise.program import Assign, Program
from ..jit import kernel, prange
from ..op import Call, Run, Spec, Tensor, all_of
from ..param import Shape
from ..shape import ShapeMismatch, Shapes, unify
from ..simd.raw_arrays import STEP, stack_buffer
from . import pooling_interleaved, pooling_kernels
from .pooling_kernels import AVG, CUBE, MAX, SQUARE, SUM
from .sliding_window import CHANNELS_FIRST, Layout, Window, per_axis, sliding_size
from .spatial import SpatialOp
from .window_planes import WindowPlanes

__all__ = ["Pooling", "PoolingV1"]

LayoutName = Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC"]


# -------------------------------------------------------------------------------------- whole image

TOTAL = Program("total", (Assign("y", "x"),), ("x",), ("y",))
LARGEST = Program("largest", (Assign("y", "where(x > lowest, x, lowest)"),), ("x",), ("y",),
                  ("lowest",), "maximum")
HALF_SIZES = tuple(STEP >> k for k in range(1, STEP.bit_length()))
PASSED = Program("passed", (Assign("gx", "where(x > lowest, gy, 0)"),), ("gy", "x"), ("gx",),
                 ("lowest",))
SHARE = Program("share", (Assign("gx", "gy / n"),), ("gy",), ("gx",), ("n",))


def _whole(mode: int, x: np.ndarray, y: np.ndarray) -> Run:
    """A function that reduces planes x (planes, pixels) to y (planes, 1)."""
    if mode == MAX:
        return kernels().prepare(LARGEST, [x], [y], [_lowest(mode, y)])
    total = kernels().prepare(TOTAL, [x], [y])
    return total if mode == SUM else all_of([total, partial(np.divide, y, x.shape[1], out=y)])


def _whole_back(mode: int, gy: np.ndarray, x: np.ndarray, gx: np.ndarray) -> Run:
    """A function that computes the gradient gx (planes, pixels) from gy (planes, 1)."""
    if mode == MAX and x.shape[1] == 1:
        return kernels().prepare(PASSED, [gy, x], [gx], [_lowest(mode, x)])
    if mode == MAX:
        return partial(_to_first, gy, x, gx, x.dtype.type(_lowest(mode, x)))
    return kernels().prepare(SHARE, [gy], [gx], [float(gx.shape[1] if mode == AVG else 1)])


@kernel(parallel=True)
def _to_first(gy, x, gx, lowest):
    """gx is gy at the first maximum of each plane, if that is above `lowest`, and 0 elsewhere."""
    planes, pixels = x.shape
    for job in prange(planes):
        plane, best = np.int64(job), stack_buffer(x.dtype)
        for k in range(STEP):
            best[k] = lowest
        for start in range(0, pixels, STEP):
            for k in range(min(STEP, pixels - start)):
                pixel = x[plane, np.uint64(start) + np.uint64(k)]
                best[k] = pixel if pixel > best[k] else best[k]
        for width in HALF_SIZES:
            for k in range(width):
                best[k] = best[k + width] if best[k + width] > best[k] else best[k]
        for i in range(pixels):
            gx[plane, i] = 0
        if best[0] > lowest:
            first = 0
            while x[plane, first] != best[0]:
                first += 1
            gx[plane, first] = gy[plane, 0]


def _lowest(mode: int, array: np.ndarray) -> float:
    """Initial value of the reduction."""
    return float(np.finfo(array.dtype).min) if mode == MAX else 0.0


# ---------------------------------------------------------------------------------------------- ops

@dataclass(frozen=True)
class PoolingParameters:
    """Parameters of Pooling, of floats and of 8-bit integers."""

    kernel: Shape = ()
    pool_type: Literal["avg", "lp", "max", "sum"] = "max"
    global_pool: bool = False
    cudnn_off: bool = False
    pooling_convention: Literal["full", "same", "valid"] = "valid"
    stride: Shape = ()
    pad: Shape = ()
    p_value: int | None = None
    count_include_pad: bool | None = None
    layout: LayoutName | None = None


@dataclass(frozen=True)
class Pooling(PoolingParameters, SpatialOp, name="Pooling"):
    """The maximum, mean, sum or p-norm of every window of `kernel` pixels.

    data (N, C, *image) -> (N, C, *out), or channels last as `layout` says.  out is
    (image + 2 pad - kernel) / stride + 1, rounded down ('valid') or up ('full'), or image / stride
    rounded up ('same', 1-D without pad only).  `global_pool` makes the window the whole image.

    The stride is 1 unless given.  A mean is over the pixels of the window that lie in the image and
    its padding, with `count_include_pad` False in the image alone.  'lp' is the p-th root of the
    sum of p-th powers, p_value 1, 2 or 3, without absolute values, as in MXNet.  The gradient of a
    maximum goes to the first of equal pixels.  A window without any pixel gives the lowest number,
    or 0.  (Real MXNet's float32 mean counts clipped windows one way forward, another way backward.)
    """

    needs: ClassVar = ("ograd", "data", "output")

    def list_needs(self) -> tuple[str, ...]:
        count = 1 if self.mode in (AVG, SUM) else 2 if self.mode == MAX else 3
        return self.needs[:count]

    @property
    def mode(self) -> int:
        if self.pool_type == "lp":
            return {1: SUM, 2: SQUARE, 3: CUBE}.get(self.p_value or 0, SUM)
        return {"max": MAX, "avg": AVG, "sum": SUM}[self.pool_type]

    @property
    def channels_last(self) -> bool:
        return self.layout not in (None, *CHANNELS_FIRST)

    def window(self, image: Sequence[int]) -> Window:
        """The window over an image; sizes of 0 are unknown and give 0."""
        rank = len(image)
        if self.global_pool:
            return Window.over(image, (1,) * rank, image, (1,) * rank, (0,) * rank)
        size = per_axis(self.kernel, rank, "kernel", 1, 1)
        stride = per_axis(self.stride, rank, "stride", 1, 1)
        same = self.pooling_convention == "same"
        pad = per_axis(() if same else self.pad, rank, "pad", 0, 0)
        span = (1,) * rank if same else size
        out = sliding_size(image, span, stride, pad, self.pooling_convention == "full")
        return Window.over(image, out, size, stride, pad)

    def check(self, data: Shape) -> Layout:
        """The layout of `data`; ShapeMismatch where parameters and shape do not fit."""
        if not 3 <= len(data) <= 5:
            raise ShapeMismatch(f"data has shape {data}, expected 3 to 5 dimensions")
        if not (self.kernel or self.global_pool):
            raise ShapeMismatch("kernel is not given, expected one entry per image axis of data "
                                f"{data}, or global_pool")
        if self.pool_type == "lp" and self.p_value not in (1, 2, 3):
            raise ShapeMismatch(f"p_value is {self.p_value}, expected 1, 2 or 3")
        if self.pooling_convention == "same" and not self.global_pool:
            if len(data) != 3 or any(self.pad):
                raise ShapeMismatch(f"pooling_convention is 'same', expected data of 3 dimensions "
                                    f"and no pad, given data {data} and pad {self.pad}")
        rank = len(data) - 2 if self.global_pool else len(self.kernel)
        return Layout.of(self.layout, rank)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = ins[0]
        if data is None:
            return list(ins), list(outs)
        axes = self.check(data)
        batch, channels, image = axes.split(data)
        out = axes.join(batch, channels, self.window(image).out[3 - axes.rank:])
        return [data], [unify(out, outs[0], "computed and wanted output")]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._buffers(ins[0], False)

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._buffers(outs[0], True)

    def _buffers(self, data: Tensor, backward: bool) -> list[Spec]:
        """Workspace of one direction; none to reduce whole planes."""
        planes, window, dtype = self.squeezed(data)
        if self.is_whole(window):
            return []
        if self.is_interleaved(planes, window):
            return [pooling_interleaved.workspace(window, dtype)]
        return [pooling_kernels.workspace(WindowPlanes(window), dtype, self.mode, backward)]

    def squeezed(self, data: Tensor) -> tuple[int, Window, Any]:
        """Number of planes of data (N, C, ...), the window over one of them with the fewest axes,
        and the type.  Leading axes with pixelwise windows count as planes."""
        window, planes = self.window(data.shape[2:]), data.shape[0] * data.shape[1]
        axes = [axis for axis in window.axes if axis[:3] != (1, 1, 1)]
        while axes and axes[0].is_pixelwise:
            planes *= axes.pop(0).image
        return planes, Window.merged(axes), data.dtype

    def is_whole(self, window: Window) -> bool:
        """Whether this is a plain reduction: one position that covers the image exactly."""
        return (window.kernel == window.image and not any(window.pad) and window.positions == 1
                and self.mode in (MAX, AVG, SUM))

    def is_interleaved(self, planes: int, window: Window) -> bool:
        return self.mode in (MAX, AVG, SUM) and pooling_interleaved.applies(window, planes)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        count, window, dtype = self.squeezed(ins[0])
        x, y = ins[0].reshape(count, -1), outs[0].reshape(count, -1)
        if self.is_whole(window):
            return _whole(self.mode, x, y)
        whole = self.window(ins[0].shape[2:])
        size = self.sizes(whole)[-window.positions:].astype(dtype)
        arrays, start = (x.reshape(-1), y.reshape(-1)), _lowest(self.mode, y)
        if self.is_interleaved(count, window):
            table = pooling_interleaved.interleaved(window, count, dtype)
            return partial(pooling_interleaved.pool, *arrays, self.mode, start, size, table,
                           call.scratch[0])
        planes = WindowPlanes(window)
        return partial(pooling_kernels.pool, *arrays, start, size, self.mode,
                       tuple(planes.tables), tuple(planes.form),
                       tuple(pooling_kernels.forward_passes(planes, self.mode == MAX)),
                       call.scratch[0])

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        count, window, dtype = self.squeezed(outs[0])
        gy, x, y, gx = (array.reshape(count, -1) for array in
                        (*ins, *[outs[0]] * (3 - len(ins)), outs[0]))
        if self.is_whole(window):
            return _whole_back(self.mode, gy, x, gx)
        whole = self.window(outs[0].shape[2:])
        size = self.sizes(whole)[-window.positions:].astype(dtype)
        gy, x, y, gx = (array.reshape(-1) for array in (gy, x, y, gx))
        if self.is_interleaved(count, window):
            table = pooling_interleaved.interleaved(window, count, dtype)
            return partial(pooling_interleaved.pool_back, gy, x, gx, self.mode, size, table,
                           call.scratch[0])
        planes = WindowPlanes(window)
        passes = (pooling_kernels.forward_passes(planes, self.mode == MAX),
                  pooling_kernels.backward_passes(planes, self.mode == MAX))
        return partial(pooling_kernels.pool_back, gy, x, y, gx, size, self.mode,
                       tuple(planes.tables), tuple(planes.form), tuple(map(tuple, passes)),
                       call.scratch[0])

    def sizes(self, window: Window) -> np.ndarray:
        """Divisor of each window, (positions,)."""
        if self.mode != AVG:
            return np.ones(window.positions)
        lengths = []
        for size, count, wide, step, pad in zip(
                window.image, window.out, window.kernel, window.stride, window.pad, strict=True):
            start = np.arange(count) * step - pad
            if self.count_include_pad is False:
                length = np.minimum(start + wide, size) - np.maximum(start, 0)
            else:
                length = np.minimum(start + wide, size + pad) - start
            lengths.append(np.maximum(length, 1))
        z, y, x = lengths
        return (z[:, None, None] * y[:, None] * x).reshape(-1)


@dataclass(frozen=True)
class PoolingV1(FloatOp, name="Pooling_v1"):
    """Pooling as it was before MXNet 0.9: kept for old files, computed with NumPy.

    2-D, data (N, C, H, W).  It differs from Pooling: zeros of the padding take part in a maximum,
    means are over the whole kernel wherever it is, and equal maxima all get the gradient.
    """

    kernel: Shape = ()
    pool_type: Literal["avg", "max", "sum"] = "max"
    global_pool: bool = False
    pooling_convention: Literal["full", "valid"] = "valid"
    stride: Shape = ()
    pad: Shape = ()

    needs: ClassVar = ("ograd", "data", "output")

    def window_of(self, image: Sequence[int]) -> tuple[Shape, Shape, Shape, Shape]:
        """(out, kernel, stride, pad) for an image."""
        if self.global_pool:
            return (1, 1), (image[0], image[1]), (1, 1), (0, 0)
        size = per_axis(self.kernel, 2, "kernel", 1, 1)
        stride = per_axis(self.stride, 2, "stride", 1, 1)
        pad = per_axis(self.pad, 2, "pad", 0, 0)
        out = sliding_size(image, size, stride, pad, self.pooling_convention == "full")
        return out, size, stride, pad

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = ins[0]
        if data is None:
            return list(ins), list(outs)
        if not (self.kernel or self.global_pool):
            raise ShapeMismatch("kernel is not given, expected two entries, or global_pool")
        batch, channels, image = Layout.of("NCHW", 2).split(data)
        out = (batch, channels, *self.window_of(image)[0])
        return [data], [unify(out, outs[0], "computed and wanted output")]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [self._padded(ins[0])]

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [self._padded(ins[1])] * 2

    def _padded(self, data: Spec) -> Spec:
        """The padded data, extended to cover windows that reach beyond the padding."""
        batch, channels, *image = data.shape
        out, size, stride, pad = self.window_of(image)
        reach = [max(i + 2 * p, (o - 1) * s + k)
                 for i, p, o, s, k in zip(image, pad, out, stride, size, strict=True)]
        return Spec((batch, channels, *reach), data.dtype)

    def _fill(self, data: np.ndarray, padded: np.ndarray, beyond: float) -> None:
        """Copy data into `padded`: 0 in the padding, `beyond` outside it."""
        (top, left), (height, width) = self.window_of(data.shape[2:])[3], data.shape[2:]
        padded[:] = beyond
        padded[:, :, :height + 2 * top, :width + 2 * left] = 0
        padded[:, :, top:top + height, left:left + width] = data

    def _taps(self, image: Sequence[int], *arrays: np.ndarray) -> list[tuple[Any, ...]]:
        """For every tap, the pixels under it in each array, as views shaped like the output."""
        (rows, columns), size, (down, right), _ = self.window_of(image)
        return [tuple(padded[:, :, y:y + (rows - 1) * down + 1:down,
                             x:x + (columns - 1) * right + 1:right] for padded in arrays)
                for y, x in np.ndindex(*size)]

    def _share(self, data: np.ndarray) -> np.float32:
        """Weight of each pixel in a mean, rounded as by MXNet."""
        kernel = self.window_of(data.shape[2:])[1]
        return np.float32(1 / (kernel[0] * kernel[1]) if self.pool_type == "avg" else 1)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        data, out, padded, is_max = ins[0], outs[0], call.scratch[0], self.pool_type == "max"
        self._fill(data, padded, -np.inf if is_max else 0)
        out[:] = -np.inf if is_max else 0
        for pixels, in self._taps(data.shape[2:], padded):
            (np.maximum if is_max else np.add)(out, pixels, out=out)
        out *= self._share(data)

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        (grad, data, out), (padded, total) = ins, call.scratch[:2]
        self._fill(data, padded, -np.inf)
        total[:] = 0
        for pixels, sums in self._taps(data.shape[2:], padded, total):
            sums += np.where(pixels == out, grad, 0) if self.pool_type == "max" else grad
        total *= self._share(data)
        (top, left), (height, width) = self.window_of(data.shape[2:])[3], data.shape[2:]
        outs[0][:] = total[:, :, top:top + height, left:left + width]
