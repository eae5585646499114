"""hawkesll with NumPy: history by history, from the times between all pairs of its events.

    S_i = state exp(-beta t_i) + sum of exp(-beta (t_i - t_j)) over earlier events of the same kind
    log likelihood = sum of log(lda + alpha beta S_i) over events
                     - sum of lda max_time + alpha (state + events - left) over kinds

where `left` is S at max_time: an event decays by as much as it has excited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..contrib.hawkes import HawkesLL, _write
from ..dispatch import REFERENCE, implements
from ..op import Call

__all__: list[str] = []


class _History(NamedTuple):
    """A history of m events of K kinds; an event excites its own kind only."""

    lda: Any
    alpha: Any
    beta: Any
    state: Any
    kinds: Any
    """Kinds of the events, (m,)."""
    times: Any
    until: float
    ages: Any
    """Time from event j to event i, (m, m)."""
    decay: Any
    """Share of event j that is left at event i; 0 if that is no later one of its kind."""
    old: Any
    """Share of the state that is left at the events, (m,)."""
    rest: Any
    """Share of the events that is left at the end, (m,)."""
    excited: Any
    """S at the events."""
    left: Any
    """S at the end, (K,)."""

    def by_kind(self, values: np.ndarray) -> Any:
        """Sums (K,) of values of the events."""
        return np.bincount(self.kinds, values, len(self.beta))

    @property
    def intensity(self) -> Any:
        """At the events."""
        rate = self.alpha * self.beta
        return self.lda[self.kinds] + rate[self.kinds] * self.excited

    @property
    def decayed(self) -> Any:
        """The sum, over kinds, of what has decayed until the end."""
        return self.state + self.by_kind(np.ones(len(self.kinds))) - self.left


def _histories(op: HawkesLL, ins: Sequence[Any]) -> list[_History]:
    (lda, alpha, beta), state, lags, (marks, lengths, until), _ = op._double(ins)
    return [_history(lda[n], alpha, beta, state[n], marks[n, :count], lags[n, :count].cumsum(),
                     until[n]) for n, count in enumerate(lengths)]


def _history(lda: np.ndarray, alpha: np.ndarray, beta: np.ndarray, state: np.ndarray,
             kinds: np.ndarray, times: np.ndarray, until: float) -> _History:
    ages, rate = times[:, None] - times, beta[kinds]
    is_pair = np.tri(len(times), k=-1, dtype=bool) & (kinds[:, None] == kinds)
    decay = np.where(is_pair, np.exp(-rate * ages), 0)
    old, rest = np.exp(-rate * times), np.exp(-rate * (until - times))
    left = state * np.exp(-beta * until) + np.bincount(kinds, rest, len(beta))
    return _History(lda, alpha, beta, state, kinds, times, until, ages, decay, old, rest,
                    decay.sum(axis=1) + state[kinds] * old, left)


def _hawkes_ll(op: HawkesLL, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    histories = _histories(op, ins)
    _write(([_log_likelihood(each) for each in histories], [each.left for each in histories]),
           outs)


def _log_likelihood(of: _History) -> Any:
    return np.log(of.intensity).sum() - (of.lda * of.until + of.alpha * of.decayed).sum()


def _hawkes_ll_gradient(op: HawkesLL, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    g, gleft = (np.asarray(array, np.float64) for array in ins[:2])
    glags = np.zeros(ins[6].shape)
    all_grads = []
    for n, history in enumerate(_histories(op, ins[2:])):
        *grads, own_lags = _gradients(history, g[n], gleft[n])
        glags[n, :len(own_lags)] = own_lags
        all_grads.append(grads)
    glda, galpha, gbeta, gstate, guntil = (np.array(each) for each in zip(*all_grads, strict=True))
    _write((glda, galpha.sum(axis=0), gbeta.sum(axis=0), gstate, glags, 0, 0, guntil), outs)


def _gradients(of: _History, g: np.ndarray, gleft: np.ndarray) -> tuple[Any, ...]:
    """Gradients of lda, alpha, beta, state, max_time and lags."""
    kinds, rate, jump = of.kinds, of.beta[of.kinds], g / of.intensity
    by_excited = jump * of.alpha[kinds] * rate
    by_left = gleft + g * of.alpha
    aged = (of.decay * of.ages).sum(axis=1) + of.state[kinds] * of.times * of.old
    end = np.exp(-of.beta * of.until)
    glda = of.by_kind(jump) - g * of.until
    galpha = of.by_kind(jump * rate * of.excited) - g * of.decayed
    gbeta = (of.by_kind(jump * of.alpha[kinds] * of.excited - by_excited * aged)
             - by_left * (of.by_kind((of.until - of.times) * of.rest)
                          + of.until * of.state * end))
    gstate = of.by_kind(by_excited * of.old) + by_left * end - g * of.alpha
    guntil = -(g * of.lda + by_left * of.beta * of.left).sum()
    gtimes = rate * (by_left[kinds] * of.rest + by_excited @ of.decay - by_excited * of.excited)
    return glda, galpha, gbeta, gstate, guntil, gtimes[::-1].cumsum()[::-1]


implements(HawkesLL, REFERENCE, _hawkes_ll, _hawkes_ll_gradient)
