"""Region proposals: a thread per anchor and position, then sorting and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...detection.proposal import MultiProposal
from ...dispatch import implements
from ...elementwise.float_op import as_float32
from ...op import Call, Spec
from ..lib.kernel_math import MATH, maximum, minimum, real_of
from ..lib.merge_sort import descending, sort_rows, sort_scratch
from ..runtime.device_memory import Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .nms import Boxes, Rule, suppress, suppress_scratch

exp = MATH["exp"]


@cache
def _anchor_kernel(anchors: tuple[Any, ...]) -> CudaKernel:
    """Writes the anchors of the first position, (A, 4)."""
    @grid_stride
    def set_anchors(i, corners):
        corners[i] = anchors[i]
    return set_anchors


@cache
def _moved_function(real: type[np.floating], plain: bool) -> Callable:
    """moved(low, high, at, size, limit): an anchor's ends along an axis, transformed by the
    predicted center and size (or ends, if `plain`) and clipped to the image."""
    none, half, one = real(0), real(0.5), real(1)

    @device_function
    def moved(low, high, at, size, limit):
        if plain:
            low, high = low + at, high + size
        else:
            length = high - low + one
            middle = at * length + low + half * (length - one)
            reach = half * (real(exp(size)) * length - one)
            low, high = middle - reach, middle + reach
        last = limit - one
        return maximum(minimum(low, last), none), maximum(minimum(high, last), none)
    return moved


@cache
def _propose_kernel(shape: tuple[int, ...], plain: bool, real: type[np.floating]) -> CudaKernel:
    """boxes (N, H W A, 4) and scores (N, H W A); shape: (A, H, W)."""
    (anchors, height, width), moved, half, one = shape, _moved_function(real, plain), real(
        0.5), real(1)
    area = height * width

    @grid_stride(exact=True)
    def propose(i, prob, offsets, info, corners, boxes, scores, stride, least):
        x, y, a = i % width, i // width % height, i // area % anchors
        image = i // (area * anchors)
        right, down = real(x) * stride, real(y) * stride
        image_height, image_width = real(info[image * 3]), real(info[image * 3 + 1])
        at = (image * anchors + a) * 4 * area + i % area
        x0, x1 = moved(corners[a * 4] + right, corners[a * 4 + 2] + right, real(offsets[at]),
                       real(offsets[at + 2 * area]), image_width)
        y0, y1 = moved(corners[a * 4 + 1] + down, corners[a * 4 + 3] + down,
                       real(offsets[at + area]), real(offsets[at + 3 * area]), image_height)
        score = real(prob[(image * 2 * anchors + anchors + a) * area + i % area])
        if y >= np.int32(image_height / stride) or x >= np.int32(image_width / stride):
            score = -one
        size = least * real(info[image * 3 + 2])
        if not (x1 - x0 + one >= size and y1 - y0 + one >= size):
            score, grown = -one, size * half
            x0, y0, x1, y1 = x0 - grown, y0 - grown, x1 + grown, y1 + grown
        to = (image * area + i % area) * anchors + a
        scores[to] = score
        boxes[to * 4], boxes[to * 4 + 1] = x0, y0
        boxes[to * 4 + 2], boxes[to * 4 + 3] = x1, y1
    return propose


@cache
def _take_kernel(real: type[np.floating], scored: bool) -> CudaKernel:
    """The kept boxes, repeated to fill the output."""
    @grid_stride
    def take(i, boxes, scores, where, positions, counts, rois, out, post, size, total):
        image = i // post
        rank = positions[image * size + i % post % counts[image]]
        source = image * total + where[image * total + rank]
        rois[i * 5] = real(image)
        for c in range(4):
            rois[i * 5 + 1 + c] = boxes[source * 4 + c]
        if scored:
            out[i] = scores[source]
    return take


def _forward(op: MultiProposal, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (prob, offsets, info), (rois, out) = ins, outs
    (images, _, height, width), real = prob.shape, real_of(prob.dtype)
    boxes, scores, corners, *scratch = call.scratch
    total, post = boxes.shape[1], op.rpn_post_nms_top_n
    size, shape = op._sorted(total), (len(corners), height, width)
    rule = Rule(size, as_float32(op.threshold), pixel=1, most=post, all_keys=True)
    sorting, order = sort_rows(descending, scores, (images, total), (total, 0), scratch[6:])
    finding, nms = suppress(Boxes(boxes, 0), order, rule, scratch)
    return [
        *each(_anchor_kernel(tuple(op._anchors().astype(real).reshape(-1))), corners.size, corners),
        *each(_propose_kernel(shape, op.iou_loss, real), scores.size, prob, offsets, info, corners,
              boxes, scores, real(op.feature_stride), real(op.rpn_min_size)),
        *sorting, *finding,
        *each(_take_kernel(real, out is not None), images * post, boxes, scores, order.where,
              nms.positions, nms.counts, rois, scores if out is None else out, post, size, total)]


def _scratch(op: MultiProposal, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    (images, channels, height, width), kind = ins[0].shape, np.dtype(real_of(ins[0].dtype))
    total = height * width * channels // 2
    return [Spec((images, total, 4), kind), Spec((images, total), kind),
            Spec((channels // 2, 4), kind),
            *suppress_scratch(images, op._sorted(total), kind), *sort_scratch(images, total, kind)]


implements(MultiProposal, "cuda", _forward, scratch=_scratch)
