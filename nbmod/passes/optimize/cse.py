"""Identity elimination and common subexpression elimination (CSE).

Both give bitwise the same results.

Assumes: equal ops on equal inputs give equal results, and a second run has no effect; ops that draw
numbers or have states or graphs are left out, and the sign of a zero parameter counts (`rule` in
`cse`).  Nobody reads other outputs of what passes its input on, and it runs on the device of its
input (`rule` in `skip_identities`).  Outputs of the graph stay apart (`rewrite._collide`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Entry, Node
from ...ops.op import Op
from ...ops.tensor.rearrange import Transpose
from ..remarks import Obstacle, is_recording, obstacle
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import varies

__all__ = ["cse", "skip_identities"]

Key = tuple[object, ...]
"""Op name, whether equal nodes are merged, device group, specs of the outputs, and inputs."""


def skip_identities(before: Rewritten) -> Rewritten:
    """Replace a node that returns its input in inference by that input.

    Ops say which nodes do (`OpTraits.is_identity`): Dropout, BlockGrad, Cast to the same type,
    Reshape to the same shape.  Two transpositions in a row become one, or none.
    """
    graph = before.graph
    uses = {entry for node in graph.nodes for entry in node.inputs}.union(graph.outputs)
    known = before.specs

    def obstacle_to(node: Node, source: Node) -> Obstacle | None:
        """The reason why what reads `node` cannot read `source`."""
        hidden = [i for i in range(1, node.num_outputs) if Entry(node, i) in uses]
        if hidden:
            return obstacle("nothing reads its other outputs", output=Entry(node, hidden[0]))
        # However `group2ctx` maps groups, the node must run on the device of its input.
        group = node.attrs.get("__ctx_group__")
        if group is not None and group != source.attrs.get("__ctx_group__"):
            return obstacle("it has the ctx_group of its input", ctx_group=group, input=source)
        return None

    def rule(node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        op = node.required_op
        if not inputs or not (op.view or type(op).is_identity is not Op.is_identity):
            return None
        ins, outs = ([spec for eid in eids if (spec := known[eid]) is not None]
                     for eids in (graph.input_eids(node), graph.output_eids(node)))
        if len(ins) < len(inputs) or len(outs) < node.num_outputs:
            return None
        replacement = (_bypass(node, inputs[0]) if op.is_identity(ins, outs) else
                       _merge_transposes(node, inputs[0], len(outs[0].shape)))
        return replacement and (obstacle_to(node, inputs[0].node) or replacement)

    return rewrite(before, rule)


def _bypass(node: Node, source: Entry, joined: Sequence[Node] = ()) -> Replacement:
    return Replacement([source] * node.num_outputs,
                       f"{node.describe()} passes {source.node.name} on",
                       rule="its input is read instead", joined=joined)


def _merge_transposes(node: Node, source: Entry, rank: int) -> Replacement | None:
    outer, inner = node.op, source.node.op
    if not (isinstance(outer, Transpose) and isinstance(inner, Transpose)):
        return None
    order = inner.order(rank)
    axes = tuple(order[axis] for axis in outer.order(rank))
    origin = source.node.inputs[0]
    if axes == tuple(range(rank)):
        return _bypass(node, origin, [node.inputs[0].node])
    merged = Node(Transpose(axes), node.name, [origin], node.attrs)
    return Replacement([Entry(merged)],
                       f"{source.node.name} and {node.describe()} are one transposition",
                       rule="two transpositions are one", joined=[node.inputs[0].node])


def cse(before: Rewritten) -> Rewritten:
    """Compute equal ops on equal inputs once (hash-based value numbering).

    Never merged are ops that draw random numbers or keep state, nodes of different device groups,
    and nodes of different output shapes: that of `_zeros` may follow from its consumers.
    """
    known = before.specs
    # Hashing an op with its parameters is slow: nodes are compared by the cheap key first.
    earliest: dict[Key, Node] = {}
    by_op: dict[Key, dict[Op, Node]] = {}

    def rule(node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        op = node.required_op
        why = varies(op)
        if why and not is_recording():
            return None
        outs = tuple(known[eid] for eid in before.graph.output_eids(node))
        key: Key = (op.name, why is None, node.attrs.get("__ctx_group__"), outs, *inputs)
        other = earliest.setdefault(key, node)
        if other is node:
            return None
        twin = by_op.setdefault(key, {other.required_op: other}).setdefault(op, node)
        if twin is node:
            return None
        # Ops that compare equal may differ in the sign of a zero parameter; their text tells.
        if not (op is twin.op or repr(op) == repr(twin.op)):
            return obstacle("zeros among parameters have one sign", equal=twin)
        return why or Replacement([Entry(twin, i) for i in range(node.num_outputs)],
                           f"{node.describe()} is what {twin.name} is",
                           rule="an equal node computes it")

    return rewrite(before, rule)
