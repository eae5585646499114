"""Loop rerolling: the unrolled steps of a recurrent cell (`match_rnn`) become one recurrent layer.

    x_0, ..., x_T  ->  sequence (T, N, I)  ->  RecurrentLayer  ->  (T, N, H)  ->  h_0, ..., h_T

The layer multiplies the inputs of all steps at once, keeps its recurrent weights packed, and
computes each weight gradient by one matrix product.  Sums are formed in another order than in
single steps, so results differ in their last digits.

Where the steps are split from one sequence or joined to one, as `unroll` does, the sequence itself
is read or written: SliceChannel cancels Concat and stack.  Steps in reverse order, as in the second
of two directions, are one `reverse`, and steps of both directions one Concat.

Assumes: what `match_rnn` does of steps; no input of the layer depends on a step (`_chain_last`);
shapes and types are those of a layer, of all inputs and of the first states (`_state_spec`); nodes
that share states, or draw random numbers, keep their order (`_effects`); what is split or joined is
all steps, in order or in reverse (`_split_sequence`, `_joined`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np

from ...graph import Entry, Graph, Node
from ...ops.op import Spec
from ...ops.rnn.rnn_weights import GATES
from ...ops.tensor.creation import Zeros
from ...ops.tensor.manipulate import ExpandDims, Reshape
from ...ops.tensor.rearrange import Reverse, Transpose
from ...ops.tensor.slicing import Concat, SliceChannel, Stack
from ..remarks import Obstacle, obstacle, record, refused, withheld
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import writers_of_shared_states
from .match_rnn import CellChain, find_chains

__all__ = ["reroll_rnn"]

Mode = Literal["rnn_tanh", "rnn_relu", "lstm", "gru"]

LayerSpecs = dict[Entry, Spec]
"""Specs of the steps and states that new layers give."""


def reroll_rnn(before: Rewritten) -> Rewritten:
    """`before` with a recurrent layer for each chain of steps that allows it."""
    layer_specs: LayerSpecs = {}
    network = before
    # One chain at a time: a stack of cells gives each layer the sequence that the one below makes.
    while True:
        with withheld() as remarks:
            layers = (_layer_of(chain, network, layer_specs)
                      for chain in find_chains(network.graph))
            after = next(filter(None, layers), None)
        # What is refused now may be done after other layers.
        verdict = "refused" if after is None else "done"
        record(*(remark._replace(subject=network.origin.get(remark.subject, remark.subject))
                 for remark in remarks if remark.verdict == verdict
                 and isinstance(remark.subject, Node)))
        if after is None:
            return network if network is before else _cancel_joins(network, layer_specs)
        network = after


def _layer_of(chain: CellChain, network: Rewritten, layer_specs: LayerSpecs) -> Rewritten | None:
    """`network` with a layer instead of a chain; None where that is not allowed."""
    last = chain.steps[-1].h.node
    state = _state_spec(chain, network, layer_specs)
    nodes = state if isinstance(state, Obstacle) else _chain_last(chain, network.graph)
    if isinstance(state, Obstacle) or isinstance(nodes, Obstacle):
        refused("reroll_rnn", last, cast("Obstacle", nodes))
        return None
    with withheld() as remarks:
        after = _replace(network, chain, state, nodes, layer_specs)
    if _effects(after) != _effects(network):
        refused("reroll_rnn", last, obstacle(
            "states change, and random numbers are drawn, in the order of before"))
        return None
    record(*remarks)
    return after


def _state_spec(chain: CellChain, network: Rewritten, layer_specs: LayerSpecs
                ) -> Spec | Obstacle:
    """Spec (N, H) of the states, or the reason why shapes or types are not those of a layer."""
    known = network.specs

    def spec(entry: Entry) -> Spec | None:
        return known[network.graph.eid(entry)] or layer_specs.get(_original(network, entry))

    step, i2h, h2h = chain.steps[0], chain.i2h[0], chain.h2h[0]
    x = spec(i2h.data)
    if x is None or spec(h2h.weight) is None:
        return obstacle("shapes are known before other passes", input=i2h.data)
    if len(x.shape) != 2:
        return obstacle("inputs are matrices", input=i2h.data, shape=x.shape)
    if x.dtype not in (np.float32, np.float64):
        return obstacle("it computes in float32 or float64", dtype=str(x.dtype))
    # Gates divide the rows, since SliceChannel does.
    state = Spec((x.shape[0], i2h.rows // len(GATES[step.mode])), x.dtype)
    for layer in chain.i2h:
        if spec(layer.data) != x:
            return obstacle("inputs of all steps have one shape", input=layer.data)
    for first in (h2h.data, step.before):
        if first is not None and spec(first) != state:
            return obstacle("first states have the shape of others", state=first,
                            shape=state.shape)
    return state


def _original(network: Rewritten, entry: Entry) -> Entry:
    """The entry of the node of which this one's node is a clone."""
    return Entry(network.origin.get(entry.node, entry.node), entry.index)


