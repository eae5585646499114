"""Boxes: intersection over union, non-maximum suppression, encoding relative to anchors, matching.

A box is its corners (left, top, right, bottom) or its center and size (x, y, width, height).
Kernels convert to corners first.  `iou` is shared by all detection operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np

from ..elementwise.float_op import FloatOp, as_float32
from ..jit import inlined, kernel, prange
from ..op import Call, Run, Spec, Types
from ..rules import common_type
from ..shape import ShapeMismatch, Shapes, unify, unify_all
from ..tensor.ordering import INT64, rank_work, ranking

__all__ = ["KEPT_ROWS", "area", "as_corners", "common_area", "iou", "keep", "overlaps_any", "share"]

LEFT, TOP, RIGHT, BOTTOM, AREA, GROUP, KEPT_ROWS = range(7)
"""Rows of the boxes that suppression keeps, and their number."""

Format = Literal["center", "corner"]


# ------------------------------------------------------------------------------------------ kernels

@inlined
def as_corners(box, center):
    """(left, top, right, bottom) of a box, which is a center and a size if `center`."""
    x, y, u, v = box
    if center:
        half = box.dtype.type(0.5)
        width, height = u * half, v * half
        return x - width, y - height, x + width, y + height
    return x, y, u, v


@inlined
def common_area(a, b, pixel):
    """Area of the intersection of two boxes' corners, whose sizes are right - left + `pixel`.

    NaN in b is no limit of it, and it is NaN where an infinite side meets an empty one.
    """
    (left, top, right, bottom), (x0, y0, x1, y1), zero = a, b, pixel - pixel
    width = min(right, x1) - max(left, x0) + pixel
    height = min(bottom, y1) - max(top, y0) + pixel
    return max(zero, width) * max(zero, height)


@inlined
def iou(a, b, zero):
    """Intersection over union of two boxes' corners."""
    (left, top, right, bottom), (x0, y0, x1, y1), common = a, b, common_area(a, b, zero)
    both = (right - left) * (bottom - top) + (x1 - x0) * (y1 - y0) - common
    return common / both if common > zero else zero


@inlined
def share(a, b, areas, zero):
    """Intersection over union of two boxes' corners whose areas add to `areas`."""
    common = common_area(a, b, zero)
    return zero if common <= zero else common / (areas - common)


@inlined
def area(box, center, pixel):
    """Area of a box, which is a center and a size if `center`; 0 if a size is negative."""
    (x, y, u, v), zero = box, pixel - pixel
    width, height = u if center else u - x + pixel, v if center else v - y + pixel
    return zero if width < zero or height < zero else width * height


@inlined
def overlaps_any(box, own, group, survivors, count, threshold, pixel, grouped):
    """Whether `box`, of area `own`, overlaps one of the first `count` columns of `survivors`.

    If `grouped`, only boxes of the same group count.  In chunks of 64, which are vectorised.  No
    overlap is above the threshold if it is NaN, as that of boxes without area.
    """
    left, top, right, bottom = survivors[LEFT], survivors[TOP], survivors[RIGHT], survivors[BOTTOM]
    areas, groups = survivors[AREA], survivors[GROUP]
    for start in range(0, count, 64):
        hits = 0
        for j in range(start, min(start + 64, count)):
            common = common_area((left[j], top[j], right[j], bottom[j]), box, pixel)
            hits += ((common / (areas[j] + own - common) > threshold)
                     & ((groups[j] == group) | (not grouped)))
        if hits:
            return True
    return False


@inlined
def keep(box, own, group, rows, count):
    """Write a box, its area and its group to a column."""
    for c in range(4):
        rows[c, count] = box[c]
    rows[AREA, count], rows[GROUP, count] = own, group


