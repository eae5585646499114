"""Image resampling as in OpenCV: `resize(image, out, interp)`.

Every filter is separable: an output pixel is a weighted sum of columns, then of rows, with indices
and weights that depend on that axis alone.  So a mode is a table of filter taps for each axis, and
the same kernels serve all modes: `_across` is the horizontal pass, `_down` the vertical one.

Bytes are computed as in OpenCV: weights are multiples of 1 / 2048, linear interpolation is fixed
point and drops bits between the two passes.  Results are bit-identical, except in the other modes
for some ties, which OpenCV rounds depending on the alignment of its vectors.

The kernels are serial and release the GIL: threads resize different images in parallel.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ...base import MXNetError
from ..jit import kernel
from ..param import Shape
from ..shape import size_of

__all__ = ["NEAREST", "LINEAR", "CUBIC", "AREA", "LANCZOS", "by_size", "Table", "plan", "resize",
           "store_real", "taps"]

Table = tuple[np.ndarray, np.ndarray]
"""For each position along an axis: source pixels (count, n), and their weights."""

NEAREST, LINEAR, CUBIC, AREA, LANCZOS, LINEAR_EXACT = range(6)
_UNIT = 2048
"""The weight 1 in fixed-point arithmetic."""


# -- kernels ------------------------------------------------------------------------------------


@kernel
def _pick(image, rows, columns, out):
    """out (OH, L): out[i, j] = image[rows[i], columns[j]]."""
    for i in range(out.shape[0]):
        row, line = image[rows[i]], out[i]
        for j in range(line.size):
            line[j] = row[columns[j]]


@kernel
def _across(image, index, weight, wide):
    """wide (H, L): weighted sums of elements in rows of image (H, W C); index, weight (taps, L)."""
    for i in range(image.shape[0]):
        row, out = image[i], wide[i]
        for j in range(out.size):
            out[j] = weight[0, j] * row[index[0, j]]
        for k in range(1, index.shape[0]):
            for j in range(out.size):
                out[j] += weight[k, j] * row[index[k, j]]


@kernel
def _down(wide, index, weight, out):
    """out (OH, L): weighted sums of rows of wide (H, L); index, weight (OH, taps)."""
    for i in range(index.shape[0]):
        row = out[i]
        row[:] = 0
        for k in range(index.shape[1]):
            share, source = weight[i, k], wide[index[i, k]]
            for j in range(row.size):
                row[j] += share * source[j]


@kernel
def _down_fixed(wide, index, weight, out):
    """out (OH, L): weighted sums of two rows of bytes each, in integers."""
    for i in range(index.shape[0]):
        row, upper, lower = out[i], wide[index[i, 0]], wide[index[i, 1]]
        above, below = weight[i, 0], weight[i, 1]
        for j in range(row.size):
            total = ((above * (upper[j] >> 4)) >> 16) + ((below * (lower[j] >> 4)) >> 16)
            row[j] = (total + 2) >> 2


# -- tables -------------------------------------------------------------------------------------


def _step(size: int, count: int) -> float:
    """Pixels from one position to the next, rounded as OpenCV does."""
    return 1 / (count / size)


def _between(size: int, count: int) -> Table:
    """For `count` positions over `size` pixels: the pixel at or before each, and how far beyond."""
    at = ((np.arange(count) + 0.5) * _step(size, count) - 0.5).astype(np.float32)
    first = np.floor(at)
    return first.astype(np.int64), (at - first).astype(np.float64)


def _nearest(size: int, count: int) -> Table:
    at = np.floor(np.arange(count) * _step(size, count)).astype(np.int64)
    return np.minimum(at, size - 1)[:, None], np.ones((count, 1))


def _linear(size: int, count: int) -> Table:
    return _pair(size, *_between(size, count))


def _pair(size: int, first: np.ndarray, beyond: np.ndarray) -> Table:
    index = first[:, None] + np.arange(2)
    return np.clip(index, 0, size - 1), np.stack([1 - beyond, beyond], 1)


def _cubic(size: int, count: int) -> Table:
    """Cubic convolution (Keys 1981) with a = -0.75."""
    first, x = _between(size, count)

    def near(t: np.ndarray) -> np.ndarray:
        return (1.25 * t - 2.25) * t * t + 1

    def far(t: np.ndarray) -> np.ndarray:
        return ((-0.75 * t + 3.75) * t - 6) * t + 3

    weight = np.stack([far(x + 1), near(x), near(1 - x), far(2 - x)], 1)
    return np.clip(first[:, None] + np.arange(-1, 3), 0, size - 1), weight


def _lanczos(size: int, count: int) -> Table:
    """Lanczos window of order 4, sinc(t) sinc(t / 4) over 8 taps, normalised to a sum of 1."""
    first, x = _between(size, count)
    distance = x[:, None] - np.arange(-3, 5)
    weight = np.sinc(distance) * np.sinc(distance / 4)
    weight /= weight.sum(axis=1, keepdims=True)
    return np.clip(first[:, None] + np.arange(-3, 5), 0, size - 1), weight


def _area(size: int, count: int) -> Table:
    """Box filter: coverage of each pixel by each position, for downsampling."""
    scale = size / count
    index, weight = np.zeros((2, count, math.ceil(scale) + 1))
    for i in range(count):
        start, end = i * scale, min((i + 1) * scale, size)
        pixels = np.arange(math.floor(start + 1e-3), max(math.ceil(end - 1e-3), 1))
        covered = np.minimum(pixels + 1, end) - np.maximum(pixels, start)
        index[i, :len(pixels)] = pixels
        weight[i, :len(pixels)] = covered / covered.sum()
    return index.astype(np.int64), weight


def _area_enlarged(size: int, count: int) -> Table:
    """AREA for upsampling: only positions that overlap two pixels interpolate."""
    first = np.floor(np.arange(count) * _step(size, count)).astype(np.int64)
    beyond = (np.arange(count) + 1 - (first + 1) * (count / size)).astype(np.float32)
    return _pair(size, first, np.where(beyond <= 0, 0, beyond - np.floor(beyond)))


_TABLES = {NEAREST: _nearest, LINEAR: _linear, CUBIC: _cubic, AREA: _area, LANCZOS: _lanczos,
           LINEAR_EXACT: _linear}


def by_size(old: tuple[int, int], new: tuple[int, int]) -> int:
    """CUBIC where both sides grow, AREA where both shrink, LINEAR otherwise."""
    if new[0] > old[0] and new[1] > old[1]:
        return CUBIC
    return AREA if new[0] < old[0] and new[1] < old[1] else LINEAR


@lru_cache(maxsize=256)
def taps(size: int, count: int, interp: int, shrinks: bool = True) -> Table:
    """Source pixels and weights of `count` positions over `size` pixels.

    `shrinks`: neither axis of the image grows, on which AREA depends.
    """
    if interp == AREA and not shrinks:
        return _area_enlarged(size, count)
    return _TABLES[interp](size, count)


def plan(old: Shape, new: Shape, interp: int, dtype: np.dtype
         ) -> tuple[Table, Table, np.dtype | None]:
    """Tables of rows and columns to resize an image of shape `old` (H, W, C) to `new`, and the type
    of sums.

    None: pixels are picked.  int32: bytes are added as integers, with fixed-point weights.  Raises
    MXNetError for an unknown mode or an empty shape.
    """
    if interp not in _TABLES:
        raise MXNetError(f"interp is {interp}, expected one of 0 (nearest), 1 (linear), 2 (cubic), "
                         "3 (area), 4 (Lanczos)")
    if not size_of(old) or not size_of(new):
        raise MXNetError(f"an image of shape {old} cannot become one of {new}")
    if old == new:
        interp = NEAREST
    elif interp == AREA and old[:2] == (2 * new[0], 2 * new[1]):
        interp = LINEAR
    shrinks = new[0] <= old[0] and new[1] <= old[1]
    rows, columns = (taps(old[axis], new[axis], interp, shrinks) for axis in (0, 1))
    if interp == NEAREST:
        return rows, columns, None
    if dtype == np.uint8 and not (interp == AREA and shrinks):
        rows, columns = _fixed_point(rows), _fixed_point(columns)
        if len(rows[0][0]) == 2:
            return rows, columns, np.dtype(np.int32)
        rows, columns = ((index, weight / _UNIT) for index, weight in (rows, columns))
    return rows, columns, np.dtype(np.float64 if dtype == np.float64 else np.float32)


def resize(image: np.ndarray, out: np.ndarray, interp: int = LINEAR) -> None:
    """Write image (H, W, C) to out (OH, OW, C), contiguous and of the same type, in that size.

    `interp`: 0 nearest pixel, 1 linear, 2 cubic, 3 by area (linear where the image grows), 4
    Lanczos over 8 pixels.  Raises MXNetError for any other, and for images without pixels.
    """
    if image.shape == out.shape and image.size and interp in _TABLES:
        np.copyto(out, image)
        return
    rows, columns, kind = plan(image.shape, out.shape, interp, image.dtype)
    if kind is None:
        bits = f"u{image.itemsize}"  # one kernel for all types of a size
        _pick(_flat(image).view(bits), rows[0][:, 0], _spread(columns[0], image.shape[2])[0],
              _flat(out).view(bits))
    elif kind == np.int32:
        wide = _widened(image, columns, kind)  # bytes, in fixed-point arithmetic
        _down_fixed(wide, rows[0], rows[1].astype(kind), _flat(out))
    else:
        _resize_real(image, out, rows, columns)


def _fixed_point(table: Table) -> Table:
    """The table with fixed-point weights."""
    return table[0], np.rint(table[1] * _UNIT)


def _resize_real(image: np.ndarray, out: np.ndarray, rows: Table, columns: Table) -> None:
    """In floating point."""
    real = np.dtype(np.float64 if image.dtype == np.float64 else np.float32)
    if image.dtype not in (np.uint8, np.float32, np.float64):
        image = image.astype(real)
    result = out if out.dtype == real else np.empty(out.shape, real)
    _down(_widened(image, columns, real), rows[0], rows[1].astype(real), _flat(result))
    if result is not out:
        store_real(result, out)


def store_real(result: np.ndarray, out: np.ndarray) -> None:
    """Write floating-point sums to an image; integers are rounded, in place, and saturated."""
    if out.dtype.kind in "iu":
        limits = np.iinfo(out.dtype)
        np.clip(np.rint(result, out=result), limits.min, limits.max, out=result)
    np.copyto(out, result, casting="unsafe")


def _widened(image: np.ndarray, columns: Table, kind: np.dtype) -> np.ndarray:
    """The horizontal pass: image (H, W, C) as (H, OW, C), of type `kind`."""
    index, weight = _spread(columns[0], image.shape[2]), columns[1].T.astype(kind)
    wide = np.empty((len(image), index.shape[1]), kind)
    _across(_flat(image), index, np.repeat(weight, image.shape[2], axis=1), wide)
    return wide


def _spread(index: np.ndarray, channels: int) -> np.ndarray:
    """Pixels (count, taps) as elements of a row: (taps, count channels)."""
    return (index.T[..., None] * channels + np.arange(channels)).reshape(index.shape[1], -1)


def _flat(image: np.ndarray) -> np.ndarray:
    """(H, W, C) as (H, W C)."""
    return np.ascontiguousarray(image).reshape(len(image), -1)
