"""Losses of SimpleDet: forward gives a prediction or a value to print, backward the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...operator.register_op import register_op
from ...ops.elementwise.float_op import FloatOp, as_float32
from ...ops.jit import kernel, prange
from ...ops.op import Call
from ...ops.rules import fill_zero
from ...ops.shape import PartialShape, ShapeMismatch, unify

__all__ = ["BBoxNorm", "FocalLoss", "SigmoidCrossEntropy", "divisor"]

Shapes = tuple[list[PartialShape], list[PartialShape]]


def divisor(normalization: str, label: Any) -> int:
    """By what a gradient is divided; labels (N, ...) from 1 up are objects."""
    if normalization == "valid":
        return int(np.count_nonzero(label >= 1)) + 1
    return len(label) if normalization == "batch" else 1


@kernel(parallel=True)
def _sigmoid(x, y):
    one = x.dtype.type(1)
    for i in prange(x.size):
        y[i] = one / (one + np.exp(-x[i]))


@kernel(parallel=True)
def _focal_gradient(y, label, gx, alpha, gamma, scale):
    """gx (R, K) from probabilities y (R, K) and labels (R,): -1 ignored, 0 background."""
    one, tiny = y.dtype.type(1), y.dtype.type(1e-14)
    for r in prange(len(y)):
        for k in range(y.shape[1]):
            p, q = y[r, k], one - y[r, k]
            if label[r] == -1:
                gx[r, k] = 0
            elif int(label[r]) == k + 1:
                gx[r, k] = scale * alpha * q ** gamma * (gamma * p * np.log(p + tiny) - q)
            else:
                gx[r, k] = scale * (alpha - one) * p ** gamma * (gamma * q * np.log(q + tiny) - p)


@register_op("_contrib_FocalLoss", aliases=("FocalLoss",))
@dataclass(frozen=True)
class FocalLoss(FloatOp):
    """sigmoid(data), with the gradient of the focal loss (Lin et al. 2017) against label.

    data (N, A, K): scores of K classes for A anchors; label (N, A): 0 for the background, k for
    class k - 1 of data, -1 for an anchor that is ignored.  Of the class of the label the loss is
    -alpha (1 - p)^gamma log(p), of the others -(1 - alpha) p^gamma log(1 - p).  Its gradient is
    multiplied by `grad_scale` and divided by 1 ("null"), by N ("batch"), or by one more than the
    number of anchors of objects ("valid"); with `out_grad` it is also multiplied by the gradient of
    the output.  `workspace` changes nothing.
    """

    alpha: float = 0.25
    gamma: float = 2.0
    grad_scale: float = 1.0
    normalization: Literal["null", "batch", "valid"] = "null"
    out_grad: bool = False
    workspace: int = 256

    inputs: ClassVar = ("data", "label")
    gpu_module: ClassVar = "nbmod.contrib.simpledet.cuda.losses"

    def list_needs(self) -> tuple[str, ...]:
        return ("output", "label", "ograd") if self.out_grad else ("output", "label")

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, outs
        if len(data) != 3:
            raise ShapeMismatch(f"data has shape {data}, expected (N, A, K)")
        return [data, unify(ins[1], data[:2], "label and (N, A)")], [data]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        _sigmoid(ins[0].reshape(-1), outs[0].reshape(-1))

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        (y, label, *ograd), gx = ins, outs[0]
        fill_zero(outs[1:])
        if gx is None:
            return
        kind, rows = y.dtype.type, (-1, y.shape[2])
        _focal_gradient(y.reshape(rows), label.reshape(-1), gx.reshape(rows),
                        kind(as_float32(self.alpha)), kind(as_float32(self.gamma)),
                        kind(as_float32(self.grad_scale)
                             / divisor(self.normalization, label)))
        if ograd:
            gx *= ograd[0]


@kernel(parallel=True)
def _cross_entropy(x, label, y, rest):
    """y[n] = mean over the row of x of log(1 + exp(-x)) + (1 - label) x where label is not -1."""
    for n in prange(len(x)):
        total, count = y.dtype.type(0), y.dtype.type(0)
        for i in range(x.shape[1]):
            if label[n, i] != -1:
                total += (max(x[n, i], y.dtype.type(0)) - x[n, i] * label[n, i]
                          + np.log1p(np.exp(-abs(x[n, i]))))
                count += y.dtype.type(1)
        y[n] = total / (count + rest)


@kernel(parallel=True)
def _cross_entropy_gradient(x, label, gx, scale, rest, is_mean):
    one = x.dtype.type(1)
    for n in prange(len(x)):
        count = rest
        for i in range(x.shape[1]):
            if label[n, i] != -1:
                count += one
        factor = scale / count if is_mean else scale
        for i in range(x.shape[1]):
            if label[n, i] == -1:
                gx[n, i] = 0
            else:
                gx[n, i] = factor * (one / (one + np.exp(-x[n, i])) - label[n, i])


@register_op("_contrib_SigmoidCrossEntropy", aliases=("SigmoidCrossEntropy",))
@dataclass(frozen=True)
class SigmoidCrossEntropy(FloatOp):
    """The mean binary cross entropy of each sample: data and label (N, ...) give (N,).

    Labels are probabilities of the logits in data, or -1 where they are ignored; the mean is over
    the others (plus 1e-5).  The gradient is `grad_scale` times that of the mean, or with
    normalization "null" of the sum; it does not depend on the gradient of the output.
    """

    grad_scale: float = 1.0
    normalization: Literal["null", "valid"] = "valid"

    inputs: ClassVar = ("data", "label")
    gpu_module: ClassVar = "nbmod.contrib.simpledet.cuda.losses"
    needs: ClassVar = ("data", "label")

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        data = unify(ins[0], ins[1], "data and label")
        if data is not None and len(data) < 2:
            raise ShapeMismatch(f"data has shape {data}, expected at least (N, K)")
        return [data, data], [unify(data and data[:1], outs[0], "output and (N,)")]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        x, label = (array.reshape(len(array), -1) for array in ins)
        _cross_entropy(x, label, outs[0], x.dtype.type(1e-5))

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        fill_zero(outs[1:])
        if outs[0] is not None:
            x, label, gx = (array.reshape(len(array), -1) for array in (*ins, outs[0]))
            _cross_entropy_gradient(x, label, gx, x.dtype.type(as_float32(self.grad_scale)),
                                    x.dtype.type(1e-5), self.normalization == "valid")


@register_op("_contrib_BBoxNorm", aliases=("BBoxNorm",))
@dataclass(frozen=True)
class BBoxNorm(FloatOp):
    """data itself; its gradient is divided by one more than the number of labels from 1 up.

    data (N, 4 A, P): a loss of the boxes of A anchors at P positions; label (N, A P).  With
    normalization "batch" the gradient is divided by N, with "null" it is not divided.
    """

    normalization: Literal["null", "batch", "valid"] = "valid"

    inputs: ClassVar = ("data", "label")
    gpu_module: ClassVar = "nbmod.contrib.simpledet.cuda.losses"
    needs: ClassVar = ("ograd", "label")
    inplace: ClassVar = (("data", "output"),)

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, outs
        if len(data) != 3 or data[1] % 4:
            raise ShapeMismatch(f"data has shape {data}, expected (N, 4 A, P)")
        label = unify(ins[1], (data[0], data[1] // 4 * data[2]), "label and (N, A P)")
        return [data, label], [data]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        np.copyto(outs[0], ins[0])

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        ograd, label = ins
        fill_zero(outs[1:])
        if outs[0] is not None:
            factor = ograd.dtype.type(1 / divisor(self.normalization, label))
            np.multiply(ograd, factor, out=outs[0])
