"""Memory planning: where every intermediate tensor of a bound graph lives.

The planner sees integers only: entries, the steps that read and write them, sizes in bytes.  It
works in two passes over the steps.

1. *Storages.*  Entries that may share memory are given one storage: a view has its input's, an
   output marked in-place takes over the storage of an input that dies in this very step, and a
   gradient that would only be added to another one is accumulated straight into it (`add`).
   Sharing is legal only when every remaining read of the storage is accounted for, so the pass
   keeps, per storage, the number of reads still to come.
2. *Offsets.*  Each storage lives from its first write to its last read.  Two that are alive at the
   same time may not overlap; placing the largest first, each as low as it fits, wastes little.
   That takes quadratic time, so graphs of many thousand storages are planned like a program that
   allocates and frees (best fit, neighbouring free blocks merged).

Every step runs in one *space* (a device), and all it writes lives there.  A space has an arena of
its own, and no storage is shared by entries of two spaces.

Entries in `external` (variables, gradients bound to users' arrays) have memory of their own.
Entries in `keep` (graph outputs) must survive the whole run: their storages are *held*, each in a
private buffer, so executors that share an arena never overwrite one another's outputs.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

__all__ = ["PlanStep", "Plan", "Storage", "plan_memory", "ALIGNMENT"]

ALIGNMENT = 64
"""Bytes; offsets are multiples of it: one cache line, one AVX-512 register."""

NONE = -1

FAR = 2 ** 62
"""An address behind all others."""

PACK_UP_TO = 6000
"""Storages per space up to which the better, quadratic packing is used: about 0.15 s."""


class PlanStep(NamedTuple):
    """One step, in entry ids.  An output nobody reads is `NONE`."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    inplace: tuple[tuple[int, int], ...] = ()
    """(input position, output position) pairs that may share memory."""
    scratch: tuple[int, ...] = ()
    """Bytes of temporary memory during this step."""
    view: bool = False
    """Output 0 is input 0 under another shape."""
    accumulates: bool = False
    """The step can add to its outputs instead of overwriting them."""
    sums: bool = False
    """The step is output = input 0 + input 1, both gradients."""
    space: int = 0
    """Memory space (device) the outputs and scratch live in."""


@dataclass
class Storage:
    """One piece of memory: `size` bytes at `offset` of its space, used in steps first..last."""

    size: int
    space: int
    first: int
    last: int
    offset: int = NONE
    held: bool = False


@dataclass
class Plan:
    """`storage[eid]` indexes `storages`; `NONE` is external memory or no memory at all."""

    storage: list[int]
    storages: list[Storage] = field(default_factory=list)
    scratch: list[tuple[int, ...]] = field(default_factory=list)
    """Per step, the storages of its scratch."""
    view_of: dict[int, int] = field(default_factory=dict)
    """Views of external entries: eid -> eid of the input it looks at."""
    views: set[int] = field(default_factory=set)
    """Steps that need not run because their output is their input's memory."""
    add: set[int] = field(default_factory=set)
    """Entries whose producer must add to what is there."""
    inplace: dict[int, int] = field(default_factory=dict)
    """Entry -> entry whose memory it took over."""
    arena: dict[int, int] = field(default_factory=dict)
    """Bytes of the shared arena, per space."""

    @property
    def held_bytes(self) -> int:
        return sum(s.size for s in self.storages if s.held)

    @property
    def total_bytes(self) -> int:
        """Everything the executor allocates by itself: arenas and held outputs."""
        return sum(self.arena.values()) + self.held_bytes


def plan_memory(steps: Sequence[PlanStep], sizes: Sequence[int], external: Collection[int] = (),
                keep: Collection[int] = ()) -> Plan:
    """Plan the entries of `steps`, whose sizes in bytes are `sizes[eid]`."""
    plan = _Sharing(steps, sizes, set(external), set(keep)).run()
    _assign_offsets(plan, len(steps))
    return plan


