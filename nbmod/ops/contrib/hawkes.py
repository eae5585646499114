"""hawkesll: the log likelihood of a self-exciting point process.

A self-exciting process (Hawkes: Spectra of some self-exciting and mutually exciting point
processes, Biometrika 1971) of K kinds of events.  With S(t) the sum of exp(-beta (t - t')) over
the events of a kind at times t' before t, and over what the state at time 0 leaves of earlier ones,

    intensity(t) = lda + alpha beta S(t)
    log likelihood = sum of log intensity over the events - integral of all intensities

Between two events of a kind, S and the integral change by one exponential, so a history is one
scan over its events that keeps S and the time of the last event for every kind (Ozaki, Ann. Inst.
Statist. Math. 1979).  The backward pass scans in reverse with the derivatives with respect to
these.  Samples are independent, and everything is computed in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ..elementwise.float_op import require_float
from ..jit import inlined, kernel, prange
from ..op import Call, Op, Types
from ..shape import ShapeMismatch, Shapes, unify

__all__ = ["HawkesLL"]


# ------------------------------------------------------------------------------------------ kernels

@inlined
def _event(lda, alpha, beta, excited, gap):
    """(decay, log intensity after `gap`, integral of the intensity over it) of one kind."""
    decay = np.exp(-beta * gap)
    intensity = lda + alpha * beta * excited * decay
    return decay, np.log(intensity), lda * gap + alpha * excited * (1 - decay)


@inlined
def _walk(lda, alpha, beta, lags, marks, until, now, path):
    """The log likelihood of one history, starting at S = now[0].

    `now` (2, K) becomes S and the time of the last event of every kind; `path` (2, T), unless it is
    empty, S before every event, right after the one before it, and how long ago that was.
    """
    now[1] = 0
    time, total = 0.0, 0.0
    for i in range(lags.size):
        k = marks[i]
        time += lags[i]
        excited, gap = now[0, k], time - now[1, k]
        decay, log, integral = _event(lda[k], alpha[k], beta[k], excited, gap)
        total += log - integral
        now[0, k], now[1, k] = 1 + excited * decay, time
        if path.size > 0:
            path[0, i], path[1, i] = excited, gap
    for k in range(lda.size):
        total -= _event(lda[k], alpha[k], beta[k], now[0, k], until - now[1, k])[2]
    return total


@kernel(parallel=True)
def _forward(rates, state, lags, events, now, path, y, left):
    """y (N,), and left (N, K): S at max_time.

    `rates` is (lda, alpha, beta), `events` (marks, valid_length, max_time), the first two int64.
    """
    lda, alpha, beta = rates
    marks, lengths, until = events
    for n in prange(lda.shape[0]):
        count = lengths[n]
        now[n, 0] = state[n]
        y[n] = _walk(lda[n], alpha, beta, lags[n, :count], marks[n], until[n], now[n], path[n])
        for k in range(lda.shape[1]):
            left[n, k] = now[n, 0, k] * np.exp(-beta[k] * (until[n] - now[n, 1, k]))


@inlined
def _event_backward(lda, alpha, beta, excited, gap, g, has, after):
    """Derivatives with respect to (lda, alpha, beta, excited, gap).

    Of `g` times (`has` log intensity - integral over the gap), plus `after` times S after the gap.
    """
    decay = np.exp(-beta * gap)
    jump = g * has / (lda + alpha * beta * excited * decay) if has else 0.0
    by_decay = (after + jump * alpha * beta + g * alpha) * excited
    return (jump - g * gap,
            jump * beta * excited * decay - g * excited * (1 - decay),
            jump * alpha * excited * decay - by_decay * gap * decay,
            (after + jump * alpha * beta) * decay - g * alpha * (1 - decay),
            -g * lda - by_decay * beta * decay)


@kernel(parallel=True)
def _backward(g, gleft, rates, events, now, path, grads, glags, guntil):
    """grads (N, 4, K): of lda, alpha, beta, state; glags (N, T), guntil (N,)."""
    lda, alpha, beta = rates
    marks, lengths, until = events
    for n in prange(lda.shape[0]):
        grads[n] = 0
        glags[n] = 0
        guntil[n] = 0
        by_last, by_excited = now[n, 1], grads[n, 3]
        for k in range(lda.shape[1]):
            gap = until[n] - now[n, 1, k]
            grads[n, 0, k], grads[n, 1, k], grads[n, 2, k], by_excited[k], by_gap = _event_backward(
                lda[n, k], alpha[k], beta[k], now[n, 0, k], gap, g[n], 0, gleft[n, k])
            guntil[n] += by_gap
            by_last[k] = -by_gap
        later = 0.0
        for i in range(lengths[n] - 1, -1, -1):
            k = marks[n, i]
            by_lda, by_alpha, by_beta, by_excited[k], by_gap = _event_backward(
                lda[n, k], alpha[k], beta[k], path[n, 0, i], path[n, 1, i], g[n], 1, by_excited[k])
            grads[n, 0, k] += by_lda
            grads[n, 1, k] += by_alpha
            grads[n, 2, k] += by_beta
            later += by_last[k] + by_gap
            by_last[k] = -by_gap
            glags[n, i] = later


# ----------------------------------------------------------------------------------------------- op

@dataclass(frozen=True)
class HawkesLL(Op, name="_contrib_hawkesll"):
    """Log likelihood (N,) of histories of events, and the state (N, K) that they leave.

    lda (N, K) are background intensities, alpha (K,) the number of events that one event excites,
    beta (K,) the rate at which that decays, state (N, K) the excitation by earlier events.  Event i
    of history n is of kind marks[n, i], int32, and lags[n, i] after the one before it, both (N, T).
    The first valid_length[n] count; lengths are clipped to [0, T].  A history is observed from 0 to
    max_time[n], both (N,).

        S(t) = state exp(-beta t) + sum over events of that kind at t' < t of exp(-beta (t - t'))
        log likelihood = sum over events of log(lda + alpha beta S)
                         - sum over kinds of the integral of lda + alpha beta S from 0 to max_time

    and the state that is left is S(max_time).  All inputs but marks and valid_length have their
    gradients, from both outputs.  (MXNet has those of lda, alpha and beta, from the likelihood.)
    """

    inputs: ClassVar = ("lda", "alpha", "beta", "state", "lags", "marks", "valid_length",
                        "max_time")
    outputs: ClassVar = ("output", "out_state")
    needs: ClassVar = ("ograds", "args")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        ranks = (2, 1, 1, 2, 2, 2, 1, 1)
        for name, shape, rank in zip(self.inputs, ins, ranks, strict=True):
            if shape is not None and len(shape) != rank:
                raise ShapeMismatch(f"{name} has shape {shape}, expected {rank} dimension(s)")
        n, k, t = (max((shape[axis] for shape, axis in dims if shape is not None), default=0)
                   for dims in (
                       [(ins[0], 0), (ins[3], 0), (ins[4], 0), (ins[5], 0), (ins[6], 0),
                        (ins[7], 0), (outs[0], 0), (outs[1], 0)],
                       [(ins[0], 1), (ins[1], 0), (ins[2], 0), (ins[3], 1), (outs[1], 1)],
                       [(ins[4], 1), (ins[5], 1)]))
        shapes = [(n, k), (k,), (k,), (n, k), (n, t), (n, t), (n,), (n,)]
        return ([unify(shape, rule, f"{name} and what follows from the other inputs,")
                 for name, shape, rule in zip(self.inputs, ins, shapes, strict=True)],
                [unify(outs[0], (n,)), unify(outs[1], (n, k))])

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        require_float(self, ins)
        floats, outs = super().infer_type([*ins[:5], *ins[6:]], outs)
        return [*floats[:5], ins[5] or np.dtype(np.int32), *floats[5:]], outs

    def _events(self, marks: np.ndarray, lengths: np.ndarray, kinds: int) -> tuple[np.ndarray,
                np.ndarray]:
        """Marks and lengths as int64; MXNetError for a mark that is no kind of event."""
        steps = marks.shape[1]
        whole = marks.astype(np.int64)
        counts = np.clip(np.nan_to_num(lengths), 0, steps).astype(np.int64)
        wrong = (np.arange(steps) < counts[:, None]) & ((whole < 0) | (whole >= kinds))
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            raise MXNetError(f"_contrib_hawkesll: marks[{row}, {place}] is {marks[row, place]}, "
                             f"expected a kind of event from 0 to {kinds - 1}")
        return whole, counts

    def _double(self, ins: Sequence[Any]) -> tuple[Any, ...]:
        """(rates, state, lags, events, workspace for S and last times) for the kernels."""
        lda, alpha, beta, state, lags, marks, lengths, until = ins
        lda, alpha, beta, state, lags, until = (
            np.asarray(x, np.float64) for x in (lda, alpha, beta, state, lags, until))
        events = (*self._events(marks, lengths, lda.shape[1]), until)
        return (lda, alpha, beta), state, lags, events, np.empty((len(lda), 2, lda.shape[1]))

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        inputs = self._double(ins)
        state = inputs[1]
        y, left = np.empty(len(state)), np.empty(state.shape)
        _forward(*inputs, np.empty((len(state), 2, 0)), y, left)
        _write((y, left), outs)

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        g, gleft = (np.asarray(x, np.float64) for x in ins[:2])
        inputs = self._double(ins[2:])
        rates, state, lags, events, now = inputs
        (batch, kinds), path = state.shape, np.empty((len(state), 2, lags.shape[1]))
        _forward(*inputs, path, np.empty(batch), np.empty(state.shape))
        grads, glags, guntil = np.empty((batch, 4, kinds)), np.empty(lags.shape), np.empty(batch)
        _backward(g, gleft, rates, events, now, path, grads, glags, guntil)
        _write((grads[:, 0], grads[:, 1].sum(0), grads[:, 2].sum(0), grads[:, 3], glags, 0, 0,
                guntil), outs)


def _write(values: Sequence[Any], outs: Sequence[Any]) -> None:
    for value, out in zip(values, outs, strict=True):
        if out is not None:
            out[...] = value
