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
Inputs of a step may coincide: each counts as a read.  Arrays of the user may be one array; whether
a gradient may then be written over an argument is not checked, as in MXNet.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from .alias_concat import alias_concat
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
        plans.append(_StorageAssignment(steps, sizes, set(external), set(keep), aliases).run())
        for storage in () if reuse else plans[-1].storages:
            storage.first, storage.last = 0, len(steps) - 1
        reuse_memory(plans[-1], len(steps))
    return min(plans, key=lambda plan: plan.total_bytes)


class _StorageAssignment:
    """Pass 1: which entries share a storage, and the live range of each storage."""

    def __init__(self, steps: Sequence[PlanStep], sizes: Sequence[int], external: set[int],
                 keep: set[int], aliases: Mapping[int, tuple[int, AliasedRows]]):
        self.steps, self.sizes, self.external, self.keep = steps, sizes, external, keep
        self.aliases, self.wholes = aliases, {whole for whole, _ in aliases.values()}
        self.roots = _roots(aliases) if aliases else {}
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
        if not all(self._readable(step, eid) for eid in outs):
            return False
        outer, sid = self.plan.pieces.get(source, AliasedRows(0)), self.plan.storage[source]
        if outer.rows > 1 or (sid != NONE and self.plan.storages[sid].space != step.space):
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

    def _readable(self, step: PlanStep, eid: int) -> bool:
        """Whether all readers of a piece can read it where it is."""
        return (eid not in self.external and eid not in self.keep and eid not in self.aliases
                and all(self.steps[reader].space == step.space
                        and (step.rows == 1 or eid in self.steps[reader].strided)
                        for reader in self.readers[eid]))

    def view(self, index: int, step: PlanStep) -> bool:
        """Give a view its input's memory; False when it must be a copy after all."""
        source, eid = step.inputs[0], step.outputs[0]
        if eid == NONE:
            return True
        if eid in self.external or not self._is_unassigned(eid):
            return False
        sid = self.plan.storage[source]
        if self.plan.pieces.get(source, AliasedRows(0)).rows > 1:
            return False
        if sid == NONE:
            if eid in self.keep:
                return False
            self.plan.view_of[eid] = source
        elif self.plan.storages[sid].space != step.space:
            return False
        elif eid in self.keep and self.plan.storages[sid].held:
            return False        # users get every output as an array of its own
        else:
            self._copy_piece(eid, source)
            self._assign(eid, sid, index)
        self.plan.views.add(index)
        return True

    def _copy_piece(self, eid: int, source: int) -> None:
        """`eid` is the same piece of its storage as `source`."""
        if source in self.plan.pieces:
            self.plan.pieces[eid] = self.plan.pieces[source]

    def inplace(self, index: int, step: PlanStep) -> None:
        reused = set()
        for position, out_position in step.inplace:
            source, eid = step.inputs[position], step.outputs[out_position]
            if eid == NONE or eid in self.external or not self._is_unassigned(eid):
                continue
            sid = self.plan.storage[source]
            if (sid != NONE and sid not in reused and self.ref_count[sid] == 1
                    and self.sizes[source] == self.sizes[eid]
                    and self.plan.storages[sid].space == step.space
                    and self.plan.pieces.get(source, AliasedRows(0)).rows == 1
                    and not self.plan.storages[sid].held):
                reused.add(sid)
                self.plan.inplace[eid] = source
                self._copy_piece(eid, source)
                self._assign(eid, sid, index)

    def accumulate(self, index: int, step: PlanStep, eid: int) -> bool:
        """Let a gradient be added to the one that it would be summed with later."""
        if not step.accumulates or len(self.readers[eid]) != 1:
            return False
        reader = self.steps[self.readers[eid][0]]
        total = reader.outputs[0]
        if not reader.sums or total in self.external or total in self.aliases:
            return False        # there is no sum, or none that can be left out
        if reader.space != step.space:
            return False
        first, second = reader.inputs
        other = first if second == eid else second
        # Outputs of the same step are computed in no particular order.
        if other in step.outputs or other in self.plan.pieces:
            return False
        sid = self.plan.storage[other]
        if (sid == NONE or self.ref_count[sid] != 1 or self.plan.storages[sid].held
                or self.plan.storages[sid].space != step.space or eid in self.keep
                or self.sizes[other] != self.sizes[eid]):
            return False
        self.plan.add.add(eid)
        self._assign(eid, sid, index)
        return True

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


def _roots(aliases: Mapping[int, tuple[int, AliasedRows]]) -> dict[int, tuple[int, AliasedRows]]:
    """The outermost whole of each piece, and the place of the piece in it.

    A whole comes before its pieces.
    """
    roots: dict[int, tuple[int, AliasedRows]] = {}
    for eid, (whole, piece) in aliases.items():
        root, outer = roots.get(whole, (whole, AliasedRows(0)))
        roots[eid] = root, AliasedRows(outer.offset + piece.offset, max(piece.rows, outer.rows),
                                       outer.step or piece.step)
    return roots


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

    Greedy by size, as in Pisarchyk and Lee, 2020 (https://arxiv.org/abs/2001.03288).  `table` holds
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
