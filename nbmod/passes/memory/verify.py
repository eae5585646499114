"""An independent check of a memory plan: a symbolic replay of the program on address ranges.

Written without looking at how the planner decides, and without believing it.  The replay knows
which entry's value each address range holds.  A step that runs writes its outputs and scratch,
which destroys every other value that overlaps them; each read must find its value intact.  A step
that does not run is legal only if its output already is in memory:

    view    the output occupies exactly the bytes of the input
    join    every input occupies its rows of the output
    cut     every output occupies its rows of the input
    sum     one gradient has been accumulated into the other, in the bytes of the sum

Ranges come from a `MemoryLayout`: `Planned` takes them from the plan, which is all that tests of
the planner have; `Materialized` from the addresses and strides of the arrays that kernels are
called with, so that what turns a plan into arrays is checked, too.

Assumes: `steps` is what runs, and external entries are memories of their own, which user's arrays
need not be: writes to those are not checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from ...base import MXNetError
from .plan import MemoryPlan
from .plan_step import NONE, AliasedRows, PlanStep

__all__ = ["MemoryLayout", "Planned", "Range", "check_plan", "overwritten",
           "range_of_strides"]


class Range(NamedTuple):
    """`rows` times `size` bytes of the memory `where`, `step` bytes apart.

    Rows that touch are one row, so that equal bytes are equal ranges.
    """

    where: object
    start: int
    size: int
    rows: int = 1
    step: int = 0

    def part(self, piece: AliasedRows, nbytes: int) -> Range:
        """A piece of it; one of size -1 if its rows are not those of the whole."""
        if self.rows > 1 and piece.rows != self.rows:
            return self._replace(size=-1)
        start, size, step = self.start + piece.offset, nbytes // piece.rows, self.step or piece.step
        if piece.rows == 1 or step == size:
            return Range(self.where, start, nbytes)
        return Range(self.where, start, size, piece.rows, step)

    @property
    def end(self) -> int:
        return self.start + (self.rows - 1) * self.step + self.size


def range_of_strides(where: object, start: int, shape: Sequence[int], strides: Sequence[int],
                     itemsize: int) -> Range:
    """The range of an array whose trailing axes are contiguous and whose leading axes are rows.

    Raises MXNetError for any other strides: no kernel could be told of them.
    """
    size, axis = itemsize, len(shape)
    while axis and (shape[axis - 1] == 1 or strides[axis - 1] == size):
        axis -= 1
        size *= shape[axis]
    rows, step, end = 1, 0, 0
    for k in reversed(range(axis)):
        if shape[k] == 1:
            continue
        if not step:
            step = end = strides[k]
        if strides[k] != end:
            raise MXNetError(f"memory plan: an array of shape {tuple(shape)} has strides "
                             f"{tuple(strides)}, which are not rows of equal distance")
        rows, end = rows * shape[k], end * shape[k]
    return Range(where, start, size, rows, step)


class MemoryLayout(Protocol):
    """Where everything is."""

    def entry(self, eid: int) -> Range:
        """The range of an entry."""

    def scratch(self, index: int) -> Sequence[Range]:
        """The ranges of the scratch arrays of a step."""


class Planned:
    """The layout that a plan describes; external entries are memories of their own."""

    def __init__(self, steps: Sequence[PlanStep], sizes: Sequence[int], plan: MemoryPlan):
        self.steps, self.sizes, self.plan = steps, sizes, plan

    def _storage(self, sid: int, size: int) -> Range:
        """The first bytes of a storage."""
        storage = self.plan.storages[sid]
        if storage.held:
            return Range(("held", sid), 0, size)
        if storage.offset < 0 or storage.offset + size > self.plan.arena[storage.space]:
            raise MXNetError(f"storage {sid} is outside its arena")
        return Range(("arena", storage.space), storage.offset, size)

    def entry(self, eid: int) -> Range:
        views = []
        while self.plan.storage[eid] == NONE and eid in self.plan.view_of:
            views.append(eid)
            eid = self.plan.view_of[eid]
        extent = self._stored(eid)
        for view in reversed(views):
            extent = self._part(view, extent)
        return extent

    def _stored(self, eid: int) -> Range:
        """The range of an entry that is no view of an external one."""
        sid, size = self.plan.storage[eid], self.sizes[eid]
        if sid == NONE:
            return Range(("external", eid), 0, size)
        is_part = eid in self.plan.pieces
        whole = self._storage(sid, self.plan.storages[sid].size if is_part else size)
        return self._part(eid, whole)

    def _part(self, eid: int, whole: Range) -> Range:
        """The range of an entry in what it is a piece or a view of."""
        size, piece = self.sizes[eid], self.plan.pieces.get(eid)
        if piece is None:
            return whole._replace(size=size)
        extent = whole.part(piece, size)
        if extent.start < whole.start or extent.end > whole.end:
            raise MXNetError(f"entry {eid} is outside its storage {self.plan.storage[eid]}")
        return extent

    def scratch(self, index: int) -> list[Range]:
        return [self._storage(sid, size) for sid, size
                in zip(self.plan.scratch[index], self.steps[index].scratch, strict=True)]


def check_plan(steps: Sequence[PlanStep], sizes: Sequence[int], plan: MemoryPlan,
               keep: Collection[int] = (), layout: MemoryLayout | None = None) -> None:
    """Raise MXNetError naming the step and entry at the first conflict in `plan`.

    The values of `keep` must be intact after the last step.  `layout` tells where entries and
    scratch are; by default they are where the plan says.
    """
    replay = _Replay(steps, sizes, plan, layout)
    for index in range(len(steps)):
        replay.step(index)
    for eid in keep:
        replay.read(eid, "the end")


def overwritten(steps: Sequence[PlanStep], sizes: Sequence[int], plan: MemoryPlan, start: int
                ) -> set[int]:
    """Entries that the steps from `start` on read of the steps before them, and that are no longer
    intact when all have run: they cannot run twice unless these are restored."""
    replay = _Replay(steps, sizes, plan)
    for index in range(len(steps)):
        replay.step(index)
    before = {eid for step in steps[:start] for eid in step.outputs}
    read = {eid for step in steps[start:] for eid in step.inputs}
    return before & read & replay.spoiled


class _Replay:
    """The program, step by step; `valid` are the values that are in memory, and where (`ends`)."""

    def __init__(self, steps: Sequence[PlanStep], sizes: Sequence[int], plan: MemoryPlan,
                 layout: MemoryLayout | None = None):
        self.steps, self.sizes, self.plan = steps, sizes, plan
        self.layout = layout or Planned(steps, sizes, plan)
        self.valid: dict[int, Range] = {}
        self.ends: dict[int, int] = {}
        self.spoiled: set[int] = set()
        self.sums = {eid: step for step in steps if step.sums for eid in step.inputs}

    def is_planned(self, eid: int) -> bool:
        """Whether an entry is in memory of the plan, rather than in a user's array."""
        return eid != NONE and self.plan.storage[eid] != NONE

    def read(self, eid: int, where: str) -> None:
        if eid in self.spoiled:
            raise MXNetError(f"memory plan: entry {eid} is overwritten before {where} reads it")

    def write(self, target: Range) -> None:
        start, end = target.start, target.end       # most values are elsewhere: look at these first
        overwritten = [eid for eid, held in self.valid.items()
                       if held.start < end and start < self.ends[eid] and _overlap(held, target)]
        for eid in overwritten:
            del self.valid[eid]
        self.spoiled.update(overwritten)

    def step(self, index: int) -> None:
        step, where = self.steps[index], f"step {index}"
        self._stays_in_its_space(index, where)
        if index in self.plan.views:
            self._is_done(step, where)
            for eid in step.outputs:
                self._enter(eid)
            return
        for eid in step.inputs:
            self.read(eid, where)
        if step.sums and self.plan.add & set(step.inputs):
            raise MXNetError(f"memory plan: {where} sums what has been summed already")
        written = [eid for eid in step.outputs if self.is_planned(eid)]
        scratch = self.layout.scratch(index)
        self._no_hidden_overlap(step, written, scratch, where)
        for target in scratch:
            self.write(target)
        for eid in written:
            for target in self._targets(step, eid):
                self.write(target)
        for eid in written:
            self._enter(eid)

    def _enter(self, eid: int) -> None:
        if self.is_planned(eid):
            self.valid[eid] = held = self.layout.entry(eid)
            self.ends[eid] = held.end

    # -- steps that do not run --------------------------------------------------------------

    def _is_done(self, step: PlanStep, where: str) -> None:
        """The result of a step that does not run is in memory already."""
        if step.sums:
            added = self.plan.add.intersection(step.inputs)
            for eid in added:
                self.read(eid, where)
            if not added or not all(self._same(eid, step.outputs[0]) for eid in step.inputs):
                raise MXNetError(f"memory plan: {where} does not run, but nothing has added its "
                                 f"inputs {list(step.inputs)} up")
            return
        for eid in step.inputs:
            self.read(eid, where)
        if step.view:
            source, out = step.inputs[0], step.outputs[0]
            if out != NONE and not self._same(source, out):
                raise MXNetError(f"memory plan: {where} does not run, but its output {out} is not "
                                 f"where its input {source} is")
        elif not (step.concat_offsets or step.split_offsets):
            raise MXNetError(f"memory plan: {where} does not run, but it is no view, join, cut "
                             "or sum")
        for whole, eid, target in self._pieces(step):
            if self.layout.entry(eid) != target:
                raise MXNetError(f"memory plan: {where} does not run, but entry {eid} is not where "
                                 f"it is in entry {whole}")

    def _same(self, eid: int, other: int) -> bool:
        """Whether two entries are the same bytes."""
        return self.sizes[eid] == 0 or self.layout.entry(eid) == self.layout.entry(other)

    def _pieces(self, step: PlanStep) -> Iterator[tuple[int, int, Range]]:
        """Triples (whole, piece, range of the piece) of a step that concatenates or splits."""
        offsets = step.concat_offsets or step.split_offsets
        if not offsets:
            return
        wholes, eids = ((step.outputs, step.inputs) if step.concat_offsets else
                        (step.inputs, step.outputs))
        whole = wholes[0]
        if whole == NONE:
            return
        row = self.sizes[whole] // step.rows if step.rows > 1 else 0
        for eid, offset in zip(eids, offsets, strict=True):
            if eid != NONE and self.sizes[eid]:
                yield whole, eid, self.layout.entry(whole).part(AliasedRows(offset, step.rows, row),
                                                                self.sizes[eid])

    # -- steps that run ---------------------------------------------------------------------

    def _targets(self, step: PlanStep, eid: int) -> list[Range]:
        """Ranges of an output that a step writes: of joined inputs those that are not in place."""
        if not step.concat_offsets or step.outputs[0] != eid:
            return [self.layout.entry(eid)]
        pieces = list(self._pieces(step))
        if any(target.size < 0 for _, _, target in pieces):
            return [self.layout.entry(eid)]
        return [target for _, piece, target in pieces if self.valid.get(piece) != target]

    def _stays_in_its_space(self, index: int, where: str) -> None:
        """Require that outputs of a step, also views, are in memory of its own device."""
        step = self.steps[index]
        outputs = [self.plan.storage[eid] for eid in step.outputs if eid != NONE]
        for sid in [*outputs, *self.plan.scratch[index]]:
            space = step.space if sid == NONE else self.plan.storages[sid].space
            if space != step.space:
                raise MXNetError(f"memory plan: {where} is in space {step.space}, but storage "
                                 f"{sid} in space {space}")

    def _no_hidden_overlap(self, step: PlanStep, written: list[int], scratch: Sequence[Range],
                           where: str) -> None:
        """While a step runs, its outputs and scratch touch no input except declared partners."""
        pairs = {(step.outputs[o], step.inputs[i]) for i, o in step.inplace}
        outs = [(eid, target) for eid in written for target in self._targets(step, eid)]
        targets = outs + [(NONE, target) for target in scratch]
        for eid in filter(self.valid.get, step.inputs):
            for out, target in targets:
                if _overlap(self.valid[eid], target) and not (
                        (out, eid) in pairs and self.valid[eid] == target):
                    raise MXNetError(f"memory plan: {where} writes over its input {eid}")
        for position, (_, first) in enumerate(targets):
            if any(_overlap(first, second) for _, second in targets[position + 1:]):
                raise MXNetError(f"memory plan: outputs or scratch of {where} overlap")
        for eid in self.plan.add.intersection(written):
            if not any(self._same(eid, other) and other in self.valid
                       for other in self.sums[eid].inputs if other != eid):
                raise MXNetError(f"memory plan: {where} adds to entry {eid}, but the other "
                                 "operand of the sum is not there")


def _overlap(a: Range, b: Range) -> bool:
    """Whether two ranges share a byte."""
    if a.where != b.where or a.end <= b.start or b.end <= a.start or not (a.size and b.size):
        return False
    i = j = 0
    while i < a.rows and j < b.rows:    # rows are in the order of their addresses
        first, second = a.start + i * a.step, b.start + j * b.step
        if first + a.size <= second:
            i += 1
        elif second + b.size <= first:
            j += 1
        else:
            return True
    return False
