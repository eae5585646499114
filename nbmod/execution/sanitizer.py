"""What NBMOD_CHECK looks for: memory that is read or written by a step that has no right to.

`NBMOD_CHECK=1` replays the plan when a network is bound, on the addresses and strides of the arrays
that its kernels get (`Materialized`, `passes.check`).  That proves that the plan is right if every
kernel reads its inputs and writes its outputs, and nothing else.

`NBMOD_CHECK=2` checks that, too, while the network runs (`Sanitizer`).  Before a step every byte of
the arena that belongs to no live value is poisoned, that is, set to 0xFF, which is NaN in floating
point: uninitialised outputs, scratch, and values that nothing reads any more.  A kernel that reads
such a byte shows it in its results.  After the step every live value must still have the bits it
was computed with, so a kernel that writes elsewhere is found at once.  The output of a step that
does not run (a view, a join in place, ...) must be bit for bit what the operator computes from the
values of its inputs.  MemorySanitizer and AddressSanitizer find the same errors in C programs:
uses of uninitialised memory, and writes out of bounds.

Only memory of CPUs is poisoned.  Networks run several times slower, and take twice the memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any
from weakref import proxy

import numpy as np

from ..base import MXNetError
from ..ops.device import CPU, device_of
from ..ops.op import Call
from ..passes.memory.plan_step import NONE
from ..passes.memory.verify import Range, check_plan, range_of_strides

if TYPE_CHECKING:
    from .steps import Program

__all__ = ["Materialized", "Sanitizer", "check_arrays"]

POISON = 0xFF


class Materialized:
    """The layout of the arrays that a program's kernels are called with (see `passes.check`)."""

    def __init__(self, program: Program):
        self.program = program

    def entry(self, eid: int) -> Range:
        return self._range(self.program.arrays[eid], self.program.context[eid])

    def scratch(self, index: int) -> list[Range]:
        program = self.program
        ctx = program._context_of(program.computed[index])
        return [self._range(program.memory.array(sid, spec), ctx) for sid, spec
                in zip(program.plan.scratch[index], program.scratch[index], strict=True)]

    def _range(self, array: Any, ctx: Any) -> Range:
        device = device_of(ctx)
        if not isinstance(array, np.ndarray):
            start, end = device.span(array)
            return Range(str(ctx), start, end - start)
        if array.size == 0:
            return Range("memory", 0, 0)
        return range_of_strides("memory", device.span(array)[0], array.shape, array.strides,
                                array.itemsize)


def check_arrays(program: Program, keep: Collection[int]) -> None:
    """Raise MXNetError if the arrays of a program's steps let one destroy what another reads.

    `keep` are the entries that must be intact when all steps have run.
    """
    check_plan(program.plan_steps, [spec.nbytes for spec in program.specs], program.plan, keep,
               Materialized(program))


