"""Products of matrices, or of stacks of them, and what may be done to them on the way out.

    c = relu(alpha a b + bias + c)        a (..., M, K), b (..., K, N), c (..., M, N)

`product(a, b, c, work, ...)` decides at bind how, and returns a function without arguments that
does it; `room` tells how much scratch memory `work` is.  Factors are views: a transpose is one.

    packed = np.empty(panels(K, N, dtype).shape, dtype)     a right factor that stays the same for
    packing(b, packed)()                                    many products is packed once,
    product(a, packed, c, work, packed=True)                and product spares itself the trouble

**How.**  The inner loop (`simd.product`) multiplies strips of rows with panels of columns, packed
so that it reads one number after another.  A job is a block of c: for at most DEPTH terms of the
sums at a time it packs all its rows, then some panels into the L2 cache, and lets one strip after
the other meet them there: a strip stays in the L1 cache, and comes from further away but once for
all these panels.  Packing turns numbers round in registers where they lie across.

Small factors are not packed where they need not be turned round (`ways`).  Nor are few rows times
a dense layer's weights: they are multiplied by dot products, as numbers lie along in both.

A sum is formed in parts of equally many terms, each in an order that follows from the way.  So the
number of threads does not change a bit of it, nor do other rows and columns read in the same way.

Why not BLAS: threads of OpenBLAS wait by spinning.  On a machine that has anything else to do, such
as the next kernel, its calls then take 20 to 50 times as long, and slow down what follows them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Spec
from ..shape import size_of
from ..simd.gemm_microkernel import (
    ADD,
    BIAS,
    DOT_ROWS,
    DOTS,
    HEIGHTS,
    RELU,
    ROWS,
    VECTORS,
    dot_row,
    dots,
    half,
    lift_columns,
    lift_rows,
    low,
    pitch_of,
    tall,
)
from ..simd.host import lanes
from ..simd.transpose import transpose
from .dot import TINY, multiply
from .gemm_plan import ACROSS, DEPTH, LEFT, RIGHT, STRIPS, TOGETHER, Plan, part_of, planned, ways
from .gemm_small import PACKED, multiply_small, multiply_small_here, small_way

__all__ = ["add_share", "most_room", "packing", "panels", "product", "room"]

AHEAD = 8
"""Lines that are fetched before they are packed where a line is read by pieces."""
SERIAL = 1 << 20
"""Multiplications up to which one thread, which takes 10 us, is as fast: to enter a parallel kernel
takes 3 us where threads are awake."""
HALF, LOW = HEIGHTS[1:]


# ------------------------------------------------------------------------------------------ kernels

@inlined
def _copy(source, target):
    for j in range(target.size):
        target[j] = source[j]


@inlined
def _pack(x, at, steps, lines, depth, width, out, to, pitch):
    """out[to + k pitch + j] = x[at + j line + k along] for j < lines, k < depth.

    steps: line, along; in vectors of `width`, the last of which may have any numbers at its end.
    """
    line, along = steps
    whole = depth // width * width if along == 1 else 0
    for j in range(0, lines, width):
        have = min(width, lines - j)
        for k in range(0, whole, width):
            transpose(x, out, (at + j * line + k, to + k * pitch + j), (line, pitch, have))
        for i in range(j, j + have):
            for k in range(whole, depth):
                out[to + k * pitch + i] = x[at + i * line + k * along]


@inlined
def _fill(out, to, pitch, lines, whole, depth):
    """out[to + k pitch + j] = 0 for lines <= j < whole, k < depth: tiles multiply these too, and
    are ten times slower if they find denormals."""
    for k in range(depth):
        first = np.uintp(to + k * pitch + lines)
        for j in range(whole - lines):
            out[first + np.uintp(j)] = 0


@inlined
def _pack_rows(x, at, steps, rows, depth, width, pitch, work):
    """The strips of a job; behind the last row stands 0."""
    row, along = steps
    if row == 1:
        count = max((rows - pitch) // ROWS + 1, 0) if rows >= pitch else 0
        for k in range(depth):
            if count:
                lift_rows(x, work, (at + k * along, k * pitch),
                          (count, ROWS, depth * pitch, min(AHEAD, depth - 1 - k) * along))
            for r in range(count * ROWS, rows):
                work[r // ROWS * depth * pitch + k * pitch + r % ROWS] = x[at + k * along + r]
    else:
        for s in range(0, rows, ROWS):
            _pack(x, at + s * row, (row, along), min(ROWS, rows - s), depth, width, work,
                  s // ROWS * depth * pitch, pitch)
    rest = rows % ROWS
    if rest:
        _fill(work, rows // ROWS * depth * pitch, pitch, rest, ROWS, depth)


@inlined
def _pack_columns(x, at, steps, columns, depth, width, out, to, far):
    """Panels, `far` apart; behind the last column stands 0."""
    row, column = steps
    panel = VECTORS * width
    count = columns // panel
    if column == 1:
        for k in range(depth):
            if count:
                lift_columns(x, out, (at + k * row, to + k * panel),
                             (count, panel, far, min(AHEAD, depth - 1 - k) * row))
            source = np.uintp(at + k * row + count * panel)
            target = np.uintp(to + count * far + k * panel)
            for j in range(columns - count * panel):
                out[target + np.uintp(j)] = x[source + np.uintp(j)]
    else:
        for j in range(0, columns, panel):
            _pack(x, at + j * column, (column, row), min(panel, columns - j), depth, width, out,
                  to + j // panel * far, panel)
    if columns % panel:
        _fill(out, to + count * far, panel, columns % panel, panel, depth)


@inlined
def _tile(a, b, scale, bias, c, at, steps):
    """The lowest tile that has the rows."""
    if steps[2] > HALF:
        tall(a, b, scale, bias, c, at, steps)
    elif steps[2] > LOW:
        half(a, b, scale, bias, c, at, steps)
    else:
        low(a, b, scale, bias, c, at, steps)


@inlined
def _copy_tile(source, at, pitch, target, to, distance, rows, columns):
    for r in range(rows):
        here, there = np.uintp(at + r * pitch), np.uintp(to + r * distance)
        for j in range(columns):
            target[there + np.uintp(j)] = source[here + np.uintp(j)]


@inlined
def _meet(a, b, rest, c, bias, at, steps, sizes, block, work):
    """One strip of rows times some panels, all of which may be packed or not.

    at     where the strip begins in a, the panels in b, the last one in rest if it is not whole;
           their first column; where both meet in c
    steps  from panel to panel in b; from row to row in c; from term to term in a, b and rest
    sizes  terms; numbers of a vector; flags
    block  rows; columns that there are; where in work there is the scale

    A tile with fewer columns than its vectors hold goes by way of scratch behind the scale, where
    there is room for a bias and a tile.
    """
    (deep, width, flags), (rows, columns, scale) = sizes, block
    panel = VECTORS * width
    spare, edge = scale + width, scale + width + panel
    for j in range(0, columns - panel + 1, panel):
        _tile(a, b, work, bias, c,
              (at[0], at[1] + j // panel * steps[0], scale, at[3] + j, at[4] + j),
              (deep, steps[1], rows, flags, steps[2], steps[3]))
    have = columns % panel
    if have:
        first, place = at[3] + columns - have, at[4] + columns - have
        _copy_edges(bias, first, c, place, steps[1], work, spare, panel, (rows, have), flags)
        _tile(a, rest, work, work, work, (at[0], at[2], scale, spare, edge),
              (deep, panel, rows, flags, steps[2], steps[4]))
        _copy_tile(work, edge, panel, c, place, steps[1], rows, have)


@inlined
def _copy_edges(bias, first, c, place, distance, work, spare, pitch, sizes, flags):
    """The numbers that an incomplete tile begins with, bias and c, to where it is computed."""
    rows, columns = sizes
    if flags & BIAS:
        _copy_tile(bias, first, 0, work, spare, 0, 1, columns)
    if flags & ADD:
        _copy_tile(c, place, distance, work, spare + pitch, pitch, rows, columns)


@inlined
def _flags_of(flags, first, last):
    """Those of a part of the terms: the bias is added by the first, RELU the last one's."""
    flags = flags if first else (flags | ADD) & ~BIAS
    return flags if last else flags & ~RELU


