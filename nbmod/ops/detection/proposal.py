"""Region proposals of Faster R-CNN (Ren et al. 2015).

Boxes are in pixels: one from left to right is right - left + 1 wide.  Every position of the feature
map has the same few anchors; predictions transform them to boxes, the best are sorted by score, and
those that overlap better ones are suppressed.  One task is one image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp, as_float32
from ..jit import inlined, kernel, prange
from ..op import Call, Run, Spec
from ..param import Floats
from ..shape import ShapeMismatch, Shapes, unify
from ..tensor.ordering import INT64, rank_work, ranking
from .boxes import KEPT_ROWS, area, keep, overlaps_any

__all__ = ["MultiProposal", "Proposal", "RegionProposals"]


# ------------------------------------------------------------------------------------------ kernels

@inlined
def _move(box, offset, plain, limits):
    """Apply offsets to the anchor `box` in place and clip it at the border of the image."""
    half, one = box.dtype.type(0.5), box.dtype.type(1)
    for axis in range(2):
        if plain:
            low, high = box[axis] + offset[axis], box[axis + 2] + offset[axis + 2]
        else:
            size = box[axis + 2] - box[axis] + one
            middle = offset[axis] * size + box[axis] + half * (size - one)
            reach = half * (box.dtype.type(np.exp(offset[axis + 2])) * size - one)
            low, high = middle - reach, middle + reach
        last = limits[axis] - one
        box[axis] = max(min(low, last), box.dtype.type(0))
        box[axis + 2] = max(min(high, last), box.dtype.type(0))


@inlined
def _too_small(box, least):
    """Whether `box` is smaller than `least` pixels on a side; if so it grows by that much."""
    one, half, (left, top, right, bottom) = box.dtype.type(1), least * box.dtype.type(0.5), box
    if right - left + one >= least and bottom - top + one >= least:
        return False
    box[0] -= half
    box[1] -= half
    box[2] += half
    box[3] += half
    return True


@kernel(parallel=True)
def _propose(prob, offsets, info, anchors, params, boxes, score):
    """boxes (N, H W A, 4) and score (N, H W A) from offsets (N, A, 4, H, W).

    params: stride, minimal size, whether offsets are those of corners.
    """
    count, (height, width), (stride, least, plain) = anchors.shape[0], prob.shape[2:], params
    kind = boxes.dtype.type
    for line in prange(prob.shape[0] * height):
        image, y = line // height, line % height
        high, wide, scale = info[image]
        for x in range(width):
            for a in range(count):
                at = (y * width + x) * count + a
                box = boxes[image, at]
                for axis in range(4):
                    box[axis] = anchors[a, axis] + kind(y if axis % 2 else x) * stride
                _move(box, offsets[image, a, :, y, x], plain > 0, (wide, high))
                outside = y >= int(high / stride) or x >= int(wide / stride)
                small = _too_small(box, least * scale)
                score[image, at] = kind(-1) if outside or small else prob[image, count + a, y, x]


@inlined
def _select(boxes, score, order, threshold, survivors, where, image, rois, out):
    """rois (post, 5) and out (post, 1): the best boxes after suppression, repeated to fill up."""
    count, one = 0, boxes.dtype.type(1)
    for k in range(order.size):
        if count == rois.shape[0]:
            break
        left, top, right, bottom = boxes[order[k]]
        box = left, top, right, bottom
        own = area(box, False, one)
        if not overlaps_any(box, own, one, survivors, count, threshold, one, False):
            keep(box, own, one, survivors, count)
            where[count] = order[k]
            count += 1
    for k in range(rois.shape[0]):
        source = where[k % count]
        rois[k, 0] = image
        rois[k, 1:] = boxes[source]
        out[k, 0] = score[source]


@kernel(parallel=True)
def _select_all(boxes, score, order, threshold, survivors, where, rois, out):
    for image in prange(boxes.shape[0]):
        _select(boxes[image], score[image], order[image], threshold, survivors[image], where[image],
                image, rois[image], out[image])


# ---------------------------------------------------------------------------------------------- ops

@dataclass(frozen=True)
class RegionProposals(FloatOp):
    """Base of operators that make proposals: parameters, shapes of inputs, and anchors.

    cls_prob (N, 2 A, H, W), bbox_pred (N, 4 A, H, W) and im_info (N, 3); some also have
    valid_ranges (N, 2).
    """

    rpn_pre_nms_top_n: int = 6000
    rpn_post_nms_top_n: int = 300
    threshold: float = 0.7
    rpn_min_size: int = 16
    scales: Floats = (4.0, 8.0, 16.0, 32.0)
    ratios: Floats = (0.5, 1.0, 2.0)
    feature_stride: int = 16
    output_score: bool = False
    iou_loss: bool = False

    inputs: ClassVar[tuple[str, ...]] = ("cls_prob", "bbox_pred", "im_info")
    outputs: ClassVar = ("output", "score")
    columns: ClassVar[int] = 4
    """Numbers of a region in the output."""

    @property
    def num_visible(self) -> int:
        return 1 + self.output_score

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        if self.rpn_post_nms_top_n < 1:
            raise ShapeMismatch(f"rpn_post_nms_top_n is {self.rpn_post_nms_top_n}, expected at "
                                "least 1")
        if not all(0 < ratio < np.inf for ratio in self.ratios):
            raise ShapeMismatch(f"ratios are {self.ratios}, expected numbers above 0: height to "
                                "width")
        prob, count = ins[0], len(self.scales) * len(self.ratios)
        if prob is None:
            return ins, outs
        if len(prob) != 4 or prob[1] not in (0, 2 * count):
            raise ShapeMismatch(f"cls_prob has shape {prob}, expected (N, 2 A, H, W) with A = "
                                f"{count} anchors, one per scale and ratio")
        batch = prob[0]
        rules = [prob, (batch, 4 * count, *prob[2:]), (batch, 3), (batch, 2)]
        shapes = [unify(shape, expected, f"{name} and {expected}") for shape, expected, name
                  in zip(ins, rules, self.inputs, strict=False)]
        return shapes, [unify((*self._rows(batch), columns), out, "computed and wanted output")
                        for columns, out in zip((self.columns, 1), outs, strict=True)]

    def _rows(self, batch: int) -> tuple[int, ...]:
        """The axes of the outputs before the columns."""
        return batch, self.rpn_post_nms_top_n

    def _anchors(self) -> np.ndarray:
        """Anchors of the first position, (A, 4): every ratio, and of it every scale."""
        side = float(self.feature_stride)
        anchors = []
        for ratio in map(as_float32, self.ratios):
            width = np.floor(np.sqrt(np.floor(side * side / ratio)) + 0.5)
            height = np.floor(width * ratio + 0.5)
            for scale in map(as_float32, self.scales):
                reach = np.array([width * scale - 1, height * scale - 1]) / 2
                anchors.append([*((side - 1) / 2 - reach), *((side - 1) / 2 + reach)])
        return np.array(anchors, np.float32)


@dataclass(frozen=True)
class MultiProposal(RegionProposals, name="_contrib_MultiProposal"):
    """The best boxes of each image that do not overlap: rois (N P, 5), P = rpn_post_nms_top_n.

    cls_prob (N, 2 A, H, W), scores of background and then of boxes for A anchors; bbox_pred
    (N, 4 A, H, W); im_info (N, 3), rows (height, width, scale).  Rows of rois are (image, left,
    top, right, bottom); with `output_score` there is a second output, scores (N P, 1).

    Anchors have `feature_stride`^2 pixels at each of `ratios` (height to width), enlarged by each
    of `scales`, and are `feature_stride` apart.  Predictions (dx, dy, dw, dh) move the center by
    dx w, dy h and multiply the size by exp(dw), exp(dh); with `iou_loss` they are added to the
    corners.  Boxes are clipped to the image.  Those smaller than rpn_min_size x scale
    on a side, and those of positions outside of the image, get score -1.  The `rpn_pre_nms_top_n`
    best (all, if not positive) are taken by descending score, equal ones in order; a box is dropped
    if its iou with a better one that stays is above `threshold`.  If less than P stay they are
    repeated.  No gradient.
    """

    columns: ClassVar = 5
    many: ClassVar[bool] = True
    """Whether batches of several images are allowed."""

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        prob = ins[0]
        if prob is not None and len(prob) == 4 and prob[0] > 1 and not self.many:
            raise ShapeMismatch(f"cls_prob has shape {prob}, expected one image; "
                                "use MultiProposal for more")
        return super().infer_shape(ins, outs)

    def _rows(self, batch: int) -> tuple[int, ...]:
        return batch * self.rpn_post_nms_top_n,

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        (batch, _, height, width), kind = ins[0].shape, ins[0].dtype
        total = height * width * len(self.scales) * len(self.ratios)
        score, post = Spec((batch, total), kind), self.rpn_post_nms_top_n
        return [outs[1], Spec((batch, total, 4), kind), score,
                Spec((batch, self._sorted(total)), INT64),
                Spec((batch, KEPT_ROWS, post), kind), Spec((batch, post), INT64),
                *rank_work(score, batch)]

    def _sorted(self, total: int) -> int:
        return min(self.rpn_pre_nms_top_n, total) if self.rpn_pre_nms_top_n > 0 else total

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        prob, info, kind = ins[0], ins[2], ins[0].dtype
        batch, _, height, width = prob.shape
        spare, boxes, score, order, survivors, where, *work = call.scratch
        rois, out = outs[0].reshape(batch, -1, 5), spare if outs[1] is None else outs[1]
        out = out.reshape(batch, -1, 1)
        anchors = self._anchors().astype(kind)
        offsets = ins[1].reshape(batch, len(anchors), 4, height, width)
        params = np.array([self.feature_stride, self.rpn_min_size, self.iou_loss], kind)
        rank = ranking(score[:, :, None], order[:, :, None], True, work)
        threshold = kind.type(as_float32(self.threshold))

        def run() -> None:
            _propose(prob, offsets, info, anchors, params, boxes, score)
            rank()
            _select_all(boxes, score, order, threshold, survivors, where, rois, out)

        return run


@dataclass(frozen=True)
class Proposal(MultiProposal, name="_contrib_Proposal"):
    """MultiProposal for a single image: cls_prob (1, 2 A, H, W) -> rois (P, 5), scores (P, 1)."""

    many: ClassVar = False
