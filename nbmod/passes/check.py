"""An independent check of a memory plan: replay it and see that nobody reads spoiled memory.

Written without looking at how the planner decides.  Memory is replayed as "which entry's value
stands in this address range": writing a range spoils every other entry that overlaps it, and each
read must find its entry unspoiled.  Views and accumulations are the two declared ways in which
several entries may stand in one range at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ..base import MXNetError
from .memory import Plan
from .steps import NONE, Piece, PlanStep

__all__ = ["check_plan", "survives"]


class Range(NamedTuple):
    """`rows` times `size` bytes of some memory, `step` bytes apart."""

    where: object
    start: int
    size: int
    rows: int = 1
    step: int = 0

    def part(self, piece: Piece, nbytes: int) -> Range:
        """A piece of it; None of one whose rows are apart in another way."""
        if self.rows > 1 and piece.rows != self.rows:
            return self._replace(size=-1)
        return Range(self.where, self.start + piece.offset, nbytes // piece.rows, piece.rows,
                     self.step or piece.step)

    @property
    def end(self) -> int:
        return self.start + (self.rows - 1) * self.step + self.size


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

    def memory(self, sid: int, size: int) -> Range:
        """The first bytes of a storage."""
        storage = self.plan.storages[sid]
        if storage.held:
            return Range(("held", sid), 0, size)
        if storage.offset < 0 or storage.offset + size > self.plan.arena[storage.space]:
            raise MXNetError(f"storage {sid} lies outside its arena")
        return Range(("arena", storage.space), storage.offset, size)

    def range_of(self, eid: int) -> Range:
        sid, size = self.plan.storage[eid], self.sizes[eid]
        if eid not in self.plan.pieces:
            return self.memory(sid, size)
        whole = self.memory(sid, self.plan.storages[sid].size)
        found = whole.part(self.plan.pieces[eid], size)
        if found.start < whole.start or found.end > whole.end:
            raise MXNetError(f"entry {eid} lies outside its storage {sid}")
        return found

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
            self._look(step, where)
            return
        scratch = [self.memory(sid, size) for sid, size
                   in zip(self.plan.scratch[index], step.scratch, strict=True)]
        written = [eid for eid in step.outputs
                   if eid != NONE and self.plan.storage[eid] != NONE]
        self._no_hidden_overlap(step, written, scratch, where)
        for target in scratch:
            self.write(target, ())
        for eid in written:
            partners = self._partners(eid) if eid in self.plan.add else ()
            for target in self._targets(step, eid):
                self.write(target, partners)
        for eid in written:
            self._enter(eid)

    def _look(self, step: PlanStep, where: str) -> None:
        """A step that does not run: its outputs are where its inputs are."""
        placed = [eid for eid in step.outputs if eid != NONE and self.plan.storage[eid] != NONE]
        for eid in placed:
            self._enter(eid)
        for whole, eid, place in self._places(step):
            if whole in self.valid and self.valid.get(eid) != place:
                raise MXNetError(f"memory plan: {where} does not run, but entry {eid} is not where "
                                 f"it is in entry {whole}")

    def _places(self, step: PlanStep) -> Iterator[tuple[int, int, Range]]:
        """(whole, piece, where the piece belongs) of what a step joins or cuts."""
        joined = bool(step.joins)
        whole = (step.outputs if joined else step.inputs)[0] if step.rows else NONE
        if whole == NONE or self.plan.storage[whole] == NONE:
            return
        row = self.sizes[whole] // step.rows if step.rows > 1 else 0
        eids, offsets = (step.inputs, step.joins) if joined else (step.outputs, step.cuts)
        for eid, offset in zip(eids, offsets, strict=True):
            if eid != NONE:
                yield whole, eid, self.range_of(whole).part(Piece(offset, step.rows, row),
                                                            self.sizes[eid])

    def _targets(self, step: PlanStep, eid: int) -> list[Range]:
        """What a step writes of an output: of joined inputs only those that are not in place."""
        if not step.joins or step.outputs[0] != eid:
            return [self.range_of(eid)]
        places = list(self._places(step))
        if any(place.size < 0 for _, _, place in places):
            return [self.range_of(eid)]
        return [place for _, piece, place in places if self.valid.get(piece) != place]

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
        self.valid[eid] = self.range_of(eid)

    def _partners(self, eid: int) -> list[int]:
        """Operands of the sum that `eid` is accumulated into: their value becomes the sum."""
        return [other for step in self.steps if step.sums and eid in step.inputs
                for other in step.inputs]

    def _no_hidden_overlap(self, step: PlanStep, written: list[int], scratch: list[Range],
                           where: str) -> None:
        """While a step runs, its outputs and scratch touch no input except declared partners."""
        allowed = {(step.outputs[o], step.inputs[i]) for i, o in step.inplace}
        outs = [(eid, target) for eid in written for target in self._targets(step, eid)]
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
    if a.where != b.where or a.end <= b.start or b.end <= a.start:
        return False
    return any(a.start + i * a.step < b.start + j * b.step + b.size
               and b.start + j * b.step < a.start + i * a.step + a.size
               for i in range(a.rows) for j in range(b.rows))
