"""GEMM by tensor cores, whose factors are rounded to TF32, bfloat16 or float16.

The scheme is that of `gemm`, with warp tiles in the place of thread tiles: a warp computes its tile
by `mma` instructions, each of which multiplies (16, k) by (k, 8) and adds in float32.  Factors are
rounded once, on the way to shared memory, where they are packed in 32-bit words: one TF32 value, or
two 16-bit values adjacent along k (see `ptx`).

With float16 tensors only the order of the sums differs.  With float32 tensors each factor keeps 10
bits of its fraction in TF32, 7 in bfloat16; that is opt-in: `NBMOD_GPU_PRODUCTS=tf32` or `bf16`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ....core.config import CONFIG
from ..runtime import ptx
from ..runtime.launch import SIMULATED, CudaKernel, cache, cuda, device_function, kernel
from .gemm_tiles import GemmOperands, predicated_loads, split_k_range, tile_copy

__all__ = ["PACKINGS", "Packing", "TensorCoreTiles", "gemm_kernel", "packing_of"]

MMA_M, MMA_N, MMA_WORDS = 16, 8, 8
"""Rows and columns of an instruction's result, and the words along k that it consumes."""
PADDING = 8
"""Unused columns of shared memory: the lanes of a warp read from 32 different banks."""


class TensorCoreTiles(NamedTuple):
    """Tile sizes: (block_m, block_n) of a block, (warp_m, warp_n) of a warp; block_k, the depth of
    a stage in shared memory, counts words."""

    block_m: int
    block_n: int
    block_k: int
    warp_m: int
    warp_n: int

    @property
    def threads(self) -> int:
        return 32 * (self.block_m // self.warp_m) * (self.block_n // self.warp_n)


class Packing(NamedTuple):
    """The format of a 32-bit word of factors: `width` elements, made from float32 by `pack`."""

    name: str
    width: int

    @property
    def pack(self) -> Any:
        return _PACKS[self.name]

    @property
    def tiles(self) -> TensorCoreTiles:
        """A stage is 16 elements deep."""
        return (TensorCoreTiles(32, 16, 8, 16, 16) if SIMULATED
                else TensorCoreTiles(128, 128, 16 // self.width, 64, 32))

    @property
    def mma(self) -> Any:
        return getattr(ptx, f"mma_{self.name}")


@device_function
def _pack_tf32(x, y):
    return ptx.to_tf32(x)


_PACKS: dict[str, Any] = {"tf32": _pack_tf32, "bf16": ptx.to_bf16x2, "f16": ptx.to_f16x2}
PACKINGS = {"tf32": Packing("tf32", 1), "bf16": Packing("bf16", 2), "f16": Packing("f16", 2)}


def packing_of(dtype: DTypeLike) -> Packing | None:
    """The format in which factors of this type are given to tensor cores; None if they are not."""
    if np.dtype(dtype) == np.float16:
        return PACKINGS["f16"] if CONFIG.tensor_cores and not SIMULATED else None
    if np.dtype(dtype) == np.float32:
        return PACKINGS.get(CONFIG.gpu_products)
    return None


def _mma_function(m_mmas: int, n_mmas: int, mma: Callable) -> Callable:
    """multiply_tiles(a_tile, b_tile, stage, t, i, j, totals): add the product of `MMA_WORDS` words
    along k to a warp tile of (m_mmas, n_mmas) instructions; the lane's fragments, in the layout of
    `ptx`, start at word t, row i and column j."""
    @device_function
    def multiply_tiles(a_tile, b_tile, stage, t, i, j, totals):
        a = cuda.local.array((m_mmas, 4), np.uint32)
        b = cuda.local.array((n_mmas, 2), np.uint32)
        for e in range(m_mmas * 4):
            a[e // 4, e % 4] = a_tile[stage, t + e % 4 // 2 * 4, i + e // 4 * 16 + e % 2 * 8]
        for e in range(n_mmas * 2):
            b[e // 2, e % 2] = b_tile[stage, t + e % 2 * 4, j + e // 2 * 8]
        for p in range(m_mmas * n_mmas):
            u, v = p // n_mmas, p % n_mmas
            totals[p, 0], totals[p, 1], totals[p, 2], totals[p, 3] = mma(
                a[u, 0], a[u, 1], a[u, 2], a[u, 3], b[v, 0], b[v, 1],
                totals[p, 0], totals[p, 1], totals[p, 2], totals[p, 3])
    return multiply_tiles


@cache
def gemm_kernel(operands: GemmOperands, packing: Packing, tiles: TensorCoreTiles, splits: int
                ) -> CudaKernel:
    """See `gemm.gemm_kernel`."""
    (block_m, block_n, block_k, warp_m, warp_n), threads = tiles, tiles.threads
    # Instructions along m, n and k of a warp tile, and warps along n.
    m_mmas, n_mmas, k_mmas = warp_m // MMA_M, warp_n // MMA_N, block_k // MMA_WORDS
    mmas, across, width, store = m_mmas * n_mmas, block_n // warp_n, packing.width, operands.store
    multiply_tiles = _mma_function(m_mmas, n_mmas, packing.mma)
    padded_m, padded_n = block_m + PADDING, block_n + PADDING
    a_count, b_count = block_k * block_m // threads, block_k * block_n // threads
    load_a, load_b = _packed_loads(operands, packing)
    fetch_a, store_a = tile_copy(load_a, operands.a_k_contiguous, (block_k, block_m), threads,
                                 width)
    fetch_b, store_b = tile_copy(load_b, operands.b_k_contiguous, (block_k, block_n), threads,
                                 width)

    @kernel
    def multiply(a, b, bias, addend, c, m, n, k, lda, ldb, ldc, add):
        # Two stages of shared memory; accumulators and the next tiles in registers.
        a_tile = cuda.shared.array((2, block_k, padded_m), np.uint32)
        b_tile = cuda.shared.array((2, block_k, padded_n), np.uint32)
        totals = cuda.local.array((mmas, 4), np.float32)
        next_a = cuda.local.array(a_count, np.uint32)
        next_b = cuda.local.array(b_count, np.uint32)

        tid, stage = cuda.threadIdx.x, 0
        g, split = cuda.blockIdx.z // splits, cuda.blockIdx.z % splits
        top, side = cuda.blockIdx.y * block_m, cuda.blockIdx.x * block_n
        group, lane = tid % 32 // 4, tid % 4
        y, x = tid // 32 // across * warp_m + group, tid // 32 % across * warp_n
        for e in range(mmas * 4):
            totals[e // 4, e % 4] = np.float32(0)
        begin, last = split_k_range(k, split, splits)
        # The first iteration is the prologue of the pipeline: it only loads.
        for first in range(begin - block_k * width, last, block_k * width):
            # Start loading the next tiles from global memory.
            ahead = first + block_k * width
            if ahead < last:
                fetch_a(next_a, a, g, top, ahead, m, lda, last)
                fetch_b(next_b, b, g, side, ahead, n, ldb, last)
            if first >= begin:
                for step in range(k_mmas):
                    multiply_tiles(a_tile, b_tile, stage, step * 8 + lane, y, x + group, totals)
            # Fill the other stage, which no thread reads since the last barrier.
            stage = 1 - stage
            store_a(next_a, a_tile, stage)
            store_b(next_b, b_tile, stage)
            cuda.syncthreads()
        # Epilogue: store the warp tile, as far as it is inside C.
        for e in range(mmas * 4):
            i = top + y + e // 4 // n_mmas * 16 + e % 4 // 2 * 8
            j = side + x + e // 4 % n_mmas * 8 + 2 * lane + e % 2
            if i < m and j < n:
                store(c, bias, addend, g, split, i, j, ldc, totals[e // 4, e % 4], add)
    return multiply


def _packed_loads(operands: GemmOperands, packing: Packing) -> tuple[Callable, Callable]:
    """Like `predicated_loads`, of a word: the element at t and, with two in a word, the next."""
    pack, second = packing.pack, packing.width - 1
    read_a, read_b = predicated_loads(operands, np.float32)

    def packed(read: Callable) -> Callable:
        return device_function(lambda x, g, i, t, extent, leading, last: pack(
            read(x, g, i, t, extent, leading, last),
            read(x, g, i, t + second, extent, leading, last)))

    return packed(read_a), packed(read_b)
