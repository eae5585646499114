"""Deconvolution: transposed convolution.

The output is the gradient of the data of a convolution, and the gradient of the data is that
convolution.  The geometry is that convolution's: its image is the output here, its filters are the
channels, so the weight has the same shape and meaning in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..param import Shape
from ..shape import ShapeMismatch, Shapes
from .convolution import FilterOp, LayoutName, Tune
from .sliding_window import Direction, Geometry, Window, expect, per_axis, span_of

__all__ = ["Deconvolution"]


@dataclass(frozen=True, kw_only=True)
class Deconvolution(FilterOp, name="Deconvolution"):
    """Every pixel of `data` adds a multiple of a filter to the output.

    data (N, C, *image), weight (C, F / G, *kernel), bias (F,) -> (N, F, *out), where
    out = (image - 1) stride + dilate (kernel - 1) + 1 - 2 pad + adj.  `target_shape` names out
    itself; `pad` and `adj` then follow from it and those given do not count.  There is no bias
    unless `no_bias` is False.  `workspace`, `cudnn_tune` and `cudnn_off` are accepted and mean
    nothing.  (Real MXNet cannot run every `target_shape` in float32, nor 3-D in float64.)
    """

    kernel: Shape
    stride: Shape = ()
    dilate: Shape = ()
    pad: Shape = ()
    adj: Shape = ()
    target_shape: Shape = ()
    num_filter: int
    num_group: int = 1
    workspace: int = 512
    no_bias: bool = True
    cudnn_tune: Tune | None = None
    cudnn_off: bool = False
    layout: LayoutName | None = None

    bilinear: ClassVar = ("data", "weight")
    direction: ClassVar[Direction] = "data"
    adjoint: ClassVar[Direction] = "forward"

    def out_and_pad(self, image: Sequence[int]) -> tuple[Shape, Shape]:
        """(out, pad) for an image; out is 0 where the image size is 0, that is unknown."""
        kernel, stride, pad, dilate = self.params
        whole = tuple((size - 1) * step + span if size else 0 for size, step, span
                       in zip(image, stride, span_of(kernel, dilate), strict=True))
        if any(self.target_shape):
            return self._reach_target(whole, stride)
        adj = per_axis(self.adj, len(kernel), "adj", 0, 0)
        _check_adj(adj, stride)
        out = tuple(full - 2 * p + a if full else 0
                    for full, p, a in zip(whole, pad, adj, strict=True))
        if any(full and size < 1 for full, size in zip(whole, out, strict=True)):
            raise ShapeMismatch(f"pad {pad} leaves nothing of the output {whole} that image "
                                f"{tuple(image)} gives")
        return out, pad

    def _reach_target(self, whole: Shape, stride: Shape) -> tuple[Shape, Shape]:
        target = per_axis(self.target_shape, len(whole), "target_shape", 1, 1)
        surplus = tuple(full - size if full else 0
                        for full, size in zip(whole, target, strict=True))
        if min(surplus) < 0:
            raise ShapeMismatch(f"target_shape is {target}, expected at most {whole}")
        _check_adj(tuple(extra % 2 for extra in surplus), stride)
        return target, tuple((extra + 1) // 2 for extra in surplus)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data, axes = ins[0], self.axes
        if data is None:
            return list(ins), list(outs)
        batch, channels, image = axes.split(data)
        self.check_groups(data, channels)
        out = expect("the output", outs[0],
                     axes.join(batch, self.num_filter, self.out_and_pad(image)[0]), data)
        weight = axes.join(channels, self.num_filter // self.num_group, self.params[0])
        return self.expect_parameters(ins, weight), [out]

    def geometry_of(self, data: Shape) -> Geometry:
        kernel, stride, _, dilate = self.params
        batch, channels, *image = data
        out, pad = self.out_and_pad(image)
        window = Window.over(out, image, kernel, stride, pad, dilate)
        return Geometry(window, batch, self.num_filter, channels, self.num_group)


def _check_adj(adj: Shape, stride: Shape) -> None:
    if any(a >= step for a, step in zip(adj, stride, strict=True)):
        raise ShapeMismatch(f"adj is {adj}, expected less than stride {stride}")
