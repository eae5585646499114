"""Augmenters for detection: objects that change an image and the boxes of its objects together.

A label is an array of shape (objects, 5 or more): class, xmin, ymin, xmax, ymax as fractions of
width and height, then further numbers.  Random numbers come from Python's `random`, drawn in
MXNet's order.  Changed images and labels are new arrays.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..base import ArgumentError, checks_numbers
from ..ndarray import NDArray
from . import image_functions
from .augmenter_lists import color_augmenters, width_and_height
from .augmenters import Augmenter, Described, ForceResizeAug, ResizeAug

__all__ = ["CreateDetAugmenter", "CreateMultiRandCropAugmenter", "DetAugmenter", "DetBorrowAug",
           "DetHorizontalFlipAug", "DetRandomCropAug", "DetRandomPadAug", "DetRandomSelectAug"]

Range = tuple[float, float]
Sample = tuple[NDArray, np.ndarray]
_BOX = slice(1, 5)
_MIN_PIXELS = 2
"""Objects of at most this many pixels are ignored where coverage is measured."""
_MARGIN = 2
"""Borders that add fewer rows or columns are rejected."""


class DetAugmenter(Described):
    """Base class of augmenters for detection.

    A subclass passes its parameters to this constructor, for `dumps`, and defines `__call__`.

    Parameters
    ----------
    **kwargs
        As for `Augmenter`.
    """

    def __call__(self, src: NDArray, label: np.ndarray) -> Sample:
        """Return the changed image and label."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


class DetBorrowAug(DetAugmenter):
    """Apply an augmenter that does not move anything in the image, so that boxes remain valid.

    Parameters
    ----------
    augmenter : Augmenter
        Augmenter of images.

    Raises
    ------
    TypeError
        For anything else.
    """

    def __init__(self, augmenter: Augmenter):
        if not isinstance(augmenter, Augmenter):
            raise TypeError(f"DetBorrowAug: expected an Augmenter, got {augmenter!r}")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> Any:
        """Return the name of the class in lower case, and what the augmenter dumps."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: NDArray, label: np.ndarray) -> Sample:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """Apply one of several augmenters, chosen at random.

    Parameters
    ----------
    aug_list : DetAugmenter or list of DetAugmenter
        Augmenters to choose from.
    skip_prob : float, default 0
        Probability that none is applied.

    Raises
    ------
    ArgumentError
        If an element is not a DetAugmenter.
    """

    @checks_numbers
    def __init__(self, aug_list: Any, skip_prob: float = 0):
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        for aug in self.aug_list:
            if not isinstance(aug, DetAugmenter):
                raise ArgumentError(f"DetRandomSelectAug: expected DetAugmenters, got {aug!r}")
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> Any:
        """Return the name of the class in lower case, and what the augmenters dump."""
        return [type(self).__name__.lower(), [x.dumps() for x in self.aug_list]]

    def __call__(self, src: NDArray, label: np.ndarray) -> Sample:
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirror the image and its boxes horizontally.

    Parameters
    ----------
    p : float
        Probability of mirroring.

    Examples
    --------
    >>> import numpy as np
    >>> flip = mx.image.DetHorizontalFlipAug(1)
    >>> _, label = flip(mx.nd.zeros((4, 4, 3)), np.array([[0, 0.0, 0.25, 0.5, 1.0]]))
    >>> label.tolist()
    [[0.0, 0.5, 0.25, 1.0, 1.0]]
    """

    @checks_numbers
    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray, label: np.ndarray) -> Sample:
        if random.random() >= self.p:
            return src, label
        label = label.copy()
        label[:, [1, 3]] = 1.0 - label[:, [3, 1]]
        return src.flip(axis=1), label


