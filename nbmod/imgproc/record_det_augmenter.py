"""Augmentation of `ImageDetRecordIter`: an image and the bounding boxes of the objects in it.

    resize the shorter side -> pad -> crop -> colors -> mirror -> resize to the batch

Objects are rows (class, left, top, right, bottom, ...) with edges as fractions of width and height.
Padding and cropping only choose a frame, a rectangle in whole pixels that may extend beyond the
image; its contents are rendered once, so boxes match pixels exactly.  (MXNet changes colors first,
with the same result: fill pixels keep their color.)
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
from .record_augmenter import ImageOptions, lerp, shifted_hls

__all__ = ["DetAugmentation", "Label", "parse_label"]

_DRAWS = 16
"""Random draws of all steps but the search for a crop window."""
_DRAWS_PER_TRIAL = 4
_BOX = 5
_MAX_OBJECT_WIDTH = 1 << 16
MOST_TRIALS = 1 << 20
"""Crops that are tried for an image; more would take minutes."""
_LIMITS = ("scales", "aspect_ratios", "overlaps", "sample_coverages", "object_coverages")


class Label(NamedTuple):
    """The label of a record: the objects in its image, float32."""

    header: np.ndarray
    """(A,): A, B, and A - 2 further elements."""
    objects: np.ndarray
    """(n, B): class, left, top, right, bottom, and B - 5 further elements."""

    def with_boxes(self, boxes: np.ndarray) -> Label:
        """Objects with other boxes, (n, 4)."""
        objects = np.concatenate([self.objects[:, :1], boxes, self.objects[:, _BOX:]], 1)
        return Label(self.header, objects.astype(np.float32))


def parse_label(label: np.ndarray) -> Label:
    """The label in a row of elements: A, B, A - 2 more, then B elements for each object.

    Objects with an empty box are dropped.  Raises MXNetError for a malformed row.
    """
    label = np.atleast_1d(label)
    start, width = (label[0], label[1]) if len(label) > 1 else (0, 0)
    finite = np.isfinite(label)
    if not finite.all():
        raise MXNetError(f"the label has {label[~finite][0]} at index {int(np.argmin(finite))}, "
                         "expected finite numbers")
    if len(label) < 2 or not 2 <= start <= len(label) or start % 1:
        raise MXNetError(f"the label has {len(label)} numbers and starts with {label[0]:g}, "
                         "expected the length of its header: a whole number from 2 to the length "
                         "of the label")
    if not _BOX <= width <= _MAX_OBJECT_WIDTH or width % 1:
        raise MXNetError(f"the label says that objects have {width:g} numbers, expected a whole "
                         f"number from {_BOX} to {_MAX_OBJECT_WIDTH}: class, left, top, right, "
                         "bottom, ...")
    if (len(label) - start) % width:
        raise MXNetError(f"the label has {len(label) - start:g} numbers after its header of "
                         f"{start:g}, expected a multiple of {width:g}")
    objects = label[int(start):].reshape(-1, int(width))
    full = (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
    return Label(label[:int(start)], objects[full])


@dataclass(frozen=True, kw_only=True)
class DetAugmentation(ImageOptions):
    """Options of MXNet's `ImageDetRecordIter` for augmentation.

    Parameters
    ----------
    rand_crop_prob : float, default 0
        Probability of a random crop.
    num_crop_sampler : int, default 1
        Number of crop samplers, which are tried in random order.  The options of crops below have
        one value for all samplers, or one for each.
    max_crop_trials : int or tuple of int, default (25,)
        Number of windows that a sampler tries.
    min_crop_scales : float or tuple of float, default (0,)
        Smallest scale of a window: the square root of its fraction of the image's area.
    max_crop_scales : float or tuple of float, default (1,)
        Largest scale of a window.
    min_crop_aspect_ratios : float or tuple of float, default (1,)
        Smallest ratio of width to height of a window.
    max_crop_aspect_ratios : float or tuple of float, default (1,)
        Largest ratio of width to height of a window.
    min_crop_overlaps : float or tuple of float, default (0,)
        Smallest intersection over union (IoU) of a window and an object; a window is accepted if at
        least one object meets all three pairs of limits.
    max_crop_overlaps : float or tuple of float, default (1,)
        Largest intersection over union.
    min_crop_sample_coverages : float or tuple of float, default (0,)
        Smallest fraction of the window that the object covers.
    max_crop_sample_coverages : float or tuple of float, default (1,)
        Largest fraction of the window that the object covers.
    min_crop_object_coverages : float or tuple of float, default (0,)
        Smallest fraction of the object that is inside the window.
    max_crop_object_coverages : float or tuple of float, default (1,)
        Largest fraction of the object that is inside the window.
    crop_emit_mode : {'center', 'overlap'}, default 'center'
        Which objects remain after a crop: those whose center is inside the window, or those of
        which a larger fraction than `emit_overlap_thresh` is inside.
    emit_overlap_thresh : float, default 0.3
        Fraction of an object, see `crop_emit_mode`.
    rand_pad_prob : float, default 0
        Probability of padding, which places the image at random in a larger one.
    max_pad_scale : float, default 1
        Largest ratio of the padded sides to the original ones.
    max_random_hue : int, default 0
        Largest random change of the hue, in units of 2 degrees.
    random_hue_prob : float, default 0
        Probability of a change of the hue.
    max_random_saturation : int, default 0
        Largest random change of the saturation, from 0 to 255.
    random_saturation_prob : float, default 0
        Probability of a change of the saturation.
    max_random_illumination : int, default 0
        Largest random change of the lightness, from 0 to 255.
    random_illumination_prob : float, default 0
        Probability of a change of the lightness.
    max_random_contrast : float, default 0
        Largest random change of the factor of pixels, as a fraction.
    random_contrast_prob : float, default 0
        Probability of a change of the factor of pixels.
    rand_mirror_prob : float, default 0
        Probability of mirroring the image horizontally.
    fill_value : int, default 127
        Value of pixels that padding adds, from 0 to 255.
    resize_mode : {'force', 'shrink', 'fit'}, default 'force'
        How images are resized to `data_shape`.  'force': to exactly that size.  'fit': to the
        largest size of the same aspect ratio within it.  'shrink': as 'fit', but smaller images
        keep their size.
    """

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
        if max(count, count * max(self.max_crop_trials, default=0)) > MOST_TRIALS:
            raise MXNetError(f"num_crop_sampler is {count} and max_crop_trials "
                             f"{self.max_crop_trials}, expected at most {MOST_TRIALS:,} trials")
        for name in ("max_crop_trials", *(f"{end}_crop_{limit}" for limit in _LIMITS
                                          for end in ("min", "max"))):
            if count < 0 or len(getattr(self, name)) not in (1, count):
                raise MXNetError(f"{name} is {getattr(self, name)}, expected one number, or one "
                                 f"for each of the samplers, and num_crop_sampler is {count}")
        for limit, (low, high) in zip(_LIMITS, self._limits.tolist(), strict=True):
            if any(map(operator.gt, low, high)):
                raise MXNetError(f"min_crop_{limit} is {low}, expected at most "
                                 f"max_crop_{limit}, which is {high}")
        (low, high), (ratio, _) = self._limits[:2].tolist()
        if min(low, default=0) < 0 or max(high, default=1) > 1:
            raise MXNetError(f"crop scales are from {low} to {high}, expected from 0 to 1")
        if min(ratio, default=1) <= 0:
            raise MXNetError(f"min_crop_aspect_ratios is {ratio}, expected more than 0")

    @property
    def draws(self) -> int:
        search = self.num_crop_sampler + _DRAWS_PER_TRIAL * len(self._samplers)
        return _DRAWS + (search if self.rand_crop_prob > 0 else 0)

    def augment(self, image: np.ndarray, label: Label, draws: np.ndarray
                ) -> tuple[np.ndarray, Label]:
        """Augment an image (height, width, channels) of uint8 and its label.

        Returns both before the image is normalized; the size is that of `data_shape`, or smaller
        unless `resize_mode` is 'force'.  draws: `self.draws` uniform draws from 0 to 1.
        """
        uniforms = iter(draws[:_DRAWS].tolist())
        image = self._shorter_side_resized(image, uniforms)
        whole = frame = np.array([0, 0, *image.shape[1::-1]])
        boxes = label.objects[:, 1:_BOX] * np.tile(whole[2:], 2).astype(np.float64)
        if next(uniforms) < self.rand_pad_prob:
            frame = self._padded_frame(whole[2:], uniforms)
            label = label.with_boxes(_to_fractions(boxes, frame))
        if next(uniforms) < self.rand_crop_prob:
            choice = self._window(boxes - np.tile(frame[:2], 2), frame[2:] - frame[:2], draws)
            if choice is not None:
                window, objects = choice
                frame = window + np.tile(frame[:2], 2)
                label = Label(label.header, label.objects[objects]).with_boxes(
                    np.clip(_to_fractions(boxes[objects], frame), 0, 1))
        image = self._rendered(image, frame, uniforms)
        if next(uniforms) < self.rand_mirror_prob:
            image = image[:, ::-1]
            edges = label.objects[:, [3, 2, 1, 4]]
            edges[:, ::2] = 1 - edges[:, ::2]
            label = label.with_boxes(edges)
        size = self._target_size(*image.shape[:2])
        if size != image.shape[:2]:
            image = self._resized(image, *size, uniforms)
        return np.ascontiguousarray(image), label

    def _target_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width by `resize_mode`.

        Computed in float32 as in MXNet, where rounding makes some sides a pixel shorter.
        """
        rows, columns = self.data_shape[1:]
        if self.resize_mode == "force":
            return rows, columns
        if self.resize_mode == "shrink" and height <= rows and width <= columns:
            return height, width
        old = np.array([height, width], np.float32)
        new = old * (np.array([rows, columns], np.float32) / old).min()
        return max(int(new[0]), 1), max(int(new[1]), 1)

    def _padded_frame(self, sides: np.ndarray, uniforms: Iterator[float]) -> np.ndarray:
        """A larger frame of the same aspect ratio, in which the image is placed at random.

        sides: width and height of the image.
        """
        wider = (sides * max(lerp(1.0, self.max_pad_scale, next(uniforms)), 1.0)).astype(np.int64)
        before = ((wider - sides + 1) * [next(uniforms), next(uniforms)]).astype(np.int64)
        return np.concatenate([-before, wider - before])

    def _window(self, boxes: np.ndarray, sides: np.ndarray, draws: np.ndarray
                ) -> tuple[np.ndarray, np.ndarray] | None:
        """The first window that meets the limits, and a mask (n,) of the objects it keeps; None if
        no trial succeeds.  sides: width and height of the image."""
        keys = draws[_DRAWS:_DRAWS + self.num_crop_sampler]
        trials = draws[_DRAWS + self.num_crop_sampler:].reshape(-1, _DRAWS_PER_TRIAL)
        samplers = self._samplers[np.argsort(keys[self._samplers], kind="stable")]
        windows = self._windows(sides, samplers, trials)
        overlaps = _overlaps(boxes, windows)
        low, high = self._limits[2:, :, samplers, None].swapaxes(0, 1)
        accepted = ((low <= overlaps) & (overlaps <= high)).all(0)
        inside = (_centered(boxes, windows) if self.crop_emit_mode == "center" else
                  overlaps[-1] > self.emit_overlap_thresh)
        good = accepted.any(1) & inside.any(1)
        if not good.any():
            return None
        return windows[good.argmax()], inside[good.argmax()]

    def _rendered(self, image: np.ndarray, frame: np.ndarray, uniforms: Iterator[float]
                  ) -> np.ndarray:
        """The contents of a frame: the image with changed colors, and transparent `fill_value`
        outside of it."""
        height, width, channels = image.shape
        start, top, right, bottom = frame.tolist()
        visible = image[max(top, 0):max(bottom, 0), max(start, 0):max(right, 0)]
        image = self._color_jittered(visible, uniforms)
        if start >= 0 and top >= 0 and right <= width and bottom <= height:
            return image
        fill = min(max(self.fill_value, 0), 255)
        out = np.full((bottom - top, right - start, channels), fill, np.uint8)
        out[..., 3:] = 0
        rows, columns = max(-top, 0), max(-start, 0)
        out[rows:rows + image.shape[0], columns:columns + image.shape[1]] = image
        return out

    def _color_jittered(self, image: np.ndarray, uniforms: Iterator[float]) -> np.ndarray:
        """Random changes of hue, lightness and saturation (HLS), then of contrast; not of alpha."""
        hls = [limit * (2 * next(uniforms) - 1) if next(uniforms) < probability else 0.0
               for limit, probability in ((self.max_random_hue, self.random_hue_prob),
                                    (self.max_random_illumination, self.random_illumination_prob),
                                    (self.max_random_saturation, self.random_saturation_prob))]
        factor = 1 + self.max_random_contrast * (2 * next(uniforms) - 1)
        contrasted = next(uniforms) < self.random_contrast_prob
        colors, rest = image[..., :3], image[..., 3:]
        if any(hls) and colors.shape[2] == 3:
            colors = shifted_hls(colors, *hls)
        if contrasted:
            levels = np.clip(np.rint(np.arange(256) * factor), 0, 255).astype(np.uint8)
            colors = levels[colors]
        return np.concatenate([colors, rest], 2) if rest.shape[2] else colors

    def _windows(self, whole: np.ndarray, samplers: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Windows of random scale, aspect ratio and position, (len(samplers), 4) int64, in pixels.

        Aspect ratios are limited to those that fit; if none in the requested range does, the
        window is clipped to the image.
        """
        (scale, most_scale), (ratio, most_ratio) = self._limits[:2, :, samplers]
        scale = np.maximum(lerp(scale, most_scale, draws[:, 0]), 1e-9)
        width, height = whole
        root = np.sqrt(lerp(np.maximum(ratio * height / width, scale ** 2),
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
        """Minimum and maximum of `_LIMITS` for each sampler, (5, 2, num_crop_sampler)."""
        return np.array([[np.broadcast_to(np.array(getattr(self, f"{end}_crop_{limit}")),
                                          self.num_crop_sampler) for end in ("min", "max")]
                         for limit in _LIMITS], np.float64)


# -- boxes and windows: (n, 4) and (m, 4), left, top, right, bottom, in pixels ------------------


def _to_fractions(boxes: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Boxes as fractions of the sides of a frame."""
    return (boxes - np.tile(frame[:2], 2)) / np.tile(frame[2:] - frame[:2], 2)


def _centered(boxes: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Whether the center of each box is inside each window, (m, n)."""
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    windows = windows[:, None]
    return ((windows[..., :2] < centers) & (centers < windows[..., 2:])).all(-1)


def _overlaps(boxes: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Intersection of each window with each box as a fraction of their union (IoU), of the window
    and of the box, (3, m, n)."""
    windows = windows[:, None]
    sides = (np.minimum(boxes[:, 2:], windows[..., 2:])
             - np.maximum(boxes[:, :2], windows[..., :2]))
    intersection = np.maximum(sides, 0).prod(-1)
    box, window = ((areas[..., 2:] - areas[..., :2]).prod(-1) for areas in (boxes, windows))
    return np.stack([intersection / (box + window - intersection), intersection / window,
                     intersection / box])
