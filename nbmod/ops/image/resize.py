"""UpSampling by an integer factor, and BilinearResize2D to any size.

Interpolation is separable: kernels read a short table for each axis, of two adjacent pixels and the
weight of the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..elementwise.float_op import FloatOp, require_float
from ..jit import kernel, prange
from ..nn.deconvolution import Deconvolution
from ..nn.sliding_window import MOST_PIXELS, Layout
from ..op import Call, Run, Spec, Types
from ..param import Shape
from ..rules import data_type, fill_zero
from ..shape import PartialShape, ShapeMismatch, Shapes, is_known, unify

__all__ = ["BilinearResize2D", "UpSampling"]

IMAGES = Layout(2)


@dataclass(frozen=True, kw_only=True)
class UpSampling(FloatOp, name="UpSampling"):
    """`scale` times as high and wide; data (N, C, H, W).

    'nearest' repeats pixels.  All of its `num_args` inputs are resized to the size of the first
    times scale, then concatenated along channels ('concat') or added ('sum').  'bilinear' has one
    input and a weight (C, 1, K, K), K = 2 scale - scale % 2; it is a depthwise deconvolution with a
    stride of `scale`, and weights that interpolate.  (`num_filter` is C in MXNet; here it may be
    omitted.)
    """

    scale: int
    num_filter: int = 0
    sample_type: Literal["bilinear", "nearest"]
    multi_input_mode: Literal["concat", "sum"] = "concat"
    num_args: int
    workspace: int = 512

    variadic: ClassVar = "num_args"
    init: ClassVar = {"weight": '["bilinear", {}]', "arg1": '["bilinear", {}]'}
    """MXNet marks the second input, whatever it is."""

    def list_inputs(self) -> tuple[str, ...]:
        if self.sample_type == "bilinear":
            return ("data", "weight")
        return tuple(f"arg{i}" for i in range(self.num_args))

    def list_needs(self) -> tuple[str, ...]:
        return ("ograd", "data", "weight") if self.sample_type == "bilinear" else ("ograd",)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        for name, value in (("scale", self.scale), ("num_args", self.num_args)):
            if value < 1:
                raise ShapeMismatch(f"{name} is {value}, expected at least 1")
        if ins[0] is None:
            return list(ins), list(outs)
        if self.sample_type == "bilinear":
            channels = IMAGES.split(ins[0])[1]
            return self._by(channels).infer_shape(ins, outs) if channels else (ins, outs)
        return ins, [unify(self._joined(ins), outs[0], "computed and wanted output")]

    def _by(self, channels: int) -> Deconvolution:
        """The deconvolution that interpolates."""
        size, pad = 2 * self.scale - self.scale % 2, self.scale // 2
        return Deconvolution(kernel=(size, size), stride=(self.scale,) * 2, pad=(pad, pad),
                             num_filter=channels, num_group=channels)

    def _joined(self, ins: Shapes) -> PartialShape:
        """Output shape of 'nearest'."""
        split = [IMAGES.split(shape, name) for name, shape in zip(self.list_inputs(), ins,
                                                                  strict=True) if shape is not None]
        batch = max(n for n, _, _ in split)
        height, width = (size * self.scale for size in split[0][2])
        known = all(is_known(shape) for shape in ins)
        for (n, c, (h, w)), name in zip(split, self.list_inputs(), strict=False):
            if known and (n != batch or height % h or height // h * w != width):
                raise ShapeMismatch(f"{name} has shape {(n, c, h, w)}, expected a whole fraction "
                                    f"of the output image {(height, width)} and batch {batch}")
            if known and self.multi_input_mode == "sum" and c != split[0][1]:
                raise ShapeMismatch(f"{name} has {c} channels, expected {split[0][1]} to add it "
                                    "to the first input")
        total = sum(c for _, c, _ in split) if known else 0
        return batch, split[0][1] if self.multi_input_mode == "sum" else total, height, width

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if self.sample_type == "nearest":
            return []
        return self._by(ins[0].shape[1]).scratch(ins, outs)

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if self.sample_type == "nearest":
            return []
        return self._by(ins[1].shape[1]).backward_scratch(ins, outs)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if self.sample_type == "bilinear":
            return self._by(ins[0].shape[1]).prepare(ins, outs, call)
        pairs = list(zip(ins, self._parts(ins, outs[0]), strict=True))

        def run() -> None:
            for i, (x, part) in enumerate(pairs):
                for pixels in _blocks(part, x):
                    if i and self.multi_input_mode == "sum":
                        np.add(pixels, x, out=pixels)
                    else:
                        np.copyto(pixels, x)

        return run

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if self.sample_type == "bilinear":
            return self._by(ins[1].shape[1]).prepare_backward(ins, outs, call)
        shapes = call.specs or outs
        pairs = list(zip(self._parts(shapes, ins[0]), outs, strict=True))

        def run() -> None:
            for grad, gx in pairs:
                if gx is not None:
                    first, *rest = _blocks(grad, gx)
                    np.copyto(gx, first)
                    for pixels in rest:
                        np.add(gx, pixels, out=gx)

        return run

    def _parts(self, ins: Sequence[Any], out: np.ndarray) -> list[Any]:
        """The channels of `out` that each input produces."""
        if self.multi_input_mode == "sum":
            return [out] * len(ins)
        ends = np.cumsum([tensor.shape[1] for tensor in ins]).tolist()
        return [out[:, end - tensor.shape[1]:end] for tensor, end in zip(ins, ends, strict=True)]


def _blocks(large: np.ndarray, small: np.ndarray) -> list[Any]:
    """For every offset in a block of repeated pixels, the pixels of `large` at that offset."""
    step = large.shape[2] // small.shape[2]
    return [large[:, :, y::step, x::step] for y in range(step) for x in range(step)]


# --------------------------------------------------------------------------- bilinear interpolation

@kernel(parallel=True)
def _interpolate(x, y, rows, columns, down, right):
    """y (P, OH, OW) from x (P, H, W); rows and columns are (2, size): a pixel and the next one."""
    height, width = y.shape[1:]
    for line in prange(y.shape[0] * height):
        plane, i = line // height, line % height
        upper, lower, out = x[plane, rows[0, i]], x[plane, rows[1, i]], y[plane, i]
        below = down[i]
        above = y.dtype.type(1) - below
        for j in range(width):
            a, b, after = columns[0, j], columns[1, j], right[j]
            before = y.dtype.type(1) - after
            out[j] = (above * (before * upper[a] + after * upper[b])
                      + below * (before * lower[a] + after * lower[b]))


@kernel(parallel=True)
def _interpolate_backward(gy, gx, rows, columns, down, right):
    """Add gradients to the four pixels of each output."""
    for plane in prange(gx.shape[0]):
        image = gx[plane]
        image[:] = 0
        for i in range(gy.shape[1]):
            upper, lower, grad = image[rows[0, i]], image[rows[1, i]], gy[plane, i]
            below = down[i]
            above = gx.dtype.type(1) - below
            for j in range(gy.shape[2]):
                a, b, after = columns[0, j], columns[1, j], right[j]
                before = gx.dtype.type(1) - after
                upper[a] += above * before * grad[j]
                upper[b] += above * after * grad[j]
                lower[a] += below * before * grad[j]
                lower[b] += below * after * grad[j]


def _neighbours(size: int, count: int, aligned: bool, dtype: np.dtype
                ) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours (2, count) of `count` positions over `size` pixels, and the second's weight."""
    index, kind = np.arange(count).astype(dtype), dtype.type
    if count == 1:
        at = index
    elif aligned:
        at = index * (kind(size - 1) / kind(count - 1))
    else:
        at = np.maximum((index + kind(0.5)) * (kind(size) / kind(count)) - kind(0.5), kind(0))
    first = np.minimum(at.astype(np.int64), size - 1)
    return np.stack([first, np.minimum(first + 1, size - 1)]), at - first.astype(dtype)