class _FrameAugmenter(DetAugmenter):
    """Base class of augmenters that change the frame of an image, by aspect ratio and area.

    aspect_ratio_range: width to height.  area_range: fractions of the image's area.  A scalar means
    an empty range.  max_attempts: number of frames tried, after which the image is not changed.
    """

    aspect_ratio_range: Range
    area_range: Range
    max_attempts: int

    def __init__(self, **kwargs: Any):
        for name in ("aspect_ratio_range", "area_range"):
            kwargs[name] = self._range(name, kwargs[name])
        super().__init__(**kwargs)
        vars(self).update(kwargs)
        if self.aspect_ratio_range[0] <= 0:
            raise self._argument_error("aspect_ratio_range", "shapes above 0")
        if not isinstance(kwargs["max_attempts"], Integral):
            raise self._argument_error("max_attempts", "an integer")

    def _range(self, name: str, value: Any) -> Range:
        least, most = value if isinstance(value, (tuple, list)) and len(value) == 2 else [value] * 2
        real = isinstance(least, Real) and isinstance(most, Real)
        if not real or not 0 <= least <= most < math.inf:
            raise ArgumentError(f"{type(self).__name__}: {name} is {value!r}, expected a number, "
                                "or the smallest and the largest, 0 or above")
        return least, most

    def _argument_error(self, name: str, expected: str) -> ArgumentError:
        return ArgumentError(f"{type(self).__name__}: {name} is {getattr(self, name)!r}, expected "
                             f"{expected}")

    def _attempts(self, width: int, height: int) -> Iterator[tuple[float, int, int]]:
        """For each attempt an aspect ratio, and the heights of the smallest and largest area."""
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            least, most = (round(math.sqrt(share * height * width / ratio))
                           for share in self.area_range)
            yield ratio, least, most


def _random_int(least: int, most: int) -> int:
    """A random integer of the range; the upper limit if it is empty."""
    return random.randint(least, most) if least < most else most


def _max_height(width: int, ratio: float) -> int:
    """The largest height of a frame of this aspect ratio whose rounded width is at most `width`."""
    return math.ceil((width + 0.5) / ratio) - 1


def _areas(boxes: np.ndarray) -> np.ndarray:
    """The areas of boxes (n, 4); 0 for inverted ones."""
    sides = np.maximum(0, boxes[:, 2:] - boxes[:, :2])
    return sides[:, 0] * sides[:, 1]


class DetRandomCropAug(_FrameAugmenter):
    """Crop a random part that shows enough of the objects in it.

    Parameters
    ----------
    min_object_covered : float, default 0.1
        Share of every visible object that must be exceeded inside the part.
    aspect_ratio_range : tuple of float, or float, default (0.75, 1.33)
        Smallest and largest ratio of width to height.
    area_range : tuple of float, or float, default (0.05, 1)
        Smallest and largest share of the image's area.
    min_eject_coverage : float, default 0.3
        Objects of which no larger share is visible lose their label; one at least keeps it.
    max_attempts : int, default 50
        Number of parts tried; after it, the image is not changed.

    Raises
    ------
    ArgumentError
        For invalid ranges.

    Notes
    -----
    The method follows Liu et al., "SSD: Single shot multibox detector", 2016.
    """

    min_object_covered: float
    min_eject_coverage: float

    def __init__(self, min_object_covered: float = 0.1, aspect_ratio_range: Any = (0.75, 1.33),
                 area_range: Any = (0.05, 1.0), min_eject_coverage: float = 0.3,
                 max_attempts: int = 50):
        super().__init__(min_object_covered=min_object_covered,
                         aspect_ratio_range=aspect_ratio_range, area_range=area_range,
                         min_eject_coverage=min_eject_coverage, max_attempts=max_attempts)
        if self.area_range[1] <= 0:
            raise self._argument_error("area_range", "areas above 0")

    def __call__(self, src: NDArray, label: np.ndarray) -> Sample:
        height, width = src.shape[:2]
        for x, y, w, h in self._windows(width, height):
            frame = np.array([x / width, y / height, (x + w) / width, (y + h) / height],
                             label.dtype)
            if self._shows_enough(label, frame, width * height):
                seen = self._visible_labels(label, x / width, y / height, w / width, h / height)
                if len(seen):
                    return image_functions.fixed_crop(src, x, y, w, h), seen
        return src, label

    def _windows(self, width: int, height: int) -> Iterator[image_functions.Box]:
        """Random windows with areas in the range."""
        smallest, largest = (share * height * width for share in self.area_range)
        for ratio, least, most in self._attempts(width, height):
            if round(most * ratio) > width:
                most = _max_height(width, ratio)
            h = _random_int(least, min(most, height))
            area = round(h * ratio) * h
            if area < smallest:  # rounding moved it out of the range
                h += 1
            elif area > largest:
                h -= 1
            w = round(h * ratio)
            if smallest <= w * h <= largest and w <= width and h <= height:
                y, x = random.randint(0, height - h), random.randint(0, width - w)
                yield x, y, w, h

    def _shows_enough(self, label: np.ndarray, frame: np.ndarray, pixels: int) -> bool:
        boxes = label[:, _BOX]
        boxes = boxes[_areas(boxes) * pixels > _MIN_PIXELS]
        seen = np.concatenate([np.maximum(boxes[:, :2], frame[:2]),
                               np.minimum(boxes[:, 2:], frame[2:])], 1)
        covered = _areas(seen) / _areas(boxes)
        return bool((covered > 0).any() and covered[covered > 0].min() > self.min_object_covered)

    def _visible_labels(self, label: np.ndarray, x: float, y: float, w: float, h: float
                        ) -> np.ndarray:
        """Labels relative to a window, of the objects that are sufficiently visible."""
        seen = label.copy()
        seen[:, 1:5:2] = np.clip((label[:, 1:5:2] - x) / w, 0, 1)
        seen[:, 2:5:2] = np.clip((label[:, 2:5:2] - y) / h, 0, 1)
        area, whole = _areas(seen[:, _BOX]), _areas(label[:, _BOX])
        covered = np.divide(area * w * h, whole, out=np.zeros_like(whole), where=area > 0)
        return seen[(area > 0) & (covered > self.min_eject_coverage)]


