"""RNN with NumPy: one product for the inputs of all steps of a layer, then step by step.

Forward keeps what the kernels keep in the workspace, and backward, backpropagation through time,
reads it: see `rnn.rnn_plan` for its arrays and `rnn.rnn_cells` for the formulas of the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import REFERENCE, implements
from ..nn.dropout import Dropout
from ..op import Call
from ..param import Shape
from ..rnn.rnn import RNN
from ..rnn.rnn_layer import RecurrentLayer
from ..rnn.rnn_plan import LayerResults, RnnPlan, Weights
from ..rnn.rnn_steps import Arrays, set_lengths, start_gates
from ..rules import fill_zero

__all__ = ["recurrent_layer", "recurrent_layer_gradient"]


def _rnn(op: RNN, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    plan = op._plan(ins[0])
    arrays, (output, *states, workspace) = op._arrays(plan, ins), outs
    if workspace is None:
        workspace = np.empty(plan.workspace_size, plan.dtype)
    stores, x, lengths = plan.kept_stores(workspace, output), arrays.data, _lengths(plan, arrays)
    h, c = _first_states(plan, arrays)
    for layer, store in enumerate(stores):
        for d in range(plan.layout.directions):
            cell = _Direction(op, plan, arrays.weights, (layer, d), store)
            cell.run(x, h[layer, d], c[layer, d], lengths)
        if plan.dropout and layer < len(stores) - 1:
            Dropout(op.p).forward([store.y], [store.x, store.mask], Call(call.mode, [None, None]))
        x = store.x
    for out, state in zip(states, (h, c), strict=False):
        if out is not None:
            out[...] = state.reshape(out.shape)


def _rnn_gradient(op: RNN, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    heads, (*tensors, output, workspace) = ins[:op.num_visible], ins[op.num_visible:]
    plan = op._plan(tensors[0])
    arrays, grads = op._arrays(plan, tensors), op._arrays(plan, outs)
    stores, lengths = plan.kept_stores(workspace, output), _lengths(plan, arrays)
    h, c = _first_states(plan, arrays)
    g, *ends = heads
    dh, dc = np.zeros_like(h), np.zeros_like(c)
    for array, end in zip((dh, dc), ends, strict=False):
        array[...] = end.reshape(array.shape)
    for layer in reversed(range(len(stores))):
        x, g = stores[layer - 1].x if layer else arrays.data, g.reshape(plan.y_shape)
        gx: Any = 0
        for d in range(plan.layout.directions):
            here = layer, d
            cell = _Direction(op, plan, arrays.weights, here, stores[layer])
            dh[here], dc[here] = cell.run_back(g[:, :, d], (h[here], c[here]), (dh[here], dc[here]),
                                               lengths)
            cell.store_gradients(grads.weights, here, x)
            gx = gx + cell.input_gradient(x.shape)
        g = gx * stores[layer - 1].mask.reshape(gx.shape) if plan.dropout and layer else gx
    fill_zero([grads.lengths])
    for out, gradient in ((grads.data, g), (grads.state, dh), (grads.state_cell, dc)):
        if out is not None:
            out[...] = gradient.reshape(out.shape)


def _lengths(plan: RnnPlan, arrays: Arrays) -> Any:
    """The steps of each sample, (N,)."""
    lengths = np.empty(plan.data[1], np.int64)
    set_lengths(arrays.lengths, lengths, plan.data[0])
    return lengths


def _first_states(plan: RnnPlan, arrays: Arrays) -> list[Any]:
    """Copies of the states before the first step, (L, D, N, ...); c is empty but for lstm."""
    return [np.empty(*spec) if array is None else array.reshape(spec.shape).copy() for spec, array
            in zip(plan.states().values(), (arrays.state, arrays.state_cell), strict=True)]


class _Direction:
    """One direction of a layer."""

    def __init__(self, op: RNN, plan: RnnPlan, weights: Weights, here: tuple[int, int],
                 store: LayerResults) -> None:
        self.mode, self.plan, d = op.mode, plan, here[1]
        self.gates, self.cells, self.y = store.gates[d], store.cells[d], store.y[:, :, d]
        self.hidden = store.hidden[d]
        self.clip, self.order = op._clip(plan.dtype), range(plan.data[0])[::-1 if d else 1]
        self.i2h, self.h2h, self.i2h_bias, self.h2h_bias = (
            weights[(*here, kind)] for kind in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"))
        self.h2r = weights.get((*here, "h2r_weight"))

    def recurrent(self, gates: np.ndarray) -> Any:
        """The columns to which the previous outputs contribute."""
        return gates[..., self.plan.width - self.plan.columns:]

    def blocks(self, gates: np.ndarray) -> list[Any]:
        """Columns of each of the four gates of lstm and gru, as `rnn_cells` lists them."""
        size = gates.shape[-1] // 4
        return [gates[..., at * size:(at + 1) * size] for at in self.plan.cell[1:]]

    # -- forward ------------------------------------------------------------------------------

    def run(self, x: np.ndarray, h: np.ndarray, c: np.ndarray, lengths: np.ndarray) -> None:
        """All steps of x (T, N, ...); the states h (N, R) and c (N, H) are updated."""
        base, x = np.empty(self.plan.width, self.plan.dtype), x.reshape(*x.shape[:2], -1)
        start_gates(self.plan, self.i2h_bias, self.h2h_bias, base)
        self.gates[...] = base
        for part in self.plan.parts:
            self.gates[..., part.columns] += x @ self.i2h[part.rows].T
        for t in self.order:
            gates, runs = self.gates[t], (t < lengths)[:, None]
            self.recurrent(gates)[...] += h @ self.h2h.T
            y, cells = self._step(gates, h, c)
            if self.h2r is not None:
                self.hidden[t] = np.where(runs, y, 0)
                y = y @ self.h2r.T
            self.y[t] = np.where(runs, y, 0)
            np.copyto(h, y, where=runs)
            if cells is not None:
                self.cells[t] = cells
                np.copyto(c, cells, where=runs)

    def _step(self, gates: np.ndarray, before: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
        """Make gates from their pre-activations, in place; the next h and c."""
        if self.mode == "lstm":
            i, f, u, o = self.blocks(gates)
            for gate in (i, f, o):
                gate[...] = _sigmoid(gate)
            u[...] = np.tanh(u)
            c = f * c + i * u
            low, high, replaces_nan = self.clip
            c = np.where((c < low) | (replaces_nan & np.isnan(c)), low, c)
            c = np.where(c > high, high, c)
            return o * np.tanh(c), c
        if self.mode == "gru":
            n, r, z, s = self.blocks(gates)
            for gate in (r, z):
                gate[...] = _sigmoid(gate)
            n[...] = np.tanh(n + r * s)
            return n + z * (before - n), None
        gates[...] = np.tanh(gates) if self.mode == "rnn_tanh" else np.maximum(gates, 0)
        return gates, None

    # -- backward -----------------------------------------------------------------------------

    def run_back(self, g: np.ndarray, first: tuple[Any, Any], ends: tuple[Any, Any],
                 lengths: np.ndarray) -> tuple[Any, Any]:
        """Gradients of the first states, from g (T, N, R) and those of the last ones; keeps those
        of the gates and of projected outputs, and the previous outputs."""
        dh, dc = ends
        self.dgates, self.before = np.zeros_like(self.gates), np.empty_like(g)
        self.douts = np.zeros_like(g)
        for t in reversed(self.order):
            last, runs = t - self.order.step, (t < lengths)[:, None]
            inside = ((0 <= last) & (last < np.minimum(len(g), lengths)))[:, None]
            last = last % len(g)    # whatever is there, where it is not inside
            self.before[t] = np.where(inside, self.y[last], first[0])
            self.douts[t] = np.where(runs, dh + g[t], 0)
            wide = self.douts[t] if self.h2r is None else self.douts[t] @ self.h2r
            cells = (self.cells[t], np.where(inside, self.cells[last], first[1])) if dc.size else ()
            around, before_c = self._step_gradient(t, wide, dc, *cells)
            self.dgates[t] = np.where(runs, self.dgates[t], 0)
            dh = np.where(runs, around, dh) + self.recurrent(self.dgates[t]) @ self.h2h
            dc = np.where(runs, before_c, dc) if dc.size else dc
        return dh, dc

    def _step_gradient(self, t: int, dh: np.ndarray, dc: np.ndarray, c: Any = None,
                       before_c: Any = None) -> tuple[Any, Any]:
        """Write the gradients of the pre-activations; those of the previous h, as far as it does
        not go through these, and of the previous c."""
        gates, dgates = self.gates[t], self.dgates[t]
        if self.mode == "lstm":
            (i, f, u, o), (di, df, du, do) = self.blocks(gates), self.blocks(dgates)
            root, (low, high, _) = np.tanh(c), self.clip
            do[...] = dh * root * o * (1 - o)
            dc = np.where((c <= low) | (c >= high), 0, dc + dh * o * (1 - root * root))
            di[...] = dc * u * i * (1 - i)
            du[...] = dc * i * (1 - u * u)
            df[...] = dc * before_c * f * (1 - f)
            return 0, dc * f
        if self.mode == "gru":
            (n, r, z, s), (dn, dr, dz, ds) = self.blocks(gates), self.blocks(dgates)
            dz[...] = dh * (self.before[t] - n) * z * (1 - z)
            dn[...] = dh * (1 - z) * (1 - n * n)
            ds[...] = dn * r
            dr[...] = dn * s * r * (1 - r)
            return dh * z, None
        if self.mode == "rnn_tanh":
            dgates[...] = dh * (1 - gates * gates)
        else:
            dgates[...] = np.where(gates > 0, dh, gates)     # 0 or NaN
        return 0, None

    def store_gradients(self, grads: Weights, here: tuple[int, int], x: np.ndarray) -> None:
        """Write the gradients of weights and biases that are wanted; x are the layer's inputs."""
        rows = self.plan.rows
        x, before, hidden, dgates, douts = (array.reshape(rows, -1) for array in (
            x, self.before, self.hidden, self.dgates, self.douts))
        recurrent = self.recurrent(dgates)
        inputs = np.empty_like(recurrent)
        for part in self.plan.parts:
            inputs[:, part.rows] = dgates[:, part.columns]
        terms = {"i2h_weight": (inputs, x), "i2h_bias": (inputs,),
                 "h2h_weight": (recurrent, before), "h2h_bias": (recurrent,),
                 "h2r_weight": (douts, hidden)}
        for kind, (sums, *factor) in terms.items():
            out = grads.get((*here, kind))
            if out is not None:
                out[...] = sums.T @ factor[0] if factor else sums.sum(axis=0)

    def input_gradient(self, shape: Sequence[int]) -> Any:
        """The gradient of the layer's inputs through this direction."""
        return sum(self.dgates[..., part.columns] @ self.i2h[part.rows]
                   for part in self.plan.parts).reshape(shape)


def _sigmoid(x: np.ndarray) -> Any:
    return 1 / (1 + np.exp(-x))


# -- the layer of rerolled cells ------------------------------------------------------------------


def recurrent_layer(op: RecurrentLayer, ins: Sequence[Any], shapes: Sequence[Shape | None],
                    call: Call) -> list[Any]:
    """RecurrentLayer."""
    outs = [None if shape is None else np.empty(shape, ins[0].dtype) for shape in shapes]
    _rnn(op, ins, outs, call)
    return outs


def recurrent_layer_gradient(op: RecurrentLayer, ins: Sequence[Any], shapes: Sequence[Shape | None],
                             call: Call) -> list[Any]:
    """The gradient of RecurrentLayer."""
    outs = [None if shape is None else np.empty(shape, ins[0].dtype) for shape in shapes]
    _rnn_gradient(op, ins, outs, call)
    return outs


implements(RNN, REFERENCE, _rnn, _rnn_gradient)
