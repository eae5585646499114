"""Analyses that several passes share: they read a graph and change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ...graph import Entry, Graph, Node

__all__ = ["CONVOLUTIONS", "NORMS", "count_uses", "nodes_with_gradient",
           "writers_of_shared_states"]

# By name: most networks have no need to import the modules of all ops.
CONVOLUTIONS = frozenset({"Convolution", "Convolution_v1"})
NORMS = frozenset({"BatchNorm", "_contrib_SyncBatchNorm"})


def count_uses(graph: Graph) -> Counter[Entry]:
    """How many inputs of nodes and outputs of the graph refer to each entry."""
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    uses.update(graph.outputs)
    return uses


def nodes_with_gradient(graph: Graph, trained: Collection[str]) -> set[Node]:
    """Nodes whose results depend on a trained variable: those with a backward pass, and some that
    have none, as behind BlockGrad."""
    nodes: set[Node] = set()
    for node in graph.nodes:
        learns = (node.name in trained if node.is_variable
                  else any(entry.node in nodes for entry in node.inputs))
        if learns:
            nodes.add(node)
    return nodes


def writers_of_shared_states(graph: Graph) -> list[Node]:
    """Nodes of which another one has the same state, such as a moving average, in their order: what
    is left in the state depends on it."""
    uses = count_uses(graph)
    return [node for node in graph.nodes if node.op is not None and node.op.aux
            and any(uses[node.inputs[i]] > 1 for i in node.op.aux_indices())]