class DetRandomPadAug(_FrameAugmenter):
    """Place the image at a random position in a larger one.

    Parameters
    ----------
    aspect_ratio_range : tuple of float, or float, default (0.75, 1.33)
        Smallest and largest ratio of width to height.
    area_range : tuple of float, or float, default (1, 3)
        Smallest and largest ratio of the new area to that of the image.
    max_attempts : int, default 50
        Number of sizes tried; after it, the image is not changed.
    pad_val : float or tuple of float, default (128, 128, 128)
        Value of the added pixels, one for all channels or one for each.

    Raises
    ------
    ArgumentError
        For invalid ranges or values.
    """

    pad_val: Any

    def __init__(self, aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (1.0, 3.0),
                 max_attempts: int = 50, pad_val: Any = (128, 128, 128)):
        super().__init__(aspect_ratio_range=aspect_ratio_range, area_range=area_range,
                         max_attempts=max_attempts, pad_val=pad_val)
        if self.area_range[1] <= 1:
            raise self._argument_error("area_range", "a largest area above 1")
        if not isinstance(pad_val, (Real, tuple, list)):
            raise self._argument_error("pad_val", "a number, or one for each channel")

    def __call__(self, src: NDArray, label: np.ndarray) -> Sample:
        height, width, channels = src.shape
        for x, y, w, h in self._frames(width, height):
            color = (self.pad_val if isinstance(self.pad_val, (tuple, list))
                     else [self.pad_val] * channels)
            src = image_functions.copyMakeBorder(src, y, h - y - height, x, w - x - width,
                                                 values=color)
            label = label.copy()
            label[:, 1:5:2] = (label[:, 1:5:2] * width + x) / w
            label[:, 2:5:2] = (label[:, 2:5:2] * height + y) / h
            return src, label
        return src, label

    def _frames(self, width: int, height: int) -> Iterator[image_functions.Box]:
        """Random frames that are larger than the image, and its position in them."""
        for ratio, least, most in self._attempts(width, height):
            if round(least * ratio) < width:
                least = _max_height(width, ratio)
            h = _random_int(max(least, height), most)
            w = round(h * ratio)
            if min(h - height, w - width) >= _MARGIN:
                y, x = random.randint(0, h - height), random.randint(0, w - width)
                yield x, y, w, h


