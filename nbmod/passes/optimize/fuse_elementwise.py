"""Elementwise fusion: connected elementwise nodes become one node with one kernel.

Elementwise ops are bound by memory bandwidth: a kernel executes some seventy operations in the time
in which it loads an element.  When both nodes are in one program (`Op.elements`,
`ops.elementwise.program`), what one writes and the other reads stays in a register.

The pass runs after gradient nodes have been added, so forward and backward are one case: the
`Backward` of a formula is a formula, too.  What backward reads of forward is written once, by the
kernel that computes it, and read once, by the kernel that needs it; recomputation would read as
much and compute more.  Forward and backward nodes are never mixed, since forward runs alone, too.

*Groups.*  Greedy fusion of producers with consumers, as in XLA's instruction fusion.  Every unit
(a node, or some of its outputs) has its index in topological order, and a group the index of one of
its members as its position.  Two groups connected by a tensor are merged if there is a position for
the union: after the producers of all its inputs, before all consumers of its outputs.  So edges
always point forward, and there are no cycles.  The members of a group have one shape, dtype and
device; numbers of tensors and formulas are bounded, so kernels stay small and few.  Inputs may
broadcast.

*Reductions.*  An output that is a sum (the gradient of a broadcast operand) is a unit of its own.
A group with one output that only a sum reads is fused with it: only the sum is written.

*Exactness.*  Every formula is computed in the dtype of its group, and nothing is reassociated or
contracted, so results are bitwise those of single kernels.  Kernels form sums in another order than
NumPy, so where results must be exact, no sums are fused; and nothing on GPUs, which contract a
product and a sum (FMA).

*GPUs.*  Chains of tensors of any size are fused, since each kernel less is a launch less.
Sums are not: they have kernels of their own, which distribute a sum over blocks.

Assumes: `Op.elements` is all that an op computes; members have one shape, type, device and phase
(`GroupKind`), and the type in which a kernel of their own computes (`_compute_dtype`); an entry is
read in one shape, and there is a position between producers and consumers (`_merge`); a sum is the
only reader of what it sums (`_fuse_sum`).

Not fused: sums of gradients that the memory planner makes free, by adding one operand to the other
where it is computed; nodes of fewer elements than kernels are compiled for; nodes of an executor
with a monitor, for which `Executor._unchanged` runs node by node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count
from math import inf
from typing import NamedTuple, TypeVar

import numpy as np

from ...context import Context
from ...graph import Entry, Graph, Node
from ...ops.elementwise.fused_elements import FusedElements
from ...ops.elementwise.program import Program, concatenate, prune
from ...ops.op import Spec
from ...ops.param import Shape
from ..remarks import Evidence, Obstacle, done, is_recording, obstacle, refused, withheld
from .elementwise_units import Group, Unit, units_of

__all__ = ["FusedGraph", "fuse_elementwise"]

MAX_TENSORS = 14
"""Read and written by one kernel.  The gates of an LSTM, forward, have 12."""

MAX_NODES = 24

MAX_DISTANCE = 64
"""Units between two groups that `_are_adjacent` looks at."""

SAME = ("both have one shape", "both have one type", "both are forward, or backward",
        "both are on one device")
"""Rules of the properties of a `GroupKind`, in their order."""

T = TypeVar("T")


class FusedGraph(NamedTuple):
    """A graph with fused nodes, and where its entries and nodes come from."""

    graph: Graph
    eids: list[int]
    """For every entry, its id in the graph before."""
    origin: dict[Node, Node]
    """The nodes that were cloned, by their clones."""
    notes: list[str]

    def facts(self, facts: Sequence[T]) -> list[T]:
        """`facts` of the entries of the graph before for those here."""
        return [facts[eid] for eid in self.eids]


def fuse_elementwise(graph: Graph, specs: Sequence[Spec], devices: Sequence[Context],
                     num_outputs: int, excluded: Collection[Node] = (), exact: bool = False
                     ) -> FusedGraph:
    """`graph`, whose first `num_outputs` outputs are those of forward, with fused nodes.

    `specs` and `devices` are those of its entries.  Nodes in `excluded` stay as they are.  With
    `exact` all results are bitwise those of single nodes.
    """
    unchanged = FusedGraph(graph, list(range(graph.num_entries)), {}, [])
    if exact and any(device.is_gpu for device in devices):
        with withheld() as remarks:
            fuse_elementwise(graph, specs, devices, num_outputs, excluded)
        for remark in remarks:
            if remark.verdict == "done":
                refused("fuse_elementwise", remark.subject,
                        obstacle("results may be rounded differently"))
        return unchanged
    units = units_of(graph, specs, devices, num_outputs, excluded)
    grouping = _Grouping(graph, specs, units, not exact)
    if is_recording():
        grouping.record_gaps()
    if not any(len(group.units) > 1 for group in grouping.groups()):
        return unchanged
    return _FusedGraphBuilder(graph, specs, grouping).build()


# -- groups -----------------------------------------------------------------------------------

class _Grouping:
    """Merges the groups of units along the tensors that connect them."""

    def __init__(self, graph: Graph, specs: Sequence[Spec], units: list[Unit], fuse_sums: bool):
        self.graph, self.specs, self.units, self.fuse_sums = graph, specs, units, fuse_sums
        self.graph_outputs = set(graph.outputs)
        # Def-use chains.
        self.order = {unit: i for i, unit in enumerate(units)}
        self.producer = {entry: unit for unit in units for entry in unit.makes}
        self.consumers: dict[Entry, list[Unit]] = {}
        for unit in units:
            for entry in dict.fromkeys(unit.node.inputs):
                self.consumers.setdefault(entry, []).append(unit)
        # What another mechanism makes free is not fused.
        for unit in units:
            if unit.kind is not None and self._is_accumulated(unit):
                unit.kind, unit.why = None, obstacle("it is not added where an operand is computed")
        # Merge to a fixpoint: groups that are too large or blocked now may fit after other merges.
        while self._merge_along_edges():
            pass
        # Sums last: they join groups that are complete.
        for unit in units if fuse_sums else ():
            if unit.is_sum and unit.kind is not None:
                self._fuse_sum(unit)

    def nbytes(self, entry: Entry) -> int:
        return self.specs[self.graph.eid(entry)].nbytes

    def groups(self) -> list[Group]:
        return list(dict.fromkeys(unit.group for unit in self.units))

    def _is_accumulated(self, unit: Unit) -> bool:
        """Whether this is a sum of gradients that costs nothing, because the memory planner lets
        one operand be added to the other where it is computed."""
        if unit.node.op_name != "_grad_add":
            return False
        producers = [self.producer[entry] for entry in unit.reads
                     if len(self.consumers[entry]) == 1]
        return any(each.kind is None and not each.node.is_variable
                   and each.node.required_op.accumulates for each in producers)

    def _merge_along_edges(self) -> bool:
        """Try every edge once; True if groups have been merged."""
        merged = False
        for unit in self.units:
            for entry in unit.reads if unit.kind and not unit.is_sum else ():
                producer = self.producer[entry]
                if (producer.kind == unit.kind and not producer.is_sum
                        and producer.group is not unit.group):
                    merged |= self._merge(producer.group, unit.group)
        return merged

    def _merge(self, first: Group, second: Group) -> bool:
        """Make one group of two, if there is a position for it and it is not too large."""
        units = sorted(first.units + second.units, key=lambda unit: unit.index)
        position = self._position(first, second, units)
        if isinstance(position, Obstacle):
            return False
        group = Group(units, position)
        for unit in units:
            unit.group = group
        return True

    def _position(self, first: Group, second: Group, units: list[Unit]) -> float | Obstacle:
        """The position for the `units` of two groups, or the reason why these stay two."""
        # Limits of one kernel; it also reads an entry in one shape only.
        inputs, outputs = self.boundary(units)
        if len(units) > MAX_NODES:
            return obstacle("a kernel computes few nodes", nodes=len(units), most=MAX_NODES)
        if len(inputs) + len(outputs) > MAX_TENSORS:
            return obstacle("a kernel has few tensors", tensors=len(inputs) + len(outputs),
                            most=MAX_TENSORS)
        for entry, shapes in _operand_shapes(units).items():
            if len(shapes) > 1:
                return obstacle("a tensor is read in one shape", input=entry,
                                shapes=sorted(shapes))
        # The interval of legal positions.
        inside = set(units)
        after = max((self.producer[entry].group.position for entry in inputs), default=-inf)
        before = min((consumer.group.position for unit in units for entry in unit.makes
                      for consumer in self.consumers.get(entry, ()) if consumer not in inside),
                     default=inf)
        # Move one group to the other, preferably the first one to the second, unless that keeps
        # more memory alive in between.
        first, second = sorted((first, second), key=lambda group: group.position)
        why = None
        for position, moved in ((second.position, first), (first.position, second)):
            if after < position < before:
                growth = 0 if self._are_adjacent(first, second) else self._growth(moved, position)
                if growth <= 0:
                    return position
                why = obstacle("no more memory is alive in between", bytes=growth)
        return why or obstacle("no other node is between them", between=lambda: [
            producer.node for producer in map(self.producer.__getitem__, inputs)
            if producer.group.position > first.position])

    def _fuse_sum(self, unit: Unit) -> None:
        """Merge a sum with a group whose only output it alone reads."""
        for entry in unit.reads:
            producer = self.producer[entry]
            if (producer.kind == unit.kind and not producer.is_sum
                    and self._not_summed(producer.group, unit) is None
                    and self._merge(producer.group, unit.group)):
                return

    def _not_summed(self, group: Group, unit: Unit) -> Obstacle | None:
        """The reason why a sum cannot be computed together with what it sums."""
        inputs, outputs = self.boundary(group.units)
        shapes = _operand_shapes(group.units)
        assert unit.kind is not None
        # A kernel iterates over the broadcast shape of its inputs.
        if unit.kind.shape != np.broadcast_shapes(*(min(shapes[each]) for each in inputs)):
            return obstacle("an input has the shape of the kernel", shape=unit.kind.shape)
        if len(outputs) != 1:
            return obstacle("a kernel writes the sum alone", writes=outputs)
        if outputs[0] in self.graph_outputs:
            return obstacle("what is summed is no output of the graph", input=outputs[0])
        others = [each.node for each in self.consumers.get(outputs[0], ()) if each is not unit]
        return obstacle("nothing else reads what is summed", readers=others) if others else None

    # -- why nodes are not fused ----------------------------------------------------------------

    def record_gaps(self) -> None:
        """Record why elementwise nodes that read each other's results are in several kernels."""
        for unit in self.units:
            for entry in dict.fromkeys(unit.reads) if unit.kind or unit.why else ():
                producer = self.producer[entry]
                why = self._gap(producer, unit) if producer.kind or producer.why else None
                if why is not None:
                    refused("fuse_elementwise", unit.node, why._replace(
                        evidence={"producer": producer.node, **why.evidence}))

    def _gap(self, producer: Unit, unit: Unit) -> Obstacle | None:
        """The reason why two units are in different groups, if they are and a sum has none."""
        if producer.group is unit.group or (unit.is_sum and len(unit.group.units) > 1):
            return None
        if unit.kind is None or producer.kind is None:
            return unit.why or producer.why
        for rule, ours, theirs in zip(SAME, unit.kind, producer.kind, strict=True):
            if ours != theirs:
                return obstacle(rule, here=_shown(ours), there=_shown(theirs))
        if producer.is_sum:
            return obstacle("what it reads is no sum")
        if unit.is_sum and not self.fuse_sums:
            return obstacle("results may be rounded differently")
        units = sorted(producer.group.units + unit.group.units, key=lambda each: each.index)
        why = self._not_summed(producer.group, unit) if unit.is_sum else None
        position = why or self._position(producer.group, unit.group, units)
        return position if isinstance(position, Obstacle) else None

    def _are_adjacent(self, first: Group, second: Group) -> bool:
        """Whether no unit of another group runs between two groups."""
        between = self.units[self.order[first.units[0]]:self.order[second.units[-1]]]
        return len(between) <= MAX_DISTANCE and all(
            unit.group in (first, second) or unit.node.is_variable for unit in between)

    def _growth(self, group: Group, position: float) -> int:
        """The bytes that are alive for longer when a group moves: later, inputs that it reads last;
        earlier, its outputs."""
        inputs, outputs = self.boundary(group.units)
        last_uses = [entry for entry in inputs if not self.producer[entry].node.is_variable
                     and entry not in self.graph_outputs
                     and all(consumer.group.position <= group.position
                             for consumer in self.consumers[entry])]
        change = sum(map(self.nbytes, last_uses)) - sum(map(self.nbytes, outputs))
        return change if position > group.position else -change

    def boundary(self, units: Sequence[Unit]) -> tuple[list[Entry], list[Entry]]:
        """Inputs and outputs: entries units read of others, and entries others read of them."""
        inside = set(units)
        reads = dict.fromkeys(entry for unit in units for entry in unit.reads)
        inputs = [entry for entry in reads if self.producer[entry] not in inside]
        outputs = [entry for unit in units for entry in unit.makes if entry in self.graph_outputs
                   or any(consumer not in inside and consumer.needs(entry)
                          for consumer in self.consumers.get(entry, ()))]
        return inputs, outputs


