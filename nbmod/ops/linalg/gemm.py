"""General matrix multiplication (GEMM) of matrices or stacks of them, with a fused epilogue.

    C = relu(alpha A B + bias + C)        A (..., M, K), B (..., K, N), C (..., M, N)

`prepare_gemm(a, b, c, work, ...)` chooses a plan once and returns a function without arguments that
runs it; `gemm_workspace` gives the size of `work`.  Operands are views: a transpose is one.

    packed = np.empty(packed_b_spec(K, N, dtype).shape, dtype)   a B that many products share
    prepare_pack_b(b, packed)()                                  is packed once,
    prepare_gemm(a, packed, c, work, packed=True)                and not by each of them

**Algorithm.**  The blocked algorithm of K. Goto and R. van de Geijn (Anatomy of High-Performance
Matrix Multiplication, 2008) with the five loops and the names of BLIS (F. Van Zee and R. van de
Geijn, 2015).  Loops 5 and 3 enumerate MC x NC blocks of C, the jobs of the worker threads; loop 4
splits K by KC.  The macro-kernel packs its rows of A into strips of MR rows, and a few panels of NR
columns of B into the L2 cache; its loops 2 and 1 call the micro-kernel (`simd.gemm_microkernel`)
for every strip and panel.  Other than in BLIS the strip of A is the one that stays in the L1 cache
while panels pass.  An operand that is already contiguous along its rows or columns as the
micro-kernel reads it, and small, is not packed; few rows times a dense layer's weights are
dot products, which pack nothing (`choose_method`).

A sum is formed in parts of equal length, in an order that depends only on the method and on K: the
result is bit-identical for any number of threads.

Why not BLAS: threads of OpenBLAS busy-wait.  On a machine with any other load, such as the next
kernel, its calls take 20 to 50 times as long and delay what follows them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Run, Spec
from ..shape import size_of
from ..simd.gemm_microkernel import (
    ADD,
    BIAS,
    DOT_MR,
    DOT_NR,
    MR,
    NR_VECTORS,
    RELU,
    TILE_ROWS,
    DotShape,
    TileShape,
    TileStart,
    dot_row,
    dot_tile,
    large_tile,
    medium_tile,
    packed_mr,
    small_tile,
)
from ..simd.host import lanes as lanes_of
from ..simd.raw_arrays import flat_memory
from .gemm_packing import pack_a, pack_b
from .gemm_plan import (
    A_IN_PLACE,
    B_IN_PLACE,
    DOT_PRODUCTS,
    KC,
    L2_PANELS,
    MC_STRIPS,
    GemmPlan,
    GemmStrides,
    Start,
    choose_method,
    plan_gemm,
    split_evenly,
)
from .gemm_small import (
    PACKED,
    choose_small_method,
    gemm_small,
    gemm_small_serial,
    is_long_column,
)
from .numpy_products import TINY, multiply_biased

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["add_dots", "add_gemm", "add_gemm_share", "gemm_workspace", "max_gemm_workspace",
           "packed_b_spec", "prepare_gemm", "prepare_pack_b"]

SERIAL = 1 << 20
"""Multiplications up to which one thread is as fast: a parallel kernel takes 3 us to enter."""
MEDIUM, SMALL = TILE_ROWS[1:]


class GemmBlocking(NamedTuple):
    """Sizes of a matrix and of its blocks; vector width, MR padded to vectors, flags, method."""

    m: int
    n: int
    k: int
    mc: int
    nc: int
    kc: int
    lanes: int
    mr: int
    flags: int
    method: int


class GemmBlock(NamedTuple):
    """A block of C: its first row and column, and its size."""

    i: int
    j: int
    rows: int
    columns: int


class StripStart(NamedTuple):
    """Offsets of a strip of A, the panels of B, an incomplete last panel, bias, and C."""

    a: int
    b: int
    b_tail: int
    bias: int
    c: int


class StripStrides(NamedTuple):
    """Distances of panels of B and rows of C; of terms in A, in B, and in an incomplete panel."""

    panel: int
    c_row: int
    a_term: int
    b_term: int
    tail_term: int


class StripShape(NamedTuple):
    """Terms, vector width, flags; rows and columns of C; offset of the scale in the workspace."""

    kc: int
    lanes: int
    flags: int
    rows: int
    columns: int
    scale: int


@inlined
def _micro_tile(a, b, scale, bias, c, start, shape):
    """The micro-kernel of the fewest rows that suffice."""
    if shape.rows > MEDIUM:
        large_tile(a, b, scale, bias, c, start, shape)
    elif shape.rows > SMALL:
        medium_tile(a, b, scale, bias, c, start, shape)
    else:
        small_tile(a, b, scale, bias, c, start, shape)


@inlined
def _copy_tile(source, start, pitch, target, to, target_pitch, rows, columns):
    for r in range(rows):
        here, there = np.uintp(start + r * pitch), np.uintp(to + r * target_pitch)
        for j in range(columns):
            target[there + np.uintp(j)] = source[here + np.uintp(j)]


@inlined
def _load_edge(bias, first, c, start, c_row, work, edge, nr, rows, columns, flags):
    """Copy bias and C of an incomplete micro-tile to the workspace, from `edge` on."""
    if flags & BIAS:
        _copy_tile(bias, first, 0, work, edge, 0, 1, columns)
    if flags & ADD:
        _copy_tile(c, start, c_row, work, edge + nr, nr, rows, columns)


@inlined
def _multiply_strip(a, b, b_tail, c, bias, start, strides, shape, work):
    """Loop 1 (jr): one strip of A times some panels of B, packed or in place.

    A micro-tile with fewer than NR columns is computed in the workspace after the scale, which has
    space for a bias and a tile.
    """
    nr = NR_VECTORS * shape.lanes
    for j in range(0, shape.columns - nr + 1, nr):
        _micro_tile(a, b, work, bias, c,
                    TileStart(start.a, start.b + j // nr * strides.panel, shape.scale,
                              start.bias + j, start.c + j),
                    TileShape(shape.kc, strides.c_row, shape.rows, shape.flags, strides.a_term,
                              strides.b_term))
    tail = shape.columns % nr
    if tail:
        edge, first = shape.scale + shape.lanes, shape.columns - tail
        _load_edge(bias, start.bias + first, c, start.c + first, strides.c_row, work, edge, nr,
                   shape.rows, tail, shape.flags)
        _micro_tile(a, b_tail, work, work, work,
                    TileStart(start.a, start.b_tail, shape.scale, edge, edge + nr),
                    TileShape(shape.kc, nr, shape.rows, shape.flags, strides.a_term,
                              strides.tail_term))
        _copy_tile(work, edge + nr, nr, c, start.c + first, strides.c_row, shape.rows, tail)


@inlined
def _flags_of_pass(flags, first, last):
    """The first pass over K adds the bias, later ones add to C, the last one applies RELU."""
    flags = flags if first else (flags | ADD) & ~BIAS
    return flags if last else flags & ~RELU


@inlined
def _macro_kernel(a, b, c, bias, alpha, start, strides, config, block, work):
    """One block of C by micro-tiles; `work` is the worker's own."""
    nr, tail = NR_VECTORS * config.lanes, block.rows % MR
    group, b_packed = L2_PANELS * nr, strides.b_column == 0
    # rows read in place: all but a last strip that no micro-tile fits exactly
    in_place = block.rows if tail == 0 or tail == MEDIUM or tail == SMALL else block.rows - tail
    in_place = in_place if config.method & A_IN_PLACE else 0
    strips = (block.rows - in_place + MR - 1) // MR

    # loop 4 (pc): K by KC
    for pc in range(0, config.k, config.kc):
        kc = min(config.kc, config.k - pc)
        a_start = start.a + block.i * strides.a_row + pc * strides.a_column
        # workspace: strips of A, panels of B, scale, an edge tile
        panels = strips * kc * config.mr
        scale = panels + kc * (nr if config.method & B_IN_PLACE else
                               min(group, block.columns + nr))
        work[scale] = alpha
        pack_a(a, a_start + in_place * strides.a_row, (strides.a_row, strides.a_column),
                block.rows - in_place, kc, config.lanes, config.mr, work)
        flags = _flags_of_pass(config.flags, pc == 0, pc + kc == config.k)

        # columns of the block by groups of panels that stay in the L2 cache
        for j in range(block.j, block.j + block.columns, group):
            columns = min(group, block.j + block.columns - j)
            if config.method & B_IN_PLACE:
                whole = columns - columns % nr
                b_start, b_tail = start.b + j + pc * strides.b_row, panels
                panel, term = nr, strides.b_row
                pack_b(b, b_start + whole, (strides.b_row, 1), columns - whole, kc, config.lanes,
                        work, panels, 0)
            elif b_packed:
                panel, term = strides.b_row, nr
                b_start = start.b + j // nr * panel + pc * nr
                b_tail = b_start + columns // nr * panel
            else:
                panel, term, b_start = kc * nr, nr, panels
                b_tail = b_start + columns // nr * panel
                pack_b(b, start.b + j * strides.b_column + pc * strides.b_row,
                        (strides.b_row, strides.b_column), columns, kc, config.lanes, work,
                        panels, panel)

            # loop 2 (ir): strips of A, each of which stays in the L1 cache for all panels
            for i in range(0, block.rows, MR):
                direct = i < in_place
                _multiply_strip(
                    a if direct else work,
                    b if config.method & B_IN_PLACE or b_packed else work,
                    b if b_packed else work, c, bias,
                    StripStart(a_start + i if direct else (i - in_place) // MR * kc * config.mr,
                               b_start, b_tail, j, start.c + (block.i + i) * strides.c_row + j),
                    StripStrides(panel, strides.c_row, strides.a_column if direct else config.mr,
                                 term, nr),
                    StripShape(kc, config.lanes, flags, min(MR, block.rows - i), columns, scale),
                    work)


