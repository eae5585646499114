"""The operators of SSD (Liu et al. 2016): anchors, training targets, detections.

One task is one image.  Boxes are corners relative to the image.  Where elements are sorted,
there are two kernels, with a ranking between them; NaN marks excluded elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp, as_float32
from ..jit import inlined, kernel, prange
from ..op import Call, Run, Spec
from ..param import Floats
from ..rules import copy_over
from ..shape import ShapeMismatch, Shapes, unify, unify_all
from ..tensor.ordering import INT64, rank_work, ranking
from .boxes import KEPT_ROWS, area, iou, keep, overlaps_any

__all__ = ["MultiBoxDetection", "MultiBoxPrior", "MultiBoxTarget"]

LEAST_OVERLAP = 1e-6
"""Boxes whose overlap with every anchor is at most this are not matched."""


# ---------------------------------------------------------------------------------- target: kernels

@inlined
def _valid_labels(label):
    """The number of boxes: labels end at the first of class -1."""
    for g in range(label.shape[0]):
        if label[g, 0] == -1:
            return g
    return label.shape[0]


@inlined
def _corners(row, start):
    return row[start], row[start + 1], row[start + 2], row[start + 3]


@inlined
def _best_anchor(box, anchors, match):
    """(iou, index) of the unmatched anchor that overlaps the box most."""
    best, which = anchors.dtype.type(0), -1
    for i in range(anchors.shape[0]):
        share = iou(_corners(anchors[i], 0), box, anchors.dtype.type(0))
        if share > best and match[i] < 0:
            best, which = share, i
    return best, which


@inlined
def _match_best(anchors, label, count, match, nearest, overlap):
    """Greedy bipartite matching of every box with an anchor of its own, the best pair first."""
    for g in range(count):
        overlap[g], nearest[g] = _best_anchor(_corners(label[g], 1), anchors, match)
    for _ in range(count):
        best = 0
        for g in range(1, count):
            if overlap[g] > overlap[best] or (overlap[g] == overlap[best]
                                              and nearest[g] < nearest[best]):
                best = g
        if overlap[best] <= LEAST_OVERLAP:
            return
        anchor = nearest[best]
        match[anchor] = best
        overlap[best] = -1
        for g in range(count):
            if overlap[g] > 0 and nearest[g] == anchor:
                overlap[g], nearest[g] = _best_anchor(_corners(label[g], 1), anchors, match)


@inlined
def _background(scores, i):
    """Softmax probability of class 0 at anchor i of scores (classes, A)."""
    top, total = scores[0, i], scores.dtype.type(0)
    for c in range(1, scores.shape[0]):
        top = max(top, scores[c, i])
    for c in range(scores.shape[0]):
        total += np.exp(scores[c, i] - top)
    return scores.dtype.type(np.exp(scores[0, i] - top) / total)


@inlined
def _match_rest(anchors, label, count, scores, limits, match, chance):
    """Match anchors with an iou above a limit; `chance` of background for candidate negatives.

    Returns how many anchors have a box; limits: least overlap, largest of a negative (0: any).
    """
    positive, (least, most) = 0, limits
    for i in range(anchors.shape[0]):
        best, which = anchors.dtype.type(-1), -1
        for g in range(count):
            share = iou(_corners(anchors[i], 0), _corners(label[g], 1), anchors.dtype.type(0))
            if share > best:
                best, which = share, g
        if match[i] < 0 and least > 0 and best > least:
            match[i] = which
        chance[i] = np.nan
        if match[i] >= 0:
            positive += 1
        elif best < most:
            chance[i] = _background(scores, i)
    return positive


@kernel(parallel=True)
def _match_anchors(anchors, label, scores, limits, match, chance, positive, nearest, overlap):
    """match (B, A): the box of each anchor or -1; positive (B,): how many have one, -1 if none."""
    for image in prange(label.shape[0]):
        match[image, :] = -1
        count = _valid_labels(label[image])
        positive[image] = -1
        if count:
            _match_best(anchors, label[image], count, match[image], nearest[image], overlap[image])
            positive[image] = _match_rest(anchors, label[image], count, scores[image], limits,
                                          match[image], chance[image])


@inlined
def _write_offsets(box, anchor, variances, target):
    half = target.dtype.type(0.5)
    for axis in range(2):
        size, box_size = anchor[axis + 2] - anchor[axis], box[axis + 2] - box[axis]
        shift = (box[axis] + box[axis + 2]) * half - (anchor[axis] + anchor[axis + 2]) * half
        target[axis] = shift / size / variances[axis]
        target[axis + 2] = np.log(box_size / size) / variances[axis + 2]


@kernel(parallel=True)
def _write_targets(anchors, label, match, positive, order, chance, mining, variances, location,
                   mask, classes):
    """location, mask (B, A, 4) and classes (B, A); mining: ratio (0: none), the ignored class."""
    ratio, ignored = mining
    for image in prange(label.shape[0]):
        location[image] = 0
        mask[image] = 0
        none = positive[image] < 0
        classes[image, :] = ignored if none or ratio > 0 else 0
        if none:
            continue
        for i in range(anchors.shape[0]):
            if match[image, i] >= 0:
                box = label[image, match[image, i]]
                classes[image, i] = box[0] + 1
                mask[image, i, :] = 1
                _write_offsets(_corners(box, 1), anchors[i], variances, location[image, i])
        if ratio > 0:
            for k in range(min(int(positive[image] * ratio), order.shape[1])):
                if np.isnan(chance[image, order[image, k]]):
                    break
                classes[image, order[image, k]] = 0


# ------------------------------------------------------------------------------- detection: kernels

@inlined
def _decode_anchor(anchor, offset, variances, clip, row):
    """Decode an anchor by predicted offsets: its corners, in row[2:]."""
    half = row.dtype.type(0.5)
    for axis in range(2):
        size = anchor[axis + 2] - anchor[axis]
        middle = offset[axis] * variances[axis] * size + (anchor[axis] + anchor[axis + 2]) * half
        reach = row.dtype.type(np.exp(offset[axis + 2] * variances[axis + 2])) * size * half
        row[2 + axis], row[4 + axis] = middle - reach, middle + reach
    if clip:
        for c in range(2, 6):
            row[c] = min(max(row[c], row.dtype.type(0)), row.dtype.type(1))


@kernel(parallel=True)
def _detect(chances, offsets, anchors, threshold, variances, clip, rows, score):
    """rows (B, A, 6) of the anchors with a class of at least `threshold`; the rest of score NaN."""
    for image in prange(chances.shape[0]):
        count = 0
        for i in range(anchors.shape[0]):
            best, which = chances.dtype.type(-1), -1
            for c in range(1, chances.shape[1]):
                if chances[image, c, i] > best:
                    best, which = chances[image, c, i], c - 1
            if which >= 0 and best >= threshold:
                rows[image, count, 0], rows[image, count, 1] = which, best
                _decode_anchor(anchors[i], offsets[image, i], variances, clip, rows[image, count])
                score[image, count] = best
                count += 1
        score[image, count:] = np.nan
        rows[image, count:] = -1


@inlined
def _suppress_rows(rows, score, order, threshold, grouped, survivors, out):
    """out = rows in order; those beyond it, and those suppressed by a better one, get class -1."""
    count, pixel = 0, rows.dtype.type(0)
    for k in range(rows.shape[0]):
        if k >= order.size or np.isnan(score[order[k]]):
            out[k] = rows[k]
            out[k, 0] = -1
            continue
        out[k] = rows[order[k]]
        box, group = _corners(out[k], 2), out[k, 0]
        own = area(box, False, pixel)
        if overlaps_any(box, own, group, survivors, count, threshold, pixel, grouped):
            out[k, 0] = -1
            continue
        keep(box, own, group, survivors, count)
        count += 1


@kernel(parallel=True)
def _suppress_all(rows, score, order, threshold, grouped, survivors, out):
    for image in prange(rows.shape[0]):
        _suppress_rows(rows[image], score[image], order[image], threshold, grouped,
                       survivors[image], out[image])


# ---------------------------------------------------------------------------------------------- ops

@dataclass(frozen=True)
class MultiBoxPrior(FloatOp, name="_contrib_MultiBoxPrior"):
    """Anchors around every pixel of a feature map; data (N, C, H, W) -> (1, H W k, 4), corners.

    k = len(sizes) + len(ratios) - 1 boxes per pixel: each of `sizes` with the first of `ratios`,
    then the other ratios with the first size.  A box is size sqrt(ratio) H / W wide and
    size / sqrt(ratio) high.  Its center is ((column + offset) step, (row + offset) step), where
    `steps` and `offsets` are (y, x) and a step that is not positive is 1 / H or 1 / W.  `clip`
    limits boxes to [0, 1].  No gradient: only the shape of data is read.
    """

    sizes: Floats = (1.0,)
    ratios: Floats = (1.0,)
    clip: bool = False
    steps: Floats = (-1.0, -1.0)
    offsets: Floats = (0.5, 0.5)

    reads_shapes: ClassVar = True

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        self._check()
        data = ins[0]
        if data is None:
            return ins, outs
        if len(data) != 4:
            raise ShapeMismatch(f"data has shape {data}, expected 4 dimensions: (N, C, H, W)")
        count = data[2] * data[3] * (len(self.sizes) + len(self.ratios) - 1)
        return ins, [unify((1, count, 4), outs[0], "computed and wanted output")]

    def _check(self) -> None:
        for name in ("sizes", "ratios"):
            if not getattr(self, name):
                raise ShapeMismatch(f"{name} is empty, expected at least one number")
        for name in ("steps", "offsets"):
            if len(getattr(self, name)) != 2:
                raise ShapeMismatch(f"{name} is {getattr(self, name)}, expected two numbers: "
                                    "(y, x)")
        if self.steps[0] * self.steps[1] < 0:
            raise ShapeMismatch(f"steps is {self.steps}, expected both numbers to be positive, or "
                                "none")

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.prepare(ins, outs, call)()

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        anchors = self._anchors(ins[0].shape[2], ins[0].shape[3]).astype(outs[0].dtype)
        return partial(copy_over, anchors, outs[0])

    def extents(self, height: int, width: int) -> tuple[np.ndarray, ...]:
        """Steps (y, x) from pixel to pixel; half the widths and half the heights of the boxes."""
        sizes, ratios, steps = (np.array(values, np.float32) for values in (
            self.sizes, self.ratios, self.steps))
        steps = np.where(steps > 0, steps, np.float32(1) / np.array([height, width], np.float32))
        size = np.concatenate([sizes, np.full(len(ratios) - 1, sizes[0])])
        with np.errstate(all="ignore"):
            root = np.sqrt(np.concatenate([np.full(len(sizes), ratios[0]), ratios[1:]]))
            across = size * np.float32(height) / np.float32(width) * root / np.float32(2)
            return steps, across, size / root / np.float32(2)

    def _anchors(self, height: int, width: int) -> np.ndarray:
        steps, across, down = self.extents(height, width)
        y, x = ((np.arange(count, dtype=np.float32) + np.float32(offset)) * step
                for count, offset, step in zip((height, width), self.offsets, steps, strict=True))
        anchors = np.stack(np.broadcast_arrays(
            x[:, None] - across, y[:, None, None] - down,
            x[:, None] + across, y[:, None, None] + down), axis=-1).reshape(1, -1, 4)
        return np.clip(anchors, 0, 1) if self.clip else anchors


def _check_variances(values: Floats) -> None:
    if len(values) != 4:
        raise ShapeMismatch(f"variances is {values}, expected four numbers")


@dataclass(frozen=True)
class MultiBoxTarget(FloatOp, name="_contrib_MultiBoxTarget"):
    """Training targets of an SSD for every anchor.

    anchor (1, A, 4); label (B, M, 5 or more), rows (class, left, top, right, bottom, ...), of which
    those from the first class -1 on are padding; cls_pred (B, classes + 1, A), scores.  Outputs:
    offsets `loc_target` and their `loc_mask`, (B, 4 A), and `cls_target`, (B, A): class + 1, 0 for
    background, or `ignore_label`.

    Boxes get the anchor that they overlap most, the best pair first; then every other anchor gets
    the box that it overlaps most, if more than a positive `overlap_threshold`.  Its target is
    ((gx - ax) / aw, (gy - ay) / ah, log(gw / aw), log(gh / ah)) / variances, from centers and
    sizes.  Anchors without a box are background.  With a positive `negative_mining_ratio` only
    ratio times as many as have one are: those with the least probability of background, among
    anchors that overlap no box by `negative_mining_thresh`; the rest is ignored.  Without any box
    everything is ignored.  `minimum_negative_samples` has no effect, as in MXNet.  No gradient.
    """

    overlap_threshold: float = 0.5
    ignore_label: float = -1.0
    negative_mining_ratio: float = -1.0
    negative_mining_thresh: float = 0.5
    minimum_negative_samples: int = 0
    variances: Floats = (0.1, 0.1, 0.2, 0.2)

    inputs: ClassVar = ("anchor", "label", "cls_pred")
    outputs: ClassVar = ("loc_target", "loc_mask", "cls_target")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        _check_variances(self.variances)
        anchor, label, scores = (unify(shape, (0, 0, 0), f"{name} and three dimensions")
                                 for name, shape in zip(self.inputs, ins, strict=True))
        assert anchor and label and scores
        if 0 < label[2] < 5:
            raise ShapeMismatch(f"label has shape {label}, expected at least 5 columns")
        count = unify((anchor[1],), (scores[2],), "numbers of anchors of anchor and cls_pred")
        batch = unify((label[0],), (scores[0],), "batches of label and cls_pred")
        assert count and batch
        anchor = unify(anchor, (1, count[0], 4), "anchor and (1, A, 4) of cls_pred")
        wide = unify_all([outs[0], outs[1], (batch[0], 4 * count[0])], "outputs")
        flat = unify(outs[2], (batch[0], count[0]), "outputs")
        shapes = [anchor, (batch[0], *label[1:]), (batch[0], scores[1], count[0])]
        return [None if old is None else shape for shape, old in zip(shapes, ins, strict=True)
                ], [wide, wide, flat]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        batch, boxes, _ = ins[1].shape
        count, kind = ins[0].shape[1], ins[0].dtype
        chance = Spec((batch, count), kind)
        return [*outs, Spec((batch, count), INT64), chance, Spec((batch,), INT64),
                Spec((batch, boxes), INT64), Spec((batch, boxes), kind),
                Spec((batch, count), INT64), *rank_work(chance, batch)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        anchors, label, scores = ins[0][0], ins[1], ins[2]
        targets = [spare if out is None else out for out, spare in zip(outs, call.scratch,
                                                                       strict=False)]
        location, mask = (array.reshape(len(label), -1, 4) for array in targets[:2])
        match, chance, positive, nearest, overlap, order, *work = call.scratch[3:]
        kind = anchors.dtype
        mines = self.negative_mining_ratio > 0
        limits = np.array([self.overlap_threshold, self.negative_mining_thresh if mines else -2],
                          np.float32).astype(kind)
        mining = np.array([max(self.negative_mining_ratio, 0), self.ignore_label],
                          np.float32).astype(kind)
        rank = ranking(chance[:, :, None], order[:, :, None], False, work)
        variances = np.array(self.variances, np.float32).astype(kind)

        def run() -> None:
            _match_anchors(anchors, label, scores, limits, match, chance, positive, nearest,
                           overlap)
            if mines:
                rank()
            _write_targets(anchors, label, match, positive, order, chance, mining, variances,
                           location, mask, targets[2])

        return run


@dataclass(frozen=True)
class MultiBoxDetection(FloatOp, name="_contrib_MultiBoxDetection"):
    """Detections of an SSD: anchors with their most probable class, overlapping ones marked.

    cls_prob (B, classes + 1, A), loc_pred (B, 4 A), anchor (1, A, 4) -> (B, A, 6), rows (class,
    probability, left, top, right, bottom).  Class 0 of cls_prob is background, regardless of
    `background_id`, and classes count from 0 after it, as in MXNet.

    Rows are those anchors whose most probable class has at least `threshold`; the rest is -1.
    Boxes are anchors moved by loc_pred times `variances`, clipped to [0, 1] with `clip`.  Where
    `nms_threshold` is in (0, 1] rows are sorted by probability, `nms_topk` of them if that is
    positive, and the class of those with an iou of at least `nms_threshold` with a better one of
    their class (any with `force_suppress`) becomes -1; so does that of all rows from `nms_topk` on,
    which stay in the order of anchors.  No gradient.
    """

    clip: bool = True
    threshold: float = 0.01
    background_id: int = 0
    nms_threshold: float = 0.5
    force_suppress: bool = False
    variances: Floats = (0.1, 0.1, 0.2, 0.2)
    nms_topk: int = -1

    inputs: ClassVar = ("cls_prob", "loc_pred", "anchor")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        _check_variances(self.variances)
        chances, offsets, anchor = ins
        if chances is None:
            return ins, outs
        if len(chances) != 3:
            raise ShapeMismatch(f"cls_prob has shape {chances}, expected (B, classes + 1, A)")
        batch, _, count = chances
        return [chances, unify(offsets, (batch, 4 * count), "loc_pred and (B, 4 A) of cls_prob"),
                unify(anchor, (1, count, 4), "anchor and (1, A, 4) of cls_prob")
                ], [unify((batch, count, 6), outs[0], "computed and wanted output")]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        batch, _, count = ins[0].shape
        kind = ins[0].dtype
        score = Spec((batch, count), kind)
        return [Spec((batch, count, 6), kind), score, Spec((batch, self._sorted(count)), INT64),
                Spec((batch, KEPT_ROWS, count), kind), *rank_work(score, batch)]

    def least_overlap(self, real: type[np.floating]) -> Any:
        """The value of type `real` that an iou must exceed: "at least" is "more than the next lower
        value"."""
        return np.nextafter(real(as_float32(self.nms_threshold)), real(-1))

    def _sorted(self, count: int) -> int:
        return min(self.nms_topk, count) if self.nms_topk > 0 else count

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        chances, anchors, out = ins[0], ins[2][0], outs[0]
        offsets, kind = ins[1].reshape(len(chances), -1, 4), outs[0].dtype
        rows, score, order, survivors, *work = call.scratch
        rank = ranking(score[:, :, None], order[:, :, None], True, work)
        threshold = kind.type(as_float32(self.threshold))
        variances = np.array(self.variances, np.float32).astype(kind)
        limit = self.least_overlap(kind.type)
        suppresses = 0 < self.nms_threshold <= 1

        def run() -> None:
            _detect(chances, offsets, anchors, threshold, variances, self.clip,
                    rows if suppresses else out, score)
            if suppresses:
                rank()
                _suppress_all(rows, score, order, limit, not self.force_suppress, survivors, out)

        return run
