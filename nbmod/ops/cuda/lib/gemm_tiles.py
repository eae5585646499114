"""Tiles of GEMM operands on the way from global to shared memory: what `gemm` and
`gemm_tensor_cores` share.

In each iteration of its main loop a block needs one tile (block_k, block_m) of A and one tile
(block_k, block_n) of B.  The elements of a tile are numbered and dealt out to the threads of the
block cyclically.  A thread keeps its elements in registers, a fragment, until the tile's stage of
shared memory is free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..runtime.launch import cuda, device_function
from .kernel_math import minimum

__all__ = ["GemmOperands", "predicated_loads", "split_k_range", "tile_copy"]


class GemmOperands(NamedTuple):
    """Functions that access the matrices; g is the index of the product in the batch.

    load_a(a, g, i, t, m, lda), load_b(b, g, t, j, ldb, n)      read an element
    store(c, bias, addend, g, split, i, j, ldc, total, add)     write an element, or add to it

    `lda`, `ldb`, `ldc`: the leading dimensions that the launch gives, elements from row to row.

    `a_k_contiguous`, `b_k_contiguous`: whether elements adjacent along k, rather than along i or j,
    are adjacent in memory.
    """

    load_a: Callable
    load_b: Callable
    store: Callable
    a_k_contiguous: bool = True
    b_k_contiguous: bool = False


@device_function
def split_k_range(k, split, splits):
    """The half-open range of the k terms that one of the `splits` of a sum adds up."""
    span = (k + splits - 1) // splits
    return split * span, minimum(k, (split + 1) * span)


def predicated_loads(operands: GemmOperands, real: type[np.number]) -> tuple[Callable, Callable]:
    """load(matrix, g, i, t, extent, leading, last) for A, and for B with j in place of i: elements
    outside the matrix, and from the end `last` of the sums on, are zero and are not read."""
    read_a, read_b = operands.load_a, operands.load_b

    @device_function
    def load_a(a, g, i, t, m, lda, last):
        return real(read_a(a, g, i, t, m, lda)) if i < m and t < last else real(0)

    @device_function
    def load_b(b, g, j, t, n, ldb, last):
        return real(read_b(b, g, t, j, ldb, n)) if j < n and t < last else real(0)

    return load_a, load_b


def tile_copy(load: Callable, k_contiguous: bool, shape: tuple[int, int], threads: int,
              width: int = 1) -> tuple[Callable, Callable]:
    """Device functions that copy a tile of `shape` (block_k, extent), in elements of which each
    holds `width` terms of the sums, from global to shared memory.

    fetch(fragment, matrix, g, first, k, extent, leading, last): load the thread's elements of the
    tile that starts at row or column `first` and term `k`.
    store(fragment, tile, stage): write them to a stage of `tile` (stages, block_k, extent).

    Consecutive threads get elements that are adjacent along k if `k_contiguous`, else along the
    other dimension, so that loads coalesce.
    """
    block_k, block = shape
    count = block_k * block // threads

    @device_function
    def tile_index(e):
        number = cuda.threadIdx.x + e * threads
        if k_contiguous:
            return number % block_k, number // block_k
        return number // block, number % block

    @device_function
    def fetch(fragment, matrix, g, first, k, extent, leading, last):
        for e in range(count):
            t, i = tile_index(e)
            fragment[e] = load(matrix, g, first + i, k + width * t, extent, leading, last)

    @device_function
    def store(fragment, tile, stage):
        for e in range(count):
            t, i = tile_index(e)
            tile[stage, t, i] = fragment[e]

    return fetch, store
