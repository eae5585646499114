"""Matrix products, of matrices that are stored and of matrices that are only imagined.

    C[g][i, j] = sum over t of A[g][i, t] B[g][t, j]

A block computes a tile of C, each of its threads a patch, in registers.  It walks along t a slice
at a time: while its threads multiply the slices of A and B that lie in shared memory, the next ones
travel from global memory to registers; then they go to the other half of shared memory, and all
meet at a barrier.  That is V. Volkov's scheme, with the double buffer of the MAGMA library (Volkov
and Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008).

What A, B and C are is said by three device functions, so one kernel serves every transpose and
also convolutions, whose B has no memory of its own (`convolution`).  A long inner dimension can be
split over blocks; each writes a part of its own, and the parts are added in order afterwards, so
results do not depend on scheduling.

`way_of` says how a product is computed: with which tiles, and whether by tensor cores (`tensor`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...op import Spec
from ..runtime.device_memory import Array
from ..runtime.launch import SIMULATED, Launch, cuda, device_function, each, kernel, thread, threads
from . import gemm_tensor_cores
from .epilogue import AS_IT_IS, Ending, Tail
from .gemm_tiles import dealt, guarded, stretch
from .kernel_math import real_of

__all__ = ["LARGE", "TILES", "Product", "Tiles", "Way", "add_parts", "grid_of", "matrix_product",
           "parts_of", "product_kernel", "product_scratch", "way_of"]


class Tiles(NamedTuple):
    """A block computes `rows` x `columns` results, a thread `high` x `wide` of them, `depth` terms
    of the sums at a time."""

    rows: int
    columns: int
    depth: int
    high: int
    wide: int
    resident: int = 2
    """Blocks that a multiprocessor shall have registers for."""

    @property
    def threads(self) -> int:
        return self.rows // self.high * (self.columns // self.wide)


TILES = Tiles(8, 8, 8, 4, 4) if SIMULATED else Tiles(64, 64, 16, 4, 4)
LARGE = Tiles(16, 16, 8, 8, 8) if SIMULATED else Tiles(128, 64, 8, 8, 8, 3)
"""Twice the arithmetic for each number read from shared memory, half of the blocks."""
ENOUGH = 396
"""Blocks that keep a large GPU busy: three for each of 132 multiprocessors."""
TERMS = 16 if SIMULATED else 256
MAX_PARTS = 3 if SIMULATED else 32
"""Where tiles are few, sums are split into parts of so many terms or more, and so many at most."""
QUAD = 4
"""Neighbours in shared memory that a thread reads at once, 128 bits."""
SPARE = 4
"""Unused columns of A's slices: those that store along t get banks of their own."""


class Way(NamedTuple):
    """How a product is computed."""

    real: Any
    """The type of sums, and of factors outside tensor cores."""
    tiles: Any
    words: Any = None
    """`tensor.Words` for tensor cores."""


def way_of(dtype: Any, real: Any, sizes: tuple[int, int, int], batch: int = 1) -> Way:
    """The way for tensors of `dtype` summed in `real`, of sizes (m, n, k), so many in a batch.

    Factors of float16 go to tensor cores unless `MXNET_CUDA_ALLOW_TENSOR_CORE=0`, those of float32
    where `NBMOD_GPU_PRODUCTS` says how they may be rounded.
    """
    words = gemm_tensor_cores.words_of(dtype)
    if words is not None:
        return Way(real, words.tiles, words)
    columns, rows, batch = grid_of(sizes, LARGE, batch)
    fits = real is np.float32 and columns * rows * batch >= ENOUGH and sizes[0] >= LARGE.rows
    return Way(real, LARGE if fits else TILES)


class Product(NamedTuple):
    """The device functions of a product; g is the number of the product in a batch.

    load_a(a, g, i, t, m, step), load_b(b, g, t, j, step, n)    an element
    store(c, bias, other, g, s, i, j, step, total, add)         write or add one, of part s

    where `step` is what the launch says of that matrix: elements from a row to the next.

    `a_inner`, `b_inner`: whether neighbours along t, rather than along i or j, are neighbours in
    memory, so that neighbouring threads take those.
    """

    load_a: Any
    load_b: Any
    store: Any
    a_inner: bool = True
    b_inner: bool = False


