"""Mixed precision: casts that let some operators compute in float16 and others in float32.

Each entry is known to be float16 or float32, or it is not known, as are variables:

- operators in `low` read their inputs cast to float16, those in `single` to float32;
- operators in `widest` read inputs of one type: that of float32 inputs, float16 if all are, or what
  `amp_multicast` finds to be the widest at run time;
- all others take what is given, and have the types that follow from those of their inputs;
- outputs of the graph are float32.

Casts are nodes of the symbol; an entry is cast once for all that read it.

Assumes: an operator is in one list, and can be computed in either type; checked in
`contrib.amp.amp._check_known`.  Names may coincide: nodes and casts are found by entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..base import MXNetError
from ..graph import Entry, Graph, Node
from ..ops.op import PartialType
from .entry_names import inserted_name
from .rewrite import Replacement, node_of, rewrite, unchanged

__all__ = ["Precision", "parameters_in_float16", "reduce_precision", "types_of_casts"]

LOW, SINGLE = "float16", "float32"


class Precision(NamedTuple):
    """The precision of operators, by name."""

    low: frozenset[str]
    single: frozenset[str]
    widest: frozenset[str]
    conditional: Sequence[tuple[str, str, Sequence[str]]] = ()
    """(operator, parameter, values) of operators in float32 where the parameter has such a
    value."""
    excluded: frozenset[str] = frozenset()
    """Names of nodes in float32."""

    def is_single(self, node: Node) -> bool:
        """Whether a node reads float32; variables that it reads stay as they are."""
        return node.name in self.excluded or node.op_name in self.single

    def is_conditional(self, node: Node) -> bool:
        """Whether it does so for its parameters."""
        return any(node.op_name == op and str(getattr(node.op, key, None)) in values
                   for op, key, values in self.conditional)

    def is_low(self, node: Node) -> bool:
        """Whether a node reads float16."""
        return node.op_name in self.low and node.name not in self.excluded


def reduce_precision(graph: Graph, precision: Precision, uncast: frozenset[str] = frozenset()
                     ) -> Graph:
    """`graph` with casts; variables named in `uncast` are float16 already."""
    casts = _EntryCasts(uncast)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        cast = _inputs_of(node, inputs, precision, casts)
        if cast == inputs and inputs == node.inputs:
            clone = node
        else:
            clone = node.clone(cast, node.source)
        casts.note(clone, _types_of(clone, precision, casts))
        if clone is node:
            return None
        return Replacement([Entry(clone, i) for i in range(node.num_outputs)], "", True)

    cast_graph = rewrite(unchanged(graph, []), rule).graph
    return Graph([casts.to(SINGLE, entry) for entry in cast_graph.outputs])


def parameters_in_float16(graph: Graph, precision: Precision) -> frozenset[str]:
    """Names of the variables that only operators in float16, and casts to it, read."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for entry in node.inputs:
            if entry.node.is_variable:
                readers.setdefault(entry.node.name, []).append(node)
    outputs = {entry.node.name for entry in graph.outputs if entry.node.is_variable}
    return frozenset(name for name, nodes in readers.items() if name not in outputs
                     and all(precision.is_low(node) or _is_cast_to_low(node) for node in nodes))


def types_of_casts(graph: Graph) -> list[PartialType]:
    """The types of entries that are casts, whatever they cast; None for all others."""
    types: list[PartialType] = [None] * graph.num_entries
    for node in graph.nodes:
        if node.op_name == "amp_cast":
            types[graph.output_eids(node)[0]] = np.dtype(vars(node.op)["dtype"])
    return types


def _is_cast_to_low(node: Node) -> bool:
    return node.op_name == "amp_cast" and np.dtype(vars(node.op)["dtype"]) == LOW


class _EntryCasts:
    """The types that entries have, and the casts of each."""

    def __init__(self, uncast: frozenset[str]):
        self.uncast = uncast
        self._types: dict[Entry, str] = {}
        self._made: dict[tuple[str, Entry], Entry] = {}

    def note(self, node: Node, dtypes: Sequence[str]) -> None:
        """Remember the types of a node's outputs; empty where they are not known."""
        self._types.update({Entry(node, i): dtype for i, dtype in enumerate(dtypes)})

    def type_of(self, entry: Entry) -> str:
        """The type of an entry, empty if it is not known."""
        if entry.node.is_variable:
            return LOW if entry.node.name in self.uncast else ""
        return self._types.get(entry, "")

    def is_cast(self, entry: Entry) -> bool:
        """Whether there is a cast to float16."""
        return (LOW, entry) in self._made

    def to(self, dtype: str, entry: Entry) -> Entry:
        """An entry as this type."""
        if self.type_of(entry) == dtype:
            return entry
        key = dtype, entry
        if key not in self._made:
            name = inserted_name(entry, f"amp_cast_{dtype}")
            self._made[key] = Entry(node_of("amp_cast", name, [entry], {"dtype": dtype}))
            self.note(self._made[key].node, [dtype])
        return self._made[key]


def _inputs_of(node: Node, inputs: list[Entry], precision: Precision, casts: _EntryCasts
               ) -> list[Entry]:
    """The entries that a node reads instead of `inputs`."""
    if precision.is_single(node):
        return [entry if entry.node.is_variable else casts.to(SINGLE, entry) for entry in inputs]
    if precision.is_conditional(node):
        return [casts.to(SINGLE, entry) for entry in inputs]
    if precision.is_low(node):
        return [casts.to(LOW, entry) for entry in inputs]
    if node.op_name in precision.widest:
        return _of_one_type(inputs, casts)
    return inputs


def _of_one_type(inputs: list[Entry], casts: _EntryCasts) -> list[Entry]:
    types = [casts.type_of(entry) or (LOW if casts.is_cast(entry) else "") for entry in inputs]
    if all(types):
        dtype = SINGLE if SINGLE in types else LOW
        return [casts.to(dtype, entry) for entry in inputs]
    multicast = node_of("amp_multicast", inserted_name(inputs[0], "amp_multicast"), inputs,
                        {"num_outputs": str(len(inputs))})
    return [Entry(multicast, i) for i in range(len(inputs))]


def _types_of(node: Node, precision: Precision, casts: _EntryCasts) -> list[str]:
    """The types of a node's outputs, empty where they are not known."""
    if precision.is_single(node) or precision.is_conditional(node):
        return [SINGLE] * node.num_outputs
    if precision.is_low(node):
        return [LOW] * node.num_outputs
    known = [np.dtype(dtype) if (dtype := casts.type_of(entry)) else None for entry in node.inputs]
    try:
        _, outs = node.required_op.infer_type(known, [None] * node.num_outputs)
    except MXNetError:      # types that contradict each other, which binding says
        return [""] * node.num_outputs
    return [dtype.name if dtype in (LOW, SINGLE) else "" for dtype in outs]
