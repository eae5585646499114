"""The operators of SSD (Liu et al., 2016): anchors, training targets, and detections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...detection.multibox import LEAST_OVERLAP, MultiBoxDetection, MultiBoxPrior, MultiBoxTarget
from ...dispatch import implements
from ...elementwise.float_op import as_float32
from ...op import Call, Spec
from ..lib.block_reduce import BLOCK_SIZE, arg_reduce_function, block_stride, each_block, sum_kernel
from ..lib.fill import fill
from ..lib.kernel_math import MATH, maximum, minimum, real_of
from ..lib.merge_sort import ascending, descending, sort_rows, sort_scratch
from ..runtime.device_memory import Array, Arrays, or_scratch
from ..runtime.launch import CudaKernel, Launch, cache, cuda, device_function, each, grid_stride
from ..tensor.cumulative import running_sums
from .nms import INT32, Boxes, Rule, corners_function, iou, suppress, suppress_scratch

exp, log = MATH["exp"], MATH["log"]

COLUMNS = 6
"""Columns of a detection: class, probability, corners."""

# -- MultiBoxPrior ------------------------------------------------------------------------------


@cache
def _prior_kernel(across: tuple[Any, ...], down: tuple[Any, ...], clip: bool) -> CudaKernel:
    """Boxes centered on pixels, computed in float32, from half widths and heights."""
    kinds, real = len(across), np.float32

    @device_function
    def edge(middle, reach):
        at = middle + reach
        return minimum(maximum(at, real(0)), real(1)) if clip else at

    @grid_stride(exact=True)
    def priors(i, y, width, step_y, step_x, offset_y, offset_x):
        kind, column, row, to = i % kinds, i // kinds % width, i // (kinds * width), i * 4
        middle_x = (real(column) + offset_x) * step_x
        middle_y = (real(row) + offset_y) * step_y
        y[to], y[to + 1] = edge(middle_x, -across[kind]), edge(middle_y, -down[kind])
        y[to + 2], y[to + 3] = edge(middle_x, across[kind]), edge(middle_y, down[kind])
    return priors


def _prior(op: MultiBoxPrior, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    height, width = ins[0].shape[2:]
    steps, across, down = op.extents(height, width)
    kernel = _prior_kernel(tuple(across), tuple(down), op.clip)
    return each(kernel, outs[0].size // 4, outs[0], width, *steps, *map(np.float32, op.offsets))


implements(MultiBoxPrior, "cuda", _prior)


# -- MultiBoxTarget: matching ---------------------------------------------------------------------


@grid_stride
def _count_valid(image, label, valid, boxes, width):
    """The number of labels of an image before the first of class -1."""
    count = 0
    while count < boxes and label[(image * boxes + count) * width] != -1:
        count += 1
    valid[image] = count


@cache
def _best_function(real: type[np.floating]) -> Callable:
    """best(anchors, box, match, first, total): the largest IoU of a box with an unmatched anchor,
    and its index, by all threads of a block."""
    corners, arg_max = corners_function(real, False), arg_reduce_function(real)

    @device_function
    def best(anchors, box, match, first, total):
        most, which = real(0), np.int32(-1)
        for i in range(cuda.threadIdx.x, total, BLOCK_SIZE):
            share = iou(corners(anchors, i * 4), box, real(0))
            if share > most and match[first + i] < 0:
                most, which = share, np.int32(i)
        return arg_max(most, which)
    return best


@cache
def _best_anchor_kernel(real: type[np.floating]) -> CudaKernel:
    """The best anchor of every label: a block each."""
    best, corners = _best_function(real), corners_function(real, False)

    @block_stride(exact=True)
    def find_best_anchors(segment, anchors, label, valid, match, overlap, partner, total, boxes,
                          width):
        image = segment // boxes
        if segment % boxes < valid[image]:
            box = corners(label, segment * width + 1)
            most, which = best(anchors, box, match, image * total, total)
            if cuda.threadIdx.x == 0:
                overlap[segment], partner[segment] = most, which
    return find_best_anchors


@device_function
def _best_pair(overlap, partner, first, last):
    """The label with the largest overlap, which is matched next."""
    top = first
    for g in range(first + 1, last):
        more = overlap[g] > overlap[top]
        if more or (overlap[g] == overlap[top] and partner[g] < partner[top]):
            top = g
    return top


@cache
def _bipartite_kernel(real: type[np.floating]) -> CudaKernel:
    """Bipartite matching of labels and anchors, the best pair first: a block per image."""
    best, corners, least = (_best_function(real), corners_function(real, False),
                            real(LEAST_OVERLAP))

    @block_stride(exact=True)
    def match_bipartite(image, anchors, label, valid, match, overlap, partner, total, boxes, width):
        tid = cuda.threadIdx.x
        first, start, turns = image * boxes, image * total, valid[image]
        last = first + turns
        while turns > 0:
            top = _best_pair(overlap, partner, first, last)
            anchor = partner[top]
            turns = turns - 1 if overlap[top] > least else -1
            cuda.syncthreads()
            if turns >= 0 and tid == 0:
                match[start + anchor] = top - first
                overlap[top] = real(-1)
            cuda.syncthreads()
            for g in range(first, last):
                if turns > 0 and overlap[g] > real(0) and partner[g] == anchor:
                    most, which = best(anchors, corners(label, g * width + 1), match, start,
                                       total)
                    if tid == 0:
                        overlap[g], partner[g] = most, which
            cuda.syncthreads()
    return match_bipartite


@cache
def _background_function(real: type[np.floating]) -> Callable:
    """background(scores, at, classes, step): the probability of class 0."""
    @device_function
    def background(scores, at, classes, step):
        top, total = real(scores[at]), real(0)
        for c in range(1, classes):
            value = real(scores[at + c * step])
            top = value if value > top else top
        for c in range(classes):
            total += exp(real(scores[at + c * step]) - top)
        return exp(real(scores[at]) - top) / total
    return background


@cache
def _threshold_kernel(real: type[np.floating], least: np.floating, largest: np.floating
                      ) -> CudaKernel:
    """Match the remaining anchors whose overlap with a label exceeds `least`.  `chance`: the
    background probability of candidates for negatives, whose overlap is below `largest`; else
    NaN."""
    corners, background = corners_function(real, False), _background_function(real)

    @grid_stride(exact=True)
    def match_by_threshold(e, anchors, label, scores, valid, match, chance, total, boxes, width,
                           classes):
        image, i = e // total, e % total
        anchor, most, which, index = corners(anchors, i * 4), real(-1), -1, match[e]
        for g in range(valid[image]):
            share = iou(anchor, corners(label, (image * boxes + g) * width + 1), real(0))
            if share > most:
                most, which = share, g
        if index < 0 and least > real(0) and most > least:
            index = which
        match[e], chance[e] = index, real(np.nan)
        if index < 0 and most < largest and valid[image] > 0:
            chance[e] = background(scores, image * classes * total + i, classes, total)
    return match_by_threshold


# -- MultiBoxTarget: targets ----------------------------------------------------------------------


@cache
def _target_kernel(real: type[np.floating], variances: tuple[Any, ...], ignored: np.floating,
                   rest: np.floating) -> CudaKernel:
    """Offsets and class of every matched anchor; `rest` is the class of the others."""
    corners, half, (v0, v1, v2, v3) = corners_function(real, False), real(0.5), variances

    @device_function
    def shift(low, high, first, last, variance):
        return ((low + high) * half - (first + last) * half) / (last - first) / variance

    @device_function
    def growth(low, high, first, last, variance):
        return log((high - low) / (last - first)) / variance

    @grid_stride(exact=True)
    def write_targets(e, anchors, label, valid, match, location, mask, classes, total, boxes,
                      width):
        image, to, index = e // total, e * 4, match[e]
        dx, dy, dw, dh, here = real(0), real(0), real(0), real(0), real(0)
        kind = rest if valid[image] > 0 else ignored
        if index >= 0:
            at = (image * boxes + index) * width
            left, top, right, bottom = corners(label, at + 1)
            a, b, c, d = corners(anchors, e % total * 4)
            dx, dy = shift(left, right, a, c, v0), shift(top, bottom, b, d, v1)
            dw, dh = growth(left, right, a, c, v2), growth(top, bottom, b, d, v3)
            here, kind = real(1), real(label[at]) + real(1)
        location[to], location[to + 1], location[to + 2], location[to + 3] = dx, dy, dw, dh
        mask[to], mask[to + 1], mask[to + 2], mask[to + 3] = here, here, here, here
        classes[e] = kind
    return write_targets


@cache
def _matched_kernel(total: int) -> CudaKernel:
    """The number of matched anchors of an image."""
    return sum_kernel(lambda match, image, i, images: (
        np.int32(1) if match[image * total + i] >= 0 else np.int32(0)), np.int32)


@cache
def _negative_kernel(real: type[np.floating]) -> CudaKernel:
    """Hard negative mining: the unmatched anchors with the lowest background probability are
    negatives, `ratio` times as many as are matched."""
    @grid_stride
    def write_negatives(e, chance, where, positive, classes, ratio, total):
        image, k = e // total, e % total
        if chance[e] == chance[e] and np.float64(k + 1) <= np.float64(positive[image]) * ratio:
            classes[image * total + where[e]] = real(0)
    return write_negatives


def _matching(anchors: Array, label: Array, state: Arrays) -> list[Launch]:
    """Launches that match labels with anchors."""
    valid, match, _, overlap, partner = state
    (images, boxes, width), total, real = label.shape, anchors.shape[1], real_of(anchors.dtype)
    args = (anchors, label, valid, match, overlap, partner, total, boxes, width)
    return [*fill(match, -1), *each(_count_valid, images, label, valid, boxes, width),
            *each_block(_best_anchor_kernel(real), images * boxes, *args),
            *each_block(_bipartite_kernel(real), images, *args)]


def _target(op: MultiBoxTarget, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    anchors, label, scores = ins
    targets = or_scratch(outs, call.scratch)
    (images, boxes, width), total, real = label.shape, anchors.shape[1], real_of(anchors.dtype)
    valid, match, chance, *_ = state = call.scratch[3:8]
    ratio, mines = as_float32(op.negative_mining_ratio), op.negative_mining_ratio > 0
    least, largest, ignored, *variances = (real(as_float32(n)) for n in (
        op.overlap_threshold, op.negative_mining_thresh if mines else -2, op.ignore_label,
        *op.variances))
    write = _target_kernel(real, tuple(variances), ignored, ignored if mines else real(0))
    launches = [*_matching(anchors, label, state), *each(
        _threshold_kernel(real, least, largest), images * total, anchors, label, scores, valid,
        match, chance, total, boxes, width, scores.shape[1])]
    launches += each(write, images * total, anchors, label, valid, match, *targets, total, boxes,
                     width)
    if mines:
        positive, *scratch = call.scratch[8:]
        sorting, order = sort_rows(ascending, chance, (images, total), (total, 0), scratch)
        launches += [*each_block(_matched_kernel(total), images, match, positive, total, False),
                     *sorting, *each(_negative_kernel(real), images * total, *order, positive,
                                     targets[2], ratio, total)]
    return launches


def _target_scratch(op: MultiBoxTarget, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    images, boxes, _ = ins[1].shape
    total, real = ins[0].shape[1], np.dtype(real_of(ins[0].dtype))
    return [*outs, Spec((images,), INT32), Spec((images, total), INT32),
            Spec((images, total), real), Spec((images, boxes), real), Spec((images, boxes), INT32),
            Spec((images,), INT32), *sort_scratch(images, total, real)]


implements(MultiBoxTarget, "cuda", _target, scratch=_target_scratch)


# -- MultiBoxDetection --------------------------------------------------------------------------


@cache
def _classify_kernel(real: type[np.floating]) -> CudaKernel:
    """The most probable class of every anchor, not counting background; -1, with `enough` 0 rather
    than 1, if it is below the threshold."""
    @grid_stride
    def classify(e, chances, which, enough, threshold, classes, total):
        at = e // total * classes * total + e % total
        most, kind = real(-1), -1
        for c in range(1, classes):
            value = real(chances[at + c * total])
            if value > most:
                most, kind = value, c - 1
        kind = kind if most >= threshold else -1
        which[e] = kind
        enough[e] = 1 if kind >= 0 else 0
    return classify


@cache
def _moved_function(real: type[np.floating], clip: bool) -> Callable:
    half = real(0.5)

    @device_function
    def moved(low, high, shift, growth):
        """Start and end of an anchor along an axis, transformed by the predicted offsets."""
        size = high - low
        middle, reach = shift * size + (low + high) * half, exp(growth) * size * half
        first, last = middle - reach, middle + reach
        if clip:
            first = minimum(maximum(first, real(0)), real(1))
            last = minimum(maximum(last, real(0)), real(1))
        return first, last
    return moved


@cache
def _row_kernel(real: type[np.floating], variances: tuple[Any, ...], clip: bool) -> CudaKernel:
    """Compact the rows of anchors with a class, and their scores; the rest is -1 and NaN.
    `positions` is the inclusive scan of `enough`."""
    moved, corners = _moved_function(real, clip), corners_function(real, False)
    v0, v1, v2, v3 = variances

    @grid_stride(exact=True)
    def write_rows(e, chances, offsets, anchors, which, positions, rows, score, classes, total):
        image, i, kind = e // total, e % total, which[e]
        if i >= positions[image * total + total - 1]:
            score[e] = real(np.nan)
            for c in range(COLUMNS):
                rows[e * COLUMNS + c] = real(-1)
        if kind >= 0:
            slot = image * total + positions[e] - 1
            to = slot * COLUMNS
            left, top, right, bottom = corners(anchors, i * 4)
            dx, dy, dw, dh = corners(offsets, e * 4)
            rows[to], score[slot] = real(kind), real(
                chances[(image * classes + kind + 1) * total + i])
            rows[to + 1] = score[slot]
            rows[to + 2], rows[to + 4] = moved(left, right, dx * v0, dw * v2)
            rows[to + 3], rows[to + 5] = moved(top, bottom, dy * v1, dh * v3)
    return write_rows


@cache
def _finish_kernel(real: type[np.floating]) -> CudaKernel:
    """Rows in sorted order, with class -1 for now."""

    @grid_stride
    def finish(e, rows, order, eligible, y, total):
        image, k = e // total, e % total
        source = image * total + (order[e] if k < eligible[image] else k)
        y[e * COLUMNS] = real(-1)
        for c in range(1, COLUMNS):
            y[e * COLUMNS + c] = rows[source * COLUMNS + c]
    return finish


@grid_stride
def _write_classes(e, rows, order, positions, counts, y, total, size):
    """Write the class of kept rows."""
    image = e // size
    if e % size < counts[image]:
        to = image * total + positions[e]
        y[to * COLUMNS] = rows[(image * total + order[to]) * COLUMNS]


def _detect(op: MultiBoxDetection, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (chances, offsets, anchors), y = ins, outs[0]
    images, classes, total = chances.shape
    which, positions, rows, score, *scratch = call.scratch
    real, suppresses, size = real_of(y.dtype), 0 < op.nms_threshold <= 1, op._sorted(total)
    write = _row_kernel(real, tuple(real(as_float32(n)) for n in op.variances), op.clip)
    launches = [
        *each(_classify_kernel(real), images * total, chances, which, positions,
              real(as_float32(op.threshold)), classes, total),
        *running_sums(positions, positions, (images, total, 1)),
        *each(write, images * total, chances, offsets, anchors, which, positions,
              rows if suppresses else y, score, classes, total)]
    if not suppresses:
        return launches
    sorting, order = sort_rows(descending, score, (images, total), (total, 0), scratch[6:])
    rule = Rule(size, op.least_overlap(real))
    finding, nms = suppress(Boxes(rows, 2, -1 if op.force_suppress else 0), order, rule, scratch)
    return [*launches, *sorting, *finding,
            *each(_finish_kernel(real), images * total, rows, order.where, nms.eligible, y, total),
            *each(_write_classes, images * size, rows, order.where, nms.positions, nms.counts, y,
                  total, size)]


def _detect_scratch(op: MultiBoxDetection, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    images, _, total = ins[0].shape
    real = np.dtype(real_of(ins[0].dtype))
    return [*[Spec((images, total), INT32)] * 2, Spec((images, total, COLUMNS), real),
            Spec((images, total), real), *suppress_scratch(images, op._sorted(total), real),
            *sort_scratch(images, total, real)]


implements(MultiBoxDetection, "cuda", _detect, scratch=_detect_scratch)
