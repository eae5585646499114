"""Constant folding and loop-invariant code motion: nodes that need not run for every batch.

    constants      nodes that depend on no variable (`_zeros`, `_arange`, arithmetic on these)
    shape reads    nodes that read only the shapes of their inputs, which are constants, too
    derived ops    inserted between parameters and their readers by other passes (`Op.derived`)

Such nodes form groups that share no results: a group is computed again as a whole, and never
because another group reads it.

Assumes: nodes are pure, and results small enough to be kept (`_not_kept`); nobody writes to
results, so outputs of the graph are left out (`derived_groups`); whoever writes to a parameter
tells so (`ndarray.mutation`), or its memory counts as always changed (`DerivedConstants`); ops that
say so read shapes alone, and what they do not read any more draws no random numbers, of which later
draws would get others (`fold_shape_reads`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain
from math import inf

from ...graph import Entry, Graph, Node
from ...ops.internal import Unread
from ...ops.op import Spec
from ..remarks import Obstacle, done, obstacle, refused
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import nodes_with_draws, varies

__all__ = ["derived_groups", "fold_shape_reads", "hoist_constants"]

LARGEST = 2 ** 20
"""Bytes; a larger constant is computed into the arena in every run instead of being kept."""


def fold_shape_reads(before: Rewritten) -> Rewritten:
    """Cut off inputs of which only shapes are read, so that their readers become constants."""
    graph, known = before.graph, before.specs
    graph_outputs = {id(entry.node) for entry in graph.outputs}
    drawing = nodes_with_draws(graph)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        op = node.op
        if op is None or not op.reads_shapes or inputs[0].node.op_name == Unread.name:
            return None
        ins = [spec for eid in graph.input_eids(node) if (spec := known[eid]) is not None]
        if len(ins) < len(inputs):
            return None
        drawn = next((entry for entry in node.inputs if entry.node in drawing), None)
        why = obstacle("its inputs draw no random numbers", input=drawn) if drawn else (
            _not_kept(graph, node, known, graph_outputs))
        if why is not None:
            return why
        unread = [Entry(Node(Unread(*spec), f"{node.name}_{name}_shape"))
                  for name, spec in zip(op.list_inputs(), ins, strict=True)]
        clone = node.clone(unread, None)
        return Replacement([Entry(clone, i) for i in range(node.num_outputs)],
                           f"{node.describe()} follows from shapes", is_clone=True,
                           rule="its inputs are not computed for it")

    return rewrite(before, rule)


def _not_kept(graph: Graph, node: Node, specs: Sequence[Spec | None],
              graph_outputs: Container[int], most: float = LARGEST) -> Obstacle | None:
    """The reason why results are not kept between runs; `most` is the number of bytes."""
    if id(node) in graph_outputs:
        return obstacle("it is no output of the graph")
    sizes = [spec.nbytes if (spec := specs[eid]) is not None else inf
             for eid in graph.output_eids(node)]
    if max(sizes) > most:
        return obstacle("it is small enough to be kept", bytes=max(sizes), most=most)
    return None


def hoist_constants(before: Rewritten, derived_only: bool = False) -> Rewritten:
    """`before` with the groups of nodes that are hoisted out of the loop over batches; with
    `derived_only`, those of ops that passes inserted."""
    groups = [group for group in derived_groups(before.graph, before.specs)
              if not derived_only or all(node.required_op.derived for node in group)]
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
        if node.op is None or not _reads_constants(node, group):
            continue
        why = _not_kept(graph, node, specs, graph_outputs, inf) if node.op.derived else (
            varies(node.op) or _not_kept(graph, node, specs, graph_outputs))
        if why is not None:
            refused("hoist_constants", node, why)
            continue
        # Merge the groups of all sources with this node.
        merged = {id(group[id(source)]): group[id(source)] for source in sources
                  if id(source) in group}
        members = [*chain(*merged.values()), node]
        group.update(dict.fromkeys(map(id, members), members))
    return list({id(members): members for members in group.values()}.values())


def _reads_constants(node: Node, hoisted: Container[int]) -> bool:
    """Whether a node depends on hoisted nodes only, or for a derived op, also on parameters."""
    is_derived = node.required_op.derived
    return all((is_derived and entry.node.is_variable) or id(entry.node) in hoisted
               for entry in node.inputs)
