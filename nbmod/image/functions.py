"""Pictures as NDArrays of shape (height, width, channels): reading, sizes, cuts, turns.

Sizes are (width, height), as in MXNet.  What is random draws from Python's `random`, in MXNet's
order, so that a script's seed gives the same cuts.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from ..base import MXNetError
from ..ndarray import NDArray, array
from ..ndarray import _internal as internal
from ..ndarray import op as ops
from ..ops import resample

__all__ = ["center_crop", "color_normalize", "copyMakeBorder", "fixed_crop", "imdecode", "imread",
           "imresize", "imrotate", "interpolation", "random_crop", "random_rotate",
           "random_size_crop", "resize_short", "scale_down"]

Size = tuple[int, int]
Box = tuple[int, int, int, int]
_TRIES = 10
_BY_SIZE, _ANY = 9, 10


def imread(filename: str, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None
           ) -> NDArray:
    """The picture in a file, uint8; flag 0 makes it gray, `to_rgb=False` blue first."""
    return internal._cvimread(filename, flag=flag, to_rgb=to_rgb, out=out)


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None) -> NDArray:
    """The picture whose file is `buf`: bytes, or uint8 in an array; else as `imread`."""
    if not isinstance(buf, NDArray):
        plain = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, np.uint8)
        if not plain.size:
            raise MXNetError("imdecode: no picture in 0 bytes")
        buf = array(plain, dtype=np.uint8)
    return internal._cvimdecode(buf, flag=flag, to_rgb=to_rgb, out=out)


def imresize(src: NDArray, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """The picture in another size; `interp` as for `nd.image.resize`, or 9: by the size."""
    method = interpolation(interp, (src.shape[1], src.shape[0]), (w, h))
    return internal._cvimresize(src, w=int(w), h=int(h), interp=method, out=out)


def copyMakeBorder(src: NDArray, top: int, bot: int, left: int, right: int, *args: Any,
                   **kwargs: Any) -> NDArray:
    """The picture with a border; see the op `_cvcopyMakeBorder`."""
    return internal._cvcopyMakeBorder(src, top, bot, left, right, *args, **kwargs)


def interpolation(interp: int, old: Size | None = None, new: Size | None = None) -> int:
    """How to resize: 0 to 4 as they are; 9: cubic if both sides grow, by area if both shrink, else
    linear; 10: any."""
    if interp == _BY_SIZE:
        return resample.CUBIC if old is None or new is None else resample.by_size(old, new)
    if interp == _ANY:
        return random.randint(0, 4)
    if not 0 <= interp <= 4:
        raise ValueError(f"Unknown interp method {interp}; expected 0 to 4, 9 or 10")
    return interp


def scale_down(src_size: Size, size: Size) -> Size:
    """`size` made smaller, in its shape, until it fits into `src_size`."""
    (width, height), (w, h) = src_size, (float(size[0]), float(size[1]))
    if height < h:
        w, h = w * height / h, float(height)
    if width < w:
        w, h = float(width), h * width / w
    return int(w), int(h)


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """The picture with its shorter side `size` long; the other is rounded down."""
    height, width = src.shape[:2]
    if height > width:
        return imresize(src, size, size * height // width, interp)
    return imresize(src, size * width // height, size, interp)


def fixed_crop(src: NDArray, x0: int, y0: int, w: int, h: int, size: Size | None = None,
               interp: int = 2) -> NDArray:
    """The part of `w` by `h` pixels at (x0, y0), in another size if one is given."""
    part = ops.slice(src, begin=(y0, x0, 0), end=(y0 + h, x0 + w, int(src.shape[2])))
    if size is None or (w, h) == tuple(size):
        return part
    return imresize(part, *size, interp)


def random_crop(src: NDArray, size: Size, interp: int = 2) -> tuple[NDArray, Box]:
    """A part anywhere, of a size that fits, and where: (x, y, width, height)."""
    height, width = src.shape[:2]
    w, h = scale_down((width, height), size)
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)


def center_crop(src: NDArray, size: Size, interp: int = 2) -> tuple[NDArray, Box]:
    """The part in the middle, and where it is."""
    height, width = src.shape[:2]
    w, h = scale_down((width, height), size)
    x, y = (width - w) // 2, (height - h) // 2
    return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)


def random_size_crop(src: NDArray, size: Size, area: float | tuple[float, float],
                     ratio: tuple[float, float], interp: int = 2, **kwargs: Any
                     ) -> tuple[NDArray, Box]:
    """A part of random area and shape (Szegedy et al., "Going deeper with convolutions", 2015).

    area: its range as a share of the picture, or its least.  ratio: the range of width to height,
    drawn evenly over its logarithm.  After ten misses the part in the middle.
    """
    area = kwargs.pop("min_area", area)
    if kwargs:
        raise TypeError(f"random_size_crop: unexpected arguments {sorted(kwargs)}")
    height, width = src.shape[:2]
    shares = area if isinstance(area, (tuple, list)) else (area, 1.0)
    shapes = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(_TRIES):
        target = random.uniform(*shares) * height * width
        shape = math.exp(random.uniform(*shapes))
        w, h = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
        if w <= width and h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)
    return center_crop(src, size, interp)


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """(src - mean) / std, both for each channel."""
    if mean is not None:
        src = src - mean
    return src if std is None else src / std


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False
             ) -> NDArray:
    """Pictures turned about their centers, float32 (channels, height, width) or a batch of them.

    rotation_degrees: a number, or one for each of a batch.  What was outside is 0.  zoom_in: as
    large as it takes for nothing of that to be seen; zoom_out: as small as it takes to see all.
    """
    if zoom_in and zoom_out:
        raise ValueError("imrotate: zoom_in and zoom_out cannot be both True")
    if src.dtype != np.float32 or src.ndim not in (3, 4):
        raise TypeError(f"imrotate: expected float32 of 3 or 4 dimensions, got "
                        f"{np.dtype(src.dtype).name} of shape {src.shape}")
    batch = src if src.ndim == 4 else src.expand_dims(0)
    angles = (rotation_degrees.asnumpy() if isinstance(rotation_degrees, NDArray)
              else np.asarray(rotation_degrees, np.float32)).reshape(-1)
    if angles.size not in (1, batch.shape[0]) or src.ndim == 3 and angles.size > 1:
        raise ValueError(f"imrotate: {angles.size} angles for {batch.shape[0]} pictures")
    turned = np.radians(np.broadcast_to(angles, batch.shape[:1]).astype(np.float64))
    height, width = batch.shape[2:]
    theta = np.stack([_affine(angle, height, width, zoom_in, zoom_out) for angle in turned])
    grid = ops.GridGenerator(array(theta.reshape(len(theta), 6)), transform_type="affine",
                             target_shape=batch.shape[2:])
    out = ops.BilinearSampler(batch, grid)
    return out if src.ndim == 4 else out[0]


def _affine(angle: float, height: int, width: int, zoom_in: bool, zoom_out: bool) -> np.ndarray:
    """From places in the result to places in the picture, both from -1 to 1: (2, 3)."""
    cos, sin = math.cos(angle), math.sin(angle)
    across, down = (width - 1) / 2, (height - 1) / 2
    matrix = np.array([[cos, -sin * down / across, 0], [sin * across / down, cos, 0]])
    if not (zoom_in or zoom_out):
        return matrix
    sides = np.array([[cos, -sin * height / width], [sin * width / height, cos]])
    corners = np.abs(sides @ np.array([[1, 1], [1, -1]]))
    return matrix * (1 / corners.max() if zoom_in else corners.max())


def random_rotate(src: NDArray, angle_limits: tuple[float, float], zoom_in: bool = False,
                  zoom_out: bool = False) -> NDArray:
    """Pictures turned by angles from a range, in degrees; each of a batch by its own."""
    if src.ndim == 3:
        return imrotate(src, np.random.uniform(*angle_limits), zoom_in, zoom_out)
    angles = np.random.uniform(*angle_limits, size=src.shape[0])
    return imrotate(src, array(angles), zoom_in, zoom_out)
