"""Fusion: connected elementwise nodes become one node, whose kernel reads and writes memory once.

An elementwise pass costs what it moves, not what it computes: a number comes from memory in the
time of some seventy operations.  What one such node writes and the next one reads again is saved
when both are one program (`Op.elements`, `ops.program`).

The pass runs when gradient nodes are in the graph, which makes the two directions one case: a
`Backward` of a formula is a formula too.  What backward reads of forward is written once, by the
kernel that computes it, and read once, by the kernel that needs it; computing it again would read
as much and compute more.  Halves are never mixed, since forward runs without backward.

*Groups.*  Every node has its position in the order of the graph, a group the position of one of its
members.  Two groups that a tensor connects become one if there is a position for it: behind
all that is read from outside, before all others that read what it writes.  So edges always point
forward, and there are no cycles.  A group is of one shape, one type and one device, and bounded in
tensors and formulas, so kernels stay small and few.  Its inputs may be smaller than its shape
(they broadcast).  Outputs that are sums do not join: a sum takes a pass of its own, which a
node may leave behind while its other outputs go.  Where a group has one output, which only a sum
reads, they become one: nothing but the sum is written.

*Values.*  In a kernel every formula has the type of the group, and no operation is reordered or
contracted, so what comes out is bit for bit what single kernels give.  Sums are made in the order
of kernels, which is not that of NumPy: their last digits differ, and where results shall be exact,
no sums are fused.  A GPU contracts a product and a sum, so there nothing is fused then.

*GPUs.*  Chains of any size are fused, since every kernel less is a launch less.  Sums do not join:
they are dealt out over blocks by kernels of their own.

Not fused: sums of gradients that one of its operands can be added to where it is computed, which
the memory planner does for less; nodes of fewer numbers than a kernel is compiled for; whatever a
user watches, for which `Executor.plain` runs node by node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ...context import Context
from ...graph import Entry, Graph, Node
from ...ops.elementwise.fused_elements import FusedElements
from ...ops.elementwise.program import Elements, Program, prune
from ...ops.elementwise.program import fuse as join
from ...ops.op import Spec
from ...ops.param import Shape
from ...ops.shape import size_of

__all__ = ["Fused", "fuse"]

MOST_TENSORS = 14
"""Read and written by one kernel.  The gates of an LSTM, forward, have 12."""

MOST_NODES = 24

FAR = 64
"""Positions between two groups that are looked at."""

HALF, SINGLE, DOUBLE = (np.dtype(name) for name in ("float16", "float32", "float64"))


class Fused(NamedTuple):
    """A graph with fused nodes, and what its entries and nodes were."""

    graph: Graph
    eids: list[int]
    """For every entry, its id in the graph before."""
    origin: dict[Node, Node]
    """The nodes that clones stand for."""
    notes: list[str]

    def facts(self, facts: Sequence[Any]) -> list[Any]:
        """`facts` of the entries of the graph before for those here."""
        return [facts[eid] for eid in self.eids]


class Kind(NamedTuple):
    """What the members of a group have in common."""

    shape: tuple[int, ...]
    dtype: np.dtype
    backward: bool
    device: Context


@dataclass(eq=False)
class Unit:
    """A node, or the part of its outputs that may join a group (`elements` is not None), or the
    rest of them."""

    node: Node
    outs: tuple[int, ...]
    index: float
    elements: Elements | None = None
    kind: Kind | None = None
    sums: bool = False
    """The output is a sum over what has the shape of the kind."""
    reads: list[Entry] = field(default_factory=list)
    """The inputs of the node that these outputs depend on."""
    group: Group = field(init=False)

    def __post_init__(self) -> None:
        self.group = Group([self], self.index)

    def needs(self, entry: Entry) -> bool:
        """Whether an input of the node is read; a node that stays one reads them all."""
        return len(self.group.units) == 1 or entry in self.reads

    @property
    def makes(self) -> list[Entry]:
        return [Entry(self.node, i) for i in self.outs]


@dataclass(eq=False)
class Group:
    """Units in the order of the graph, which run at one position."""

    units: list[Unit]
    at: float


def fuse(graph: Graph, specs: Sequence[Spec], devices: Sequence[Context], num_outputs: int,
         aside: Collection[Node] = (), exact: bool = False) -> Fused:
    """`graph`, whose first `num_outputs` outputs are those of forward, with fused nodes.

    `specs` and `devices` are those of its entries.  Nodes in `aside` stay as they are.  With
    `exact` all results are the same bits as those of single nodes.
    """
    if exact and any(device.is_gpu for device in devices):
        return _unchanged(graph)
    units = _units(graph, specs, devices, num_outputs, aside)
    found = _Grouping(graph, specs, units, not exact)
    if not any(len(group.units) > 1 for group in found.groups()):
        return _unchanged(graph)
    return _Builder(graph, specs, found).build()


def _unchanged(graph: Graph) -> Fused:
    return Fused(graph, list(range(graph.num_entries)), {}, [])


# -- who may join -----------------------------------------------------------------------------

def _units(graph: Graph, specs: Sequence[Spec], devices: Sequence[Context], num_outputs: int,
           aside: Collection[Node]) -> list[Unit]:
    """Every node in order; one that is elementwise in some of its outputs only is two units."""
    forward = len(graph.head(num_outputs).nodes)
    wanted = {entry for node in graph.nodes for entry in node.inputs}.union(graph.outputs)
    apart, units = set(aside), []
    for index, node in enumerate(graph.nodes):
        device = devices[graph.output_eids(node)[0]]
        elements = None if node in apart else _elements(graph, node, specs)
        outs = [i for i in range(node.num_outputs) if Entry(node, i) in wanted]
        parts = [] if elements is None else _parts(graph, node, specs, elements, outs, device)
        for part, shape, dtype, sums in parts:
            assert elements is not None
            only, kind = _only(elements, part), Kind(shape, dtype, index >= forward, device)
            units.append(Unit(node, part, index + sums / 2, only, kind, sums,
                              [node.inputs[i] for i in only.reads]))
            outs = [i for i in outs if i not in part]
        if outs or not parts:
            units.append(Unit(node, tuple(outs), index + (0.5 if parts else 0),
                              reads=node.inputs))
    return units


def _parts(graph: Graph, node: Node, specs: Sequence[Spec], elements: Elements,
           outs: Sequence[int], device: Context
           ) -> list[tuple[tuple[int, ...], Shape, np.dtype, bool]]:
    """Outputs that may join a group, its shape and its type: those that have the whole shape, and
    on a CPU one that is a sum (True)."""
    assert elements.shapes is not None
    made = [specs[eid] for eid in graph.output_eids(node)]
    ins = [specs[eid].dtype for eid in graph.input_eids(node)]
    seen = elements.shapes[len(elements.reads):]
    shape = np.broadcast_shapes(*elements.shapes)
    whole = tuple(i for i in outs if seen[i] == shape)
    rest = tuple(i for i in outs if i not in whole)
    found = []
    for part, sums in ((whole, False), (rest, True)):
        types = {made[i].dtype for i in part}
        dtype = _computed_in([ins[i] for i in elements.reads], types)
        if part and dtype is not None and (device.is_gpu or _is_large(shape)) and (
                not sums or (len(part) == 1 and HALF not in types and not device.is_gpu)):
            found.append((part, shape, dtype, sums))
    return found


def _elements(graph: Graph, node: Node, specs: Sequence[Spec]) -> Elements | None:
    if node.op is None or not node.inputs:
        return None
    ins = [specs[eid] for eid in graph.input_eids(node)]
    outs = [specs[eid] for eid in graph.output_eids(node)]
    found = node.op.elements(ins, outs)
    if found is None or found.shapes is not None:
        return found
    return found._replace(shapes=tuple(
        spec.shape for spec in (*(ins[i] for i in found.reads), *outs)))


def _only(elements: Elements, outs: Sequence[int]) -> Elements:
    """What the outputs `outs` take."""
    program, reads, scalars, shapes = elements
    assert shapes is not None
    part = prune(program, tuple(i in outs for i in range(len(program.outputs))))
    names = dict(zip(program.inputs, zip(reads, shapes, strict=False), strict=True))
    values = dict(zip(program.scalars, scalars, strict=True))
    return Elements(part, tuple(names[name][0] for name in part.inputs),
                    tuple(values[name] for name in part.scalars),
                    (*(names[name][1] for name in part.inputs),
                     *(shapes[len(reads) + i] for i in outs)))


def _is_large(shape: Sequence[int]) -> bool:
    from ...ops.elementwise.kernel_cache import (
        COMPILED_FROM,  # what compiles is imported at the first bind
    )

    return size_of(shape) >= COMPILED_FROM


def _computed_in(ins: Sequence[np.dtype], types: Collection[np.dtype]) -> np.dtype | None:
    """The type in which a kernel of its own computes; None where a group would use another.

    Only a conversion writes half precision, which is then read by nobody in the group.
    """
    if types == {HALF} and set(ins) == {SINGLE}:
        return SINGLE
    if types == {SINGLE} and DOUBLE not in ins:
        return SINGLE
    return DOUBLE if types == {DOUBLE} and HALF not in ins else None


# -- groups -----------------------------------------------------------------------------------

class _Grouping:
    """Units find together along the tensors that connect them."""

    def __init__(self, graph: Graph, specs: Sequence[Spec], units: list[Unit], sums: bool):
        self.graph, self.specs, self.units = graph, specs, units
        self.place = {unit: place for place, unit in enumerate(units)}
        self.shown = set(graph.outputs)
        self.maker = {entry: unit for unit in units for entry in unit.makes}
        self.readers: dict[Entry, list[Unit]] = {}
        for unit in units:
            for entry in dict.fromkeys(unit.node.inputs):
                self.readers.setdefault(entry, []).append(unit)
        for unit in units:
            if unit.kind is not None and self._is_added_elsewhere(unit):
                unit.kind = None
        while self._sweep():
            pass
        for unit in units if sums else ():
            if unit.sums and unit.kind is not None:
                self._end(unit)

    def nbytes(self, entry: Entry) -> int:
        return self.specs[self.graph.eid(entry)].nbytes

    def groups(self) -> list[Group]:
        return list(dict.fromkeys(unit.group for unit in self.units))

    def _is_added_elsewhere(self, unit: Unit) -> bool:
        """Whether this is a sum of gradients that costs nothing, because the planner lets one of
        the operands be added to the other where it is computed."""
        if unit.node.op_name != "_grad_add":
            return False
        makers = [self.maker[entry] for entry in unit.reads if len(self.readers[entry]) == 1]
        return any(maker.kind is None and maker.node.required_op.accumulates for maker in makers
                   if not maker.node.is_variable)

    def _sweep(self) -> bool:
        """Try every edge once.  What is too large now may fit when others have joined."""
        joined = False
        for unit in self.units:
            for entry in unit.reads if unit.kind and not unit.sums else ():
                maker = self.maker[entry]
                if (maker.kind == unit.kind and not maker.sums
                        and maker.group is not unit.group):
                    joined |= self._join(maker.group, unit.group)
        return joined

    def _join(self, first: Group, second: Group) -> bool:
        """Make one group of two, if there is a position for it and it is not too large."""
        units = sorted(first.units + second.units, key=lambda unit: unit.index)
        inputs, outputs = self.border(units)
        if (len(units) > MOST_NODES or len(inputs) + len(outputs) > MOST_TENSORS
                or any(len(shapes) > 1 for shapes in _seen(units).values())):
            return False
        inside = set(units)
        before = max((self.maker[entry].group.at for entry in inputs), default=-inf)
        after = min((reader.group.at for unit in units for entry in unit.makes
                     for reader in self.readers.get(entry, ()) if reader not in inside),
                    default=inf)
        first, second = sorted((first, second), key=lambda group: group.at)
        for at, moved in ((second.at, first), (first.at, second)):
            if before < at < after and (self._touch(first, second) or not self._holds(moved, at)):
                group = Group(units, at)
                for unit in units:
                    unit.group = group
                return True
        return False

    def _end(self, unit: Unit) -> None:
        """Let a sum join the group whose only output it reads."""
        for entry in unit.reads:
            maker = self.maker[entry]
            if maker.kind == unit.kind and not maker.sums and self._join_sum(maker.group, unit):
                return

    def _join_sum(self, group: Group, unit: Unit) -> bool:
        inputs, outputs = self.border(group.units)
        seen = _seen(group.units)
        if unit.kind is None or unit.kind.shape != np.broadcast_shapes(
                *(min(seen[entry]) for entry in inputs)):
            return False  # a kernel sees as many terms as its inputs have elements
        readers = [reader for entry in outputs for reader in self.readers.get(entry, ())]
        return (len(outputs) == 1 and outputs[0] not in self.shown and readers == [unit]
                and self._join(group, unit.group))

    def _touch(self, first: Group, second: Group) -> bool:
        """Whether nothing else happens between two groups."""
        between = self.units[self.place[first.units[0]]:self.place[second.units[-1]]]
        return len(between) <= FAR and all(unit.group in (first, second) or unit.node.is_variable
                                           for unit in between)

    def _holds(self, group: Group, at: float) -> bool:
        """Whether memory is held longer if a group runs at another position: what it reads for the
        last time, if that is later, or what it writes, if that is earlier."""
        inputs, outputs = self.border(group.units)
        dying = [entry for entry in inputs if not self.maker[entry].node.is_variable
                 and entry not in self.shown
                 and all(reader.group.at <= group.at for reader in self.readers[entry])]
        change = sum(map(self.nbytes, dying)) - sum(map(self.nbytes, outputs))
        return change > 0 if at > group.at else change < 0

    def border(self, units: Sequence[Unit]) -> tuple[list[Entry], list[Entry]]:
        """What units read of others, and what others read of them."""
        inside = set(units)
        reads = dict.fromkeys(entry for unit in units for entry in unit.reads)
        inputs = [entry for entry in reads if self.maker[entry] not in inside]
        outputs = [entry for unit in units for entry in unit.makes if entry in self.shown
                   or any(reader not in inside and reader.needs(entry)
                          for reader in self.readers.get(entry, ()))]
        return inputs, outputs


def _seen(units: Iterable[Unit]) -> dict[Entry, set[Shape]]:
    """The shapes in which units see what they read: a kernel reads it in one."""
    found: dict[Entry, set[Shape]] = {}
    for unit in units:
        assert unit.elements is not None and unit.elements.shapes is not None
        for entry, shape in zip(unit.reads, unit.elements.shapes, strict=False):
            found.setdefault(entry, set()).add(shape)
    return found


# -- the new graph ----------------------------------------------------------------------------

class _Builder:
    """The graph with a node for each group of several units."""

    def __init__(self, graph: Graph, specs: Sequence[Spec], found: _Grouping):
        self.graph, self.specs, self.found = graph, specs, found
        self.now: dict[Entry, Entry] = {}
        self.origin: dict[Node, Node] = {}
        self.clones: dict[Node, Node] = {}
        self.notes: list[str] = []

    def build(self) -> Fused:
        nodes: dict[Node, None] = {}
        for group in sorted(self.found.groups(), key=lambda group: group.at):
            if len(group.units) == 1:
                nodes[self._kept(group.units[0].node)] = None
            elif self.found.border(group.units)[1]:  # dead code otherwise
                nodes[self._fused(group.units)] = None
        before = {new: self.graph.eid(old) for old, new in self.now.items()}
        graph = Graph([self.now.get(entry, entry) for entry in self.graph.outputs], list(nodes))
        eids = [before[entry] if entry in before else self.graph.eid(
                    Entry(self.origin.get(entry.node, entry.node), entry.index))
                for node in nodes for entry in (Entry(node, i) for i in range(node.num_outputs))]
        return Fused(graph, eids, self.origin, self.notes)

    def _kept(self, node: Node) -> Node:
        """The node with the inputs and the source it has now."""
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
        """One node for all of them."""
        inputs, outputs = self.found.border(units)
        program, scalars = _program(units, inputs, outputs)
        inputs = [inputs[int(name[1:])] for name in program.inputs]
        last, seen = units[-1].elements, _seen(units)
        assert last is not None and last.shapes is not None
        shapes = (*(min(seen[entry]) for entry in inputs), *[last.shapes[-1]] * len(outputs))
        alike = [(x, y) for y, target in zip(program.outputs, outputs, strict=True)
                 for x, source in zip(program.inputs, inputs, strict=True)
                 if self._spec(source) == self._spec(target) and not units[-1].sums]
        op = FusedElements(program, scalars, tuple(map(_label, outputs)), shapes,
                           tuple(alike))
        names = [unit.node.name for unit in units]
        node = Node(op, _together(names), [self.now.get(entry, entry) for entry in inputs])
        self.now.update({entry: Entry(node, i) for i, entry in enumerate(outputs)})
        self.notes.append(f"{', '.join(names)} are one kernel")
        return node

    def _spec(self, entry: Entry) -> Spec:
        return self.specs[self.graph.eid(entry)]


def _program(units: Iterable[Unit], inputs: Sequence[Entry], outputs: Sequence[Entry]
             ) -> tuple[Program, tuple[Any, ...]]:
    """The program of a group, with names that depend on nothing but its pattern."""
    names = {entry: f"x{i}" for i, entry in enumerate(inputs)}
    values: dict[str, Any] = {}
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
    whole = join("fused", parts, tuple(names[entry] for entry in inputs),
                 tuple(names[entry] for entry in outputs), tuple(values))
    program = prune(whole, (True,) * len(outputs))
    return program, tuple(values[name] for name in program.scalars)


def _label(entry: Entry) -> str:
    op = entry.node.required_op
    outputs = op.list_outputs()
    return entry.node.name if len(outputs) == 1 else f"{entry.node.name}.{outputs[entry.index]}"


def _together(names: Sequence[str]) -> str:
    """Several names as one, of bounded length."""
    shown = names if len(names) <= 4 else [*names[:2], f"{len(names) - 3} more", names[-1]]
    return "+".join(shown)
