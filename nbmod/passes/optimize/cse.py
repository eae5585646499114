"""Nodes that do nothing in inference, and nodes that do what another one has done already.

Every replacement here gives the same numbers bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Entry, Graph, Node
from ...ops.op import Op, Spec
from ...ops.tensor.rearrange import Transpose
from ..rewrite import Replacement, Rewritten, rewrite

__all__ = ["merge_equal", "skip_identities"]


def skip_identities(before: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """Let the readers of a node that passes its input on read that input.

    Which nodes do is for the op to say (`Op.passes_on`): Dropout, BlockGrad, Cast to the same type,
    Reshape to the same shape.  A transposition of a transposition is one, or none.
    `specs` are those of the entries of `first`, from which `before` has been rewritten.
    """
    graph = before.graph
    uses = {entry for node in graph.nodes for entry in node.inputs}.union(graph.outputs)
    known = before.facts(first, specs)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        op = node.required_op
        if not inputs or not (op.view or type(op).passes_on is not Op.passes_on):
            return None
        if any(Entry(node, i) in uses for i in range(1, node.num_outputs)):
            return None
        ins = [known[eid] for eid in graph.input_eids(node)]
        outs = [known[eid] for eid in graph.output_eids(node)]
        if None in ins or None in outs:
            return None
        if op.passes_on(ins, outs) and _together(node, inputs[0].node):
            return _skip(node, inputs[0])
        return _transposed_twice(node, inputs[0], len(outs[0].shape))

    return rewrite(before, rule)


def _together(node: Node, source: Node) -> bool:
    """Whether the node is where its input is, whatever is done with groups of devices."""
    group = node.attrs.get("__ctx_group__")
    return group is None or group == source.attrs.get("__ctx_group__")


def _skip(node: Node, source: Entry) -> Replacement:
    return Replacement([source] * node.num_outputs,
                       f"{node.describe()} passes {source.node.name} on")


def _transposed_twice(node: Node, source: Entry, rank: int) -> Replacement | None:
    outer, inner = node.op, source.node.op
    if not (isinstance(outer, Transpose) and isinstance(inner, Transpose)
            and _together(node, source.node)):
        return None
    order = inner.order(rank)
    axes = tuple(order[axis] for axis in outer.order(rank))
    origin = source.node.inputs[0]
    if axes == tuple(range(rank)):
        return _skip(node, origin)
    merged = Node(Transpose(axes), node.name, [origin], node.attrs)
    return Replacement([Entry(merged)],
                       f"{source.node.name} and {node.describe()} are one transposition")


def merge_equal(before: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """Common subexpressions: compute once what several nodes compute, equal ops on equal inputs.

    Ops that draw random numbers or keep states are never equal, nor are nodes of different groups,
    nor nodes whose shape follows from those who read them, such as `_zeros` of unknown shape, where
    their shapes differ.  `specs` are those of the entries of `first`, from which `before` has been
    rewritten.
    """
    known = before.facts(first, specs)
    seen: dict[tuple, dict[Op, Node]] = {}
    earliest: dict[tuple, Node] = {}

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        op = node.required_op
        if op.aux or op.subgraphs or op.runs_bodies or not op.repeatable:
            return None
        outs = tuple(known[eid] for eid in before.graph.output_eids(node))
        key = (op.name, node.attrs.get("__ctx_group__"), outs, *inputs)
        other = earliest.setdefault(key, node)
        if other is node:
            return None
        twin = seen.setdefault(key, {other.required_op: other}).setdefault(op, node)
        if twin is node or not _same(op, twin.op):
            return None
        return Replacement([Entry(twin, i) for i in range(node.num_outputs)],
                           f"{node.describe()} is what {twin.name} is")

    return rewrite(before, rule)


def _same(op: Op, other: Op | None) -> bool:
    """Whether equal ops agree in the signs of their zeros, too."""
    return op is other or repr(op) == repr(other)