def _effects(network: Rewritten) -> list[Node]:
    """The nodes of the first graph that share states or draw, in the order in which they run."""
    writers = {*writers_of_shared_states(network.graph)}
    return [network.origin.get(node, node) for node in network.graph.nodes
            if node in writers or (node.op is not None and node.op.may_draw)]


def _chain_last(chain: CellChain, graph: Graph) -> list[Node] | Obstacle:
    """The graph's nodes in another topological order: the chain and its dependents last.

    The chain must not read something that depends on it, such as attention over earlier outputs.
    """
    inside = {node for step in chain.steps for node in step.inside}
    dependent: dict[Node, None] = {}
    for node in graph.nodes:
        if node in inside or any(entry.node in dependent for entry in node.inputs):
            dependent[node] = None
    read = [chain.h2h[0].data, *chain.cell.h2h, chain.steps[0].before,
            *(entry for layer in chain.i2h for entry in layer[:3])]
    for entry in read:
        if entry is not None and entry.node in dependent:
            return obstacle("no step reads what depends on another one", input=entry)
    return [node for node in graph.nodes if node not in dependent] + list(dependent)


def _replace(before: Rewritten, chain: CellChain, state: Spec, nodes: list[Node],
             layer_specs: LayerSpecs) -> Rewritten:
    """The graph of `nodes` with one layer instead of the chain."""
    first, last = chain.steps[0], chain.steps[-1]
    layer = _layer(chain, state)
    split = Node(SliceChannel(len(chain.steps), 0, True), f"{layer.name}_steps", [Entry(layer)])
    # h of every step is a slice of the sequence; the last states are outputs of their own.
    results = {step.h.node: Entry(split, t) for t, step in enumerate(chain.steps)}
    inside = {node for step in chain.steps for node in step.inside}
    read = {entry for node in nodes if node not in inside for entry in node.inputs}
    if not read.union(before.graph.outputs) & {step.h for step in chain.steps[:-1]}:
        results[last.h.node] = Entry(layer, 1)
    if last.state:
        results[last.state.node] = Entry(layer, 2)
    layer_specs.update(dict.fromkeys(results.values(), state))
    members = [node for node in nodes if node in inside]
    note = (f"{len(chain.steps)} steps from {first.h.node.name} to {last.h.node.name} are the "
            f"layer {layer.name}")

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if node not in results:
            return None
        return Replacement([results[node]], note if node is last.h.node else "",
                           rule="the steps of a cell are one layer", into=layer,
                           joined=members if node is last.h.node else ())

    return rewrite(before._replace(graph=Graph(before.graph.outputs, nodes)), rule)


def _layer(chain: CellChain, state: Spec) -> Node:
    """The recurrent layer that computes all steps."""
    from ...ops.rnn.rnn_layer import RecurrentLayer

    cell, first, h2h = chain.cell, chain.steps[0], chain.h2h[0]
    name = f"{first.h.node.name}_layer"
    op = RecurrentLayer(state_size=state.shape[1], mode=cast(Mode, cell.mode), order=cell.order)
    zeros = Zeros((h2h.rows,), dtype="float32" if state.dtype == np.float32 else "float64")
    no_bias = Entry(Node(zeros, f"{name}_no_bias"))
    weights = [entry or no_bias for entry in (*cell.i2h, *cell.h2h)]
    data = _sequence([layer.data for layer in chain.i2h], name)
    states = [h2h.data, *([first.before] if first.state and first.before else [])]
    return Node(op, name, [data, *weights, *states])