@dataclass(frozen=True)
class BilinearResize2D(FloatOp, name="_contrib_BilinearResize2D"):
    """data (N, C, H, W) -> (N, C, OH, OW), each pixel interpolated between four.

    With `align_corners` the corner pixels of both images coincide: position i of an axis is at
    i (size - 1) / (out - 1).  Otherwise the images' outer edges do: at (i + 0.5) size / out - 0.5,
    no less than 0.  An axis with out = 1 gets the first pixel.  OH and OW follow from `mode`:

    - 'size': `height`, `width`, or where both scales are given floor(scale size);
    - 'like': the height and width of a second input, which gets no gradient;
    - 'odd_scale': floor(scale size) for even sizes, floor(scale (size - 1)) + 1 for odd ones;
    - 'to_even_down', 'to_even_up', 'to_odd_down', 'to_odd_up': the nearest such number.
    """

    height: int = 1
    width: int = 1
    scale_height: float | None = None
    scale_width: float | None = None
    mode: Literal["like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down",
                  "to_odd_up"] = "size"
    align_corners: bool = True

    inputs: ClassVar = ("data", "like")
    needs: ClassVar = ("ograd",)

    def list_inputs(self) -> tuple[str, ...]:
        return self.inputs if self.mode == "like" else self.inputs[:1]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        require_float(self, ins)
        ins, outs = data_type(ins, outs)
        return [ins[0], *(dtype or ins[0] for dtype in ins[1:])], outs

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        for name, shape in zip(self.list_inputs(), ins, strict=True):
            if shape is not None and len(shape) != 4:
                raise ShapeMismatch(f"{name} has shape {shape}, expected 4 dimensions: "
                                    "(N, C, H, W)")
        data = ins[0]
        if data is None:
            return ins, outs
        size = self._size(data[2:], ins[-1])
        return ins, [unify((*data[:2], *size), outs[0], "computed and wanted output")]

    def _size(self, image: Shape, like: PartialShape) -> Shape:
        """(OH, OW); 0 where it is not known yet."""
        if self.mode == "like":
            return like[2:] if like is not None else (0, 0)
        if self.mode == "size" and self.scale_height is None:
            if min(self.height, self.width) < 1:
                raise ShapeMismatch(f"height is {self.height} and width is {self.width}, expected "
                                    "positive numbers")
            return self.height, self.width
        scales: tuple[float | None, ...] = (None, None)
        if self.mode in ("size", "odd_scale"):
            scales = (self.scale_height, self.scale_width)
            if None in scales:
                raise ShapeMismatch(f"scale_height is {scales[0]} and scale_width is {scales[1]}, "
                                    f"expected numbers for both in mode {self.mode!r}")
        out_size = tuple(self._scaled(size, scale) if size else 0
                         for size, scale in zip(image, scales, strict=True))
        if any(size and out < 1 for size, out in zip(image, out_size, strict=True)):
            raise ShapeMismatch(f"mode {self.mode!r} makes images of size {out_size} from "
                                f"{tuple(image)}, expected positive numbers")
        return out_size

    def _scaled(self, size: int, scale: float | None) -> int:
        odd = size % 2
        if scale is not None:
            if not abs(scale) * size <= MOST_PIXELS:    # nor is NaN
                raise ShapeMismatch(f"the scale {scale} gives no size for {size} pixels")
            rest = odd if self.mode == "odd_scale" else 0
            return int(np.float32(scale) * np.float32(size - rest)) + rest
        return {"to_even_down": size - odd, "to_even_up": size + odd,
                "to_odd_down": size - 1 + odd, "to_odd_up": size + 1 - odd}[self.mode]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(_interpolate, _planes(ins[0]), _planes(outs[0]),
                       *self._tables(ins[0], outs[0]))

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        grad, gx = ins[0], outs[0]

        def run() -> None:
            fill_zero(outs[1:])
            if gx is not None:
                _interpolate_backward(_planes(grad), _planes(gx), *self._tables(gx, grad))

        return run

    def _tables(self, image: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, ...]:
        """(rows, columns, down, right) for the kernels."""
        (rows, down), (columns, right) = (
            _neighbours(image.shape[axis], grid.shape[axis], self.align_corners, image.dtype)
            for axis in (2, 3))
        return rows, columns, down, right


def _planes(array: np.ndarray) -> Any:
    return array.reshape(-1, *array.shape[2:])
