"""RNN with NumPy: one product for the inputs of all steps of a layer, then step by step.

`recurrent_layer` and its gradient define the layer of rerolled cells (see `inserted_ops`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..op import Call, resolve_needs
from ..rnn.rnn import RNN
from ..rnn.rnn_layer import RecurrentLayer
from ..rnn.rnn_plan import RnnPlan, Weights

__all__ = ["recurrent_layer", "recurrent_layer_gradient", "rnn"]


def rnn(op: RNN, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """Everything but the hidden output, which only the backward pass reads."""
    given = dict(zip(op.list_inputs(), ins, strict=True))
    plan = op._plan(given["data"])
    weights, x = plan.weights(given["parameters"]), given["data"]
    steps, samples = x.shape[:2]
    lengths = given.get("sequence_length", np.full(samples, steps))
    h = given["state"].reshape(plan.states()["h"].shape).copy()
    c = given["state_cell"].reshape(plan.states()["c"].shape).copy() if plan.cell_size else None
    for layer in range(op.num_layers):
        y = np.empty(plan.y_shape, x.dtype)
        for d in range(plan.layout.directions):
            here = layer, d
            cell = _Cell(op, plan, weights, here, h[here], None if c is None else c[here])
            cell.run(x.reshape(steps, samples, -1), y[:, :, d], lengths)
        x = y
    outs[0][...] = x.reshape(outs[0].shape)
    for out, states in zip(outs[1:op.num_visible], (h, c), strict=False):
        if out is not None:
            out[...] = states.reshape(out.shape)


class _Cell:
    """One direction of a layer; its states h (N, R) and c (N, H), of lstm, are updated."""

    def __init__(self, op: RNN, plan: RnnPlan, weights: Weights, here: tuple[int, int], h: Any,
                 c: Any) -> None:
        self.mode, self.size, self.h, self.c = op.mode, op.state_size, h, c
        self.clip, self.reverse = op._clip(plan.dtype), here[1] == 1
        self.i2h, self.h2h, self.i2h_bias, self.h2h_bias = (
            weights[(*here, kind)] for kind in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"))
        self.h2r = weights.get((*here, "h2r_weight"))

    def run(self, x: Any, y: Any, lengths: Any) -> None:
        """All steps of x (T, N, I) to y (T, N, R)."""
        sums = x @ self.i2h.T + self.i2h_bias
        order = range(len(x))
        for step in reversed(order) if self.reverse else order:
            h, c = self._step(sums[step], self.h @ self.h2h.T + self.h2h_bias)
            runs = (step < lengths)[:, None]
            y[step] = np.where(runs, h, 0)
            np.copyto(self.h, h, where=runs)
            if self.c is not None:
                np.copyto(self.c, c, where=runs)

    def _step(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The next h and c from the contributions (N, G H) of input and state."""
        if self.mode == "lstm":
            return self._lstm(a + b)
        if self.mode != "gru":
            return (np.tanh(a + b) if self.mode == "rnn_tanh" else np.maximum(a + b, 0)), None
        (ar, az, an), (br, bz, bn) = (np.split(sums, 3, axis=1) for sums in (a, b))
        candidate = np.tanh(an + _sigmoid(ar + br) * bn)
        return candidate + _sigmoid(az + bz) * (self.h - candidate), None

    def _lstm(self, sums: Any) -> tuple[Any, Any]:
        i, f, u, o = np.split(sums, 4, axis=1)
        c = _sigmoid(f) * self.c + _sigmoid(i) * np.tanh(u)
        low, high, replaces_nan = self.clip
        c = np.where((c < low) | (replaces_nan & np.isnan(c)), low, c)
        c = np.where(c > high, high, c)
        h = _sigmoid(o) * np.tanh(c)
        return (h if self.h2r is None else h @ self.h2r.T), c


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# -- the layer of rerolled cells ------------------------------------------------------------------


@dataclass
class _StepResults:
    """One step: its gates by their number in `rnn_weights`, and what they were computed from."""

    gates: list[Any]
    recurrent: Any
    """Of gru: the contribution of h to the candidate."""
    before: Any
    cell_before: Any
    h: Any
    c: Any


def _blocks(op: RecurrentLayer, sums: Any) -> list[Any]:
    """The columns of each gate, by its number in `rnn_weights`."""
    parts = np.split(sums, len(op.layout.gates), axis=1)
    return [parts[at] for at in op.order] if op.order else parts