def _operand_shapes(units: Iterable[Unit]) -> dict[Entry, set[Shape]]:
    """The shapes in which units read each entry."""
    shapes: dict[Entry, set[Shape]] = {}
    for unit in units:
        assert unit.elements is not None and unit.elements.shapes is not None
        for entry, shape in zip(unit.reads, unit.elements.shapes, strict=False):
            shapes.setdefault(entry, set()).add(shape)
    return shapes


# -- the new graph ----------------------------------------------------------------------------

class _FusedGraphBuilder:
    """Builds the graph with one node for each group of several units."""

    def __init__(self, graph: Graph, specs: Sequence[Spec], grouping: _Grouping):
        self.graph, self.specs, self.grouping = graph, specs, grouping
        self.now: dict[Entry, Entry] = {}
        """Entries that have been replaced, and by which."""
        self.origin: dict[Node, Node] = {}
        self.clones: dict[Node, Node] = {}
        self.notes: list[str] = []

    def build(self) -> FusedGraph:
        # Nodes in the order of group positions, which is topological.
        nodes: dict[Node, None] = {}
        for group in sorted(self.grouping.groups(), key=lambda group: group.position):
            if len(group.units) == 1:
                nodes[self._kept(group.units[0].node)] = None
            elif self.grouping.boundary(group.units)[1]:  # dead code otherwise
                nodes[self._fused(group.units)] = None
        graph = Graph([self.now.get(entry, entry) for entry in self.graph.outputs], list(nodes))
        # Every new entry stands for one of the graph before, whose facts it inherits.
        before = {new: self.graph.eid(old) for old, new in self.now.items()}
        eids = [before[entry] if entry in before else self.graph.eid(
                    Entry(self.origin.get(entry.node, entry.node), entry.index))
                for node in nodes for entry in (Entry(node, i) for i in range(node.num_outputs))]
        return FusedGraph(graph, eids, self.origin, self.notes)

    def _kept(self, node: Node) -> Node:
        """The node, or a clone of it if its inputs or its source have been replaced."""
        inputs = [self.now.get(entry, entry) for entry in node.inputs]
        source = None if node.source is None else self.clones.get(node.source, node.source)
        if inputs == node.inputs and source is node.source:
            return node
        if node not in self.clones:
            clone = self.clones[node] = node.clone(inputs, source)
            self.origin[clone] = node
            for i in range(node.num_outputs):
                self.now.setdefault(Entry(node, i), Entry(clone, i))
        return self.clones[node]

    def _fused(self, units: list[Unit]) -> Node:
        """One node for a group."""
        inputs, outputs = self.grouping.boundary(units)
        program, scalars = _program(units, inputs, outputs)
        inputs = [inputs[int(name[1:])] for name in program.inputs]
        # The output has the shape of the last unit, inputs broadcast to that of the group.
        last, operand_shapes = units[-1].elements, _operand_shapes(units)
        assert last is not None and last.shapes is not None
        shapes = (*(min(operand_shapes[entry]) for entry in inputs),
                  *[last.shapes[-1]] * len(outputs))
        # An output may overwrite an input of the same shape and type.
        inplace = [(x, y) for y, target in zip(program.outputs, outputs, strict=True)
                   for x, source in zip(program.inputs, inputs, strict=True)
                   if self._spec(source) == self._spec(target) and not units[-1].is_sum]
        op = FusedElements(program, scalars, tuple(map(_label, outputs)), shapes, tuple(inplace))
        names = [unit.node.name for unit in units]
        shown = names if len(names) <= 4 else [*names[:2], f"{len(names) - 3} more", names[-1]]
        node = Node(op, "+".join(shown), [self.now.get(entry, entry) for entry in inputs])
        self.now.update({entry: Entry(node, i) for i, entry in enumerate(outputs)})
        self.notes.append(f"{', '.join(names)} are one kernel")
        for each in dict.fromkeys(unit.node for unit in units):
            done("fuse_elementwise", each, "it is part of a kernel", into=node)
        return node

    def _spec(self, entry: Entry) -> Spec:
        return self.specs[self.graph.eid(entry)]


