"""Convolution, and the choice of kernels for its three directions.

    y[n, f, o] = bias[f] + sum over c, k of w[f, c, k] x[n, c, o * stride - pad + k * dilate]

`fastest` selects the algorithm of each direction separately, by least estimated cost.  Each
algorithm is a module with functions `cost`, `workspace` and `prepare`.  A cost includes waste:
empty lanes, taps that see padding, copies, tables.  It is in single-thread nanoseconds on a core
with 32-byte vectors; the constants were fitted to random shapes (`bench.sweep`), and only their
ratios matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import isfinite
from operator import attrgetter
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from ..op import Call, Run, Spec, all_of
from ..param import Shape
from ..shape import ShapeMismatch, Shapes, unify
from . import conv_gemm
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

__all__ = ["Algorithm", "Convolution", "ConvolutionV1", "Directions", "FilterOp",
           "algorithms", "bias_gradient", "fastest"]

Tune = Literal["fastest", "limited_workspace", "off"]
LayoutName = Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC"]


class AlgorithmKernels(Protocol):
    """A module with the kernels of an algorithm."""

    __name__: str

    def cost(self, geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
        """Estimated single-thread nanoseconds; infinity where the algorithm does not apply."""

    def workspace(self, geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
        """Temporary arrays."""

    def prepare(self, geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
                scratch: Sequence[Any]) -> Run:
        """See `Algorithm.prepare`."""


class Algorithm(NamedTuple):
    """The module with the kernels of a direction, the geometry passed to them, and the estimated
    single-thread nanoseconds."""

    module: AlgorithmKernels
    geo: Geometry
    cost: float

    def __str__(self) -> str:
        name = self.module.__name__.rpartition(".")[2]
        return f"{name}: {f'{self.cost:,.0f} ns' if isfinite(self.cost) else 'does not apply'}"

    def workspace(self, direction: Direction, dtype: Any) -> list[Spec]:
        return self.module.workspace(self.geo, direction, np.dtype(dtype))

    def prepare(self, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
                workspace: Sequence[Any]) -> Run:
        """A function that computes y, or the gradient x of the data, or w of the weight; bias (of
        either of the first two) may be None."""
        geo, window = self.geo, self.geo.window
        x = x.reshape(geo.images, geo.channels, *window.image)
        w = w.reshape(geo.filters, geo.group_channels, *window.kernel)
        y = y.reshape(geo.images, geo.filters, *window.out)
        return self.module.prepare(geo, direction, x, w, y, bias, workspace)


@lru_cache(maxsize=1024)
def algorithms(geo: Geometry, direction: Direction, dtype: np.dtype) -> tuple[Algorithm, ...]:
    """All algorithms, over the geometry as given and squeezed: the chosen one, of least estimated
    cost, then the others."""
    found = [Algorithm(module, each, module.cost(each, direction, dtype))
             for each in dict.fromkeys((geo, geo.squeezed)) for module in _modules()]
    return tuple(sorted(found, key=attrgetter("cost")))


def fastest(geo: Geometry, direction: Direction, dtype: np.dtype) -> Algorithm:
    """The algorithm of least estimated cost."""
    return algorithms(geo, direction, dtype)[0]


@dataclass(frozen=True)
class Directions:
    """The three directions of a convolution: workspace and function of each."""

    geo: Geometry

    def workspace(self, direction: Direction, dtype: Any) -> list[Spec]:
        return fastest(self.geo, direction, np.dtype(dtype)).workspace(direction, dtype)

    def forward(self, x: Any, w: Any, bias: Any, y: Any, scratch: Sequence[Any]) -> Run:
        """A function that computes y = convolution of x with w, plus bias if given."""
        algorithm = fastest(self.geo, "forward", x.dtype)
        return algorithm.prepare("forward", x, w, y, bias, scratch)

    def data(self, gy: Any, w: Any, bias: Any, gx: Any, scratch: Sequence[Any]) -> Run:
        """A function that computes gx, the gradient of the data, plus bias if given."""
        algorithm = fastest(self.geo, "data", gy.dtype)
        if bias is None or algorithm.geo.channels == self.geo.channels:
            return algorithm.prepare("data", gx, w, gy, bias, scratch)
        # Squeezing turned pixels into channels, but bias has one element per original channel.
        planes = gx.reshape(self.geo.images, self.geo.channels, -1)
        return all_of([algorithm.prepare("data", gx, w, gy, None, scratch),
                       partial(np.add, planes, bias[:, None], out=planes)])

    def weight(self, x: Any, gy: Any, gw: Any, scratch: Sequence[Any]) -> Run:
        """A function that computes gw, the gradient of the weight."""
        return fastest(self.geo, "weight", x.dtype).prepare("weight", x, gw, gy, None, scratch)


@cache
def _modules() -> tuple[AlgorithmKernels, ...]:
    """All algorithms; some are imported at the first bind, as they query LLVM for the host."""
    from ..blocked import direct
    from . import (
        conv_exchanged,
        conv_im2col,
        conv_interleaved,
        conv_lowered,
        conv_shifted,
        pointwise,
    )

    return (conv_gemm, pointwise, direct, conv_shifted, conv_im2col, conv_lowered,
            conv_interleaved, conv_exchanged)


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
        found = [ins[0], expect("weight", ins[1], weight, ins[0])]
        return found + [expect("bias", bias, (self.num_filter,), ins[0]) for bias in ins[2:]]

    def directions(self, data: Any) -> Directions:
        """The convolution, for data (N, C, *image), an array or a Spec."""
        raise NotImplementedError

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self.directions(ins[0]).workspace(self.direction, ins[0].dtype)

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        directions, dtype = self.directions(ins[1]), ins[1].dtype
        return directions.workspace(self.adjoint, dtype) + directions.workspace("weight", dtype)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        bias = None if self.no_bias else ins[2]
        convolve = getattr(self.directions(ins[0]), self.direction)
        return convolve(ins[0], ins[1], bias, outs[0], call.scratch)

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        gy, x, w = ins
        directions, runs = self.directions(x), []
        first = len(directions.workspace(self.adjoint, x.dtype))
        if outs[0] is not None:
            convolve = getattr(directions, self.adjoint)
            runs.append(convolve(gy, w, None, outs[0], call.scratch[:first]))
        if outs[1] is not None:
            pair = (x, gy) if self.direction == "forward" else (gy, x)
            runs.append(directions.weight(*pair, outs[1], call.scratch[first:]))
        if len(outs) > 2 and outs[2] is not None:
            runs.append(bias_gradient(gy, outs[2]))
        return all_of(runs)


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
        wanted = tuple(o + s - 1 - 2 * p if step == 1 and o else 0 for o, s, p, step
                       in zip(axes.split(out)[2], span, pad, stride, strict=True))
        data = unify(data, axes.join(out[0], 0, wanted), "given data and that of the output")
        weight = axes.join(self.num_filter, channels // self.num_group, kernel)
        return self.expect_parameters([data, *ins[1:]], weight), [out]

    def directions(self, data: Any) -> Directions:
        kernel, stride, pad, dilate = self.params
        batch, channels, *image = data.shape
        out = sliding_size(image, span_of(kernel, dilate), stride, pad)
        window = Window.over(image, out, kernel, stride, pad, dilate)
        return Directions(Geometry(window, batch, channels, self.num_filter, self.num_group))


class ConvolutionV1(Convolution, name="Convolution_v1"):
    """The name of Convolution before MXNet 0.9, kept in old files; real MXNet knows 2-D only."""

    shapes: ClassVar = "those of Convolution"
