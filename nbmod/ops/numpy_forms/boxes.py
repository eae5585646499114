"""Operators over boxes with NumPy: overlaps, suppression, encoding, matching.

A box is its corners (left, top, right, bottom) or its center and size; see `ops.detection.boxes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..detection.boxes import BipartiteMatching, BoxDecode, BoxEncode, BoxIoU, BoxNMS
from ..dispatch import REFERENCE, implements
from ..elementwise.float_op import as_float32
from ..op import Call

__all__ = ["best_first", "center_and_size", "overlap", "shared_sides", "suppress"]


def best_first(scores: np.ndarray) -> Any:
    """Positions by descending score, equal ones in order, NaN last."""
    return np.argsort(-scores, axis=-1, kind="stable")


def center_and_size(corners: np.ndarray) -> tuple[Any, Any]:
    """Centers (..., 2) and sizes (..., 2) of boxes (..., 4)."""
    low, high = corners[..., :2], corners[..., 2:4]
    return (low + high) / 2, high - low


def _as_corners(boxes: np.ndarray, is_center: bool) -> Any:
    """Corners (..., 4) of boxes, which are centers and sizes if `is_center`."""
    if not is_center:
        return boxes
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return np.concatenate([middle - half, middle + half], axis=-1)


def _as_centers(corners: np.ndarray) -> Any:
    return np.concatenate(center_and_size(corners), axis=-1)


def overlap(a: np.ndarray, b: np.ndarray) -> Any:
    """Intersection over union of corners a (..., 4) and b (..., 4), which are broadcast.

    Boxes that do not intersect have 0.
    """
    common = _common_area(a, b)
    both = _areas(a) + _areas(b) - common
    return np.divide(common, both, out=np.zeros_like(common), where=common > 0)


def _common_area(a: np.ndarray, b: np.ndarray, pixel: int = 0) -> Any:
    """Area of the intersection of corners; NaN in b is no limit of it."""
    sides = shared_sides(a, b) + pixel
    return np.prod(np.where(sides > 0, sides, 0), axis=-1)


def shared_sides(a: np.ndarray, b: np.ndarray) -> Any:
    """Width and height (..., 2) of the intersection of corners; NaN in b is no limit of it."""
    low, high = (np.where(beyond(b[..., part], a[..., part]), b[..., part], a[..., part])
                 for beyond, part in ((np.greater, slice(2)), (np.less, slice(2, 4))))
    return high - low


def _areas(boxes: np.ndarray, pixel: int = 0, is_center: bool = False) -> Any:
    """Areas of boxes (..., 4), which are centers and sizes if `is_center`; 0 if one is negative."""
    sizes = boxes[..., 2:4] if is_center else boxes[..., 2:4] - boxes[..., :2] + pixel
    return np.where((sizes < 0).any(axis=-1), 0, sizes.prod(axis=-1))


def suppress(boxes: np.ndarray, threshold: float, groups: np.ndarray | None = None, pixel: int = 0,
             most: int | None = None, is_center: bool = False) -> Any:
    """Positions of the boxes (n, 4), the best first, that stay: at most `most`.

    A box stays if its overlap with no better one of its group that stays is above `threshold`.
    """
    areas, corners = _areas(boxes, pixel, is_center), _as_corners(boxes, is_center)
    indices: list[int] = []
    rest = np.arange(len(boxes))
    while rest.size and len(indices) != most:
        best, rest = rest[0], rest[1:]
        indices.append(best)
        common = _common_area(corners[best], corners[rest], pixel)
        hit = common / (areas[best] + areas[rest] - common) > threshold
        if groups is not None:
            hit &= groups[rest] == groups[best]
        rest = rest[~hit]
    return np.array(indices, np.int64)


def _box_nms(op: BoxNMS, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    groups, count, most = op._counts(ins[0].shape)
    data, y = (array.reshape(groups, count, -1) for array in (ins[0], outs[0]))
    for image, rows in enumerate(data):
        indices = np.arange(count) if op.topk == 0 else _nms_indices(op, rows, most)
        y[image] = -1
        y[image, :len(indices)] = rows[indices] if op.topk == 0 else _converted(op, rows[indices])
        if outs[1] is not None:
            where = outs[1].reshape(groups, count)[image]
            where[:] = -1
            where[:len(indices)] = indices


def _nms_indices(op: BoxNMS, rows: np.ndarray, most: int) -> Any:
    """Positions of the rows that stay."""
    score = rows[:, op.score_index]
    valid = score > as_float32(op.valid_thresh)
    if op.id_index >= 0:
        valid &= rows[:, op.id_index] != op.background_id
    order = np.flatnonzero(valid)
    order = order[best_first(score[order])[:most]]
    ranked = rows[order]
    is_grouped = op.id_index >= 0 and not op.force_suppress
    threshold = rows.dtype.type(as_float32(op.overlap_thresh))
    return order[suppress(_coordinates(op, ranked), threshold,
                          ranked[:, op.id_index] if is_grouped else None,
                          is_center=op.in_format == "center")]


def _coordinates(op: BoxNMS, rows: np.ndarray) -> Any:
    return rows[:, op.coord_start:op.coord_start + 4]


def _converted(op: BoxNMS, rows: np.ndarray) -> Any:
    """A copy of rows whose boxes have the format of the output."""
    if op.in_format != op.out_format:
        box = _coordinates(op, rows)
        result = _as_corners(box, True) if op.in_format == "center" else _as_centers(box)
        box[:] = np.where(box[:, :1] < 0, box, result)
    return rows


def box_nms_gradient(op: BoxNMS, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """The gradient of _contrib_box_nms, for which there is no kernel."""
    op.backward(ins, outs, call)


def _box_iou(op: BoxIoU, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    pair, is_center = [array.reshape(-1, 4) for array in ins], op.format == "center"
    a, b = (_areas(box, is_center=is_center) for box in pair)
    lhs, rhs = (_as_corners(box, is_center) for box in pair)
    common = _common_area(lhs[:, None], rhs) if is_center else _common_area(rhs, lhs[:, None])
    shares = np.where(common <= 0, 0, common / (a[:, None] + b - common))
    outs[0][...] = shares.reshape(outs[0].shape)


def _box_encode(op: BoxEncode, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    samples, matches, anchors, refs, means, stds = ins
    valid = (samples > 0.5) & (matches >= 0) & (matches < refs.shape[1])
    match = np.where(valid, matches, 0).astype(np.int64)
    matched = np.take_along_axis(refs, match[..., None], axis=1)
    size, goal = (box[..., 2:] - box[..., :2] for box in (anchors, matched))
    shift = (matched[..., :2] + goal / 2 - anchors[..., :2] - size / 2) / size
    targets = (np.concatenate([shift, np.log(goal / size)], axis=-1) - means) / stds
    for out, values in zip(outs, (np.where(valid[..., None], targets, 0), valid[..., None]),
                           strict=True):
        if out is not None:
            out[...] = values


def _box_decode(op: BoxDecode, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    data, anchors = ins
    kind = data.dtype.type
    stds = np.array([op.std0, op.std1, op.std2, op.std3], np.float32).astype(kind)
    at, size = anchors[..., :2], anchors[..., 2:]
    if op.format == "corner":
        size = size - at
        at = at + size / 2
    growth = data[..., 2:] * stds[2:]
    if as_float32(op.clip) > 0:
        growth = np.minimum(growth, kind(as_float32(op.clip)))
    middle, reach = data[..., :2] * stds[:2] * size + at, np.exp(growth) * size / 2
    outs[0][...] = np.concatenate([middle - reach, middle + reach], axis=-1)


def _bipartite_matching(op: BipartiteMatching, ins: Sequence[Any], outs: Sequence[Any], call: Call
                       ) -> None:
    shape = ins[0].shape
    for image, scores in enumerate(ins[0].reshape(-1, *shape[-2:])):
        for out, values in zip(outs, _matched(op, scores), strict=True):
            if out is not None:
                out.reshape(-1, out.shape[-1])[image] = values


def _matched(op: BipartiteMatching, scores: np.ndarray) -> tuple[Any, Any]:
    """The column of each row, and the row of each column."""
    threshold = scores.dtype.type(as_float32(op.threshold))
    flat, width = scores.reshape(-1), scores.shape[1]
    pairs = best_first(-flat if op.is_ascend else flat)
    pairs = pairs[flat[pairs] < threshold if op.is_ascend else flat[pairs] > threshold]
    column_of, row_of = (np.full(size, -1) for size in scores.shape)
    count = 0
    while pairs.size and not 0 < op.topk < count:
        row, column = divmod(pairs[0], width)
        column_of[row], row_of[column] = column, row
        pairs = pairs[(pairs // width != row) & (pairs % width != column)]
        count += 1
    return column_of, row_of


implements(BipartiteMatching, REFERENCE, _bipartite_matching)
implements(BoxDecode, REFERENCE, _box_decode)
implements(BoxEncode, REFERENCE, _box_encode)
implements(BoxIoU, REFERENCE, _box_iou)
implements(BoxNMS, REFERENCE, _box_nms, box_nms_gradient)
