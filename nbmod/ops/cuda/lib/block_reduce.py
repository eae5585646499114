"""Sums by a block of threads for each result: a fixed tree, so two runs are bitwise equal."""

from __future__ import annotations

from typing import Any

from ..runtime.launch import SIMULATED, Launch, cuda, device_function, kernel

__all__ = ["LANES", "MAX_CELLS", "each_block", "pieces_of", "sum_kernel", "tree_function"]

LANES = 4 if SIMULATED else 128
"""Threads of a block, a power of two."""

MAX_CELLS = 8 if SIMULATED else 65535

TERMS = 2 if SIMULATED else 8
"""Numbers that a thread adds up at least, before a sum is taken in pieces."""

BLOCKS = 32 if SIMULATED else 2048
"""Blocks that keep a large card busy."""


def pieces_of(blocks: int, terms: int, lanes: int = LANES) -> int:
    """In how many pieces sums of so many terms are taken, where `lanes` threads add up one and all
    of them would be the work of so many blocks."""
    return max(1, min(BLOCKS // max(blocks, 1), terms // (lanes * TERMS)))


@device_function
def _plus(a, b):
    return a + b


def tree_function(rows: int, width: int = 1, fold: Any = _plus) -> Any:
    """fold_all(numbers): of each row of shared memory (rows, LANES) the sum of every `width`-th
    number, or what else `fold(a, b)` makes of two, which then stands at its start; for all threads
    of a block at once."""
    lanes = LANES

    @device_function
    def fold_all(numbers):
        me, half = cuda.threadIdx.x, lanes // 2
        cuda.syncthreads()
        while half >= width:
            if me < half:
                for row in range(rows):
                    numbers[row, me] = fold(numbers[row, me], numbers[row, me + half])
            cuda.syncthreads()
            half //= 2
    return fold_all


def sum_kernel(load: Any, real: Any) -> Any:
    """A kernel (x, y, terms, add, n): y[cell] = sum of load(x, cell, term, n), for n cells."""
    lanes, add_up = LANES, tree_function(1)

    @kernel
    def sums(x, y, terms, add, n):
        part = cuda.shared.array((1, lanes), real)
        me = cuda.threadIdx.x
        for cell in range(cuda.blockIdx.x, n, cuda.gridDim.x):
            total = real(0)
            for term in range(me, terms, lanes):
                total += load(x, cell, term, n)
            part[0, me] = total
            add_up(part)
            if me == 0:
                y[cell] = real(y[cell]) + part[0, 0] if add else part[0, 0]
            cuda.syncthreads()
    return sums


def each_block(kernel: Any, cells: int, *args: Any) -> list[Launch]:
    """A kernel that gives every cell to a block; it gets their number as its last argument."""
    if not cells:
        return []
    return [Launch(kernel, (min(cells, MAX_CELLS),), (LANES,), (*args, cells))]
