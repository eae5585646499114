"""The units of elementwise fusion (`fuse_elementwise`): outputs of a node that one kernel computes.

Assumes: nothing of nodes; those whose `Op.elements` is None are units that are not fused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...base import DType
from ...context import Context
from ...graph import Entry, Graph, Node
from ...ops.elementwise.program import Elements, prune
from ...ops.op import Spec
from ...ops.param import Shape
from ...ops.shape import size_of
from ..remarks import Obstacle, obstacle

__all__ = ["Group", "GroupKind", "Unit", "units_of"]

FLOAT16, FLOAT32, FLOAT64 = (np.dtype(name) for name in ("float16", "float32", "float64"))


class GroupKind(NamedTuple):
    """Properties that all members of a group share."""

    shape: tuple[int, ...]
    dtype: DType
    backward: bool
    device: Context


@dataclass(eq=False)
class Unit:
    """Outputs of a node that are computed together: those that may be fused (`elements` is not
    None), or the rest of them."""

    node: Node
    outs: tuple[int, ...]
    index: float
    elements: Elements | None = None
    kind: GroupKind | None = None
    is_sum: bool = False
    """The output is a sum over elements of the shape of the kind."""
    reads: list[Entry] = field(default_factory=list)
    """The inputs of the node that these outputs depend on."""
    why: Obstacle | None = None
    """The reason why outputs that are elementwise are not fused."""
    group: Group = field(init=False)

    def __post_init__(self) -> None:
        self.group = Group([self], self.index)

    def needs(self, entry: Entry) -> bool:
        """Whether an input of the node is read; a node that is not fused reads them all."""
        return len(self.group.units) == 1 or entry in self.reads

    @property
    def makes(self) -> list[Entry]:
        return [Entry(self.node, i) for i in self.outs]


@dataclass(eq=False)
class Group:
    """Units in topological order, which run at one position."""

    units: list[Unit]
    position: float


def units_of(graph: Graph, specs: Sequence[Spec], devices: Sequence[Context], num_outputs: int,
             excluded: Collection[Node]) -> list[Unit]:
    """The units of every node, in order: up to one of elementwise outputs, one that is a sum, and
    one of all others."""
    forward = len(graph.head(num_outputs).nodes)
    used = {entry for node in graph.nodes for entry in node.inputs}.union(graph.outputs)
    excluded, units = set(excluded), []
    for index, node in enumerate(graph.nodes):
        device = devices[graph.output_eids(node)[0]]
        elements = None if node in excluded else _elements(graph, node, specs)
        outs = [i for i in range(node.num_outputs) if Entry(node, i) in used]
        reasons: list[Obstacle] = []
        fusible = [] if elements is None else _fusible(graph, node, specs, elements, outs, device,
                                                       reasons)
        for part, shape, dtype, is_sum in fusible:
            assert elements is not None
            own = _restricted(elements, part)
            kind = GroupKind(shape, dtype, index >= forward, device)
            units.append(Unit(node, part, index + is_sum / 2, own, kind, is_sum,
                              [node.inputs[i] for i in own.reads]))
            outs = [i for i in outs if i not in part]
        if outs or not fusible:
            units.append(Unit(node, tuple(outs), index + (0.5 if fusible else 0),
                              reads=node.inputs, why=reasons[0] if reasons else None))
    return units


def _fusible(graph: Graph, node: Node, specs: Sequence[Spec], elements: Elements,
             outs: Sequence[int], device: Context, reasons: list[Obstacle]
             ) -> list[tuple[tuple[int, ...], Shape, DType, bool]]:
    """(outputs, shape, dtype, is_sum) of units that may be fused: the outputs of the whole shape
    and, on a CPU, one that is a sum; `reasons` are extended by those of other outputs."""
    assert elements.shapes is not None
    out_specs = [specs[eid] for eid in graph.output_eids(node)]
    ins = [specs[eid].dtype for eid in graph.input_eids(node)]
    out_shapes = elements.shapes[len(elements.reads):]
    shape = np.broadcast_shapes(*elements.shapes)
    whole = tuple(i for i in outs if out_shapes[i] == shape)
    rest = tuple(i for i in outs if i not in whole)
    units = []
    for part, is_sum in ((whole, False), (rest, True)):
        types = {out_specs[i].dtype for i in part}
        dtype = _compute_dtype([ins[i] for i in elements.reads], types)
        if not part:
            continue
        if dtype is None:
            reasons.append(obstacle("it computes in float32 or float64 alone", types=sorted(
                str(each) for each in {*types, *(ins[i] for i in elements.reads)})))
        elif not (device.is_gpu or _is_compiled(shape)):
            reasons.append(obstacle("it has as many elements as kernels are compiled for",
                                    elements=size_of(shape)))
        elif is_sum and (why := _sums_apart(part, types, device)):
            reasons.append(why)
        else:
            units.append((part, shape, dtype, is_sum))
    return units


def _sums_apart(part: Sequence[int], types: Collection[DType], device: Context
                ) -> Obstacle | None:
    """The reason why outputs that are sums have a kernel of their own."""
    if len(part) > 1:
        return obstacle("one output is a sum", sums=len(part))
    if FLOAT16 in types:
        return obstacle("sums are float32 or float64")
    return obstacle("sums are on a CPU") if device.is_gpu else None


def _elements(graph: Graph, node: Node, specs: Sequence[Spec]) -> Elements | None:
    """The program of a node and the shapes of its operands; None if it is not elementwise."""
    if node.op is None or not node.inputs:
        return None
    ins = [specs[eid] for eid in graph.input_eids(node)]
    outs = [specs[eid] for eid in graph.output_eids(node)]
    elements = node.op.elements(ins, outs)
    if elements is None or elements.shapes is not None:
        return elements
    return elements._replace(shapes=tuple(
        spec.shape for spec in (*(ins[i] for i in elements.reads), *outs)))


def _restricted(elements: Elements, outs: Sequence[int]) -> Elements:
    """The part of a program that computes the outputs `outs`."""
    program, reads, scalars, shapes = elements
    assert shapes is not None
    part = prune(program, tuple(i in outs for i in range(len(program.outputs))))
    names = dict(zip(program.inputs, zip(reads, shapes, strict=False), strict=True))
    values = dict(zip(program.scalars, scalars, strict=True))
    return Elements(part, tuple(names[name][0] for name in part.inputs),
                    tuple(values[name] for name in part.scalars),
                    (*(names[name][1] for name in part.inputs),
                     *(shapes[len(reads) + i] for i in outs)))


def _is_compiled(shape: Sequence[int]) -> bool:
    """Whether elementwise ops of this shape have compiled kernels; smaller ones run in NumPy."""
    # The module that compiles is imported at the first bind.
    from ...ops.elementwise.kernel_cache import COMPILED_FROM

    return size_of(shape) >= COMPILED_FROM


def _compute_dtype(ins: Sequence[DType], outs: Collection[DType]) -> DType | None:
    """The type in which a kernel of its own computes; None where a group would use another.

    float16 is only written by a conversion, whose result nothing in the group reads.
    """
    if outs == {FLOAT16} and set(ins) == {FLOAT32}:
        return FLOAT32
    if outs == {FLOAT32} and FLOAT64 not in ins:
        return FLOAT32
    return FLOAT64 if outs == {FLOAT64} and FLOAT16 not in ins else None
