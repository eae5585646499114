"""One call for the updates of many weights.

A kernel for every weight would be entered some hundred times a step, and most weights are too small
for all cores.  Here weights of one rule and the same types are rows of three tables: addresses of
their arrays, the numbers that the formulas mention, and parts of them, which make up jobs of equal
size whatever the sizes of the weights.  The tables of addresses and parts are made once; a step
writes the numbers that have changed and enters the kernel.

    together = device.together(members)
    together.set(0, numbers); together()

This is how a CPU does it; `ops.cuda.together` has what a GPU makes of the same tables.

Formulas are those of the kernels for one weight, element for element, so results are the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..device import CPU, Device
from ..elementwise import program as programs
from ..elementwise.program import Program
from ..jit import num_threads
from .sgd_update import COMPILED_FROM, distinct, kernel_for

__all__ = ["Member", "Together", "alike", "overlap"]

PARALLEL_FROM = 1 << 15
"""Elements from which all cores step: while they are awake this takes 3 us more, in which one steps
10,000; and a core that steps what it will multiply next has it in its cache."""
JOB = 1 << 14
"""Elements of a job at most: 64 KB of each array."""
LINE = 64
"""Elements of a part are a multiple of this where the array goes on: whole lines of the cache."""


class Member(NamedTuple):
    """A weight's update: a program on arrays of one size."""

    program: Program
    ins: Sequence[Any]
    outs: Sequence[Any]

    @property
    def arrays(self) -> list[Any]:
        return distinct(self.ins, self.outs)

    @property
    def kind(self) -> tuple:
        """Members of one kind are rows of one table."""
        arrays = self.arrays
        places = [next(k for k, array in enumerate(arrays) if array is out) for out in self.outs]
        return (self.program, *places, *(array.dtype for array in arrays))


def alike(members: Sequence[Member]) -> Iterable[list[int]]:
    """Positions of members of one kind."""
    kinds: dict[tuple, list[int]] = {}
    for position, member in enumerate(members):
        kinds.setdefault(member.kind, []).append(position)
    return kinds.values()


class Together:
    """The updates of all members on the CPU; their arrays are kept alive."""

    def __init__(self, members: Sequence[Member]):
        self._members = members
        self._rows: dict[int, Any] = {}
        self._runs: list[Callable[[], None]] = []
        for positions in alike(members):
            self._add([members[position] for position in positions], positions)

    def _add(self, alike: Sequence[Member], positions: Sequence[int]) -> None:
        first, sizes = alike[0], [member.outs[0].size for member in alike]
        numbers: Any = [[0.0] * len(first.program.scalars) for _ in alike]
        if sum(sizes) < COMPILED_FROM:
            self._runs += [partial(programs.run, *member, row)
                           for member, row in zip(alike, numbers, strict=True)]
        else:
            kernel, real = kernel_for(first.program, first.ins, first.outs,
                                      sum(sizes) >= PARALLEL_FROM, many=True)
            numbers = np.zeros((len(alike), len(first.program.scalars)), real)
            addresses = np.array([[CPU.span(array)[0] for array in member.arrays]
                                  for member in alike], np.int64)
            self._runs.append(partial(kernel, addresses, numbers, *divided(sizes)))
        self._rows.update(zip(positions, numbers, strict=True))

    def set(self, position: int, numbers: Sequence[float]) -> None:
        """Let the numbers of a member's formulas be these."""
        self._rows[position][:] = numbers

    def __call__(self) -> None:
        for run in self._runs:
            run()


def divided(sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Arrays of these sizes as jobs of about equal size.

    parts (P, 3): number of the array, first element, number of elements; the parts of job j are
    jobs[j] to jobs[j + 1].
    """
    threads = num_threads()
    count = threads * max(1, -(-sum(sizes) // (JOB * threads)))
    quota = -(-sum(sizes) // count)
    parts: list[tuple[int, int, int]] = []
    jobs, room = [0], quota
    for row, size in enumerate(sizes):
        start = 0
        while start < size:
            stop = min(size, -(-(start + room) // LINE) * LINE)
            parts.append((row, start, stop - start))
            room, start = room - (stop - start), stop
            if room <= 0:
                jobs.append(len(parts))
                room = quota
    if jobs[-1] < len(parts):
        jobs.append(len(parts))
    return np.array(parts, np.int64).reshape(-1, 3), np.array(jobs, np.int64)


def overlap(sets: Iterable[tuple[Sequence[Any], Sequence[Any]]], device: Device) -> bool:
    """Whether an array that is written shares memory with any other; (read, written) arrays, all
    of one device."""
    spans = sorted((*device.span(array), written) for read, changed in sets
                   for arrays, written in ((read, False), (changed, True)) for array in arrays)
    end = written_end = 0
    for first, last, written in spans:
        if first < (end if written else written_end):
            return True
        end = max(end, last)
        written_end = max(written_end, last) if written else written_end
    return False
