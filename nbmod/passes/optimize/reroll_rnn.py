"""Unrolled recurrent cells become layers: one node for all the steps of a cell (`passes.cells`).

    x_0, ..., x_T  ->  one block (T, N, I)  ->  RecurrentLayer  ->  (T, N, H)  ->  h_0, ..., h_T

A layer multiplies the inputs of all steps at once, keeps its recurrent weights packed, and forms
the gradients of its weights by one product each.  Sums of products are formed in another order than
those of single steps, so results differ in their last digits.

Where steps come from one block or go into one, as `unroll` makes it of sequences, that block itself
is read or written: cutting and joining cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph import Entry, Graph, Node
from ...ops import OPS
from ...ops.op import Spec
from ...ops.rnn.rnn_weights import GATES
from ..rewrite import Replacement, Rewritten, rewrite
from .match_rnn import Chain, find_chains

__all__ = ["with_layers"]

FLOATS = (np.float32, np.float64)

Made = dict[Entry, Spec]
"""What is known of steps and states that layers give."""


def with_layers(before: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """`before` with a layer for each chain of steps that allows it.

    `specs` are those of the entries of `first`, from which `before` has been rewritten.
    """
    made: Made = {}
    found = before
    while True:
        graph, known = found.graph, found.facts(first, specs)
        for chain in find_chains(graph):
            state = _state(chain, found, known, made)
            after = state and _behind(chain, graph)
            if state and after:
                found = _replace(found, chain, state, after, made)
                break
        else:
            return found if found is before else _join(found, made)


def _state(chain: Chain, found: Rewritten, known: Sequence[Spec | None], made: Made
           ) -> Spec | None:
    """What its states are; None where shapes or types are not those of a layer."""

    def spec(entry: Entry) -> Spec | None:
        return known[found.graph.eid(entry)] or made.get(_first(found, entry))

    step, data, state = chain.steps[0], chain.i2h[0], chain.h2h[0]
    x = spec(data.data)
    size, rest = divmod(data.rows, len(GATES[step.mode]))
    if x is None or len(x.shape) != 2 or rest or x.dtype not in FLOATS:
        return None
    h = Spec((x.shape[0], size), x.dtype)
    begin = [state.data, *([step.before] if step.before else [])]
    if any(spec(layer.data) != x for layer in chain.i2h) or any(spec(e) != h for e in begin):
        return None
    if spec(state.weight) != Spec((data.rows, size), x.dtype):
        return None
    return h


def _first(found: Rewritten, entry: Entry) -> Entry:
    """An entry before nodes were cloned."""
    return Entry(found.origin.get(entry.node, entry.node), entry.index)


def _behind(chain: Chain, graph: Graph) -> list[Node] | None:
    """The graph's nodes in another order, the chain and what depends on it last.

    None if the chain reads something that depends on it, as an attention of earlier outputs.
    """
    inside = {node for step in chain.steps for node in step.inside}
    behind: dict[Node, None] = {}
    for node in graph.nodes:
        if node in inside or any(entry.node in behind for entry in node.inputs):
            behind[node] = None
    last = chain.h2h[0]
    read = [last.data, *last[1:3], chain.steps[0].before,
            *(entry for layer in chain.i2h for entry in layer[:3])]
    if any(entry is not None and entry.node in behind for entry in read):
        return None
    return [node for node in graph.nodes if node not in behind] + list(behind)


def _replace(before: Rewritten, chain: Chain, state: Spec, nodes: list[Node], made: Made
             ) -> Rewritten:
    """The graph with one layer in the place of the chain."""
    first, last = chain.steps[0], chain.steps[-1]
    layer = _layer(chain, state)
    split = Node(OPS["SliceChannel"](len(chain.steps), 0, True),  # type: ignore[call-arg]
                 f"{layer.name}_steps", [Entry(layer)])
    stands = {step.h.node: Entry(split, t) for t, step in enumerate(chain.steps)}
    if _only_the_last_is_read(chain, nodes, before.graph.outputs):
        stands[last.h.node] = Entry(layer, 1)
    if last.state:
        stands[last.state.node] = Entry(layer, 2)
    made.update(dict.fromkeys(stands.values(), state))
    note = (f"{len(chain.steps)} steps from {first.h.node.name} to {last.h.node.name} are the "
            f"layer {layer.name}")

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if node not in stands:
            return None
        return Replacement([stands[node]], note if node is last.h.node else "")

    ordered = before._replace(graph=Graph(before.graph.outputs, nodes))
    found = rewrite(ordered, rule)
    return found._replace(notes=[text for text in found.notes if text])


def _only_the_last_is_read(chain: Chain, nodes: Sequence[Node], outputs: Sequence[Entry]) -> bool:
    """Whether nobody outside reads other outputs than that of the last step."""
    inside = {node for step in chain.steps for node in step.inside}
    read = {entry for node in nodes if node not in inside for entry in node.inputs}.union(outputs)
    return not any(step.h in read for step in chain.steps[:-1])


def _layer(chain: Chain, state: Spec) -> Node:
    """The node that does the work of all steps."""
    from ...ops.rnn.rnn_layer import RecurrentLayer

    step, i2h, h2h = chain.steps[0], chain.i2h[0], chain.h2h[0]
    name = f"{step.h.node.name}_layer"
    op = RecurrentLayer(state_size=state.shape[1], mode=step.mode,  # type: ignore[arg-type]
                        order=step.order)
    zeros = OPS["_zeros"]((i2h.rows,), dtype=state.dtype.name)  # type: ignore[call-arg]
    no_bias = Entry(Node(zeros, f"{name}_no_bias"))
    weights = [entry or no_bias for entry in (*i2h[1:3], *h2h[1:3])]
    data = _block([layer.data for layer in chain.i2h], name)
    states = [h2h.data, *([step.before] if step.state and step.before else [])]
    return Node(op, name, [data, *weights, *states])


def _block(steps: Sequence[Entry], name: str) -> Entry:
    """Steps (N, I) as one block (T, N, I)."""
    axis = _split_axis(steps)
    source = steps[0].node.inputs[0] if axis is not None else None
    if source and axis == 0:
        return source
    if source and axis == 1:
        return Entry(Node(OPS["transpose"]((1, 0, 2)), f"{name}_data", [source]))  # type: ignore[call-arg]
    rows = [Entry(Node(OPS["expand_dims"](0), f"{name}_step{t}", [entry]))  # type: ignore[call-arg]
            for t, entry in enumerate(steps)]
    return Entry(Node(OPS["Concat"](len(rows), 0), f"{name}_data", rows))  # type: ignore[call-arg]


def _split_axis(steps: Sequence[Entry]) -> int | None:
    """The axis along which a block was cut into these matrices, all of them in order."""
    node, op = steps[0].node, steps[0].node.op
    if node.op_name != "SliceChannel" or not op.squeeze_axis:  # type: ignore[union-attr]
        return None
    whole = list(steps) == [Entry(node, t) for t in range(node.num_outputs)]
    return op.axis % 3 if whole else None  # type: ignore[union-attr]


# -- joining --------------------------------------------------------------------------------------

def _join(before: Rewritten, made: Made) -> Rewritten:
    """Blocks in the place of what joins all the outputs of a layer."""

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        op: Any = node.op
        if op.name != "Concat":
            return None
        raised = [entry.node.op for entry in inputs if entry.node.op_name == "expand_dims"]
        steps = [entry.node.inputs[0] for entry in inputs] if raised else inputs
        state = made.get(_first(before, steps[0]))
        if state is None or _split_axis(steps) is None:
            return None
        if raised and {one.axis % 3 for one in raised} != {op.dim % 3}:  # type: ignore[union-attr]
            return None
        if len(raised) not in (0, len(inputs)):
            return None
        block, axis = steps[0].node.inputs[0], op.dim % (3 if raised else 2)
        entry = _arranged(block, node.name, axis)
        if not raised:
            shape = (-1, state.shape[1]) if axis == 0 else (state.shape[0], -1)
            entry = Entry(Node(OPS["Reshape"](shape), node.name, [entry]))  # type: ignore[call-arg]
        return Replacement([entry], f"{node.describe()} is the block {block.node.name}")

    return rewrite(before, rule)


def _arranged(block: Entry, name: str, axis: int) -> Entry:
    """A block (T, N, H) with T at `axis`."""
    if axis == 0:
        return block
    order = (1, 0, 2) if axis == 1 else (1, 2, 0)
    return Entry(Node(OPS["transpose"](order), f"{name}_block", [block]))  # type: ignore[call-arg]
