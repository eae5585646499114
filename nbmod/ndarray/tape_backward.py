"""The backward pass of `autograd`: execution of the gradient graph of a tape.

The recorded nodes that the heads depend on are a graph, so the pass that differentiates symbols
(`passes.gradient`) makes the gradient nodes.  An `Interpreter` runs these in topological order and
frees every value after its last use.  For higher-order gradients, each gradient node is recorded on
the tape when it has run.  All of this is planned once for tapes of one structure, where it can be
(`tape_programs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from ..execution.interpreter import Interpreter, to_context
from ..graph import Entry, Graph
from ..passes.gradient import gradient
from .tape import Recorded, entry_with_value, saved_value
from .tape_facts import TapeFacts
from .tape_programs import gradient_program, owns_memory

__all__ = ["Gradient", "differentiate"]


class Gradient(NamedTuple):
    """The gradient of one leaf."""

    array: Any
    """Array of the leaf's device."""
    entry: Entry | None
    """Its entry on the tape, with `create_graph`."""
    owns_memory: bool
    """False if it is another array or a view of one."""


def differentiate(graph: Graph, heads: Sequence[Any], wrt: Sequence[Recorded], training: bool,
                  create_graph: bool) -> list[Gradient]:
    """The gradients of the outputs of `graph` for leaves `wrt`.

    `heads` are NDArrays, the gradients of the outputs, as parts of the tape with `create_graph`.
    """
    if not create_graph and (program := gradient_program(graph, heads, wrt)) is not None:
        arrays = program.run(cast("list[Recorded]", graph.nodes),
                             [head._data for head in heads], training)
        return [Gradient(array, None, owned)
                for array, (_, owned) in zip(arrays, program.results, strict=True)]
    entries = [entry_with_value(head if create_graph else head.detach()) for head in heads]
    grads, tape = gradient(graph, wrt, entries), TapeFacts()
    nodes = [node for node in Graph(grads).nodes if not isinstance(node, Recorded)]
    values = {entry: saved_value(*entry) for entry in (
        *grads, *(entry for node in nodes for entry in node.inputs))
        if isinstance(entry.node, Recorded)}
    Interpreter(tape, nodes, grads, "sparse").run(values, training,
                                                  tape.record if create_graph else None)
    return [Gradient(to_context(values[entry], tape.context(entry.node), leaf.ctx),
                     tape.entry(entry) if create_graph else None,
                     owns_memory(entry) and entry not in grads[:i])
            for i, (entry, leaf) in enumerate(zip(grads, wrt, strict=True))]
