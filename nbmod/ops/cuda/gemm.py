"""Matrix products, of matrices that are stored and of matrices that are only imagined.

    C[g][i, j] = sum over t of A[g][i, t] B[g][t, j]

A block computes a tile of C, each of its threads a small patch, in registers.  It walks along t a
slice at a time: the threads together load the slices of A and B into shared memory, meet at a
barrier, multiply, and meet again before the slices are overwritten.

What A, B and C are is said by three device functions, so one kernel serves every transpose and
also convolutions, whose B has no memory of its own (`convolution`).  A long inner dimension can be
split over blocks; each writes a part of its own, and the parts are added in order afterwards, so
results do not depend on scheduling.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from .kernel_math import minimum, real_of
from .launch import SIMULATED, Launch, cuda, device_function, kernel
from .memory import Array

__all__ = ["TILES", "Product", "Tiles", "grid_of", "matrix_product", "product_kernel"]


class Tiles(NamedTuple):
    """A block computes `rows` x `columns` results, a thread `high` x `wide` of them, `depth` terms
    of the sums at a time."""

    rows: int
    columns: int
    depth: int
    high: int
    wide: int

    @property
    def threads(self) -> int:
        return self.rows // self.high * (self.columns // self.wide)


TILES = Tiles(8, 8, 8, 4, 4) if SIMULATED else Tiles(64, 64, 16, 4, 4)


class Product(NamedTuple):
    """The device functions of a product; g is the number of the product in a batch.

    load_a(a, g, i, t, m, k), load_b(b, g, t, j, k, n)    an element
    store(c, bias, g, s, i, j, n, total, add)             write or add one, of part s
    """

    load_a: Any
    load_b: Any
    store: Any


def product_kernel(  # noqa: C901 - what a kernel keeps in registers cannot leave it
        product: Product, real: Any, tiles: Tiles, parts: int = 1) -> Any:
    """A kernel (a, b, bias, c, m, n, k, span, add) over blocks (n, m, products * parts).

    Part s of `parts` sums the terms from s * span to (s + 1) * span.
    """
    load_a, load_b, store = product
    rows, columns, depth, high, wide = tiles
    across, threads = columns // wide, tiles.threads

    @kernel
    def multiply(a, b, bias, c, m, n, k, span, add):  # noqa: C901
        # Two shared arrays on one source line would be one array in the simulator.
        left = cuda.shared.array((depth, rows), real)
        right = cuda.shared.array((depth, columns), real)
        totals = cuda.local.array((high, wide), real)
        me, g, s = cuda.threadIdx.x, cuda.blockIdx.z // parts, cuda.blockIdx.z % parts
        top, side = cuda.blockIdx.y * rows, cuda.blockIdx.x * columns
        y, x = me // across * high, me % across * wide
        for p in range(high):
            for q in range(wide):
                totals[p, q] = real(0)
        last = minimum(k, (s + 1) * span)
        for first in range(s * span, last, depth):
            for e in range(me, depth * rows, threads):
                t, i = first + e % depth, top + e // depth
                left[e % depth, e // depth] = (
                    load_a(a, g, i, t, m, k) if i < m and t < last else real(0))
            for e in range(me, depth * columns, threads):
                t, j = first + e // columns, side + e % columns
                right[e // columns, e % columns] = (
                    load_b(b, g, t, j, k, n) if j < n and t < last else real(0))
            cuda.syncthreads()
            for t in range(depth):
                for p in range(high):
                    for q in range(wide):
                        totals[p, q] += left[t, y + p] * right[t, x + q]
            cuda.syncthreads()
        for p in range(high):
            for q in range(wide):
                if top + y + p < m and side + x + q < n:
                    store(c, bias, g, s, top + y + p, side + x + q, n, totals[p, q], add)
    return multiply


def grid_of(sizes: tuple[int, int, int], tiles: Tiles, batch: int) -> tuple[int, int, int]:
    """The grid of `batch` products of these sizes."""
    m, n, _ = sizes
    return -(-n // tiles.columns), -(-m // tiles.rows), batch


@cache
def _matrix_kernel(real: Any, a_turned: bool, b_turned: bool, biased: bool) -> Any:
    @device_function
    def load_a(a, g, i, t, m, k):
        return real(a[t * m + i] if a_turned else a[i * k + t])

    @device_function
    def load_b(b, g, t, j, k, n):
        return real(b[j * k + t] if b_turned else b[t * n + j])

    @device_function
    def store(c, bias, g, s, i, j, n, total, add):
        if biased:
            total += real(bias[j])
        c[i * n + j] = real(c[i * n + j]) + total if add else total

    return product_kernel(Product(load_a, load_b, store), real, TILES)


def matrix_product(a: Array, b: Array, c: Array, sizes: tuple[int, int, int],
                   turned: tuple[bool, bool] = (False, False), bias: Array | None = None,
                   add: bool = False) -> Launch:
    """c (m, n) = a (m, k) b (k, n) + bias (n,), for sizes (m, n, k); `turned` ones are stored
    transposed."""
    m, n, k = sizes
    multiply = _matrix_kernel(real_of(c.dtype), *turned, bias is not None)
    args = (a, b, c if bias is None else bias, c, m, n, k, k, bool(add))
    return Launch(multiply, grid_of(sizes, TILES, 1), (TILES.threads,), args)