@inlined
def _dot_tile(a, b, scale, bias, c, start, shape):
    if shape.rows > 1:
        dot_tile(a, b, scale, bias, c, start, shape)
    else:
        dot_row(a, b, scale, bias, c, start, shape)


@inlined
def _dot_kernel(a, b, c, bias, alpha, start, strides, config, block, work):
    """One block of C by dot products of contiguous rows and columns; `work` is the worker's own."""
    edge = config.lanes  # workspace: scale, bias of an edge tile, edge tile
    work[0] = alpha
    for pc in range(0, config.k, config.kc):
        kc = min(config.kc, config.k - pc)
        flags = _flags_of_pass(config.flags, pc == 0, pc + kc == config.k)
        for j in range(block.j, block.j + block.columns, DOT_NR):
            columns = min(DOT_NR, block.j + block.columns - j)
            b_start = start.b + j * strides.b_column + pc
            for i in range(block.i, block.i + block.rows, DOT_MR):
                rows = min(DOT_MR, block.i + block.rows - i)
                a_start, c_start = start.a + i * strides.a_row + pc, start.c + i * strides.c_row + j
                if columns == DOT_NR:
                    _dot_tile(a, b, work, bias, c, TileStart(a_start, b_start, 0, j, c_start),
                              DotShape(kc, strides.c_row, rows, flags, strides.a_row,
                                       strides.b_column, DOT_NR))
                else:
                    _load_edge(bias, j, c, c_start, strides.c_row, work, edge, DOT_NR, rows,
                               columns, flags)
                    _dot_tile(a, b, work, work, work,
                              TileStart(a_start, b_start, 0, edge, edge + DOT_NR),
                              DotShape(kc, DOT_NR, rows, flags, strides.a_row, strides.b_column,
                                       columns))
                    _copy_tile(work, edge + DOT_NR, DOT_NR, c, c_start, strides.c_row, rows,
                               columns)


