"""The memory of executors.

A plan speaks of storages in numbered spaces.  `Memory` makes arrays of them: a space is a context,
and the storages of one context are views into its `Arena`, which the executors of one model share
(`shared_exec`, `reshape`, buckets) and which is as large as the largest of them needs.  Storages
that are held have buffers of their own.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

import numpy as np

from ..base import DType
from ..context import Context
from ..ops.device import Device, device_of
from ..ops.op import Spec
from ..passes.memory.plan import MemoryPlan
from ..passes.memory.plan_step import AliasedRows

__all__ = ["Arena", "BlockMemory", "DeviceArray", "Memory", "Tenant"]


class DeviceArray(Protocol):
    """An array of any device: a `numpy.ndarray` on the CPU, a `numba.cuda` array on a GPU.

    A protocol, since the two have no common base and numba.cuda is imported for GPUs only.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def size(self) -> int: ...

    def reshape(self, shape: tuple[int, ...], /) -> DeviceArray: ...

    def __getitem__(self, key: slice[int | None, int, None], /) -> DeviceArray: ...


class Tenant(Protocol):
    """An object that has memory in an arena."""

    def release(self) -> None:
        """Drop every view of the arena; take new ones before the next use."""


def piece_of(device: Device, memory: DeviceArray, offset: int, spec: Spec, piece: AliasedRows | None
             ) -> DeviceArray:
    """The array of `spec` that is a piece of what begins `offset` bytes into `memory`."""
    start = offset + piece.offset if piece else offset
    if piece is None or piece.rows == 1:
        return device.view(memory, start, *spec)
    return _rows_apart(device, memory, start, spec, piece)


def _rows_apart(device: Device, memory: DeviceArray, start: int, spec: Spec, piece: AliasedRows
                ) -> DeviceArray:
    """The array whose rows, those of leading axes, are apart, as NumPy's alone can be."""
    shape = spec.shape
    axis = next(k for k in range(len(shape)) if prod(shape[:k]) == piece.rows)
    size = prod(shape[axis:])
    flat = device.view(memory, start, ((piece.rows - 1) * piece.step // spec.dtype.itemsize
                                       + size,), spec.dtype)
    steps = [piece.step * prod(shape[k + 1:axis]) for k in range(axis)]
    inner = np.empty(shape[axis:], spec.dtype).strides
    return np.lib.stride_tricks.as_strided(flat, shape, (*steps, *inner))


class Arena:
    """One growable block of device memory that executors allocate their intermediate results from.

    Growing replaces the block.  Its tenants drop their views of the old one at that moment and
    take new ones when they next run, so that never more than one block is kept.  `holder` is the
    tenant that wrote last: the values of all others are lost.
    """

    def __init__(self, device: Device):
        self.device = device
        self.nbytes = 0
        self.holder: weakref.ref[Tenant] | None = None
        self._tenants: weakref.WeakSet[Tenant] = weakref.WeakSet()
        self.block: DeviceArray | None = None

    def reserve(self, tenant: Tenant, nbytes: int) -> None:
        """Have `nbytes` for `tenant`, which then may use `block`."""
        self._tenants.add(tenant)
        if nbytes > self.nbytes:
            for other in self._tenants:
                other.release()
            self.block = self.holder = None
            self.block = self.device.arena(nbytes)
            self.nbytes = nbytes


class Memory:
    """The storages of one plan; `spaces[i]` is the context that the plan calls space i.

    `arenas`, by context, belongs to all executors of a model; an arena that is missing is added.
    """

    def __init__(self, plan: MemoryPlan, spaces: Sequence[Context], arenas: dict[Context, Arena]):
        self.plan, self.arenas = plan, arenas
        self._arenas = [arenas.setdefault(ctx, Arena(device_of(ctx))) for ctx in spaces]
        self.renew()

    def renew(self) -> None:
        """Allocate the storages with buffers of their own; older arrays keep the older ones."""
        self.held = {sid: self._arenas[storage.space].device.arena(max(storage.size, 1))
                      for sid, storage in enumerate(self.plan.storages) if storage.held}

    def reserve(self, tenant: Tenant) -> None:
        """Have enough memory in every arena."""
        for space, nbytes in self.plan.arena.items():
            self._arenas[space].reserve(tenant, nbytes)

    def array(self, sid: int, spec: Spec, piece: AliasedRows | None = None) -> DeviceArray:
        """The array of `spec` in storage `sid`."""
        storage = self.plan.storages[sid]
        arena = self._arenas[storage.space]
        block, offset = (self.held[sid], 0) if storage.held else (arena.block, storage.offset)
        # There is a block: memory is reserved before its arrays are taken.
        return piece_of(arena.device, block, offset, spec, piece)  # type: ignore[arg-type]

    @property
    def blocks(self) -> list[DeviceArray | None]:
        """All memory that storages are allocated from."""
        return [*(arena.block for arena in self._arenas), *self.held.values()]

    @property
    def nbytes(self) -> dict[Context, int]:
        """Bytes of the arenas."""
        return {ctx: arena.nbytes for ctx, arena in self.arenas.items()}

    def own(self, tenant: Tenant) -> None:
        """From now on the values in the arenas are those of `tenant`."""
        for space in self.plan.arena:
            self._arenas[space].holder = weakref.ref(tenant)

    def is_owned_by(self, tenant: Tenant) -> bool:
        """Whether the values in the arenas are still those of `tenant`."""
        for space in self.plan.arena:
            holder = self._arenas[space].holder
            if holder is None or holder() is not tenant:
                return False
        return True


class BlockMemory:
    """The storages of a plan without held ones, in the first bytes of a block that is given."""

    def __init__(self, plan: MemoryPlan, device: Device, block: DeviceArray):
        self.plan, self.device, self.block = plan, device, block

    nbytes: Mapping[Context, int] = {}      # it is memory of a step

    @property
    def blocks(self) -> list[DeviceArray | None]:
        """The memory that storages are allocated from."""
        return [self.block[:self.plan.arena.get(0, 0)]]

    def array(self, sid: int, spec: Spec, piece: AliasedRows | None = None) -> DeviceArray:
        return self.view(self.plan.storages[sid].offset, spec, piece)

    def view(self, offset: int, spec: Spec, piece: AliasedRows | None = None) -> DeviceArray:
        """The array of `spec` at `offset`."""
        return piece_of(self.device, self.block, offset, spec, piece)
