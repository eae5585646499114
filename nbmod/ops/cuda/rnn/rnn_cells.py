"""One step of a recurrent layer on a GPU: a thread per unit and sample.

`rnn` computes the pre-activations of the gates; formulas and the order of gates are those of
`ops.rnn.rnn_cells`.  A sample past its length outputs 0 and keeps its state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...rnn.rnn_cells import GRU, LSTM, MODES, TANH
from ...rnn.rnn_plan import RnnPlan
from ..lib.kernel_math import MATH
from ..runtime.launch import CudaKernel, cache, device_function, grid_stride

__all__ = ["Cell", "backward_kernel", "forward_kernel"]

exp, tanh = MATH["exp"], MATH["tanh"]


class Cell(NamedTuple):
    """Constants of a kernel."""

    mode: int
    real: type[np.floating]
    low: float
    high: float
    cuts_nan: bool
    """Bounds of c, and whether NaN becomes the lower one."""
    projected: bool

    @property
    def parts(self) -> int:
        """Pre-activations per unit: the width of gates in multiples of the size of h."""
        return 4 if self.mode in (LSTM, GRU) else 1

    @classmethod
    def of(cls, plan: RnnPlan, clip: tuple[Any, Any, bool]) -> Cell:
        low, high, nan = clip
        return cls(MODES.index(plan.layout.mode), plan.dtype.type, float(low), float(high), nan,
                   bool(plan.hidden_size))


@cache
def _sigmoid_function(real: type[np.floating]) -> Callable:
    return device_function(lambda x: real(1) / (real(1) + exp(-x)))


def _lstm_forward(cell: Cell) -> Callable:
    """step(gates, at, size, c, i) -> h; gates and c are replaced."""
    real, low, high, cuts_nan = cell.real, cell.low, cell.high, cell.cuts_nan
    sigmoid = _sigmoid_function(real)

    @device_function
    def step(gates, at, size, c, i):
        a, f = sigmoid(gates[at]), sigmoid(gates[at + size])
        u, o = tanh(gates[at + 2 * size]), sigmoid(gates[at + 3 * size])
        value = f * c[i] + a * u
        value = real(low) if value < real(low) or (cuts_nan and value != value) else value
        value = real(high) if value > real(high) else value
        c[i] = value
        gates[at], gates[at + size], gates[at + 2 * size], gates[at + 3 * size] = a, f, u, o
        return o * tanh(value)
    return step


def _gru_forward(cell: Cell) -> Callable:
    """step(gates, at, size, h, i) -> h; the old one is h[i]."""
    sigmoid = _sigmoid_function(cell.real)

    @device_function
    def step(gates, at, size, h, i):
        r, z = sigmoid(gates[at + size]), sigmoid(gates[at + 2 * size])
        n = tanh(gates[at] + r * gates[at + 3 * size])
        gates[at], gates[at + size], gates[at + 2 * size] = n, r, z
        return n + z * (h[i] - n)
    return step


def _plain_forward(cell: Cell) -> Callable:
    real, is_tanh = cell.real, cell.mode == TANH

    @device_function
    def step(gates, at, size, h, i):
        value = gates[at]
        value = tanh(value) if is_tanh else real(0) if value <= real(0) else value
        gates[at] = value
        return value
    return step


@cache
def forward_kernel(cell: Cell) -> CudaKernel:
    """A step of all samples: y (its rows `across` apart), h and c from gates (N, width)."""
    real, lstm, projected, parts = cell.real, cell.mode == LSTM, cell.projected, cell.parts
    make = {LSTM: _lstm_forward, GRU: _gru_forward}.get(cell.mode, _plain_forward)
    step = make(cell)

    @grid_stride
    def forward_step(i, gates, h, c, cells, y, lengths, t, size, across):
        n, j = i // size, i % size
        value = real(0)
        if t < lengths[n]:
            value = step(gates, n * parts * size + j, size, c if lstm else h, i)
            if lstm:
                cells[i] = c[i]
            if not projected:
                h[i] = value
        y[n * across + j] = value
    return forward_step


def _lstm_backward(cell: Cell) -> Callable:
    """give(gates, dgates, at, size, dh, dc, c, old) -> (dh, dc) of the step before."""
    real, low, high = cell.real, cell.low, cell.high

    @device_function
    def give(gates, dgates, at, size, dh, dc, c, old):
        a, f, u, o = gates[at], gates[at + size], gates[at + 2 * size], gates[at + 3 * size]
        one, tanh_c = real(1), tanh(c)
        total = dc + dh * o * (one - tanh_c * tanh_c)
        total = real(0) if c <= real(low) or c >= real(high) else total
        dgates[at] = total * u * a * (one - a)
        dgates[at + size] = total * old * f * (one - f)
        dgates[at + 2 * size] = total * a * (one - u * u)
        dgates[at + 3 * size] = dh * tanh_c * o * (one - o)
        return real(0), total * f
    return give


def _gru_backward(cell: Cell) -> Callable:
    real = cell.real

    @device_function
    def give(gates, dgates, at, size, dh, dc, c, old):
        n, r, z, s = gates[at], gates[at + size], gates[at + 2 * size], gates[at + 3 * size]
        one = real(1)
        dn = dh * (one - z) * (one - n * n)
        dgates[at] = dn
        dgates[at + size] = dn * s * r * (one - r)
        dgates[at + 2 * size] = dh * (old - n) * z * (one - z)
        dgates[at + 3 * size] = dn * r
        return dh * z, dc
    return give


def _plain_backward(cell: Cell) -> Callable:
    real, is_tanh = cell.real, cell.mode == TANH

    @device_function
    def give(gates, dgates, at, size, dh, dc, c, old):
        h = gates[at]
        if is_tanh:
            dgates[at] = dh * (real(1) - h * h)
        else:
            dgates[at] = dh if h > real(0) else real(0) if h <= real(0) else h
        return real(0), dc
    return give


@cache
def backward_kernel(cell: Cell) -> CudaKernel:
    """A step of all samples: dgates, and dh and dc of the step before.

    `c` is that of lstm; `old` is the previous c, for other modes the previous output.  With a
    projection `wide` is the gradient of its input, else it is dh, to which `gy` is added.
    """
    real, lstm, projected, parts = cell.real, cell.mode == LSTM, cell.projected, cell.parts
    make = {LSTM: _lstm_backward, GRU: _gru_backward}.get(cell.mode, _plain_backward)
    give = make(cell)

    @grid_stride
    def backward_step(i, gates, dgates, wide, dc, c, old, gy, lengths, t, size, across):
        n, j = i // size, i % size
        if t < lengths[n]:
            dh = wide[i] if projected else wide[i] + real(gy[n * across + j])
            dh_before, dc_before = give(gates, dgates, n * parts * size + j, size, dh,
                                        dc[i] if lstm else real(0), c[i] if lstm else real(0),
                                        old[i])
            if lstm:
                dc[i] = dc_before
            if not projected:
                wide[i] = dh_before
        else:
            for part in range(parts):
                dgates[(n * parts + part) * size + j] = real(0)
    return backward_step
