"""CTCLoss: negative log likelihood of labels that are not aligned with the steps.

Connectionist temporal classification by the forward-backward algorithm (Graves, Fernandez, Gomez,
Schmidhuber: Connectionist Temporal Classification, ICML 2006).  Labels are extended by blanks
between and around them to S = 2 L + 1 states; at each step a path stays, advances to the next
state, or skips a blank between two different labels.  The loss is - log of the sum of the
probabilities of all paths.

    alpha[t, s]   log probability of all paths to state s at step t, that step included
    beta[t, s]    log probability of all paths from there on, that step excluded
    gradient      softmax(data)[t, c] - sum of exp(alpha + beta + loss)[t, s] over states of class c

All sums are in the log domain and in double precision: over a thousand steps float32 would keep
four digits.  The kernel processes one sample per task, its NumPy equivalent one step of all samples
at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...base import MXNetError
from ..elementwise.float_op import FloatOp
from ..elementwise.kernel_cache import COMPILED_FROM
from ..jit import inlined, kernel, prange
from ..op import Run, Spec
from ..rules import fill_zero
from ..shape import ShapeMismatch, unify
from .softmax_kernels import AxisView

__all__ = ["CTCLoss"]

NO_GRADIENT = np.empty((0, 0, 0), np.float32)


class Labels(NamedTuple):
    """Labels (N, L) extended by blanks.

    `classes` (N, 2 L + 1): the class of each state; `skip`, of the same shape: whether a path may
    skip the previous state; `counts` and `steps` (N,): labels and steps of each sample.
    """

    classes: np.ndarray
    skip: np.ndarray
    counts: np.ndarray
    steps: np.ndarray

    @classmethod
    def of(cls, label: np.ndarray, blank: int, count: np.ndarray, steps: np.ndarray) -> Labels:
        """From labels, of which only the first `count` of each row are read."""
        batch, most = label.shape
        classes = np.full((batch, 2 * most + 1), blank)
        within = np.arange(most) < count[:, None]
        classes[:, 1::2][within] = label[within]
        skip = np.zeros(classes.shape, np.bool_)
        skip[:, 3::2] = (classes[:, 3::2] != classes[:, 1:-2:2]) & (classes[:, 3::2] != blank)
        return cls(classes, skip, count, steps)


@inlined
def _log_sum(a, b, c):
    """log(e**a + e**b + e**c), also where all are -inf."""
    top = max(a, b, c)
    if top == -np.inf:
        return top
    return top + np.log(np.exp(a - top) + np.exp(b - top) + np.exp(c - top))


@inlined
def _forward_sums(logs, classes, skip, size, alpha):
    """Compute alpha (steps, S) of one sample from logs (steps, C)."""
    for t in range(len(alpha)):
        for s in range(size):
            if t == 0:
                total = 0.0 if s < 2 else -np.inf
            else:
                before = alpha[t - 1]
                total = _log_sum(before[s], before[s - 1] if s > 0 else -np.inf,
                                 before[s - 2] if skip[s] else -np.inf)
            alpha[t, s] = total + logs[t, classes[s]]


@inlined
def _backward_posteriors(logs, classes, skip, size, alpha, beta, likelihood, gradient):
    """Subtract the posterior of each class from gradient (steps, C); beta (2, S) is workspace."""
    for t in range(len(alpha) - 1, -1, -1):
        now, after = beta[t % 2], beta[(t + 1) % 2]
        for s in range(size):
            if t == len(alpha) - 1:
                now[s] = 0.0 if s >= size - 2 else -np.inf
            else:
                stay = after[s] + logs[t + 1, classes[s]]
                step = after[s + 1] + logs[t + 1, classes[s + 1]] if s + 1 < size else -np.inf
                leap = -np.inf
                if s + 2 < size and skip[s + 2]:
                    leap = after[s + 2] + logs[t + 1, classes[s + 2]]
                now[s] = _log_sum(stay, step, leap)
            gradient[t, classes[s]] -= np.exp(alpha[t, s] + now[s] - likelihood)


@kernel(parallel=True)
def _ctc(logs, classes, skip, count, steps, alpha, beta, loss, gradient):
    """loss (N,) and, unless empty, gradient (T, N, C) from logs (T, N, C); see `Labels`.

    alpha (N, T, S) and beta (N, 2, S) are workspace.
    """
    batch = len(loss)
    for sample in prange(batch):
        n = np.int64(sample)
        size, last = 2 * count[n] + 1, steps[n]
        rows, own = logs[:last, n], alpha[n, :last]
        likelihood = -np.inf
        if last > 0:
            _forward_sums(rows, classes[n], skip[n], size, own)
            # a path ends in the last label or in the blank after it
            label = own[last - 1, size - 2] if count[n] > 0 else -np.inf
            likelihood = _log_sum(own[last - 1, size - 1], label, -np.inf)
        possible = likelihood > -np.inf
        loss[n] = -likelihood if possible else 0.0
        if gradient.size > 0:
            for t in range(len(gradient)):
                inside = possible and t < last
                for c in range(gradient.shape[2]):
                    gradient[t, n, c] = np.exp(logs[t, n, c]) if inside else 0
            if possible:
                _backward_posteriors(rows, classes[n], skip[n], size, own, beta[n], likelihood,
                         gradient[:last, n])


def _shifted(row: np.ndarray, by: int) -> np.ndarray:
    """Shift right by `by` states (left where negative), with -inf at the border."""
    out = np.full_like(row, -np.inf)
    if by > 0:
        out[:, by:] = row[:, :-by]
    else:
        out[:, :by] = row[:, -by:]
    return out


def _eager_ctc(logs: np.ndarray, labels: Labels, loss: np.ndarray, gradient: np.ndarray | None
               ) -> None:
    """`_ctc` in NumPy; gradient may be None."""
    classes, skip, count, steps = labels
    time, batch, _ = logs.shape
    rows, order = np.arange(batch), np.arange(classes.shape[1])
    at = np.take_along_axis(logs.astype(np.float64),
                            np.broadcast_to(classes, (time, *classes.shape)), axis=2)
    no_leap = np.where(skip, 0.0, -np.inf)
    alpha = np.where(order < 2, at, -np.inf)
    for t in range(1, time):
        before = alpha[t - 1]
        ways = np.logaddexp(before, _shifted(before, 1)) if len(order) > 1 else before
        alpha[t] = at[t] + (np.logaddexp(ways, _shifted(before, 2) + no_leap)
                            if len(order) > 2 else ways)
    ends = (order <= 2 * count[:, None]) & (order >= 2 * count[:, None] - 1)
    final = np.where(ends, alpha[steps - 1, rows], -np.inf)
    likelihood = np.where(steps > 0, np.logaddexp.reduce(final, axis=1), -np.inf)
    possible = likelihood > -np.inf
    loss[:] = np.where(possible, -likelihood, 0)
    if gradient is None:
        return
    beta = np.full_like(alpha, -np.inf)
    for t in range(time - 1, -1, -1):
        if t < time - 1:
            after = beta[t + 1] + at[t + 1]
            ways = np.logaddexp(after, _shifted(after, -1))
            beta[t] = np.logaddexp(ways, _shifted(after + no_leap, -2))
        beta[t][steps == t + 1] = np.where(ends, 0.0, -np.inf)[steps == t + 1]
    share = np.exp(alpha + beta - np.where(possible, likelihood, np.inf)[:, None])
    np.exp(logs, out=gradient)
    np.subtract.at(gradient, (np.arange(time)[:, None, None], rows[:, None], classes), share)
    gradient[~(possible & (np.arange(time)[:, None] < steps))] = 0


@dataclass(frozen=True)
class CTCLoss(FloatOp, name="CTCLoss",
              aliases=("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss")):
    """- log of the probability of a label sequence under softmax(data) (T, N, C); loss (N,).

    label (N, L), L <= T.  With blank_label 'first' class 0 is the blank and labels end at a 0; with
    'last' it is class C - 1 and they end at a -1.  data_lengths and label_lengths (N,) are read
    with `use_data_lengths` and `use_label_lengths`.  Where no path exists, since there are too many
    labels for the steps, loss and gradient are 0.  (Graves et al. 2006.)
    """

    use_data_lengths: bool = False
    use_label_lengths: bool = False
    blank_label: Literal["first", "last"] = "first"

    inputs: ClassVar = ("data", "label", "data_lengths", "label_lengths")
    outputs: ClassVar = ("output0", "slope")
    needs: ClassVar = ("ograd", "slope")
    num_visible: ClassVar = 1

    def list_inputs(self):
        used = (True, True, self.use_data_lengths, self.use_label_lengths)
        return tuple(name for name, use in zip(self.inputs, used, strict=True) if use)

    def infer_shape(self, ins, outs):
        data, label, *lengths = ins
        data = unify(data, outs[1], "data and its gradient")
        if data is None:
            return ins, outs
        if len(data) != 3:
            raise ShapeMismatch(f"data has shape {data}, expected (T, N, C)")
        label = unify(label, (data[1], 0), "label and (N, L)")
        assert label is not None
        data = (data[0], label[0], data[2])
        if data[0] and label[1] > data[0]:
            raise ShapeMismatch(f"label has shape {label}, expected at most as many labels as the "
                                f"{data[0]} steps of data {data}")
        batch = (data[1],)
        return ([data, label, *(unify(shape, batch, "lengths and batch") for shape in lengths)],
                [batch, data])

    def infer_type(self, ins, outs):
        kinds, outs = super().infer_type(ins[:1], outs)
        return [*kinds, *(other or kinds[0] for other in ins[1:])], outs

    def scratch(self, ins, outs):
        (time, batch, _), size = ins[0].shape, 2 * ins[1].shape[1] + 1
        double = np.dtype(np.float64)
        return [Spec((time, batch, ins[0].shape[2]), ins[0].dtype),
                Spec((batch, time, size), double), Spec((batch, 2, size), double)]

    def labels(self, ins: Sequence[np.ndarray]) -> Labels:
        """Labels and lengths as integers; MXNetError for a label that is not a class."""
        data, label, *lengths = ins
        (time, batch, classes), most = data.shape, label.shape[1]
        end = 0 if self.blank_label == "first" else -1
        steps = _clipped(lengths.pop(0), time) if self.use_data_lengths else np.full(batch, time)
        if self.use_label_lengths:
            count = _clipped(lengths.pop(0), most)
        else:
            count = np.where(label == end, np.arange(most), most).min(axis=1, initial=most)
        whole = label.astype(np.int64)
        wrong = (np.arange(most) < count[:, None]) & ((whole < 0) | (whole >= classes))
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            raise MXNetError(f"CTCLoss: label[{row}, {place}] is {label[row, place]}, expected a "
                             f"class from 0 to {classes - 1}; with blank_label="
                             f"{self.blank_label!r} labels end at {end}")
        return Labels.of(whole, 0 if end == 0 else classes - 1, count, steps)

    def forward(self, ins, outs, call):
        logs = np.empty_like(ins[0])
        AxisView.along(logs.shape, -1).eager_softmax(ins[0], logs, log=True)
        with np.errstate(all="ignore"):
            _eager_ctc(logs, self.labels(ins), *outs)

    def prepare(self, ins, outs, call) -> Run:
        if ins[0].size < COMPILED_FROM:
            return lambda: self.forward(ins, outs, call)
        logs, alpha, beta = call.scratch[:3]
        softmax = AxisView.along(logs.shape, -1).softmax(ins[0], logs, (), log=True)
        loss, gradient = outs
        gradient = NO_GRADIENT.astype(logs.dtype) if gradient is None else gradient

        def run() -> None:
            softmax()
            _ctc(logs, *self.labels(ins), alpha, beta, loss, gradient)

        return run

    def backward(self, ins, outs, call):
        fill_zero(outs[1:])
        if outs[0] is not None:
            np.multiply(ins[1], ins[0][:, None], out=outs[0])


def _clipped(lengths: np.ndarray, most: int) -> np.ndarray:
    """Lengths as integers, clipped to [0, most]."""
    return np.clip(lengths.astype(np.int64), 0, most)