def _steps(op: RecurrentLayer, given: dict[str, Any]) -> list[_StepResults]:
    """All steps of the layer."""
    h, c = given["state"], given.get("state_cell")
    found: list[_StepResults] = []
    for x in given["data"]:
        a = _blocks(op, x @ given["i2h_weight"].T + given["i2h_bias"])
        b = _blocks(op, h @ given["h2h_weight"].T + given["h2h_bias"])
        before, cell_before = h, c
        if op.mode == "lstm":
            i, f, o = (_sigmoid(a[k] + b[k]) for k in (0, 1, 3))
            gates = [i, f, np.tanh(a[2] + b[2]), o]
            c = f * c + i * gates[2]
            h = o * np.tanh(c)
        elif op.mode == "gru":
            r, z = (_sigmoid(a[k] + b[k]) for k in (0, 1))
            gates = [r, z, np.tanh(a[2] + r * b[2])]
            h = gates[2] + z * (h - gates[2])
        else:
            h = np.tanh(a[0] + b[0]) if op.mode == "rnn_tanh" else np.maximum(a[0] + b[0], 0)
            gates = [h]
        found.append(_StepResults(gates, b[-1], before, cell_before, h, c))
    return found


def recurrent_layer(op: RecurrentLayer, ins: Sequence[Any], shapes: Any, call: Call) -> list[Any]:
    """RecurrentLayer, without the contents of its workspace."""
    steps = _steps(op, dict(zip(op.list_inputs(), ins, strict=True)))
    last = steps[-1]
    states = [last.h, last.c] if op.mode == "lstm" else [last.h]
    return [np.stack([step.h for step in steps]), *states, np.zeros(0)]


def recurrent_layer_gradient(op: RecurrentLayer, ins: Sequence[Any], shapes: Any, call: Call
                             ) -> list[Any]:
    """The gradient of RecurrentLayer: backpropagation through time."""
    given = dict(zip([name for name, _, _ in resolve_needs(op)], ins, strict=True))
    steps, heads = _steps(op, given), given["ograd0"]
    dh, dc = given["ograd1"], given.get("ograd2")
    sums: dict[str, Any] = {name: np.zeros_like(given[name]) for name in op.list_inputs()}
    for t in reversed(range(len(steps))):
        step, x = steps[t], given["data"][t]
        da, db, dh, dc = _step_gradient(op, step, dh + heads[t], dc)
        for kind, d, source in (("i2h", da, x), ("h2h", db, step.before)):
            sums[f"{kind}_weight"] += d.T @ source
            sums[f"{kind}_bias"] += d.sum(axis=0)
        sums["data"][t] = da @ given["i2h_weight"]
        dh = dh + db @ given["h2h_weight"]
    sums["state"], sums["state_cell"] = dh, dc
    return [sums[name] for name in op.list_inputs()]


def _step_gradient(op: RecurrentLayer, step: _StepResults, dh: Any, dc: Any) -> tuple[Any, ...]:
    """Gradients of the contributions of x and h, and of h and c before the step as far as they do
    not go through these."""
    if op.mode == "lstm":
        (i, f, u, o), root = step.gates, np.tanh(step.c)
        dc = dc + dh * o * (1 - root * root)
        d = [dc * u * i * (1 - i), dc * step.cell_before * f * (1 - f), dc * i * (1 - u * u),
             dh * root * o * (1 - o)]
        da = _joined(op, d)
        return da, da, 0, dc * f
    if op.mode == "gru":
        r, z, n = step.gates
        dn = dh * (1 - z) * (1 - n * n)
        d = [dn * step.recurrent * r * (1 - r), dh * (step.before - n) * z * (1 - z)]
        return _joined(op, [*d, dn]), _joined(op, [*d, dn * r]), dh * z, None
    da = dh * (1 - step.h * step.h if op.mode == "rnn_tanh" else step.h > 0)
    return da, da, 0, None


def _joined(op: RecurrentLayer, gates: list[Any]) -> Any:
    """Columns of all gates, where the rows of the weights have them."""
    places = op.order or range(len(gates))
    return np.concatenate([gate for _, gate in sorted(zip(places, gates, strict=True),
                                                      key=lambda pair: pair[0])], axis=1)
