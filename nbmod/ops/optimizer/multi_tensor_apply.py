"""Multi-tensor apply: one kernel call for the updates of many weights.

A network has hundreds of weights, most of them too small for all cores, so a kernel call for each
would cost more than the arithmetic.  Weights with the same formulas and element types are therefore
rows of three tables: the addresses of their arrays, the scalars of the formulas, and chunks of the
arrays, which form jobs of equal size whatever the sizes of the weights.  The tables of addresses
and chunks are made once; a step writes the scalars that have changed and calls the kernel.

    fused = device.multi_tensor_apply(updates)
    fused.scalars[0][:] = scalars
    for call in fused.calls: call()

The idea is that of NVIDIA apex (`multi_tensor_apply`) and PyTorch (`torch._foreach`).  This is the
CPU's version; `ops.cuda.optimizer.multi_tensor_apply` has the GPU's.

Formulas are those of the kernels for one weight, so results are bitwise the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..elementwise import program as programs
from ..elementwise.program import Program
from ..jit import num_threads, pays_off
from .sgd_update import COMPILED_FROM, distinct, kernel_for

__all__ = ["FusedCalls", "TensorUpdate", "group_by_kind", "multi_tensor_apply", "overlap"]

PARALLEL_FROM = 1 << 15
"""Elements from which all cores are used: below, waking them costs more than it saves (3 us, in
which one core updates 10,000 elements)."""
JOB = 1 << 14
"""Elements of a job at most: 64 KB of each array."""
LINE = 64
"""Chunks that do not end their array have a multiple of this many elements: whole cache lines."""


DeviceArray: TypeAlias = Any
"""An array of any device: these have no common base."""


class TensorUpdate(NamedTuple):
    """An elementwise program on arrays of equal size, such as the update of a weight."""

    program: Program
    ins: Sequence[DeviceArray]
    outs: Sequence[DeviceArray]

    @property
    def arrays(self) -> list[DeviceArray]:
        return distinct(self.ins, self.outs)

    @property
    def kind(self) -> tuple:
        """Updates of one kind are rows of one table."""
        arrays = self.arrays
        outputs = [next(k for k, array in enumerate(arrays) if array is out) for out in self.outs]
        return (self.program, *outputs, *(array.dtype for array in arrays))


class FusedCalls(NamedTuple):
    """Kernel calls that perform a list of updates, whose arrays they keep alive."""

    updates: Sequence[TensorUpdate]
    calls: list[Callable[[], None]]
    scalars: list[DeviceArray]
    """For each update the values of its formulas' scalars, a row to write to."""


def group_by_kind(updates: Sequence[TensorUpdate]) -> Iterable[list[int]]:
    """For each kind, the positions of its updates."""
    kinds: dict[tuple, list[int]] = {}
    for position, update in enumerate(updates):
        kinds.setdefault(update.kind, []).append(position)
    return kinds.values()


def multi_tensor_apply(updates: Sequence[TensorUpdate]) -> FusedCalls:
    """Prepare the calls that perform all updates on the CPU."""
    calls: list[Callable[[], None]] = []
    scalars: list[Any] = [None] * len(updates)
    for positions in group_by_kind(updates):
        group = [updates[position] for position in positions]
        first, sizes = group[0], [update.outs[0].size for update in group]
        rows: Any = [[0.0] * len(first.program.scalars) for _ in group]
        if not pays_off(sum(sizes), COMPILED_FROM):
            calls += [partial(programs.run, *update, row)
                      for update, row in zip(group, rows, strict=True)]
        else:
            kernel, real = kernel_for(first.program, first.ins, first.outs,
                                      sum(sizes) >= PARALLEL_FROM, many=True)
            rows = np.zeros((len(group), len(first.program.scalars)), real)
            addresses = np.array([[array.ctypes.data for array in update.arrays]
                                  for update in group], np.int64)
            calls.append(partial(kernel, addresses, rows, *divided(sizes)))
        for position, row in zip(positions, rows, strict=True):
            scalars[position] = row
    return FusedCalls(updates, calls, scalars)


def divided(sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Arrays of these sizes split into jobs of about equal size (load balancing).

    chunks (C, 3): index of the array, first element, number of elements; the chunks of job j are
    jobs[j] to jobs[j + 1].
    """
    threads = num_threads()
    count = threads * max(1, -(-sum(sizes) // (JOB * threads)))
    quota = -(-sum(sizes) // count)
    chunks: list[tuple[int, int, int]] = []
    jobs, remaining = [0], quota
    for row, size in enumerate(sizes):
        start = 0
        while start < size:
            stop = min(size, -(-(start + remaining) // LINE) * LINE)
            chunks.append((row, start, stop - start))
            remaining, start = remaining - (stop - start), stop
            if remaining <= 0:
                jobs.append(len(chunks))
                remaining = quota
    if jobs[-1] < len(chunks):
        jobs.append(len(chunks))
    return np.array(chunks, np.int64).reshape(-1, 3), np.array(jobs, np.int64)


def overlap(sets: Iterable[tuple[Sequence[Any], Sequence[Any]]],
            span: Callable[[DeviceArray], tuple[int, int]]) -> bool:
    """Whether an array that is written shares memory with any other; (read, written) arrays, all
    of the device that tells their `span`."""
    spans = sorted((*span(array), written) for read, changed in sets
                   for arrays, written in ((read, False), (changed, True)) for array in arrays)
    end = written_end = 0
    for first, last, written in spans:
        if first < (end if written else written_end):
            return True
        end = max(end, last)
        written_end = max(written_end, last) if written else written_end
    return False
