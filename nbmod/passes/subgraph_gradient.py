"""Gradients of bodies: graphs that nodes run (`ops.subgraph`) differentiated like any other graph.

A node that runs bodies is replaced by one whose bodies are trained: each is its forward graph and
the gradients of all its variables, made by the very same pass.  The new op has hidden outputs for
what these read of forward, so that for every later pass it is an op like others.
"""

from __future__ import annotations

from functools import partial

from ..graph import Entry, Graph, Node
from ..ops.control_flow.control_base import Control
from ..ops.subgraph import Body
from .recompute import mirror
from .training import with_gradients, write_gradients

__all__ = ["with_trained_bodies"]


def with_trained_bodies(graph: Graph, cheap: bool = False) -> Graph:
    """`graph` with trained bodies in all nodes that run any; `cheap` is that of `mirror`."""
    new: dict[int, Node] = {}

    def current(entry: Entry) -> Entry:
        return Entry(new.get(id(entry.node), entry.node), entry.index)

    for node in graph.nodes:
        inputs, op = [current(entry) for entry in node.inputs], node.op
        if isinstance(op, Control):
            op = op.trained(partial(_train, cheap))
        if op is not node.op or inputs != node.inputs:
            clone = new[id(node)] = node.clone(inputs, node.source)
            clone.op = op
    return Graph([current(entry) for entry in graph.outputs]) if new else graph


def _train(cheap: bool, body: Body, summed: set[int], kept: set[int]) -> Body:
    """`body` with gradients.

    Those of the variables in `summed` are added to what is there; the values of the variables in
    `kept` are saved like those of other entries, if gradients read them.
    """
    forward = with_trained_bodies(body.forward, cheap)
    variables, states = body.variables, set(body.states)
    trained = tuple(i for i in range(len(variables)) if i not in states)
    graph, heads = with_gradients(forward, [variables[i].node for i in trained])
    graph = mirror(graph, body.num_outputs, cheap)
    graph = write_gradients(graph, ["add" if i in summed else "write" for i in trained])
    ahead = {id(node) for node in graph.head(body.num_outputs).nodes}
    other = {id(entry.node) for i, entry in enumerate(variables) if i not in kept}
    read = [entry for node in graph.nodes if id(node) not in ahead for entry in node.inputs
            if id(entry.node) in ahead - other]
    return Body(graph, body.num_outputs, tuple(heads), trained, tuple(dict.fromkeys(read)))