@inlined
def add_gemm_share(a, a_start, a_row, rows, packed, c, c_start, c_row, columns, share, work):
    """C (rows, columns) += A B for the panels of worker share[0] of share[1]."""
    count, depth, nr = packed.shape
    lanes, kc = nr // NR_VECTORS, split_evenly(depth, KC)
    first, last = share[0] * count // share[1] * nr, (share[0] + 1) * count // share[1] * nr
    strides = GemmStrides(a_row, 1, depth * nr, 0, c_row)
    config = GemmBlocking(rows, columns, depth, rows, columns, kc, lanes, packed_mr(lanes), ADD, 0)
    for i in range(0, rows if first < last else 0, MC_STRIPS * MR):
        block = GemmBlock(i, first, min(MC_STRIPS * MR, rows - i), min(last, columns) - first)
        _macro_kernel(a, packed.reshape(-1), c, work, a.dtype.type(1), Start(a_start, 0, c_start),
                      strides, config, block, work)


@inlined
def add_gemm(a, b, c, start, strides, sizes, lanes, method, work):
    """C += A B on the calling thread; sizes: rows, at most KC terms, columns."""
    rows, depth, columns = sizes
    config = GemmBlocking(rows, columns, depth, rows, columns, depth, lanes, packed_mr(lanes), ADD,
                          method)
    _macro_kernel(a, b, c, work, a.dtype.type(1), start, strides, config,
                  GemmBlock(0, 0, rows, columns), work)


