"""`mx.gluon.data.vision.transforms`: blocks that transform images.

Images are arrays (height, width, channels), or batches of them where the operators of `mx.nd.image`
take batches, until `ToTensor` makes them (channels, height, width).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from .... import image
from ....base import ArgumentError, ArgumentTypeError, numeric_types
from ....ndarray import NDArray
from ...block import Block, HybridBlock
from ...nn import HybridSequential, Sequential
from . import color_transforms
from .color_transforms import *  # noqa: F403

__all__ = ["Cast", "CenterCrop", "Compose", "CropResize", "Normalize", "RandomApply",
           "RandomFlipLeftRight", "RandomFlipTopBottom", "RandomResizedCrop", "RandomRotation",
           "Resize", "Rotate", "ToTensor", *color_transforms.__all__]
__dir__ = __all__.copy

Size = int | Sequence[int]
"""Width and height, or one number for both."""


def _both(size: Any) -> Any:
    return (size, size) if isinstance(size, numeric_types) else size


class Compose(Sequential):
    """Transformations one after the other.

    Neighbours that are HybridBlocks become one HybridSequential.

    Parameters
    ----------
    transforms : list of Block
        The transformations.

    Examples
    --------
    >>> from nbmod.gluon.data.vision import transforms
    >>> prepare = transforms.Compose([transforms.Resize(8), transforms.ToTensor()])
    >>> prepare(mx.nd.zeros((4, 6, 3), dtype="uint8")).shape
    (3, 8, 8)
    """

    def __init__(self, transforms: Sequence[Block]):
        super().__init__()
        for is_hybrid, group in groupby(transforms, lambda each: isinstance(each, HybridBlock)):
            blocks: list[Any] = [*group]
            if is_hybrid and len(blocks) > 1:
                joined = HybridSequential()
                joined.add(*blocks)
                blocks = [joined]
            self.add(*blocks)


class RandomApply(Sequential):
    """A transformation that is applied with some probability, which Python's `random` decides.

    Parameters
    ----------
    transforms : Block
        The transformation, such as a `Compose`.
    p : float, default 0.5
        The probability.

    Examples
    --------
    >>> from nbmod.gluon.data.vision import transforms
    >>> transforms.RandomApply(transforms.CenterCrop(2), p=1)(mx.nd.zeros((4, 6, 3))).shape
    (2, 2, 3)
    """

    def __init__(self, transforms: Block, p: float = 0.5):
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, x: Any) -> Any:
        """Transform an image, or return it.

        Parameters
        ----------
        x : NDArray
            The image.
        """
        return x if random.random() > self.p else self.transforms(x)


class Cast(HybridBlock):
    """Conversion to an element type.

    Parameters
    ----------
    dtype : dtype, default 'float32'
        The type.

    Examples
    --------
    >>> mx.gluon.data.vision.transforms.Cast("uint8")(mx.nd.array([1.7])).asnumpy().tolist()
    [1]
    """

    def __init__(self, dtype: Any = "float32"):
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.cast(x, self._dtype)


class ToTensor(HybridBlock):
    """Images (height, width, channels) from 0 to 255 become float32 (channels, height, width) to 1.

    Examples
    --------
    >>> to_tensor = mx.gluon.data.vision.transforms.ToTensor()
    >>> to_tensor(mx.nd.full((2, 3, 1), 255, dtype="uint8")).asnumpy().tolist()
    [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]
    """

    def __init__(self) -> None:
        super().__init__()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """(x - mean) / std of images (channels, height, width).

    Parameters
    ----------
    mean : float or tuple of float, default 0.0
        Subtracted, from each channel its own if there are several.
    std : float or tuple of float, default 1.0
        Divisor.

    Examples
    --------
    >>> normalize = mx.gluon.data.vision.transforms.Normalize(mean=(1, 2, 3), std=0.5)
    >>> normalize(mx.nd.full((3, 1, 1), 4)).asnumpy().ravel().tolist()
    [6.0, 4.0, 2.0]
    """

    def __init__(self, mean: Any = 0.0, std: Any = 1.0):
        super().__init__()
        self._mean, self._std = mean, std

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.normalize(x, self._mean, self._std)


class Rotate(Block):
    """Rotation of float32 images (channels, height, width) about their centers.

    Parameters
    ----------
    rotation_degrees : float
        Angle.
    zoom_in : bool, default False
        Whether to enlarge images until nothing outside of them is visible.
    zoom_out : bool, default False
        Whether to shrink images until all of them is visible.

    Examples
    --------
    >>> x = mx.nd.arange(9).reshape((1, 3, 3))
    >>> mx.gluon.data.vision.transforms.Rotate(90)(x).shape
    (1, 3, 3)
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False):
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: NDArray) -> NDArray:
        """Rotate an image, or a batch.

        Parameters
        ----------
        x : NDArray
            The image.
        """
        _require_float32(x)
        return image.imrotate(x, *self._args)


