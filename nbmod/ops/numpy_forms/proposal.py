"""Proposal and MultiProposal with NumPy, image by image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..detection.proposal import MultiProposal, Proposal
from ..dispatch import REFERENCE, implements
from ..elementwise.float_op import as_float32
from ..op import Call
from .boxes import best_first, suppress

__all__: list[str] = []


def _proposals(op: MultiProposal, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    post = op.rpn_post_nms_top_n
    for image, (prob, offsets, info) in enumerate(zip(*ins, strict=True)):
        boxes, score = _candidates(op, prob, offsets, info)
        order = best_first(score)[:op._sorted(len(score))]
        threshold = score.dtype.type(as_float32(op.threshold))
        indices = np.resize(order[suppress(boxes[order], threshold, pixel=1, most=post)], post)
        rows = slice(image * post, (image + 1) * post)
        outs[0][rows, 0] = image
        outs[0][rows, 1:] = boxes[indices]
        if outs[1] is not None:
            outs[1][rows, 0] = score[indices]


def _candidates(op: MultiProposal, prob: np.ndarray, offsets: np.ndarray,
                info: np.ndarray) -> tuple[Any, Any]:
    """Boxes (H W A, 4) of an image and their scores."""
    kind, (height, width) = prob.dtype, prob.shape[1:]
    anchors, stride = op._anchors().astype(kind), kind.type(op.feature_stride)
    y, x = np.indices((height, width)).astype(kind)
    corner = np.stack([x, y, x, y], axis=-1) * stride
    moves = offsets.reshape(len(anchors), 4, height, width).transpose(2, 3, 0, 1)
    last = np.array([info[1], info[0]] * 2) - 1
    boxes = np.maximum(np.minimum(_moved(op, anchors + corner[:, :, None], moves), last), 0)
    least = kind.type(op.rpn_min_size) * info[2]
    small = ~(boxes[..., 2:] - boxes[..., :2] + 1 >= least).all(axis=-1)
    boxes[small] += np.array([-1, -1, 1, 1], kind) * (least / 2)
    outside = (y >= np.trunc(info[0] / stride)) | (x >= np.trunc(info[1] / stride))
    scores = prob[len(anchors):].transpose(1, 2, 0)
    return boxes.reshape(-1, 4), np.where(outside[..., None] | small, -1, scores).reshape(-1)


def _moved(op: MultiProposal, boxes: np.ndarray, moves: np.ndarray) -> Any:
    if op.iou_loss:
        return boxes + moves
    size = boxes[..., 2:] - boxes[..., :2] + 1
    middle = moves[..., :2] * size + boxes[..., :2] + (size - 1) / 2
    reach = (np.exp(moves[..., 2:]) * size - 1) / 2
    return np.concatenate([middle - reach, middle + reach], axis=-1)


implements((MultiProposal, Proposal), REFERENCE, _proposals)
