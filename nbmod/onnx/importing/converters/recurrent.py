"""Recurrent layers: MXNet's RNN operator, or step by step what that does not compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....ops.param import Shape
from ..composition import add, concat, multiply, subtract
from ..imported_tensor import ImportedTensor
from ..node_import import NodeImport, imports

GATES = {"RNN": (0,), "LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}
"""MXNet's gates in the order of ONNX's: i o f c of LSTM, z r h of GRU."""
DEFAULTS = {"RNN": ["tanh"], "LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"]}
FUNCTIONS = {"sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu", "softplus": "softrelu",
             "softsign": "softsign"}
MAX_STEPS = 512


@dataclass(eq=False)
class _Layer:
    """The parts of a recurrent node.

    `data` is (T, N, I), `weights`, `recurrent` and `biases` are (D, gates H, I), (D, gates H, H)
    and (D, 2 gates H); `states`, of h, and of c for LSTM, (D, N, H); `shape` is (T, D, N, H).
    """

    node: NodeImport
    data: ImportedTensor
    weights: ImportedTensor
    recurrent: ImportedTensor
    biases: ImportedTensor
    states: list[ImportedTensor]
    shape: Shape

    @property
    def gates(self) -> tuple[int, ...]:
        return GATES[self.node.operator]


@imports("RNN", "LSTM", "GRU")
def recurrent(node: NodeImport) -> Sequence[ImportedTensor | None]:
    """A layer in one or two directions."""
    layer = _layer(node)
    direction = node.attribute("direction", "forward")
    lengths = node.optional(4)
    mode = _fused_mode(node, layer)
    if direction == "reverse":
        layer.data = _reversed(node, layer.data, lengths)
    if mode is None:
        if lengths is not None and set(node.integer_list(4) or ()) != {layer.shape[0]}:
            node.refuse("sequence_lens with these attributes has no counterpart")
        output, *last = _unrolled(layer)
    else:
        output, *last = _fused(layer, mode, lengths)
    if direction == "reverse":
        output = _reversed(node, output, lengths)
    if node.attribute("layout", 0):
        output = node.transpose(output, (2, 0, 1, 3))
        last = [node.transpose(each, (1, 0, 2)) for each in last]
    return [output, *last]


def _layer(node: NodeImport) -> _Layer:
    data, weights, inner = [node.input(i) for i in range(3)]
    if node.attribute("layout", 0):
        data = node.transpose(data, (1, 0, 2))
    steps, batch = node.static(data)[:2]
    ways, rows, size = node.static(inner)
    if ways != 1 + (node.attribute("direction", "forward") == "bidirectional"):
        node.refuse(f"weights of {ways} directions do not fit attribute 'direction'")
    biases = node.optional(3) or node.filled((ways, 2 * rows), 0, data.dtype)
    states = []
    for index in (5, 6) if node.operator == "LSTM" else (5,):
        state = node.optional(index)
        if state is None:
            state = node.filled((ways, batch, size), 0, data.dtype)
        elif node.attribute("layout", 0):
            state = node.transpose(state, (1, 0, 2))
        states.append(state)
    return _Layer(node, data, weights, inner, biases, states, (steps, ways, batch, size))


def _fused_mode(node: NodeImport, layer: _Layer) -> str | None:
    """The mode of MXNet's RNN that computes this layer, if any."""
    activations = [str(each).lower() for each in node.attribute("activations", [])]
    default = DEFAULTS[node.operator] * layer.shape[1]
    plain = not node.attribute("clip") and not node.attribute("input_forget", 0)
    if node.optional(7) is not None or not plain:
        return None
    if node.operator == "RNN":
        names = set(activations or default)
        return f"rnn_{names.pop()}" if names in ({"tanh"}, {"relu"}) else None
    if activations and activations != default:
        return None
    if node.operator == "GRU":
        return "gru" if node.attribute("linear_before_reset", 0) else None
    return "lstm"


def _reversed(node: NodeImport, data: ImportedTensor, lengths: ImportedTensor | None
              ) -> ImportedTensor:
    if lengths is None:
        return node.emit("reverse", data, axis=0)
    size = node.cast(lengths, np.dtype(np.int32))
    return node.emit("SequenceReverse", data, size, use_sequence_length=True)


