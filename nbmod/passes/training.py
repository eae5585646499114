"""The graph that training runs: a symbol's outputs, and gradients, written to users' arrays.

Its outputs are those of the symbol, then one entry for each variable that is trained.
`with_gradients` ends each of these in an `Accumulate` node, which writes the gradient to the user's
array or adds it there.  Other passes may rewrite the graph in between; `write_gradients` then drops
every such node whose gradient can be computed in the user's array in the first place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..graph import Entry, Graph, Node
from ..ops.internal import Accumulate
from ..ops.op import Backward
from .gradient import gradient

__all__ = ["with_gradients", "write_gradients"]


def with_gradients(graph: Graph, wrt: Sequence[Node]) -> tuple[Graph, list[Node]]:
    """`graph` and the gradients for `wrt` in one graph, and a variable per head gradient."""
    if not wrt:
        return graph, []
    heads = [Node(None, f"_head_grad_{i}") for i in range(len(graph.outputs))]
    grads = gradient(graph, wrt, [Entry(head) for head in heads])
    ends = [Entry(Node(Accumulate(), f"{node.name}_grad", [grad], source=node))
            for node, grad in zip(wrt, grads, strict=True)]
    return Graph([*graph.outputs, *ends]), heads


def write_gradients(graph: Graph, requests: Sequence[str]) -> Graph:
    """`graph` of `with_gradients` with no more `Accumulate` nodes than are needed.

    `requests` are those of the trained variables: "write" or "add".
    """
    first = len(graph.outputs) - len(requests)
    outputs, ends = graph.outputs[:first], graph.outputs[first:]
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    written = set(outputs)
    for position, (end, request) in enumerate(zip(ends, requests, strict=True)):
        gradient_entry = end.node.inputs[0]
        if _can_be_written_directly(gradient_entry, uses, written, request):
            ends[position] = gradient_entry
            written.add(gradient_entry)
    return Graph([*outputs, *ends]) if ends else graph


def _can_be_written_directly(entry: Entry, uses: Mapping[Entry, int], written: set[Entry],
                             request: str) -> bool:
    """Whether a gradient can be computed straight into the user's array."""
    op = entry.node.op
    if op is None or op.view or entry in written:
        return False
    if request == "add":  # any other reader wants the gradient alone
        return isinstance(op, Backward) and op.accumulates and uses[entry] == 1
    return True
