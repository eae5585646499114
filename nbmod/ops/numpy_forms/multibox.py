"""MultiBoxTarget and MultiBoxDetection with NumPy, image by image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..detection.multibox import LEAST_OVERLAP, MultiBoxDetection, MultiBoxTarget
from ..dispatch import REFERENCE, implements
from ..elementwise.float_op import as_float32
from ..op import Call
from .boxes import best_first, center_and_size, overlap, suppress

__all__: list[str] = []


# -- training targets ------------------------------------------------------------------------------

def _multibox_target(op: MultiBoxTarget, ins: Sequence[Any], outs: Sequence[Any], call: Call
                    ) -> None:
    anchors, labels, scores = ins[0][0], ins[1], ins[2]
    for image, rows in enumerate(labels):
        ends = np.flatnonzero(rows[:, 0] == -1)
        boxes = rows[:ends[0]] if ends.size else rows
        for out, values in zip(outs, _targets(op, anchors, boxes, scores[image]), strict=True):
            if out is not None:
                out[image] = values.reshape(-1)


def _targets(op: MultiBoxTarget, anchors: np.ndarray, boxes: np.ndarray,
             scores: np.ndarray) -> tuple[Any, Any, Any]:
    """Offsets (A, 4), their mask (A, 4) and classes (A,) of the anchors of an image."""
    offsets, mask = np.zeros(anchors.shape, anchors.dtype), np.zeros(anchors.shape, anchors.dtype)
    ratio, ignored = as_float32(op.negative_mining_ratio), as_float32(op.ignore_label)
    classes = np.full(len(anchors), ignored if ratio > 0 or not len(boxes) else 0, anchors.dtype)
    if not len(boxes):
        return offsets, mask, classes
    shares = np.fmax(overlap(anchors[:, None], boxes[:, 1:5]), -1)     # -1: of NaN
    match = _matches(op, shares)
    has = match >= 0
    matched = boxes[match[has]]
    offsets[has] = _offsets(matched[:, 1:5], anchors[has], op.variances)
    mask[has], classes[has] = 1, matched[:, 0] + 1
    if ratio > 0 and has.any():
        most = anchors.dtype.type(as_float32(op.negative_mining_thresh))
        negative = np.flatnonzero(~has & (shares.max(axis=1) < most))
        chance = _background(scores[:, negative])
        ranked = negative[best_first(-chance)][:np.count_nonzero(~np.isnan(chance))]
        classes[ranked[:int(min(has.sum() * ratio, len(ranked)))]] = 0
    return offsets, mask, classes


def _matches(op: MultiBoxTarget, shares: np.ndarray) -> Any:
    """The box of each anchor, or -1; `shares` (A, M) are overlaps of anchors and boxes."""
    match, left = np.full(len(shares), -1), shares.copy()
    for _ in range(shares.shape[1]):
        anchor, box = np.unravel_index(left.argmax(), left.shape)
        if float(left[anchor, box]) <= LEAST_OVERLAP:
            break
        match[anchor] = box
        left[anchor], left[:, box] = -1, -1
    least = shares.dtype.type(as_float32(op.overlap_threshold))
    if least > 0:
        near = (match < 0) & (shares.max(axis=1) > least)
        match[near] = shares[near].argmax(axis=1)
    return match


def _offsets(boxes: np.ndarray, anchors: np.ndarray, variances: Sequence[float]) -> Any:
    (to, goal), (at, size) = center_and_size(boxes), center_and_size(anchors)
    return np.concatenate([(to - at) / size, np.log(goal / size)], axis=1) / np.array(
        variances, np.float32).astype(anchors.dtype)


def _background(scores: np.ndarray) -> Any:
    """Softmax probability of class 0 in scores (classes, anchors)."""
    terms = np.exp(scores - scores.max(axis=0))
    return terms[0] / terms.sum(axis=0)


# -- detections ------------------------------------------------------------------------------------

def _multibox_detection(op: MultiBoxDetection, ins: Sequence[Any], outs: Sequence[Any], call: Call
                       ) -> None:
    chances, anchors = ins[0], ins[2][0]
    offsets = ins[1].reshape(len(chances), -1, 4)
    for image, y in enumerate(outs[0]):
        y[...] = -1
        rows = _detections(op, chances[image], offsets[image], anchors)
        y[:len(rows)] = rows
        if 0 < op.nms_threshold <= 1:
            ranked = rows[best_first(rows[:, 1])[:op._sorted(len(anchors))]]
            indices = suppress(ranked[:, 2:], op.least_overlap(y.dtype.type),
                               None if op.force_suppress else ranked[:, 0])
            y[:len(ranked)] = ranked
            y[:, 0] = -1
            y[indices, 0] = ranked[indices, 0]


def _detections(op: MultiBoxDetection, chances: np.ndarray, offsets: np.ndarray, anchors: np.ndarray
               ) -> Any:
    """Rows (class, probability, corners) of the anchors that are no background, in order."""
    chances = np.fmax(chances, -1)      # -1: of NaN
    chances[0] = -1
    label, best = chances.argmax(axis=0) - 1, chances.max(axis=0)
    mask = (label >= 0) & (best >= best.dtype.type(as_float32(op.threshold)))
    boxes = _moved(op, anchors[mask], offsets[mask])
    return np.column_stack([label[mask].astype(best.dtype), best[mask], boxes])


def _moved(op: MultiBoxDetection, anchors: np.ndarray, offsets: np.ndarray) -> Any:
    """Corners of anchors (n, 4) that offsets move and resize."""
    at, size = center_and_size(anchors)
    steps = offsets * np.array(op.variances, np.float32).astype(anchors.dtype)
    middle, reach = steps[:, :2] * size + at, np.exp(steps[:, 2:]) * size / 2
    corners = np.concatenate([middle - reach, middle + reach], axis=1)
    return np.clip(corners, 0, 1) if op.clip else corners


implements(MultiBoxDetection, REFERENCE, _multibox_detection)
implements(MultiBoxTarget, REFERENCE, _multibox_target)
