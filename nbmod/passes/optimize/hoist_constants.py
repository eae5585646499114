"""Which nodes need not run every time: they follow from constants, or from parameters.

    constants      nodes without variables below them (`_zeros`, `_arange`, arithmetic on these)
    shapes         nodes that read nothing but the shapes of their inputs, which are constants, too
    derived ops    put between parameters and their readers by other passes (`Op.derived`)

Nodes are grouped so that each group has its results to itself: a group is computed again as a
whole, and not because of what another one reads.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain

from ...graph import Entry, Graph, Node
from ...ops.internal import Unread
from ...ops.op import Spec
from ..rewrite import Replacement, Rewritten, rewrite

__all__ = ["derived_groups", "read_shapes"]

LARGEST = 2 ** 20
"""Bytes; a constant that is larger is computed in the arena every time rather than kept."""


def read_shapes(before: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """Cut off what is read for its shape only, so that readers become constants.

    `specs` are those of the entries of `first`, from which `before` has been rewritten.
    """
    graph = before.graph
    known = before.facts(first, specs)
    shown = {id(entry.node) for entry in graph.outputs}

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        op = node.op
        if op is None or not op.reads_shapes or id(node) in shown:
            return None
        ins = [known[eid] for eid in graph.input_eids(node)]
        outs = [known[eid] for eid in graph.output_eids(node)]
        if None in ins or not _is_kept(outs) or inputs[0].node.op_name == Unread.name:
            return None
        unread = [Entry(Node(Unread(*spec), f"{node.name}_{name}_shape"))
                  for name, spec in zip(op.list_inputs(), ins, strict=True)]
        clone = node.clone(unread, None)
        return Replacement([Entry(clone, i) for i in range(node.num_outputs)],
                           f"{node.describe()} follows from shapes", is_clone=True)

    return rewrite(before, rule)


def _is_kept(outs: Sequence[Spec | None]) -> bool:
    """Whether results are small enough to be kept."""
    return all(spec is not None and spec.nbytes <= LARGEST for spec in outs)


def derived_groups(graph: Graph, specs: Sequence[Spec | None]) -> list[list[Node]]:
    """Groups of nodes in topological order, connected by what they read of each other.

    No output of the graph is among them: users may write to those.
    """
    shown = {id(entry.node) for entry in graph.outputs}
    group: dict[int, list[Node]] = {}
    for node in graph.nodes:
        sources = [entry.node for entry in node.inputs]
        if node.op is None or id(node) in shown or not _follows(graph, node, group, specs):
            continue
        joined = {id(group[id(source)]): group[id(source)] for source in sources
                  if id(source) in group}
        members = [*chain(*joined.values()), node]
        group.update(dict.fromkeys(map(id, members), members))
    return list({id(members): members for members in group.values()}.values())


def _follows(graph: Graph, node: Node, known: Container[int], specs: Sequence[Spec | None]) -> bool:
    """Whether a node reads nothing but what follows from constants or parameters."""
    op = node.required_op
    if op.derived:
        return all(e.node.is_variable or id(e.node) in known for e in node.inputs)
    if op.aux or op.subgraphs or op.runs_bodies or not op.repeatable:
        return False
    if not all(id(entry.node) in known for entry in node.inputs):
        return False
    return _is_kept([specs[eid] for eid in graph.output_eids(node)])