class _Sharing:
    """Pass 1: which entries share a storage, and how long each storage lives."""

    def __init__(self, steps: Sequence[PlanStep], sizes: Sequence[int], external: set[int],
                 keep: set[int]):
        self.steps, self.sizes, self.external, self.keep = steps, sizes, external, keep
        self.plan = Plan([NONE] * len(sizes))
        self.reads: list[int] = []
        """Per storage, reads still to come; a kept entry counts as one that never happens."""
        self.uses = [0] * len(sizes)
        self.reader = [NONE] * len(sizes)
        for index, step in enumerate(steps):
            for eid in step.inputs:
                self.uses[eid] += 1
                self.reader[eid] = index

    def run(self) -> Plan:
        for index, step in enumerate(self.steps):
            if not (step.view and self._share_view(index, step)) and not self._elide_sum(index):
                self._share_inplace(index, step)
                for eid in step.outputs:
                    if eid != NONE and eid not in self.external and self._unplaced(eid):
                        if not self._share_add(index, step, eid):
                            self._place(index, step, eid)
            self._scratch(index, step)
            self._release(index, step)
        return self.plan

    def _unplaced(self, eid: int) -> bool:
        return self.plan.storage[eid] == NONE

    def _new(self, index: int, size: int, space: int) -> int:
        self.plan.storages.append(Storage(size, space, index, index))
        self.reads.append(0)
        return len(self.plan.storages) - 1

    def _place(self, index: int, step: PlanStep, eid: int) -> None:
        self._join(eid, self._new(index, self.sizes[eid], step.space), index)

    def _join(self, eid: int, sid: int, index: int) -> None:
        """Entry `eid`, written in step `index`, lives in storage `sid`."""
        self.plan.storage[eid] = sid
        self.reads[sid] += self.uses[eid] + (eid in self.keep)
        storage = self.plan.storages[sid]
        storage.last = max(storage.last, index)
        storage.held |= eid in self.keep

    def _share_view(self, index: int, step: PlanStep) -> bool:
        """Give a view its input's memory; False when it must be a copy after all."""
        source, eid = step.inputs[0], step.outputs[0]
        if eid == NONE:
            return True
        if eid in self.external:
            return False
        sid = self.plan.storage[source]
        if sid == NONE:
            if eid in self.keep:
                return False
            self.plan.view_of[eid] = source
        elif self.plan.storages[sid].space != step.space:
            return False
        elif eid in self.keep and self.plan.storages[sid].held:
            return False        # users get every output as an array of its own
        else:
            self._join(eid, sid, index)
        self.plan.views.add(index)
        return True

    def _share_inplace(self, index: int, step: PlanStep) -> None:
        taken = set()
        for position, out_position in step.inplace:
            source, eid = step.inputs[position], step.outputs[out_position]
            if eid == NONE or eid in self.external or not self._unplaced(eid):
                continue
            sid = self.plan.storage[source]
            if (sid != NONE and sid not in taken and self.reads[sid] == 1
                    and self.sizes[source] == self.sizes[eid]
                    and self.plan.storages[sid].space == step.space
                    and not self.plan.storages[sid].held):
                taken.add(sid)
                self.plan.inplace[eid] = source
                self._join(eid, sid, index)

    def _share_add(self, index: int, step: PlanStep, eid: int) -> bool:
        """Let a gradient be added straight to the one it would be summed with later."""
        reader = self.reader[eid]
        if not step.accumulates or self.uses[eid] != 1 or not self.steps[reader].sums:
            return False
        if self.steps[reader].outputs[0] in self.external:      # that sum cannot be left out
            return False
        if self.steps[reader].space != step.space:
            return False
        first, second = self.steps[reader].inputs
        other = first if second == eid else second
        if other in step.outputs:       # born in the same step, in no particular order
            return False
        sid = self.plan.storage[other]
        if (sid == NONE or self.reads[sid] != 1 or self.plan.storages[sid].held
                or self.plan.storages[sid].space != step.space or eid in self.keep
                or self.sizes[other] != self.sizes[eid]):
            return False
        self.plan.add.add(eid)
        self._join(eid, sid, index)
        return True

    def _elide_sum(self, index: int) -> bool:
        """A sum whose operands already share memory has nothing left to do."""
        step = self.steps[index]
        if not step.sums or not any(eid in self.plan.add for eid in step.inputs):
            return False
        sid = self.plan.storage[step.inputs[0]]
        out = step.outputs[0]
        if out in self.external or sid != self.plan.storage[step.inputs[1]]:
            return False
        self._join(out, sid, index)
        self.plan.views.add(index)
        return True

    def _scratch(self, index: int, step: PlanStep) -> None:
        self.plan.scratch.append(tuple(self._new(index, size, step.space)
                                       for size in step.scratch))

    def _release(self, index: int, step: PlanStep) -> None:
        for eid in step.inputs:
            root = eid
            while root in self.plan.view_of:
                root = self.plan.view_of[root]
            sid = self.plan.storage[root]
            if sid != NONE:
                self.reads[sid] -= 1
                self.plan.storages[sid].last = index


