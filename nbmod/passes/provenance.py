"""Provenance: which nodes of a symbol the nodes of a bound graph compute, from remarks.

A pass that changes a node says what stands for it now: `into` in its remark (`remarks.done`), with
others that are part of that (`joined`).  What passes only copy, since its inputs have changed, they
enter in their maps of clones (`Rewritten.origin`, `FusedGraph.origin`).

Assumes: remarks are in the order in which they were recorded, and all passes ran while they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from ..graph import Graph, Node
from .remarks import Remark

__all__ = ["origins"]


def origins(nodes: Iterable[Node], symbol: Graph, clones: Mapping[Node, Node],
            remarks: Iterable[Remark]) -> dict[Node, list[Node]]:
    """The nodes of `symbol` that each of `nodes` computes, in their order there.

    Parameters
    ----------
    nodes : iterable of Node
        Nodes of the bound graph.
    symbol : Graph
        The graph before all passes.
    clones : mapping of Node to Node
        Clones, and the nodes that they are clones of.
    remarks : iterable of Remark
        Remarks of all passes.
    """
    position = {node: index for index, node in enumerate(symbol.nodes)}
    parts: dict[Node, set[Node]] = {node: {node} for node in symbol.nodes}
    current: dict[Node, Node] = {}

    def original(node: Node) -> Node:
        """The node of which this is a clone, or that it computes again."""
        while source := clones.get(node) or (node.source if node.recomputes else None):
            node = source
        return node

    def parts_of(node: Node) -> set[Node]:
        """The parts of the node, and of what stands for it."""
        node = original(node)
        return parts.get(node, set()) | parts.get(current.get(node, node), set())

    for remark in remarks:
        into = remark.evidence.get("into")
        if isinstance(remark.subject, Node) and isinstance(into, Node):
            joined = cast("Sequence[Node]", remark.evidence.get("joined", ()))
            gained = set().union(*map(parts_of, [remark.subject, *joined]))
            into = original(into)
            parts[into] = parts.get(into, set()) | gained
            current[original(remark.subject)] = into
    return {node: sorted(parts.get(original(node), ()), key=position.__getitem__)
            for node in nodes}
