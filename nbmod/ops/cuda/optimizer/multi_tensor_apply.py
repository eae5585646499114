"""Multi-tensor apply on a GPU: one launch for the updates of many weights.

The tables of `ops.optimizer.multi_tensor_apply` (addresses, scalars, chunks) are in the memory of
the GPU.  A step sends the scalars, a few kilobytes, if they have changed; no launch is prepared
again when the learning rate changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...elementwise.codegen import KernelSpec
from ...op import Run
from ...optimizer.multi_tensor_apply import FusedCalls, TensorUpdate, group_by_kind
from ...optimizer.sgd_update import spec_for
from ..elementwise.formula_op import kernel_of
from ..runtime.device_memory import Array, ArrayDevice
from ..runtime.launch import MAX_BLOCKS, SIMULATED, THREADS, Launch

__all__ = ["launch", "multi_tensor_apply", "real_of"]

CHUNK = 8 if SIMULATED else 1 << 14
"""Elements that a block processes at a time."""


class LaunchingDevice(ArrayDevice, Protocol):
    """A GPU that prepares launches."""

    def launcher(self, steps: Sequence[Launch]) -> Run: ...


def launch(updates: Sequence[TensorUpdate], scalars: Array) -> Launch:
    """The programs of updates of one kind, none of them empty; `scalars` (updates, scalars) of type
    `real_of` are on the device."""
    device, spec = scalars.device, _spec(updates)
    addresses = np.array([[array.address for array in update.arrays] for update in updates],
                         np.int64)
    chunks = np.array([(row, start, min(start + CHUNK, update.outs[0].size))
                       for row, update in enumerate(updates)
                       for start in range(0, update.outs[0].size, CHUNK)], np.int32)
    tables = device.from_numpy(addresses), scalars, device.from_numpy(chunks)
    return Launch(kernel_of(spec), (min(len(chunks), MAX_BLOCKS),), (THREADS,),
                  (*tables, len(chunks)), tables)


def real_of(updates: Sequence[TensorUpdate]) -> str:
    """The type in which updates of one kind are computed."""
    return _spec(updates).real


def _spec(updates: Sequence[TensorUpdate]) -> KernelSpec:
    """The specification for the largest update, whose single elements differ from whole weights."""
    largest = max(updates, key=lambda update: update.outs[0].size)
    return spec_for(largest.program, largest.ins, largest.outs, parallel=True, many=True)


def multi_tensor_apply(device: LaunchingDevice, updates: Sequence[TensorUpdate]) -> FusedCalls:
    """Prepare the launches that perform all updates on a GPU."""
    calls: list[Any] = []
    scalars: list[Any] = [None] * len(updates)
    for positions in group_by_kind(updates):
        table = _Table(device, [updates[position] for position in positions])
        calls.append(table)
        for position, row in zip(positions, table.scalars, strict=True):
            scalars[position] = row
    return FusedCalls(updates, calls, scalars)


class _Table:
    """Updates of one kind; `scalars` are those of the next step."""

    def __init__(self, device: LaunchingDevice, updates: Sequence[TensorUpdate]):
        self.device = device
        self.scalars = np.zeros((len(updates), len(updates[0].program.scalars)), real_of(updates))
        self.sent = np.full_like(self.scalars, np.nan)
        self.on_device = device.empty(self.scalars.shape, self.scalars.dtype)
        self.start = device.launcher([launch(updates, self.on_device)])

    def __call__(self) -> None:
        if not np.array_equal(self.scalars, self.sent):
            self.device.copy(self.scalars, self.on_device)
            self.sent[:] = self.scalars
        self.start()
