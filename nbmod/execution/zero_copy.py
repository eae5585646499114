"""Inputs of executors that are read where an iterator has put them.

An argument that batches are loaded into has memory of its own, and its steps are prepared on that.
When a batch comes in a loan under seal (`ndarray.lending`), nothing is copied: the loop gets steps
prepared on the loan instead, which the input holds until the next batch.  The argument's NDArray,
which shows its own memory, is itself sealed as long as nobody has looked at it.  So there are two
events after which the numbers must stand where a copy would have put them; both *land* the batch,
that is, copy it after all and put the steps on own memory back:

    the batch's seal breaks       somebody may write to the batch; it is his from now on
    the argument's seal breaks    somebody may read the argument, write to it or keep a view; from
                                  now on all batches are copied

Whatever users do to arrays begins with one of the two, so lending shows in nothing but time.

A pool lends the same few buffers over and over: the steps on each are prepared once and kept, by
lender and address.  They have no claim to the loan, which can go back, and are let go of with the
lender.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ndarray import NDArray, buffer_pool
from ..ndarray.buffer_pool import Loan, Loans, Seal, Sealed
from ..ops.device import CPU

if TYPE_CHECKING:
    from ..executor import Executor
    from .steps import Step

__all__ = ["Input", "Inputs"]

LEAST_BYTES = 2 ** 16
"""A smaller batch is copied: that takes less time than to put other steps into the loop."""

KEPT_BUFFERS = 16
"""Buffers of one lender whose steps are kept; a pool has some more than it makes batches ahead."""


class Input:
    """One argument; `entries` are its entry and those that are views of it, `indices` the steps
    that read any of them."""

    def __init__(self, executor: Executor, name: str, entries: Sequence[int],
                 indices: Sequence[int]):
        self.name, self.entries, self.indices = name, entries, indices
        self._executor = weakref.ref(executor)
        self._target = NDArray(executor.external[entries[0]], executor.arg_dict[name].context)
        self._borrowed: np.ndarray | None = None
        self._seal = Seal()
        self._own: list[Step] = []
        self._kept: MutableMapping[Loans, dict[int, list[Step]]] = weakref.WeakKeyDictionary()

    @property
    def is_borrowed(self) -> bool:
        return self._borrowed is not None

    def renew(self) -> None:
        """All steps of the executor are new."""
        executor = self._executor()
        assert executor is not None
        self._own = [executor.steps[index] for index in self.indices]
        if self._borrowed is not None:
            self._place(self._steps_on(self._borrowed))

    def vacate(self) -> None:
        """Let go of all steps, and of the executor's memory with them."""
        self._own = []
        self._kept.clear()

    # -- batches ----------------------------------------------------------------------------

    def borrow(self, array: NDArray) -> bool:
        """Read `array` from now on, if it is a loan under seal that can stand for the argument."""
        with buffer_pool.lock:
            if not (isinstance(array, Sealed) and not array.seal.broken
                    and Loan.behind(array.memory) is not None
                    and array.memory.dtype == self._target._data.dtype):
                return False
            self._give_back()
            self._seal, self._borrowed = array.seal, array.memory
            self._seal.readers.add(self.land)
            self._place(self._steps_on(array.memory))
            return True

    def fill(self, array: NDArray) -> None:
        """Copy `array` into own memory, and read that from now on."""
        with buffer_pool.lock:
            array.copyto(self._target)
            self._give_back()

    def land(self) -> None:
        """Copy what is borrowed into own memory, and read that from now on."""
        with buffer_pool.lock:
            if self._borrowed is not None:
                CPU.copy(self._borrowed, self._target._data)
                self._give_back()

    def retire(self) -> None:
        """Land, and borrow no more: somebody looks at the argument."""
        self.land()
        executor = self._executor()
        if executor is not None:
            executor._inputs.pop(self.name, None)

    def _give_back(self) -> None:
        """Read own memory; what is borrowed may be lent to others."""
        if self._borrowed is not None:
            self._place(self._own)
            self._seal.readers.discard(self.land)
            self._borrowed = None

    # -- steps ------------------------------------------------------------------------------

    def _place(self, steps: Sequence[Step]) -> None:
        executor = self._executor()
        if executor is not None and executor.steps:
            for index, step in zip(self.indices, steps, strict=True):
                executor.steps[index], executor._calls[index] = step, step.run

    def _steps_on(self, memory: np.ndarray) -> list[Step]:
        """The steps that read `memory`; none while the executor has none."""
        loan, executor = Loan.behind(memory), self._executor()
        assert loan is not None and executor is not None
        if not executor.steps:
            return []
        kept, address = self._kept.setdefault(loan.lender, {}), CPU.span(memory)[0]
        if address not in kept:
            if len(kept) >= KEPT_BUFFERS:
                del kept[next(iter(kept))]
            kept[address] = self._prepared(executor, loan.bare(memory))
        return kept[address]

    def _prepared(self, executor: Executor, memory: np.ndarray) -> list[Step]:
        own = [executor.arrays[eid] for eid in self.entries]
        try:
            executor.arrays[self.entries[0]] = memory
            for eid in self.entries[1:]:
                executor.arrays[eid] = executor._array(eid, executor.arrays)
            return [executor._prepare(index, executor.computed[index]) for index in self.indices]
        finally:
            for eid, array in zip(self.entries, own, strict=True):
                executor.arrays[eid] = array


