"""Matrix products by tensor cores, whose factors are rounded: to TF32, bfloat16 or float16.

The scheme is that of `gemm`, with warps in the place of threads: each computes a patch of the
block's tile by `mma` instructions, which multiply (16, k) by (k, 8) and add in float32.  Factors
are rounded once, on their way to shared memory, where they lie as words of 32 bits: one TF32
number, or two of 16 bits that are neighbours along the inner dimension (see `ptx`).

float16 tensors lose nothing but the order of their sums.  float32 tensors keep 10 bits behind the
point of each factor in TF32 and 7 in bfloat16, so nobody gets that who has not asked:
`NBMOD_GPU_PRODUCTS=tf32` or `bf16`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ....config import CONFIG
from ..runtime import ptx
from ..runtime.launch import SIMULATED, cuda, device_function, kernel
from .gemm_tiles import dealt, guarded, stretch

__all__ = ["WORDS", "TensorTiles", "Words", "product_kernel", "words_of"]

HIGH, WIDE, STEP = 16, 8, 8
"""Rows and columns of what an instruction computes, and words of the inner dimension it takes."""
SPARE = 8
"""Unused columns of shared memory: the lanes of a warp read from 32 different banks."""


class TensorTiles(NamedTuple):
    """A block computes `rows` x `columns` results, a warp `high` x `wide` of them, `depth` words of
    the inner dimension at a time."""

    rows: int
    columns: int
    depth: int
    high: int
    wide: int

    @property
    def threads(self) -> int:
        return 32 * (self.rows // self.high) * (self.columns // self.wide)


class Words(NamedTuple):
    """What a word of 32 bits holds: `width` numbers that `pack` makes one of, for `mma`."""

    name: str
    width: int

    @property
    def pack(self) -> Any:
        return _PACKS[self.name]

    @property
    def tiles(self) -> TensorTiles:
        """16 numbers of the inner dimension at a time."""
        return (TensorTiles(32, 16, 8, 16, 16) if SIMULATED
                else TensorTiles(128, 128, 16 // self.width, 64, 32))

    @property
    def mma(self) -> Any:
        return getattr(ptx, f"mma_{self.name}")


@device_function
def _pack_tf32(x, y):
    return ptx.to_tf32(x)


_PACKS: dict[str, Any] = {"tf32": _pack_tf32, "bf16": ptx.to_bf16x2, "f16": ptx.to_f16x2}
WORDS = {"tf32": Words("tf32", 1), "bf16": Words("bf16", 2), "f16": Words("f16", 2)}


def words_of(dtype: Any) -> Words | None:
    """How factors of this type go to tensor cores; None if they do not."""
    if np.dtype(dtype) == np.float16:
        return WORDS["f16"] if CONFIG.tensor_cores and not SIMULATED else None
    if np.dtype(dtype) == np.float32:
        return WORDS.get(CONFIG.gpu_products)
    return None


@cache
def product_kernel(  # noqa: C901 - what a kernel keeps in registers cannot leave it
        product: Any, words: Words, tiles: TensorTiles, parts: int) -> Any:
    """See `gemm.product_kernel`."""
    (rows, columns, depth, high, wide), threads, mma = tiles, tiles.threads, words.mma
    tall, broad, steps, across = high // HIGH, wide // WIDE, depth // STEP, columns // wide
    a_spaced, b_spaced, store = rows + SPARE, columns + SPARE, product.store
    patches, a_count, b_count = tall * broad, depth * rows // threads, depth * columns // threads
    (word_a, split_a, word_b, split_b), width = _movers(product, words, tiles), words.width

    @kernel
    def multiply(a, b, bias, other, c, m, n, k, of_a, of_b, of_c, add):  # noqa: C901
        left = cuda.shared.array((2, depth, a_spaced), np.uint32)
        right = cuda.shared.array((2, depth, b_spaced), np.uint32)
        totals = cuda.local.array((patches, 4), np.float32)
        some_a = cuda.local.array(a_count, np.uint32)
        some_b = cuda.local.array(b_count, np.uint32)
        in_a = cuda.local.array((tall, 4), np.uint32)
        in_b = cuda.local.array((broad, 2), np.uint32)
        me, g, s, now = cuda.threadIdx.x, cuda.blockIdx.z // parts, cuda.blockIdx.z % parts, 0
        top, side = cuda.blockIdx.y * rows, cuda.blockIdx.x * columns
        group, four = me % 32 // 4, me % 4
        y, x = me // 32 // across * high + group, me // 32 % across * wide
        for e in range(patches * 4):
            totals[e // 4, e % 4] = np.float32(0)
        begin, last = stretch(k, s, parts)
        for first in range(begin - depth * width, last, depth * width):
            ahead = first + depth * width
            if ahead < last:
                for e in range(a_count):
                    t, i = split_a(me + e * threads)
                    some_a[e] = word_a(a, g, top + i, ahead + width * t, m, of_a, last)
                for e in range(b_count):
                    t, j = split_b(me + e * threads)
                    some_b[e] = word_b(b, g, ahead + width * t, side + j, of_b, n, last)
            if first >= begin:
                for step in range(steps):
                    t = step * 8 + four
                    for e in range(tall * 4):
                        in_a[e // 4, e % 4] = left[now, t + e % 4 // 2 * 4,
                                                   y + e // 4 * 16 + e % 2 * 8]
                    for e in range(broad * 2):
                        in_b[e // 2, e % 2] = right[now, t + e % 2 * 4, x + e // 2 * 8 + group]
                    for p in range(patches):
                        u, v = p // broad, p % broad
                        totals[p, 0], totals[p, 1], totals[p, 2], totals[p, 3] = mma(
                            in_a[u, 0], in_a[u, 1], in_a[u, 2], in_a[u, 3], in_b[v, 0], in_b[v, 1],
                            totals[p, 0], totals[p, 1], totals[p, 2], totals[p, 3])
            now = 1 - now
            for e in range(a_count):
                t, i = split_a(me + e * threads)
                left[now, t, i] = some_a[e]
            for e in range(b_count):
                t, j = split_b(me + e * threads)
                right[now, t, j] = some_b[e]
            cuda.syncthreads()
        for e in range(patches * 4):
            i = top + y + e // 4 // broad * 16 + e % 4 // 2 * 8
            j = side + x + e // 4 % broad * 8 + 2 * four + e % 2
            if i < m and j < n:
                store(c, bias, other, g, s, i, j, of_c, totals[e // 4, e % 4], add)
    return multiply


def _movers(product: Any, words: Words, tiles: TensorTiles) -> tuple[Any, Any, Any, Any]:
    """For either factor: a function like those of `slices.guarded` that loads a word, of the
    element at t and, where a word holds two, the next one; and which words a thread takes."""
    pack, second = words.pack, words.width - 1
    seen_a, seen_b = guarded(product, np.float32)

    @device_function
    def word_a(a, g, i, t, m, step, last):
        return pack(seen_a(a, g, i, t, m, step, last), seen_a(a, g, i, t + second, m, step, last))

    @device_function
    def word_b(b, g, t, j, step, n, last):
        return pack(seen_b(b, g, t, j, step, n, last), seen_b(b, g, t + second, j, step, n, last))

    return (word_a, dealt(product.a_inner, tiles.rows, tiles.depth),
            word_b, dealt(product.b_inner, tiles.columns, tiles.depth))