@inlined
def _keep(data, score, order, threshold, columns, center, survivors, where):
    """Greedy NMS of one image: rows kept, in order, then -1; columns: start, class (-1: none)."""
    start, index = columns
    count, pixel = 0, data.dtype.type(0)
    for k in range(order.size):
        i = order[k]
        if np.isnan(score[i]):
            break
        row, group = data[i, start:start + 4], data[i, max(index, 0)]
        box, own = as_corners(row, center), area(row, center, pixel)
        if not overlaps_any(box, own, group, survivors, count, threshold, pixel, index >= 0):
            keep(box, own, group, survivors, count)
            where[count] = i
            count += 1
    for k in range(count, where.size):
        where[k] = -1


@kernel(parallel=True)
def _suppress(data, score, order, threshold, columns, center, survivors, where):
    """where (B, N) of data (B, N, K) with scores (B, N), NaN for excluded rows; order (B, k)."""
    for image in prange(data.shape[0]):
        _keep(data[image], score[image], order[image], threshold, columns, center, survivors[image],
              where[image])


@kernel(parallel=True)
def _take_boxes(data, where, start, before, after, y):
    """Gather rows of data at `where`, -1 where that is; convert from `before` to `after`."""
    half = y.dtype.type(0.5)
    for image in prange(y.shape[0]):
        for k in range(y.shape[1]):
            i, row = where[image, k], y[image, k]
            if i < 0:
                row[:] = y.dtype.type(-1)
                continue
            row[:] = data[image, i]
            if before != after and not row[start] < 0:
                a, b, c, d = as_corners(data[image, i, start:start + 4], before)
                if after:
                    a, b, c, d = (a + c) * half, (b + d) * half, c - a, d - b
                row[start], row[start + 1], row[start + 2], row[start + 3] = a, b, c, d


@kernel(parallel=True)
def _iou_pairs(a, b, center, y):
    """y (M, N) = iou of a (M, 4) and b (N, 4); NaN and infinity decide as in MXNet."""
    zero = y.dtype.type(0)
    for i in prange(a.shape[0]):
        box, own = as_corners(a[i], center), area(a[i], center, zero)
        for j in range(b.shape[0]):
            other, areas = as_corners(b[j], center), own + area(b[j], center, zero)
            y[i, j] = share(box, other, areas, zero) if center else share(other, box, areas, zero)


@kernel(parallel=True)
def _encode(samples, matches, anchors, refs, means, stds, targets, masks):
    """Regression targets (B, N, 4) of anchors (B, N, 4) and the refs (B, M, 4) they match."""
    half = targets.dtype.type(0.5)
    for image in prange(samples.shape[0]):
        for i in range(samples.shape[1]):
            target, mask = targets[image, i], masks[image, i]
            target[:] = 0
            mask[:] = 0
            match = matches[image, i]
            if not (samples[image, i] > half and 0 <= match < refs.shape[1]):
                continue
            a, r = anchors[image, i], refs[image, int(match)]
            for axis in range(2):
                size, ref_size = a[axis + 2] - a[axis], r[axis + 2] - r[axis]
                shift = (r[axis] + ref_size * half - a[axis] - size * half) / size
                target[axis] = (shift - means[axis]) / stds[axis]
                target[axis + 2] = (np.log(ref_size / size) - means[axis + 2]) / stds[axis + 2]
            mask[:] = 1


@kernel(parallel=True)
def _decode(data, anchors, stds, clip, corner, y):
    """Corners y (B, N, 4) of anchors (N, 4) moved by data (B, N, 4)."""
    half, size_of = y.dtype.type(0.5), y.dtype.type
    for image in prange(data.shape[0]):
        for i in range(data.shape[1]):
            d, a, out = data[image, i], anchors[i], y[image, i]
            for axis in range(2):
                at, size = a[axis], a[axis + 2]
                if corner:
                    size = size - at
                    at = at + size * half
                growth = d[axis + 2] * stds[axis + 2]
                if clip > 0:
                    growth = min(growth, clip)
                middle = d[axis] * stds[axis] * size + at
                reach = size_of(np.exp(growth)) * size * half
                out[axis], out[axis + 2] = middle - reach, middle + reach