def _program(units: Iterable[Unit], inputs: Sequence[Entry], outputs: Sequence[Entry]
             ) -> tuple[Program, tuple[float, ...]]:
    """The program of a group and its scalars.

    Names depend on the pattern alone, so that groups of one pattern share a compiled kernel.
    """
    names = {entry: f"x{i}" for i, entry in enumerate(inputs)}
    values: dict[str, float] = {}
    parts, targets = [], (f"y{i}" for i in count())
    for unit in units:
        assert unit.elements is not None
        part, _, scalars, _ = unit.elements
        known = {name: names[entry] for name, entry in zip(part.inputs, unit.reads, strict=True)}
        for name, value in zip(part.scalars, scalars, strict=True):
            known[name] = f"s{len(values)}"
            values[known[name]] = value
        for name, entry in zip(part.outputs, unit.makes, strict=True):
            known[name] = names[entry] = next(targets)
        parts.append((part, known))
    whole = concatenate("fused", parts, tuple(names[entry] for entry in inputs),
                        tuple(names[entry] for entry in outputs), tuple(values))
    program = prune(whole, (True,) * len(outputs))
    return program, tuple(values[name] for name in program.scalars)


def _shown(value: object) -> Evidence:
    """A property of a group as evidence."""
    return value if isinstance(value, (bool, tuple)) else str(value)


def _label(entry: Entry) -> str:
    """The name of an entry for people."""
    op = entry.node.required_op
    outputs = op.list_outputs()
    return entry.node.name if len(outputs) == 1 else f"{entry.node.name}.{outputs[entry.index]}"
