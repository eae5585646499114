"""Constants: values that follow from parameters alone, computed once and again after a change.

`DerivedConstants` holds the results of one group of nodes (`passes.optimize.hoist_constants`).  To
the executor they are arrays like a user's.  A write to a parameter marks as stale what has been
derived from it (`ndarray.mutation`), so an unchanged model pays for one look at a flag per group.
What is derived from memory that other code writes without telling stays stale: every run compares
the parameters with copies, which takes a fraction of the time of folding and packing them.

Executors of one model share what follows by the same ops from the same arrays.  Results have memory
of their own; that of intermediate values is allocated when it is needed, and freed.
"""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base import Array, MXNetError
from ..context import Context
from ..core.interrupts import from_handler
from ..graph import Node
from ..ndarray import mutation
from ..ops.device import device_of
from ..ops.op import Call, Mode, Spec
from .pipeline import CompiledGraph

if TYPE_CHECKING:
    from .arena import DeviceArray

__all__ = ["DerivedConstants", "derive"]

Key = tuple[int, int]
"""(position of a node in its group, index of its output), or (GIVEN, id of an array)."""

GIVEN = -1
BLOCK = 1 << 15
"""Words that are compared at a time; after a block that differs the others are not read."""


class GroupNode(NamedTuple):
    """One node of a group: where its inputs come from, and what its outputs are."""

    node: Node
    ins: tuple[Key, ...]
    outs: tuple[Spec, ...]


class DerivedConstants:
    """The results of a group of nodes on one context; `outputs` are those that others read.

    `inputs` are the device arrays that the group reads, under their keys.
    """

    def __init__(self, parts: Sequence[GroupNode], ctx: Context, inputs: dict[Key, DeviceArray],
                 outputs: Sequence[Key], exact: bool):
        self.exact, self.parts, self.ctx, self.device = exact, parts, ctx, device_of(ctx)
        self.inputs = inputs
        self.outputs = {key: self.device.empty(*parts[key[0]].outs[key[1]]) for key in outputs}
        self.stale = True
        self._seen: list[Array] = []
        for array in inputs.values():
            mutation.watch(array, self)

    def refresh(self) -> None:
        """Compute everything from what the arrays hold now, if that may have changed."""
        try:
            self.stale = False      # first: a change that comes meanwhile shall count
            if not any(map(mutation.is_shared, self.inputs.values())):
                self._seen = []
                self._compute()
                return
            self.stale = True   # no call tells of the next change
            arrays = [array for array in self.inputs.values() if isinstance(array, np.ndarray)]
            if not (self._seen and all(map(_are_equal_bits, arrays, self._seen))):
                seen, self._seen = [array.copy() for array in arrays], []
                self._compute()
                self._seen = seen
        except BaseException:   # Ctrl-C, or `KernelsMissing`
            self.stale = True
            raise

    def _compute(self) -> None:
        values = {**self.inputs, **self.outputs}
        for position, part in enumerate(self.parts):
            try:
                with np.errstate(all="ignore"):
                    self._run(position, part, values)
            except Exception as error:
                if from_handler(error):
                    raise
                raise MXNetError(f"{part.node.describe()}: {error}") from error

    def _run(self, position: int, part: GroupNode, values: dict[Key, DeviceArray]) -> None:
        op, device = part.node.required_op, self.device
        ins, outs = [values[key] for key in part.ins], []
        for index, spec in enumerate(part.outs):
            if (position, index) not in values:
                values[position, index] = device.empty(*spec)
            outs.append(values[position, index])
        if op.view:
            device.copy(ins[0].reshape(outs[0].shape), outs[0])
            return
        choice = device.choose(op, [Spec(a.shape, a.dtype) for a in ins], part.outs)
        scratch = [device.empty(*spec) for spec in choice.workspace]
        call = Call(Mode(), scratch, (), part.outs, self.ctx)
        if self.exact:  # the bits of a step, by the kernel of a step
            device.prepare(choice, ins, outs, call)()
        else:
            device.run(op, ins, outs, call)


def _are_equal_bits(a: Array, b: Array) -> bool:
    """Whether contiguous arrays are equal, where NaN equals itself, and 0.0 is not -0.0."""
    kind = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    x, y = a.reshape(-1).view(kind), b.reshape(-1).view(kind)
    return all(np.array_equal(x[start:start + BLOCK], y[start:start + BLOCK])
               for start in range(0, len(x), BLOCK))


def derive(cache: MutableMapping[tuple[Hashable, ...], DerivedConstants], compiled: CompiledGraph,
           external: dict[int, DeviceArray], exact: bool) -> list[DerivedConstants]:
    """The constants of a compiled graph, from `cache` where they are in it already.

    `external` are the arrays of variables by entry id; the results join them.  With `exact` they
    have the bits that steps would compute.
    """
    groups = []
    for nodes in compiled.constants:
        parts, inputs, outputs = _group(compiled, nodes, external)
        ctx = compiled.spaces[0]
        # The text of an op tells a zero from a negative one, which compare equal.
        identity = (ctx, exact, tuple(outputs.values()),
                    *[(part.node.op, repr(part.node.op), *part[1:]) for part in parts])
        constants = cache.get(identity)
        if constants is None:
            constants = cache[identity] = DerivedConstants(parts, ctx, inputs,
                                                           list(outputs.values()), exact)
        external.update({eid: constants.outputs[key] for eid, key in outputs.items()})
        groups.append(constants)
    return groups


def _group(compiled: CompiledGraph, nodes: Sequence[Node], external: dict[int, DeviceArray]
           ) -> tuple[list[GroupNode], dict[Key, DeviceArray], dict[int, Key]]:
    """The parts of a group, the arrays that it reads, and its results that others read."""
    graph, place = compiled.graph, {id(node): position for position, node in enumerate(nodes)}
    parts, inputs, outputs = [], {}, {}
    for position, node in enumerate(nodes):
        keys = []
        for entry, eid in zip(node.inputs, graph.input_eids(node), strict=True):
            key = (place.get(id(entry.node), GIVEN), entry.index)
            if key[0] == GIVEN:
                key = (GIVEN, id(external[eid]))
                inputs[key] = external[eid]
            keys.append(key)
        eids = graph.output_eids(node)
        outputs.update({eid: (position, i) for i, eid in enumerate(eids)
                        if eid in compiled.external})
        parts.append(GroupNode(node, tuple(keys), tuple(compiled.specs[eid] for eid in eids)))
    return parts, inputs, outputs
