"""Memory planning: where every intermediate tensor of a bound graph is stored.

The planner sees integers only: entries, the steps that read and write them, sizes in bytes.  It
works in two passes over the steps.

1. *Storages.*  Entries that may share memory are assigned to one storage: a view to its input's, an
   output marked in-place to that of an input that is dead after this very step, and a gradient that
   would only be added to another one is accumulated straight into it (`add`).  Operands of a
   concatenation are written into its output, and slices are read where they are (`pieces`).
   Sharing is legal only when every remaining read of the storage is accounted for, so the pass
   keeps a reference count per storage: the reads still to come.
2. *Offsets.*  The live range of a storage is from its first write to its last read.  Two whose live
   ranges intersect may not overlap; assigning the largest first, each at the lowest offset where it
   fits, wastes little.  That takes quadratic time, so graphs of many thousand storages are planned
   like a program that allocates and frees (best fit, adjacent free blocks are merged).

A chain of five steps, each of which reads the result of the one before.  b may be computed in
place, so it shares the storage of a; d lies where they were; e, an output, has a buffer of its own:

    bytes     step 0    step 1    step 2    step 3    step 4
    384                           +-------------------+
                                  |         c         |
    256       +---------+---------+---------+---------+
              |    a    |         b         |
    192       |         |                   +-------------------+
              |         |                   |         d         |
    0         +---------+-------------------+-------------------+
    buffer                                            +---------+
                                                      |    e    |
                                                      +---------+

nnvm's `PlanMemory` and TVM's storage rewriting do the first; the second is the problem of dynamic
storage allocation.

Every step runs in one *space* (a device), and all it writes is stored there.  A space has an arena
of its own, and no storage is shared by entries of two spaces.

Entries in `external` (variables, gradients bound to users' arrays) have memory of their own.
Entries in `keep` (graph outputs) must survive the whole run: their storages are *held*, each in a
private buffer, so executors that share an arena never overwrite one another's outputs.

Assumes: a step writes nothing but its outputs and scratch, and adds where `accumulates` says so;
the first is checked by `execution.sanitizer` (NBMOD_CHECK=2), the second for samples of all such
operators in `tests/ops/test_ops.py`.  Plans are checked by `verify.check_plan` (NBMOD_CHECK=1).
Inputs of a step may coincide: each counts as a read.  Arrays of the user may be one array:
gradients in memory of others are stored by the last steps (`passes.training`: `stores_last`).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..remarks import (
    EntryId,
    Obstacle,
    StepNumber,
    done,
    is_recording,
    obstacle,
    record,
    refused,
    withheld,
)
from .alias_concat import alias_concat, outermost
from .memory_plan import MemoryPlan, Storage
from .plan_step import NONE, AliasedRows, PlanStep

__all__ = ["MemoryPlan", "Storage", "plan_memory", "ALIGNMENT"]

ALIGNMENT = 64
"""Bytes; offsets are multiples of it: one cache line, one AVX-512 register."""

FAR = 2 ** 62
"""An address after all others."""

PACK_UP_TO = 6000
"""Storages per space up to which the better, quadratic packing is used: about 0.15 s."""


def plan_memory(steps: Sequence[PlanStep], sizes: Sequence[int], external: Collection[int] = (),
                keep: Collection[int] = (), reuse: bool = True) -> MemoryPlan:
    """Plan the entries of `steps`, whose sizes in bytes are `sizes[eid]`.

    Operands of concatenations are written into its output unless that takes more memory: the output
    is allocated when the first of them is computed.  Without `reuse` no byte belongs to two
    storages.
    """
    concat_aliases = alias_concat(steps, sizes, set(external), set(keep))
    plans = []
    for aliases in (concat_aliases, {}) if concat_aliases else ({},):
        with withheld() as remarks:
            plan = _StorageAssignment(steps, sizes, set(external), set(keep), aliases).run()
        plans.append((plan, remarks))
        for storage in () if reuse else plan.storages:
            storage.first, storage.last = 0, len(steps) - 1
        reuse_memory(plan, len(steps))
    plan, remarks = min(plans, key=lambda each: each[0].total_bytes)
    record(*remarks)
    for eid, (whole, _) in concat_aliases.items():
        if plan is plans[0][0]:
            done("alias_concat", EntryId(eid), "it is written where it is joined",
                 whole=EntryId(whole))
        else:
            refused("alias_concat", EntryId(eid), obstacle(
                "it takes no more memory", whole=EntryId(whole),
                bytes=plans[0][0].total_bytes, apart=plan.total_bytes))
    return plan


class _StorageAssignment:
    """Pass 1: which entries share a storage, and the live range of each storage."""

    def __init__(self, steps: Sequence[PlanStep], sizes: Sequence[int], external: set[int],
                 keep: set[int], aliases: Mapping[int, tuple[int, AliasedRows]]):
        self.steps, self.sizes, self.external, self.keep = steps, sizes, external, keep
        self.aliases, self.wholes = aliases, {whole for whole, _ in aliases.values()}
        self.roots = outermost(aliases) if aliases else {}
        self.plan = MemoryPlan([NONE] * len(sizes))
        self.ref_count: list[int] = []
        """Per storage, reads still to come; a kept entry counts as a read that never happens."""
        self.readers: list[list[int]] = [[] for _ in sizes]
        self.producer = [NONE] * len(sizes)
        for index, step in enumerate(steps):
            for eid in step.inputs:
                self.readers[eid].append(index)
            for eid in step.outputs:
                if eid != NONE:
                    self.producer[eid] = index

    def run(self) -> MemoryPlan:
        for index, step in enumerate(self.steps):
            # Outputs with a place in a later concatenation have it whatever computes them.
            if self.aliases:
                self._assign_aliases(index, step)
            # A step whose result is in memory already does not run; any other reuses what it may,
            # and allocates the rest.
            if not ((step.split_offsets and self.alias_slice(index, step))
                    or (self.aliases and self._is_in_place_already(index, step))
                    or (step.view and self.view(index, step))
                    or (step.sums and self._elide_sum(index))):
                self.inplace(index, step)
                for eid in step.outputs:
                    if eid != NONE and eid not in self.external and self._is_unassigned(eid):
                        if not self.accumulate(index, step, eid):
                            self._allocate(index, step, eid)
            # Workspaces are new storages; inputs that nothing reads any more are released.
            self.plan.scratch.append(tuple(self._new_storage(index, size, step.space)
                                           for size in step.scratch))
            self._release(index, step)
        return self.plan

    def _is_unassigned(self, eid: int) -> bool:
        return self.plan.storage[eid] == NONE

    def _new_storage(self, index: int, size: int, space: int) -> int:
        self.plan.storages.append(Storage(size, space, index, index))
        self.ref_count.append(0)
        return len(self.plan.storages) - 1

    def _allocate(self, index: int, step: PlanStep, eid: int) -> None:
        self._assign(eid, self._new_storage(index, self.sizes[eid], step.space), index)

    def _assign(self, eid: int, sid: int, index: int) -> None:
        """Entry `eid`, written in step `index`, is stored in storage `sid`."""
        self.plan.storage[eid] = sid
        self.ref_count[sid] += len(self.readers[eid]) + (eid in self.keep)
        storage = self.plan.storages[sid]
        storage.last = max(storage.last, index)
        storage.held |= eid in self.keep

    def _assign_aliases(self, index: int, step: PlanStep) -> None:
        """Assign outputs that are pieces of a later output to the storage of that output."""
        for eid in step.outputs:
            if eid in self.aliases:
                whole, piece = self.roots[eid]
                if self._is_unassigned(whole):
                    self._allocate(index, self.steps[self.producer[whole]], whole)
                self.plan.pieces[eid] = piece
                self._assign(eid, self.plan.storage[whole], index)
                for position, out_position in step.inplace:
                    source = step.inputs[position]
                    if step.outputs[out_position] == eid and self._is_same_memory(source, eid):
                        self.plan.inplace[eid] = source

    def _is_in_place_already(self, index: int, step: PlanStep) -> bool:
        """Whether the output is in memory already: all its pieces have been written in place, or
        the input that it is a view of."""
        out = step.outputs[0]
        joined = out in self.wholes and all(
            eid in self.aliases and self.aliases[eid][0] == out for eid in step.inputs)
        if joined or (step.view and out in self.aliases
                      and self._is_same_memory(step.inputs[0], out)):
            self.plan.views.add(index)
            return True
        return False

    def _is_same_memory(self, source: int, eid: int) -> bool:
        """Whether two entries are the same bytes: equal pieces of different storages are not."""
        sid = self.plan.storage[source]
        return (sid != NONE and sid == self.plan.storage[eid]
                and self.plan.pieces.get(source) == self.plan.pieces.get(eid))

    def alias_slice(self, index: int, step: PlanStep) -> bool:
        """Let slices be read where they are, if all of them can be."""
        source = step.inputs[0] if step.inputs else NONE
        outs = [eid for eid in step.outputs if eid != NONE]
        outer, sid = self.plan.pieces.get(source, AliasedRows(0)), self.plan.storage[source]
        reasons = [*(self._unreadable(step, eid) for eid in outs),
                   self._unlike_memory(source, step)]
        why = next(filter(None, reasons), None)
        for eid in outs:
            if why is None:
                done("alias_slice", EntryId(eid), "it is read where it is", source=EntryId(source))
            else:
                refused("alias_slice", EntryId(eid), why)
        if why is not None:
            return False
        row = self.sizes[source] // step.rows
        for eid, offset in zip(step.outputs, step.split_offsets, strict=True):
            if eid == NONE:
                continue
            start = offset if sid == NONE else outer.offset + offset
            self.plan.pieces[eid] = AliasedRows(start, step.rows, row if step.rows > 1 else 0)
            if sid == NONE:
                self.plan.view_of[eid] = source
            else:
                self._assign(eid, sid, index)
        self.plan.views.add(index)
        return True

    def _unreadable(self, step: PlanStep, eid: int) -> Obstacle | None:
        """The reason why a piece cannot be read where it is."""
        if eid in self.external:
            return obstacle("slices have planned memory", slice=EntryId(eid))
        if eid in self.keep:
            return obstacle("no slice is an output", slice=EntryId(eid))
        if eid in self.aliases:
            return obstacle("no slice is written where it is joined", slice=EntryId(eid))
        for reader in self.readers[eid]:
            if self.steps[reader].space != step.space:
                return obstacle("slices are read on one device", reader=StepNumber(reader))
            if step.rows > 1 and eid not in self.steps[reader].strided:
                return obstacle("readers take rows that are apart", slice=EntryId(eid),
                                reader=StepNumber(reader))
        return None

    def _unlike_memory(self, source: int, step: PlanStep) -> Obstacle | None:
        """The reason why a step cannot give its outputs the memory of its input."""
        if self.plan.pieces.get(source, AliasedRows(0)).rows > 1:
            return obstacle("rows of the input are adjacent", input=EntryId(source))
        sid = self.plan.storage[source]
        if sid != NONE and self.plan.storages[sid].space != step.space:
            return obstacle("input and output are on one device", input=EntryId(source))
        return None

    def view(self, index: int, step: PlanStep) -> bool:
        """Give a view its input's memory; False when it must be a copy after all."""
        source, eid = step.inputs[0], step.outputs[0]
        if eid == NONE:
            return True
        why = self._not_viewed(source, eid) or self._unlike_memory(source, step)
        if why is not None:
            refused("view", EntryId(eid), why)
            return False
        sid = self.plan.storage[source]
        if sid == NONE:
            self.plan.view_of[eid] = source
        else:
            self._copy_piece(eid, source)
            self._assign(eid, sid, index)
        self.plan.views.add(index)
        done("view", EntryId(eid), "it is the memory of its input", input=EntryId(source))
        return True

    def _not_viewed(self, source: int, eid: int) -> Obstacle | None:
        """The reason why an output has memory of its own."""
        if eid in self.external:
            return obstacle("its memory is planned")
        if not self._is_unassigned(eid):
            return obstacle("it is not written where it is joined")
        sid = self.plan.storage[source]
        if eid in self.keep and sid == NONE:
            return obstacle("no output is memory of the user", input=EntryId(source))
        # Users get every output as an array of its own.
        if eid in self.keep and self.plan.storages[sid].held:
            return obstacle("outputs are arrays of their own", input=EntryId(source))
        return None

    def _copy_piece(self, eid: int, source: int) -> None:
        """`eid` is the same piece of its storage as `source`."""
        if source in self.plan.pieces:
            self.plan.pieces[eid] = self.plan.pieces[source]

    def inplace(self, index: int, step: PlanStep) -> None:
        reused: set[int] = set()
        for position, out_position in step.inplace:
            source, eid = step.inputs[position], step.outputs[out_position]
            if eid == NONE or not self._is_unassigned(eid):
                continue
            why = self._not_overwritten(index, source, eid, reused)
            if why is not None:
                refused("inplace", EntryId(eid), why)
                continue
            sid = self.plan.storage[source]
            reused.add(sid)
            self.plan.inplace[eid] = source
            self._copy_piece(eid, source)
            self._assign(eid, sid, index)
            done("inplace", EntryId(eid), "it overwrites an input", input=EntryId(source))

    def _not_overwritten(self, index: int, source: int, eid: int, reused: set[int]
                         ) -> Obstacle | None:
        """The reason why an output is not written over an input of its step."""
        sid = self.plan.storage[source]
        if eid in self.external:
            return obstacle("its memory is planned")
        if sid == NONE:
            return obstacle("memory of the input is planned", input=EntryId(source))
        if sid in reused:
            return obstacle("no other output overwrites the input", input=EntryId(source))
        why = self._read_later(index, source)
        if why is not None:
            return why
        if self.sizes[source] != self.sizes[eid]:
            return obstacle("input and output have one size", input=EntryId(source),
                            bytes=[self.sizes[source], self.sizes[eid]])
        return self._unlike_memory(source, self.steps[index])

    def _read_later(self, index: int, source: int) -> Obstacle | None:
        """The obstacle where a read after that of step `index` needs the memory of an entry; an
        output is read in the end."""
        sid = self.plan.storage[source]
        if self.ref_count[sid] == 1:
            return None
        shared = [eid for eid, other in enumerate(self.plan.storage) if other == sid
                  ] if is_recording() else []
        later = sorted(StepNumber(reader) for eid in shared for reader in self.readers[eid]
                       if reader >= index)
        return obstacle("nothing else reads it", input=EntryId(source), steps=later[1:],
                        outputs=[EntryId(eid) for eid in shared if eid in self.keep])

    def accumulate(self, index: int, step: PlanStep, eid: int) -> bool:
        """Let a gradient be added to the one that it would be summed with later."""
        summing = next((reader for reader in self.readers[eid] if self.steps[reader].sums), NONE)
        if summing == NONE:
            return False
        first, second = self.steps[summing].inputs
        other = first if second == eid else second
        if index < self.producer[other]:    # that one may be added to this one
            return False
        why = self._not_summed(step, eid, self.steps[summing]) or self._not_added(
            index, eid, other)
        if why is not None:
            refused("accumulate", EntryId(eid), why)
            return False
        self.plan.add.add(eid)
        self._assign(eid, self.plan.storage[other], index)
        done("accumulate", EntryId(eid), "it is added where it is computed", to=EntryId(other))
        return True

    def _not_summed(self, step: PlanStep, eid: int, summing: PlanStep) -> Obstacle | None:
        """The reason why the sum of a gradient cannot be left out."""
        total = summing.outputs[0]
        if not step.accumulates:
            return obstacle("its op can add to what is there")
        if len(self.readers[eid]) != 1:
            return obstacle("only one sum reads it", steps=[*map(StepNumber, self.readers[eid])])
        if eid in self.keep:
            return obstacle("it is no output")
        if total in self.external:
            return obstacle("memory of the sum is planned", sum=EntryId(total))
        if total in self.aliases:
            return obstacle("the sum is not written where it is joined", sum=EntryId(total))
        if summing.space != step.space:
            return obstacle("the sum is on its device", sum=EntryId(total))
        return None

    def _not_added(self, index: int, eid: int, other: int) -> Obstacle | None:
        """The reason why a gradient cannot be added to the other operand of its sum."""
        sid = self.plan.storage[other]
        # Outputs of the same step are computed in no particular order.
        if other in self.steps[index].outputs:
            return obstacle("another step computes the other operand", operand=EntryId(other))
        if other in self.plan.pieces:
            return obstacle("the other operand is no piece of a tensor", operand=EntryId(other))
        if sid == NONE:
            return obstacle("memory of the other operand is planned", operand=EntryId(other))
        if self.sizes[other] != self.sizes[eid]:
            return obstacle("operands have one size", bytes=[self.sizes[other], self.sizes[eid]])
        return self._read_later(index, other) or self._unlike_memory(other, self.steps[index])

    def _elide_sum(self, index: int) -> bool:
        """A sum does not run if one of its operands was added to the other (`accumulate`)."""
        step = self.steps[index]
        if not any(eid in self.plan.add for eid in step.inputs):
            return False
        self._assign(step.outputs[0], self.plan.storage[step.inputs[0]], index)
        self.plan.views.add(index)
        return True

    def _release(self, index: int, step: PlanStep) -> None:
        for eid in step.inputs:
            root = eid
            while root in self.plan.view_of:
                root = self.plan.view_of[root]
            sid = self.plan.storage[root]
            if sid != NONE:
                self.ref_count[sid] -= 1
                self.plan.storages[sid].last = index


