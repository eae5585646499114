"""Shape and type inference, both ways.

Facts live in one list indexed by entry id: a partial shape (0 is an unknown dimension, None an
unknown rank), or a dtype (None is unknown).  Each op's rule sees what is known around it and
returns what follows; the pass merges the answer into the list.  Merging only ever adds knowledge,
so sweeping forward and backward over the nodes until nothing changes ends at a unique fixed point.
A node whose surroundings are fully known and have been checked once is not visited again, so a
graph that infers in one direction costs about one sweep.

Variables bring their own knowledge: what the caller knows, then their `__shape__` / `__dtype__`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base import DTYPE_FLAGS, MXNetError
from ..graph import Graph, Node
from ..ops.op import PartialType
from ..ops.param import Shape, _dimension, _sequence
from ..ops.shape import PartialShape, ShapeMismatch, is_known, size_of, unify

__all__ = ["infer_shape", "infer_type", "unknown_variables"]

MAX_ELEMENTS = 2 ** 62
"""Above this a tensor's size in bytes no longer fits 64 bits."""


def infer_shape(graph: Graph, known: Mapping[str, Shape]) -> list[PartialShape]:
    """Shape of every entry, as far as it follows from `known` (variable name -> shape).

    Raises MXNetError naming the node where two facts contradict each other.
    """
    facts = _seed(graph, known, "__shape__", _declared_shape, tuple)
    _sweep(graph, facts, "infer_shape", _merge_shape, is_known)
    for eid, shape in enumerate(facts):
        if shape is not None and size_of(shape) > MAX_ELEMENTS:
            raise MXNetError(f"{_owner(graph, eid).describe()}: shape {shape} has more elements "
                             "than 64-bit indices can address")
    return facts


def infer_type(graph: Graph, known: Mapping[str, Any], default: Any = np.float32
               ) -> list[PartialType]:
    """Element type of every entry; a variable nothing is known of becomes `default` (None: stays).

    Raises MXNetError naming the node where two facts contradict each other.
    """
    facts = _seed(graph, known, "__dtype__", _declared_dtype, np.dtype)
    _sweep(graph, facts, "infer_type", _merge_type, _is_not_none)
    if default is None:
        return facts
    unknown = unknown_variables(graph, facts, _is_not_none)
    around = _neighbours(graph) if unknown else {}
    for node in unknown:
        eid = graph.output_eids(node)[0]
        if facts[eid] is None:
            facts[eid] = np.dtype(default)
            _spread(graph, facts, "infer_type", _merge_type, around, eid)
    return facts


def unknown_variables(graph: Graph, facts: list, known: Callable[[Any], bool]) -> list[Node]:
    """Variables whose fact is still incomplete, in order."""
    return [node for node in graph.variables if not known(facts[graph.output_eids(node)[0]])]


def _is_not_none(fact: Any) -> bool:
    return fact is not None


def _merge_shape(old: PartialShape, new: PartialShape) -> PartialShape:
    return unify(old, new, "shapes")


def _merge_type(old: PartialType, new: PartialType) -> PartialType:
    if old is not None and new is not None and old != new:
        raise MXNetError(f"element type is {old}, expected {new}; insert a Cast")
    return new if old is None else old


def _declared_shape(text: str) -> Shape:
    return tuple(max(dim, 0) for dim in _sequence(text, _dimension))


def _declared_dtype(text: str) -> PartialType:
    return None if int(text) == -1 else DTYPE_FLAGS[int(text)]


def _seed(graph: Graph, known: Mapping[str, Any], attr: str, read: Callable[[str], Any],
          convert: Callable[[Any], Any]) -> list:
    facts: list = [None] * graph.num_entries
    for node in graph.variables:
        value = known.get(node.name)
        if value is not None:
            facts[graph.output_eids(node)[0]] = convert(value)
        elif attr in node.attrs:
            try:
                facts[graph.output_eids(node)[0]] = read(node.attrs[attr])
            except (ValueError, KeyError):
                raise MXNetError(f"{node.describe()}: attribute {attr} is "
                                 f"{node.attrs[attr][:80]!r}, which cannot be read") from None
    return facts


