"""General matrix multiplication (GEMM), also of matrices that exist only as index functions.

    C[g][i, j] = sum over t of A[g][i, t] B[g][t, j]

The tiling has two levels: a thread block computes one tile of C, each of its threads a smaller tile
in registers.  The main loop walks along k.  It is double buffered: while the threads multiply the
tiles of A and B in one stage of shared memory, the next tiles travel from global memory to
registers, then to the other stage, so that an iteration needs a single barrier (Volkov and Demmel,
"Benchmarking GPUs to tune dense linear algebra", 2008; MAGMA; CUTLASS calls the levels threadblock
tile and thread tile).  The epilogue is applied to the sums in registers.

`GemmOperands` says by device functions where elements of A, B and C are, so that one kernel serves
all transposes, and implicit GEMM for convolutions, whose B is never stored (`convolution`).

Few output tiles with a long k are parallelised by split-k: each split writes partial sums, which a
second kernel adds in order.  Results do not depend on scheduling.

`choose_config` selects the tile sizes, and whether tensor cores are used (`gemm_tensor_cores`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ...op import Spec
from ..runtime.device_memory import Array
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from . import gemm_tensor_cores
from .epilogue import NO_EPILOGUE, Epilogue, EpilogueOp
from .gemm_tiles import GemmOperands, predicated_loads, split_k_range, tile_copy
from .kernel_math import SIMULATED, cuda, kernel, real_of

__all__ = ["LARGE_TILES", "SMALL_TILES", "GemmConfig", "GemmOperands", "SimtTiles", "choose_config",
           "choose_split_k", "gemm", "gemm_grid", "gemm_kernel", "gemm_scratch", "reduce_split_k"]


class SimtTiles(NamedTuple):
    """Tile sizes without tensor cores: (block_m, block_n) of a block, (thread_m, thread_n) of a
    thread; block_k is the depth of a stage in shared memory."""

    block_m: int
    block_n: int
    block_k: int
    thread_m: int
    thread_n: int
    min_blocks: int = 2
    """Blocks that must be resident on a multiprocessor; see `CudaKernel.min_blocks`."""

    @property
    def threads(self) -> int:
        return self.block_m // self.thread_m * (self.block_n // self.thread_n)


SMALL_TILES = SimtTiles(8, 8, 8, 4, 4) if SIMULATED else SimtTiles(64, 64, 16, 4, 4)
LARGE_TILES = SimtTiles(16, 16, 8, 8, 8) if SIMULATED else SimtTiles(128, 64, 8, 8, 8, 3)
"""Twice the arithmetic per element read from shared memory, half of the blocks."""
FULL_GRID = 396
"""Blocks that keep a large GPU busy: three for each of 132 multiprocessors."""
MIN_SPLIT_TERMS = 16 if SIMULATED else 256
MAX_SPLITS = 3 if SIMULATED else 32
"""Limits of split-k: terms of a split, and splits of a sum."""
VECTOR = 4
"""Adjacent elements of shared memory that a thread reads by one 128-bit load."""
PADDING = 4
"""Unused columns of A's stages, against bank conflicts of stores along k."""


class GemmConfig(NamedTuple):
    """How a product is computed."""

    real: type[np.number]
    """The type of sums, and of factors outside tensor cores."""
    tiles: Any
    """`SimtTiles` or, with a packing, `TensorCoreTiles`."""
    packing: gemm_tensor_cores.Packing | None = None
    """The format of factors for tensor cores."""


def choose_config(dtype: DTypeLike, real: type[np.number], sizes: tuple[int, int, int],
                  batch: int = 1) -> GemmConfig:
    """The configuration for a batch of products of sizes (m, n, k), of tensors of `dtype` summed in
    `real`.

    float16 uses tensor cores unless `MXNET_CUDA_ALLOW_TENSOR_CORE=0`; float32 does where
    `NBMOD_GPU_PRODUCTS` allows its factors to be rounded.
    """
    packing = gemm_tensor_cores.packing_of(dtype)
    if packing is not None:
        return GemmConfig(real, packing.tiles, packing)
    columns, rows, batch = gemm_grid(sizes, LARGE_TILES, batch)
    fills = columns * rows * batch >= FULL_GRID and sizes[0] >= LARGE_TILES.block_m
    return GemmConfig(real, LARGE_TILES if real is np.float32 and fills else SMALL_TILES)


