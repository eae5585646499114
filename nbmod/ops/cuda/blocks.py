"""Sums by a block of threads for each result: a fixed tree, so two runs are bitwise equal."""

from __future__ import annotations

from typing import Any

from .launch import SIMULATED, Launch, cuda, kernel

__all__ = ["LANES", "MAX_CELLS", "each_block", "sum_kernel"]

LANES = 4 if SIMULATED else 128
"""Threads of a block, a power of two."""

MAX_CELLS = 8 if SIMULATED else 65535


def sum_kernel(load: Any, real: Any) -> Any:
    """A kernel (x, y, terms, add, n): y[cell] = sum of load(x, cell, term, n), for n cells."""
    lanes = LANES

    @kernel
    def sums(x, y, terms, add, n):
        part = cuda.shared.array(lanes, real)
        me = cuda.threadIdx.x
        for cell in range(cuda.blockIdx.x, n, cuda.gridDim.x):
            total = real(0)
            for term in range(me, terms, lanes):
                total += load(x, cell, term, n)
            part[me] = total
            cuda.syncthreads()
            width = lanes // 2
            while width > 0:
                if me < width:
                    part[me] += part[me + width]
                cuda.syncthreads()
                width //= 2
            if me == 0:
                y[cell] = real(y[cell]) + part[0] if add else part[0]
            cuda.syncthreads()
    return sums


def each_block(kernel: Any, cells: int, *args: Any) -> list[Launch]:
    """A kernel that gives every cell to a block; it gets their number as its last argument."""
    if not cells:
        return []
    return [Launch(kernel, (min(cells, MAX_CELLS),), (LANES,), (*args, cells))]