def _sweep(graph: Graph, facts: list, rule: str, merge: Callable, known: Callable) -> None:
    """Apply every op's `rule` forward and backward until nothing changes."""
    pending = [node for node in graph.nodes if not node.is_variable]
    eids = {id(node): (graph.input_eids(node), graph.output_eids(node)) for node in pending}
    changed = True
    while changed and pending:
        changed = False
        remaining = []
        for node in pending:
            in_eids, out_eids = eids[id(node)]
            changed |= bool(_visit(graph, node, in_eids, out_eids, facts, rule, merge))
            if not all(known(facts[eid]) for eid in in_eids + out_eids):
                remaining.append(node)
        pending = remaining[::-1]


def _neighbours(graph: Graph) -> dict[int, list[Node]]:
    """Entry id -> the nodes whose rule sees the entry."""
    around: dict[int, list[Node]] = {eid: [] for eid in range(graph.num_entries)}
    for node in graph.nodes:
        if node.op is not None:
            like = [graph.eid(entry) for entry in node.op.like(node) or ()]
            for eid in {*graph.input_eids(node), *graph.output_eids(node), *like}:
                around[eid].append(node)
    return around


def _spread(graph: Graph, facts: list, rule: str, merge: Callable,
            around: dict[int, list[Node]], start: int) -> None:
    """Follow one new fact, that of entry `start`, only as far as it tells something new."""
    waiting = [start]
    while waiting:
        for node in around[waiting.pop()]:
            waiting += _visit(graph, node, graph.input_eids(node), graph.output_eids(node), facts,
                              rule, merge)


def _visit(graph: Graph, node: Node, in_eids: list[int], out_eids: list[int], facts: list,
           rule: str, merge: Callable) -> list[int]:
    """Let one node speak; the entries it told something new about."""
    op = node.op
    assert op is not None
    like = op.like(node)
    if like is not None:
        ins, outs = [facts[eid] for eid in in_eids], [facts[graph.eid(entry)] for entry in like]
    else:
        try:
            ins, outs = getattr(op, rule)([facts[eid] for eid in in_eids],
                                          [facts[eid] for eid in out_eids])
        except MXNetError as error:
            raise _located(error, node, [facts[eid] for eid in in_eids]) from None
    changed = []
    for position, (eid, fact) in enumerate(zip(in_eids + out_eids, [*ins, *outs], strict=True)):
        old = facts[eid]  # float64 == None is true for numpy, so None is asked for first
        if fact is None or (old is not None and fact == old):
            continue
        try:
            merged = merge(old, fact)
        except MXNetError:
            raise _conflict(node, position, old, fact, rule) from None
        if old is None or merged != old:
            changed.append(eid)
            facts[eid] = merged
    return changed


def _located(error: MXNetError, node: Node, in_facts: list) -> MXNetError:
    assert node.op is not None
    given = ", ".join(f"{name} {fact if fact is not None else '?'}" for name, fact
                      in zip(node.op.list_inputs(), in_facts, strict=False))
    return type(error)(f"{node.describe()}: {error} [inputs: {given}]")


def _conflict(node: Node, position: int, given: Any, expected: Any, rule: str) -> MXNetError:
    """One argument or output of a node contradicts what the op's rule says."""
    assert node.op is not None
    what = "shape" if rule == "infer_shape" else "type"
    names = [*node.op.list_inputs(), *(f"output {name}" for name in node.op.list_outputs())]
    name = names[position]
    source = node.inputs[position].node.name if position < len(node.inputs) else node.name
    kind = ShapeMismatch if what == "shape" else MXNetError
    return kind(f"{node.describe()}: {name} has {what} {given}, expected {expected} "
                f"(it comes from {source!r})")


def _owner(graph: Graph, eid: int) -> Node:
    import bisect

    return graph.nodes[bisect.bisect_right(graph.first_eid, eid) - 1]