def gemm_kernel(operands: GemmOperands, config: GemmConfig, splits: int = 1) -> CudaKernel:
    """A kernel (a, b, bias, addend, c, m, n, k, lda, ldb, ldc, add) over a grid of blocks (tiles
    along n, tiles along m, batch * splits)."""
    load_a, load_b, store = map(device_function, operands[:3])
    operands = operands._replace(load_a=load_a, load_b=load_b, store=store)
    if config.packing is not None:
        return gemm_tensor_cores.gemm_kernel(operands, config.packing, config.tiles, splits)
    return _simt_gemm_kernel(operands, config.real, config.tiles, splits)


def _simt_gemm_kernel(  # noqa: C901 - what a kernel keeps in registers cannot leave it
        operands: GemmOperands, real: type[np.number], tiles: SimtTiles, splits: int) -> CudaKernel:
    block_m, block_n, block_k, thread_m, thread_n, _ = tiles
    across, threads, store = block_n // thread_n, tiles.threads, operands.store
    # A thread tile consists of vectors that are these distances apart.
    m_stride, n_stride = block_m // thread_m * VECTOR, block_n // thread_n * VECTOR
    padded_m = block_m + PADDING
    a_count, b_count = block_k * block_m // threads, block_k * block_n // threads
    load_a, load_b = predicated_loads(operands, real)
    fetch_a, store_a = tile_copy(load_a, operands.a_k_contiguous, (block_k, block_m), threads)
    fetch_b, store_b = tile_copy(load_b, operands.b_k_contiguous, (block_k, block_n), threads)

    # Sums in double precision take twice the registers.
    @kernel(min_blocks=1 if real is np.float64 else tiles.min_blocks)
    def multiply(a, b, bias, addend, c, m, n, k, lda, ldb, ldc, add):  # noqa: C901
        # Two stages of shared memory, accumulators, and fragments in registers.
        a_tile = cuda.shared.array((2, block_k, padded_m), real, alignment=16)
        b_tile = cuda.shared.array((2, block_k, block_n), real, alignment=16)
        totals = cuda.local.array((thread_m, thread_n), real)
        next_a = cuda.local.array(a_count, real)
        next_b = cuda.local.array(b_count, real)
        a_fragment = cuda.local.array(thread_m, real)
        b_fragment = cuda.local.array(thread_n, real)
        tid, stage = cuda.threadIdx.x, 0
        g, split = cuda.blockIdx.z // splits, cuda.blockIdx.z % splits
        top, side = cuda.blockIdx.y * block_m, cuda.blockIdx.x * block_n
        y, x = tid // across * VECTOR, tid % across * VECTOR
        for p in range(thread_m * thread_n):
            totals[p // thread_n, p % thread_n] = real(0)
        begin, last = split_k_range(k, split, splits)
        # The first iteration is the prologue of the pipeline: it only loads.
        for first in range(begin - block_k, last, block_k):
            # Start loading the next tiles from global memory.
            ahead = first + block_k
            if ahead < last:
                fetch_a(next_a, a, g, top, ahead, m, lda, last)
                fetch_b(next_b, b, g, side, ahead, n, ldb, last)
            # Accumulate outer products of columns of A's tile and rows of B's.
            if first >= begin:
                for t in range(block_k):
                    for p in range(thread_m):
                        a_fragment[p] = a_tile[stage, t, y + p // VECTOR * m_stride + p % VECTOR]
                    for q in range(thread_n):
                        b_fragment[q] = b_tile[stage, t, x + q // VECTOR * n_stride + q % VECTOR]
                    for p in range(thread_m):
                        for q in range(thread_n):
                            totals[p, q] += a_fragment[p] * b_fragment[q]
            # Fill the other stage, which no thread reads since the last barrier.
            stage = 1 - stage
            store_a(next_a, a_tile, stage)
            store_b(next_b, b_tile, stage)
            cuda.syncthreads()
        # Epilogue: store the thread tile, as far as it is inside C.
        for p in range(thread_m):
            for q in range(thread_n):
                i = top + y + p // VECTOR * m_stride + p % VECTOR
                j = side + x + q // VECTOR * n_stride + q % VECTOR
                if i < m and j < n:
                    store(c, bias, addend, g, split, i, j, ldc, totals[p, q], add)
    return multiply


def gemm_grid(sizes: tuple[int, int, int],
              tiles: SimtTiles | gemm_tensor_cores.TensorCoreTiles, batch: int
              ) -> tuple[int, int, int]:
    """The grid of `batch` products of sizes (m, n, k)."""
    m, n, _ = sizes
    return -(-n // tiles.block_n), -(-m // tiles.block_m), batch


@cache
def _split_k_kernel(splits: int, real: type[np.number], op: EpilogueOp) -> CudaKernel:
    epilogue = op.function(real)

    @grid_stride
    def reduce_splits(i, x, bias, addend, y, columns, add):
        total = real(y[i]) if add else real(0)
        for split in range(splits):
            total += x[(i // columns * splits + split) * columns + i % columns]
        y[i] = epilogue(total, bias, i % columns, addend, i)
    return reduce_splits


def reduce_split_k(sums: Array, c: Array, add: bool, epilogue: Epilogue = NO_EPILOGUE
                   ) -> list[Launch]:
    """c, or c += with `add`: the partial sums (rows, splits, columns) added in order, and their
    epilogue."""
    _, splits, columns = sums.shape
    make = _split_k_kernel(splits, sums.dtype.type, epilogue.op)
    return each(make, c.size, sums, *epilogue.arrays(c), c, columns, bool(add))


@cache
def _dense_kernel(config: GemmConfig, a_transposed: bool, b_transposed: bool, op: EpilogueOp,
                  splits: int) -> CudaKernel:
    real, epilogue = config.real, op.function(config.real)

    def load_a(a, g, i, t, m, lda):
        return real(a[t * lda + i] if a_transposed else a[i * lda + t])

    def load_b(b, g, t, j, ldb, n):
        return real(b[j * ldb + t] if b_transposed else b[t * ldb + j])

    def store(c, bias, addend, g, split, i, j, ldc, total, add):
        at = (i * splits + split) * ldc + j
        total = epilogue(total, bias, j, addend, at)
        c[at] = real(c[at]) + total if add else total

    return gemm_kernel(GemmOperands(load_a, load_b, store, not a_transposed, b_transposed), config,
                       splits)


def choose_split_k(config: GemmConfig, sizes: tuple[int, int, int], batch: int = 1) -> int:
    """The number of splits of each sum that fills the GPU with blocks."""
    columns, rows, _ = gemm_grid(sizes, config.tiles, 1)
    splits = FULL_GRID // max(columns * rows * batch, 1)
    return max(min(splits, sizes[2] // MIN_SPLIT_TERMS, MAX_SPLITS), 1)


def gemm_scratch(config: GemmConfig, sizes: tuple[int, int, int]) -> list[Spec]:
    """The scratch that `gemm` needs for split-k; none if it does not pay."""
    splits = choose_split_k(config, sizes)
    return [Spec((sizes[0], splits, sizes[1]), np.dtype(config.real))] if splits > 1 else []


def gemm(a: Array, b: Array, c: Array, sizes: tuple[int, int, int],
         transposed: tuple[bool, bool] = (False, False), epilogue: Epilogue = NO_EPILOGUE,
         add: bool = False, config: GemmConfig | None = None, scratch: Sequence[Array] = (),
         leading: tuple[int, int, int] | None = None) -> list[Launch]:
    """c, or c += with `add`: the product of a (m, k) and b (k, n), and its epilogue.

    `transposed` factors are stored as (k, m) or (n, k).  `scratch`: as large as `gemm_scratch` says
    or larger, or nothing, which excludes split-k.  `leading`: leading dimensions of a, b and c as
    they are stored; by default rows are adjacent.
    """
    config, (m, n, k) = config or choose_config(a.dtype, real_of(c.dtype), sizes), sizes
    lda, ldb, ldc = leading or (m if transposed[0] else k, k if transposed[1] else n, n)
    sums = [scratch[0].part(0, spec.shape)
            for spec in (gemm_scratch(config, sizes) if scratch and ldc == n else ())]
    splits, target = (sums[0].shape[1], sums[0]) if sums else (1, c)
    first = epilogue if splits == 1 else NO_EPILOGUE
    multiply = _dense_kernel(config, *transposed, first.op, splits)
    args = (a, b, *first.arrays(target), target, *sizes, lda, ldb, ldc, bool(add and splits == 1))
    return [Launch(multiply, gemm_grid(sizes, config.tiles, splits), (config.tiles.threads,), args),
            *(launch for part in sums for launch in reduce_split_k(part, c, add, epilogue))]
