"""Augmenters: objects that change a picture when they are called, most of them at random.

A picture is an NDArray of shape (height, width, channels).  Randomness is Python's `random` (and
NumPy's for `LightingAug`), drawn in MXNet's order.  A changed picture is a new array.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray, array
from . import functions

__all__ = ["Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug",
           "ColorNormalizeAug", "ContrastJitterAug", "CreateAugmenter", "ForceResizeAug",
           "HorizontalFlipAug", "HueJitterAug", "LightingAug", "RandomCropAug", "RandomGrayAug",
           "RandomOrderAug", "RandomSizedCropAug", "ResizeAug", "SaturationJitterAug",
           "SequentialAug"]

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
_GRAY = np.array([0.21, 0.72, 0.07], np.float32)

# Of the pictures of ImageNet: means and deviations of channels, main axes of colors.
IMAGENET_MEAN = (123.68, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)
IMAGENET_EIGENVALUES = (55.46, 4.794, 1.148)
IMAGENET_EIGENVECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140),
                         (-0.5836, -0.6948, 0.4203))


class Described:
    """Base of what says its name and parameters."""

    def __init__(self, **kwargs: Any):
        self._kwargs = {name: _plain(value) for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Name and parameters as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])


class Augmenter(Described):
    """Base of all.  A subclass passes its parameters on, for `dumps`, and defines `__call__`."""

    def __call__(self, src: NDArray) -> NDArray:
        """The changed picture."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


def _plain(value: Any) -> Any:
    if isinstance(value, NDArray):
        value = value.asnumpy()
    return value.tolist() if isinstance(value, np.ndarray) else value


def _of(values: np.ndarray, like: NDArray) -> NDArray:
    return array(values, ctx=like.context, dtype=np.float32)


class _Several(Augmenter):
    """Base of augmenters of augmenters."""

    def __init__(self, ts: Sequence[Augmenter]):
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Name, and what the others dump."""
        return [type(self).__name__.lower(), [x.dumps() for x in self.ts]]


class SequentialAug(_Several):
    """Some augmenters, one after the other."""

    def __call__(self, src: NDArray) -> NDArray:
        for aug in self.ts:
            src = aug(src)
        return src


class RandomOrderAug(_Several):
    """Some augmenters in random order."""

    def __call__(self, src: NDArray) -> NDArray:
        random.shuffle(self.ts)
        for aug in self.ts:
            src = aug(src)
        return src


class ResizeAug(Augmenter):
    """The shorter side gets `size` pixels."""

    def __init__(self, size: int, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return functions.resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """The picture gets `size`, (width, height), whatever its shape."""

    def __init__(self, size: functions.Size, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return functions.imresize(src, *self.size, self.interp)


class RandomCropAug(Augmenter):
    """A part of `size`, (width, height), anywhere."""

    def __init__(self, size: functions.Size, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return functions.random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """A part of random area and shape, resized to `size`; see `random_size_crop`."""

    def __init__(self, size: functions.Size, area: Any, ratio: tuple[float, float],
                 interp: int = 2, **kwargs: Any):
        area = kwargs.pop("min_area", area)
        if kwargs:
            raise TypeError(f"RandomSizedCropAug: unexpected arguments {sorted(kwargs)}")
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src: NDArray) -> NDArray:
        return functions.random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(Augmenter):
    """The part of `size`, (width, height), in the middle."""

    def __init__(self, size: functions.Size, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return functions.center_crop(src, self.size, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """Times 1 + a, with a from -brightness to brightness."""

    def __init__(self, brightness: float):
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray) -> NDArray:
        return src * _of(np.array([1.0 + random.uniform(-self.brightness, self.brightness)]), src)


class ContrastJitterAug(Augmenter):
    """Times 1 + a, about the mean gray of the picture."""

    def __init__(self, contrast: float):
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: NDArray) -> NDArray:
        kept = 1.0 + random.uniform(-self.contrast, self.contrast)
        gray = (src * _of(_LUMA, src)).sum() * (3.0 * (1.0 - kept) / src.size)
        return src * kept + gray.reshape((1, 1, 1))


class SaturationJitterAug(Augmenter):
    """Times 1 + a, about the gray of each pixel."""

    def __init__(self, saturation: float):
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: NDArray) -> NDArray:
        kept = 1.0 + random.uniform(-self.saturation, self.saturation)
        gray = (src * _of(_LUMA, src)).sum(axis=2, keepdims=True)
        return src * kept + gray * (1.0 - kept)


class HueJitterAug(Augmenter):
    """Colors turned in the plane of I and Q (of YIQ) by a half-turns, a from -hue to hue."""

    def __init__(self, hue: float):
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: NDArray) -> NDArray:
        turn = random.uniform(-self.hue, self.hue) * np.pi
        plane = np.array([[1, 0, 0], [0, np.cos(turn), -np.sin(turn)],
                          [0, np.sin(turn), np.cos(turn)]])
        return _mixed(src, (_FROM_YIQ @ plane @ _TO_YIQ).T)


def _mixed(src: NDArray, matrix: np.ndarray) -> NDArray:
    """Every pixel times a matrix of channels."""
    from ..ndarray import op

    return op.dot(src, _of(matrix, src))


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in random order, those that are not 0."""

    def __init__(self, brightness: float, contrast: float, saturation: float):
        kinds = ((BrightnessJitterAug, brightness), (ContrastJitterAug, contrast),
                 (SaturationJitterAug, saturation))
        super().__init__([kind(amount) for kind, amount in kinds if amount > 0])