def product_kernel(product: Product, way: Way, parts: int = 1) -> Any:
    """A kernel (a, b, bias, other, c, m, n, k, of_a, of_b, of_c, add) over blocks (n, m,
    products * parts); `of_*` are the steps that a `Product` is told.

    Part s of `parts` sums the s-th stretch of the k terms.
    """
    if way.words is not None:
        return gemm_tensor_cores.product_kernel(product, way.words, way.tiles, parts)
    return _product_kernel(product, way.real, way.tiles, parts)


def _product_kernel(  # noqa: C901 - what a kernel keeps in registers cannot leave it
        product: Product, real: Any, tiles: Tiles, parts: int) -> Any:
    rows, columns, depth, high, wide, _ = tiles
    across, threads, store = columns // wide, tiles.threads, product.store
    spaced, high_step, wide_step = rows + SPARE, rows // high * QUAD, columns // wide * QUAD
    a_count, b_count = depth * rows // threads, depth * columns // threads
    seen_a, seen_b = guarded(product, real)
    split_a, split_b = dealt(product.a_inner, rows, depth), dealt(product.b_inner, columns, depth)
    quad = QUAD

    # Sums in double precision take twice the registers.
    @kernel(resident=1 if real is np.float64 else tiles.resident)
    def multiply(a, b, bias, other, c, m, n, k, of_a, of_b, of_c, add):  # noqa: C901
        # Two shared arrays on one source line would be one array in the simulator.
        left = cuda.shared.array((2, depth, spaced), real, alignment=16)
        right = cuda.shared.array((2, depth, columns), real, alignment=16)
        totals = cuda.local.array((high, wide), real)
        some_a = cuda.local.array(a_count, real)
        some_b = cuda.local.array(b_count, real)
        some_left = cuda.local.array(high, real)
        some_right = cuda.local.array(wide, real)
        me, g, s, now = cuda.threadIdx.x, cuda.blockIdx.z // parts, cuda.blockIdx.z % parts, 0
        top, side = cuda.blockIdx.y * rows, cuda.blockIdx.x * columns
        y, x = me // across * quad, me % across * quad
        for p in range(high * wide):
            totals[p // wide, p % wide] = real(0)
        begin, last = stretch(k, s, parts)
        for first in range(begin - depth, last, depth):
            ahead = first + depth
            if ahead < last:
                for e in range(a_count):
                    t, i = split_a(me + e * threads)
                    some_a[e] = seen_a(a, g, top + i, ahead + t, m, of_a, last)
                for e in range(b_count):
                    t, j = split_b(me + e * threads)
                    some_b[e] = seen_b(b, g, ahead + t, side + j, of_b, n, last)
            if first >= begin:
                for t in range(depth):
                    for p in range(high):
                        some_left[p] = left[now, t, y + p // quad * high_step + p % quad]
                    for q in range(wide):
                        some_right[q] = right[now, t, x + q // quad * wide_step + q % quad]
                    for p in range(high):
                        for q in range(wide):
                            totals[p, q] += some_left[p] * some_right[q]
            now = 1 - now
            for e in range(a_count):
                t, i = split_a(me + e * threads)
                left[now, t, i] = some_a[e]
            for e in range(b_count):
                t, j = split_b(me + e * threads)
                right[now, t, j] = some_b[e]
            cuda.syncthreads()
        for p in range(high):
            for q in range(wide):
                i = top + y + p // quad * high_step + p % quad
                j = side + x + q // quad * wide_step + q % quad
                if i < m and j < n:
                    store(c, bias, other, g, s, i, j, of_c, totals[p, q], add)
    return multiply


def grid_of(sizes: tuple[int, int, int], tiles: Any, batch: int) -> tuple[int, int, int]:
    """The grid of `batch` products of these sizes."""
    m, n, _ = sizes
    return -(-n // tiles.columns), -(-m // tiles.rows), batch


@cache
def _add_parts_kernel(parts: int, real: Any, tail: Tail) -> Any:
    finish = tail.function(real)

    @kernel
    def sum_parts(x, bias, other, y, columns, add, n):
        for i in range(thread(), n, threads()):
            total = real(y[i]) if add else real(0)
            for part in range(parts):
                total += x[(i // columns * parts + part) * columns + i % columns]
            y[i] = finish(total, bias, i % columns, other, i)
    return sum_parts


def add_parts(sums: Array, c: Array, add: bool, ending: Ending = AS_IT_IS) -> list[Launch]:
    """c = the sums over parts, in order, of `sums` (rows, parts, columns), with their ending; or
    c += that."""
    _, parts, columns = sums.shape
    make = _add_parts_kernel(parts, sums.dtype.type, ending.tail)
    return each(make, c.size, sums, *ending.arrays(c), c, columns, bool(add))


@cache
def _matrix_kernel(way: Way, a_turned: bool, b_turned: bool, tail: Tail, parts: int) -> Any:
    real, finish = way.real, tail.function(way.real)

    @device_function
    def load_a(a, g, i, t, m, step):
        return real(a[t * step + i] if a_turned else a[i * step + t])

    @device_function
    def load_b(b, g, t, j, step, n):
        return real(b[j * step + t] if b_turned else b[t * step + j])

    @device_function
    def store(c, bias, other, g, s, i, j, step, total, add):
        at = (i * parts + s) * step + j
        total = finish(total, bias, j, other, at)
        c[at] = real(c[at]) + total if add else total

    return product_kernel(Product(load_a, load_b, store, not a_turned, b_turned), way, parts)


def parts_of(way: Way, sizes: tuple[int, int, int], batch: int = 1) -> int:
    """Into how many parts the sums of products are split."""
    columns, rows, _ = grid_of(sizes, way.tiles, 1)
    return max(min(ENOUGH // max(columns * rows * batch, 1), sizes[2] // TERMS, MAX_PARTS), 1)


def product_scratch(way: Way, sizes: tuple[int, int, int]) -> list[Spec]:
    """Scratch that lets `matrix_product` split its sums, where that keeps more blocks busy."""
    parts = parts_of(way, sizes)
    return [Spec((sizes[0], parts, sizes[1]), np.dtype(way.real))] if parts > 1 else []


def matrix_product(a: Array, b: Array, c: Array, sizes: tuple[int, int, int],
                   turned: tuple[bool, bool] = (False, False), ending: Ending = AS_IT_IS,
                   add: bool = False, way: Way | None = None, scratch: Sequence[Array] = (),
                   steps: tuple[int, int, int] | None = None) -> list[Launch]:
    """c (m, n) = a (m, k) b (k, n), with its ending, for sizes (m, n, k); `turned` ones are stored
    transposed.  `scratch`: nothing, or an array as large as `product_scratch` says, or larger.
    `steps`: elements from a row of a, b and c, as they are stored, to the next, if not as many as a
    row has."""
    way, (m, n, k) = way or way_of(a.dtype, real_of(c.dtype), sizes), sizes
    of_a, of_b, of_c = steps or (m if turned[0] else k, k if turned[1] else n, n)
    sums = [scratch[0].device.view(scratch[0], 0, *spec)
            for spec in (product_scratch(way, sizes) if scratch and of_c == n else ())]
    parts, target = (sums[0].shape[1], sums[0]) if sums else (1, c)
    here = ending if parts == 1 else AS_IT_IS
    multiply = _matrix_kernel(way, *turned, here.tail, parts)
    args = (a, b, *here.arrays(target), target, *sizes, of_a, of_b, of_c,
            bool(add and parts == 1))
    first = Launch(multiply, grid_of(sizes, way.tiles, parts), (way.tiles.threads,), args)
    return [first, *(launch for parts in sums for launch in add_parts(parts, c, add, ending))]