@inlined
def _packed_job(a, b, c, bias, alpha, at, steps, sizes, block, work):
    """One block of c, by tiles; see `_job`.

    What lies as tiles want it and is near is read in place, but for a strip and a panel that are
    not whole.
    """
    (depth, part, width, pitch, flags, way), (i0, j0, rows, columns) = sizes, block
    panel, rest = VECTORS * width, rows % ROWS
    group = TOGETHER * panel
    kept = rows if rest == 0 or rest == HALF or rest == LOW else rows - rest
    kept = kept if way & LEFT else 0
    strips = (rows - kept + ROWS - 1) // ROWS
    for first in range(0, depth, part):
        deep = min(part, depth - first)
        packed, left = strips * deep * pitch, at[0] + i0 * steps[0] + first * steps[1]
        scale = packed + deep * (panel if way & RIGHT else min(group, columns + panel))
        work[scale] = alpha
        _pack_rows(a, left + kept * steps[0], (steps[0], steps[1]), rows - kept, deep, width,
                   pitch, work)
        now = _flags_of(flags, first == 0, first + deep == depth)
        for j in range(j0, j0 + columns, group):
            have = min(group, j0 + columns - j)
            begin, far, term = at[1] + j // panel * steps[2] + first * panel, steps[2], panel
            end = begin + have // panel * far
            if way & RIGHT:
                begin, far, term = at[1] + j + first * steps[2], panel, steps[2]
                whole, end = have - have % panel, packed
                _pack_columns(b, begin + whole, (steps[2], 1), have - whole, deep, width, work,
                              packed, 0)
            elif steps[3]:
                begin, far = packed, deep * panel
                end = begin + have // panel * far
                _pack_columns(b, at[1] + j * steps[3] + first * steps[2], (steps[2], steps[3]),
                              have, deep, width, work, packed, far)
            for s in range(0, rows, ROWS):
                inside = s < kept
                _meet(a if inside else work, b if way & RIGHT or not steps[3] else work,
                      work if steps[3] else b, c, bias,
                      (left + s if inside else (s - kept) // ROWS * deep * pitch, begin, end, j,
                       at[2] + (i0 + s) * steps[4] + j),
                      (far, steps[4], steps[1] if inside else pitch, term, panel),
                      (deep, width, now), (min(ROWS, rows - s), have, scale), work)


