"""Anchors and decoded boxes, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.cuda.lib.kernel_math import MATH, maximum, minimum, real_of
from ....ops.cuda.runtime.launch import Launch, cache, each, grid_stride
from ....ops.dispatch import implements
from ..proposals import DecodeBBox, GenAnchor, _base_anchors

exp = MATH["exp"]


@cache
def _anchor_kernel(base: tuple[float, ...], width: int, stride: int) -> Any:
    """The anchors (H W A, 4) from those of the first position."""
    count = len(base)

    @grid_stride
    def set_anchors(i, out):
        place = i // count
        shift = place // width if i % 2 else place % width
        out[i] = np.float32(base[i % count] + np.float64(shift * stride))
    return set_anchors


def _anchors(op: GenAnchor, ins: Any, outs: Any, call: Any) -> list[Launch]:
    base = _base_anchors(op.feature_stride, op.scales, op.ratios, False)
    kernel = _anchor_kernel(tuple(base.reshape(-1).tolist()), ins[0].shape[3], op.feature_stride)
    return each(kernel, outs[0].size, outs[0])


@cache
def _decode_kernel(real: Any, mean: tuple[Any, ...], std: tuple[Any, ...], by_center: bool) -> Any:
    """Ends of boxes along one axis: an element for each axis of each box of `kinds` a region."""
    half, one = real(0.5), real(1)

    @grid_stride
    def decode(i, rois, offsets, info, out, regions, kinds, columns, skipped):
        axis, r = i % 2, i // (2 * kinds)
        at = r * columns + (i // 2 % kinds + skipped) * 4 + axis
        last = real(info[r // regions * 3 + 1 - axis]) - one
        low, high = real(rois[r * 4 + axis]), real(rois[r * 4 + 2 + axis])
        first = real(offsets[at]) * std[axis] + mean[axis]
        second = real(offsets[at + 2]) * std[axis + 2] + mean[axis + 2]
        size = high - low + one
        if by_center:
            center = first * size + low + half * (size - one)
            reach = half * (real(exp(second)) * size - one)
            low, high = center - reach, center + reach
        else:
            low, high = low + first * size, high + second * size
        to = i // 2 * 4 + axis
        out[to] = maximum(minimum(low, last), real(0))
        out[to + 2] = maximum(minimum(high, last), real(0))
    return decode


def _decode(op: DecodeBBox, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (rois, offsets, info), real = ins, real_of(ins[0].dtype)
    regions, columns = offsets.shape[1:]
    kinds = 1 if op.class_agnostic else columns // 4
    mean, std = (tuple(map(real, each)) for each in (op.bbox_mean, op.bbox_std))
    kernel = _decode_kernel(real, mean, std, op.bbox_decode_type == "xywh")
    return each(kernel, outs[0].size // 2, rois, offsets, info, outs[0], regions, kinds, columns,
                int(op.class_agnostic))


implements(GenAnchor, "cuda", _anchors)
implements(DecodeBBox, "cuda", _decode)
