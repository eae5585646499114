"""Analyses that several passes share: they read a graph and change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ...graph import Entry, Graph, Node
from ...ops.op import Op
from ..remarks import Obstacle, obstacle

__all__ = ["CONVOLUTIONS", "NORMS", "count_uses", "nodes_with_draws", "nodes_with_gradient",
           "other_reader", "varies", "writers_of_shared_states"]

# By name: most networks have no need to import the modules of all ops.
CONVOLUTIONS = frozenset({"Convolution", "Convolution_v1"})
NORMS = frozenset({"BatchNorm", "_contrib_SyncBatchNorm"})


def count_uses(graph: Graph) -> Counter[Entry]:
    """How many inputs of nodes and outputs of the graph refer to each entry."""
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    uses.update(graph.outputs)
    return uses


def other_reader(graph: Graph, uses: Counter[Entry], entry: Entry) -> Obstacle | None:
    """The obstacle where not just one node reads `entry`, once, for which `uses` are counted."""
    if uses[entry] == 1:
        return None
    if entry in graph.outputs:
        return obstacle("what it reads is no output of the graph", input=entry)
    return obstacle("nothing else reads its input", input=entry, readers=lambda: [
        node for node in graph.nodes for each in node.inputs if each == entry])


def varies(op: Op) -> Obstacle | None:
    """The reason why results on equal inputs differ from run to run, or may."""
    if op.aux:
        return obstacle("it has no states")
    if op.subgraphs or op.runs_subgraphs:
        return obstacle("it runs no graphs")
    return None if op.is_pure else obstacle("it draws no random numbers")


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


def nodes_with_draws(graph: Graph) -> set[Node]:
    """Nodes that draw random numbers or may, such as operators of users, and what reads them."""
    nodes: set[Node] = set()
    for node in graph.nodes:
        if node.op is not None and (node.op.may_draw or any(
                entry.node in nodes for entry in node.inputs)):
            nodes.add(node)
    return nodes


def writers_of_shared_states(graph: Graph) -> list[Node]:
    """Nodes of which another one has the same state, such as a moving average, in their order: what
    is left in the state depends on it."""
    uses = count_uses(graph)
    return [node for node in graph.nodes if node.op is not None and node.op.aux
            and any(uses[node.inputs[i]] > 1 for i in node.op.aux_indices())]
