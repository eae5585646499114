"""Parallel strided copies: tensors, slices of tensors and transposed views, at memory bandwidth.

If source and destination have the same innermost axis, they consist of contiguous runs, which are
written with non-temporal stores where they are large (`prepare_move`).  If not, one side of a loop
has large strides, at worst (rows of 4096 bytes) with a cache conflict miss at every access.  The
kernel then transposes square tiles in registers, so that cache lines are read and written whole
(`prepare_copy`): axes that stay adjacent are merged, the innermost axes of source and destination
span the tiles, all others are a list of offsets.

The kernels move bits, so one compiled version serves all types of a size.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod

import numpy as np

from ..jit import inlined, kernel, prange
from ..op import Run, all_of
from ..simd.host import lanes
from ..simd.ir import width_of
from ..simd.nontemporal import bypasses_cache, store_fence, store_nontemporal
from ..simd.raw_arrays import STEP, flat_memory
from ..simd.transpose import transpose, transpose_nontemporal

__all__ = ["prepare_copy", "prepare_move", "prepare_moves"]

_TILE = 64, 512
"""Rows and columns of the destination that are processed together: few enough pages for the TLB."""
_WORTH_IT = 1 << 20
"""Bytes below which NumPy is as fast."""
_WORTH_TURNING = 1 << 16
"""Bytes below which NumPy is as fast at transposed copies."""
_MAX_OFFSETS = 1 << 16
"""Above this the tiles are small and the list of offsets is large."""
_PIECE = 1 << 14
"""Words of a run that one thread copies."""


@inlined
def _copy_elements(x, x0, x_step, y, y0, y_step, rows, cols):
    """y[i, j] = x[j, i]; indices are unsigned: for signed ones numba adds a check for negative
    values."""
    x_step, y_step = np.uint64(x_step), np.uint64(y_step)
    for i in range(rows):
        source, target = np.uint64(x0 + i), np.uint64(y0) + np.uint64(i) * y_step
        for j in range(cols):
            y[target + np.uint64(j)] = x[source + np.uint64(j) * x_step]


@kernel(parallel=True)
def _copy_tiles(x, x_starts, x_step, y, y_starts, y_step, size, streamed):
    """y[i, j] = x[j, i] for i < rows, j < cols, in planes that start at the given offsets; size is
    (rows, cols, width of a tile in registers)."""
    rows, cols, width = size
    tiles = (rows + _TILE[0] - 1) // _TILE[0]
    for item in prange(tiles * x_starts.size):
        plane, first = np.int64(item) // tiles, np.int64(item) % tiles * _TILE[0]
        x0, y0 = x_starts[plane] + first, y_starts[plane] + first * y_step
        height = min(_TILE[0], rows - first)
        down, across = height // width * width, cols // width * width
        for tile in range(0, across, _TILE[1]):
            for i in range(0, down, width):
                for j in range(tile, min(tile + _TILE[1], across), width):
                    at = x0 + j * x_step + i, y0 + i * y_step + j
                    if streamed:
                        transpose_nontemporal(x, y, at, (x_step, y_step))
                    else:
                        transpose(x, y, at, (x_step, y_step))
        _copy_elements(x, x0 + across * x_step, x_step, y, y0 + across, y_step, down, cols - across)
        _copy_elements(x, x0 + down, x_step, y, y0 + down * y_step, y_step, height - down, cols)
        if streamed:
            store_fence(y)


@inlined
def _copy_run(source, y, at, count, streamed):
    done = count // STEP * STEP if streamed else 0
    for i in range(0, done, STEP):
        store_nontemporal(source[i:], y, at + i)
    rest, target = source[done:], y[at + done:]
    for i in range(count - done):
        target[i] = rest[i]


@kernel(parallel=True)
def _copy_runs(x, x_starts, y, y_starts, run, streamed):
    """y[b + i] = x[a + i], i < run, for every pair of starts (a, b); a job is a piece of a run, or
    some short ones."""
    pieces, together = (run + _PIECE - 1) // _PIECE, max(1, _PIECE // run)
    for job in prange((x_starts.size + together - 1) // together * pieces):
        line, first = np.int64(job) // pieces * together, np.int64(job) % pieces * _PIECE
        count = min(_PIECE, run - first)
        for k in range(line, min(line + together, x_starts.size)):
            _copy_run(x[x_starts[k] + first:], y, y_starts[k] + first, count, streamed)
        if streamed:
            store_fence(y)


def prepare_moves(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> Run:
    """A function that copies the first of every pair to the second."""
    return all_of([prepare_move(*pair) for pair in pairs])


def prepare_move(source: np.ndarray, target: np.ndarray) -> Run:
    """A function that copies `source` to `target`, of the same shape, views both of any array."""
    plain = partial(np.copyto, target, source)
    if target.nbytes < _WORTH_IT or source.dtype != target.dtype or _is_irregular(source, target):
        return plain
    *others, (run, x_step, y_step) = _runs(source, target)
    size = target.itemsize
    words = [size * step for _, *steps in others for step in steps]
    if (x_step, y_step) != (1, 1) or any(each % 4 for each in (run * size, *words)):
        return plain
    sizes = [count for count, _, _ in others]
    if prod(sizes) > _MAX_OFFSETS:
        return plain
    x_starts, y_starts = (_offsets(list(range(len(others))), sizes,
                                   [steps[side] * size // 4 for steps in others])
                          for side in (1, 2))
    streamed = bypasses_cache(target) and not (y_starts % lanes("float32")).any()
    x, y = (flat_memory(array).view(np.uint32) for array in (source, target))
    return partial(_copy_runs, x, x_starts, y, y_starts, run * size // 4, streamed)


def _is_irregular(*arrays: np.ndarray) -> bool:
    """Whether any array has zero or negative strides, or is misaligned."""
    return any(step <= 0 or step % array.itemsize for array in arrays
               for step in array.strides) or any(array.ctypes.data % 4 for array in arrays)


def _runs(source: np.ndarray, target: np.ndarray) -> list[tuple[int, int, int]]:
    """(size, stride in source, in target) of every axis; axes adjacent in both are merged."""
    axes: list[tuple[int, int, int]] = []
    for size, *steps in zip(target.shape, source.strides, target.strides, strict=True):
        x, y = (step // target.itemsize for step in steps)
        if axes and axes[-1][1:] == (size * x, size * y):
            axes[-1] = (axes[-1][0] * size, x, y)
        elif size > 1:
            axes.append((size, x, y))
    return axes or [(1, 1, 1)]


def prepare_copy(source: np.ndarray, view: np.ndarray, out: np.ndarray) -> Run:
    """A function that writes `view`, a permutation of `source`'s elements, to `out` in order."""
    plain = prepare_move(view, out.reshape(view.shape))
    if out.nbytes < _WORTH_TURNING or min(view.strides) <= 0:
        return plain
    axes = _merged(view)
    inner = min(range(len(axes)), key=lambda i: axes[i][1])
    if inner == len(axes) - 1:
        return plain
    return _tiled(source, axes, inner, out) or plain