def _assign_offsets(plan: Plan, num_steps: int) -> None:
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
    """Largest first, each at the lowest offset free during its life; the bytes needed.

    Greedy by size, as in Pisarchyk and Lee, 2020 (https://arxiv.org/abs/2001.03288).  `table` holds
    what is placed, sorted by `start`, between two sentinels that are always alive: where the memory
    begins, and where it ends.
    """
    start, end, first, last = table = np.zeros((4, len(storages) + 2), np.int64)
    table[:, 0], table[:, 1] = (0, 0, 0, num_steps), (FAR, FAR, 0, num_steps)
    for count, storage in enumerate(sorted(storages, key=lambda storage: -storage.size), 2):
        size = _padded(storage.size)
        alive = ((first[:count] <= storage.last) & (last[:count] >= storage.first)).nonzero()[0]
        taken = np.maximum.accumulate(end[alive])   # the highest address used so far
        gap = (start[alive[1:]] - taken[:-1] >= size).argmax()
        storage.offset = offset = int(taken[gap])
        row = start[:count].searchsorted(offset, "right")
        table[:, row + 1:count + 1] = table[:, row:count]
        table[:, row] = offset, offset + size, storage.first, storage.last
    return max(storage.offset + _padded(storage.size) for storage in storages)


def _pack_in_order(storages: Sequence[Storage], num_steps: int) -> int:
    """Walk the steps, carving storages out of a range and giving them back; the bytes needed."""
    born: list[list[Storage]] = [[] for _ in range(num_steps)]
    dying: list[list[Storage]] = [[] for _ in range(num_steps)]
    for storage in storages:
        born[storage.first].append(storage)
        dying[storage.last].append(storage)
    addresses = _AddressRange()
    for index in range(num_steps):
        for storage in sorted(born[index], key=lambda storage: -storage.size):
            storage.offset = addresses.take(_padded(storage.size))
        for storage in dying[index]:
            addresses.give_back(storage.offset, _padded(storage.size))
    return addresses.top


class _AddressRange:
    """A growing range of addresses with best-fit reuse; `top` is its high-water mark."""

    def __init__(self) -> None:
        self.top = 0
        self.free: list[tuple[int, int]] = []
        """(offset, size) of free blocks, sorted, never adjacent."""

    def take(self, size: int) -> int:
        fitting = [block for block in self.free if block[1] >= size]
        if fitting:
            offset, length = min(fitting, key=lambda block: block[1])
            self.free.remove((offset, length))
            if length > size:
                insort(self.free, (offset + size, length - size))
            return offset
        offset = self.top
        if self.free and sum(self.free[-1]) == self.top:
            offset = self.free.pop()[0]
        self.top = offset + size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        for block in [b for b in self.free if b[0] + b[1] == offset or b[0] == offset + size]:
            self.free.remove(block)
            offset, size = min(offset, block[0]), size + block[1]
        insort(self.free, (offset, size))