def CreateMultiRandCropAugmenter(min_object_covered: Any = 0.1,
                                 aspect_ratio_range: Any = (0.75, 1.33),
                                 area_range: Any = (0.05, 1.0), min_eject_coverage: Any = 0.3,
                                 max_attempts: Any = 50, skip_prob: float = 0
                                 ) -> DetRandomSelectAug:
    """Return an augmenter that applies one of several `DetRandomCropAug`.

    A list holds the parameter of each of them; all lists have the same length, or one element.

    Parameters
    ----------
    min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts
        As for `DetRandomCropAug`, or lists of such values.
    skip_prob : float, default 0
        Probability that none is applied.

    Raises
    ------
    ArgumentError
        If lists differ in length.
    """
    options = {"min_object_covered": min_object_covered, "aspect_ratio_range": aspect_ratio_range,
               "area_range": area_range, "min_eject_coverage": min_eject_coverage,
               "max_attempts": max_attempts}
    lists = {name: value if isinstance(value, list) else [value] for name, value in options.items()}
    number = max(map(len, lists.values()))
    for name, values in lists.items():
        if len(values) not in (1, number):
            raise ArgumentError(f"CreateMultiRandCropAugmenter: {name} has {len(values)} values, "
                                f"expected 1 or {number}, as many as another has")
    crops = [DetRandomCropAug(**{name: values[k % len(values)] for name, values in lists.items()})
             for k in range(number)]
    return DetRandomSelectAug(crops, skip_prob)


def CreateDetAugmenter(data_shape: Sequence[int], resize: int = 0, rand_crop: float = 0,
                       rand_pad: float = 0, rand_gray: float = 0, rand_mirror: bool = False,
                       mean: Any = None, std: Any = None, brightness: float = 0,
                       contrast: float = 0, saturation: float = 0, pca_noise: float = 0,
                       hue: float = 0, inter_method: int = 2, min_object_covered: Any = 0.1,
                       aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (0.05, 3.0),
                       min_eject_coverage: Any = 0.3, max_attempts: Any = 50,
                       pad_val: Any = (127, 127, 127)) -> list[DetAugmenter]:
    """Return a list of augmenters for detection.

    They resize the shorter side, crop, mirror, pad, resize to `data_shape`, convert to float32,
    change colors and normalize, in this order.

    Parameters
    ----------
    data_shape, resize, rand_mirror, mean, std, brightness, contrast, saturation, pca_noise, hue
        As for `CreateAugmenter`.
    rand_crop : float, default 0
        Probability of a random crop.
    rand_pad : float, default 0
        Probability of random padding.
    rand_gray, inter_method
        As for `CreateAugmenter`.
    min_object_covered, min_eject_coverage
        As for `DetRandomCropAug`; lists make several kinds of crops.
    aspect_ratio_range : tuple of float or list of tuple, default (0.75, 1.33)
        Smallest and largest ratio of width to height, of crops and of padded images.
    area_range : tuple of float, default (0.05, 3)
        Share of the image's area, from the smallest crop to the largest padded image.
    max_attempts : int or list of int, default 50
        Number of crops or sizes tried.
    pad_val : float or tuple of float, default (127, 127, 127)
        Value of the pixels that padding adds.

    Examples
    --------
    >>> augs = mx.image.CreateDetAugmenter((3, 4, 4), rand_mirror=True)
    >>> [type(aug).__name__ for aug in augs]
    ['DetHorizontalFlipAug', 'DetBorrowAug', 'DetBorrowAug']
    """
    size = width_and_height("CreateDetAugmenter", data_shape)
    augs: list[DetAugmenter] = []
    if resize > 0:
        augs.append(DetBorrowAug(ResizeAug(resize, inter_method)))
    if rand_crop > 0:
        augs.append(CreateMultiRandCropAugmenter(min_object_covered, aspect_ratio_range, area_range,
                                                 min_eject_coverage, max_attempts, 1 - rand_crop))
    if rand_mirror:
        augs.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        largest = area_range if isinstance(area_range, Real) else area_range[1]
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, largest), max_attempts, pad_val)
        augs.append(DetRandomSelectAug([pad], 1 - rand_pad))
    augs.append(DetBorrowAug(ForceResizeAug(size, inter_method)))
    return augs + [DetBorrowAug(aug) for aug in color_augmenters(
        mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray)]
