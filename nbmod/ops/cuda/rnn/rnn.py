"""Recurrent layers: one GEMM with the input for the gates of all steps; then, per step, a GEMM with
the previous hidden state and a fused kernel for the cells.

Backward runs through time in reverse, then computes the gradients of weights by one product over
all steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch import CUDA, implements, prepare
from ...nn.dropout import Dropout
from ...op import Call, Spec
from ...rnn.rnn import RNN
from ...rnn.rnn_plan import GateRows, LayerResults, RnnPlan
from ...rnn.rnn_steps import Arrays as NamedArrays
from ...rnn.rnn_steps import Weights, set_lengths
from ..elementwise.formula_op import COPY, TIMES, run_program
from ..elementwise.group_stats import Groups, paired_sums
from ..lib.fill import fill
from ..lib.strided_copy import View
from ..linalg.dot import matmul, matmul_scratch, stack_of, transpose
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .rnn_cells import Cell, backward_kernel, forward_kernel

INT32 = np.dtype(np.int32)


class _Vector:
    """A flat array that a plan slices."""

    def __init__(self, array: Array):
        self.array = array

    def __getitem__(self, span: slice) -> Array:
        return _from(self.array, span.start, (span.stop - span.start,))


def _from(array: Array, first: int, shape: tuple[int, ...] | None = None) -> Array:
    """The elements of `shape` from index `first` on; without a shape, all remaining ones."""
    return array.part(first, (array.size - first,) if shape is None else shape)


def _at(array: Array, *index: int) -> Array:
    """array[index], contiguous."""
    shape, first = array.shape, 0
    for number, extent in zip(index, shape, strict=False):
        first = first * extent + number
    rest = shape[len(index):]
    return _from(array, first * int(np.prod(rest, dtype=np.int64)), rest)


def _columns(array: Array, first: int, count: int) -> View:
    """Some columns of a matrix."""
    rows, width = array.shape
    return View(array, first, (1, 1, rows, count), (0, 0, width, 1))


def _rows(array: Array, part: GateRows) -> View:
    return stack_of(_from(array, part.row * array.shape[-1], (part.size, array.shape[-1])))


def _matrix(array: Array, rows: int) -> Array:
    return array.reshape(rows, -1)


def _lengths(ins: NamedArrays, lengths: Array, steps: int) -> list[Any]:
    """Steps that write the length of every sequence; lengths given as input are read by the
    host."""
    if ins.lengths is None:
        return fill(lengths, steps)

    def read() -> None:
        values = np.empty(lengths.shape, np.int32)
        set_lengths(ins.lengths.device.to_numpy(ins.lengths), values, steps)
        lengths.device.copy(values, lengths)

    return [read]


# -- forward ------------------------------------------------------------------------------------


@cache
def _biases_kernel(gru: bool, real: type[np.floating]) -> CudaKernel:
    """Initialise gates (..., width) with the biases; the candidate of GRU keeps its two apart."""
    @grid_stride
    def start_gates(i, bias, other, gates, size, width):
        column = i % width
        if not gru:
            gates[i] = real(bias[column]) + real(other[column])
        elif column < size:
            gates[i] = real(bias[2 * size + column])
        elif column < 3 * size:
            gates[i] = real(bias[column - size]) + real(other[column - size])
        else:
            gates[i] = real(other[column - size])
    return start_gates


@grid_stride
def _keep_projected(i, y, h, lengths, t, size, across):
    """h = the projected output, for samples whose sequence has not ended."""
    if t < lengths[i // size]:
        h[i] = y[i // size * across + i % size]


def _recurrent(plan: RnnPlan) -> list[GateRows]:
    """The parts of the h2h product: all rows, in one."""
    return [GateRows(0, plan.width - plan.columns, plan.columns)]


class _LayerDirection:
    """One direction of a layer: its arrays, and launches over them."""

    def __init__(self, plan: RnnPlan, cell: Cell, weights: Weights, store: LayerResults,
                 where: tuple):
        self.plan, self.cell, self.store = plan, cell, store
        self.layer, self.d = where
        self.weights = {kind: matrix for (layer, d, kind), matrix in weights.items()
                        if (layer, d) == where}
        self.gates, self.real = _at(store.gates, self.d), plan.dtype.type
        self.size, self.across = plan.layout.state_size, store.y.shape[2] * store.y.shape[3]

    def times(self, backwards: bool = False) -> list[int]:
        """The steps in the order of this direction."""
        steps = range(self.plan.data[0])
        return list(steps) if (self.d == 0) != backwards else list(reversed(steps))

    def of_y(self, y: Array, t: int) -> Array:
        """y (T, N, D, R) from this direction's elements at step t on."""
        _, samples, directions, size = y.shape
        return _from(y, (t * samples * directions + self.d) * size)

    def at_step(self, array: Array, t: int) -> Array:
        """The slice (N, ...) of step t of (D, T, N, ...), or of (D, 1, N, ...)."""
        return _at(array, self.d, t % array.shape[1])

    def input_product(self, x: Array) -> list[Launch]:
        plan, gates = self.plan, _matrix(self.gates, self.plan.rows)
        start = _biases_kernel(plan.layout.mode == "gru", self.real)
        launches = each(start, gates.size, self.weights["i2h_bias"], self.weights["h2h_bias"],
                        gates, self.size, plan.width)
        for part in plan.parts:
            weight = transpose(_rows(self.weights["i2h_weight"], part))
            launches += matmul(stack_of(_matrix(x, plan.rows)), weight,
                                _columns(gates, part.column, part.size), add=True)
        return launches

    def forward(self, h: Array, c: Array, lengths: Array) -> list[Launch]:
        plan, store, launches = self.plan, self.store, []
        for t in self.times():
            gates, y = _at(self.gates, t), self.of_y(store.y, t)
            launches += matmul(stack_of(h), transpose(stack_of(self.weights["h2h_weight"])),
                                _columns(gates, plan.width - plan.columns, plan.columns), add=True)
            cells = self.at_step(store.cells, t) if plan.cell_size else h
            target, across = ((self.at_step(store.hidden, t), self.size) if self.cell.projected
                              else (y, self.across))
            launches += each(forward_kernel(self.cell), plan.data[1] * self.size, gates, h, c,
                             cells, target, lengths, t, self.size, across)
            if self.cell.projected:
                out = h.shape[1]
                projected = View(y, 0, (1, 1, len(h), out), (0, 0, self.across, 1))
                weight = transpose(stack_of(self.weights["h2r_weight"]))
                launches += matmul(stack_of(target), weight, projected)
                launches += each(_keep_projected, h.size, y, h, lengths, t, out, self.across)
        return launches

    # -- backward -------------------------------------------------------------------------------

    def backward(self, scratch: dict[str, Array], grads: tuple, states: tuple) -> list[Launch]:
        """Gradients of the gates' pre-activations, and of the initial states."""
        plan, lengths, (gy, dh, dc) = self.plan, scratch["lengths"], grads
        before, dgates = _at(scratch["before"], self.d), _at(scratch["dgates"], self.d)
        h0, c0 = states
        launches = self._previous(self.store.y, (self.d, self.across), h0, lengths, before)
        olds = before
        if plan.cell_size:
            olds, cells = _at(scratch["olds"], self.d), _at(self.store.cells, self.d)
            launches += self._previous(cells, (0, self.size), c0, lengths, olds)
        for t in self.times(backwards=True):
            flat, wide, here = _at(dgates, t), dh, self.of_y(gy, t)
            if self.cell.projected:
                wide = _at(scratch["wide"], self.d, 0)
                douts = _at(scratch["douts"], self.d, t)
                launches += each(_take_kernel(self.real), dh.size, here, dh, douts, lengths,
                                 t, dh.shape[1], self.across)
                launches += matmul(stack_of(douts), stack_of(self.weights["h2r_weight"]),
                                    stack_of(wide))
            c = self.at_step(self.store.cells, t) if plan.cell_size else wide
            launches += each(backward_kernel(self.cell), wide.size, _at(self.gates, t), flat, wide,
                             dc, c, _at(olds, t), here, lengths, t, self.size, self.across)
            launches += matmul(_columns(flat, plan.width - plan.columns, plan.columns),
                                stack_of(self.weights["h2h_weight"]), stack_of(dh), add=True)
        return launches

    def _previous(self, values: Array, position: tuple[int, int], start: Array, lengths: Array,
                  target: Array) -> list[Launch]:
        d, across = position
        return each(_previous_kernel(self.d > 0), target.size,
                    _from(values, d * target.shape[-1]), start, lengths, target, self.plan.data[0],
                    self.plan.data[1], target.shape[-1], across)

    def parameter_gradients(self, x: Array, grads: Weights, scratch: dict[str, Array]
                            ) -> list[Launch]:
        plan, rows, spare, sums = self.plan, self.plan.rows, [scratch["split"]], scratch["sums"]
        dgates = _matrix(_at(scratch["dgates"], self.d), rows)
        columns = Groups.channels(dgates.shape, 1)
        launches = paired_sums(_column_terms, (dgates,), columns, (_at(sums, 0), _at(sums, 1)),
                               [_at(scratch["chunks"], i) for i in range(len(scratch["chunks"]))])
        pairs = [("i2h", plan.parts, x), ("h2h", _recurrent(plan), _at(scratch["before"], self.d))]
        for kind, parts, factor in pairs:
            weight, bias = (grads[self.layer, self.d, f"{kind}_{what}"]
                            for what in ("weight", "bias"))
            for part in parts:
                launches += matmul(transpose(_columns(dgates, part.column, part.size)),
                                   stack_of(_matrix(factor, rows)), _rows(weight, part),
                                   scratch=spare)
                launches += run_program(COPY, [_from(sums, part.column, (part.size,))],
                                        [_from(bias, part.row, (part.size,))])
        if self.cell.projected:
            douts, hidden = (_matrix(_at(array, self.d), rows)
                             for array in (scratch["douts"], self.store.hidden))
            launches += matmul(transpose(stack_of(douts)), stack_of(hidden),
                                stack_of(grads[self.layer, self.d, "h2r_weight"]),
                                scratch=spare)
        return launches

    def input_gradient(self, gx: Array, scratch: dict[str, Array]) -> list[Launch]:
        plan, launches = self.plan, []
        dgates = _matrix(_at(scratch["dgates"], self.d), plan.rows)
        for number, part in enumerate(plan.parts):
            launches += matmul(_columns(dgates, part.column, part.size),
                                _rows(self.weights["i2h_weight"], part),
                                stack_of(_matrix(gx, plan.rows)), add=self.d + number > 0)
        return launches