@inlined
def _dots(a, b, scale, bias, c, at, steps):
    if steps[2] > 1:
        dots(a, b, scale, bias, c, at, steps)
    else:
        dot_row(a, b, scale, bias, c, at, steps)


@inlined
def _dots_job(a, b, c, bias, alpha, at, steps, sizes, block, work):
    """One block of c, by dot products, which pack nothing; see `_job`."""
    (depth, part, width, _, flags, _), (i0, j0, rows, columns) = sizes, block
    spare, edge = width, width + DOTS
    work[0] = alpha
    for first in range(0, depth, part):
        deep = min(part, depth - first)
        now = _flags_of(flags, first == 0, first + deep == depth)
        for j in range(j0, j0 + columns, DOTS):
            have, right = min(DOTS, j0 + columns - j), at[1] + j * steps[3] + first
            for i in range(i0, i0 + rows, DOT_ROWS):
                high = min(DOT_ROWS, i0 + rows - i)
                left, place = at[0] + i * steps[0] + first, at[2] + i * steps[4] + j
                if have == DOTS:
                    _dots(a, b, work, bias, c, (left, right, 0, j, place),
                         (deep, steps[4], high, now, steps[0], steps[3], DOTS))
                else:
                    _copy_edges(bias, j, c, place, steps[4], work, spare, DOTS, (high, have), now)
                    _dots(a, b, work, work, work, (left, right, 0, spare, edge),
                         (deep, DOTS, high, now, steps[0], steps[3], have))
                    _copy_tile(work, edge, DOTS, c, place, steps[4], high, have)


@inlined
def _job(a, b, c, bias, alpha, at, steps, sizes, block, work):
    """One block of c; see `_multiply`.

    at     where the matrices begin in a, b, c
    steps  rows and columns of a; rows and columns of b, or panels of b and 0; rows of c
    sizes  depth, and how much of it at a time; numbers of a vector; pitch of strips; flags; the way
    block  first row and column, number of rows and columns
    """
    if sizes[5] & ACROSS:
        _dots_job(a, b, c, bias, alpha, at, steps, sizes, block, work)
    else:
        _packed_job(a, b, c, bias, alpha, at, steps, sizes, block, work)


