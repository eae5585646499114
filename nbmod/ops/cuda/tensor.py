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

from ...base import CONFIG
from . import ptx
from .kernel_math import minimum
from .launch import SIMULATED, cuda, device_function, kernel

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
    load_a, load_b, store, a_inner, b_inner = product
    rows, columns, depth, high, wide = tiles
    width, pack, mma = words.width, words.pack, words.mma
    across, threads, slice_ = columns // wide, tiles.threads, depth * words.width
    tall, broad, steps = high // HIGH, wide // WIDE, depth // STEP
    a_spaced, b_spaced = rows + SPARE, columns + SPARE
    a_count, b_count = depth * rows // threads, depth * columns // threads
    real, word, second = np.float32, np.uint32, words.width - 1
    patch_rows, patch_columns, inner_step = HIGH, WIDE, STEP

    @kernel
    def multiply(a, b, bias, c, m, n, k, span, add):  # noqa: C901
        left = cuda.shared.array((2, depth, a_spaced), word)
        right = cuda.shared.array((2, depth, b_spaced), word)
        totals = cuda.local.array((tall, broad, 4), real)
        some_a = cuda.local.array(a_count, word)
        some_b = cuda.local.array(b_count, word)
        of_a = cuda.local.array((tall, 4), word)
        of_b = cuda.local.array((broad, 2), word)
        me, g, s = cuda.threadIdx.x, cuda.blockIdx.z // parts, cuda.blockIdx.z % parts
        top, side = cuda.blockIdx.y * rows, cuda.blockIdx.x * columns
        warp, group, four = me // 32, me % 32 // 4, me % 4
        y, x = warp // across * high, warp % across * wide
        for u in range(tall):
            for v in range(broad):
                for e in range(4):
                    totals[u, v, e] = real(0)
        last = minimum(k, (s + 1) * span)
        now = 0
        for first in range(s * span - slice_, last, slice_):
            if first + slice_ < last:
                for e in range(a_count):
                    place = me + e * threads
                    t = first + slice_ + width * (place % depth if a_inner else place // rows)
                    i = top + (place // depth if a_inner else place % rows)
                    one = real(load_a(a, g, i, t, m, k)) if i < m and t < last else real(0)
                    two = (real(load_a(a, g, i, t + second, m, k))
                           if i < m and t + second < last else real(0))
                    some_a[e] = pack(one, two)
                for e in range(b_count):
                    place = me + e * threads
                    t = first + slice_ + width * (place % depth if b_inner else place // columns)
                    j = side + (place // depth if b_inner else place % columns)
                    one = real(load_b(b, g, t, j, k, n)) if j < n and t < last else real(0)
                    two = (real(load_b(b, g, t + second, j, k, n))
                           if j < n and t + second < last else real(0))
                    some_b[e] = pack(one, two)
            if first >= s * span:
                for step in range(steps):
                    t = step * inner_step + four
                    for u in range(tall):
                        i = y + u * patch_rows + group
                        of_a[u, 0], of_a[u, 1] = left[now, t, i], left[now, t, i + 8]
                        of_a[u, 2], of_a[u, 3] = left[now, t + 4, i], left[now, t + 4, i + 8]
                    for v in range(broad):
                        j = x + v * patch_columns + group
                        of_b[v, 0], of_b[v, 1] = right[now, t, j], right[now, t + 4, j]
                    for u in range(tall):
                        for v in range(broad):
                            found = mma(of_a[u, 0], of_a[u, 1], of_a[u, 2], of_a[u, 3],
                                        of_b[v, 0], of_b[v, 1], totals[u, v, 0],
                                        totals[u, v, 1], totals[u, v, 2], totals[u, v, 3])
                            totals[u, v, 0], totals[u, v, 1] = found[0], found[1]
                            totals[u, v, 2], totals[u, v, 3] = found[2], found[3]
            now = 1 - now
            for e in range(a_count):
                place = me + e * threads
                t, i = ((place % depth, place // depth) if a_inner
                        else (place // rows, place % rows))
                left[now, t, i] = some_a[e]
            for e in range(b_count):
                place = me + e * threads
                t, j = ((place % depth, place // depth) if b_inner
                        else (place // columns, place % columns))
                right[now, t, j] = some_b[e]
            cuda.syncthreads()
        for u in range(tall):
            for v in range(broad):
                for e in range(4):
                    i = top + y + u * patch_rows + group + e // 2 * 8
                    j = side + x + v * patch_columns + 2 * four + e % 2
                    if i < m and j < n:
                        store(c, bias, g, s, i, j, n, totals[u, v, e], add)
    return multiply
