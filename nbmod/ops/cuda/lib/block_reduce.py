"""Segmented reductions, a block of threads for each result (the block reduce of CUB).

Threads combine their values by a fixed tree in shared memory, so two runs are bitwise equal.
"""

from __future__ import annotations

from typing import Any

from ..runtime.launch import SIMULATED, Kernel, Launch, cuda, device_function, kernel

__all__ = ["BLOCK_SIZE", "MAX_GRID", "block_reduce_function", "chunk_count", "each_block",
           "sum_kernel"]

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


def block_reduce_function(rows: int, width: int = 1, combine: Any = _plus) -> Any:
    """block_reduce(values): reduce each row of `values`, shared memory (rows, BLOCK_SIZE), in place
    by `combine(a, b)`.  Of every `width` interleaved segments in a row the results are at its
    start.  All threads of a block must call it."""
    block_size = BLOCK_SIZE

    @device_function
    def block_reduce(values):
        tid, half = cuda.threadIdx.x, block_size // 2
        cuda.syncthreads()
        while half >= width:
            if tid < half:
                for row in range(rows):
                    values[row, tid] = combine(values[row, tid], values[row, tid + half])
            cuda.syncthreads()
            half //= 2
    return block_reduce


def sum_kernel(load: Any, real: Any) -> Kernel:
    """A kernel (x, y, terms, add, n): y[segment] = sum of load(x, segment, term, n) over `terms`
    terms, or y += that with `add`, for n segments."""
    block_size, block_sum = BLOCK_SIZE, block_reduce_function(1)

    @kernel
    def sums(x, y, terms, add, n):
        part = cuda.shared.array((1, block_size), real)
        tid = cuda.threadIdx.x
        for segment in range(cuda.blockIdx.x, n, cuda.gridDim.x):
            total = real(0)
            for term in range(tid, terms, block_size):
                total += load(x, segment, term, n)
            part[0, tid] = total
            block_sum(part)
            if tid == 0:
                y[segment] = real(y[segment]) + part[0, 0] if add else part[0, 0]
            cuda.syncthreads()
    return sums


def each_block(kernel: Kernel, segments: int, *args: Any) -> list[Launch]:
    """Launch a kernel with a block for every segment; their number is its last argument."""
    if not segments:
        return []
    return [Launch(kernel, (min(segments, MAX_GRID),), (BLOCK_SIZE,), (*args, segments))]