class Inputs:
    """The part of `Executor` that takes batches."""

    _inputs: dict[str, Input]
    """By name, the arguments that can be read elsewhere."""
    arg_dict: dict[str, NDArray]

    def read_in_place(self: Any, names: Iterable[str]) -> None:
        """From now on read batches of these arguments where they lie, if that can be.

        Their arrays must be fresh: nobody else has them, or memory of theirs.
        """
        taken: set[int] = set()
        for name in names:
            entries = _entries(self, name)
            indices = [index for index, step in enumerate(self.plan_steps)
                       if not entries.isdisjoint(step.inputs)]
            if taken.isdisjoint(indices) and _is_movable(self, entries, indices):
                taken.update(indices)
                found = self._inputs[name] = Input(self, name, sorted(entries), indices)
                found.renew()
                Sealed.close(self.arg_dict[name]).readers.add(found.retire)

    def take(self: Any, name: str, array: NDArray) -> None:
        """Make `array`, of the right shape, the value of an argument: borrowed, or copied."""
        found = self._inputs.get(name)
        if found is None:
            array.copyto(self.arg_dict[name])
        elif self._monitor is not None or not found.borrow(array):
            found.fill(array)

    def borrows(self, name: str) -> bool:
        """Whether the value of an argument is read elsewhere at present."""
        found = self._inputs.get(name)
        return found is not None and found.is_borrowed

    def _land(self) -> None:
        """Have all arguments in their own memory."""
        for found in self._inputs.values():
            found.land()


def _entries(executor: Executor, name: str) -> set[int]:
    """The entry of an argument, and those that are views of it; none if nothing reads it, or
    pieces of it are read."""
    own = executor.arg_dict[name]._data
    entries = {eid for eid, array in executor.external.items() if array is own}
    for view, source in executor.plan.view_of.items():
        if source in entries:
            entries.add(view)
    return entries if entries.isdisjoint(executor.plan.pieces) else set()


def _is_movable(executor: Executor, entries: set[int], indices: Iterable[int]) -> bool:
    """Whether the entries are worth it, nothing but these steps has to do with them, and none of
    these could write to them."""
    given = [array for values in executor.derived for array in values.given.values()]
    return (bool(entries) and executor.sizes[min(entries)] >= LEAST_BYTES
            and entries.isdisjoint(executor.graph.output_ids)) and not (
        any(array is executor.external[min(entries)] for array in given)
        or any(executor.context[eid].is_gpu for eid in entries)
        or any(_runs_users_code(executor.computed[index].op) for index in indices))


def _runs_users_code(op: Any) -> bool:
    """Whether arrays are shown to Python functions of users."""
    op = getattr(op, "fwd", op)
    return op.name == "Custom" or any(_runs_users_code(node.op) for graph in op.subgraphs
                                      for node in graph.nodes if not node.is_variable)
