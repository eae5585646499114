"""The graph that training runs: a symbol's outputs, and gradients, written to users' arrays.

Its outputs are those of the symbol, then one entry for each variable that is trained.
`with_gradients` ends each of these in an `Accumulate` node, which writes the gradient to the user's
array or adds it there.  Other passes may rewrite the graph in between; `write_gradients` then drops
every such node whose gradient can be computed in the user's array in the first place.

Subgraphs that nodes run (`ops.subgraph`) are differentiated like any other graph: such a node is
replaced by one whose bodies are trained, each its forward graph and the gradients of all its
variables.  The new op has hidden outputs for what these read of forward, so that for every later
pass it is an op like others.

Assumes: nothing of gradients being different: two variables may have one, or a head gradient, or a
view; checked in `write_gradients`, which leaves the `Accumulate` node of all but the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import partial

from ..graph import Entry, Graph, Node
from ..ops.control_flow.control_base import Control
from ..ops.internal import Accumulate, ZeroGradient
from ..ops.op import Backward
from ..ops.subgraph import Body
from .gradient import gradient
from .recompute import mirror
from .remarks import Obstacle, done, obstacle, refused, withheld

__all__ = ["stores_last", "with_gradients", "with_trained_bodies", "write_gradients"]


def with_gradients(graph: Graph, wrt: Sequence[Node]) -> tuple[Graph, list[Node]]:
    """`graph` and the gradients for `wrt` in one graph, and a variable per head gradient."""
    if not wrt:
        return graph, []
    heads = [Node(None, f"_head_grad_{i}") for i in range(len(graph.outputs))]
    grads = gradient(graph, wrt, [Entry(head) for head in heads])
    ends = [Entry(Node(Accumulate(), f"{node.name}_grad", [grad], source=node))
            for node, grad in zip(wrt, grads, strict=True)]
    for node, grad in zip(wrt, grads, strict=True):
        if grad.node.op_name == ZeroGradient.name:
            refused("with_gradients", node, obstacle("an output has a gradient for it"))
        else:
            done("with_gradients", node, "it has a gradient", gradient=grad)
    return Graph([*graph.outputs, *ends]), heads


def write_gradients(graph: Graph, requests: Sequence[str], shared: Sequence[bool] = ()) -> Graph:
    """`graph` of `with_gradients` with no more `Accumulate` nodes than are needed.

    `requests` are those of the trained variables: "write" or "add".  What is `shared` is stored
    in memory that others read, or write to.
    """
    first = len(graph.outputs) - len(requests)
    outputs, ends = graph.outputs[:first], graph.outputs[first:]
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    written = set(outputs)
    for position, (end, request) in enumerate(zip(ends, requests, strict=True)):
        entry = end.node.inputs[0]
        why = _computed_apart(entry, written) or (
            _not_added(entry, uses[entry]) if request == "add" else None)
        if shared and shared[position]:
            why = obstacle("no other array of the user has its memory", gradient=entry)
        if why is not None:
            refused("write_gradients", end.node, why)
            continue
        ends[position] = entry
        written.add(entry)
        done("write_gradients", end.node, "it is computed in the user's array", into=entry.node)
    return Graph([*outputs, *ends]) if ends else graph


def _computed_apart(entry: Entry, written: Container[Entry]) -> Obstacle | None:
    """The reason why a gradient cannot be computed in an array of the user."""
    if entry.node.op is None:
        return obstacle("a node computes it", gradient=entry)
    if entry.node.op.view:
        return obstacle("it is no view", gradient=entry)
    if entry in written:
        return obstacle("it is no output, nor the gradient of another variable", gradient=entry)
    return None


def _not_added(entry: Entry, uses: int) -> Obstacle | None:
    """The reason why a gradient, which is read so often, cannot be added where it is computed."""
    op = entry.node.op
    if not (isinstance(op, Backward) and op.accumulates):
        return obstacle("its op can add to what is there", gradient=entry)
    # Any other reader of a gradient wants it without what it is added to.
    return None if uses == 1 else obstacle("nothing else reads it", gradient=entry)


def stores_last(nodes: Sequence[Node], graph: Graph, stores: Mapping[Node, Node]) -> list[Node]:
    """`nodes` with those that store gradients in shared memory moved to the end.

    `stores` are these nodes, each with the node that it is in `graph`, as it was before fusion: the
    last gradient to be computed there stays in memory that several have, whatever is fused.
    """
    def computed_at(node: Node) -> int:
        return graph.output_eids(stores[node].inputs[0].node).start

    return [*(node for node in nodes if node not in stores), *sorted(stores, key=computed_at)]


# -- subgraphs ----------------------------------------------------------------------------------


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
            done("with_gradients", node, "bodies that it reads, or its own, have gradients",
                 into=clone)
    return Graph([current(entry) for entry in graph.outputs]) if new else graph


@withheld()     # remarks are about the nodes of the graph that is bound
def _train(cheap: bool, body: Body, summed: set[int], loop_states: set[int]) -> Body:
    """`body` with gradients.

    Those of the variables in `summed` are added to what is there; the values of the variables in
    `loop_states` are saved like those of other entries, if gradients read them.
    """
    forward = with_trained_bodies(body.forward, cheap)
    variables, states = body.variables, set(body.states)
    trained = tuple(i for i in range(len(variables)) if i not in states)
    graph, heads = with_gradients(forward, [variables[i].node for i in trained])
    graph = mirror(graph, body.num_outputs, cheap)
    graph = write_gradients(graph, ["add" if i in summed else "write" for i in trained])
    ahead = {id(node) for node in graph.head(body.num_outputs).nodes}
    other = {id(entry.node) for i, entry in enumerate(variables) if i not in loop_states}
    read = [entry for node in graph.nodes if id(node) not in ahead for entry in node.inputs
            if id(entry.node) in ahead - other]
    return Body(graph, body.num_outputs, tuple(heads), trained, tuple(dict.fromkeys(read)))