def _sequence(steps: Sequence[Entry], name: str) -> Entry:
    """Steps (N, I) as one sequence (T, N, I)."""
    rows = [Entry(Node(ExpandDims(0), f"{name}_step{t}", [entry]))
            for t, entry in enumerate(steps)]
    return _split_sequence(steps, name) or _concatenated(steps, name) or Entry(
        Node(Concat(len(rows), 0), f"{name}_data", rows))


def _concatenated(steps: Sequence[Entry], name: str) -> Entry | None:
    """The sequence where Concat makes each step of one matrix of each of several sequences, as two
    directions do; None if they are something else."""
    joins = [node.inputs for node, _ in steps if type(node.op) is Concat and node.op.dim % 2 == 1]
    if len(joins) < len(steps) or len({len(inputs) for inputs in joins}) > 1:
        return None
    parts = [_split_sequence(part, f"{name}_part{k}")
             for k, part in enumerate(zip(*joins, strict=True))]
    whole = [part for part in parts if part]
    if len(whole) < len(parts):
        return None
    return Entry(Node(Concat(len(whole), 2), f"{name}_data", whole))


def _split_sequence(steps: Sequence[Entry], name: str) -> Entry | None:
    """The sequence (T, N, I) that SliceChannel splits into exactly these matrices, in order or in
    reverse; None if they are something else."""
    node, op = steps[0].node, steps[0].node.op
    if not isinstance(op, SliceChannel) or not op.squeeze_axis or op.axis % 3 == 2:
        return None
    whole = [Entry(node, t) for t in range(node.num_outputs)]
    if list(steps) not in (whole, whole[::-1]):
        return None
    entry = node.inputs[0]
    if op.axis % 3 == 1:
        entry = Entry(Node(Transpose((1, 0, 2)), f"{name}_data", [entry]))
    if list(steps) != whole:
        entry = Entry(Node(Reverse((0,)), f"{name}_reversed", [entry]))
    return entry


# -- joins ----------------------------------------------------------------------------------------

def _cancel_joins(before: Rewritten, layer_specs: LayerSpecs) -> Rewritten:
    """Read the sequence of a layer instead of joining all its steps again."""

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        steps, axis, is_new = _joined(node, inputs)
        state = layer_specs.get(_original(before, steps[0])) if steps else None
        # The sequence (T, N, H), with T where the join has it.
        entry = _split_sequence(steps, node.name) if state else None
        if state is None or entry is None:
            return None
        note = f"{node.describe()} is the block {steps[0].node.inputs[0].node.name}"
        if axis != 0:
            order = (1, 0, 2) if axis == 1 else (1, 2, 0)
            entry = Entry(Node(Transpose(order), f"{node.name}_block", [entry]))
        if not is_new:
            shape = (-1, state.shape[1]) if axis == 0 else (state.shape[0], -1)
            entry = Entry(Node(Reshape(shape), node.name, [entry]))
        return Replacement([entry], note, rule="the sequence of the layer is read")

    return rewrite(before, rule)


def _joined(node: Node, inputs: list[Entry]) -> tuple[list[Entry], int, bool]:
    """Matrices that `node` joins, the axis, and whether that is a new one; no matrices if it is
    another node."""
    if isinstance(node.op, Stack):
        return inputs, node.op.axis % 3, True
    if type(node.op) is not Concat:
        return [], 0, False
    # Either all steps are joined along a new axis (expand_dims), or none is.
    axes = [entry.node.op.axis % 3 for entry in inputs if isinstance(entry.node.op, ExpandDims)]
    if not axes:
        return inputs, node.op.dim % 2, False
    if len(axes) != len(inputs) or set(axes) != {node.op.dim % 3}:
        return [], 0, False
    return [entry.node.inputs[0] for entry in inputs], axes[0], True