@inlined
def add_share(a, at, row, rows, packed, c, place, pitch, columns, share, work):
    """c (rows, columns) += a b, the panels of worker share[0] of share[1]; rows lie apart."""
    count, depth, panel = packed.shape
    width, part = panel // VECTORS, part_of(depth, DEPTH)
    first, last = share[0] * count // share[1] * panel, (share[0] + 1) * count // share[1] * panel
    how, sizes = (row, 1, depth * panel, 0, pitch), (depth, part, width, pitch_of(width), ADD, 0)
    for i in range(0, rows if first < last else 0, STRIPS * ROWS):
        block = i, first, min(STRIPS * ROWS, rows - i), min(last, columns) - first
        _packed_job(a, packed.reshape(-1), c, work, a.dtype.type(1), (at, 0, place), how, sizes,
                    block, work)


@inlined
def _nth(job, rows, columns, high, wide):
    """Matrix and block of job number `job`."""
    down, across = (rows + high - 1) // high, (columns + wide - 1) // wide
    i, j = job // across % down * high, job % across * wide
    return job // (down * across), (i, j, min(high, rows - i), min(wide, columns - j))


@kernel(parallel=True)
def _multiply(a, b, c, bias, alpha, places, steps, sizes, blocks, count, work):
    """c, flat as a and b are, of `count` jobs.

    places   where each matrix of the stack begins in a, b, c
    blocks   rows and columns of a matrix; of a job
    """
    workers = len(work)
    for worker in prange(workers):
        for job in range(np.int64(worker), count, workers):
            n, block = _nth(job, blocks[0], blocks[1], blocks[2], blocks[3])
            _job(a, b, c, bias, alpha, (places[n, 0], places[n, 1], places[n, 2]), steps, sizes,
                 block, work[worker])


@kernel
def _multiply_here(a, b, c, bias, alpha, places, steps, sizes, blocks, count, work):
    """The same on the calling thread."""
    for job in range(count):
        n, block = _nth(job, blocks[0], blocks[1], blocks[2], blocks[3])
        _job(a, b, c, bias, alpha, (places[n, 0], places[n, 1], places[n, 2]), steps, sizes, block,
             work[0])


@kernel(parallel=True)
def _pack_panels(b, steps, sizes, place, out):
    """Terms [place[0], place[0] + place[1]) of all panels.

    sizes  number and width of panels, distance from one to the next; columns
    """
    count, panel, far, columns = sizes
    for p in prange(count):
        first = np.int64(p) * panel
        have = min(panel, columns - first)
        _pack_columns(b, first * steps[1], steps, have, place[1], panel // VECTORS, out,
                      np.int64(p) * far + place[0] * panel, 0)


# --------------------------------------------------------------------------------------------- room

def room(rows: int, depth: int, columns: int, dtype: Any, stack: int = 1, order: str = ""
         ) -> Spec:
    """Scratch of `product`, (workers, numbers).

    order: how factors lie, if that is known, and that c is no transposed matrix: C along rows, F
    along columns.
    """
    if rows * depth * columns * stack <= TINY:
        return Spec((0, 0), np.dtype(dtype))
    workers, width = workers_of(rows, depth, columns, stack), lanes(dtype)
    if order and min(rows, depth, columns) > 1:
        way = ways(rows, depth, columns, width, order)
        size = planned(rows, depth, columns, stack, width, workers, way).work
    else:
        turns = ((rows, columns), (columns, rows))  # a transposed c is computed the other way round
        size = max(planned(m, depth, n, stack, width, workers).work for m, n in turns)
    return Spec((workers, size), np.dtype(dtype))


def most_room(rows: int, depth: int, columns: int, dtype: Any) -> int:
    """Most numbers of scratch that a worker needs, however a product is divided."""
    return Plan(rows, depth, columns, 1, lanes(dtype), STRIPS * ROWS, columns).work


def workers_of(rows: int, depth: int, columns: int, stack: int) -> int:
    """Threads of a product."""
    return num_threads() if rows * depth * columns * stack > SERIAL else 1


