"""Elementwise part of recurrent cells, between their matrix products: one row at a time.

A row of `gates` is one sample at one step.  On entry it has the pre-activations, on exit the gates
themselves, which the backward pass reads; `dgates` gets the gradients of the pre-activations.
Gates are adjacent, H elements each:

    rnn     h
    lstm    i, f, u, o      c = f c' + i u,  h = o tanh(c);  u is the candidate
    gru     n, r, z, s      n = tanh(a + r s),  h = n + z (h' - n);  s is the recurrent part of the
                            candidate's pre-activation, with its bias, and `a` the other

so that the columns to which the layer's input contributes begin at 0, those of the previous output
end at the last one, and either are contiguous.  The gates of lstm may be in any order, and r and z
of gru: `cell` is a `CellGates`.

Loops are short and read few arrays each: a compiler vectorizes a loop only if it can check at run
time that no two of its arrays overlap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..elementwise.kernel_math import exp32, tanh32
from ..jit import inlined

__all__ = ["MODES", "CellGates", "backward_cell", "forward_cell"]

MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")
RELU, TANH, LSTM, GRU = range(4)


class CellGates(NamedTuple):
    """The mode of a cell, and the position of each of its four gates."""

    mode: int
    first: int
    second: int
    third: int
    fourth: int


@inlined
def _nth(row, position):
    size = len(row) // 4
    return row[position * size:(position + 1) * size]


@inlined
def _four(row, cell):
    """The four gates of a row."""
    return (_nth(row, cell.first), _nth(row, cell.second), _nth(row, cell.third),
            _nth(row, cell.fourth))


@inlined
def _tanh(x, single):
    return tanh32(x) if single else np.tanh(x)


@inlined(fastmath=True)
def _tanh_all(x):
    single = np.finfo(x.dtype).bits == 32
    for j in range(x.size):
        x[j] = _tanh(x[j], single)


@inlined(fastmath=True)
def _sigmoid_all(x):
    single, one = np.finfo(x.dtype).bits == 32, x.dtype.type(1)
    for j in range(x.size):
        x[j] = one / (one + (exp32(-x[j]) if single else np.exp(-x[j])))


@inlined(fastmath=True)
def _lstm(cell, gates, c, h, clip):
    """c is updated in place."""
    size, single, (i, f, u, o) = h.size, np.finfo(h.dtype).bits == 32, _four(gates, cell)
    _sigmoid_all(gates[:cell.third * size])
    _tanh_all(u)
    _sigmoid_all(gates[(cell.third + 1) * size:])
    low, high, nan = clip
    for j in range(size):
        value = f[j] * c[j] + i[j] * u[j]
        value = low if value < low or (nan and value != value) else value
        c[j] = high if value > high else value
    for j in range(size):
        h[j] = o[j] * _tanh(c[j], single)


@inlined(fastmath=True)
def _gru(cell, gates, before, h):
    size, single, (n, r, z, s) = h.size, np.finfo(h.dtype).bits == 32, _four(gates, cell)
    _sigmoid_all(gates[size:3 * size])
    for j in range(size):
        n[j] = _tanh(n[j] + r[j] * s[j], single)
    for j in range(size):
        h[j] = n[j] + z[j] * (before[j] - n[j])


@inlined(fastmath=True)
def _relu_all(x):
    for j in range(x.size):
        x[j] = max(x[j], x.dtype.type(0))


@inlined
def forward_cell(cell, gates, before, c, h, clip):
    """Gates and h from the pre-activations; `before` is the previous h, c the state."""
    mode = cell.mode
    if mode == LSTM:
        _lstm(cell, gates, c, h, clip)
    elif mode == GRU:
        _gru(cell, gates, before, h)
    else:
        if mode == TANH:
            _tanh_all(gates)
        else:
            _relu_all(gates)
        for j in range(h.size):
            h[j] = gates[j]


@inlined(fastmath=True)
def _lstm_backward(cell, gates, c, c_before, dh, dc, dgates, clip):
    """On entry dc is the gradient of c, on exit that of the previous one."""
    size, single, one = dh.size, np.finfo(c.dtype).bits == 32, c.dtype.type(1)
    (i, f, u, o), (di, df, du, do) = _four(gates, cell), _four(dgates, cell)
    (low, high, _), zero = clip, c.dtype.type(0)
    for j in range(size):
        tanh_c = _tanh(c[j], single)
        do[j] = dh[j] * tanh_c * o[j] * (one - o[j])
        total = dc[j] + dh[j] * o[j] * (one - tanh_c * tanh_c)
        dc[j] = zero if c[j] <= low or c[j] >= high else total
    for j in range(size):
        di[j] = dc[j] * u[j] * i[j] * (one - i[j])
        du[j] = dc[j] * i[j] * (one - u[j] * u[j])
    for j in range(size):
        df[j] = dc[j] * c_before[j] * f[j] * (one - f[j])
        dc[j] *= f[j]
    for j in range(size):
        dh[j] = zero


@inlined(fastmath=True)
def _gru_backward(cell, gates, before, dh, dgates):
    size, one = dh.size, dh.dtype.type(1)
    (n, r, z, s), (dn, dr, dz, ds) = _four(gates, cell), _four(dgates, cell)
    for j in range(size):
        dz[j] = dh[j] * (before[j] - n[j]) * z[j] * (one - z[j])
    for j in range(size):
        dn[j] = dh[j] * (one - z[j]) * (one - n[j] * n[j])
    for j in range(size):
        ds[j] = dn[j] * r[j]
        dr[j] = dn[j] * s[j] * r[j] * (one - r[j])
    for j in range(size):
        dh[j] *= z[j]


@inlined(fastmath=True)
def _tanh_backward(h, dh, dgates):
    one, zero = h.dtype.type(1), h.dtype.type(0)
    for j in range(h.size):
        dgates[j] = dh[j] * (one - h[j] * h[j])
    for j in range(h.size):
        dh[j] = zero


@inlined
def _relu_backward(h, dh, dgates):
    """The gradient at NaN is NaN, as of ReLU elsewhere."""
    zero = h.dtype.type(0)
    for j in range(h.size):
        dgates[j] = dh[j] if h[j] > zero else zero if h[j] <= zero else h[j]
    for j in range(h.size):
        dh[j] = zero


@inlined
def backward_cell(cell, gates, cells, before, dh, dc, dgates, clip):
    """dgates from dh; on exit dh is the part of the previous h's gradient that bypasses the gates.

    `cells` are c and the previous c.
    """
    mode, (c, c_before) = cell.mode, cells
    if mode == LSTM:
        _lstm_backward(cell, gates, c, c_before, dh, dc, dgates, clip)
    elif mode == GRU:
        _gru_backward(cell, gates, before, dh, dgates)
    elif mode == TANH:
        _tanh_backward(gates, dh, dgates)
    else:
        _relu_backward(gates, dh, dgates)
