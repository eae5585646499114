"""Pooling of many small planes: STEP of them are interleaved, so that vector lanes are planes.

Tables list the pixels that each window sees; taps in the padding are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Spec
from ..shape import size_of
from ..simd.host import lanes
from ..simd.pixel_rows import MIN_COUNT
from ..simd.raw_arrays import STEP
from ..simd.transpose import transpose
from .pooling_kernels import AVG, MAX, axis_passes, terms
from .pooling_reductions import add, add_labelled, find_largest, largest
from .sliding_window import Window
from .window_planes import WindowPlanes

__all__ = ["Interleaved", "applies", "interleaved", "pool", "pool_back", "workspace"]


class Interleaved(NamedTuple):
    """Pixels of each window, and windows of each pixel, as compressed rows (CSR).

    seen     pixels of each window, times STEP; `first` holds the row offsets
    seeing   windows of each pixel, times STEP; `begin` holds the row offsets, and `pixels` the
             pixel of each entry, times STEP
    area     pixels of a plane; `out` positions; `planes` their number; `width` lanes of a vector
    """

    seen: np.ndarray
    first: np.ndarray
    seeing: np.ndarray
    begin: np.ndarray
    pixels: np.ndarray
    area: int
    out: int
    planes: int
    width: int


MOST = 1024
"""Most pixels and positions of an interleaved plane: STEP of them stay in the L2 cache."""
MOVE, SEEN = 0.7, 0.09
"""Nanoseconds, forward and backward, of an interleaved plane: to load or store an element; for a
pixel that a window sees."""
PLANE, ROW, APART, TERM = 200, 5, 0.8, 0.13
"""Nanoseconds of a padded plane: to start one, to start a row of pixels or of positions, to copy a
strided pixel, for a term of a sum."""


def applies(window: Window, planes: int) -> bool:
    """Whether this number of planes is estimated to be faster interleaved."""
    if planes < STEP or window.pixels + window.positions > MOST:
        return False
    padded = WindowPlanes(window)
    seen = size_of(axis.num_pixels for axis in window.axes)
    rows = padded.seen(0).shape[1] * padded.seen(1).shape[1]
    lines = rows * len(padded.runs) + window.out[0] * window.out[1]
    apart = window.pixels if window.stride[2] > 1 and padded.runs[0, 2] < MIN_COUNT else 0
    return MOVE * (window.pixels + window.positions) + SEEN * seen < (
        PLANE + ROW * lines + APART * apart + TERM * terms(axis_passes(padded)))


def interleaved(window: Window, planes: int, dtype: np.dtype) -> Interleaved:
    """The tables of the kernels."""
    pixel, inside = window.pixels_seen
    position, seen = np.nonzero(inside)[0], pixel[inside]
    order = np.argsort(seen, kind="stable")
    return Interleaved(
        seen * STEP, np.searchsorted(position, np.arange(window.positions + 1)),
        position[order] * STEP, np.searchsorted(seen[order], np.arange(window.pixels + 1)),
        seen[order] * STEP, window.pixels, window.positions, planes, lanes(dtype))


def workspace(window: Window, dtype: np.dtype) -> Spec:
    """Workspace of both kernels."""
    # The last buffer holds maxima of positions, then gradients of pixels.
    pixels, positions = window.pixels, window.positions
    return Spec((num_threads(), (pixels + 2 * positions + max(pixels, positions)) * STEP), dtype)


@inlined
def _load(array, begin, count, tile, width):
    """Interleave STEP planes of `count` elements, from array[begin] on, into `tile`."""
    if count < width:
        for i in range(count):
            for k in range(STEP):
                tile[np.uintp(i * STEP + k)] = array[np.uintp(begin + k * count + i)]
    else:
        for i in range(0, count, width):
            first = min(i, count - width)
            for k in range(0, STEP, width):
                transpose(array, tile, (begin + k * count + first, first * STEP + k),
                          (count, STEP))


@inlined
def _store(tile, array, begin, count, width):
    """The inverse of `_load`."""
    if count < width:
        for k in range(STEP):
            for i in range(count):
                array[np.uintp(begin + k * count + i)] = tile[np.uintp(i * STEP + k)]
    else:
        for i in range(0, count, width):
            first = min(i, count - width)
            for k in range(0, STEP, width):
                transpose(tile, array, (first * STEP + k, begin + k * count + first),
                          (STEP, count))


@inlined
def _divide(tile, size):
    for p in range(len(size)):
        for k in range(STEP):
            tile[np.uintp(p * STEP + k)] /= size[p]


@kernel(parallel=True)
def pool(x, y, mode, lowest, size, table, work):
    """`pool` of `pooling_kernels` without lp; the last tile overlaps the one before."""
    pixels, positions, planes, width = table.area, table.out, table.planes, table.width
    for worker in prange(len(work)):
        mine, neutral = work[worker], x.dtype.type(lowest)
        tile, results = mine[:pixels * STEP], mine[pixels * STEP:]
        for job in range(np.int64(worker), (planes + STEP - 1) // STEP, len(work)):
            first = min(job * STEP, planes - STEP)
            _load(x, first * pixels, pixels, tile, width)
            for p in range(positions):
                span = table.first[p], table.first[p + 1]
                if mode == MAX:
                    largest(tile, 0, table.seen, span, neutral, results, p * STEP)
                else:
                    add(tile, 0, table.seen, span, results, p * STEP)
            if mode == AVG:
                _divide(results, size)
            _store(results, y, first * positions, positions, width)


@kernel(parallel=True)
def pool_back(gy, x, gx, mode, size, table, work):
    """The gradient: `pool_back` of `pooling_kernels`."""
    pixels, positions, planes, width = table.area, table.out, table.planes, table.width
    for worker in prange(len(work)):
        mine, out, area = work[worker], positions * STEP, pixels * STEP
        shares, which = mine[:out], mine[out:2 * out]
        tile, gradient = mine[2 * out:2 * out + area], mine[2 * out + area:]
        for job in range(np.int64(worker), (planes + STEP - 1) // STEP, len(work)):
            first = min(job * STEP, planes - STEP)
            _load(gy, first * positions, positions, shares, width)
            if mode == AVG:
                _divide(shares, size)
            if mode == MAX:
                _load(x, first * pixels, pixels, tile, width)
                for p in range(positions):
                    span = table.first[p], table.first[p + 1]
                    find_largest(tile, 0, table.seen, table.seen, span, gradient, which, p * STEP)
            for i in range(pixels):
                span = table.begin[i], table.begin[i + 1]
                if mode == MAX:
                    add_labelled(shares, which, 0, table.seeing, table.pixels, span, gradient,
                                 i * STEP)
                else:
                    add(shares, 0, table.seeing, span, gradient, i * STEP)
            _store(gradient, gx, first * pixels, pixels, width)