class LightingAug(Augmenter):
    """Colors shifted along the main axes, as for AlexNet (Krizhevsky et al., 2012)."""

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any):
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src: NDArray) -> NDArray:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        return src + _of(np.dot(_array(self.eigvec) * alpha, _array(self.eigval)), src)


def _array(values: Any) -> np.ndarray:
    return values.asnumpy() if isinstance(values, NDArray) else np.asarray(values)


class ColorNormalizeAug(Augmenter):
    """(picture - mean) / std, for each channel."""

    def __init__(self, mean: Any, std: Any):
        super().__init__(mean=mean, std=std)
        self.mean, self.std = (value if value is None or isinstance(value, NDArray)
                               else array(np.asarray(value, np.float32)) for value in (mean, std))

    def __call__(self, src: NDArray) -> NDArray:
        return functions.color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Gray with probability p."""

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        if random.random() < self.p:
            return _mixed(src, np.repeat(_GRAY[:, None], 3, 1))
        return src


class HorizontalFlipAug(Augmenter):
    """Mirrored with probability p."""

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        return src.flip(axis=1) if random.random() < self.p else src


class CastAug(Augmenter):
    """Another element type."""

    def __init__(self, typ: str = "float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray) -> NDArray:
        return src.astype(self.typ)


def CreateAugmenter(data_shape: Sequence[int], resize: int = 0, rand_crop: bool = False,
                    rand_resize: bool = False, rand_mirror: bool = False, mean: Any = None,
                    std: Any = None, brightness: float = 0, contrast: float = 0,
                    saturation: float = 0, hue: float = 0, pca_noise: float = 0,
                    rand_gray: float = 0, inter_method: int = 2) -> list[Augmenter]:
    """The usual list: resize, cut to `data_shape` (channels, height, width), mirror, colors.

    mean, std: numbers for each channel; True for those of ImageNet.
    """
    size = (data_shape[2], data_shape[1])
    augs: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    if rand_resize:
        if not rand_crop:
            raise ValueError("CreateAugmenter: rand_resize=True needs rand_crop=True")
        augs.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    elif rand_crop:
        augs.append(RandomCropAug(size, inter_method))
    else:
        augs.append(CenterCropAug(size, inter_method))
    if rand_mirror:
        augs.append(HorizontalFlipAug(0.5))
    mean = array(IMAGENET_MEAN) if mean is True else mean  # float32, which `dumps` shows
    std = array(IMAGENET_STD) if std is True else std
    return augs + color_augmenters(mean, std, brightness, contrast, saturation, hue, pca_noise,
                                   rand_gray)


def color_augmenters(mean: Any, std: Any, brightness: float, contrast: float, saturation: float,
                     hue: float, pca_noise: float, rand_gray: float) -> list[Augmenter]:
    """The second half of such lists: a picture becomes float32, and its colors change."""
    augs: list[Augmenter] = [CastAug()]
    if brightness or contrast or saturation:
        augs.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        augs.append(HueJitterAug(hue))
    if pca_noise > 0:
        augs.append(LightingAug(pca_noise, np.array(IMAGENET_EIGENVALUES),
                                np.array(IMAGENET_EIGENVECTORS)))
    if rand_gray > 0:
        augs.append(RandomGrayAug(rand_gray))
    mean = np.array(IMAGENET_MEAN) if mean is True else mean
    std = np.array(IMAGENET_STD) if std is True else std
    if mean is not None or std is not None:
        augs.append(ColorNormalizeAug(mean, std))
    return augs
