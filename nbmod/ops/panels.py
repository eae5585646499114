"""Products of matrices whose right factor is packed into panels.

    c = a b,  a (M, K), b (K, N)

`pack` copies b into panels (P, K, 4, lanes): panel p holds columns [p width, (p + 1) width), where
width is four vectors of the host, filled up with zeros.  `multiply` and `add_rows` then form a few
rows times one panel at a time in registers (`simd.tile`), into a tile from which the columns that
exist are added to c.  Packing costs one pass over b, so it pays when a has a dozen rows, or when
the panels are used again and again, as the recurrent weights are.

Every sum is formed in the order of k, in steps of DEPTH that do not depend on threads, tiles or
rows: the same product comes out the same bit by bit however it is divided.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .jit import inlined, kernel, num_threads, prange
from .op import Spec
from .simd.tile import (
    VECTORS,
    lanes,
    tile1,
    tile2,
    tile4,
    tile6,
    tile6x1,
    tile6x2,
    tile6x3,
)

__all__ = ["add_rows", "job_scratch", "multiply", "pack", "packing", "panel_spec", "product",
           "tile_spec"]

DEPTH = 256
"""Terms of a sum per tile: a panel of that depth (64 KB) and the rows of a job share the L2."""
ROWS = 96
"""Rows of a job of `multiply`."""
TILE_ROWS = 6


@inlined
def _copy(source, target):
    for j in range(target.size):
        target[j] = source[j]


@kernel(parallel=True)
def pack(b, row, column, columns, k0, depth, panels):
    """panels[:, k0:k0 + depth] from b (flat), b[k row + j column]; zeros beyond `columns`.

    Numbers are read in the order in which they lie.
    """
    count, _, vectors, width = panels.shape
    for p in prange(count):
        first = np.int64(p) * vectors * width
        panel, have = panels[p, k0:k0 + depth], min(vectors * width, columns - first)
        if column != 1:
            for j in range(have):
                source, v, lane = b[(first + j) * column:], j // width, j % width
                for k in range(depth):
                    panel[k, v, lane] = source[k * row]
        else:
            for k in range(depth):
                start, target = k * row + first, panel[k].reshape(-1)
                _copy(b[start:start + have], target[:have])
        for k in range(depth if have < vectors * width else 0):
            for j in range(have, vectors * width):
                panel[k, j // width, j % width] = 0


@inlined
def _tiles(a, at, row, step, rows, panels, bt, depth, columns, tile):
    """tile (flat) = rows (at most 6) of a times `columns` of the panel that begins at `bt`."""
    done, size = 0, panels.shape[2] * panels.shape[3]
    b = panels.reshape(-1)
    if rows == 6:
        done, vectors = 6, (columns + panels.shape[3] - 1) // panels.shape[3]
        if vectors == 1:
            tile6x1(a, at, row, step, b, bt, depth, tile, 0)
        elif vectors == 2:
            tile6x2(a, at, row, step, b, bt, depth, tile, 0)
        elif vectors == 3:
            tile6x3(a, at, row, step, b, bt, depth, tile, 0)
        else:
            tile6(a, at, row, step, b, bt, depth, tile, 0)
    if rows - done >= 4:
        tile4(a, at, row, step, b, bt, depth, tile, 0)
        done = 4
    if rows - done >= 2:
        tile2(a, at + done * row, row, step, b, bt, depth, tile, done * size)
        done += 2
    if rows > done:
        tile1(a, at + done * row, row, step, b, bt, depth, tile, done * size)


@inlined
def _add_tile(tile, size, rows, c, ct, pitch, count):
    """c[ct + r pitch + j] += tile[r size + j] for r < rows, j < count."""
    for r in range(rows):
        source, target = tile[r * size:r * size + count], c[ct + r * pitch:ct + r * pitch + count]
        for j in range(count):
            target[j] += source[j]


@inlined
def add_rows(a, at, row, rows, panels, c, ct, pitch, columns, tile):
    """c (rows, columns) += a (rows, K) b; rows begin `row` and `pitch` apart in a and c (flat)."""
    count, depth = panels.shape[0], panels.shape[1]
    size = panels.shape[2] * panels.shape[3]
    for p in range(count):
        width = min(size, columns - p * size)
        for first in range(0, rows, 6):
            now = min(6, rows - first)
            _tiles(a, at + first * row, row, 1, now, panels, p * depth * size, depth, width,
                   tile)
            _add_tile(tile, size, now, c, ct + first * pitch + p * size, pitch, width)


@inlined
def _load_rows(a, at, row, step, rows, depth, out):
    """out[k rows + r] = a[at + r row + k step]."""
    for k in range(depth):
        source, target = a[at + k * step:], out[k * rows:(k + 1) * rows]
        if row == 1:
            _copy(source, target)
        else:
            for r in range(rows):
                target[r] = source[r * row]


@inlined
def _store_tile(tile, size, rows, base, c, ct, pitch, count):
    """c[ct + r pitch + j] = base[j] + tile[r size + j] for r < rows, j < count."""
    for r in range(rows):
        source, target = tile[r * size:r * size + count], c[ct + r * pitch:ct + r * pitch + count]
        for j in range(count):
            target[j] = base[j] + source[j]


@inlined
def _job(a, at, places, rows, panels, span, base, c, ct, pitch, columns, work):
    """One block of rows times the panels [span[0], span[1]); base is empty where c is added to."""
    depth, size, (row, step) = panels.shape[1], panels.shape[2] * panels.shape[3], places
    tile, packed = work[:6 * size], work[6 * size:]
    for k0 in range(0, depth, DEPTH):
        deep = min(DEPTH, depth - k0)
        source, start, between, along = a, at + k0 * step, row, step
        if step != 1:
            _load_rows(a, start, row, step, rows, deep, packed)
            source, start, between, along = packed, 0, 1, rows
        for p in range(span[0], span[1]):
            j, width = p * size, min(size, columns - p * size)
            for first in range(0, rows, 6):
                now = min(6, rows - first)
                _tiles(source, start + first * between, between, along, now, panels,
                       (p * depth + k0) * size, deep, width, tile)
                if k0 == 0 and base.size:
                    _store_tile(tile, size, now, base[j:], c, ct + first * pitch + j, pitch, width)
                else:
                    _add_tile(tile, size, now, c, ct + first * pitch + j, pitch, width)


@kernel(parallel=True)
def multiply(a, row, step, rows, panels, base, c, pitch, columns, work):
    """c (rows, columns) = base + a b, or c += a b where base is empty.

    a[r row + k step] and c[r pitch + j] are flat; base is one number per column; work is
    `job_scratch`.
    """
    count, workers = len(panels), len(work)
    blocks = (rows + ROWS - 1) // ROWS
    groups = min(count, max(1, 4 * workers // blocks))
    for worker in prange(workers):
        for job in range(np.int64(worker), blocks * groups, workers):
            first, group = job // groups * ROWS, job % groups
            span = group * count // groups, (group + 1) * count // groups
            _job(a, first * row, (row, step), min(ROWS, rows - first), panels, span, base, c,
                 first * pitch, pitch, columns, work[worker])


def panel_spec(depth: int, columns: int, dtype: Any) -> Spec:
    """The panels of a matrix (depth, columns)."""
    width = lanes(dtype)
    return Spec((-(-columns // (VECTORS * width)), depth, VECTORS, width), np.dtype(dtype))


def tile_spec(workers: int, dtype: Any) -> Spec:
    """Tiles for `add_rows`, one for each worker."""
    return Spec((workers, TILE_ROWS * VECTORS * lanes(dtype)), np.dtype(dtype))


def job_scratch(dtype: Any) -> Spec:
    """Scratch for `multiply`: for each worker a tile, and a block of rows."""
    tile = TILE_ROWS * VECTORS * lanes(dtype)
    return Spec((num_threads(), tile + ROWS * DEPTH), np.dtype(dtype))


def product(a: Any, panels: Any, c: Any, work: Any, base: Any = None, add: bool = False
            ) -> Callable[[], None]:
    """A function that does c = base + a b, or c += a b; a and c are matrices, also views.

    Rows of c are contiguous; a may be a transpose.
    """
    row, step = (stride // a.itemsize for stride in a.strides)
    base = np.zeros(0 if add else c.shape[1], c.dtype) if base is None else base
    return partial(multiply, _flat(a), row, step, len(a), panels, base, _flat(c),
                   c.strides[0] // c.itemsize, c.shape[1], work)


def _flat(matrix: Any) -> Any:
    """The memory of a view from its first element to its last, as a vector."""
    last = sum((size - 1) * stride for size, stride in zip(matrix.shape, matrix.strides,
                                                           strict=True)) // matrix.itemsize
    return np.lib.stride_tricks.as_strided(matrix, (last + 1,), (matrix.itemsize,))


def packing(b: Any, panels: Any, k0: int = 0) -> Callable[[], None]:
    """A function that packs b (K, N), a view of any strides, as rows k0 ... of the panels."""
    row, column = (stride // b.itemsize for stride in b.strides)
    return partial(pack, _flat(b), row, column, b.shape[1], k0, len(b), panels)