@inlined
def add_dots(a, b, c, start, strides, sizes, lanes, work):
    """`add_gemm` by dot products of contiguous rows of A and columns of B, of any length."""
    rows, depth, columns = sizes
    config = GemmBlocking(rows, columns, depth, rows, columns, depth, lanes, 0, ADD, DOT_PRODUCTS)
    _dot_kernel(a, b, c, work, a.dtype.type(1), start, strides, config,
                GemmBlock(0, 0, rows, columns), work)


@inlined
def _nth_block(job, config):
    """Index of the matrix, and block, of job number `job`: loops 5 (jc) and 3 (ic)."""
    m, n, mc, nc = config.m, config.n, config.mc, config.nc
    down, across = (m + mc - 1) // mc, (n + nc - 1) // nc
    i, j = job // across % down * mc, job % across * nc
    return job // (down * across), GemmBlock(i, j, min(mc, m - i), min(nc, n - j))


@inlined
def _share_of_tiles(a, b, c, bias, alpha, starts, strides, config, jobs, work, worker):
    """The blocks of one of len(work) workers, by micro-tiles."""
    for job in range(worker, jobs, len(work)):
        n, block = _nth_block(job, config)
        _macro_kernel(a, b, c, bias, alpha, Start(starts[n, 0], starts[n, 1], starts[n, 2]),
                      strides, config, block, work[worker])


@inlined
def _share_of_dots(a, b, c, bias, alpha, starts, strides, config, jobs, work, worker):
    """The blocks of one of len(work) workers, by dot products."""
    for job in range(worker, jobs, len(work)):
        n, block = _nth_block(job, config)
        _dot_kernel(a, b, c, bias, alpha, Start(starts[n, 0], starts[n, 1], starts[n, 2]),
                    strides, config, block, work[worker])


# A kernel for each way of multiplying: a network that needs one of them compiles one.


@kernel(parallel=True)
def _gemm(a, b, c, bias, alpha, starts, strides, config, jobs, work):
    """C of a stack, block by block; a, b, c are flat and `starts` has a row for each matrix.

    Arguments are plain tuples, because numba dispatches on them faster than on named ones.
    """
    for worker in prange(len(work)):
        _share_of_tiles(a, b, c, bias, alpha, starts, GemmStrides(*strides), GemmBlocking(*config),
                        jobs, work, np.int64(worker))


@kernel(parallel=True)
def _dots(a, b, c, bias, alpha, starts, strides, config, jobs, work):
    """`_gemm` by dot products."""
    for worker in prange(len(work)):
        _share_of_dots(a, b, c, bias, alpha, starts, GemmStrides(*strides), GemmBlocking(*config),
                       jobs, work, np.int64(worker))


