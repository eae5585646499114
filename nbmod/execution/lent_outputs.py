"""Outputs of an executor as arrays of their own, large ones without a copy.

A large output is lent: it is the array that the executor computed, and is left alone as long as
anything refers to it.  The next run computes in other buffers, so that two sets of them take turns
in a loop that drops the outputs of each run during the next but one.  Where both are in use, what
is lent stays with its users, and from then on outputs are copied.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ..ndarray import NDArray
from ..ndarray.buffer_pool import PooledBuffer
from ..ops.device import device_of
from ..passes.memory.plan_step import NONE

if TYPE_CHECKING:
    from ..executor import Executor
    from .pipeline import CompiledGraph

__all__ = ["LentOutputs"]


class LentOutputs:
    """The outputs of one executor, which only this object runs forward."""

    LARGE = 2 ** 20
    """Bytes from which an output is lent."""

    def __init__(self, executor: Executor):
        self._executor = executor
        self._lendable: set[int] = set()
        if executor.is_planned:
            count = len(executor.outputs)
            self._lendable = {index for index in _apart(executor.compiled, count)
                              if _nbytes(executor.outputs[index]) >= self.LARGE}
        self._present: list[weakref.ref[PooledBuffer]] = []
        self._other: list[weakref.ref[PooledBuffer]] = []

    def forward(self, is_train: bool) -> list[NDArray]:
        """Run the network; the outputs have memory of their own."""
        if _in_use(self._present):
            self._present, self._other = self._other, self._present
            if _in_use(self._present):
                self.leave()
            else:
                self._executor.planned.exchange_outputs()
        outputs = self._executor.forward(is_train)
        return [self._lent(output) if index in self._lendable else _copied(output)
                for index, output in enumerate(outputs)]

    def leave(self) -> None:
        """Leave what is lent to those who have it; nothing is lent any more."""
        if self._present or self._other:
            self._executor.renew_outputs()
        self._lendable, self._present, self._other = set(), [], []

    def _lent(self, output: NDArray) -> NDArray:
        # no array, from which views would begin instead of at the buffer (see `PooledBuffer`)
        memory = (ctypes.c_byte * _nbytes(output)).from_buffer(output._data)
        buffer = PooledBuffer(output._data.shape, output._data.dtype,
                              memory)  # type: ignore[arg-type]  # NumPy takes any buffer
        self._present = [*filter(_is_alive, self._present), weakref.ref(buffer)]
        return NDArray(np.asarray(buffer), output._ctx)


def _apart(compiled: CompiledGraph, count: int) -> set[int]:
    """The first `count` outputs that share memory with no other, nor with what backward reads."""
    plan, shown = compiled.plan, compiled.graph.output_ids[:count]
    read = {plan.storage[eid] for step in compiled.plan_steps[compiled.num_forward:]
            for eid in step.inputs}
    users = Counter([plan.storage[eid] for eid in shown])
    return {index for index, eid in enumerate(shown)
            if not compiled.devices[eid].is_gpu and eid not in plan.pieces
            and (sid := plan.storage[eid]) != NONE and plan.storages[sid].held
            and users[sid] == 1 and sid not in read}


def _nbytes(array: NDArray) -> int:
    nbytes: int = array._data.size * array._data.dtype.itemsize
    return nbytes


def _is_alive(reference: weakref.ref[PooledBuffer]) -> bool:
    return reference() is not None


def _in_use(references: list[weakref.ref[PooledBuffer]]) -> bool:
    return any(map(_is_alive, references))


def _copied(array: NDArray) -> NDArray:
    """A copy, of memory of its own."""
    if array.is_sparse:
        return array.copy()
    return NDArray(device_of(array._ctx).duplicate(array._data), array._ctx)
