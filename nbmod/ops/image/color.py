"""Color augmentation of an image (H, W, C): brightness, contrast, saturation, hue, lighting.

C is 3, red, green and blue from 0 to 255, or 1: a grey image has no hue and no saturation, and PCA
lighting does not change it.  Random parameters are drawn once for each image.  Integers are
computed in float32, saturated and truncated.

Gradients are passed through unchanged, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Node
from ..param import Floats
from ..random.rng import generator
from ..shape import ShapeMismatch
from .preprocess import ImageOp, saturate

__all__: list[str] = []

GREY = np.array([0.299, 0.587, 0.114])
"""Luma coefficients of red, green and blue (ITU-R BT.601)."""

LIGHT = np.array([[-0.5675, 0.7192, 0.4009],
                  [-0.5808, -0.0045, -0.8140],
                  [-0.5836, -0.6948, 0.4203]]) * [55.46, 4.794, 1.148]
"""Principal components of the colours of ImageNet, times their standard deviations (Krizhevsky et
al. 2012)."""


# -- transforms of a floating-point image ------------------------------------------------------


def _grey(x: np.ndarray) -> np.ndarray:
    """(H, W, 1)"""
    return (x @ GREY.astype(x.dtype))[..., None] if x.shape[2] == 3 else x


def _brightness(x: np.ndarray, factor: float) -> np.ndarray:
    return x * factor


def _contrast(x: np.ndarray, factor: float) -> np.ndarray:
    return x * factor + _grey(x).mean(dtype=np.float64).astype(x.dtype) * (1 - factor)


def _saturation(x: np.ndarray, factor: float) -> np.ndarray:
    return x * factor + _grey(x) * (1 - factor)


def _hue(x: np.ndarray, turn: float) -> np.ndarray:
    """Hues rotated by `turn` of the circle; maximum and minimum of a pixel stay."""
    if x.shape[2] == 1:
        return x
    red, green, blue = np.moveaxis(x, 2, 0).copy()
    high = np.maximum(np.maximum(red, green), blue)
    low = np.minimum(np.minimum(red, green), blue)
    span = high - low
    sixths = np.where(high == red, green - blue,
                      np.where(high == green, blue - red + 2 * span, red - green + 4 * span))
    hue = sixths / np.where(span > 0, span, 1) + 6 * turn
    hue -= 6 * np.floor(hue / 6)
    y = np.empty_like(x)
    for channel, share in enumerate((abs(hue - 3) - 1, 2 - abs(hue - 2), 2 - abs(hue - 4))):
        y[..., channel] = low + span * np.clip(share, 0, 1, out=share)
    return y


def _light(x: np.ndarray, alpha: np.ndarray | Sequence[float]) -> np.ndarray:
    return x + (LIGHT @ np.asarray(alpha)).astype(x.dtype) if x.shape[2] == 3 else x


Change = Callable[[np.ndarray, Any], np.ndarray]


# -- ops ----------------------------------------------------------------------------------------


class _Colour(ImageOp):
    """Base: `steps` returns the operations on a floating point image."""

    shapes: ClassVar = "(H, W, C) with C of 3 or 1, the same for the output"

    def result(self, data):
        if data[2] not in (0, 1, 3):
            raise ShapeMismatch(f"data has shape {data}, expected 1 or 3 channels")
        return data

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None]:
        return ograds

    def steps(self) -> list[tuple[Change, Any]]:
        """Operations and their amounts, in order; random factors are drawn here."""
        raise NotImplementedError

    def forward(self, ins, outs, call):
        real = np.float64 if ins[0].dtype == np.float64 else np.float32
        x = ins[0].astype(real, copy=False)
        for change, amount in self.steps():
            x = change(x, amount).astype(real, copy=False)
        saturate(x, outs[0])


@dataclass(frozen=True)
class AdjustLighting(_Colour, name="_image_adjust_lighting"):
    """y = x + P (alpha s), with P the principal components of ImageNet's colours and s their
    standard deviations; `alpha` has three values."""

    alpha: Floats

    def __post_init__(self):
        if len(self.alpha) != 3:
            raise MXNetError(f"{self.name}: alpha is {self.alpha}, expected 3 numbers")

    def steps(self):
        return [(_light, self.alpha)]


@dataclass(frozen=True)
class RandomLighting(_Colour, name="_image_random_lighting"):
    """`adjust_lighting` with normally distributed alpha of standard deviation `alpha_std`."""

    alpha_std: float = 0.05

    random: ClassVar = True

    def steps(self):
        return [(_light, self.alpha_std * generator().standard_normal(3))]


@dataclass(frozen=True)
class _RandomFactor(_Colour):
    """Base: `change` with a factor drawn uniformly from [min_factor, max_factor)."""

    random: ClassVar = True
    change: ClassVar[Any]
    min_factor: float
    max_factor: float

    def __post_init__(self):
        if not 0 <= self.min_factor <= self.max_factor:
            raise MXNetError(f"{self.name}: min_factor is {self.min_factor} and max_factor is "
                             f"{self.max_factor}, expected 0 <= min_factor <= max_factor")

    def steps(self):
        return [(type(self).change, generator().uniform(self.min_factor, self.max_factor))]


@dataclass(frozen=True)
class RandomBrightness(_RandomFactor, name="_image_random_brightness"):
    """y = f x, with f drawn uniformly from `min_factor` to `max_factor`."""

    change: ClassVar = staticmethod(_brightness)


@dataclass(frozen=True)
class RandomContrast(_RandomFactor, name="_image_random_contrast"):
    """y = f x + (1 - f) (mean grey of the image), with f from `min_factor` to `max_factor`.

    A pixel's grey is 0.299 red + 0.587 green + 0.114 blue.
    """

    change: ClassVar = staticmethod(_contrast)


@dataclass(frozen=True)
class RandomSaturation(_RandomFactor, name="_image_random_saturation"):
    """y = f x + (1 - f) (grey of the pixel), with f from `min_factor` to `max_factor`.

    A pixel's grey is 0.299 red + 0.587 green + 0.114 blue.
    """

    change: ClassVar = staticmethod(_saturation)


@dataclass(frozen=True)
class RandomHue(_RandomFactor, name="_image_random_hue"):
    """y = x with all hues rotated by f of the colour circle, f from `min_factor` to `max_factor`.

    The greatest and the least value of a pixel stay; f = 0 and f = 1 leave x as it is.
    """

    change: ClassVar = staticmethod(_hue)


@dataclass(frozen=True)
class RandomColorJitter(_Colour, name="_image_random_color_jitter"):
    """y = x with brightness, contrast, saturation and hue changed, in random order.

    Factors are drawn from 1 - b to 1 + b, the turn of hues from - b to b, where b is the parameter
    of that name; nothing is done for a b of 0 or less.
    """

    brightness: float
    contrast: float
    saturation: float
    hue: float

    random: ClassVar = True

    def steps(self):
        rng = generator()
        spreads = [(_brightness, 1, self.brightness), (_contrast, 1, self.contrast),
                   (_saturation, 1, self.saturation), (_hue, 0, self.hue)]
        chosen = [spreads[number] for number in rng.permutation(len(spreads))]
        return [(change, middle + rng.uniform(-spread, spread)) for change, middle, spread in chosen
                if spread > 0]
