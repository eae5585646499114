"""What the native record iterator for detection does to an image and the boxes in it.

    resize the shorter side -> pad -> crop -> colors -> mirror -> fit into the batch

Objects are rows (class, left, top, right, bottom, ...) whose edges are shares of width and height.
Padding and cropping only decide upon a frame, a rectangle of whole pixels, which may reach beyond
the image; what it shows is drawn once.  So a box is always where its pixels are.  (Changing
colors first, as MXNet does, would come to the same: what is filled in keeps its own.)
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from ..base import MXNetError
from ..ops.param import Floats, Shape
from .record_augmenter import Pixels, between, recolored

__all__ = ["DetAugmentation", "Label", "read_label"]

_DRAWS = 16
"""Random numbers for all steps but the search for a crop, which takes `_TRIAL` for every trial."""
_TRIAL = 4
_BOX = 5
_WIDEST = 1 << 16
_LIMITS = ("scales", "aspect_ratios", "overlaps", "sample_coverages", "object_coverages")


class Label(NamedTuple):
    """What a record says of the objects in its image, float32."""

    header: np.ndarray
    """(A,): A, B, and A - 2 numbers more."""
    objects: np.ndarray
    """(n, B): class, left, top, right, bottom, and B - 5 numbers more."""

    def moved(self, boxes: np.ndarray) -> Label:
        """The same objects in other places; boxes: (n, 4)."""
        objects = np.concatenate([self.objects[:, :1], boxes, self.objects[:, _BOX:]], 1)
        return Label(self.header, objects.astype(np.float32))


def read_label(numbers: np.ndarray) -> Label:
    """The label that is told by a row of numbers: A, B, A - 2 more, objects of B numbers each.

    Objects whose box is empty are left out.  Raises MXNetError if it cannot be such a row.
    """
    numbers = np.atleast_1d(numbers)
    start, width = (numbers[0], numbers[1]) if len(numbers) > 1 else (0, 0)
    if not np.isfinite(numbers).all():
        raise MXNetError(f"the label has {numbers[~np.isfinite(numbers)][0]} at place "
                         f"{int(np.argmin(np.isfinite(numbers)))}, expected finite numbers")
    if len(numbers) < 2 or not 2 <= start <= len(numbers) or start % 1:
        raise MXNetError(f"the label has {len(numbers)} numbers and starts with {numbers[0]:g}, "
                         "expected the length of its header: a whole number from 2 to the length "
                         "of the label")
    if not _BOX <= width <= _WIDEST or width % 1:
        raise MXNetError(f"the label says that objects have {width:g} numbers, expected a whole "
                         f"number from {_BOX} to {_WIDEST}: class, left, top, right, bottom, ...")
    if (len(numbers) - start) % width:
        raise MXNetError(f"the label has {len(numbers) - start:g} numbers behind its header of "
                         f"{start:g}, expected a multiple of {width:g}")
    objects = numbers[int(start):].reshape(-1, int(width))
    full = (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
    return Label(numbers[:int(start)], objects[full])


@dataclass(frozen=True, kw_only=True)
class DetAugmentation(Pixels):
    """The options that MXNet's `ImageDetRecordIter` has for what is done to images."""

    rand_crop_prob: float = 0.0
    num_crop_sampler: int = 1
    max_crop_trials: Shape = (25,)
    min_crop_scales: Floats = (0.0,)
    max_crop_scales: Floats = (1.0,)
    min_crop_aspect_ratios: Floats = (1.0,)
    max_crop_aspect_ratios: Floats = (1.0,)
    min_crop_overlaps: Floats = (0.0,)
    max_crop_overlaps: Floats = (1.0,)
    min_crop_sample_coverages: Floats = (0.0,)
    max_crop_sample_coverages: Floats = (1.0,)
    min_crop_object_coverages: Floats = (0.0,)
    max_crop_object_coverages: Floats = (1.0,)
    crop_emit_mode: Literal["center", "overlap"] = "center"
    emit_overlap_thresh: float = 0.3
    rand_pad_prob: float = 0.0
    max_pad_scale: float = 1.0
    max_random_hue: int = 0
    random_hue_prob: float = 0.0
    max_random_saturation: int = 0
    random_saturation_prob: float = 0.0
    max_random_illumination: int = 0
    random_illumination_prob: float = 0.0
    max_random_contrast: float = 0.0
    random_contrast_prob: float = 0.0
    rand_mirror_prob: float = 0.0
    fill_value: int = 127
    resize_mode: Literal["force", "shrink", "fit"] = "force"

    def __post_init__(self) -> None:
        super().__post_init__()
        count = self.num_crop_sampler
        for name in ("max_crop_trials", *(f"{end}_crop_{limit}" for limit in _LIMITS
                                          for end in ("min", "max"))):
            if count < 0 or len(getattr(self, name)) not in (1, count):
                raise MXNetError(f"{name} is {getattr(self, name)}, expected one number, or one "
                                 f"for each of the samplers, and num_crop_sampler is {count}")
        for limit, (least, most) in zip(_LIMITS, self._limits.tolist(), strict=True):
            if any(map(operator.gt, least, most)):
                raise MXNetError(f"min_crop_{limit} is {least}, expected at most "
                                 f"max_crop_{limit}, which is {most}")
        (least, most), (ratio, _) = self._limits[:2].tolist()
        if min(least, default=0) < 0 or max(most, default=1) > 1:
            raise MXNetError(f"crop scales are from {least} to {most}, expected from 0 to 1")
        if min(ratio, default=1) <= 0:
            raise MXNetError(f"min_crop_aspect_ratios is {ratio}, expected more than 0")

    # -- the image ------------------------------------------------------------------------

    @property
    def draws(self) -> int:
        searched = self.num_crop_sampler + _TRIAL * len(self._samplers)
        return _DRAWS + (searched if self.rand_crop_prob > 0 else 0)

    def cut(self, image: np.ndarray, label: Label, draws: np.ndarray) -> tuple[np.ndarray, Label]:
        """Image and label before the image is normalized; its size is `data_shape` or, unless
        `resize_mode` is force, less.

        image: uint8 (height, width, channels).  draws: that many numbers from 0 to 1.
        """
        left = iter(draws[:_DRAWS].tolist())
        image = self._short_side(image, left)
        whole = frame = np.array([0, 0, *image.shape[1::-1]])
        boxes = _spread(label.objects[:, 1:_BOX], whole)
        if next(left) < self.rand_pad_prob:
            frame = self._wider(whole[2:], left)
            label = label.moved(_shown(boxes, frame))
        if next(left) < self.rand_crop_prob:
            found = self._window(boxes - np.tile(frame[:2], 2), frame[2:] - frame[:2], draws)
            if found is not None:
                window, kept = found
                frame = window + np.tile(frame[:2], 2)
                label = Label(label.header, label.objects[kept]).moved(
                    np.clip(_shown(boxes[kept], frame), 0, 1))
        image = self._drawn(image, frame, left)
        if next(left) < self.rand_mirror_prob:
            image = image[:, ::-1]
            edges = label.objects[:, [3, 2, 1, 4]]
            edges[:, ::2] = 1 - edges[:, ::2]
            label = label.moved(edges)
        size = self._size(*image.shape[:2])
        if size != image.shape[:2]:
            image = self._resized(image, *size, left)
        return np.ascontiguousarray(image), label

    def _size(self, height: int, width: int) -> tuple[int, int]:
        """Which size the image gets; shrink and fit keep its shape, and shrink what fits.

        float32 as in MXNet, where some sides come out a pixel short.
        """
        rows, columns = self.data_shape[1:]
        if self.resize_mode == "force":
            return rows, columns
        if self.resize_mode == "shrink" and height <= rows and width <= columns:
            return height, width
        old = np.array([height, width], np.float32)
        new = old * (np.array([rows, columns], np.float32) / old).min()
        return max(int(new[0]), 1), max(int(new[1]), 1)

    # -- the steps --------------------------------------------------------------------------

    def _wider(self, sides: np.ndarray, left: Iterator[float]) -> np.ndarray:
        """A frame of the image's shape around it, at any place; sides: its width and height."""
        wider = (sides * max(between(1.0, self.max_pad_scale, next(left)), 1.0)).astype(np.int64)
        before = ((wider - sides + 1) * [next(left), next(left)]).astype(np.int64)
        return np.concatenate([-before, wider - before])

    def _window(self, boxes: np.ndarray, sides: np.ndarray, draws: np.ndarray
                ) -> tuple[np.ndarray, np.ndarray] | None:
        """The first window that holds enough of an object, and which objects (n,) stay in it; None
        if none does.  sides: width and height of the image."""
        keys = draws[_DRAWS:_DRAWS + self.num_crop_sampler]
        trials = draws[_DRAWS + self.num_crop_sampler:].reshape(-1, _TRIAL)
        samplers = self._samplers[np.argsort(keys[self._samplers], kind="stable")]
        windows = self._windows(sides, samplers, trials)
        shares = _shares(boxes, windows)
        least, most = self._limits[2:, :, samplers, None].swapaxes(0, 1)
        wanted = ((least <= shares) & (shares <= most)).all(0)
        kept = (_centered(boxes, windows) if self.crop_emit_mode == "center" else
                shares[-1] > self.emit_overlap_thresh)
        good = wanted.any(1) & kept.any(1)
        if not good.any():
            return None
        return windows[good.argmax()], kept[good.argmax()]

    def _drawn(self, image: np.ndarray, frame: np.ndarray, left: Iterator[float]) -> np.ndarray:
        """What a frame shows: the image in other colors, around it transparent `fill_value`."""
        height, width, channels = image.shape
        start, top, right, bottom = frame.tolist()
        seen = image[max(top, 0):max(bottom, 0), max(start, 0):max(right, 0)]
        image = self._colored(seen, left)
        if start >= 0 and top >= 0 and right <= width and bottom <= height:
            return image
        fill = min(max(self.fill_value, 0), 255)
        out = np.full((bottom - top, right - start, channels), fill, np.uint8)
        out[..., 3:] = 0
        rows, columns = max(-top, 0), max(-start, 0)
        out[rows:rows + image.shape[0], columns:columns + image.shape[1]] = image
        return out

    def _colored(self, image: np.ndarray, left: Iterator[float]) -> np.ndarray:
        """Another hue, lightness and saturation, then another contrast; never of transparency."""
        hls = [limit * (2 * next(left) - 1) if next(left) < share else 0.0
               for limit, share in ((self.max_random_hue, self.random_hue_prob),
                                    (self.max_random_illumination, self.random_illumination_prob),
                                    (self.max_random_saturation, self.random_saturation_prob))]
        kept = 1 + self.max_random_contrast * (2 * next(left) - 1)
        contrasted = next(left) < self.random_contrast_prob
        colors, rest = image[..., :3], image[..., 3:]
        if any(hls) and colors.shape[2] == 3:
            colors = recolored(colors, *hls)
        if contrasted:
            levels = np.clip(np.rint(np.arange(256) * kept), 0, 255).astype(np.uint8)
            colors = levels[colors]
        return np.concatenate([colors, rest], 2) if rest.shape[2] else colors

    def _windows(self, whole: np.ndarray, samplers: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Windows of random scale, shape and place, (len(samplers), 4) int64, in pixels.

        The scale is that of a square beside the image's area.  Shapes are those that fit; where
        none of those that are asked for does, what is drawn is cut off at the image's edges.
        """
        (scale, most_scale), (ratio, most_ratio) = self._limits[:2, :, samplers]
        scale = np.maximum(between(scale, most_scale, draws[:, 0]), 1e-9)
        width, height = whole
        root = np.sqrt(between(np.maximum(ratio * height / width, scale ** 2),
                               np.minimum(most_ratio * height / width, scale ** -2), draws[:, 1]))
        sides = np.minimum(np.stack([scale * root, scale / root], 1), 1) * whole
        sides = np.maximum(sides.astype(np.int64), 1)
        corners = (draws[:, 2:] * (whole - sides + 1)).astype(np.int64)
        return np.concatenate([corners, corners + sides], 1)

    @cached_property
    def _samplers(self) -> np.ndarray:
        """The sampler of each trial."""
        count = self.num_crop_sampler
        trials = np.broadcast_to(np.array(self.max_crop_trials), count)
        return np.repeat(np.arange(count), np.maximum(trials, 0))

    @cached_property
    def _limits(self) -> np.ndarray:
        """Least and most of `_LIMITS` for each sampler, (5, 2, num_crop_sampler)."""
        return np.array([[np.broadcast_to(np.array(getattr(self, f"{end}_crop_{limit}")),
                                          self.num_crop_sampler) for end in ("min", "max")]
                         for limit in _LIMITS], np.float64)


# -- boxes and windows: (n, 4) and (m, 4), left, top, right, bottom, in pixels ------------------


def _spread(shares: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Boxes in pixels, from shares of the sides of a frame that starts at 0."""
    return shares * np.tile(frame[2:], 2).astype(np.float64)


def _shown(boxes: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Boxes as shares of the sides of a frame."""
    return (boxes - np.tile(frame[:2], 2)) / np.tile(frame[2:] - frame[:2], 2)


def _centered(boxes: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Whether the center of each box is inside each window, (m, n)."""
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    windows = windows[:, None]
    return ((windows[..., :2] < centers) & (centers < windows[..., 2:])).all(-1)


def _shares(boxes: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """What each window has of each box: the common part of both as a share of their union, of the
    window, and of the box, (3, m, n)."""
    windows = windows[:, None]
    sides = (np.minimum(boxes[:, 2:], windows[..., 2:])
             - np.maximum(boxes[:, :2], windows[..., :2]))
    common = np.maximum(sides, 0).prod(-1)
    box, window = ((areas[..., 2:] - areas[..., :2]).prod(-1) for areas in (boxes, windows))
    return np.stack([common / (box + window - common), common / window, common / box])
