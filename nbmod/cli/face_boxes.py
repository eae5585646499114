"""Boxes of faces from the outputs of RetinaFace (Deng et al. 2020), as InsightFace publishes it.

For each stride there are scores (1, 2 A, H, W), of background and then of faces, and moves
(1, 4 A, H, W) for A square anchors at each position.  A move (dx, dy, dw, dh) shifts the center of
an anchor of size s by dx s, dy s, and multiplies its sides by exp(dw), exp(dh).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..base import Array

__all__ = ["face_boxes"]

ANCHORS = {32: (512, 256), 16: (128, 64), 8: (32, 16)}
"""Sides of the anchors in pixels, by stride."""
CENTER = 7.5
"""Pixels of a side of the first anchors, whatever the stride is; the others grow from it."""
OVERLAP = 0.4
LARGEST = 10.0
"""A logarithm of a scale that no image has room for."""
SCORES, MOVES = "face_rpn_cls_prob_reshape_stride{}_output", "face_rpn_bbox_pred_stride{}_output"


def face_boxes(outputs: Mapping[str, Array], size: tuple[int, int], threshold: float) -> Array:
    """Compute the boxes that the outputs for an input of this height and width tell.

    Boxes have float32 of shape (1, boxes, 6): class 0, score, left, top, right, bottom as fractions
    of the image, like those of MultiBoxDetection; class -1 is no box.
    """
    from ..ndarray import array, contrib

    rows = [_rows(outputs[SCORES.format(stride)][0], outputs[MOVES.format(stride)][0], stride)
            for stride in ANCHORS if SCORES.format(stride) in outputs]
    candidates = np.concatenate([*rows, np.full((1, 6), -1, np.float32)])    # box_nms needs one
    boxes = contrib.box_nms(array(candidates[None]), overlap_thresh=OVERLAP, valid_thresh=threshold,
                            id_index=0, force_suppress=True).asnumpy()
    height, width = size
    boxes[..., 2:] /= np.array([width, height, width, height], np.float32)
    return np.asarray(boxes)


def _rows(scores: Array, moves: Array, stride: int) -> Array:
    """Class 0, score and corners in pixels of every anchor of a stride."""
    sides = np.array(ANCHORS[stride], np.float32)[:, None, None]
    count, (height, width) = len(sides), scores.shape[1:]
    dx, dy, dw, dh = np.asarray(moves, np.float32).reshape(count, 4, height, width).swapaxes(0, 1)
    x = CENTER + stride * np.arange(width)[None, None] + dx * sides
    y = CENTER + stride * np.arange(height)[None, :, None] + dy * sides
    across, down = ((np.exp(np.minimum(one, LARGEST)) * sides - 1) / 2 for one in (dw, dh))
    chances = scores[count:]
    columns = [np.zeros_like(chances), chances, x - across, y - down, x + across, y + down]
    return np.stack(columns, -1).reshape(-1, 6).astype(np.float32)
