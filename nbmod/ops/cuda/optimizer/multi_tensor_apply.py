"""The updates of many weights by one launch: the other execution of what `ops.together` plans.

Addresses, numbers and parts are tables in the memory of the card.  A step sends the numbers, a few
kilobytes, if they are others than in the last one; no launch is prepared anew, whatever becomes of
the learning rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...elementwise.codegen import KernelSpec
from ...optimizer import multi_tensor_apply
from ...optimizer.multi_tensor_apply import Member
from ...optimizer.sgd_update import spec_for
from ..elementwise.formula_op import kernel_of
from ..runtime.launch import MAX_BLOCKS, SIMULATED, THREADS, Launch

__all__ = ["Together", "launch", "real_of"]

PART = 8 if SIMULATED else 1 << 14
"""Elements that a block takes at a time."""


def launch(alike: Sequence[Member], numbers: Any) -> Launch:
    """The programs of members of one kind, none of them empty; `numbers` (members, scalars) of type
    `real_of` are on the device."""
    device, spec = numbers.device, _spec(alike)
    addresses = np.array([[array.address for array in member.arrays] for member in alike], np.int64)
    parts = np.array([(row, start, min(start + PART, member.outs[0].size))
                      for row, member in enumerate(alike)
                      for start in range(0, member.outs[0].size, PART)], np.int32)
    tables = device.from_numpy(addresses), numbers, device.from_numpy(parts)
    return Launch(kernel_of(spec), (min(len(parts), MAX_BLOCKS),), (THREADS,),
                  (*tables, len(parts)), tables)


def real_of(alike: Sequence[Member]) -> str:
    """The type in which members of one kind are computed."""
    return _spec(alike).real


def _spec(alike: Sequence[Member]) -> KernelSpec:
    """Of the largest: that tells arrays of one element from those of a weight's size."""
    largest = max(alike, key=lambda member: member.outs[0].size)
    return spec_for(largest.program, largest.ins, largest.outs, parallel=True, many=True)


class Together(multi_tensor_apply.Together):
    """The updates of all members on a GPU; their arrays are kept alive."""

    def __init__(self, device: Any, members: Sequence[Member]):
        self._device = device
        super().__init__(members)

    def _add(self, alike: Sequence[Member], positions: Sequence[int]) -> None:
        table = _Table(self._device, alike)
        self._runs.append(table)
        self._rows.update(zip(positions, table.numbers, strict=True))


class _Table:
    """Members of one kind; `numbers` are those that the next step uses."""

    def __init__(self, device: Any, alike: Sequence[Member]):
        self.device = device
        self.numbers = np.zeros((len(alike), len(alike[0].program.scalars)), real_of(alike))
        self.sent = np.full_like(self.numbers, np.nan)
        self.there = device.empty(self.numbers.shape, self.numbers.dtype)
        self.start = device.launcher([launch(alike, self.there)])

    def __call__(self) -> None:
        if not np.array_equal(self.numbers, self.sent):
            self.device.copy(self.numbers, self.there)
            self.sent[:] = self.numbers
        self.start()
