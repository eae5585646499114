"""The checks of NBMOD_CHECK: no step reads or writes memory that it has no right to.

`NBMOD_CHECK=1` replays the plan when a network is bound, on the addresses and strides of the arrays
that its kernels get (`Materialized`, `passes.memory.verify`).  That proves that the plan is right
if every kernel reads its inputs and writes its outputs, and nothing else.

`NBMOD_CHECK=2` checks that, too, while the network runs (`Sanitizer`).  Before a step every byte of
the arena that belongs to no live value is poisoned, that is, set to 0xFF, which is NaN in floating
point: uninitialised outputs, scratch, and values that nothing reads any more.  A kernel that reads
such a byte shows it in its results.  After the step every live value must still have the bits it
was computed with, and all bytes but those of its outputs and workspaces must still be poisoned
(`GUARD` of them follow each workspace), so a kernel that writes elsewhere is found at once.  The
output of a step that
does not run (a view, a join in place, ...) must be bit for bit what the operator computes from the
values of its inputs.  MemorySanitizer and AddressSanitizer find the same errors in C programs:
uses of uninitialised memory, and writes out of bounds.

Only memory of CPUs is poisoned.  Networks run several times slower, and take twice the memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..base import Array, MXNetError
from ..core.config import CONFIG
from ..ops.device import CPU, device_of
from ..ops.op import Call
from ..passes.memory.plan_step import NONE
from ..passes.memory.verify import Range, check_plan, range_of_strides

if TYPE_CHECKING:
    from ..context import Context
    from .arena import DeviceArray
    from .bound_arrays import BoundArrays, EntryArray
    from .pipeline import CompiledGraph

__all__ = ["Materialized", "Sanitizer", "checks"]

POISON = 0xFF


class Materialized:
    """The layout of the arrays that kernels are called with (see `passes.memory.verify`)."""

    def __init__(self, bound: BoundArrays):
        self.bound = bound

    def entry(self, eid: int) -> Range:
        return self._range(self.bound.arrays[eid], self.bound.compiled.devices[eid])

    def scratch(self, index: int) -> list[Range]:
        compiled = self.bound.compiled
        ctx = compiled.context_of(compiled.nodes[index])
        return [self._range(array, ctx) for array in self.bound.workspaces(index)]

    def _range(self, array: DeviceArray, ctx: Context) -> Range:
        device = device_of(ctx)
        if not isinstance(array, np.ndarray):
            start, end = device.span(array)
            return Range(str(ctx), start, end - start)
        if array.size == 0:
            return Range("memory", 0, 0)
        return range_of_strides("memory", device.span(array)[0], array.shape, array.strides,
                                array.itemsize)


def checks(bound: BoundArrays, keep: Collection[int] = ()) -> list[Sanitizer]:
    """Verify the plan, and return watchers of the steps, as NBMOD_CHECK asks.

    Raises MXNetError if the arrays of the steps let one destroy what another reads.  `keep` are the
    entries that must be intact when all steps have run.
    """
    if CONFIG.check:
        compiled = bound.compiled
        check_plan(compiled.plan_steps, compiled.sizes, compiled.plan, keep, Materialized(bound))
    return [Sanitizer(bound)] if CONFIG.check > 1 else []


class Sanitizer:
    """Watches the memory of one bound graph.

    `values` are copies of what live entries hold: those that have been computed, and that a later
    step reads or users can see.  `blocks` is the memory to poison, `free` has a truth value for
    each of its bytes, and `masks` those of the bytes of an array, by the id of the array.
    """

    def __init__(self, bound: BoundArrays):
        self.blocks = [block for block in bound.memory.blocks
                       if isinstance(block, np.ndarray) and block.size]
        self.free = [np.empty(block.size, bool) for block in self.blocks]
        self.masks: dict[int, tuple[DeviceArray, Array]] = {}
        self.values: dict[int, Array] = {}
        self.last = _last_reads(bound.compiled)
        self.operands = {eid: step for step in bound.compiled.plan_steps if step.sums
                         for eid in step.inputs}

    def before(self, bound: BoundArrays, index: int) -> None:
        """Poison what no live value owns."""
        compiled = bound.compiled
        if index == 0:
            self.values.clear()
        elif index == compiled.num_forward:
            # Users may have written to outputs, and values are restored for a second backward pass.
            for eid in self.values.keys() & set(compiled.outputs) | compiled.overwritten:
                if isinstance(bound.arrays[eid], np.ndarray):
                    self.values[eid] = bound.arrays[eid].copy()
        self._poison(bound)
        if index in compiled.plan.views:
            self._require_done(bound, index)

    def after(self, bound: BoundArrays, index: int, noted: None = None) -> None:
        """Require that live values are intact."""
        compiled = bound.compiled
        step = compiled.plan_steps[index]
        self._require_poison(bound, index)
        for eid in compiled.plan.add.intersection(step.outputs):
            for other in self.operands[eid].inputs:
                self.values.pop(other, None)        # it has become the sum
        for eid in [eid for eid in self.values if self.last[eid] <= index]:
            del self.values[eid]
        # The operator may change its states, such as moving averages.
        op = compiled.nodes[index].required_op
        states = step.inputs if op.writes_aux(bound.modes.current.is_train) else ()
        written = {*step.outputs, *states}
        for eid, value in self.values.items():
            if eid not in written and not _equal_bits(bound.arrays[eid], value):
                raise MXNetError(f"NBMOD_CHECK=2: step {index} writes over {_name(compiled, eid)}, "
                                 "which is none of its outputs and is read later")
        # Users may change arrays of their own, and GPUs are left alone.
        for eid in written:
            if (eid != NONE and compiled.plan.storage[eid] != NONE
                    and isinstance(bound.arrays[eid], np.ndarray)
                    and self.last.get(eid, -1) > index):
                self.values[eid] = bound.arrays[eid].copy()

    def _poison(self, bound: BoundArrays) -> None:
        """Overwrite all bytes that no live value owns."""
        for block, free in self._free([bound.arrays[eid] for eid in self.values]):
            block[free] = POISON

    def _require_poison(self, bound: BoundArrays, index: int) -> None:
        """Require that a step has written its outputs and workspaces only."""
        compiled = bound.compiled
        step = compiled.plan_steps[index]
        owned = [bound.arrays[eid] for eid in (*self.values, *step.outputs) if eid != NONE]
        for block, free in self._free(owned, bound.workspaces(index)):
            if (block[free] != POISON).any():
                raise MXNetError(f"NBMOD_CHECK=2: step {index}, {compiled.nodes[index].name}, "
                                 "writes to memory that is neither an output nor a workspace")

    def _free(self, owned: Sequence[DeviceArray], workspaces: Sequence[DeviceArray] = ()
              ) -> Iterator[tuple[Array, Array]]:
        """Each block, and a mask of its bytes that none of the arrays has."""
        for mask in self.free:
            mask.fill(True)
        for array in owned:
            if id(array) not in self.masks:
                self.masks[id(array)] = array, self._mask(array)    # held: no other has its id
            self.masks[id(array)][1].fill(False)
        for array in workspaces:
            self._mask(array).fill(False)
        yield from zip(self.blocks, self.free, strict=True)

    def _mask(self, array: DeviceArray) -> Array:
        """The part of `free` that stands for the bytes of an array; none if it is elsewhere."""
        if isinstance(array, np.ndarray) and array.size:
            address = CPU.span(array)[0]
            for block, free in zip(self.blocks, self.free, strict=True):
                start, end = CPU.span(block)
                if start <= address < end:
                    return np.lib.stride_tricks.as_strided(
                        free[address - start:], (*array.shape, array.itemsize),
                        (*array.strides, 1))
        return np.empty(0, bool)

    def _require_done(self, bound: BoundArrays, index: int) -> None:
        """A step that does not run: its outputs hold what it would compute."""
        compiled = bound.compiled
        step, node = compiled.plan_steps[index], compiled.nodes[index]
        ctx = compiled.context_of(node)
        if step.sums or ctx.is_gpu:
            return
        ins: list[EntryArray] = [self.values.get(eid, bound.arrays[eid]) for eid in step.inputs]
        specs, op = compiled.output_specs(node), node.required_op
        outs: list[EntryArray] = [None if eid == NONE else CPU.empty(*compiled.specs[eid])
                                  for eid in step.outputs]
        if op.view:
            np.copyto(outs[0], np.ascontiguousarray(ins[0]).reshape(outs[0].shape))
        else:
            ins = [np.ascontiguousarray(array).reshape(array.shape) for array in ins]
            workspace = [CPU.empty(*spec) for spec in compiled.workspaces[index]]
            choice = compiled.choices[index]
            assert choice is not None
            choice.prepare(ins, outs, Call(bound.modes.current, workspace, [False] * len(outs),
                                           specs, ctx, {}))()
        for eid, expected in zip(step.outputs, outs, strict=True):
            if eid != NONE and not _equal_bits(bound.arrays[eid], expected):
                raise MXNetError(f"NBMOD_CHECK=2: step {index} does not run, but its output "
                                 f"{_name(compiled, eid)} is not in memory")


def _last_reads(compiled: CompiledGraph) -> dict[int, float]:
    """Entry -> the last step that reads it.

    What the backward pass reads of the forward pass, and keeps, lives on: it may run again.
    """
    steps, num_forward = compiled.plan_steps, compiled.num_forward
    intact = {eid for step in steps[:num_forward] for eid in step.outputs} - compiled.overwritten
    last: dict[int, float] = {}
    for index, step in enumerate(steps):
        again = intact if index >= num_forward else ()
        last.update((eid, np.inf if eid in again else index) for eid in step.inputs)
    return last | dict.fromkeys(compiled.outputs, np.inf)


def _name(compiled: CompiledGraph, eid: int) -> str:
    graph = compiled.graph
    node = next(node for node in graph.nodes if eid in graph.output_eids(node))
    return f"output {eid - graph.output_eids(node).start} of {node.describe()}"


def _equal_bits(array: Array, other: Array) -> bool:
    """Whether two arrays of one shape and type have the same bits; NaN equals NaN."""
    return np.ascontiguousarray(array).tobytes() == np.ascontiguousarray(other).tobytes()