@kernel(parallel=True)
def _pack_panels(b, strides, columns, nr, distance, rows, out):
    """Rows [rows[0], rows[0] + rows[1]) of all panels, which begin `distance` apart in `out`."""
    for p in prange((columns + nr - 1) // nr):
        first = np.int64(p) * nr
        pack_b(b, first * strides[1], strides, min(nr, columns - first), rows[1],
                nr // NR_VECTORS, out, np.int64(p) * distance + rows[0] * nr, 0)


def gemm_workspace(rows: int, depth: int, columns: int, dtype: DTypeLike, stack: int = 1,
                   order: str = "") -> Spec:
    """Workspace of `prepare_gemm`, (workers, elements).

    order: of the operands, if it is known (`choose_method`), and if C is not a transposed matrix.
    """
    size, lanes = rows * depth * columns * stack, lanes_of(dtype)
    if size <= TINY:
        return Spec((0, 0), np.dtype(dtype))
    workers = num_threads() if size > SERIAL else 1
    if order and min(rows, depth, columns) > 1:
        method = choose_method(rows, depth, columns, lanes, order)
        size = plan_gemm(rows, depth, columns, stack, lanes, workers, method).workspace
    else:
        # a transposed C is computed as C' = B' A'
        size = max(plan_gemm(m, depth, n, stack, lanes, workers).workspace
                   for m, n in ((rows, columns), (columns, rows)))
    return Spec((workers, size), np.dtype(dtype))


def max_gemm_workspace(rows: int, depth: int, columns: int, dtype: DTypeLike) -> int:
    """Most elements of workspace that a worker needs for any blocking."""
    return GemmPlan(rows, depth, columns, 1, lanes_of(dtype), MC_STRIPS * MR, columns).workspace


def packed_b_spec(depth: int, columns: int, dtype: DTypeLike) -> Spec:
    """A packed B (depth, columns): (panels, depth, NR)."""
    nr = NR_VECTORS * lanes_of(dtype)
    return Spec((-(-columns // nr), depth, nr), np.dtype(dtype))


def prepare_pack_b(b: Any, packed: Any, first: int = 0) -> Run:
    """A function that packs b (K, N), a view, as rows `first` ... of the panels of `packed`."""
    distance = packed.strides[0] // packed.itemsize
    return partial(_pack_panels, flat_memory(b), _strides(b), b.shape[1], packed.shape[2], distance,
                   (first, len(b)), flat_memory(packed))


def prepare_gemm(a: Any, b: Any, c: Any, work: Any, *, alpha: float = 1.0, bias: Any = None,
                 add: bool = False, relu: bool = False, packed: bool = False) -> Run:
    """A function that computes C = alpha A B + bias, with a bias for each column; see the module.

    Parameters
    ----------
    a, b, c : numpy.ndarray
        Views (..., M, K), (..., K, N), (..., M, N) of float32 or float64 with the same stack axes.
        Rows or columns of every matrix are contiguous.
    work : numpy.ndarray
        Workspace of `gemm_workspace`.
    add : bool
        Add the product to `c`.
    relu : bool
        Replace negative results by 0.
    packed : bool
        `b` is what `prepare_pack_b` has packed.
    """
    transposed = c.size and c.strides[-1] != c.itemsize and c.shape[-1] > 1
    if transposed and (bias is not None or packed):
        raise ValueError("a transposed result has no bias and no packed factor")
    column = c.strides[-2] == c.itemsize and is_long_column(c.shape[-2], a.shape[-1], c.shape[-1])
    if transposed or column and bias is None and not packed:
        a, b, c = (np.swapaxes(x, -1, -2) for x in (b, a, c))  # C' = B' A'
    (rows, depth), columns, stack = a.shape[-2:], c.shape[-1], size_of(c.shape[:-2])
    if rows * depth * columns * stack <= TINY and not packed:
        return partial(multiply_biased, a, b, c, alpha, bias, add, relu)
    lanes, flags = lanes_of(c.dtype), BIAS * (bias is not None) | ADD * add | RELU * relu
    b_strides: tuple[int, int] = (b.shape[1] * b.shape[2], 0) if packed else _strides(b)
    strides = GemmStrides(*_strides(a), *b_strides, _strides(c)[0])
    order = ("C" if strides.a_column == 1 else "F") + (
        "P" if packed else "F" if strides.b_row == 1 else "C")
    plan = plan_gemm(rows, depth, columns, stack, lanes, len(work),
                     choose_method(rows, depth, columns, lanes, order))
    if work.shape[1] < plan.workspace:
        raise ValueError(f"workspace of {work.shape[1]} elements, expected {plan.workspace}")
    starts = np.stack([np.zeros(stack, np.int64) if packed and x is b else
                       _starts(x, c.shape[:-2]) for x in (a, b, c)], 1)
    alpha = c.dtype.type(alpha)
    small = PACKED if bias is not None or relu or packed else choose_small_method(strides, plan)
    flat = flat_memory(a), b.reshape(-1) if packed else flat_memory(b), flat_memory(c)
    if small != PACKED:
        return partial(gemm_small if len(work) > 1 else gemm_small_serial, *flat, alpha, starts,
                       tuple(strides), (rows, depth, columns), lanes, small, add)
    gemm = _dots if plan.method & DOT_PRODUCTS else _gemm
    return partial(
        gemm if len(work) > 1 else gemm.alone, *flat,
        np.zeros(1, c.dtype) if bias is None else bias, alpha, starts, tuple(strides),
        tuple(GemmBlocking(rows, columns, depth, plan.mc, plan.nc, plan.kc, lanes, packed_mr(lanes),
                           flags, plan.method)), plan.jobs, work)


def _strides(matrix: Any) -> tuple[int, int]:
    """Strides of rows and columns in elements; 1 for an axis of length 1."""
    row, column = (stride // matrix.itemsize if size > 1 else 1 for size, stride
                   in zip(matrix.shape[-2:], matrix.strides[-2:], strict=True))
    return row, column


def _starts(x: Any, stack: tuple[int, ...]) -> np.ndarray:
    """Offset of each matrix of a stack."""
    starts = np.zeros(stack, np.int64)
    for axis, (size, stride) in enumerate(zip(stack, x.strides[:-2], strict=True)):
        offsets = np.arange(size) * (stride // x.itemsize)
        starts += offsets.reshape(-1, *[1] * (len(stack) - axis - 1))
    return starts.reshape(-1)
