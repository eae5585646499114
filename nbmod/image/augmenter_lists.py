"""`CreateAugmenter`: a list of augmenters for the images of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import ArgumentError, CheckError, wrong_type
from ..ndarray import array
from .augmenters import (
    Augmenter,
    CastAug,
    CenterCropAug,
    ColorJitterAug,
    ColorNormalizeAug,
    HorizontalFlipAug,
    HueJitterAug,
    LightingAug,
    RandomCropAug,
    RandomGrayAug,
    RandomSizedCropAug,
    ResizeAug,
)

__all__ = ["CreateAugmenter"]

# Of ImageNet: means and standard deviations of channels, principal components of colors.
IMAGENET_MEAN = (123.68, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)
IMAGENET_EIGENVALUES = (55.46, 4.794, 1.148)
IMAGENET_EIGENVECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140),
                         (-0.5836, -0.6948, 0.4203))


def width_and_height(function: str, data_shape: Sequence[int]) -> tuple[int, int]:
    """The size of images of a shape.

    Parameters
    ----------
    function : str
        Name of the function, for the message.
    data_shape : sequence of int
        Shape of an image, (channels, height, width).

    Raises
    ------
    ArgumentError
        If it is none.
    """
    if not isinstance(data_shape, (tuple, list)):
        raise wrong_type(f"{function}: data_shape", data_shape, "(channels, height, width)")
    if len(data_shape) != 3:
        raise ArgumentError(f"{function}: data_shape is {data_shape!r:.80}, expected (channels, "
                            "height, width)")
    return data_shape[2], data_shape[1]


def CreateAugmenter(data_shape: Sequence[int], resize: int = 0, rand_crop: bool = False,
                    rand_resize: bool = False, rand_mirror: bool = False, mean: Any = None,
                    std: Any = None, brightness: float = 0, contrast: float = 0,
                    saturation: float = 0, hue: float = 0, pca_noise: float = 0,
                    rand_gray: float = 0, inter_method: int = 2) -> list[Augmenter]:
    """Return a list of augmenters for classification.

    They resize, crop to `data_shape`, mirror, convert to float32, change colors and normalize, in
    this order.

    Parameters
    ----------
    data_shape : tuple of int
        (channels, height, width) of the result.
    resize : int, default 0
        Length that the shorter side is resized to first; 0: no resizing.
    rand_crop : bool, default False
        Crop at a random position instead of the center.
    rand_resize : bool, default False
        Crop a part of random area, from 8% of the image, and of an aspect ratio from 3/4 to 4/3;
        needs `rand_crop`.
    rand_mirror : bool, default False
        Mirror with probability 1/2.
    mean : array_like or True, optional
        Mean of each channel, which is subtracted; True: that of ImageNet.
    std : array_like or True, optional
        Standard deviation of each channel, which is divided by; True: that of ImageNet.
    brightness : float, default 0
        Largest random change of brightness, see `BrightnessJitterAug`; 0: none.
    contrast : float, default 0
        Largest random change of contrast, see `ContrastJitterAug`; 0: none.
    saturation : float, default 0
        Largest random change of saturation, see `SaturationJitterAug`; 0: none.
    hue : float, default 0
        Largest random change of the hue, see `HueJitterAug`; 0: none.
    pca_noise : float, default 0
        Standard deviation of the shift of colors, see `LightingAug`; 0: none.
    rand_gray : float, default 0
        Probability of a conversion to gray.
    inter_method : int, default 2
        Interpolation, as `interp` of `imresize`.

    Raises
    ------
    ValueError
        If `rand_resize` is set without `rand_crop`.

    Examples
    --------
    >>> [type(aug).__name__ for aug in mx.image.CreateAugmenter((3, 4, 4), rand_mirror=True)]
    ['CenterCropAug', 'HorizontalFlipAug', 'CastAug']
    """
    size = width_and_height("CreateAugmenter", data_shape)
    augs: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    if rand_resize:
        if not rand_crop:
            raise CheckError("CreateAugmenter: rand_resize=True needs rand_crop=True")
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
    """Return the end of such lists: a conversion to float32, and changes of colors.

    Parameters
    ----------
    mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray
        As for `CreateAugmenter`.
    """
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
