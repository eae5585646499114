"""Augmentation of `ImageRecordIter`, in MXNet's order.

    resize the shorter side -> rotate, shear, scale -> pad -> crop -> colors -> mirror, normalize

`Augmentation` holds the options.  All randomness is passed in as uniform draws from 0 to 1, one row
for each image, so results do not depend on which thread processes which image.  `ImageOptions` are
shared with `record_det_augmenter`: sizes, and normalization into the batch.
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

__all__ = ["DRAWS", "Augmentation", "ImageOptions", "lerp", "shifted_hls"]

DRAWS = 44
_FINAL_DRAWS = 3  # the draws that `normalize` uses
_MAX_TRIALS = 10

_AUTOMATIC, _RANDOM = 9, 10


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Options of MXNet's record iterators for sizes and for normalization.

    Parameters
    ----------
    data_shape : tuple of int
        Shape of an image in a batch, (channels, height, width), with 1, 3 or 4 channels.
    resize : int, default -1
        Length that the shorter side of the image is resized to first; not positive: no resizing.
    inter_method : int, default 1
        Interpolation: 0 nearest (only `ImageDetRecordIter`), 1 linear, 2 cubic, 3 area, 4 Lanczos,
        9 cubic where both sides grow, area where both shrink and linear otherwise, 10 one of 0 to 4
        at random.
    mean_img : str, default ''
        File with a mean image, an array 'mean_img' of the shape `data_shape`, which is subtracted.
        A file that does not exist is written, with the mean of all images of the part as they are
        cropped.
    mean_r : float, default 0
        Mean of the red channel (of the only one if images are gray), which is subtracted;
        without effect if `mean_img` is given, as the other means.
    mean_g : float, default 0
        Mean of the green channel.
    mean_b : float, default 0
        Mean of the blue channel.
    mean_a : float, default 0
        Mean of the alpha channel.
    std_r : float, default 1
        Standard deviation of the red channel (or the only one), which is divided by; 0 counts as 1.
    std_g : float, default 1
        Standard deviation of the green channel.
    std_b : float, default 1
        Standard deviation of the blue channel.
    std_a : float, default 1
        Standard deviation of the alpha channel.
    scale : float, default 1
        Factor of the pixels after the means are subtracted.
    """

    methods: ClassVar[range] = range(5)
    """Values of `inter_method` other than 9 (by the size) and 10 (random)."""

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
        """Number of random draws for one image."""
        return 0

    def means(self) -> np.ndarray:
        """The mean of each channel, float32 of shape (channels, 1, 1)."""
        means = (self.mean_r, self.mean_g, self.mean_b, self.mean_a)[:self.data_shape[0]]
        return np.array(means, np.float32).reshape(-1, 1, 1)

    def normalize(self, image: np.ndarray, draws: np.ndarray, mean: np.ndarray, out: np.ndarray
                  ) -> None:
        """Normalize an image into the batch, the last step; see `_normalize`."""
        self._normalize(image, mean, out)

    def _normalize(self, image: np.ndarray, mean: np.ndarray, out: np.ndarray,
                   mirrored: bool = False, contrast: float = 1.0, illumination: float = 0.0
                   ) -> None:
        """out = (image - mean) * scale / std * contrast + illumination * scale.

        image: uint8 of height and width of `data_shape`.  mean: `means()`, or a mean image of
        shape `data_shape`.  out: of shape `data_shape`, float32; or int8, for which only the means
        are subtracted, or uint8, which receives the pixels as they are.
        """
        if out.dtype == np.float32:
            deviations = (self.std_r, self.std_g, self.std_b, self.std_a)[:len(out)]
            factors = np.array([self.scale / (std or 1.0) for std in deviations]) * contrast
            kernels.normalize(image, mirrored, mean, factors.astype(np.float32),
                              np.float32(illumination * self.scale),
                              np.empty(out.shape[2], np.uint8), out)
        elif out.dtype == np.int8:
            kernels.subtract_mean(image, mirrored, mean[:, 0, 0].astype(np.int64), -128, 127, out)
        else:
            kernels.hwc_to_chw(image, mirrored, out)

    def _resized(self, image: np.ndarray, height: int, width: int, uniforms: Iterator[float]
                 ) -> np.ndarray:
        method = self.inter_method
        if method == _AUTOMATIC:
            method = resample.by_size(image.shape[:2], (height, width))
        elif method == _RANDOM:
            method = int(5 * next(uniforms, 0.0))
        out = np.empty((height, width, image.shape[2]), np.uint8)
        resample.resize(np.ascontiguousarray(image), out, method)
        return out

    def _shorter_side_resized(self, image: np.ndarray, uniforms: Iterator[float]) -> np.ndarray:
        """The image resized so that its shorter side has length `resize`, if that is positive."""
        height, width = image.shape[:2]
        if self.resize <= 0:
            return image
        if height > width:
            size = (self.resize * height // width, self.resize)
        else:
            size = (self.resize, self.resize * width // height)
        return self._resized(image, *size, uniforms)


@dataclass(frozen=True, kw_only=True)
class Augmentation(ImageOptions):
    """Options of MXNet's `ImageRecordIter` for augmentation.

    Parameters
    ----------
    rand_crop : bool, default False
        Crop at a random position instead of the center.
    random_resized_crop : bool, default False
        Crop a window of random area, aspect ratio and position, and resize it to `data_shape`;
        excludes `rand_crop`, the crop sizes and the random scales.
    max_rotate_angle : int, default 0
        Largest angle of a random rotation, in degrees, in either direction.
    max_aspect_ratio : float, default 0
        With `random_resized_crop`: largest ratio of width to height if `min_aspect_ratio` is given,
        or else the ratio is from 1 - max_aspect_ratio to 1 + max_aspect_ratio.  Without: largest
        random change of the image's aspect ratio, as a fraction of it.
    min_aspect_ratio : float, optional
        Smallest ratio of width to height for `random_resized_crop`.
    max_shear_ratio : float, default 0
        Largest random shear, in either direction.
    max_crop_size : int, default -1
        If positive, a square window with a side of `min_crop_size` to `max_crop_size` pixels is
        cropped and resized to `data_shape`.
    min_crop_size : int, default -1
        Shortest side of a random square window, see `max_crop_size`.
    max_random_scale : float, default 1
        Largest factor of a random scaling.
    min_random_scale : float, default 1
        Smallest factor of a random scaling.
    max_random_area : float, default 1
        Largest fraction of the image's area for `random_resized_crop`.
    min_random_area : float, default 1
        Smallest fraction of the image's area for `random_resized_crop`.
    max_img_size : float, default 1e10
        Longest side of an image after scaling, in pixels.
    min_img_size : float, default 0
        Shortest side of an image after scaling, in pixels.
    brightness : float, default 0
        Largest random change of brightness, as a fraction: the factor is from 1 - brightness to
        1 + brightness.
    contrast : float, default 0
        Largest random change of the distance to the image's mean gray, as a fraction.
    saturation : float, default 0
        Largest random change of the distance to each pixel's gray, as a fraction.
    pca_noise : float, default 0
        Standard deviation of random shifts along the principal components of colors (Krizhevsky et
        al., "ImageNet classification with deep convolutional neural networks", 2012).
    random_h : int, default 0
        Largest random change of the hue, in units of 2 degrees.
    random_s : int, default 0
        Largest random change of the saturation, from 0 to 255.
    random_l : int, default 0
        Largest random change of the lightness, from 0 to 255.
    rotate : int, default -1
        Angle of a fixed rotation in degrees if positive; replaces `max_rotate_angle`.
    fill_value : int, default 255
        Value of pixels that padding, rotation and shear add.
    pad : int, default 0
        Number of pixels added at each edge before cropping.
    mirror : bool, default False
        Mirror all images horizontally.
    rand_mirror : bool, default False
        Mirror an image horizontally with probability 1/2.
    max_random_contrast : float, default 0
        Largest random change of the factor of normalized pixels, as a fraction.
    max_random_illumination : float, default 0
        Largest random value added to normalized pixels, before `scale`.
    """

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
        for name in ("max_aspect_ratio", "max_shear_ratio", "max_random_scale"):
            if not math.isfinite(getattr(self, name)):
                raise MXNetError(f"{name} is {getattr(self, name)}, expected a finite number")
        if not self.pca_noise >= 0:
            raise MXNetError(f"pca_noise is {self.pca_noise}, expected a standard deviation, at "
                             "least 0")
        if self.max_crop_size < self.min_crop_size:
            raise MXNetError(f"max_crop_size is {self.max_crop_size}, expected at least "
                             f"min_crop_size, which is {self.min_crop_size}")
        if not self.random_resized_crop:
            return
        others = ("rand_crop", "max_random_scale", "min_random_scale", "max_crop_size",
                  "min_crop_size")
        changed = [name for name in others if getattr(self, name) != getattr(Augmentation, name)]
        if changed:
            raise MXNetError("random_resized_crop chooses size and position of the window itself, "
                             f"expected without {', '.join(changed)}")
        if self.min_aspect_ratio is not None and self.min_aspect_ratio > self.max_aspect_ratio:
            raise MXNetError(f"min_aspect_ratio is {self.min_aspect_ratio}, expected at most "
                             f"max_aspect_ratio, which is {self.max_aspect_ratio}")

    @property
    def draws(self) -> int:
        return DRAWS

    def augment(self, image: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Resize, warp, pad, crop and color an image (height, width, channels) of uint8.

        Returns it before it is mirrored and normalized, with the height and width of `data_shape`.
        draws: `DRAWS` uniform draws from 0 to 1.
        """
        uniforms = iter(draws[:-_FINAL_DRAWS].tolist())
        image = self._shorter_side_resized(image, uniforms)
        if self._is_warped:
            image = self._warped(image, uniforms)
        if self.pad > 0:
            edges = (self.pad, self.pad)
            image = np.pad(image, (edges, edges, (0, 0)), constant_values=self.fill_value)
        image = self._cropped(image, uniforms)
        return self._color_jittered(image, uniforms) if image.shape[2] == 3 else image

    def normalize(self, image: np.ndarray, draws: np.ndarray, mean: np.ndarray, out: np.ndarray
                  ) -> None:
        """Mirror, change contrast and illumination, and normalize an image into the batch."""
        self._normalize(image, mean, out,
                        self.mirror or self.rand_mirror and bool(draws[-1] < 0.5),
                        1 + self.max_random_contrast * (2 * draws[-2] - 1),
                        self.max_random_illumination * (2 * draws[-3] - 1))

    @cached_property
    def _is_warped(self) -> bool:
        """Whether rotation, shear or scaling is enabled."""
        shapes = self.max_aspect_ratio > 0 and not self.random_resized_crop
        return (self.rotate > 0 or self.max_rotate_angle > 0 or self.max_shear_ratio > 0 or shapes
                or self.max_random_scale != 1 or self.min_random_scale != 1
                or self.max_img_size != 1e10 or self.min_img_size != 0)

    def _warped(self, image: np.ndarray, uniforms: Iterator[float]) -> np.ndarray:
        """The image rotated about its center, sheared and scaled, with bilinear interpolation."""
        draw = [2 * next(uniforms) - 1 for _ in range(4)]
        angle = float(self.rotate) if self.rotate > 0 else self.max_rotate_angle * draw[0]
        scale = lerp(self.min_random_scale, self.max_random_scale, (draw[1] + 1) / 2)
        aspect = 0.0 if self.random_resized_crop else self.max_aspect_ratio
        stretch = math.sqrt(max(1 + aspect * draw[2], 0.01))
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        linear = (np.array([[cos, sin], [-sin, cos]])
                  @ np.array([[1.0, self.max_shear_ratio * draw[3]], [0.0, 1.0]])
                  @ np.diag([scale * stretch, scale / stretch]))
        height, width = (int(min(max(scale * side, self.min_img_size), self.max_img_size))
                         for side in image.shape[:2])
        old, new = np.array([image.shape[1], image.shape[0]]), np.array([width, height])
        # The map from output to input pixels, which keeps the center where it is.
        inverse = np.linalg.inv(linear)
        inverse_map = np.column_stack([inverse, (old - inverse @ new) / 2])
        out = np.empty((max(height, 1), max(width, 1), image.shape[2]), np.uint8)
        kernels.warp_affine(np.ascontiguousarray(image), inverse_map, self.fill_value, out)
        return out

    def _cropped(self, image: np.ndarray, uniforms: Iterator[float]) -> np.ndarray:
        """A window of the image, of height and width of `data_shape`."""
        height, width = self.data_shape[1:]
        if self.random_resized_crop:
            image = self._random_resized_window(image, uniforms)
            return self._resized(image, height, width, uniforms)
        if self.max_crop_size > 0:
            if self.max_crop_size > min(image.shape[:2]):
                raise MXNetError(f"max_crop_size is {self.max_crop_size}, the image has "
                                 f"{image.shape[0]}x{image.shape[1]} pixels")
            span = self.max_crop_size - self.min_crop_size + 1
            side = self.min_crop_size + min(int(span * next(uniforms)), span - 1)
            return self._resized(self._window(image, side, side, uniforms), height, width, uniforms)
        if image.shape[0] < height:
            image = self._resized(image, height, image.shape[1] * height // image.shape[0],
                                  uniforms)
        if image.shape[1] < width:
            image = self._resized(image, image.shape[0] * width // image.shape[1], width, uniforms)
        return self._window(image, height, width, uniforms)

    def _window(self, image: np.ndarray, height: int, width: int, uniforms: Iterator[float]
                ) -> np.ndarray:
        """A window at a random position, or at the center."""
        down, right = image.shape[0] - height, image.shape[1] - width
        if self.rand_crop or self.random_resized_crop:
            top, start = int((down + 1) * next(uniforms)), int((right + 1) * next(uniforms))
        else:
            top, start = down // 2, right // 2
        return image[top:top + height, start:start + width]

    def _random_resized_window(self, image: np.ndarray, uniforms: Iterator[float]) -> np.ndarray:
        """A window of random area and aspect ratio (Szegedy et al., "Going deeper with
        convolutions", CVPR 2015); a square if no trial fits."""
        height, width = image.shape[:2]
        low, high = ((1 - self.max_aspect_ratio, 1 + self.max_aspect_ratio)
                     if self.min_aspect_ratio is None
                     else (self.min_aspect_ratio, self.max_aspect_ratio))
        for _ in range(_MAX_TRIALS):
            area = height * width * lerp(self.min_random_area, self.max_random_area,
                                        next(uniforms))
            ratio = max(lerp(low, high, next(uniforms)), 1e-3)
            h, w = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < h <= height and 0 < w <= width:
                return self._window(image, h, w, uniforms)
        side = min(height, width)
        return self._window(image, side, side, uniforms)

    def _color_jittered(self, image: np.ndarray, uniforms: Iterator[float]) -> np.ndarray:
        """Random changes of hue, lightness and saturation (HLS), then of brightness, contrast,
        saturation and along the principal components of colors."""
        jitter = self.brightness or self.contrast or self.saturation or self.pca_noise
        if not (jitter or self.random_h or self.random_s or self.random_l):
            return image
        if self.random_h or self.random_s or self.random_l:
            image = shifted_hls(image, *(limit * (2 * next(uniforms) - 1) for limit in
                                         (self.random_h, self.random_l, self.random_s)))
        values = image.astype(np.float64)
        if self.brightness:
            values = values * (1 + self.brightness * (2 * next(uniforms) - 1))
        if self.contrast:
            share = 1 + self.contrast * (2 * next(uniforms) - 1)
            values = values * share + (values @ GREY).mean() * (1 - share)
        if self.saturation:
            share = 1 + self.saturation * (2 * next(uniforms) - 1)
            values = values * share + (values @ GREY)[..., None] * (1 - share)
        if self.pca_noise:
            normal = NormalDist(sigma=self.pca_noise)
            alphas = [normal.inv_cdf(min(max(next(uniforms), 1e-9), 1 - 1e-9)) for _ in range(3)]
            values = values + LIGHT @ alphas
        return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def lerp(low: Any, high: Any, fraction: Any) -> Any:
    """Linear interpolation between scalars or arrays: `low` at 0, `high` at 1."""
    return low + (high - low) * fraction


def shifted_hls(image: np.ndarray, hue: float, lightness: float, saturation: float) -> np.ndarray:
    """See `kernels.shift_hls`."""
    out = np.empty_like(image, order="C")
    kernels.shift_hls(np.ascontiguousarray(image), hue, lightness, saturation, out)
    return out