def _merged(view: np.ndarray) -> list[tuple[int, int]]:
    """(size, stride in the source, in elements) of every axis; axes adjacent in both are merged."""
    axes: list[tuple[int, int]] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        step = stride // view.itemsize
        if axes and axes[-1][1] == size * step:
            axes[-1] = (axes[-1][0] * size, step)
        elif size > 1:
            axes.append((size, step))
    return axes or [(1, 1)]


def _tiled(source: np.ndarray, axes: list[tuple[int, int]], inner: int, out: np.ndarray
           ) -> Run | None:
    """The kernel on these arrays; None if there are too many planes."""
    sizes = [size for size, _ in axes]
    steps = [prod(sizes[i + 1:]) for i in range(len(axes))]
    others = [i for i in range(len(axes) - 1) if i != inner]
    if prod(sizes[i] for i in others) > _MAX_OFFSETS:
        return None
    bits = np.dtype("f8" if out.itemsize == 8 else f"u{out.itemsize}")
    starts, width = _offsets(others, sizes, steps), width_of(bits)
    streamed = bypasses_cache(out) and not steps[inner] % width and not (starts % width).any()
    return partial(
        _copy_tiles,
        source.reshape(-1).view(bits), _offsets(others, sizes, [step for _, step in axes]),
        axes[-1][1], out.reshape(-1).view(bits), starts, steps[inner],
        (sizes[inner], sizes[-1], width), streamed)


def _offsets(axes: list[int], sizes: list[int], steps: list[int]) -> np.ndarray:
    """Offset of every combination of indices along `axes`."""
    offsets = np.zeros(1, np.int64)
    for axis in axes:
        offsets = (offsets[:, None] + np.arange(sizes[axis]) * steps[axis]).reshape(-1)
    return offsets
