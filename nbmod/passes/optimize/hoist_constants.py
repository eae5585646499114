"""Constant folding and loop-invariant code motion: nodes that need not run for every batch.

    constants      nodes that depend on no variable (`_zeros`, `_arange`, arithmetic on these)
    shape reads    nodes that read only the shapes of their inputs, which are constants, too
    derived ops    inserted between parameters and their readers by other passes (`Op.derived`)

Such nodes form groups that share no results: a group is computed again as a whole, and never
because another group reads it.

Assumes: nodes are pure, and results small enough to be kept (`_is_invariant`); nobody writes to
results, so outputs of the graph are left out (`derived_groups`); whoever writes to a parameter
tells so (`ndarray.mutation`), or its memory counts as always changed (`DerivedConstants`); ops that
say so read shapes alone (`fold_shape_reads`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain

from ...graph import Entry, Graph, Node
from ...ops.internal import Unread
from ...ops.op import Spec
from ..remarks import done
from ..rewrite import Replacement, Rewritten, rewrite

__all__ = ["derived_groups", "fold_shape_reads", "hoist_constants"]

LARGEST = 2 ** 20
"""Bytes; a larger constant is computed into the arena in every run instead of being kept."""


def fold_shape_reads(before: Rewritten) -> Rewritten:
    """Cut off inputs of which only shapes are read, so that their readers become constants."""
    graph, known = before.graph, before.specs
    graph_outputs = {id(entry.node) for entry in graph.outputs}

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        op = node.op
        if op is None or not op.reads_shapes or id(node) in graph_outputs:
            return None
        ins = [spec for eid in graph.input_eids(node) if (spec := known[eid]) is not None]
        outs = [known[eid] for eid in graph.output_eids(node)]
        if (len(ins) < len(inputs) or not _is_kept(outs)
                or inputs[0].node.op_name == Unread.name):
            return None
        unread = [Entry(Node(Unread(*spec), f"{node.name}_{name}_shape"))
                  for name, spec in zip(op.list_inputs(), ins, strict=True)]
        clone = node.clone(unread, None)
        return Replacement([Entry(clone, i) for i in range(node.num_outputs)],
                           f"{node.describe()} follows from shapes", is_clone=True,
                           rule="its inputs are not computed for it")

    return rewrite(before, rule)


def _is_kept(outs: Sequence[Spec | None]) -> bool:
    """Whether results are small enough to be kept between runs."""
    return all(spec is not None and spec.nbytes <= LARGEST for spec in outs)


def hoist_constants(before: Rewritten) -> Rewritten:
    """`before` with the groups of nodes that are hoisted out of the loop over batches."""
    groups = derived_groups(before.graph, before.specs)
    for node in chain(*groups):
        done("hoist_constants", node, "it runs only when what it reads has changed")
    return before._replace(groups=groups)


def derived_groups(graph: Graph, specs: Sequence[Spec | None]) -> list[list[Node]]:
    """The connected components of hoisted nodes, each in topological order.

    Nodes that make outputs of the graph are not hoisted: users may write to those.
    """
    graph_outputs = {id(entry.node) for entry in graph.outputs}
    group: dict[int, list[Node]] = {}
    for node in graph.nodes:
        sources = [entry.node for entry in node.inputs]
        if node.op is None or id(node) in graph_outputs or not _is_invariant(
                graph, node, group, specs):
            continue
        # Merge the groups of all sources with this node.
        merged = {id(group[id(source)]): group[id(source)] for source in sources
                  if id(source) in group}
        members = [*chain(*merged.values()), node]
        group.update(dict.fromkeys(map(id, members), members))
    return list({id(members): members for members in group.values()}.values())


def _is_invariant(graph: Graph, node: Node, hoisted: Container[int], specs: Sequence[Spec | None]
                  ) -> bool:
    """Whether a node depends on hoisted nodes only, or for a derived op, also on parameters."""
    op = node.required_op
    if op.derived:
        return all(e.node.is_variable or id(e.node) in hoisted for e in node.inputs)
    if op.aux or op.subgraphs or op.runs_subgraphs or not op.is_pure:
        return False
    if not all(id(entry.node) in hoisted for entry in node.inputs):
        return False
    return _is_kept([specs[eid] for eid in graph.output_eids(node)])
