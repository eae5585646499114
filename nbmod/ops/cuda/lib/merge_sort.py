"""Stable merge sort of rows, for `ordering`, `indexing` and others.

A block sorts each tile of a row in shared memory, then a launch for every doubling merges pairs of
runs.  The rank of an element in a merged run is its rank in its own run plus the number of elements
of the other run before it, found by binary search (Satish, Harris and Garland, 2009).  Of equal
elements those of the left run come first; NaN comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ...op import Spec
from ..runtime.device_memory import Array
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .block_reduce import BLOCK_SIZE, block_stride, each_block
from .kernel_math import SIMULATED, cuda, minimum, real_of

__all__ = ["Sorted", "ascending", "descending", "find_starts", "key_type", "lower_bound",
           "sort_rows", "sort_scratch"]

TILE = 8 if SIMULATED else 1024
"""Elements that a block sorts, a power of two."""

INT32 = np.dtype(np.int32)


class Sorted(NamedTuple):
    """Sorted rows, (rows * size,): the keys, and the original index of each in its row."""

    keys: Array
    where: Array


def key_type(dtype: np.dtype) -> type[np.number]:
    """The type in which elements are compared: it can represent the negatives, or complements."""
    if dtype.kind == "f":
        return real_of(dtype)
    return np.int64 if dtype.itemsize == 8 else np.int32


def _passes(size: int) -> int:
    """The number of merge passes after tiles have been sorted."""
    return (-(-size // TILE) - 1).bit_length()


def sort_scratch(rows: int, size: int, kind: DTypeLike) -> list[Spec]:
    """The scratch of `sort_rows`."""
    count = 4 if _passes(size) else 2
    return [Spec((rows * size,), dtype) for dtype in (np.dtype(kind), INT32) * 2][:count]


@device_function
def ascending(x, row, k, size, unused):
    """`load` of `sort_rows` for rows of `size` keys."""
    return x[row * size + k]


@device_function
def descending(x, row, k, size, unused):
    """`load` of `sort_rows` for rows of `size` keys, largest first."""
    return -x[row * size + k]


@device_function
def _before(a, b):
    return a < b or (b != b and a == a)


@device_function
def _merged_place(keys, start, k, width, size):
    """The rank of element k of the row at `start` when pairs of runs of `width` are merged."""
    right = k & width
    low = minimum((k & -(2 * width)) + width - right, size)
    high, first = minimum(low + width, size), low
    key = keys[start + k]
    while low < high:
        middle = (low + high) // 2
        other = keys[start + middle]
        if _before(other, key) or (right and not _before(key, other)):
            low = middle + 1
        else:
            high = middle
    return k - right + low - first


@cache
def _tile_kernel(load: Callable, kind: type[np.number], tile: int) -> CudaKernel:
    """Sorts tiles; `load(x, row, k, a, b)` is element k of a row."""
    double = 2 * tile

    @block_stride
    def sort_tiles(segment, x, keys, where, size, tiles, a, b):
        near = cuda.shared.array(double, kind)
        indices = cuda.shared.array(double, np.int32)
        tid = cuda.threadIdx.x
        row, first = segment // tiles, segment % tiles * tile
        count = minimum(tile, size - first)
        for e in range(tid, count, BLOCK_SIZE):
            near[e] = load(x, row, first + e, a, b)
            indices[e] = first + e
        cuda.syncthreads()
        width, here = 1, 0
        while width < tile:
            for e in range(tid, count, BLOCK_SIZE):
                to = tile - here + _merged_place(near, here, e, width, count)
                near[to] = near[here + e]
                indices[to] = indices[here + e]
            cuda.syncthreads()
            width, here = 2 * width, tile - here
        for e in range(tid, count, BLOCK_SIZE):
            keys[row * size + first + e] = near[here + e]
            where[row * size + first + e] = indices[here + e]
        cuda.syncthreads()
    return sort_tiles


@grid_stride
def _merge_runs(i, keys, where, new_keys, new_where, width, size):
    start = i // size * size
    to = start + _merged_place(keys, start, i - start, width, size)
    new_keys[to] = keys[i]
    new_where[to] = where[i]


def sort_rows(load: Callable, x: Array, shape: tuple[int, int], params: tuple[int, int],
              scratch: Sequence[Array]) -> tuple[list[Launch], Sorted]:
    """Launches that sort (rows, size) keys, which `load(x, row, k, *params)` gives, ascending.

    `scratch` begins with what `sort_scratch` asked for; the result is part of it.
    """
    rows, size = shape
    tile = min(TILE, 1 << (size - 1).bit_length())
    tiles = -(-size // TILE)
    here, there = Sorted(*scratch[:2]), scratch[2:4]
    launches = each_block(_tile_kernel(load, key_type(here.keys.dtype), tile), rows * tiles, x,
                          *here, size, tiles, *params)
    for turn in range(_passes(size)):
        launches += each(_merge_runs, rows * size, *here, *there, TILE << turn, size)
        here, there = Sorted(*there), here
    return launches, here


@device_function
def lower_bound(keys, first, size, key):
    """The number of the `size` ascending keys from index `first` on that are less than `key`."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if keys[first + middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@grid_stride
def _count_before(i, keys, starts, size, spread):
    starts[i] = lower_bound(keys, i // spread * size, size, i % spread)


def find_starts(keys: Array, starts: Array, size: int) -> list[Launch]:
    """Launches that write to starts (..., n) how many elements of sorted rows of `size` integers
    are less than 0, 1, ... n - 1."""
    return each(_count_before, starts.size, keys, starts, size, starts.shape[-1])
