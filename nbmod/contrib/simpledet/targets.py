"""Targets of SimpleDet's second stage: sampled regions with their classes, offsets and masks.

Sampling draws from nbmod's generator, so `mx.random.seed` repeats it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...base import MXNetError
from ...operator.register_op import register_op
from ...ops.elementwise.float_op import FloatOp
from ...ops.op import Call
from ...ops.param import Floats
from ...ops.random.rng import generator
from ...ops.shape import PartialShape, ShapeMismatch, unify

__all__ = ["ProposalMaskTarget", "ProposalTarget", "ProposalTarget_v2"]


class Sample(NamedTuple):
    """Regions sampled from an image: rois (S, 4), the box (S,) that each overlaps most."""

    rois: np.ndarray
    assigned: np.ndarray
    overlap: np.ndarray
    num_foreground: int
    """The first ones are objects, the others background."""


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of every pair, (len(boxes), len(others))."""
    low = np.maximum(boxes[:, None, :2], others[:, :2])
    high = np.minimum(boxes[:, None, 2:4], others[:, 2:4])
    shared = np.maximum(high - low + 1, 0).prod(axis=2)
    areas = [(each[:, 2:4] - each[:, :2] + 1).prod(axis=1) for each in (boxes, others)]
    return shared / (areas[0][:, None] + areas[1] - shared)


