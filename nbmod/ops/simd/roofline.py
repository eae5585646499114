"""The roofline of the host (Williams et al. 2009), measured: FMA throughput, memory bandwidth.

A compute-bound kernel is judged by its share of the first, a memory-bound one by its share of the
second.  Both are for all threads of parallel kernels together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from ..jit import kernel, num_threads, prange
from .host import lanes, registers
from .ir import MicroKernel, Vectors

__all__ = ["Roofline", "measure_roofline"]

LANES = lanes("float32")
CHAINS = 3 * registers().number // 4
"""Independent accumulators: an FMA has a latency of about four cycles, and two issue in each."""
OWN = (1 + CHAINS) * LANES
"""Elements of a thread."""
TURNS = 500_000
COPIED = 2 ** 26
"""Bytes to copy: more than a cache holds."""
TRIES = 50
"""Short runs after a pause: a thread that has slept is scheduled first on a loaded machine."""
REST = 2e-3


class Roofline(NamedTuple):
    """For float32: floating-point operations, and bytes read plus written, a second."""

    operations: float
    nbytes: float


@cache
def measure_roofline() -> Roofline:
    """The best of some runs, about 0.3 s in all once compiled; measured once in each process."""
    threads = num_threads()
    values = np.zeros(threads * OWN, np.float32)
    source = np.zeros(COPIED // 8)
    target = np.ones_like(source)
    peak = threads * TURNS * CHAINS * LANES * 2 / _least(_spin, values, threads, TURNS)
    return Roofline(peak, 2 * source.nbytes / _least(_copy, source, target, threads))


def _least(run: Callable[..., None], *args: np.ndarray | int) -> float:
    """Minimum time of some runs in seconds."""
    times = []
    for _ in range(TRIES):
        time.sleep(REST)
        started = time.perf_counter()
        run(*args)
        times.append(time.perf_counter() - started)
    return min(times)


def _emit(v: Vectors) -> None:
    values = v.at(v.args.values, v.args.at)
    factor = v.load(values)
    pointers = [v.at(values, (1 + chain) * v.width) for chain in range(CHAINS)]
    sums = v.loop(v.args.turns, [v.load(pointer) for pointer in pointers],
                  lambda i, sums: [v.fma(total, factor, factor) for total in sums])
    for total, pointer in zip(sums, pointers, strict=True):
        v.store(total, pointer)


def _reference(values: np.ndarray, at: int, turns: int) -> None:
    factor, *sums = values[at:at + OWN].reshape(-1, LANES)
    for _ in range(turns):
        for total in sums:
            total[:] = total * factor + factor


chains = MicroKernel(("values", "at", "turns"), _emit, _reference)
"""x = x f + f, `turns` times, for CHAINS vectors x, which follow f in `values` from `at`."""


@kernel(parallel=True)
def _spin(values, threads, turns):
    for thread in prange(threads):
        chains(values, thread * OWN, turns)


@kernel(parallel=True)
def _copy(source, target, threads):
    for thread in prange(threads):
        first, last = source.size * thread // threads, source.size * (thread + 1) // threads
        target[first:last] = source[first:last]
