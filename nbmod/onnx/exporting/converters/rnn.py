"""Recurrent layers, and operators on sequences of different lengths.

The parameter vector of RNN is cut into the matrices of ONNX's layers, whose gates have another
order; a layer is one node.
"""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Attribute, Tensor, Value

ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
"""ONNX's gates (lstm: i o f c, gru: z r h) as positions among nbmod's."""
LAYERS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


@converts("RNN")
def _rnn(node: NodeExport) -> Value | list[Value]:
    op = node.op
    _check(node)
    inputs = dict(zip(op.list_inputs(), node.inputs, strict=True))
    lengths = inputs.get("sequence_length")
    if lengths is not None:
        lengths = node.cast(lengths, np.int32)
    x, finals = node.x, []
    directions = op.layout.directions
    for layer in range(op.num_layers):
        states = [node.part(inputs[name], layer * directions, (layer + 1) * directions, 0)
                  if op.num_layers > 1 else inputs[name]
                  for name in ("state", "state_cell") if name in inputs]
        y, *last = _layer(node, layer, x, lengths, states)
        if lengths is not None:
            last = [_after_no_step(node, lengths, before, after)
                    for before, after in zip(states, last, strict=True)]
        # (T, D, N, H) -> (T, N, D H)
        x = node.reshape_to(node.transpose(y, 0, 2, 1, 3), 0, 0, directions * op.state_size)
        finals.append(last)
    if not op.state_outputs:
        return x
    return [x, *[node.emit("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
                 for parts in zip(*finals, strict=True)]]


def _after_no_step(node: NodeExport, lengths: Value, before: Value, after: Value) -> Value:
    """The last state, which is the first one where a sequence has no steps."""
    empty = node.emit("Equal", lengths, node.scalar(0, np.int32))
    return node.emit("Where", node.axes_op("Unsqueeze", empty, [0, 2]), before, after)


def _check(node: NodeExport) -> None:
    op = node.op
    if op.projection_size:
        node.refuse("its layers are projected (projection_size)")
    if op.lstm_state_clip_min is not None:
        node.refuse("its cells are clipped (lstm_state_clip_min)")
    if node.constant(1) is None:
        node.refuse("its parameters are computed; they must be a parameter of the model")


def _layer(node: NodeExport, layer: int, x: Value, lengths: Value | None, states: list[Value]
           ) -> list[Value]:
    """One layer: outputs (T, D, N, H) and last states (D, N, H)."""
    op = node.op
    weights, recurrent, bias = _weights(node, layer)
    names = [f"{node.name}/layer{layer}/{part}" for part in ("W", "R", "B")]
    operands = [node.graph.constant(array, name)
                for array, name in zip((weights, recurrent, bias), names, strict=True)]
    outputs = 3 if op.mode == "lstm" else 2
    attributes: dict[str, Attribute] = {}
    if op.mode == "gru":
        attributes["linear_before_reset"] = 1
    if op.mode.startswith("rnn"):
        attributes["activations"] = [op.mode[4:].capitalize()] * op.layout.directions
    direction = "bidirectional" if op.bidirectional else "forward"
    return node.graph.add(LAYERS[op.mode], [x, *operands, lengths, *states],
                          [f"{node.name}/layer{layer}"] * outputs,
                          {"hidden_size": op.state_size, "direction": direction, **attributes})


def _weights(node: NodeExport, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """W (D, gates H, I), R (D, gates H, H) and B (D, 2 gates H)."""
    op, vector = node.op, node.constant(1)
    assert vector is not None
    blocks: dict[tuple[str, int], Tensor] = {}
    for matrix in op.layout.matrices(node.ins[0].shape[2]):
        if matrix.layer == layer:
            size = int(np.prod(matrix.shape))
            block = vector[matrix.offset:matrix.offset + size]
            gates = block.reshape(len(op.layout.gates), op.state_size, *matrix.shape[1:])
            blocks[matrix.kind, matrix.direction] = gates[list(ORDERS[op.mode])].reshape(
                matrix.shape)
    sides = range(op.layout.directions)
    bias = [np.concatenate([blocks["i2h_bias", side], blocks["h2h_bias", side]]) for side in sides]
    return (np.stack([blocks["i2h_weight", side] for side in sides]),
            np.stack([blocks["h2h_weight", side] for side in sides]), np.stack(bias))


# ---------------------------------------------------------------------------------------- sequences

def _lengths(node: NodeExport, index: int = 1) -> Value:
    """Lengths as int64, from 0 to the number of steps."""
    steps = node.static(node.ins[0], [node.op.axis])[node.op.axis]
    whole = node.cast_from(node.inputs[index], node.ins[index].dtype, np.int64)
    below = node.emit("Min", whole, node.scalar(steps, np.int64))
    return node.emit("Max", below, node.scalar(0, np.int64))


def _spread(node: NodeExport, axis: int) -> list[int]:
    """Shape of a vector along an axis of the data."""
    shape = [1] * node.ins[0].ndim
    shape[axis] = -1
    return shape


def _steps(node: NodeExport) -> Value:
    """Positions along the axis of time, as they broadcast to the data."""
    axis = node.op.axis
    steps = np.arange(node.static(node.ins[0], [axis])[axis])
    value = node.value(steps.reshape(_spread(node, axis)))
    assert value is not None
    return value


@converts("SequenceMask")
def _sequence_mask(node: NodeExport) -> Value:
    op = node.op
    if not op.use_sequence_length:
        return node.x
    lengths = node.reshape_to(_lengths(node), *_spread(node, 1 - op.axis))
    inside = node.emit("Less", _steps(node), lengths)
    return node.emit("Where", inside, node.x, node.scalar(op.value))


@converts("SequenceLast")
def _sequence_last(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    if not op.use_sequence_length:
        steps = node.static(info, [op.axis])[op.axis]
        return node.axes_op("Squeeze", node.part(node.x, steps - 1, steps, op.axis), [op.axis])
    lengths = node.reshape_to(_lengths(node), *_spread(node, 1 - op.axis))
    last = node.emit("Equal", _steps(node), node.emit("Sub", lengths, node.scalar(1, np.int64)))
    last_step = node.emit("Where", last, node.x, node.scalar(0))
    return node.reduce("ReduceSum", last_step, [op.axis], keepdims=False)


@converts("SequenceReverse")
def _sequence_reverse(node: NodeExport) -> Value:
    op = node.op
    if not op.use_sequence_length:
        return node.emit("Slice", node.x, [-1], [np.iinfo(np.int64).min], [op.axis], [-1])
    lengths = node.emit("Max", _lengths(node), node.scalar(1, np.int64))  # 1 leaves a row as it is
    return node.emit("ReverseSequence", node.x, lengths, time_axis=op.axis, batch_axis=1 - op.axis)