def _offsets(rois: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """(dx, dy, dw, dh) that move and scale each roi to its box."""
    size, target = (each[:, 2:4] - each[:, :2] + 1 for each in (rois, boxes))
    move = boxes[:, :2] - rois[:, :2] + 0.5 * (target - size)
    return np.concatenate([move / (size + 1e-14), np.log(target / size)], axis=1)


def _some(indices: np.ndarray, count: int) -> np.ndarray:
    """`count` of the indices at random, or all of them in order if there are no more."""
    return generator().permutation(indices)[:count] if len(indices) > count else indices


def _within(boxes: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Which boxes have an area between the squares of the two numbers in `valid`."""
    area = (boxes[:, 2:4] - boxes[:, :2] + 1).prod(axis=1)
    return (area >= valid[0] ** 2) & (area <= valid[1] ** 2)


@dataclass(frozen=True, kw_only=True)
class ProposalTarget(FloatOp):
    """Samples regions of each image for training: rois, labels, targets and weights of offsets.

    rois (N, R, 4), of which those with bottom <= 0 are padding; gt_boxes (N, G, 5), rows (box,
    class), of which those with class -1 are padding.  The boxes join the regions, unless
    `proposal_without_gt`.  A region belongs to the box it overlaps most: it is foreground if
    intersection over union is at least `fg_thresh`, background if it is in [bg_thresh_lo,
    bg_thresh_hi).  Of S = `image_rois` regions int(S fg_fraction) at most are foreground, the
    others background; where these are too few, any that are no foreground fill up, repeatedly if
    need be.

    Outputs: roi_output (N, S, 4), label (N, S), 0 for background, bbox_target and bbox_weight
    (N, S, 4 num_classes): offsets less `bbox_mean` over `bbox_std`, and `bbox_weight`, in the
    columns of the label (with `class_agnostic` of class 1), else 0; with `output_iou` also
    match_gt_iou (N, S).  No gradient.  `batch_images` is not read: N tells.
    """

    num_classes: int
    batch_images: int
    image_rois: int
    fg_thresh: float
    bg_thresh_hi: float
    bg_thresh_lo: float
    proposal_without_gt: bool
    fg_fraction: float = 0.25
    class_agnostic: bool = False
    output_iou: bool = False
    bbox_mean: Floats = (0.0, 0.0, 0.0, 0.0)
    bbox_std: Floats = (0.1, 0.1, 0.2, 0.2)
    bbox_weight: Floats = (1.0, 1.0, 1.0, 1.0)

    inputs: ClassVar[tuple[str, ...]] = ("rois", "gt_boxes")
    outputs: ClassVar[tuple[str, ...]] = ("roi_output", "label", "bbox_target", "bbox_weight",
                                          "match_gt_iou")
    random: ClassVar = True

    @property
    def num_visible(self) -> int:
        return 4 + self.output_iou

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        rois = ins[0]
        if rois is None:
            return ins, outs
        if len(rois) != 3 or rois[2] not in (0, 4) or self.num_classes < 1:
            raise ShapeMismatch(f"rois has shape {rois} and num_classes is {self.num_classes}, "
                                "expected (N, R, 4) and at least 1")
        if not 0 <= self.fg_fraction <= 1:
            raise ShapeMismatch(f"fg_fraction is {self.fg_fraction}, expected a part from 0 to 1")
        boxes = unify(ins[1], (rois[0], 0, 5), "gt_boxes and (N, G, 5)") if ins[1] else None
        rows = (rois[0], self._count(rois[1]))
        wide = (*rows, 4 * self.num_classes)
        shapes = [(*rows, 4), rows, wide, wide, rows]
        return [rois, boxes, *ins[2:]], [unify(shape, out, "output") for shape, out
                                         in zip(shapes, outs[:5], strict=True)] + outs[5:]

    def _count(self, num_rois: int) -> int:
        """Regions sampled of each image; `num_rois` ones there are."""
        if self.image_rois < 1:
            raise ShapeMismatch(f"image_rois is {self.image_rois}, expected at least 1")
        return self.image_rois

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        for out in outs:
            if out is not None:
                out.fill(0)
        for n in range(len(ins[0])):
            self._image(n, ins, outs)

    def _image(self, n: int, ins: Sequence[Any], outs: Sequence[Any]) -> tuple[Sample, np.ndarray]:
        """Fill in row n of the outputs; the sample, and which rows of gt_boxes are no padding."""
        present = np.flatnonzero(ins[1][n, :, 4] != -1)
        boxes = ins[1][n, present].astype(np.float64) if len(present) else np.zeros((1, 5))
        sample = self._sample(self._candidates(n, ins, boxes), boxes, outs[0].shape[1])
        count, foreground = len(sample.rois), sample.num_foreground
        label = boxes[sample.assigned[:foreground], 4]
        if label.size and not (label.min() >= 0 and label.max() < max(self.num_classes, 2)):
            if not self.class_agnostic:
                raise MXNetError(f"{self.name}: gt_boxes of image {n} has class {label.max():g}, "
                                 f"expected 0 to {self.num_classes - 1} (num_classes - 1), or -1 "
                                 "for padding")
        self._put(outs[0], n, sample.rois)
        self._put(outs[1], n, label)
        self._put(outs[4], n, sample.overlap)
        offsets = _offsets(sample.rois, boxes[sample.assigned, :4])
        offsets = (offsets - np.array(self.bbox_mean)) / np.array(self.bbox_std)
        rows = np.flatnonzero(label > 0)
        kind = np.ones_like(rows) if self.class_agnostic else label[rows].astype(np.int64)
        for out, values in ((outs[2], offsets[rows]), (outs[3], np.array(self.bbox_weight))):
            if out is not None:
                out[n].reshape(out.shape[1], -1, 4)[rows, kind] = values
        assert count <= outs[0].shape[1]
        return sample, present

    @staticmethod
    def _put(out: Any, n: int, rows: Any) -> None:
        if out is not None:
            out[n, :len(rows)] = rows

    def _candidates(self, n: int, ins: Sequence[Any], boxes: np.ndarray) -> np.ndarray:
        """Regions to sample from."""
        rois = ins[0][n].astype(np.float64)
        candidates = [rois[rois[:, 3] > 0]]
        if not self.proposal_without_gt and boxes[:, 2:4].any():
            candidates.append(self._joining(n, ins, boxes[:, :4]))
        rois = np.concatenate(candidates)
        return rois if len(rois) else np.zeros((1, 4))

    def _joining(self, n: int, ins: Sequence[Any], boxes: np.ndarray) -> np.ndarray:
        """The boxes that join the regions."""
        return boxes

    def _sample(self, rois: np.ndarray, boxes: np.ndarray, count: int) -> Sample:
        overlaps = _overlaps(rois, boxes)
        assigned, overlap = overlaps.argmax(axis=1), overlaps.max(axis=1)
        is_object = overlap >= self.fg_thresh
        most = len(rois) if self.image_rois == -1 else int(count * self.fg_fraction)
        foreground = _some(np.flatnonzero(is_object), min(most, count))
        is_background = (overlap >= self.bg_thresh_lo) & (overlap < self.bg_thresh_hi)
        background = _some(np.flatnonzero(is_background), count - len(foreground))
        picked = [foreground, background]
        missing, others = count - len(foreground) - len(background), np.flatnonzero(~is_object)
        while missing > 0 and len(others):
            picked.append(generator().permutation(others)[:missing])
            missing -= len(picked[-1])
        chosen = np.concatenate(picked)
        return Sample(rois[chosen], assigned[chosen], overlap[chosen], len(foreground))


register_op("ProposalTarget", aliases=("_contrib_ProposalTarget",))(ProposalTarget)


@dataclass(frozen=True, kw_only=True)
class _ScaleAwareTarget(ProposalTarget):
    """Base of targets that take `image_rois` -1 for all, and can leave out boxes by size."""

    ohem: bool = False
    filter_scales: bool = False

    def _count(self, num_rois: int) -> int:
        if self.ohem:
            raise ShapeMismatch("ohem is True, for which SimpleDet has no code either; expected "
                                "False")
        return num_rois if self.image_rois == -1 else super()._count(num_rois)

    def _joining(self, n: int, ins: Sequence[Any], boxes: np.ndarray) -> np.ndarray:
        return boxes[_within(boxes, ins[-1][n])] if self.filter_scales else boxes


@register_op("ProposalTarget_v2", aliases=("_contrib_ProposalTarget_v2",))
@dataclass(frozen=True, kw_only=True)
class ProposalTarget_v2(_ScaleAwareTarget):  # noqa: N801 - the name of the operator
    """`ProposalTarget` for training by scale.

    With `filter_scales` boxes join only if their area is within valid_ranges (N, 2), the squares of
    a row's smallest and largest side.  `image_rois` -1 keeps all regions, foreground first.
    """

    inputs: ClassVar = ("rois", "gt_boxes", "valid_ranges")

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        ins, outs = super().infer_shape(ins, outs)
        if ins[0] is not None:
            ins[2] = unify(ins[2], (ins[0][0], 2), "valid_ranges and (N, 2)")
        return ins, outs


# --------------------------------------------------------------------------------------- masks

def _fill_polygon(points: np.ndarray, height: int, width: int) -> np.ndarray:
    """The pixels of an image whose centers are inside a polygon (points (K, 2), x and y).

    Even-odd rule by scan conversion: every edge toggles, in each row it crosses, all pixels right
    of it, which a running exclusive or along the row sums up.
    """
    toggles = np.zeros((height, width + 1), bool)
    for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, axis=0), strict=True):
        if y0 > y1:
            x0, y0, x1, y1 = x1, y1, x0, y0
        first, last = (int(np.clip(np.ceil(y - 0.5), 0, height)) for y in (y0, y1))
        rows = np.arange(first, last)
        if rows.size:
            x = x0 + (rows + 0.5 - y0) * ((x1 - x0) / (y1 - y0))
            toggles[rows, np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)] ^= True
    return np.logical_xor.accumulate(toggles, axis=1)[:, :width]


def _polygons(encoded: np.ndarray) -> list[np.ndarray]:
    """The polygons of one object: (category, count, a length for each, then x y x y ...)."""
    count = int(encoded[1])
    lengths = encoded[2:2 + count].astype(np.int64)
    parts = np.split(encoded[2 + count:], np.cumsum(lengths))[:count]
    return [part[:len(part) // 2 * 2].reshape(-1, 2).astype(np.float64) for part in parts]


def _union(polygons: list[np.ndarray], height: int, width: int) -> np.ndarray:
    mask = np.zeros((height, width), bool)
    for points in polygons:
        mask |= _fill_polygon(points, height, width)
    return mask


def _mask_in(roi: np.ndarray, polygons: list[np.ndarray], size: int) -> np.ndarray:
    """The object inside of a region, as size x size pixels."""
    scale = size / np.maximum(roi[2:4] - roi[:2], 1)
    return _union([(points - roi[:2]) * scale for points in polygons], size, size)


def _share_in(roi: np.ndarray, polygons: list[np.ndarray]) -> float:
    """The part of the object's area that is inside of a region, counted in pixels."""
    corners = np.concatenate([roi[:4].reshape(2, 2), *polygons])
    areas = []
    for first, last in ((roi[:2], roi[2:4]), (corners.min(axis=0), corners.max(axis=0))):
        across, down = last.astype(np.int64) - first.astype(np.int64) + 1
        areas.append(_union([points - first for points in polygons], down, across).sum())
    return max(float(areas[0] / (areas[1] + 1e-4)), 1e-10)


@register_op("ProposalMaskTarget", aliases=("_contrib_ProposalMaskTarget",))
@dataclass(frozen=True, kw_only=True)
class ProposalMaskTarget(_ScaleAwareTarget):
    """`ProposalTarget_v2` with masks of the regions that may be foreground.

    mask_target is (N, F, M, M), F = int(S fg_fraction), M = `mask_size`.  gt_polys (N, G, L) holds
    the polygons of each box: category, number of polygons, their lengths, and coordinates x, y, x,
    y, ...; valid_ranges (N, 2) is an input with `filter_scales` only.  A pixel of a mask is 1 if
    its center is inside of a polygon (even-odd rule), -1 in rows without a region.  match_gt_iou
    comes with `output_iou`, and with `output_ratio` also mask_ratio (N, F): the part of the
    object's area that the region shows.
    """

    mask_size: int
    num_args: int = 3
    output_ratio: bool = False

    inputs: ClassVar = ("rois", "gt_boxes", "gt_polys", "valid_ranges")
    outputs: ClassVar = (*ProposalTarget.outputs, "mask_target", "mask_ratio")

    def list_inputs(self) -> tuple[str, ...]:
        return self.inputs if self.filter_scales else self.inputs[:3]

    def list_outputs(self) -> tuple[str, ...]:
        return tuple(name for name in self.outputs
                     if (name != "match_gt_iou" or self.output_iou)
                     and (name != "mask_ratio" or self.output_ratio))

    @property
    def num_visible(self) -> int:
        return len(self.list_outputs())

    def _all(self, outs: Sequence[Any]) -> list[Any]:
        """`outs` with None for outputs that there are not."""
        by_name = dict(zip(self.list_outputs(), outs, strict=True))
        return [by_name.get(name) for name in self.outputs]

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        ins, shapes = super().infer_shape(ins, self._all(outs))
        rois = ins[0]
        if self.mask_size < 1:
            raise ShapeMismatch(f"mask_size is {self.mask_size}, expected at least 1")
        if rois is not None:
            rows = (rois[0], int(self._count(rois[1]) * self.fg_fraction))
            shapes[5:] = [(*rows, self.mask_size, self.mask_size), rows]
            if self.filter_scales:
                ins[3] = unify(ins[3], (rois[0], 2), "valid_ranges and (N, 2)")
        return ins, [unify(shape, out, name) for name, shape, out
                     in zip(self.outputs, shapes, self._all(outs), strict=True)
                     if name in self.list_outputs()]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        arrays = self._all(outs)
        masks, ratios = arrays[5:]
        for out in arrays:
            if out is not None:
                out.fill(-1 if out is masks else 0)
        for n in range(len(ins[0])):
            sample, present = self._image(n, ins, arrays)
            if not len(present):
                continue
            polygons = {box: _polygons(ins[2][n, present[box]]) for box in
                        np.unique(sample.assigned[:sample.num_foreground])}
            for i in range(min(sample.num_foreground, arrays[5].shape[1] if masks is not None
                               else ratios.shape[1] if ratios is not None else 0)):
                shapes = polygons[sample.assigned[i]]
                if masks is not None:
                    masks[n, i] = _mask_in(sample.rois[i], shapes, self.mask_size)
                if ratios is not None:
                    ratios[n, i] = _share_in(sample.rois[i], shapes)
