"""Augmenters: objects that change an image when they are called, most of them at random.

An image is an NDArray of shape (height, width, channels).  Random numbers come from Python's
`random` (from NumPy's for `LightingAug`), drawn in MXNet's order.  A changed image is a new array.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import CheckError, checks_numbers
from ..ndarray import NDArray, array
from . import image_functions

__all__ = ["Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug",
           "ColorNormalizeAug", "ContrastJitterAug", "ForceResizeAug", "HorizontalFlipAug",
           "HueJitterAug", "LightingAug", "RandomCropAug", "RandomGrayAug", "RandomOrderAug",
           "RandomSizedCropAug", "ResizeAug", "SaturationJitterAug", "SequentialAug"]

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
_GRAY = np.array([0.21, 0.72, 0.07], np.float32)


class Described:
    """Base class of objects that return their name and parameters as JSON.

    Parameters
    ----------
    **kwargs
        Parameters for `dumps`; arrays become lists.
    """

    def __init__(self, **kwargs: Any):
        self._kwargs = {name: _plain(value) for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Return the name of the class in lower case and the parameters, as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])


class Augmenter(Described):
    """Base class of augmenters.

    A subclass passes its parameters to this constructor, for `dumps`, and defines `__call__`.

    Parameters
    ----------
    **kwargs
        Parameters for `dumps`; arrays become lists.

    Examples
    --------
    >>> class Invert(mx.image.Augmenter):
    ...     def __call__(self, src):
    ...         return 255 - src
    >>> Invert()(mx.nd.zeros((1, 1, 1))).asnumpy().tolist()
    [[[255.0]]]
    """

    def __call__(self, src: NDArray) -> NDArray:
        """Return the changed image."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


def _plain(value: Any) -> Any:
    if isinstance(value, NDArray):
        value = value.asnumpy()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _of(values: np.ndarray, like: NDArray) -> NDArray:
    return array(values, ctx=like.context, dtype=np.float32)


class _Several(Augmenter):
    """Base class of augmenters that apply others."""

    def __init__(self, ts: Sequence[Augmenter]):
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Return the name and the dumps of the others."""
        return [type(self).__name__.lower(), [x.dumps() for x in self.ts]]


class SequentialAug(_Several):
    """Apply several augmenters, one after another.

    Parameters
    ----------
    ts : sequence of Augmenter
        Augmenters to apply.

    Examples
    --------
    >>> augment = mx.image.SequentialAug([mx.image.ResizeAug(4), mx.image.CenterCropAug((3, 3))])
    >>> augment(mx.nd.zeros((8, 10, 3), dtype="uint8")).shape
    (3, 3, 3)
    """

    def __call__(self, src: NDArray) -> NDArray:
        for aug in self.ts:
            src = aug(src)
        return src


class RandomOrderAug(_Several):
    """Apply several augmenters in random order.

    Parameters
    ----------
    ts : sequence of Augmenter
        Augmenters to apply.
    """

    def __call__(self, src: NDArray) -> NDArray:
        random.shuffle(self.ts)
        for aug in self.ts:
            src = aug(src)
        return src


class ResizeAug(Augmenter):
    """Resize the shorter side, keeping the aspect ratio: see `resize_short`.

    Parameters
    ----------
    size : int
        Length of the shorter side.
    interp : int, default 2
        Interpolation: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 random.
    """

    @checks_numbers
    def __init__(self, size: int, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return image_functions.resize_short(src, self.size, self.interp)


class _ToSize(Augmenter):
    """Base class of augmenters whose results have a given (width, height)."""

    @checks_numbers
    def __init__(self, size: image_functions.Size, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp


class ForceResizeAug(_ToSize):
    """Resize the image to a given size, whatever its aspect ratio.

    Parameters
    ----------
    size : tuple of int
        (width, height) of the result.
    interp : int, default 2
        Interpolation: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 random.
    """

    def __call__(self, src: NDArray) -> NDArray:
        return image_functions.imresize(src, *self.size, self.interp)


class RandomCropAug(_ToSize):
    """Crop at a random position: see `random_crop`.

    Parameters
    ----------
    size, interp
        As for `ForceResizeAug`.
    """

    def __call__(self, src: NDArray) -> NDArray:
        return image_functions.random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Crop a part of random area and aspect ratio, and resize it: see `random_size_crop`.

    Parameters
    ----------
    size, interp
        As for `ForceResizeAug`.
    area : float or tuple of float
        Smallest and largest share of the image's area; a number: the smallest, and the largest is
        1.
    ratio : tuple of float
        Smallest and largest ratio of width to height.
    **kwargs
        Only `min_area`, an older name of `area`.
    """

    @checks_numbers
    def __init__(self, size: image_functions.Size, area: Any, ratio: tuple[float, float],
                 interp: int = 2, **kwargs: Any):
        area = kwargs.pop("min_area", area)
        if kwargs:
            raise CheckError(f"RandomSizedCropAug: unexpected arguments {sorted(kwargs)}")
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src: NDArray) -> NDArray:
        return image_functions.random_size_crop(src, self.size, self.area, self.ratio,
                                                self.interp)[0]


