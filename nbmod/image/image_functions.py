"""Images as NDArrays of shape (height, width, channels): reading, resizing, cropping, rotating.

Sizes are (width, height), as in MXNet.  Random functions draw from Python's `random`, in MXNet's
order, so that a script's seed gives the same crops.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from ..base import ArgumentError, ArgumentTypeError, CheckError, MXNetError
from ..ndarray import NDArray, array
from ..ndarray import _internal as internal
from ..ndarray import op as ops
from ..ops.image import resample

__all__ = ["center_crop", "color_normalize", "copyMakeBorder", "fixed_crop", "imdecode", "imread",
           "imresize", "imrotate", "random_crop", "random_rotate",
           "random_size_crop", "resize_short", "scale_down"]

Size = tuple[int, int]
Box = tuple[int, int, int, int]
_TRIES = 10
_BY_SIZE, _ANY = 9, 10


def imread(filename: str, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None
           ) -> NDArray:
    """Read an image from a file, as uint8 (height, width, channels); needs the extra `[image]`.

    Parameters
    ----------
    filename : str
        Path of the file.
    flag : {1, 0}, default 1
        1: three channels; 0: gray, one channel.
    to_rgb : bool, default True
        Order of the channels: red, green, blue; False: blue, green, red.
    out : NDArray, optional
        Array to write the result to.

    Raises
    ------
    MXNetError
        If the file cannot be read or decoded.
    """
    return internal._cvimread(filename, flag=flag, to_rgb=to_rgb, out=out)


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None) -> NDArray:
    """Decode a file's contents as uint8 (height, width, channels); needs the extra `[image]`.

    Parameters
    ----------
    buf : bytes, numpy.ndarray or NDArray
        Contents of the file; arrays are uint8.
    flag, to_rgb, out
        As for `imread`.

    Raises
    ------
    MXNetError
        If the contents are not an image.
    ArgumentError
        If `buf` is neither bytes nor an array.
    """
    if not isinstance(buf, NDArray):
        if not isinstance(buf, (bytes, bytearray, memoryview, np.ndarray)):
            raise ArgumentError(f"imdecode: buf is a {type(buf).__name__}, expected bytes or an "
                                "array")
        plain = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, np.uint8)
        if not plain.size:
            raise MXNetError("imdecode: no image in 0 bytes")
        buf = array(plain, dtype=np.uint8)
    return internal._cvimdecode(buf, flag=flag, to_rgb=to_rgb, out=out)


def imresize(src: NDArray, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """Resize an image to (h, w, channels).

    Parameters
    ----------
    src : NDArray
        Image of shape (height, width, channels).
    w : int
        Width of the result.
    h : int
        Height of the result.
    interp : int, default 1
        Interpolation: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 random.
    out : NDArray, optional
        Array to write the result to.

    Examples
    --------
    >>> mx.image.imresize(mx.nd.zeros((4, 6, 3), dtype="uint8"), 3, 2).shape
    (2, 3, 3)
    """
    if not isinstance(src, NDArray):
        raise CheckError(f"imresize: src is a {type(src).__name__}, expected an NDArray")
    method = interpolation(interp, (src.shape[1], src.shape[0]), (w, h))
    return internal._cvimresize(src, w=int(w), h=int(h), interp=method, out=out)


def copyMakeBorder(src: NDArray, top: int, bot: int, left: int, right: int, *args: Any,
                   **kwargs: Any) -> NDArray:
    """Add a border to an image.

    Parameters
    ----------
    src : NDArray
        Image of shape (height, width, channels).
    top : int
        Number of rows added above.
    bot : int
        Number of rows added below.
    left : int
        Number of columns added on the left.
    right : int
        Number of columns added on the right.
    *args
        `type`, `value` and `values` by position.
    **kwargs
        `type` (default 0): 0 constant, 1 the nearest pixel, 2 mirrored, 3 repeated, 4 mirrored at
        the border pixel; `value` (default 0) and `values`: the constant, for all channels or for
        each; `out`: an array to write the result to.

    Examples
    --------
    >>> mx.image.copyMakeBorder(mx.nd.ones((2, 2, 1), dtype="uint8"), 1, 0, 0, 1, value=7).reshape(
    ...     (3, 3)).asnumpy().tolist()
    [[7, 7, 7], [1, 1, 7], [1, 1, 7]]
    """
    return internal._cvcopyMakeBorder(src, top, bot, left, right, *args, **kwargs)


def interpolation(interp: int, old: Size | None = None, new: Size | None = None) -> int:
    """Return the interpolation method, 0 to 4, that a code selects.

    Parameters
    ----------
    interp : int
        0 to 4: themselves; 9: cubic if both sides grow, area if both shrink, linear otherwise
        (cubic without sizes); 10: one of 0 to 4 at random.
    old : tuple of int, optional
        Size before.
    new : tuple of int, optional
        Size after.

    Raises
    ------
    ArgumentError
        For another number.

    Examples
    --------
    >>> from nbmod.image.image_functions import interpolation
    >>> interpolation(9, (10, 10), (20, 20)), interpolation(9, (10, 10), (5, 5))
    (2, 3)
    """
    if interp == _BY_SIZE:
        return resample.CUBIC if old is None or new is None else resample.by_size(old, new)
    if interp == _ANY:
        return random.randint(0, 4)
    if not 0 <= interp <= 4:
        raise ArgumentError(f"Unknown interp method {interp}; expected 0 to 4, 9 or 10")
    return interp


def scale_down(src_size: Size, size: Size) -> Size:
    """Scale a size down, keeping its aspect ratio, until it fits into an image.

    Parameters
    ----------
    src_size : tuple of int
        (width, height) of the image.
    size : tuple of int
        (width, height) wanted.

    Examples
    --------
    >>> mx.image.scale_down((640, 480), (720, 120))
    (640, 106)
    """
    (width, height), (w, h) = src_size, (float(size[0]), float(size[1]))
    if height < h:
        w, h = w * height / h, float(height)
    if width < w:
        w, h = float(width), h * width / w
    return int(w), int(h)


def _get_interp_method(interp: int, sizes: tuple[int, ...] = ()) -> int:
    """Return `interpolation` for an old height and width, and new ones."""
    old_height, old_width, new_height, new_width = sizes or (1, 1, 2, 2)
    return interpolation(interp, (old_width, old_height), (new_width, new_height))


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """Resize an image so that its shorter side has a given length; the other is rounded down.

    Parameters
    ----------
    src : NDArray
        Image of shape (height, width, channels).
    size : int
        Length of the shorter side.
    interp : int, default 2
        Interpolation: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 random.

    Examples
    --------
    >>> mx.image.resize_short(mx.nd.zeros((4, 8, 3), dtype="uint8"), 2).shape
    (2, 4, 3)
    """
    height, width = src.shape[:2]
    if height > width:
        return imresize(src, size, size * height // width, interp)
    return imresize(src, size * width // height, size, interp)


def fixed_crop(src: NDArray, x0: int, y0: int, w: int, h: int, size: Size | None = None,
               interp: int = 2) -> NDArray:
    """Crop an image at a given position, and resize the part if a size is given.

    Parameters
    ----------
    src, interp
        As for `resize_short`.
    x0 : int
        Left edge of the part.
    y0 : int
        Upper edge of the part.
    w : int
        Width of the part.
    h : int
        Height of the part.
    size : tuple of int, optional
        (width, height) of the result; None: (w, h).

    Examples
    --------
    >>> mx.image.fixed_crop(mx.nd.zeros((4, 6, 3)), 1, 2, 3, 2).shape
    (2, 3, 3)
    """
    part = ops.slice(src, begin=(y0, x0, 0), end=(y0 + h, x0 + w, int(src.shape[2])))
    if size is None or (w, h) == tuple(size):
        return part
    return imresize(part, *size, interp)


def random_crop(src: NDArray, size: Size, interp: int = 2) -> tuple[NDArray, Box]:
    """Crop an image at a random position.

    A part that does not fit is scaled down, and resized to `size` after.

    Parameters
    ----------
    src, interp
        As for `resize_short`.
    size : tuple of int
        (width, height) of the result.

    Returns
    -------
    NDArray
        Part of the image.
    tuple of int
        Position and size of the part in the image, (x, y, width, height).
    """
    height, width = src.shape[:2]
    w, h = scale_down((width, height), size)
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)


def center_crop(src: NDArray, size: Size, interp: int = 2) -> tuple[NDArray, Box]:
    """Crop the center of an image.

    A part that does not fit is scaled down, and resized to `size` after.

    Parameters
    ----------
    src, interp
        As for `resize_short`.
    size : tuple of int
        (width, height) of the result.

    Returns
    -------
    NDArray
        Part of the image.
    tuple of int
        Position and size of the part in the image, (x, y, width, height).

    Examples
    --------
    >>> part, box = mx.image.center_crop(mx.nd.zeros((4, 6, 3)), (2, 2))
    >>> part.shape, box
    ((2, 2, 3), (2, 1, 2, 2))
    """
    height, width = src.shape[:2]
    w, h = scale_down((width, height), size)
    x, y = (width - w) // 2, (height - h) // 2
    return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)


def random_size_crop(src: NDArray, size: Size, area: float | tuple[float, float],
                     ratio: tuple[float, float], interp: int = 2, **kwargs: Any
                     ) -> tuple[NDArray, Box]:
    """Crop a part of random area and aspect ratio, and resize it.

    Parameters
    ----------
    src, interp
        As for `resize_short`.
    size : tuple of int
        (width, height) of the result.
    area : float or tuple of float
        Smallest and largest share of the image's area; a number: the smallest, and the largest is
        1.
    ratio : tuple of float
        Smallest and largest ratio of width to height, whose logarithm is drawn uniformly.
    **kwargs
        Only `min_area`, an older name of `area`.

    Returns
    -------
    NDArray
        Part of the image, of the given size.
    tuple of int
        Position and size of the part in the image, (x, y, width, height).

    Notes
    -----
    After ten draws that do not fit, the center is cropped.  The method is that of Szegedy et al.,
    "Going deeper with convolutions", 2015.
    """
    area = kwargs.pop("min_area", area)
    if kwargs:
        raise CheckError(f"random_size_crop: unexpected arguments {sorted(kwargs)}")
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
    """Return (src - mean) / std.

    Parameters
    ----------
    src : NDArray
        Image.
    mean : NDArray, float or None
        Mean of each channel; None: nothing is subtracted.
    std : NDArray or float, optional
        Standard deviation of each channel; None: nothing is divided by.

    Examples
    --------
    >>> mx.image.color_normalize(mx.nd.array([[[3, 4]]]), mx.nd.array([1, 2]), 2).asnumpy().tolist()
    [[[1.0, 1.0]]]
    """
    if mean is not None:
        src = src - mean
    return src if std is None else src / std


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False
             ) -> NDArray:
    """Rotate images about their centers.

    Parameters
    ----------
    src : NDArray
        float32 image (channels, height, width), or a batch of them.
    rotation_degrees : float or NDArray
        Angle in degrees, or one for each image of a batch.
    zoom_in : bool, default False
        Enlarge the image until nothing outside of it is visible.
    zoom_out : bool, default False
        Shrink the image until all of it is visible.

    Returns
    -------
    NDArray
        Array of the same shape; what was outside of the image is 0.

    Raises
    ------
    TypeError
        For arrays of another type or number of axes.
    ValueError
        If both zooms are set, or the number of angles differs from the number of images.

    Examples
    --------
    >>> mx.image.imrotate(mx.nd.array([[[1, 2], [3, 4]]]), 90).round().asnumpy().tolist()
    [[[2.0, 4.0], [1.0, 3.0]]]
    """
    if zoom_in and zoom_out:
        raise ValueError("imrotate: zoom_in and zoom_out cannot be both True")
    if src.dtype != np.float32:
        raise ArgumentTypeError(f"imrotate: expected float32, got {np.dtype(src.dtype).name}")
    if src.ndim not in (3, 4):
        raise ArgumentError(f"imrotate: expected 3 or 4 dimensions, got shape {src.shape}")
    batch = src if src.ndim == 4 else src.expand_dims(0)
    angles = (rotation_degrees.asnumpy() if isinstance(rotation_degrees, NDArray)
              else np.asarray(rotation_degrees, np.float32)).reshape(-1)
    if angles.size not in (1, batch.shape[0]):
        error = ArgumentTypeError if src.ndim == 3 else ArgumentError
        raise error(f"imrotate: {angles.size} angles for {batch.shape[0]} images")
    turned = np.radians(np.broadcast_to(angles, batch.shape[:1]).astype(np.float64))
    height, width = batch.shape[2:]
    theta = np.stack([_affine(angle, height, width, zoom_in, zoom_out) for angle in turned])
    grid = ops.GridGenerator(array(theta.reshape(len(theta), 6)), transform_type="affine",
                             target_shape=batch.shape[2:])
    out = ops.BilinearSampler(batch, grid)
    return out if src.ndim == 4 else out[0]


def _affine(angle: float, height: int, width: int, zoom_in: bool, zoom_out: bool) -> np.ndarray:
    """The map from output to input coordinates, both from -1 to 1: (2, 3)."""
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
    """Rotate images by random angles; each image of a batch by its own.

    Parameters
    ----------
    src, zoom_in, zoom_out
        As for `imrotate`.
    angle_limits : tuple of float
        Smallest and largest angle in degrees.
    """
    if src.ndim == 3:
        return imrotate(src, np.random.uniform(*angle_limits), zoom_in, zoom_out)
    angles = np.random.uniform(*angle_limits, size=src.shape[0])
    return imrotate(src, array(angles), zoom_in, zoom_out)
