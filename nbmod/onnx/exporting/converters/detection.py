"""Boxes: decoding, overlaps, non-maximum suppression, proposals, and pooling of regions.

NonMaxSuppression of ONNX returns indices of the boxes that stay.  MXNet's operators return rows in
a tensor of fixed size, so each becomes a subgraph that sorts rows, marks those that stay, and moves
them to the front.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Tensor, Value

LOWEST = float(np.finfo(np.float32).min)
CORNERS = np.asarray([[1, 0, 1, 0], [0, 1, 0, 1], [-0.5, 0, 0.5, 0], [0, -0.5, 0, 0.5]])
"""(x, y, w, h) times this is (left, top, right, bottom)."""
CENTERS = np.linalg.inv(CORNERS)
MAX_ANCHORS = 2 ** 22
"""Boxes of one image, which are constants."""


def columns(node: NodeExport, value: Value, begin: int, end: int) -> Value:
    """Columns of the last axis."""
    return node.part(value, begin, end, -1)


def column(node: NodeExport, value: Value, index: int) -> Value:
    """One column, without its axis."""
    return node.axes_op("Squeeze", columns(node, value, index, index + 1), [-1])


def rows_at(node: NodeExport, rows: Value, order: Value, width: int) -> Value:
    """Rows (G, N, K) at positions (G, M)."""
    spread = node.emit("Expand", node.axes_op("Unsqueeze", order, [2]), [1, 1, width])
    return node.emit("GatherElements", rows, spread, axis=1)


def best_first(node: NodeExport, score: Value, count: int) -> tuple[Value, Value]:
    """The `count` largest scores (G, count) and their positions; equal ones in order."""
    scores, order = node.emit_many("TopK", 2, score, [count], axis=1, largest=1, sorted=1)
    return scores, order


def marked_first(node: NodeExport, marks: Value, count: int) -> Value:
    """Positions (G, count) of marked rows in order, then those of the others."""
    falling = np.arange(count, 0, -1).astype(np.float32)
    key = node.emit("Mul", node.cast(marks, np.float32), falling)
    return best_first(node, key, count)[1]


def suppressed(node: NodeExport, boxes: Value, scores: Value, count: int, overlap: float,
               filtered: bool = True) -> Value:
    """Marks (G, N) of the boxes (G, N, 4) that stay; `scores` are (G, classes, N).

    With `filtered`, scores of LOWEST are no candidates.
    """
    least = np.asarray([LOWEST], np.float32) if filtered else None
    chosen = node.emit("NonMaxSuppression", boxes, scores, [count],
                       np.asarray([overlap], np.float32), least)
    places = node.emit("Gather", chosen, np.asarray([0, 2], np.int64), axis=1)
    zeros = node.emit("ConstantOfShape", node.emit(
        "Shape", boxes, start=0, end=2), value=np.zeros(1, np.float32))
    amount = node.emit("Shape", places, start=0, end=1)
    ones = node.emit("ConstantOfShape", amount, value=np.ones(1, np.float32))
    return node.cast(node.emit("ScatterND", zeros, places, ones), np.bool_)


def linear(node: NodeExport, boxes: Value, matrix: Tensor) -> Value:
    """Boxes in another format."""
    return node.emit("MatMul", boxes, matrix.astype(np.float32))


def require_single(node: NodeExport) -> None:
    """NonMaxSuppression is defined over float32."""
    if node.ins[0].dtype != np.float32:
        node.refuse(f"its data are {node.ins[0].dtype}, NonMaxSuppression takes float32")


# ---------------------------------------------------------------------------------------------- NMS

@converts("_contrib_box_nms")
def _box_nms(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    require_single(node)
    if op.topk == 0:
        return node.x
    if not 0 <= op.overlap_thresh <= 1:
        node.refuse(f"overlap_thresh is {op.overlap_thresh}, expected 0 to 1")
    boxes, width = node.static(info, [info.ndim - 2, info.ndim - 1])[-2:]
    count = min(op.topk, boxes) if op.topk > 0 else boxes
    rows = node.reshape_to(node.x, -1, boxes, width)
    score, order = best_first(node, _candidates(node, rows), count)
    ordered = rows_at(node, rows, order, width)
    corners = columns(node, ordered, op.coord_start, op.coord_start + 4)
    if op.in_format == "center":
        corners = linear(node, corners, CORNERS)
    if op.id_index >= 0 and not op.force_suppress:
        corners = _apart(node, corners, columns(node, ordered, op.id_index, op.id_index + 1))
    marks = suppressed(node, corners, node.axes_op("Unsqueeze", score, [1]), count,
                       op.overlap_thresh)
    front = marked_first(node, marks, count)
    mask = node.axes_op("Unsqueeze", node.emit("GatherElements", marks, front, axis=1), [2])
    result = _formatted(node, rows_at(node, ordered, front, width), width)
    result = node.emit("Where", mask, result, node.scalar(-1.0))
    if count < boxes:
        result = node.emit("Pad", result, [0, 0, 0, 0, boxes - count, 0], node.scalar(-1.0))
    return node.reshape(result, node.outs[0])


def _candidates(node: NodeExport, rows: Value) -> Value:
    """Scores (G, N), LOWEST for rows that are no candidates."""
    op = node.op
    score = column(node, rows, op.score_index)
    valid = node.emit("Greater", score, node.scalar(op.valid_thresh))
    if op.id_index >= 0:
        background = node.emit("Equal", column(node, rows, op.id_index),
                               node.scalar(op.background_id))
        valid = node.emit("And", valid, node.emit("Not", background))
    return node.emit("Where", valid, score, node.scalar(LOWEST))


def _apart(node: NodeExport, corners: Value, classes: Value) -> Value:
    """Boxes moved by their class, so that those of different classes do not overlap."""
    span = node.emit("Sub", node.emit("ReduceMax", corners, keepdims=0),
                     node.emit("ReduceMin", corners, keepdims=0))
    step = node.emit("Add", span, node.scalar(1.0))
    return node.emit("Add", corners, node.emit("Mul", classes, step))


def _formatted(node: NodeExport, rows: Value, width: int) -> Value:
    """Rows with their boxes in the format of the output."""
    op = node.op
    if op.in_format == op.out_format:
        return rows
    first, last = op.coord_start, op.coord_start + 4
    matrix = CORNERS if op.in_format == "center" else CENTERS
    parts = [columns(node, rows, 0, first)] * (first > 0)
    boxes = columns(node, rows, first, last)
    stays = node.emit("Less", columns(node, rows, first, first + 1), node.scalar(0.0))
    parts.append(node.emit("Where", stays, boxes, linear(node, boxes, matrix)))
    parts += [columns(node, rows, last, width)] * (last < width)
    return node.emit("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]


@converts("_contrib_MultiBoxDetection")
def _multibox_detection(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    require_single(node)
    classes, count = node.static(info, (1, 2))[1:]
    chances = node.part(node.x, 1, classes, 1)
    score = node.reduce("ReduceMax", chances, [1], keepdims=False)
    best = node.cast(node.emit("ArgMax", chances, axis=1, keepdims=0), np.float32)
    valid = node.emit("Not", node.emit("Less", score, node.scalar(op.threshold)))
    rows = node.emit("Concat", node.axes_op("Unsqueeze", best, [2]),
                     node.axes_op("Unsqueeze", score, [2]), _decoded(node), axis=2)
    front = marked_first(node, valid, count)
    there = node.emit("GatherElements", valid, front, axis=1)
    rows = rows_at(node, rows, front, 6)
    if not 0 < op.nms_threshold <= 1:
        return node.emit("Where", node.axes_op("Unsqueeze", there, [2]), rows, node.scalar(-1.0))
    return _detections(node, rows, there, classes - 1, count)


def _detections(node: NodeExport, rows: Value, there: Value, classes: int, count: int) -> Value:
    """The rows that are `there`, sorted, with the class of suppressed ones -1."""
    op = node.op
    sorted_count = min(op.nms_topk, count) if op.nms_topk > 0 else count
    score = node.emit("Where", there, column(node, rows, 1), node.scalar(LOWEST))
    score, order = best_first(node, score, sorted_count)
    ordered = rows_at(node, rows, order, 6)
    ids = column(node, ordered, 0)
    scores = node.axes_op("Unsqueeze", score, [1])
    if not op.force_suppress:
        numbers = np.arange(classes, dtype=np.float32).reshape(1, -1, 1)
        own = node.emit("Equal", node.axes_op("Unsqueeze", ids, [1]), numbers)
        scores = node.emit("Where", own, scores, node.scalar(LOWEST))
    marks = suppressed(node, columns(node, ordered, 2, 6), scores, sorted_count,
                       float(op.least_overlap(np.float32)))
    ids = node.emit("Where", marks, ids, node.scalar(-1.0))
    result = node.emit("Concat", node.axes_op("Unsqueeze", ids, [2]),
                       columns(node, ordered, 1, 6), axis=2)
    if sorted_count < count:  # the others stay in the order of anchors, without a class
        others = columns(node, node.part(rows, sorted_count, count, 1), 1, 6)
        unnamed = node.emit("Concat", node.emit("Sub", node.emit(
            "Mul", columns(node, others, 0, 1), node.scalar(0.0)), node.scalar(1.0)), others,
            axis=2)
        result = node.emit("Concat", result, unnamed, axis=1)
    there = node.axes_op("Unsqueeze", there, [2])
    return node.emit("Where", there, result, node.scalar(-1.0))


def _decoded(node: NodeExport) -> Value:
    """Corners (B, A, 4) of the anchors moved by loc_pred."""
    op, count = node.op, node.ins[0].shape[2]
    offsets = node.emit("Mul", node.reshape_to(node.inputs[1], -1, count, 4),
                        np.asarray(op.variances, np.float32))
    boxes = _moved(node, offsets, linear(node, node.inputs[2], CENTERS))
    if not op.clip:
        return boxes
    return node.emit("Clip", boxes, node.scalar(0.0), node.scalar(1.0))


def _moved(node: NodeExport, offsets: Value, anchors: Value, limit: float = 0) -> Value:
    """Corners of anchors (x, y, w, h) whose center moves by its size, and whose size grows."""
    size = columns(node, anchors, 2, 4)
    center = node.emit("Add", node.emit("Mul", columns(node, offsets, 0, 2), size),
                       columns(node, anchors, 0, 2))
    growth = columns(node, offsets, 2, 4)
    if limit > 0:
        growth = node.emit("Min", growth, node.scalar(limit))
    reach = node.emit("Mul", node.emit("Mul", node.emit("Exp", growth), size), node.scalar(0.5))
    return node.emit("Concat", node.emit("Sub", center, reach),
                     node.emit("Add", center, reach), axis=-1)


@converts("_contrib_box_decode")
def _box_decode(node: NodeExport) -> Value:
    op, kind = node.op, node.ins[0].dtype
    scales = np.asarray([op.std0, op.std1, op.std2, op.std3], kind)
    anchors = node.inputs[1]
    if op.format == "corner":
        anchors = node.emit("MatMul", anchors, CENTERS.astype(kind))
    return _moved(node, node.emit("Mul", node.x, scales), anchors, op.clip)


@converts("_contrib_box_iou")
def _box_iou(node: NodeExport) -> Value:
    kind = node.ins[0].dtype
    corners = [node.reshape_to(value, -1, 4) for value in node.inputs]
    if node.op.format == "center":
        corners = [node.emit("MatMul", each, CORNERS.astype(kind)) for each in corners]
    lhs, rhs = (node.axes_op("Unsqueeze", each, [axis])
                for each, axis in zip(corners, (1, 0), strict=True))
    low = node.emit("Max", columns(node, lhs, 0, 2), columns(node, rhs, 0, 2))
    high = node.emit("Min", columns(node, lhs, 2, 4), columns(node, rhs, 2, 4))
    shared = _area(node, low, high)
    areas = [_area(node, columns(node, each, 0, 2), columns(node, each, 2, 4))
             for each in (lhs, rhs)]
    union = node.emit("Sub", node.emit("Add", *areas), shared)
    none = node.emit("LessOrEqual", shared, node.scalar(0.0))
    iou = node.emit("Div", shared, node.emit("Where", none, node.scalar(1.0), union))
    return node.reshape(node.emit("Where", none, node.scalar(0.0), iou), node.outs[0])


def _area(node: NodeExport, low: Value, high: Value) -> Value:
    sides = node.emit("Max", node.emit("Sub", high, low), node.scalar(0.0))
    return node.reduce("ReduceProd", sides, [2], keepdims=False)


# ---------------------------------------------------------------------------------------- proposals

class FeatureMap(NamedTuple):
    """Sizes of a map of predictions."""

    batch: int
    anchors: int
    height: int
    width: int

    @property
    def boxes(self) -> int:
        """Boxes of one image."""
        return self.anchors * self.height * self.width


@converts("_contrib_Proposal", "_contrib_MultiProposal")
def _proposal(node: NodeExport) -> list[Value]:
    op = node.op
    require_single(node)
    batch, channels, height, width = node.static(node.ins[0])
    image = FeatureMap(batch, channels // 2, height, width)
    if image.boxes > MAX_ANCHORS:
        node.refuse(f"its {image.boxes} anchors are more than {MAX_ANCHORS}")
    boxes, small = _proposed(node, image)
    prob = node.transpose(node.part(node.x, image.anchors, channels, 1), 0, 2, 3, 1)
    dropped = node.emit("Or", small, _outside(node, image))
    score = node.emit("Where", dropped, node.scalar(-1.0),
                      node.reshape_to(prob, batch, image.boxes))
    top, total = op.rpn_pre_nms_top_n, image.boxes
    count = min(top, total) if top > 0 else total
    score, order = best_first(node, score, count)
    boxes = rows_at(node, boxes, order, 4)
    wide = node.emit("Add", boxes, np.asarray([0, 0, 1, 1], np.float32))
    marks = suppressed(node, wide, node.axes_op("Unsqueeze", score, [1]), count, op.threshold,
                       filtered=False)
    places = _repeated(node, marks, count)
    numbers = np.repeat(np.arange(batch, dtype=np.float32), op.rpn_post_nms_top_n)
    rois = node.emit("Concat", numbers.reshape(batch, -1, 1), rows_at(node, boxes, places, 4),
                     axis=2)
    scores = node.emit("GatherElements", score, places, axis=1)
    return [node.reshape_to(rois, -1, 5), node.reshape_to(scores, -1, 1)]


def _repeated(node: NodeExport, marks: Value, count: int) -> Value:
    """Positions of the first marked rows, repeated to fill up."""
    amount = node.reduce("ReduceSum", node.cast(marks, np.int64), [1])
    turns = node.emit("Mod", np.arange(node.op.rpn_post_nms_top_n)[None], amount)
    return node.emit("GatherElements", marked_first(node, marks, count), turns, axis=1)


def _proposed(node: NodeExport, image: FeatureMap) -> tuple[Value, Value]:
    """Boxes (N, H W A, 4) within the image, and marks of those that are too small."""
    op = node.op
    y, x = np.meshgrid(np.arange(image.height), np.arange(image.width), indexing="ij")
    shifts = np.stack([x, y, x, y], axis=-1)[:, :, None] * op.feature_stride
    anchors = (shifts + op._anchors()).reshape(1, -1, 4).astype(np.float32)
    offsets = node.reshape_to(node.inputs[1], image.batch, image.anchors, 4, image.height,
                              image.width)
    offsets = node.reshape_to(node.transpose(offsets, 0, 3, 4, 1, 2), image.batch, image.boxes, 4)
    if op.iou_loss:
        boxes = node.emit("Add", offsets, anchors)
    else:
        size = anchors[..., 2:] - anchors[..., :2] + 1
        boxes = _around(node, offsets, anchors[..., :2] + 0.5 * (size - 1), size)
    sizes = node.emit("Gather", node.inputs[2], np.asarray([1, 0, 1, 0], np.int64), axis=1)
    last = node.axes_op("Unsqueeze", node.emit("Sub", sizes, node.scalar(1.0)), [1])
    boxes = node.emit("Max", node.emit("Min", boxes, last), node.scalar(0.0))
    return _grown(node, boxes)


def _around(node: NodeExport, offsets: Value, center: Tensor, size: Tensor) -> Value:
    """Boxes in pixels: one from left to right is right - left + 1 wide."""
    middle = node.emit("Add", node.emit("Mul", columns(node, offsets, 0, 2), size), center)
    grown = node.emit("Mul", node.emit("Exp", columns(node, offsets, 2, 4)), size)
    reach = node.emit("Mul", node.emit("Sub", grown, node.scalar(1.0)), node.scalar(0.5))
    return node.emit("Concat", node.emit("Sub", middle, reach), node.emit("Add", middle, reach),
                     axis=2)


def _grown(node: NodeExport, boxes: Value) -> tuple[Value, Value]:
    """Boxes, those that are too small grown by the least size, and marks of these."""
    scale = node.axes_op("Unsqueeze", columns(node, node.inputs[2], 2, 3), [1])
    least = node.emit("Mul", scale, node.scalar(node.op.rpn_min_size))
    sides = node.emit("Add", node.emit("Sub", columns(node, boxes, 2, 4),
                                       columns(node, boxes, 0, 2)), node.scalar(1.0))
    short = node.cast(node.emit("Less", sides, least), np.float32)
    small = node.cast(node.reduce("ReduceMax", short, [2]), np.bool_)
    half = node.emit("Mul", least, np.asarray([-0.5, -0.5, 0.5, 0.5], np.float32))
    grown = node.emit("Where", small, node.emit("Add", boxes, half), boxes)
    return grown, node.axes_op("Squeeze", small, [2])


def _outside(node: NodeExport, image: FeatureMap) -> Value:
    """Marks (N, H W A) of positions outside of the image."""
    limits = node.emit("Floor", node.emit("Div", node.inputs[2],
                                          node.scalar(node.op.feature_stride)))
    y, x, _ = np.meshgrid(*(np.arange(size, dtype=np.float32) for size in (
        image.height, image.width, image.anchors)), indexing="ij")
    below, right = (node.emit("GreaterOrEqual", each.reshape(1, -1),
                              columns(node, limits, axis, axis + 1))
                    for each, axis in ((y, 0), (x, 1)))
    return node.emit("Or", below, right)


# ------------------------------------------------------------------------------------------ regions

class ImageRegions(NamedTuple):
    """ImageRegions with the numbers of their images."""

    numbers: Value
    """(R,), 0 for those of no image."""
    corners: Value
    inside: Value
    """Marks (R, 1, 1, 1) of the regions that are of an image."""


def _regions(node: NodeExport) -> ImageRegions:
    """The second input; runtimes refuse regions of no image, which MXNet pads their number with."""
    info, kind = node.ins[0], node.ins[1].dtype
    number = column(node, node.inputs[1], 0)
    images = node.cast(node.size(node.x, info, 0), kind)
    inside = node.emit("And", node.emit("GreaterOrEqual", number, node.scalar(0, kind)),
                       node.emit("Less", number, images))
    return ImageRegions(node.emit("Where", inside, number, node.scalar(0, kind)),
                   columns(node, node.inputs[1], 1, 5), node.reshape_to(inside, -1, 1, 1, 1))


@converts("_contrib_ROIAlign")
def _roi_align(node: NodeExport) -> Value:
    op, regions = node.op, _regions(node)
    if op.position_sensitive:
        node.refuse("its channels depend on the position in the region (position_sensitive)")
    mode = "half_pixel" if op.aligned else "output_half_pixel"
    pooled = node.emit("RoiAlign", node.x, regions.corners, node.cast(regions.numbers, np.int64),
                       output_height=op.pooled_size[0], output_width=op.pooled_size[1],
                       sampling_ratio=max(op.sample_ratio, 0), spatial_scale=op.spatial_scale,
                       coordinate_transformation_mode=mode)
    return node.emit("Where", regions.inside, pooled, node.scalar(0))


@converts("ROIPooling")
def _roi_pooling(node: NodeExport) -> Value:
    regions = _regions(node)
    rois = node.emit("Concat", node.axes_op("Unsqueeze", regions.numbers, [1]), regions.corners,
                     axis=1)
    pooled = node.emit("MaxRoiPool", node.x, rois, pooled_shape=list(node.op.pooled_size),
                       spatial_scale=node.op.spatial_scale)
    return node.emit("Where", regions.inside, pooled, node.scalar(0))
