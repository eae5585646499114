"""What the native record iterator does to an image, in MXNet's order.

    resize the shorter side -> turn, shear, scale -> pad -> cut -> colors -> mirror, normalize

`Augmentation` is the options; all its randomness comes in as numbers from 0 to 1, one row of them
for each image, so an image's fate does not depend on which thread meets it.  `Pixels` is what
it has in common with `detection`: sizes, and how an image is written into a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from ..base import MXNetError
from ..ops.image import resample
from ..ops.image.color import GREY, LIGHT
from ..ops.param import Shape
from . import kernels

__all__ = ["DRAWS", "Augmentation", "Pixels", "between", "recolored"]

DRAWS = 44
_KEPT = 3  # for what is done last
_TRIES = 10

_AUTOMATIC, _RANDOM = 9, 10


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """The options that MXNet's record iterators have for sizes and numbers of images."""

    methods: ClassVar[range] = range(5)
    """What `inter_method` may be, beside 9 (by the size) and 10 (random)."""

    data_shape: Shape
    resize: int = -1
    inter_method: int = 1
    mean_img: str = ""
    mean_r: float = 0.0
    mean_g: float = 0.0
    mean_b: float = 0.0
    mean_a: float = 0.0
    std_r: float = 1.0
    std_g: float = 1.0
    std_b: float = 1.0
    std_a: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if len(self.data_shape) != 3 or self.data_shape[0] not in (1, 3, 4):
            raise MXNetError(f"data_shape is {self.data_shape}, expected (channels, height, width) "
                             "with 1, 3 or 4 channels")
        if self.inter_method not in (*self.methods, _AUTOMATIC, _RANDOM):
            raise MXNetError(f"inter_method is {self.inter_method}, expected {self.methods[0]} to "
                             "4 (0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos), 9 (by the "
                             "size) or 10 (random)")

    @property
    def draws(self) -> int:
        """How many random numbers an image takes."""
        return 0

    def means(self) -> np.ndarray:
        """The mean of each channel, float32 of shape (channels, 1, 1)."""
        means = (self.mean_r, self.mean_g, self.mean_b, self.mean_a)[:self.data_shape[0]]
        return np.array(means, np.float32).reshape(-1, 1, 1)

    def finish(self, image: np.ndarray, draws: np.ndarray, mean: np.ndarray, out: np.ndarray
               ) -> None:
        """The last steps: normalize and write to `out`.  See `write`."""
        self.write(image, mean, out)

    def write(self, image: np.ndarray, mean: np.ndarray, out: np.ndarray, mirrored: bool = False,
              contrast: float = 1.0, light: float = 0.0) -> None:
        """out = (image - mean) * scale / std * contrast + light * scale, of shape `data_shape`.

        image: uint8 of height and width of `data_shape`.  mean: `means()`, or a mean image of
        shape `data_shape`.  out: float32; or int8, which only takes the means off, or uint8, the
        image as it is.
        """
        if out.dtype == np.float32:
            deviations = (self.std_r, self.std_g, self.std_b, self.std_a)[:len(out)]
            factors = np.array([self.scale / (std or 1.0) for std in deviations]) * contrast
            kernels.normalize(image, mirrored, mean, factors.astype(np.float32),
                              np.float32(light * self.scale), np.empty(out.shape[2], np.uint8), out)
        elif out.dtype == np.int8:
            kernels.place(image, mirrored, mean[:, 0, 0].astype(np.int64), -128, 127, out)
        else:
            kernels.arrange(image, mirrored, out)

    def _resized(self, image: np.ndarray, height: int, width: int, left: Iterator[float]
                 ) -> np.ndarray:
        method = self.inter_method
        if method == _AUTOMATIC:
            method = resample.by_size(image.shape[:2], (height, width))
        elif method == _RANDOM:
            method = int(5 * next(left, 0.0))
        out = np.empty((height, width, image.shape[2]), np.uint8)
        resample.resize(np.ascontiguousarray(image), out, method)
        return out

    def _short_side(self, image: np.ndarray, left: Iterator[float]) -> np.ndarray:
        """The image with its shorter side `resize` long, if that is asked for."""
        height, width = image.shape[:2]
        if self.resize <= 0:
            return image
        if height > width:
            size = (self.resize * height // width, self.resize)
        else:
            size = (self.resize, self.resize * width // height)
        return self._resized(image, *size, left)


@dataclass(frozen=True, kw_only=True)
class Augmentation(Pixels):
    """The options that MXNet's `ImageRecordIter` has for what is done to images."""

    methods: ClassVar[range] = range(1, 5)

    rand_crop: bool = False
    random_resized_crop: bool = False
    max_rotate_angle: int = 0
    max_aspect_ratio: float = 0.0
    min_aspect_ratio: float | None = None
    max_shear_ratio: float = 0.0
    max_crop_size: int = -1
    min_crop_size: int = -1
    max_random_scale: float = 1.0
    min_random_scale: float = 1.0
    max_random_area: float = 1.0
    min_random_area: float = 1.0
    max_img_size: float = 1e10
    min_img_size: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    pca_noise: float = 0.0
    random_h: int = 0
    random_s: int = 0
    random_l: int = 0
    rotate: int = -1
    fill_value: int = 255
    pad: int = 0
    mirror: bool = False
    rand_mirror: bool = False
    max_random_contrast: float = 0.0
    max_random_illumination: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_crop_size < self.min_crop_size:
            raise MXNetError(f"max_crop_size is {self.max_crop_size}, expected at least "
                             f"min_crop_size, which is {self.min_crop_size}")
        if self.random_resized_crop:
            self._require_one_crop()

    def _require_one_crop(self) -> None:
        """MXNetError if `random_resized_crop` is given with what it takes the place of."""
        others = ("rand_crop", "max_random_scale", "min_random_scale", "max_crop_size",
                  "min_crop_size")
        given = [name for name in others if getattr(self, name) != getattr(Augmentation, name)]
        if given:
            raise MXNetError("random_resized_crop cuts a part of random size and place by itself, "
                             f"expected without {', '.join(given)}")
        if self.min_aspect_ratio is not None and self.min_aspect_ratio > self.max_aspect_ratio:
            raise MXNetError(f"min_aspect_ratio is {self.min_aspect_ratio}, expected at most "
                             f"max_aspect_ratio, which is {self.max_aspect_ratio}")

    @property
    def draws(self) -> int:
        return DRAWS

    # -- the image ------------------------------------------------------------------------

    def cut(self, image: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """The image before it is mirrored and normalized, of height and width of `data_shape`.

        image: uint8 (height, width, channels).  draws: `DRAWS` numbers from 0 to 1.
        """
        left = iter(draws[:-_KEPT].tolist())
        image = self._short_side(image, left)
        if self._turns:
            image = self._warped(image, left)
        if self.pad > 0:
            edges = (self.pad, self.pad)
            image = np.pad(image, (edges, edges, (0, 0)), constant_values=self.fill_value)
        image = self._cropped(image, left)
        return self._colored(image, left) if image.shape[2] == 3 else image

    def finish(self, image: np.ndarray, draws: np.ndarray, mean: np.ndarray, out: np.ndarray
               ) -> None:
        """The last steps: mirror, more light, normalize and write to `out`.  See `write`."""
        self.write(image, mean, out, self.mirror or self.rand_mirror and bool(draws[-1] < 0.5),
                   1 + self.max_random_contrast * (2 * draws[-2] - 1),
                   self.max_random_illumination * (2 * draws[-3] - 1))

    # -- the steps --------------------------------------------------------------------------

    @cached_property
    def _turns(self) -> bool:
        """Whether turning, shearing or scaling is asked for."""
        shapes = self.max_aspect_ratio > 0 and not self.random_resized_crop
        return (self.rotate > 0 or self.max_rotate_angle > 0 or self.max_shear_ratio > 0 or shapes
                or self.max_random_scale != 1 or self.min_random_scale != 1
                or self.max_img_size != 1e10 or self.min_img_size != 0)

    def _warped(self, image: np.ndarray, left: Iterator[float]) -> np.ndarray:
        """The image turned about its center, sheared, and stretched, between its pixels."""
        draw = [2 * next(left) - 1 for _ in range(4)]
        angle = float(self.rotate) if self.rotate > 0 else self.max_rotate_angle * draw[0]
        scale = between(self.min_random_scale, self.max_random_scale, (draw[1] + 1) / 2)
        shape = 0.0 if self.random_resized_crop else self.max_aspect_ratio
        stretch = math.sqrt(max(1 + shape * draw[2], 0.01))
        turn = math.radians(angle)
        linear = (np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
                  @ np.array([[1.0, self.max_shear_ratio * draw[3]], [0.0, 1.0]])
                  @ np.diag([scale * stretch, scale / stretch]))
        height, width = (int(min(max(scale * side, self.min_img_size), self.max_img_size))
                         for side in image.shape[:2])
        old, new = np.array([image.shape[1], image.shape[0]]), np.array([width, height])
        inverse = np.linalg.inv(linear)
        back = np.column_stack([inverse, (old - inverse @ new) / 2])
        out = np.empty((max(height, 1), max(width, 1), image.shape[2]), np.uint8)
        kernels.warp(np.ascontiguousarray(image), back, self.fill_value, out)
        return out

    def _cropped(self, image: np.ndarray, left: Iterator[float]) -> np.ndarray:
        """A part of the image of the size that is asked for."""
        height, width = self.data_shape[1:]
        if self.random_resized_crop:
            return self._resized(self._any_part(image, left), height, width, left)
        if self.max_crop_size > 0:
            if self.max_crop_size > min(image.shape[:2]):
                raise MXNetError(f"max_crop_size is {self.max_crop_size}, the image has "
                                 f"{image.shape[0]}x{image.shape[1]} pixels")
            span = self.max_crop_size - self.min_crop_size + 1
            side = self.min_crop_size + min(int(span * next(left)), span - 1)
            return self._resized(self._window(image, side, side, left), height, width, left)
        if image.shape[0] < height:
            image = self._resized(image, height, image.shape[1] * height // image.shape[0], left)
        if image.shape[1] < width:
            image = self._resized(image, image.shape[0] * width // image.shape[1], width, left)
        return self._window(image, height, width, left)

    def _window(self, image: np.ndarray, height: int, width: int, left: Iterator[float]
                ) -> np.ndarray:
        """A window somewhere, or in the middle."""
        down, right = image.shape[0] - height, image.shape[1] - width
        if self.rand_crop or self.random_resized_crop:
            top, start = int((down + 1) * next(left)), int((right + 1) * next(left))
        else:
            top, start = down // 2, right // 2
        return image[top:top + height, start:start + width]

    def _any_part(self, image: np.ndarray, left: Iterator[float]) -> np.ndarray:
        """A window of random area and shape (Szegedy et al., "Going deeper with convolutions")."""
        height, width = image.shape[:2]
        least = self.min_aspect_ratio if self.min_aspect_ratio is not None else (
            1 - self.max_aspect_ratio)
        most = self.max_aspect_ratio if self.min_aspect_ratio is not None else (
            1 + self.max_aspect_ratio)
        for _ in range(_TRIES):
            area = height * width * between(self.min_random_area, self.max_random_area,
                                             next(left))
            ratio = max(between(least, most, next(left)), 1e-3)
            h, w = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < h <= height and 0 < w <= width:
                return self._window(image, h, w, left)
        side = min(height, width)
        return self._window(image, side, side, left)

    def _colored(self, image: np.ndarray, left: Iterator[float]) -> np.ndarray:
        """Changed colors: brightness, contrast, saturation, along the main axes; hue and so on."""
        jitter = self.brightness or self.contrast or self.saturation or self.pca_noise
        if not (jitter or self.random_h or self.random_s or self.random_l):
            return image
        if self.random_h or self.random_s or self.random_l:
            hue, light, saturation = [limit * (2 * next(left) - 1) for limit in
                                      (self.random_h, self.random_l, self.random_s)]
            image = recolored(image, hue, light, saturation)
        values = image.astype(np.float64)
        if self.brightness:
            values = values * (1 + self.brightness * (2 * next(left) - 1))
        if self.contrast:
            kept = 1 + self.contrast * (2 * next(left) - 1)
            values = values * kept + (values @ GREY).mean() * (1 - kept)
        if self.saturation:
            kept = 1 + self.saturation * (2 * next(left) - 1)
            values = values * kept + (values @ GREY)[..., None] * (1 - kept)
        if self.pca_noise:
            normal = NormalDist(sigma=self.pca_noise)
            alphas = [normal.inv_cdf(min(max(next(left), 1e-9), 1 - 1e-9)) for _ in range(3)]
            values = values + LIGHT @ alphas
        return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def between(least: Any, most: Any, draw: Any) -> Any:
    """The number that is the share `draw` of the way from `least` to `most`; or arrays of them."""
    return least + (most - least) * draw


def recolored(image: np.ndarray, hue: float, light: float, saturation: float) -> np.ndarray:
    """See `kernels.recolor`."""
    out = np.empty_like(image, order="C")
    kernels.recolor(np.ascontiguousarray(image), hue, light, saturation, out)
    return out