class RandomRotation(Block):
    """Rotation of float32 images by a random angle, which NumPy's global generator draws.

    Parameters
    ----------
    angle_limits : tuple of float
        The least and the largest angle in degrees.
    zoom_in, zoom_out
        As for `Rotate`.
    rotate_with_proba : float, default 1.0
        Probability of a rotation.

    Raises
    ------
    ArgumentError
        If the angles are not in order, or the probability is none.

    Examples
    --------
    >>> turn = mx.gluon.data.vision.transforms.RandomRotation((-10, 10), zoom_in=True)
    >>> turn(mx.nd.ones((3, 8, 8))).shape
    (3, 8, 8)
    """

    def __init__(self, angle_limits: tuple[float, float], zoom_in: bool = False,
                 zoom_out: bool = False, rotate_with_proba: float = 1.0):
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ArgumentError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ArgumentError("Probability of rotating the image should be between 0 and 1")
        self._args = (angle_limits, zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: NDArray) -> NDArray:
        """Rotate an image, or a batch.

        Parameters
        ----------
        x : NDArray
            The image.
        """
        if np.random.random() > self._rotate_with_proba:
            return x
        _require_float32(x)
        return image.random_rotate(x, *self._args)


def _require_float32(x: NDArray) -> None:
    if x.dtype != np.float32:
        raise ArgumentTypeError("This transformation only supports float32. Consider calling it "
                                "after ToTensor")


class RandomResizedCrop(Block):
    """A random part of an image, resized; Python's `random` draws it.

    Parameters
    ----------
    size : int or tuple of int
        Width and height of the result.
    scale : tuple of float, default (0.08, 1.0)
        The least and the largest share of the area.
    ratio : tuple of float, default (0.75, 1.3333333333333333)
        The least and the largest ratio of width to height.
    interpolation : int, default 1
        How to interpolate, see `mx.image.imresize`.

    Examples
    --------
    >>> crop = mx.gluon.data.vision.transforms.RandomResizedCrop((3, 2))
    >>> crop(mx.nd.zeros((8, 8, 3), dtype="uint8")).shape
    (2, 3, 3)
    """

    def __init__(self, size: Size, scale: tuple[float, float] = (0.08, 1.0),
                 ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0), interpolation: int = 1):
        super().__init__()
        self._args = (_both(size), scale, ratio, interpolation)

    def forward(self, x: NDArray) -> NDArray:
        """Crop an image.

        Parameters
        ----------
        x : NDArray
            The image.
        """
        return image.random_size_crop(x, *self._args)[0]


class CropResize(HybridBlock):
    """A part of an image, resized if a size is stated.

    Parameters
    ----------
    x, y : int
        Left and upper end.
    width, height : int
        Size of the part.
    size : int or tuple of int, optional
        Width and height of the result.
    interpolation : int, optional
        How to interpolate, see `mx.image.imresize`; 1 by default.

    Examples
    --------
    >>> crop = mx.gluon.data.vision.transforms.CropResize(1, 0, width=4, height=2, size=(6, 3))
    >>> crop(mx.nd.zeros((5, 5, 3), dtype="uint8")).shape
    (3, 6, 3)
    """

    def __init__(self, x: int, y: int, width: int, height: int, size: Size | None = None,
                 interpolation: int | None = None):
        super().__init__()
        self._box = (x, y, width, height)
        self._size, self._interpolation = size, interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        part = F.image.crop(x, *self._box)
        if self._size is None:
            return part
        interpolation = 1 if self._interpolation is None else self._interpolation
        return F.image.resize(part, self._size, False, interpolation)


class CenterCrop(Block):
    """The middle of an image, enlarged if the image is smaller.

    Parameters
    ----------
    size : int or tuple of int
        Width and height of the result.
    interpolation : int, default 1
        How to interpolate, see `mx.image.imresize`.

    Examples
    --------
    >>> crop = mx.gluon.data.vision.transforms.CenterCrop((4, 2))
    >>> crop(mx.nd.zeros((8, 8, 3), dtype="uint8")).shape
    (2, 4, 3)
    """

    def __init__(self, size: Size, interpolation: int = 1):
        super().__init__()
        self._args = (_both(size), interpolation)

    def forward(self, x: NDArray) -> NDArray:
        """Crop an image.

        Parameters
        ----------
        x : NDArray
            The image.
        """
        return image.center_crop(x, *self._args)[0]


class Resize(HybridBlock):
    """Resizing.

    Parameters
    ----------
    size : int or tuple of int
        Width and height of the result.
    keep_ratio : bool, default False
        Whether one number is the length of the shorter side, instead of both.
    interpolation : int, default 1
        How to interpolate, see `mx.image.imresize`.

    Examples
    --------
    >>> resize = mx.gluon.data.vision.transforms.Resize(4, keep_ratio=True)
    >>> resize(mx.nd.zeros((8, 16, 3), dtype="uint8")).shape
    (4, 8, 3)
    """

    def __init__(self, size: Size, keep_ratio: bool = False, interpolation: int = 1):
        super().__init__()
        self._keep, self._size, self._interpolation = keep_ratio, size, interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.resize(x, self._size, self._keep, self._interpolation)


class RandomFlipLeftRight(HybridBlock):
    """Mirroring from left to right, half of the time.

    Examples
    --------
    >>> flip, x = mx.gluon.data.vision.transforms.RandomFlipLeftRight(), mx.nd.array([[[1], [2]]])
    >>> flip(x).asnumpy().ravel().tolist() in ([1.0, 2.0], [2.0, 1.0])
    True
    """

    def __init__(self) -> None:
        super().__init__()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(HybridBlock):
    """Mirroring from top to bottom, half of the time."""

    def __init__(self) -> None:
        super().__init__()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_top_bottom(x)
