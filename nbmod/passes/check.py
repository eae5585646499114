"""An independent check of a memory plan: replay it and see that nobody reads spoiled memory.

Written without looking at how the planner decides.  Memory is replayed as "which entry's value
stands in this address range": writing a range spoils every other entry that overlaps it, and each
read must find its entry unspoiled.  Views and accumulations are the two declared ways in which
several entries may stand in one range at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..base import MXNetError
from .memory import NONE, Plan, PlanStep

__all__ = ["check_plan", "survives"]

Range = tuple[object, int, int]


def check_plan(steps: Sequence[PlanStep], sizes: Sequence[int], plan: Plan,
               keep: Collection[int] = ()) -> None:
    """Raise MXNetError naming the step and entry at the first conflict in `plan`."""
    replay = _Replay(steps, sizes, plan)
    for index in range(len(steps)):
        replay.step(index)
    for eid in keep:
        replay.read(eid, "the end")


def survives(steps: Sequence[PlanStep], sizes: Sequence[int], plan: Plan, start: int) -> bool:
    """Whether the steps from `start` on could run twice: what they read of the steps before them
    still stands in memory when all have run."""
    replay = _Replay(steps, sizes, plan)
    for index in range(len(steps)):
        replay.step(index)
    before = {eid for step in steps[:start] for eid in step.outputs}
    read = {eid for step in steps[start:] for eid in step.inputs}
    return not before & read & replay.spoiled


class _Replay:
    def __init__(self, steps: Sequence[PlanStep], sizes: Sequence[int], plan: Plan):
        self.steps, self.sizes, self.plan = steps, sizes, plan
        self.valid: dict[int, Range] = {}
        self.spoiled: set[int] = set()

    def range_of(self, sid: int, size: int) -> Range:
        storage = self.plan.storages[sid]
        if storage.held:
            return ("held", sid), 0, size
        if storage.offset < 0 or storage.offset + size > self.plan.arena[storage.space]:
            raise MXNetError(f"storage {sid} lies outside its arena")
        return ("arena", storage.space), storage.offset, storage.offset + size

    def read(self, eid: int, where: str) -> None:
        if eid in self.spoiled:
            raise MXNetError(f"memory plan: entry {eid} is overwritten before {where} reads it")

    def write(self, target: Range, allowed: Collection[int]) -> None:
        for eid, held in list(self.valid.items()):
            if _overlap(held, target) and eid not in allowed:
                del self.valid[eid]
                self.spoiled.add(eid)

    def step(self, index: int) -> None:
        step, where = self.steps[index], f"step {index}"
        self._stays_in_its_space(index, where)
        for eid in step.inputs:
            self.read(eid, where)
        if step.sums and index not in self.plan.views and self.plan.add & set(step.inputs):
            raise MXNetError(f"memory plan: {where} sums what has been summed already")
        if index in self.plan.views:
            if step.outputs[0] != NONE and self.plan.storage[step.outputs[0]] != NONE:
                self._enter(step.outputs[0])
            return
        scratch = [self.range_of(sid, size) for sid, size
                   in zip(self.plan.scratch[index], step.scratch, strict=True)]
        written = [eid for eid in step.outputs
                   if eid != NONE and self.plan.storage[eid] != NONE]
        self._no_hidden_overlap(step, written, scratch, where)
        for target in scratch:
            self.write(target, ())
        for eid in written:
            partners = self._partners(eid) if eid in self.plan.add else ()
            self.write(self.range_of(self.plan.storage[eid], self.sizes[eid]), partners)
        for eid in written:
            self._enter(eid)

    def _stays_in_its_space(self, index: int, where: str) -> None:
        """What a step writes, or passes on as a view, is memory of its own device."""
        step = self.steps[index]
        outputs = [self.plan.storage[eid] for eid in step.outputs if eid != NONE]
        for sid in [*outputs, *self.plan.scratch[index]]:
            space = step.space if sid == NONE else self.plan.storages[sid].space
            if space != step.space:
                raise MXNetError(f"memory plan: {where} is in space {step.space}, but storage "
                                 f"{sid} in space {space}")

    def _enter(self, eid: int) -> None:
        self.valid[eid] = self.range_of(self.plan.storage[eid], self.sizes[eid])

    def _partners(self, eid: int) -> list[int]:
        """Operands of the sum that `eid` is accumulated into: their value becomes the sum."""
        return [other for step in self.steps if step.sums and eid in step.inputs
                for other in step.inputs]

    def _no_hidden_overlap(self, step: PlanStep, written: list[int], scratch: list[Range],
                           where: str) -> None:
        """While a step runs, its outputs and scratch touch no input except declared partners."""
        allowed = {(step.outputs[o], step.inputs[i]) for i, o in step.inplace}
        outs = [(eid, self.range_of(self.plan.storage[eid], self.sizes[eid])) for eid in written]
        targets = outs + [(NONE, target) for target in scratch]
        for eid in step.inputs:
            for out, target in targets:
                if eid in self.valid and _overlap(self.valid[eid], target):
                    if (out, eid) not in allowed or self.valid[eid] != target:
                        raise MXNetError(f"memory plan: {where} writes over its input {eid}")
        for position, (_, first) in enumerate(targets):
            if any(_overlap(first, second) for _, second in targets[position + 1:]):
                raise MXNetError(f"memory plan: outputs or scratch of {where} overlap")


def _overlap(a: Range, b: Range) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]