@cache
def _take_kernel(real: type[np.floating]) -> CudaKernel:
    """douts = gradients of the projected outputs; dh is reset to 0."""
    @grid_stride
    def take_projected(i, gy, dh, douts, lengths, t, size, across):
        goes_on = t < lengths[i // size]
        douts[i] = dh[i] + real(gy[i // size * across + i % size]) if goes_on else real(0)
        if goes_on:
            dh[i] = real(0)
    return take_projected


@cache
def _previous_kernel(backwards: bool) -> CudaKernel:
    """target (T, N, size) = values of the previous step, `start` before the first."""
    @grid_stride
    def previous(i, values, start, lengths, target, steps, samples, size, across):
        t, n, j = i // (samples * size), i // size % samples, i % size
        t = t + 1 if backwards else t - 1
        if t >= 0 and t < steps and t < lengths[n]:
            target[i] = values[(t * samples + n) * across + j]
        else:
            target[i] = start[n * size + j]
    return previous


@device_function
def _column_terms(g, x, mean, v, w, column, row, at):
    """The terms of column sums, for `paired_sums`."""
    return g[at], 0


def _arrays(op: RNN, plan: RnnPlan, tensors: Outputs) -> NamedArrays:
    """Inputs or gradients by name."""
    data, vector, *rest = tensors
    return op._arrays(plan, [data, None if vector is None else _Vector(vector), *rest])


def _start(target: Array, source: Array | None) -> list[Launch]:
    if source is None:
        return fill(target, 0)
    return run_program(COPY, [source.reshape(target.shape)], [target])


def _forward(op: RNN, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    plan = op._plan(ins[0])
    arrays, (h, c, lengths, spare) = _arrays(op, plan, ins), call.scratch
    output, *states, workspace = outs
    stores = (plan.shared_stores(_Vector(spare), output) if workspace is None
              else plan.kept_stores(_Vector(workspace), output))
    cell, x = Cell.of(plan, op._clip(plan.dtype)), arrays.data
    launches = [*_lengths(arrays, lengths, plan.data[0]), *_start(h, arrays.state),
                *_start(c, arrays.state_cell)]
    for layer, store in enumerate(stores):
        for d in range(plan.layout.directions):
            one = _LayerDirection(plan, cell, arrays.weights, store, (layer, d))
            launches += one.input_product(x)
            launches += one.forward(_at(h, layer, d), _at(c, layer, d), lengths)
        if plan.dropout and layer < len(stores) - 1:
            drop = Dropout(op.p)
            launches += prepare(drop, [CUDA], [store.y], [store.x, store.mask], Call(call.mode))
        x = store.x
    for source, target in zip((h, c), states, strict=False):
        if target is not None:
            launches += _start(target, source.reshape(target.shape))
    return launches


def _scratch(op: RNN, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    plan = op._plan(ins[0])
    return [*plan.states().values(), Spec((plan.data[1],), INT32),
            Spec((plan.scratch_size,), plan.dtype)]


def _backward(op: RNN, ins: Arrays, outs: Outputs, call: Call) -> list[Any]:
    ograds, (*inputs, output, workspace) = ins[:op.num_visible], ins[op.num_visible:]
    plan = op._plan(inputs[0])
    arrays, grads = _arrays(op, plan, inputs), _arrays(op, plan, outs)
    scratch = dict(zip(_backward_specs(plan), call.scratch, strict=True))
    stores, cell = plan.kept_stores(_Vector(workspace), output), Cell.of(plan, op._clip(plan.dtype))
    gy, heads = ograds[0], [*ograds[1:], None, None]
    dh, dc, h0, c0 = (scratch[name] for name in ("dh", "dc", "h", "c"))
    launches = [*_lengths(arrays, scratch["lengths"], plan.data[0]),
                *(fill(grads.lengths, 0) if grads.lengths is not None else ())]
    for target, source in ((dh, heads[0]), (dc, heads[1]), (h0, arrays.state),
                           (c0, arrays.state_cell)):
        launches += _start(target, source)
    gy = gy.reshape(plan.y_shape)
    for layer in reversed(range(len(stores))):
        x, gx = (arrays.data, grads.data) if layer == 0 else (stores[layer - 1].x,
                                                             _at(scratch["gy"], layer % 2))
        for d in range(plan.layout.directions):
            one = _LayerDirection(plan, cell, arrays.weights, stores[layer], (layer, d))
            launches += one.backward(scratch, (gy, _at(dh, layer, d), _at(dc, layer, d)),
                                     (_at(h0, layer, d), _at(c0, layer, d)))
            launches += one.parameter_gradients(x, grads.weights, scratch) if grads.weights else []
            launches += one.input_gradient(gx, scratch) if gx is not None else []
        if plan.dropout and layer:
            launches += run_program(TIMES, [gx, stores[layer - 1].mask], [gx])
        gy = gx
    for target, source in ((grads.state, dh), (grads.state_cell, dc)):
        launches += _start(target, source.reshape(target.shape)) if target is not None else []
    return launches


def _backward_specs(plan: RnnPlan) -> dict[str, Spec]:
    states, out = plan.states(), plan.layout.output_size
    below = 2 if plan.layout.num_layers > 1 else 0
    chunks = Groups.channels((plan.rows, plan.width), 1).scratch(plan.dtype)[0].shape
    products = [(part.size, matrix.shape[1], plan.rows) for (*_, kind), matrix in
                plan.matrices.items() if kind.endswith("weight")
                for part in ([GateRows(0, 0, matrix.shape[0])] if kind[:3] == "h2r" else
                             plan.parts if kind[:3] == "i2h" else _recurrent(plan))]
    shapes = {"dgates": plan.per_step(plan.width), "before": plan.per_step(out),
              "olds": plan.per_step(plan.cell_size),
              "douts": plan.per_step(plan.layout.projection_size),
              "wide": plan.per_step(plan.hidden_size, 1), "gy": (below, *plan.y_shape),
              "sums": (2, plan.width), "chunks": (2, *chunks)}
    return {"dh": states["h"], "dc": states["c"], **states,
            "lengths": Spec((plan.data[1],), INT32), "split": matmul_scratch(plan.dtype, products),
            **{name: Spec(shape, plan.dtype) for name, shape in shapes.items()}}


implements(RNN, "cuda", _forward, _backward, _scratch,
           lambda op, ins, outs: list(_backward_specs(op._plan(outs[0])).values()))
