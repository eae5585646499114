"""Region proposals of SimpleDet: anchors, and predictions decoded, filtered and suppressed.

Where the fork's code for CPUs and for GPUs differ, these follow the one for GPUs, with which its
models were trained.  None of these operators has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...operator.register_op import register_op
from ...ops.detection.proposal import RegionProposals
from ...ops.elementwise.float_op import FloatOp
from ...ops.jit import kernel
from ...ops.op import Call
from ...ops.param import Floats
from ...ops.shape import PartialShape, ShapeMismatch, unify

__all__ = ["DecodeBBox", "GenAnchor", "GenProposalRetina", "Proposal_v2", "Proposal_v3",
           "RankedProposals"]

Shapes = tuple[list[PartialShape], list[PartialShape]]

Suppress = Callable[[np.ndarray, np.ndarray, np.ndarray, float, bool], None]
"""From boxes, order, threshold and whether equal overlaps suppress; writes `keep`, the third."""
MAX_LOG_SCALE = 4.135166556742356
"""log(1000 / 16): Proposal_v3 enlarges no anchor by more."""


def _base_anchors(stride: int, scales: Floats, ratios: Floats, rounds_areas: bool) -> np.ndarray:
    """Anchors (A, 4), float64, of the first position: every ratio, and of it every scale.

    A ratio is height to width.  The width of scale 1 is the root of stride^2 / ratio, a quotient
    that `rounds_areas` rounds down; widths and heights are rounded, halves to even.
    """
    anchors, center = [], 0.5 * (stride - 1)
    for ratio in ratios:
        area = stride * stride / ratio
        width = np.rint(np.sqrt(np.floor(area) if rounds_areas else area))
        height = np.rint(width * ratio)
        for scale in scales:
            across, down = 0.5 * (width * scale - 1), 0.5 * (height * scale - 1)
            anchors.append([center - across, center - down, center + across, center + down])
    return np.array(anchors)


def _all_anchors(base: np.ndarray, stride: int, height: int, width: int) -> np.ndarray:
    """The base anchors at every position: (H W A, 4), float32."""
    x, y = np.meshgrid(np.arange(width) * stride, np.arange(height) * stride)
    shift = np.stack([x, y, x, y], axis=-1).reshape(-1, 1, 4)
    return (base + shift).reshape(-1, 4).astype(np.float32)


def _per_anchor(offsets: np.ndarray, columns: int) -> np.ndarray:
    """(A columns, H, W) as (H W A, columns)."""
    planes = offsets.reshape(-1, columns, *offsets.shape[1:])
    return planes.transpose(2, 3, 0, 1).reshape(-1, columns)


def _decode(anchors: Any, offsets: Any, info: Any, from_center: float = 1,
            limit: float | None = None) -> np.ndarray:
    """Boxes of center-size offsets (dx, dy, dw, dh), clipped to the image.

    The center of a box is its corner plus half of (size - from_center).
    """
    half = anchors.dtype.type(0.5)
    size = anchors[..., 2:4] - anchors[..., :2] + 1
    log_scale = offsets[..., 2:4] if limit is None else np.minimum(offsets[..., 2:4], limit)
    center = offsets[..., :2] * size + anchors[..., :2] + half * (size - from_center)
    size = np.exp(log_scale) * size
    low = center - half * (size - from_center)
    high = center + half * (size - from_center) - (1 - from_center)
    return _clip(np.concatenate([low, high], axis=-1), info)


def _clip(boxes: Any, info: Any) -> np.ndarray:
    """Boxes cut off at the border of the image; info: (height, width, ...)."""
    last = np.array([info[1], info[0], info[1], info[0]], boxes.dtype) - 1
    return np.maximum(np.minimum(boxes, last), 0).astype(boxes.dtype)


def _sizes(boxes: Any) -> np.ndarray:
    """Width and height of each box, (..., 2)."""
    return boxes[..., 2:4] - boxes[..., :2] + 1


@kernel
def _suppress(boxes, order, keep, threshold, equal_too):
    """Greedy non-maximum suppression: indices into boxes in keep, -1 after the last.

    A box is dropped if its intersection over union with one kept before exceeds the threshold (or
    equals it, with `equal_too`).
    """
    count, one, zero = 0, boxes.dtype.type(1), boxes.dtype.type(0)
    for i in order:
        if count == keep.size:
            break
        area = (boxes[i, 2] - boxes[i, 0] + one) * (boxes[i, 3] - boxes[i, 1] + one)
        dropped = False
        for k in range(count):
            j = keep[k]
            width = max(min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0]) + one, zero)
            height = max(min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1]) + one, zero)
            other = (boxes[j, 2] - boxes[j, 0] + one) * (boxes[j, 3] - boxes[j, 1] + one)
            overlap = width * height / (area + other - width * height)
            if overlap > threshold or (equal_too and overlap == threshold):
                dropped = True
                break
        if not dropped:
            keep[count] = i
            count += 1
    keep[count:] = -1


def _descending(score: np.ndarray, count: int) -> np.ndarray:
    """Indices of the `count` highest scores (all if it is not positive); equal ones in order."""
    order = np.argsort(-score, kind="stable")
    return order[:count] if count > 0 else order


# ------------------------------------------------------------------------------------- anchors

@register_op("_contrib_GenAnchor", aliases=("GenAnchor",))
@dataclass(frozen=True)
class GenAnchor(FloatOp):
    """The anchors of a feature map: (H W A, 4), rows (left, top, right, bottom).

    A is the number of scales times that of ratios.  Of cls_prob (N, C, H, W) only H and W matter.
    """

    scales: Floats = (4.0, 8.0, 16.0, 32.0)
    ratios: Floats = (0.5, 1.0, 2.0)
    feature_stride: int = 16

    inputs: ClassVar = ("cls_prob",)
    gpu_module: ClassVar = "nbmod.contrib.simpledet.cuda.proposals"
    reads_shapes: ClassVar = True

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        data = ins[0]
        if data is None:
            return ins, outs
        if len(data) != 4:
            raise ShapeMismatch(f"cls_prob has shape {data}, expected (N, C, H, W)")
        count = data[2] * data[3] * len(self.scales) * len(self.ratios)
        return ins, [unify((count, 4), outs[0], "output and (H W A, 4)")]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        base = _base_anchors(self.feature_stride, self.scales, self.ratios, False)
        outs[0][...] = _all_anchors(base, self.feature_stride, *ins[0].shape[2:])


# ----------------------------------------------------------------------------------- proposals

@dataclass(frozen=True)
class RankedProposals(RegionProposals):
    """Base: decodes, orders and selects boxes by image, (N, P, 4) and scores (N, P, 1)."""

    def _select(self, suppress: Suppress, boxes: Any, score: Any, order: Any, rois: Any, out: Any
                ) -> None:
        """The first boxes in `order` that stay; the rest of rois repeats them, or is 0."""
        equal_too, repeats = self._rules()
        keep = np.empty(min(len(rois), len(order)), np.int64)
        suppress(boxes, order, keep, boxes.dtype.type(self.threshold), equal_too)
        keep = keep[keep >= 0]
        taken = np.resize(keep, len(rois)) if repeats else keep
        rois[...], out[...] = 0, 0
        rois[:len(taken)] = boxes[taken]
        out[:len(taken), 0] = score[taken]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.propose(ins, outs, _suppress)

    def propose(self, ins: Sequence[Any], outs: Sequence[Any], suppress: Suppress) -> None:
        """Forward, with a function that suppresses boxes."""
        prob, offsets, info = ins[:3]
        count, (height, width) = prob.shape[1] // 2, prob.shape[2:]
        anchors = _all_anchors(self._anchors(), self.feature_stride, height, width)
        out = outs[1] if outs[1] is not None else np.empty((*outs[0].shape[:2], 1), prob.dtype)
        for n in range(len(prob)):
            score = _per_anchor(prob[n, count:], 1)[:, 0].copy()
            boxes = self._boxes(anchors, _per_anchor(offsets[n], 4), info[n])
            boxes = np.ascontiguousarray(boxes, np.float32)
            order = self._sort(boxes, score, info[n], self._outside(info[n], height, width),
                               *(extra[n] for extra in ins[3:]))
            self._select(suppress, boxes, score, order, outs[0][n], out[n])

    def _boxes(self, anchors: Any, offsets: Any, info: Any) -> np.ndarray:
        """Boxes of all anchors, clipped to the image."""
        if self.iou_loss:
            return _clip(anchors + offsets, info)
        return _decode(anchors, offsets, info)

    def _outside(self, info: Any, height: int, width: int) -> np.ndarray:
        """Which anchors are at positions outside of the image."""
        row, column = np.mgrid[:height, :width]
        outside = ((row >= int(info[0] / self.feature_stride))
                   | (column >= int(info[1] / self.feature_stride)))
        return np.repeat(outside, len(self.scales) * len(self.ratios))

    def _sort(self, boxes: Any, score: Any, info: Any, outside: Any, *extra: Any) -> np.ndarray:
        """The order in which boxes are selected; those that are no proposals get score -1."""
        raise NotImplementedError

    def _rules(self) -> tuple[bool, bool]:
        """Whether an overlap equal to the threshold suppresses; whether proposals are repeated."""
        raise NotImplementedError


def _grow(boxes: Any, which: Any, pixels: float) -> None:
    """Enlarge some boxes by `pixels` in all."""
    boxes[which] += np.array([-0.5, -0.5, 0.5, 0.5], boxes.dtype) * boxes.dtype.type(pixels)


@register_op("_contrib_Proposal_v2", aliases=("Proposal_v2",))
@dataclass(frozen=True)
class Proposal_v2(RankedProposals):  # noqa: N801 - the name of the operator
    """Region proposals (N, P, 4) and scores (N, P, 1), P = rpn_post_nms_top_n.

    As `_contrib_MultiProposal`, but rois are by image and without its number, and rows that are
    left over are 0.  With `filter_scales` boxes whose area is outside of valid_ranges (N, 2), the
    squares of a row's smallest and largest side, get score -1 too.  `workspace` changes nothing.
    """

    workspace: int = 256
    filter_scales: bool = False

    inputs: ClassVar = ("cls_prob", "bbox_pred", "im_info", "valid_ranges")

    def _sort(self, boxes: Any, score: Any, info: Any, outside: Any, *extra: Any) -> np.ndarray:
        sides, least = _sizes(boxes), self.rpn_min_size * info[2]
        small = (sides < least).any(axis=1)
        dropped = outside | small
        if self.filter_scales:
            low, high = extra[0] ** 2
            area = sides.prod(axis=1)
            dropped |= (area < low) | (area > high)
        score[dropped] = -1
        _grow(boxes, small, least)
        return _descending(score, self.rpn_pre_nms_top_n)

    def _rules(self) -> tuple[bool, bool]:
        return False, False


@register_op("_contrib_Proposal_v3", aliases=("Proposal_v3",))
@dataclass(frozen=True)
class Proposal_v3(RankedProposals):  # noqa: N801 - the name of the operator
    """Region proposals (N, P, 4) and scores (N, P, 1) as in Detectron, P = rpn_post_nms_top_n.

    Anchors are rounded to even; offsets move the middle of a box that is one pixel larger, and
    enlarge it at most by 1000 / 16.  A box smaller than max(rpn_min_size, 1) pixels of the original
    image on a side, or whose center is outside of the image, grows by as much and gets score -1,
    but keeps its place among the `rpn_pre_nms_top_n` best, and suppresses others; an overlap equal
    to the threshold suppresses as well.  With `iou_loss` anchors outside of the image come last.
    Rows that are left over repeat proposals with `is_train`, otherwise they are 0.  `workspace`
    changes nothing.
    """

    is_train: bool = False
    workspace: int = 256

    def _anchors(self) -> np.ndarray:
        return _base_anchors(self.feature_stride, self.scales, self.ratios, True)

    def _boxes(self, anchors: Any, offsets: Any, info: Any) -> np.ndarray:
        if self.iou_loss:
            return super()._boxes(anchors, offsets, info)
        return _decode(anchors, offsets, info, 0, MAX_LOG_SCALE)

    def _sort(self, boxes: Any, score: Any, info: Any, outside: Any, *extra: Any) -> np.ndarray:
        if self.iou_loss:
            score[outside] = -1
        order = _descending(score, self.rpn_pre_nms_top_n)
        least, sides = max(self.rpn_min_size, 1), _sizes(boxes)
        center = boxes[:, :2] + sides / 2
        dropped = (((sides - 1) / info[2] + 1 < least) | (center >= info[1::-1])).any(axis=1)
        score[dropped] = -1
        _grow(boxes, dropped, least)
        return order

    def _rules(self) -> tuple[bool, bool]:
        return True, self.is_train


# ----------------------------------------------------------------------------------- RetinaNet

@register_op("_contrib_GenProposalRetina", aliases=("GenProposalRetina",))
@dataclass(frozen=True, kw_only=True)
class GenProposalRetina(FloatOp):
    """The best boxes of one level of RetinaNet: (N, P, 4) and scores (N, P, K + 1).

    P = rpn_pre_nms_top_n.  cls_prob (N, A K, H, W) for A = `num_anchors` and K classes, bbox_pred
    (N, 4 A, H, W), im_info (N, 3), anchors (H W A, 4), or (N, H W A, 4) with
    `batch_wise_anchor`.  Offsets are multiplied by anchor_std and added to anchor_mean, with
    `iou_loss` instead added to the corners.  Pairs of an anchor and a class are sorted by score;
    those not above `thresh`, and boxes smaller than rpn_min_size times the scale of the image, are
    left out, and rows left over are 0.  A score is in the column of its class, after one for the
    background; without `output_one_hot` there is one column.  `workspace` changes nothing.
    """

    num_anchors: int
    rpn_pre_nms_top_n: int = 6000
    rpn_min_size: int = 16
    feature_stride: int = 16
    thresh: float = 0.0
    anchor_mean: Floats = (0.0, 0.0, 0.0, 0.0)
    anchor_std: Floats = (1.0, 1.0, 1.0, 1.0)
    iou_loss: bool = False
    output_one_hot: bool = True
    batch_wise_anchor: bool = False
    workspace: int = 256

    inputs: ClassVar = ("cls_prob", "bbox_pred", "im_info", "anchors")
    outputs: ClassVar = ("output", "scores")

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        prob, count = ins[0], self.num_anchors
        if prob is None:
            return ins, outs
        if len(prob) != 4 or count < 1 or prob[1] % count or self.rpn_pre_nms_top_n < 1:
            raise ShapeMismatch(f"cls_prob has shape {prob}, num_anchors is {count} and "
                                f"rpn_pre_nms_top_n {self.rpn_pre_nms_top_n}, expected (N, A K, H, "
                                "W), A and at least 1")
        boxes = (prob[2] * prob[3] * count, 4)
        expected = [prob, (prob[0], 4 * count, *prob[2:]), (prob[0], 3),
                    (prob[0], *boxes) if self.batch_wise_anchor else boxes]
        columns = prob[1] // count + 1 if self.output_one_hot else 1
        rows = (prob[0], self.rpn_pre_nms_top_n)
        return ([unify(shape, full, f"{name} and {full}") for shape, full, name
                 in zip(ins, expected, self.inputs, strict=True)],
                [unify((*rows, width), out, "output") for width, out
                 in zip((4, columns), outs, strict=True)])

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        prob, offsets, infos, anchors = ins
        classes = prob.shape[1] // self.num_anchors
        for n, info in enumerate(infos):
            boxes = self._boxes(anchors[n] if self.batch_wise_anchor else anchors,
                                _per_anchor(offsets[n], 4), info)
            large = (_sizes(boxes) >= self.rpn_min_size * info[2]).all(axis=1)
            score = _per_anchor(prob[n], classes)  # (H W A, K)
            chosen = np.flatnonzero((score > self.thresh) & large[:, None])
            score = score.reshape(-1)[chosen]
            best = _descending(score, self.rpn_pre_nms_top_n)
            row, kind = np.divmod(chosen[best], classes)
            outs[0][n] = 0
            outs[0][n, :len(best)] = boxes[row]
            if outs[1] is not None:
                outs[1][n] = 0
                column = kind + 1 if self.output_one_hot else 0
                outs[1][n, np.arange(len(best)), column] = score[best]

    def _boxes(self, anchors: Any, offsets: Any, info: Any) -> np.ndarray:
        if self.iou_loss:
            return _clip(anchors + offsets, info)
        mean, std = (np.array(each, anchors.dtype) for each in (self.anchor_mean, self.anchor_std))
        return _decode(anchors, offsets * std + mean, info)


# -------------------------------------------------------------------------------- second stage

@register_op("_contrib_DecodeBBox", aliases=("DecodeBBox",))
@dataclass(frozen=True)
class DecodeBBox(FloatOp):
    """The boxes that a second stage predicts: rois (N, R, 4), bbox_pred (N, R, 4 K) -> (N, R, 4 K).

    Offsets are multiplied by bbox_std and added to bbox_mean.  They move the center and scale the
    size ("xywh"), or move the corners in units of the size ("xyxy"); boxes are clipped to the
    image, im_info (N, 3).  With `class_agnostic` only the second class is decoded: (N, R, 4).
    """

    bbox_mean: Floats = (0.0, 0.0, 0.0, 0.0)
    bbox_std: Floats = (0.1, 0.1, 0.2, 0.2)
    class_agnostic: bool = True
    bbox_decode_type: Literal["xywh", "xyxy"] = "xywh"

    inputs: ClassVar = ("rois", "bbox_pred", "im_info")
    gpu_module: ClassVar = "nbmod.contrib.simpledet.cuda.proposals"

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        offsets = ins[1]
        if offsets is None:
            return ins, outs
        least = 8 if self.class_agnostic else 4
        if len(offsets) != 3 or offsets[2] % 4 or 0 < offsets[2] < least:
            raise ShapeMismatch(f"bbox_pred has shape {offsets}, expected (N, R, 4 K) with {least} "
                                "columns or more")
        rows = offsets[:2]
        return ([unify(ins[0], (*rows, 4), "rois and (N, R, 4)"), offsets,
                 unify(ins[2], (rows[0], 3), "im_info and (N, 3)")],
                [unify((*rows, 4) if self.class_agnostic else offsets, outs[0], "output")])

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        rois, offsets, infos = ins
        kind = rois.dtype
        offsets = offsets.reshape(*offsets.shape[:2], -1, 4)
        if self.class_agnostic:
            offsets = offsets[:, :, 1:2]
        offsets = offsets * np.array(self.bbox_std, kind) + np.array(self.bbox_mean, kind)
        for n, info in enumerate(infos):
            boxes = rois[n, :, None]
            if self.bbox_decode_type == "xywh":
                moved = _decode(boxes, offsets[n], info)
            else:
                moved = _clip(boxes + offsets[n] * np.tile(_sizes(boxes), 2), info)
            outs[0][n] = moved.reshape(outs[0][n].shape)