class CenterCropAug(_ToSize):
    """Crop the center: see `center_crop`.

    Parameters
    ----------
    size, interp
        As for `ForceResizeAug`.
    """

    def __call__(self, src: NDArray) -> NDArray:
        return image_functions.center_crop(src, self.size, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """Multiply the image by 1 + a.

    Parameters
    ----------
    brightness : float
        `a` is drawn from -brightness to brightness.
    """

    @checks_numbers
    def __init__(self, brightness: float):
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray) -> NDArray:
        return src * _of(np.array([1.0 + random.uniform(-self.brightness, self.brightness)]), src)


class ContrastJitterAug(Augmenter):
    """Multiply the distance of the pixels to the mean gray of the image by 1 + a.

    Parameters
    ----------
    contrast : float
        `a` is drawn from -contrast to contrast.
    """

    @checks_numbers
    def __init__(self, contrast: float):
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: NDArray) -> NDArray:
        factor = 1.0 + random.uniform(-self.contrast, self.contrast)
        gray = (src * _of(_LUMA, src)).sum() * (3.0 * (1.0 - factor) / src.size)
        return src * factor + gray.reshape((1, 1, 1))


class SaturationJitterAug(Augmenter):
    """Multiply the distance of the channels to the gray of each pixel by 1 + a.

    Parameters
    ----------
    saturation : float
        `a` is drawn from -saturation to saturation.
    """

    @checks_numbers
    def __init__(self, saturation: float):
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: NDArray) -> NDArray:
        factor = 1.0 + random.uniform(-self.saturation, self.saturation)
        gray = (src * _of(_LUMA, src)).sum(axis=2, keepdims=True)
        return src * factor + gray * (1.0 - factor)


class HueJitterAug(Augmenter):
    """Rotate the colors in the plane of I and Q of the YIQ color space, by pi a.

    Parameters
    ----------
    hue : float
        `a` is drawn from -hue to hue.
    """

    @checks_numbers
    def __init__(self, hue: float):
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: NDArray) -> NDArray:
        turn = random.uniform(-self.hue, self.hue) * np.pi
        plane = np.array([[1, 0, 0], [0, np.cos(turn), -np.sin(turn)],
                          [0, np.sin(turn), np.cos(turn)]])
        return _mixed(src, (_FROM_YIQ @ plane @ _TO_YIQ).T)


def _mixed(src: NDArray, matrix: np.ndarray) -> NDArray:
    """Multiply every pixel by a color matrix."""
    from ..ndarray import op

    return op.dot(src, _of(matrix, src))


class ColorJitterAug(RandomOrderAug):
    """Change brightness, contrast and saturation in random order.

    A limit of 0 excludes that change.

    Parameters
    ----------
    brightness : float
        Limit of `BrightnessJitterAug`.
    contrast : float
        Limit of `ContrastJitterAug`.
    saturation : float
        Limit of `SaturationJitterAug`.
    """

    @checks_numbers
    def __init__(self, brightness: float, contrast: float, saturation: float):
        kinds = ((BrightnessJitterAug, brightness), (ContrastJitterAug, contrast),
                 (SaturationJitterAug, saturation))
        super().__init__([kind(amount) for kind, amount in kinds if amount > 0])


class LightingAug(Augmenter):
    """Shift the colors along their principal components.

    Parameters
    ----------
    alphastd : float
        Standard deviation of the coefficients.
    eigval : array_like
        Eigenvalues of the colors' covariance, of shape (3,).
    eigvec : array_like
        Eigenvectors in the columns, of shape (3, 3).

    Notes
    -----
    The method is that of Krizhevsky et al., "ImageNet classification with deep convolutional neural
    networks", 2012.
    """

    @checks_numbers
    def __init__(self, alphastd: float, eigval: Any, eigvec: Any):
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src: NDArray) -> NDArray:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        return src + _of(np.dot(_array(self.eigvec) * alpha, _array(self.eigval)), src)


def _array(values: Any) -> np.ndarray:
    return values.asnumpy() if isinstance(values, NDArray) else np.asarray(values)


class ColorNormalizeAug(Augmenter):
    """Return (image - mean) / std.

    Parameters
    ----------
    mean : array_like or None
        Mean of each channel; None: nothing is subtracted.
    std : array_like or None
        Standard deviation of each channel; None: nothing is divided by.
    """

    def __init__(self, mean: Any, std: Any):
        super().__init__(mean=mean, std=std)
        self.mean, self.std = (value if value is None or isinstance(value, NDArray)
                               else array(np.asarray(value, np.float32)) for value in (mean, std))

    def __call__(self, src: NDArray) -> NDArray:
        return image_functions.color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Convert the image to gray, in three equal channels.

    Parameters
    ----------
    p : float
        Probability of the conversion.
    """

    @checks_numbers
    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        if random.random() < self.p:
            return _mixed(src, np.repeat(_GRAY[:, None], 3, 1))
        return src


class HorizontalFlipAug(Augmenter):
    """Mirror the image horizontally.

    Parameters
    ----------
    p : float
        Probability of mirroring.

    Examples
    --------
    >>> image = mx.nd.array([[[1], [2]]])
    >>> mx.image.HorizontalFlipAug(1)(image).asnumpy().tolist()
    [[[2.0], [1.0]]]
    """

    @checks_numbers
    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        return src.flip(axis=1) if random.random() < self.p else src


class CastAug(Augmenter):
    """Convert the element type.

    Parameters
    ----------
    typ : str, default 'float32'
        Element type of the result.
    """

    def __init__(self, typ: str = "float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray) -> NDArray:
        return src.astype(self.typ)
