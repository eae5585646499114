"""Segmented reductions, a block of threads for each result (the block reduce of CUB).

Threads combine their values by a fixed tree in shared memory, so two runs are bitwise equal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..runtime.launch import (
    SIMULATED,
    Argument,
    CudaKernel,
    Launch,
    cache,
    cuda,
    device_function,
    grid_stride,
    kernel,
)

__all__ = ["BLOCK_SIZE", "MAX_GRID", "all_reduce_function", "arg_reduce_function",
           "block_reduce_function", "block_stride", "chunk_count", "column_sum_kernel",
           "each_block", "sum_kernel"]

BLOCK_SIZE = 4 if SIMULATED else 128
"""Threads of a block, a power of two."""

MAX_GRID = 8 if SIMULATED else 65535
"""Blocks of a launch; they loop over segments if there are more."""

MIN_TERMS = 2 if SIMULATED else 8
"""Terms that a thread adds at least before a segment is split."""

FULL_GRID = 32 if SIMULATED else 2048
"""Blocks that keep a large GPU busy."""


def chunk_count(blocks: int, terms: int, threads: int = BLOCK_SIZE) -> int:
    """The number of chunks that segments of `terms` terms are split into, so that the grid is full:
    unsplit, they are the work of `blocks` blocks, with `threads` threads for each segment."""
    return max(1, min(FULL_GRID // max(blocks, 1), terms // (threads * MIN_TERMS)))


@device_function
def _plus(a, b):
    return a + b


def block_reduce_function(rows: int, width: int = 1, combine: Callable = _plus) -> Callable:
    """block_reduce(values): reduce each row of `values`, shared memory (rows, BLOCK_SIZE), in place
    by `combine(a, b)`.  Of every `width` interleaved segments in a row the results are at its
    start.  All threads of a block must call it."""
    @device_function
    def block_reduce(values):
        tid, half = cuda.threadIdx.x, BLOCK_SIZE // 2
        cuda.syncthreads()
        while half >= width:
            if tid < half:
                for row in range(rows):
                    values[row, tid] = combine(values[row, tid], values[row, tid + half])
            cuda.syncthreads()
            half //= 2
    return block_reduce


@cache
def all_reduce_function(real: type[np.number], combine: Callable = _plus) -> Callable:
    """all_reduce(value): for each thread of a block the values of all combined, of type `real`."""
    block_reduce = block_reduce_function(1, combine=combine)

    @device_function
    def all_reduce(value):
        values = cuda.shared.array((1, BLOCK_SIZE), real)
        values[0, cuda.threadIdx.x] = value
        block_reduce(values)
        result = values[0, 0]
        cuda.syncthreads()
        return result
    return all_reduce


@device_function
def first_largest(a, i, b, j):
    """Whether b at index j precedes a at i in the order of `arg_reduce_function` for a maximum."""
    return b > a or (b == a and j < i)


@cache
def arg_reduce_function(real: type[np.number], precedes: Callable = first_largest) -> Callable:
    """arg_reduce(a, i): for each thread of a block the first of all their pairs of a value, of type
    `real`, and its index, in the order precedes(a, i, b, j)."""
    @device_function
    def arg_reduce(a, i):
        values = cuda.shared.array(BLOCK_SIZE, real)
        indices = cuda.shared.array(BLOCK_SIZE, np.int32)
        tid, half = cuda.threadIdx.x, BLOCK_SIZE // 2
        values[tid], indices[tid] = a, i
        cuda.syncthreads()
        while half > 0:
            if tid < half and precedes(values[tid], indices[tid], values[tid + half],
                                       indices[tid + half]):
                values[tid], indices[tid] = values[tid + half], indices[tid + half]
            cuda.syncthreads()
            half //= 2
        result = values[0], indices[0]
        cuda.syncthreads()
        return result
    return arg_reduce


def sum_kernel(load: Callable, real: type[np.number]) -> CudaKernel:
    """A kernel (x, y, terms, add, n): y[segment] = sum of load(x, segment, term, n) over `terms`
    terms, or y += that with `add`, for n segments."""
    all_sum, load = all_reduce_function(real), device_function(load)

    @kernel
    def sums(x, y, terms, add, n):
        tid = cuda.threadIdx.x
        for segment in range(cuda.blockIdx.x, n, cuda.gridDim.x):
            total = real(0)
            for term in range(tid, terms, BLOCK_SIZE):
                total += load(x, segment, term, n)
            total = all_sum(total)
            if tid == 0:
                y[segment] = real(y[segment]) + total if add else total
    return sums


@cache
def column_sum_kernel(real: type[np.number]) -> CudaKernel:
    """The `sum_kernel` of the columns of x (terms, n)."""
    return sum_kernel(lambda x, column, row, n: real(x[row * n + column]), real)


block_stride = partial(grid_stride, indices="cuda.blockIdx.x, count, cuda.gridDim.x")
"""`grid_stride` with a block of threads for every i; `each_block` launches such kernels."""


def each_block(kernel: CudaKernel, segments: int, *args: Argument) -> list[Launch]:
    """Launch a kernel with a block for every segment; their number is its last argument."""
    if not segments:
        return []
    return [Launch(kernel, (min(segments, MAX_GRID),), (BLOCK_SIZE,), (*args, segments))]
