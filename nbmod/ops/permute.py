"""Copying a transposed view to contiguous memory, fast.

NumPy copies well while source and destination share their innermost axis.  Where they do not, one
side of its loop jumps through memory and every cache line is fetched many times over.  The kernel
here copies in square tiles that stay in the cache: axes that stay neighbours are merged, the
source's innermost axis and the destination's span the tiles, all others are a list of offsets.

The kernel moves bits, so one compiled version serves all types of a size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .jit import kernel, prange

__all__ = ["prepare_copy"]

_TILE = 32
_WORTH_IT = 1 << 18
"""Bytes below which NumPy is as fast."""
_MAX_OFFSETS = 1 << 16
"""Above this the tiles are small and the list of offsets is not."""


@kernel(parallel=True)
def _copy_tiles(x, y, x_starts, y_starts, rows, cols, x_step, y_step):
    """y[i, j] = x[j, i] for planes that start at the given offsets; the steps are row lengths."""
    tiles = (rows + _TILE - 1) // _TILE
    for work in prange(tiles * x_starts.size):
        plane, tile = work // tiles, work % tiles
        first = tile * _TILE
        last = min(first + _TILE, rows)
        x0, y0 = x_starts[plane], y_starts[plane]
        for column in range(0, cols, _TILE):
            stop = min(column + _TILE, cols)
            for i in range(first, last):
                for j in range(column, stop):
                    y[y0 + i * y_step + j] = x[x0 + j * x_step + i]


def prepare_copy(source: np.ndarray, view: np.ndarray, out: np.ndarray) -> Callable[[], None]:
    """A function that writes `view`, a permutation of `source`'s elements, to `out` in order."""
    plain = partial(np.copyto, out.reshape(view.shape), view)
    if out.nbytes < _WORTH_IT or min(view.strides) <= 0 or out.itemsize > 8:
        return plain
    axes = _merged(view)
    inner = min(range(len(axes)), key=lambda i: axes[i][1])
    if inner == len(axes) - 1:
        return plain
    return _tiled(source, axes, inner, out) or plain


def _merged(view: np.ndarray) -> list[tuple[int, int]]:
    """(size, step in the source, in elements) of every axis; neighbours in both arrays are one."""
    axes: list[tuple[int, int]] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        step = stride // view.itemsize
        if axes and axes[-1][1] == size * step:
            axes[-1] = (axes[-1][0] * size, step)
        elif size > 1:
            axes.append((size, step))
    return axes or [(1, 1)]


def _tiled(source: np.ndarray, axes: list[tuple[int, int]], inner: int, out: np.ndarray
           ) -> Callable[[], None] | None:
    """The kernel on these arrays; None if there are too many planes."""
    sizes = [size for size, _ in axes]
    steps = [int(np.prod(sizes[i + 1:])) for i in range(len(axes))]
    others = [i for i in range(len(axes) - 1) if i != inner]
    if np.prod([sizes[i] for i in others]) > _MAX_OFFSETS:
        return None
    bits = f"u{out.itemsize}"
    return partial(_copy_tiles, source.reshape(-1).view(bits), out.reshape(-1).view(bits),
                   _offsets(others, sizes, [step for _, step in axes]),
                   _offsets(others, sizes, steps),
                   sizes[inner], sizes[-1], axes[-1][1], steps[inner])


def _offsets(axes: list[int], sizes: list[int], steps: list[int]) -> Any:
    """Offset of every combination of indices along `axes`."""
    offsets = np.zeros(1, np.int64)
    for axis in axes:
        offsets = (offsets[:, None] + np.arange(sizes[axis]) * steps[axis]).reshape(-1)
    return offsets
