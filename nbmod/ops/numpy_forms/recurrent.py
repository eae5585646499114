"""RNN with NumPy: one product for the inputs of all steps of a layer, then step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..op import Call
from ..rnn.rnn import RNN
from ..rnn.rnn_plan import RnnPlan, Weights

__all__ = ["rnn"]


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
