"""Convolution, and the choice of kernels for its three directions.

    y[n, f, o] = bias[f] + sum over c, k of w[f, c, k] x[n, c, o * stride - pad + k * dilate]

`fastest` selects the algorithm of each direction separately, by least estimated cost, from the
table of implementations (`blocked.conv_algorithms`).  A cost includes waste: empty lanes, taps that
see padding, copies, tables.  It is in single-thread nanoseconds on a core with 32-byte vectors; the
constants were fitted to random shapes (`bench.sweep`), and only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ..dispatch import NUMBA, Choice, Estimate, choose
from ..jit import num_threads
from ..op import Call, Op, Run, Spec, all_of
from ..param import Shape
from ..shape import ShapeMismatch, Shapes, unify
from .sliding_window import (
    Direction,
    Geometry,
    Layout,
    Window,
    expect,
    per_axis,
    sliding_size,
    span_of,
)
from .spatial import SpatialOp

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["Convolution", "ConvolutionDirection", "ConvolutionV1", "FilterOp", "bias_gradient",
           "convolve", "fastest"]

Tune = Literal["fastest", "limited_workspace", "off"]
LayoutName = Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC"]


@dataclass(frozen=True)
class ConvolutionDirection(Op):
    """One direction of a convolution; its inputs are x, w, y, one of which it computes, and the
    bias, None for gradients of weights and where there is none."""

    geo: Geometry
    direction: Direction
    dtype: np.dtype

    name: ClassVar = "convolution_direction"
    numba_module: ClassVar = "nbmod.ops.blocked.conv_algorithms"

    def __str__(self) -> str:
        return self.direction


def fastest(geo: Geometry, direction: Direction, dtype: DTypeLike) -> Choice:
    """The choice of the algorithm; only its workspace depends on the number of threads."""
    return _fastest(geo, direction, np.dtype(dtype), num_threads())


@lru_cache(maxsize=1024)
def _fastest(geo: Geometry, direction: Direction, dtype: np.dtype, threads: int) -> Choice:
    return choose(ConvolutionDirection(geo, direction, dtype), [NUMBA])


def convolve(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
             scratch: Sequence[Any]) -> Run:
    """A function that computes y, or the gradient x of the data, or w of the weight; bias (of
    either of the first two) may be None."""
    return fastest(geo, direction, x.dtype).prepare([x, w, y, bias], [], Call(scratch=scratch))


def bias_gradient(gy: Any, gb: Any) -> Run:
    """A function that computes gb = sum of gy (N, C, ...) over all axes but channels."""
    planes = gy.reshape(*gy.shape[:2], -1)

    def run() -> None:
        np.sum(planes.sum(axis=2), axis=0, out=gb)

    return run


class FilterOp(SpatialOp):
    """Base of convolution and deconvolution, which is the data gradient of a convolution."""

    inputs: ClassVar[tuple[str, ...]] = ("data", "weight", "bias")
    needs: ClassVar[tuple[str, ...]] = ("ograd", "data", "weight")
    direction: ClassVar[Direction] = "forward"
    adjoint: ClassVar[Direction] = "data"
    algorithms: ClassVar[tuple[type[Op], ...]] = (ConvolutionDirection,)
    kernel: Shape
    stride: Shape
    dilate: Shape
    pad: Shape
    num_filter: int
    num_group: int
    no_bias: bool
    layout: LayoutName | None

    def list_inputs(self) -> tuple[str, ...]:
        return self.inputs[:-1] if self.no_bias else self.inputs

    @property
    def axes(self) -> Layout:
        return Layout.of(self.layout, len(self.kernel))

    @property
    def channels_last(self) -> bool:
        return self.axes.channels_last

    @property
    def params(self) -> tuple[tuple[int, ...], ...]:
        """kernel, stride, pad and dilate, one entry per axis each."""
        rank = self.axes.rank
        return (per_axis(self.kernel, rank, "kernel", 1, 1),
                per_axis(self.stride, rank, "stride", 1, 1),
                per_axis(self.pad, rank, "pad", 0, 0),
                per_axis(self.dilate, rank, "dilate", 1, 1))

    def check_groups(self, data: tuple[int, ...], channels: int) -> None:
        """ShapeMismatch unless the groups divide channels and filters."""
        for name, value in (("num_filter", self.num_filter), ("num_group", self.num_group)):
            if value < 1:
                raise ShapeMismatch(f"{name} is {value}, expected at least 1")
        if channels % self.num_group:
            raise ShapeMismatch(f"num_group is {self.num_group}, which does not divide the "
                                f"{channels} channels of data {data}")
        if self.num_filter % self.num_group:
            raise ShapeMismatch(f"num_group is {self.num_group}, which does not divide num_filter "
                                f"{self.num_filter}")

    def expect_parameters(self, ins: Shapes, weight: tuple[int, ...]) -> Shapes:
        """Shapes of all inputs, of which the first is known."""
        shapes = [ins[0], expect("weight", ins[1], weight, ins[0])]
        return shapes + [expect("bias", bias, (self.num_filter,), ins[0]) for bias in ins[2:]]

    def geometry(self, data: Any) -> Geometry:
        """The convolution, for data (N, C, *image), an array or a Spec."""
        return _geometry(self, data.shape)

    def geometry_of(self, data: Shape) -> Geometry:
        """`geometry`, for data of a shape."""
        raise NotImplementedError

    def _choices(self, data: Any, *directions: Direction) -> list[Choice]:
        geo = self.geometry(data)
        return [fastest(geo, direction, data.dtype) for direction in directions]

    def estimate(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Estimate:
        return _sum(self._choices(ins[0], self.direction))

    def backward_estimate(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Estimate:
        return _sum(self._choices(ins[1], self.adjoint, "weight"))

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._choices(ins[0], self.direction)[0].workspace

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        adjoint, weight = self._choices(ins[1], self.adjoint, "weight")
        return adjoint.workspace + weight.workspace

    def _sides(self, data: Any, out: Any) -> tuple[Any, Any]:
        """x and y of the convolution."""
        return (data, out) if self.direction == "forward" else (out, data)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        x, y = self._sides(ins[0], outs[0])
        return convolve(self.geometry(ins[0]), self.direction, x, ins[1], y,
                        None if self.no_bias else ins[2], call.scratch)

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        (out_grad, data, w), geo, runs = ins, self.geometry(ins[1]), list[Run]()
        first = len(fastest(geo, self.adjoint, data.dtype).workspace)
        if outs[0] is not None:
            x, y = self._sides(outs[0], out_grad)
            runs.append(convolve(geo, self.adjoint, x, w, y, None, call.scratch[:first]))
        if outs[1] is not None:
            x, y = self._sides(data, out_grad)
            runs.append(convolve(geo, "weight", x, outs[1], y, None, call.scratch[first:]))
        if len(outs) > 2 and outs[2] is not None:
            runs.append(bias_gradient(out_grad, outs[2]))
        return all_of(runs)


@lru_cache(maxsize=1024)
def _geometry(op: FilterOp, data: Shape) -> Geometry:
    return op.geometry_of(data)


def _sum(parts: list[Choice]) -> Estimate:
    return Estimate(sum(part.cost for part in parts), parts=parts)


@dataclass(frozen=True, kw_only=True)
class ConvolutionParameters:
    """Parameters of Convolution, of floats and of 8-bit integers."""

    kernel: Shape
    stride: Shape = ()
    dilate: Shape = ()
    pad: Shape = ()
    num_filter: int
    num_group: int = 1
    workspace: int = 1024
    no_bias: bool = False
    cudnn_tune: Tune | None = None
    cudnn_off: bool = False
    layout: LayoutName | None = None


@dataclass(frozen=True, kw_only=True)
class Convolution(ConvolutionParameters, FilterOp, name="Convolution"):
    """Sliding products of `data` with `num_filter` filters.

    data (N, C, *image), weight (F, C / G, *kernel), bias (F,) -> (N, F, *out), where
    out = (image + 2 pad - dilate (kernel - 1) - 1) // stride + 1.  The length of `kernel` (1 to 3)
    is the number of image axes.  With `num_group` G, filters of group g see channels of group g
    only.  A channels-last layout has data (N, *image, C) and weight (F, *kernel, C / G).
    `workspace`, `cudnn_tune` and `cudnn_off` are accepted and mean nothing.
    """

    bilinear: ClassVar = ("data", "weight")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data, axes, (kernel, stride, pad, dilate) = ins[0], self.axes, self.params
        if data is None:
            return list(ins), list(outs)
        batch, channels, image = axes.split(data)
        self.check_groups(data, channels)
        span = span_of(kernel, dilate)
        size = sliding_size(image, span, stride, pad)
        out = unify(axes.join(batch, self.num_filter, size), outs[0], "computed and wanted output")
        assert out is not None
        # A stride of 1 loses no pixel, so the image follows from the output.
        expected = tuple(o + s - 1 - 2 * p if step == 1 and o else 0 for o, s, p, step
                         in zip(axes.split(out)[2], span, pad, stride, strict=True))
        data = unify(data, axes.join(out[0], 0, expected), "given data and that of the output")
        weight = axes.join(self.num_filter, channels // self.num_group, kernel)
        return self.expect_parameters([data, *ins[1:]], weight), [out]

    def geometry_of(self, data: Shape) -> Geometry:
        kernel, stride, pad, dilate = self.params
        batch, channels, *image = data
        out = sliding_size(image, span_of(kernel, dilate), stride, pad)
        window = Window.over(image, out, kernel, stride, pad, dilate)
        return Geometry(window, batch, channels, self.num_filter, self.num_group)


class ConvolutionV1(Convolution, name="Convolution_v1"):
    """The name of Convolution before MXNet 0.9, kept in old files; real MXNet knows 2-D only."""

    shapes: ClassVar = "those of Convolution"
