"""The arrays of a compiled graph: one for every entry, and those of its workspaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ..ops.device import device_of
from ..ops.op import Mode
from ..passes.memory.plan_step import NONE
from .arena import BlockMemory, DeviceArray, Memory, piece_of
from .pipeline import CompiledGraph

__all__ = ["BoundArrays", "EntryArray", "Modes"]

EntryArray: TypeAlias = Any  # type: ignore[explicit-any]
"""The `DeviceArray` of an entry; None if it is not computed.  Any: readers of a step's arrays know
that they are computed, and on which device."""


class Modes(NamedTuple):
    """Whether nodes work as in training, at present."""

    current: Mode
    recomputed: Mode
    """The mode of forward nodes that the backward pass recomputes: that of the forward pass."""


class BoundArrays:
    """A compiled graph in memory: `memory` is what its plan describes, `arrays` are those of
    external entries.  Its steps look at `modes` in every run.

    Attributes
    ----------
    arrays : list
        The array of every entry; None for entries that are not computed.
    """

    def __init__(self, compiled: CompiledGraph, memory: Memory | BlockMemory,
                 arrays: Mapping[int, DeviceArray], modes: Modes):
        self.compiled, self.memory, self.modes = compiled, memory, modes
        self.arrays: list[EntryArray] = [arrays.get(eid)
                                         for eid in range(compiled.graph.num_entries)]
        for step in compiled.plan_steps:
            for eid in step.outputs:
                if eid != NONE and self.arrays[eid] is None:
                    self.arrays[eid] = self._allocate(eid)

    def _allocate(self, eid: int) -> DeviceArray:
        """The memory of one planned entry."""
        compiled, plan = self.compiled, self.compiled.plan
        spec, piece = compiled.specs[eid], plan.pieces.get(eid)
        if eid not in plan.view_of:
            return self.memory.array(plan.storage[eid], spec, piece)
        source = self.arrays[plan.view_of[eid]]
        if piece is None:
            return source.reshape(spec.shape)
        return piece_of(device_of(compiled.devices[eid]), source, 0, spec, piece)

    def workspaces(self, index: int) -> list[DeviceArray]:
        """The temporary arrays of a step."""
        compiled = self.compiled
        return [self.memory.array(sid, spec) for sid, spec in zip(
            compiled.plan.scratch[index], compiled.workspaces[index], strict=True)]