class Sanitizer:
    """Runs the steps of one program and watches its memory.

    `values` are copies of what live entries hold: those that have been computed, and that a later
    step reads or users can see.  `blocks` is the memory to poison.
    """

    program: Program

    def __init__(self, program: Program, repeats: bool = False, num_forward: int = 0):
        self.program = proxy(program)
        self.blocks = [block for block in program.memory.blocks
                       if isinstance(block, np.ndarray) and block.size]
        self.values: dict[int, np.ndarray] = {}
        self.last = self._last_reads(repeats, num_forward)
        self.operands = {eid: step for step in program.plan_steps if step.sums
                         for eid in step.inputs}

    def _last_reads(self, repeats: bool, num_forward: int) -> dict[int, float]:
        """Entry -> the last step that reads it.

        Where backward may run again, what it reads of forward lives on.
        """
        steps = self.program.plan_steps
        forward = {eid for step in steps[:num_forward] for eid in step.outputs}
        last: dict[int, float] = {}
        for index, step in enumerate(steps):
            again = forward if repeats and index >= num_forward else ()
            last.update((eid, np.inf if eid in again else index) for eid in step.inputs)
        return last | dict.fromkeys(self.program.ends, np.inf)

    def begin(self) -> None:
        """Steps are about to run; users may have written to outputs since the last of them."""
        for eid in self.values.keys() & set(self.program.ends):
            self.values[eid] = self.program.arrays[eid].copy()

    def run(self, index: int) -> None:
        """Run one step between the checks."""
        program = self.program
        step, run = program.plan_steps[index], program.steps[index].run
        if index == 0:
            self.values.clear()
        self._poison()
        if run is None:
            self._require_done(index)
        else:
            run()
        for eid in program.plan.add.intersection(step.outputs):
            for other in self.operands[eid].inputs:
                self.values.pop(other, None)        # it has become the sum
        for eid in [eid for eid in self.values if self.last[eid] <= index]:
            del self.values[eid]
        written = {*step.outputs, *self._states(index)}
        self._require_intact(index, written)
        for eid in written:
            if eid != NONE and self._is_watched(eid) and self.last.get(eid, -1) > index:
                self.values[eid] = program.arrays[eid].copy()

    def _states(self, index: int) -> Sequence[int]:
        """Inputs that the operator of a step declares it may change, such as moving averages."""
        op = self.program.computed[index].op
        changes = op is not None and op.writes_aux(self.program.mode.is_train)
        return self.program.plan_steps[index].inputs if changes else ()

    def _is_watched(self, eid: int) -> bool:
        """Users may change arrays of their own, and GPUs are left alone."""
        plan = self.program.plan
        return plan.storage[eid] != NONE and isinstance(self.program.arrays[eid], np.ndarray)

    def _poison(self) -> None:
        """Overwrite all bytes that no live value owns."""
        live = [self.program.arrays[eid] for eid in self.values]
        for block in self.blocks:
            start, end = CPU.span(block)
            free = np.ones(block.size, bool)
            for array in live:
                address = CPU.span(array)[0]
                if start <= address < end:
                    np.lib.stride_tricks.as_strided(
                        free[address - start:], (*array.shape, array.itemsize),
                        (*array.strides, 1))[...] = False
            block[free] = POISON

    def _require_intact(self, index: int, written: Collection[int]) -> None:
        for eid, value in self.values.items():
            if eid not in written and not _equal_bits(self.program.arrays[eid], value):
                raise MXNetError(f"NBMOD_CHECK=2: step {index} writes over {self._name(eid)}, "
                                 "which is none of its outputs and is read later")

    def _require_done(self, index: int) -> None:
        """A step that does not run: its outputs hold what it would compute."""
        program = self.program
        step, node = program.plan_steps[index], program.computed[index]
        ctx = program._context_of(node)
        if step.sums or ctx.is_gpu:
            return
        ins = [self.values.get(eid, program.arrays[eid]) for eid in step.inputs]
        specs = [program.specs[eid] for eid in program.graph.output_eids(node)]
        outs: list[Any] = [None if eid == NONE else CPU.empty(*program.specs[eid])
                           for eid in step.outputs]
        op: Any = node.op
        if op.view:
            np.copyto(outs[0], np.ascontiguousarray(ins[0]).reshape(outs[0].shape))
        else:
            ins = [np.ascontiguousarray(array).reshape(array.shape) for array in ins]
            scratch = [CPU.empty(*spec) for spec in program.scratch[index]]
            CPU.prepare(op, ins, outs, Call(program.mode, scratch, [False] * len(outs), specs,
                                            ctx, {}))()
        for eid, expected in zip(step.outputs, outs, strict=True):
            if eid != NONE and not _equal_bits(program.arrays[eid], expected):
                raise MXNetError(f"NBMOD_CHECK=2: step {index} does not run, but its output "
                                 f"{self._name(eid)} is not in memory")

    def _name(self, eid: int) -> str:
        node = next(node for node in self.program.graph.nodes
                    if eid in self.program.graph.output_eids(node))
        return f"output {eid - self.program.graph.output_eids(node).start} of {node.describe()}"


def _equal_bits(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of one shape and type have the same bits; NaN equals NaN."""
    return np.ascontiguousarray(array).tobytes() == np.ascontiguousarray(other).tobytes()