def panels(depth: int, columns: int, dtype: Any) -> Spec:
    """A packed right factor (depth, columns): (panels, depth, numbers)."""
    width = VECTORS * lanes(dtype)
    return Spec((-(-columns // width), depth, width), np.dtype(dtype))


# ---------------------------------------------------------------------------------------- functions

def packing(b: Any, packed: Any, first: int = 0) -> Callable[[], None]:
    """A function that packs b (K, N), a view, as rows `first` ... of the packed factor.

    The panels of `packed` may lie apart.
    """
    sizes = (len(packed), packed.shape[2], packed.strides[0] // packed.itemsize, b.shape[1])
    return partial(_pack_panels, _flat(b), _strides(b), sizes, (first, len(b)), _flat(packed))


def product(a: Any, b: Any, c: Any, work: Any, *, alpha: float = 1.0, bias: Any = None,
            add: bool = False, relu: bool = False, packed: bool = False) -> Callable[[], None]:
    """A function that does c = alpha a b + bias, one number for each column; see the module.

    float32 or float64.  Stacks have the same axes, and no size need be 1.  Rows or columns of every
    matrix lie without gaps.  add: the product is added to c; relu: negative numbers become 0.
    ValueError where this module cannot do it.
    """
    if c.size and c.strides[-1] != c.itemsize and c.shape[-1] > 1:
        if bias is not None or packed:
            raise ValueError("a transposed result has no bias and no packed factor")
        a, b, c = (np.swapaxes(x, -1, -2) for x in (b, a, c))
    *_, rows, depth = a.shape
    columns, stack = c.shape[-1], size_of(c.shape[:-2])
    if rows * depth * columns * stack <= TINY and not packed:
        return partial(_by_numpy, a, b, c, alpha, bias, add, relu)
    width, flags = lanes(c.dtype), BIAS * (bias is not None) | ADD * add | RELU * relu
    left, right = _strides(a), (b.shape[1] * b.shape[2], 0) if packed else _strides(b)
    order = ("C" if left[1] == 1 else "F") + (
        "P" if packed else "F" if right[0] == 1 else "C")
    way = ways(rows, depth, columns, width, order)
    plan = planned(rows, depth, columns, stack, width, len(work), way)
    if work.shape[1] < plan.work:
        raise ValueError(f"{work.shape[1]} numbers of scratch, expected {plan.work}")
    places = [np.zeros(stack, np.int64) if packed and x is b else _places(x, c.shape[:-2])
              for x in (a, b, c)]
    small = PACKED if bias is not None or relu or packed else small_way(
        (rows, depth, columns), left, right, _strides(c)[0], plan)
    if small != PACKED:
        return partial(multiply_small if len(work) > 1 else multiply_small_here, _flat(a), _flat(b),
                       _flat(c), c.dtype.type(alpha), np.stack(places, 1),
                       (*left, *right, _strides(c)[0]), (rows, depth, columns), small, add)
    return partial(
        _multiply if len(work) > 1 else _multiply_here, _flat(a),
        b.reshape(-1) if packed else _flat(b), _flat(c),
        np.zeros(1, c.dtype) if bias is None else bias, c.dtype.type(alpha), np.stack(places, 1),
        (*left, *right, _strides(c)[0]), (depth, plan.part, width, pitch_of(width), flags, way),
        (rows, columns, plan.high, plan.wide), plan.jobs, work)


def _by_numpy(a: Any, b: Any, c: Any, alpha: float, bias: Any, add: bool, relu: bool) -> None:
    multiply(a, b, c, alpha, add)
    if bias is not None:
        c += bias
    if relu:
        np.maximum(c, 0, out=c)


def _strides(matrix: Any) -> tuple[int, int]:
    """Distances of rows and of columns of matrices, in numbers; 1 where there is but one."""
    row, column = (stride // matrix.itemsize if size > 1 else 1 for size, stride
                   in zip(matrix.shape[-2:], matrix.strides[-2:], strict=True))
    return row, column


def _places(x: Any, stack: tuple[int, ...]) -> np.ndarray:
    """Where each matrix of a stack begins."""
    places = np.zeros(stack, np.int64)
    for axis, (size, stride) in enumerate(zip(stack, x.strides[:-2], strict=True)):
        along = np.arange(size) * (stride // x.itemsize)
        places += along.reshape(-1, *[1] * (len(stack) - axis - 1))
    return places.reshape(-1)


def _flat(x: Any) -> Any:
    """The memory of a view from its first element to its last, as a vector."""
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.strides,
                                                           strict=True)) // x.itemsize
    return np.lib.stride_tricks.as_strided(x, (last + 1,), (x.itemsize,))
