"""SimpleDet's ROIAlign: the largest of a few interpolated points of every bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...operator.register_op import register_op
from ...ops.detection.roi import pair
from ...ops.elementwise.float_op import FloatOp, as_float32
from ...ops.jit import inlined, kernel, prange
from ...ops.op import Call, Spec
from ...ops.param import Shape
from ...ops.rules import fill_zero
from ...ops.shape import PartialShape, ShapeMismatch, unify

__all__ = ["ROIAlign_v2"]


@inlined
def _neighbors(at, size, kind):
    """The pixels on both sides of a point, and the weight of the second."""
    low = min(max(int(np.floor(at)), 0), size - 1)
    high = min(max(int(np.ceil(at)), 0), size - 1)
    weight = kind(0.5) if low == high else at - kind(low)
    return low, high, weight


@inlined
def _span(start, step, index, size, kind):
    """Where a bin begins and ends along an axis, and the distance of its points."""
    low = min(max(start + kind(index) * step, kind(0)), kind(size - 1))
    high = min(max(start + kind(index + 1) * step, kind(0)), kind(size - 1))
    return low, high, (high - low) / kind(3)


@kernel(parallel=True)
def _largest(data, rois, scale, y, at_x, at_y):
    """y, at_x, at_y (N R, C, PH, PW); rois (N R, 4)."""
    each = len(rois) // len(data)
    height, width = data.shape[2:]
    kind = y.dtype.type
    one, least = kind(1), kind(0.01)
    for r in prange(len(rois)):
        left, top = rois[r, 0] * scale, rois[r, 1] * scale
        bin_height = (rois[r, 3] * scale - top) / kind(y.shape[2])
        bin_width = (rois[r, 2] * scale - left) / kind(y.shape[3])
        for i in range(y.shape[2]):
            low_v, high_v, step_v = _span(top, bin_height, i, height, kind)
            for j in range(y.shape[3]):
                low_u, high_u, step_u = _span(left, bin_width, j, width, kind)
                for c in range(y.shape[1]):
                    y[r, c, i, j], at_x[r, c, i, j], at_y[r, c, i, j] = 0, -1, -1
                if not (high_v > low_v and high_u > low_u):
                    continue
                first = True
                v = low_v + step_v
                while v <= high_v - step_v + least:
                    v0, v1, share_v = _neighbors(v, height, kind)
                    u = low_u + step_u
                    while u <= high_u - step_u + least:
                        u0, u1, share_u = _neighbors(u, width, kind)
                        for c in range(y.shape[1]):
                            plane = data[r // each, c]
                            value = ((one - share_v) * ((one - share_u) * plane[v0, u0]
                                                        + share_u * plane[v0, u1])
                                     + share_v * ((one - share_u) * plane[v1, u0]
                                                  + share_u * plane[v1, u1]))
                            if first or value > y[r, c, i, j]:
                                y[r, c, i, j], at_x[r, c, i, j], at_y[r, c, i, j] = value, u, v
                        first = False
                        u += max(step_u, least)
                    v += max(step_v, least)


@kernel(parallel=True)
def _scatter(gy, at_x, at_y, gx):
    """The gradient of every maximum to the four pixels around it; one task is a plane of gx."""
    images, channels, height, width = gx.shape
    kind = gx.dtype.type
    each, one = len(gy) // images, kind(1)
    for task in prange(images * channels):
        n, c = task // channels, task % channels
        plane = gx[n, c]
        plane[:] = 0
        for r in range(n * each, (n + 1) * each):
            for i in range(gy.shape[2]):
                for j in range(gy.shape[3]):
                    u, v, g = at_x[r, c, i, j], at_y[r, c, i, j], gy[r, c, i, j]
                    if u < 0 or v < 0:
                        continue
                    v0, v1, share_v = _neighbors(v, height, kind)
                    u0, u1, share_u = _neighbors(u, width, kind)
                    plane[v0, u0] += g * (one - share_v) * (one - share_u)
                    plane[v0, u1] += g * (one - share_v) * share_u
                    plane[v1, u0] += g * share_v * (one - share_u)
                    plane[v1, u1] += g * share_v * share_u


@register_op("_contrib_ROIAlign_v2", aliases=("ROIAlign_v2",))
@dataclass(frozen=True, kw_only=True)
class ROIAlign_v2(FloatOp):  # noqa: N801 - the name of the operator
    """The largest interpolated value in every bin of regions: (N, R, C, PH, PW).

    data (N, C, H, W), rois (N, R, 4): R regions of each image, multiplied by `spatial_scale`.  A
    bin, clipped to the image, has points at one and two thirds of its height and width; an empty
    one is 0.  The gradient goes to the point that was the largest; rois have none.
    """

    pooled_size: Shape
    spatial_scale: float

    inputs: ClassVar = ("data", "rois")
    outputs: ClassVar = ("output", "maxidx_x", "maxidx_y")
    needs: ClassVar = ("ograd", "rois", "maxidx_x", "maxidx_y")
    gpu_module: ClassVar = "nbmod.contrib.simpledet.cuda.roi_align_v2"

    @property
    def num_visible(self) -> int:
        return 1

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        data, rois = ins
        if data is None or rois is None:
            return ins, outs
        if len(data) != 4 or len(rois) != 3:
            raise ShapeMismatch(f"data has shape {data} and rois {rois}, expected (N, C, H, W) and "
                                "(N, R, 4)")
        rois = unify(rois, (data[0], 0, 4), "rois and (N, R, 4)")
        assert rois is not None
        shape = unify((*rois[:2], data[1], *pair(self.pooled_size)), outs[0], "output")
        return [data, rois], [shape] * 3

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [outs[1], outs[2]]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        (data, rois), shape = ins, (-1, *outs[0].shape[2:])
        arrays = [out if out is not None else np.empty_like(outs[0]) for out in outs]
        _largest(data, rois.reshape(-1, 4), data.dtype.type(as_float32(self.spatial_scale)),
                 *(array.reshape(shape) for array in arrays))

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        fill_zero(outs[1:])
        if outs[0] is not None:
            ograd, _, at_x, at_y = ins
            _scatter(*(array.reshape(-1, *array.shape[2:]) for array in (ograd, at_x, at_y)),
                     outs[0])