def _part(node: NodeImport, tensor: ImportedTensor, axis: int, begin: int, end: int
          ) -> ImportedTensor:
    """A range along an axis."""
    if tensor.array is not None:
        index = [slice(None)] * tensor.array.ndim
        index[axis] = slice(begin, end)
        return ImportedTensor.constant(tensor.array[tuple(index)])
    return node.emit("slice_axis", tensor, axis=axis, begin=begin, end=end)


def _ordered(layer: _Layer, tensor: ImportedTensor, way: int) -> ImportedTensor:
    """The rows of one direction, flat, with gates in MXNet's order."""
    node, size = layer.node, layer.shape[3]
    own = _part(node, tensor, 0, way, way + 1)
    parts = [_part(node, own, 1, gate * size, (gate + 1) * size) for gate in layer.gates]
    shapes = [node.static(each) for each in parts]
    flat = [node.reshape(each, (int(np.prod(shape)),))
            for each, shape in zip(parts, shapes, strict=True)]
    return concat(node, flat, 0)


def _fused(layer: _Layer, mode: str, lengths: ImportedTensor | None) -> list[ImportedTensor]:
    node, (steps, ways, batch, size) = layer.node, layer.shape
    rows = len(layer.gates) * size
    pieces = [_ordered(layer, tensor, way) for way in range(ways)
              for tensor in (layer.weights, layer.recurrent)]
    for way in range(ways):
        for begin in (0, rows):
            pieces.append(_ordered(layer, _part(node, layer.biases, 1, begin, begin + rows), way))
    parameters = concat(node, pieces, 0)
    inputs = [layer.data, parameters, *layer.states]
    if lengths is not None:
        inputs.append(node.cast(lengths, np.dtype(np.int32)))
    outputs = node.emit_all("RNN", *inputs, mode=mode, state_size=size, num_layers=1,
                            bidirectional=ways == 2, state_outputs=True,
                            use_sequence_length=lengths is not None)
    if ways == 1:
        output = node.reshape(outputs[0], (steps, 1, batch, size))
    else:
        split = node.reshape(outputs[0], (steps, batch, ways, size))
        output = node.transpose(split, (0, 2, 1, 3))
    return [output, *outputs[1:]]


# -- step by step --------------------------------------------------------------------------------


def _unrolled(layer: _Layer) -> list[ImportedTensor]:
    """Outputs (T, D, N, H) and last states (D, N, H), of elementary operators."""
    node, (steps, ways, *_) = layer.node, layer.shape
    if steps > MAX_STEPS:
        node.refuse(f"{steps} steps with attributes that MXNet's RNN lacks are more than "
                    f"{MAX_STEPS}")
    outputs: list[ImportedTensor] = []
    finals: list[list[ImportedTensor]] = []
    for way in range(ways):
        backward = way == 1
        rows, last = _direction(layer, way, backward)
        outputs.append(node.emit("stack", *rows, axis=0, num_args=len(rows)))
        finals.append(last)
    joined = node.emit("stack", *outputs, axis=1, num_args=ways)
    return [joined, *[node.emit("stack", *each, axis=0, num_args=ways)
                      for each in zip(*finals, strict=True)]]


def _direction(layer: _Layer, way: int, backward: bool
               ) -> tuple[list[ImportedTensor], list[ImportedTensor]]:
    node, steps = layer.node, layer.shape[0]
    cell = _RecurrentCell(layer, way)
    states = [_row(node, each, way) for each in layer.states]
    rows = []
    for step in reversed(range(steps)) if backward else range(steps):
        states = cell.step(_row(node, layer.data, step), states)
        rows.append(states[0])
    return (rows[::-1] if backward else rows), states


def _row(node: NodeImport, tensor: ImportedTensor, index: int) -> ImportedTensor:
    own = _part(node, tensor, 0, index, index + 1)
    return node.reshape(own, node.static(own)[1:])