@inlined
def _match(scores, order, threshold, ascending, limit, rows, columns):
    """Greedy bipartite matching: pairs of one matrix in order, each row and column once."""
    rows[:] = -1
    columns[:] = -1
    count = 0
    for k in range(order.size):
        i, j = order[k] // columns.size, order[k] % columns.size
        score = scores[i, j]
        if not (score < threshold if ascending else score > threshold):
            break
        if rows[i] == -1 and columns[j] == -1:
            rows[i] = j
            columns[j] = i
            count += 1
            if 0 < limit < count:
                break


@kernel(parallel=True)
def _match_all(scores, order, threshold, ascending, limit, rows, columns):
    """rows (B, N) and columns (B, M): the match of each in scores (B, N, M), or -1."""
    for image in prange(scores.shape[0]):
        _match(scores[image], order[image], threshold, ascending, limit, rows[image],
               columns[image])


# ---------------------------------------------------------------------------------------------- ops

@dataclass(frozen=True)
class BoxNMS(FloatOp, name="_contrib_box_nms", aliases=("_contrib_box_non_maximum_suppression",)):
    """Non-maximum suppression: of boxes that overlap, the one with the highest score stays.

    data (..., N, K) -> the same shape: in each group of N, rows that stay by descending score, then
    rows of -1.  A row holds a score, a box from `coord_start` on and, if `id_index` is not -1, a
    class.  Excluded are rows whose score is not above `valid_thresh` or whose class is
    `background_id`, then all but the `topk` best (-1: none; 0: nothing is suppressed, data is
    copied).  A row is suppressed if its iou with a better one that stays is above `overlap_thresh`
    and their classes are the same (or `force_suppress`, or no classes).

    Equal scores keep their order; NaN scores are excluded.  Boxes whose first coordinate is
    negative keep the format of the input, as in MXNet.  The gradient goes to the rows that stay,
    unchanged by formats.  The hidden output, (..., N, 1), has the source index of each row.
    """

    overlap_thresh: float = 0.5
    valid_thresh: float = 0.0
    topk: int = -1
    coord_start: int = 2
    score_index: int = 1
    id_index: int = -1
    background_id: int = -1
    force_suppress: bool = False
    in_format: Format = "corner"
    out_format: Format = "corner"

    outputs: ClassVar = ("output0", "output1")
    needs: ClassVar = ("ograd", "output1")

    @property
    def num_visible(self) -> int:
        return 1

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        (data,), (output,) = super().infer_type(ins, outs[:1])
        return [data], [output, INT64]

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        shape = unify(ins[0], outs[0], "data and output")
        if shape is None:
            return ins, outs
        if len(shape) < 2:
            raise ShapeMismatch(f"data has shape {shape}, expected at least 2 dimensions: "
                                "(..., boxes, columns)")
        if shape[-1]:
            self._check(shape[-1])
        return [shape], [shape, (*shape[:-1], 1)]

    def _check(self, width: int) -> None:
        last = self.coord_start + 3
        if self.coord_start < 0 or last >= width:
            raise ShapeMismatch(f"coord_start is {self.coord_start}, expected 4 columns from there "
                                f"on among the {width} of data")
        for name, index in (("score_index", self.score_index), ("id_index", self.id_index)):
            if name == "id_index" and index < 0:
                continue
            if not 0 <= index < width or self.coord_start <= index <= last:
                raise ShapeMismatch(f"{name} is {index}, expected one of the {width} columns of "
                                    f"data that is no coordinate ({self.coord_start} to {last})")

    def _counts(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """Groups, boxes in each, and the number of boxes that are sorted."""
        boxes = shape[-2]
        return prod(shape[:-2]), boxes, min(self.topk, boxes) if self.topk > 0 else boxes

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        groups, boxes, count = self._counts(ins[0].shape)
        score = Spec((groups, boxes), ins[0].dtype)
        return [score, Spec((groups, count), INT64), Spec((groups, KEPT_ROWS, boxes), ins[0].dtype),
                Spec((groups, boxes), INT64), *rank_work(score, groups)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        groups, boxes, _ = self._counts(ins[0].shape)
        data, y = (array.reshape(groups, boxes, -1) for array in (ins[0], outs[0]))
        score, order, survivors, spare, *work = call.scratch
        where = (spare if outs[1] is None else outs[1]).reshape(groups, boxes)
        rank = ranking(score[:, :, None], order[:, :, None], True, work)
        threshold = data.dtype.type(as_float32(self.overlap_thresh))
        columns = (self.coord_start, -1 if self.force_suppress else self.id_index)
        before, after = self.in_format == "center", self.out_format == "center"

        def run() -> None:
            if self.topk == 0:
                where[:] = np.arange(boxes)
                np.copyto(y, data)
                return
            np.copyto(score, data[:, :, self.score_index])
            valid = score > as_float32(self.valid_thresh)
            if self.id_index >= 0:
                valid &= data[:, :, self.id_index] != self.background_id
            score[~valid] = np.nan
            rank()
            _suppress(data, score, order, threshold, columns, before, survivors, where)
            _take_boxes(data, where, self.coord_start, before, after, y)

        return run

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        groups, boxes, _ = self._counts(outs[0].shape)
        grad, gx = (array.reshape(groups, boxes, -1) for array in (ins[0], outs[0]))
        where = ins[1].reshape(groups, boxes)
        group, row = np.nonzero(where >= 0)
        gx.fill(0)
        gx[group, where[group, row]] = grad[group, row]


@dataclass(frozen=True)
class BoxIoU(FloatOp, name="_contrib_box_iou"):
    """Intersection over union of every box of lhs (..., 4) with every box of rhs (..., 4).

    The output has the shape lhs[:-1] + rhs[:-1].  Boxes without area have 0.  There is no gradient.
    """

    format: Format = "corner"

    inputs: ClassVar = ("lhs", "rhs")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        for name, shape in zip(self.inputs, ins, strict=True):
            if shape is not None and (len(shape) < 2 or shape[-1] not in (0, 4)):
                raise ShapeMismatch(f"{name} has shape {shape}, expected (..., 4) with at least 2 "
                                    "dimensions")
        lhs, rhs = ins
        if lhs is None or rhs is None:
            return ins, outs
        shape = (*lhs[:-1], *rhs[:-1])
        return [(*lhs[:-1], 4), (*rhs[:-1], 4)], [unify(shape, outs[0], "computed and wanted "
                                                                        "output")]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        a, b = (array.reshape(-1, 4) for array in ins)
        return partial(_iou_pairs, a, b, self.format == "center", outs[0].reshape(len(a), len(b)))


@dataclass(frozen=True)
class BoxEncode(FloatOp, name="_contrib_box_encode"):
    """Regression targets of anchors for the boxes that they match, and masks of valid ones.

    samples (B, N), 1 where an anchor is positive; matches (B, N), row indices of refs; anchors
    (B, N, 4) and refs (B, M, 4), corners; means and stds (4,).  Both outputs are (B, N, 4).
    For samples above 0.5, with centers x, y and sizes w, h of the anchor a and its ref r:

        targets = (((rx - ax) / aw, (ry - ay) / ah, log(rw / aw), log(rh / ah)) - means) / stds

    and masks = 1; elsewhere, and where matches are out of range, both are 0.  No gradient.
    """

    inputs: ClassVar = ("samples", "matches", "anchors", "refs", "means", "stds")
    outputs: ClassVar = ("output0", "output1")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        for name, shape, rank in zip(self.inputs, ins, (2, 2, 3, 3, 1, 1), strict=True):
            if shape is not None and len(shape) != rank:
                raise ShapeMismatch(f"{name} has shape {shape}, expected {rank} dimension(s)")
        samples, matches, anchors, refs = ins[:4]
        boxes = unify_all([anchors, *outs, *((*s, 4) for s in (samples, matches) if s is not None)],
                          "anchors, and samples and matches of 4 columns,")
        batch = boxes[0] if boxes else 0
        refs = unify(refs, (batch, 0, 4), "refs and batch of anchors")
        rows = boxes[:2] if boxes else None
        return [rows, rows, boxes, refs, (4,), (4,)], [boxes, boxes]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        targets, masks = (call.scratch[i] if out is None else out for i, out in enumerate(outs))
        return partial(_encode, *ins, targets, masks)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return list(outs)


@dataclass(frozen=True)
class BoxDecode(FloatOp, name="_contrib_box_decode"):
    """Anchors moved and resized by predictions: corners of boxes, the inverse of box_encode.

    data (B, N, 4), anchors (1, N, 4) in `format` -> (B, N, 4).  With center x, y and size w, h of
    an anchor: center (d0 std0 w + x, d1 std1 h + y), size (exp(d2 std2) w, exp(d3 std3) h), where
    the exponents are at most `clip` if that is positive.  There is no gradient.
    """

    std0: float = 1.0
    std1: float = 1.0
    std2: float = 1.0
    std3: float = 1.0
    clip: float = -1.0
    format: Format = "center"

    inputs: ClassVar = ("data", "anchors")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = unify(unify(ins[0], outs[0], "data and output"), (0, 0, 4), "data and (B, N, 4)")
        anchors = unify(ins[1], (1, data[1] if data else 0, 4), "anchors and (1, N, 4) of data")
        data = unify(data, (0, anchors[1] if anchors else 0, 4), "data and (B, N, 4) of anchors")
        return [data, anchors], [data]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        kind = outs[0].dtype
        stds = np.array([self.std0, self.std1, self.std2, self.std3], np.float32).astype(kind)
        return partial(_decode, ins[0], ins[1][0], stds, kind.type(as_float32(self.clip)),
                       self.format == "corner", outs[0])


@dataclass(frozen=True, kw_only=True)
class BipartiteMatching(FloatOp, name="_contrib_bipartite_matching"):
    """Rows matched with columns, greedily by score, each at most once.

    data (..., N, M) -> output 0 (..., N), the column of each row, and output 1 (..., M), the row of
    each column; -1 where there is none.  Pairs are matched by descending score while it is above
    `threshold` (ascending and below it with `is_ascend`).  A positive `topk` ends this after
    topk + 1 matches, as in MXNet.  Equal scores keep their order; NaN is never matched.
    No gradient.
    """

    is_ascend: bool = False
    threshold: float
    topk: int = -1

    outputs: ClassVar = ("output0", "output1")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = ins[0]
        if data is None:
            return ins, outs
        if len(data) < 2:
            raise ShapeMismatch(f"data has shape {data}, expected at least 2 dimensions")
        shapes = ((*data[:-2], data[-2]), (*data[:-2], data[-1]))
        return ins, [unify(shape, out, "computed and wanted output")
                     for shape, out in zip(shapes, outs, strict=True)]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        super().infer_type(ins, [])
        dtype = common_type([*ins, *outs])
        return [dtype], [dtype, dtype]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        groups = prod(ins[0].shape[:-2])
        return [*outs, Spec((groups, prod(ins[0].shape[-2:])), INT64), *rank_work(ins[0], groups)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        shape = ins[0].shape
        groups = prod(shape[:-2])
        rows, columns = ((call.scratch[i] if out is None else out).reshape(groups, -1)
                         for i, out in enumerate(outs))
        order, work = call.scratch[2], call.scratch[3:]
        rank = ranking(ins[0].reshape(groups, -1, 1), order[:, :, None], not self.is_ascend, work)
        threshold = ins[0].dtype.type(as_float32(self.threshold))

        def run() -> None:
            rank()
            _match_all(ins[0].reshape(groups, *shape[-2:]), order, threshold, self.is_ascend,
                       self.topk, rows, columns)

        return run