def reuse_memory(plan: MemoryPlan, num_steps: int) -> None:
    """Pass 2: an offset for every storage that is not held, in the range of its space."""
    spaces: dict[int, list[Storage]] = {}
    for storage in plan.storages:
        if not storage.held:
            spaces.setdefault(storage.space, []).append(storage)
    for space, storages in spaces.items():
        pack = _pack_by_size if len(storages) <= PACK_UP_TO else _pack_in_order
        plan.arena[space] = pack(storages, num_steps)


def _padded(size: int) -> int:
    return max(-(-size // ALIGNMENT), 1) * ALIGNMENT


def _pack_by_size(storages: Sequence[Storage], num_steps: int) -> int:
    """Largest first, each at the lowest offset that is free in its live range; the bytes needed.

    Greedy by size, as in Pisarchyk and Lee, 2020 (https://arxiv.org/abs/2001.03288).  Networks of
    the model zoo need at most 1% more than what is alive at their peak.  Small ones can need 14%
    more, and sharing can then make things worse: storages that live longer leave gaps that nothing
    fits.  `table` holds
    what is assigned, sorted by `start`, between two sentinels that are always alive: where the
    memory begins, and where it ends.
    """
    start, end, first, last = table = np.zeros((4, len(storages) + 2), np.int64)
    table[:, 0], table[:, 1] = (0, 0, 0, num_steps), (FAR, FAR, 0, num_steps)
    for count, storage in enumerate(sorted(storages, key=lambda storage: -storage.size), 2):
        size = _padded(storage.size)
        alive = ((first[:count] <= storage.last) & (last[:count] >= storage.first)).nonzero()[0]
        used = np.maximum.accumulate(end[alive])    # the highest address used so far
        gap = (start[alive[1:]] - used[:-1] >= size).argmax()
        storage.offset = offset = int(used[gap])
        row = start[:count].searchsorted(offset, "right")
        table[:, row + 1:count + 1] = table[:, row:count]
        table[:, row] = offset, offset + size, storage.first, storage.last
    return max(storage.offset + _padded(storage.size) for storage in storages)


def _pack_in_order(storages: Sequence[Storage], num_steps: int) -> int:
    """Walk the steps, allocating storages from a free list and freeing them; the bytes needed."""
    starting: list[list[Storage]] = [[] for _ in range(num_steps)]
    ending: list[list[Storage]] = [[] for _ in range(num_steps)]
    for storage in storages:
        starting[storage.first].append(storage)
        ending[storage.last].append(storage)
    addresses = _AddressRange()
    for index in range(num_steps):
        for storage in sorted(starting[index], key=lambda storage: -storage.size):
            storage.offset = addresses.allocate(_padded(storage.size))
        for storage in ending[index]:
            addresses.free(storage.offset, _padded(storage.size))
    return addresses.top


class _AddressRange:
    """A growing range of addresses with best-fit reuse; `top` is its high-water mark."""

    def __init__(self) -> None:
        self.top = 0
        self.blocks: list[tuple[int, int]] = []
        """(offset, size) of free blocks, sorted, never adjacent."""

    def allocate(self, size: int) -> int:
        fitting = [block for block in self.blocks if block[1] >= size]
        if fitting:
            offset, length = min(fitting, key=lambda block: block[1])
            self.blocks.remove((offset, length))
            if length > size:
                insort(self.blocks, (offset + size, length - size))
            return offset
        offset = self.top
        if self.blocks and sum(self.blocks[-1]) == self.top:
            offset = self.blocks.pop()[0]
        self.top = offset + size
        return offset

    def free(self, offset: int, size: int) -> None:
        for block in [b for b in self.blocks if b[0] + b[1] == offset or b[0] == offset + size]:
            self.blocks.remove(block)
            offset, size = min(offset, block[0]), size + block[1]
        insort(self.blocks, (offset, size))