class _RecurrentCell:
    """One direction of a layer, step by step."""

    def __init__(self, layer: _Layer, way: int):
        node, size = layer.node, layer.shape[3]
        self.node, self.size, self.kind = node, size, node.operator
        rows = len(layer.gates) * size
        self.weights = _row(node, layer.weights, way)
        self.recurrent = _row(node, layer.recurrent, way)
        biases = _row(node, layer.biases, way)
        self.bias = _part(node, biases, 0, 0, rows)
        self.recurrent_bias = _part(node, biases, 0, rows, 2 * rows)
        peepholes = node.optional(7)
        self.peepholes = None if peepholes is None else _row(node, peepholes, way)
        per_way = len(DEFAULTS[self.kind])
        activations = node.attribute("activations") or DEFAULTS[self.kind] * layer.shape[1]
        self.functions = [str(each).lower()
                          for each in activations[way * per_way:(way + 1) * per_way]]
        unknown = [each for each in self.functions if each not in FUNCTIONS]
        if unknown or node.attribute("input_forget", 0):
            node.refuse(f"activations {unknown}, or input_forget, have no counterpart")

    def step(self, data: ImportedTensor, states: Sequence[ImportedTensor]
             ) -> list[ImportedTensor]:
        """The states after a step."""
        if self.kind == "LSTM":
            return self._lstm(data, states[0], states[1])
        return [(self._gru if self.kind == "GRU" else self._rnn)(data, states[0])]

    def _dense(self, data: ImportedTensor, weights: ImportedTensor, bias: ImportedTensor,
               first: int = 0, last: int | None = None) -> ImportedTensor:
        begin, end = first * self.size, None if last is None else last * self.size
        if end is not None:
            weights, bias = (_part(self.node, each, 0, begin, end) for each in (weights, bias))
        return self.node.emit("FullyConnected", data, weights, bias,
                              num_hidden=self.node.static(weights)[0])

    def _apply(self, which: int, tensor: ImportedTensor) -> ImportedTensor:
        bound = self.node.attribute("clip")
        if bound:
            tensor = self.node.emit("clip", tensor, a_min=-float(bound), a_max=float(bound))
        return self.node.emit("Activation", tensor, act_type=FUNCTIONS[self.functions[which]])

    def _gate(self, tensor: ImportedTensor, index: int) -> ImportedTensor:
        return _part(self.node, tensor, 1, index * self.size, (index + 1) * self.size)

    def _sums(self, data: ImportedTensor, state: ImportedTensor) -> ImportedTensor:
        return add(self.node, self._dense(data, self.weights, self.bias),
                   self._dense(state, self.recurrent, self.recurrent_bias))

    def _rnn(self, data: ImportedTensor, state: ImportedTensor) -> ImportedTensor:
        return self._apply(0, self._sums(data, state))

    def _lstm(self, data: ImportedTensor, state: ImportedTensor, cell: ImportedTensor
              ) -> list[ImportedTensor]:
        node, sums = self.node, self._sums(data, state)
        enter, leave, forget, new = [self._gate(sums, i) for i in range(4)]
        enter = self._apply(0, self._seen(enter, cell, 0))
        forget = self._apply(0, self._seen(forget, cell, 2))
        following = add(node, multiply(node, forget, cell),
                        multiply(node, enter, self._apply(1, new)))
        leave = self._apply(0, self._seen(leave, following, 1))
        return [multiply(node, leave, self._apply(2, following)), following]

    def _seen(self, gate: ImportedTensor, cell: ImportedTensor, index: int) -> ImportedTensor:
        """A gate that sees the cell through a peephole."""
        if self.peepholes is None:
            return gate
        size = self.size
        weights = _part(self.node, self.peepholes, 0, index * size, (index + 1) * size)
        return add(self.node, gate, multiply(self.node, cell, weights))

    def _gru(self, data: ImportedTensor, state: ImportedTensor) -> ImportedTensor:
        node = self.node
        inner = self._dense(data, self.weights, self.bias)
        outer = self._dense(state, self.recurrent, self.recurrent_bias, 0, 2)
        update, reset = [self._apply(0, add(node, self._gate(inner, i), self._gate(outer, i)))
                         for i in range(2)]
        if node.attribute("linear_before_reset", 0):
            part = self._dense(state, self.recurrent, self.recurrent_bias, 2, 3)
            part = multiply(node, reset, part)
        else:
            part = self._dense(multiply(node, reset, state), self.recurrent, self.recurrent_bias,
                               2, 3)
        new = self._apply(1, add(node, self._gate(inner, 2), part))
        return add(node, new, multiply(node, update, subtract(node, state, new)))
