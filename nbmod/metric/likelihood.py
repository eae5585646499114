"""Metrics of predicted probabilities, and plain means of loss outputs."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..base import ArgumentError
from .base import EvalMetric, alias, as_numpy, pairs_of, register

__all__ = ["CrossEntropy", "NegativeLogLikelihood", "Perplexity", "Loss", "Torch", "Caffe"]


class _LogLikelihood(EvalMetric):
    """Mean of -log(p(label) + eps); predictions are (N, classes, ...) probabilities."""

    def __init__(self, eps: float, name: str, output_names: Any, label_names: Any):
        super().__init__(name, output_names, label_names, eps=eps, has_global_stats=True)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs_of(labels, preds):
            label = label.ravel().astype(numpy.int64)
            if pred.ndim < 2 or pred.shape[0] != label.size:
                raise ArgumentError(f"{self.name}: {label.size} labels for predictions of shape "
                                    f"{pred.shape}, expected ({label.size}, classes)")
            chosen = pred[numpy.arange(label.size), label]
            self._add(float((-numpy.log(chosen + self.eps)).sum()), label.size)


@alias("ce")
@register
class CrossEntropy(_LogLikelihood):
    """Cross-entropy of (N, classes) probabilities against N labels."""

    def __init__(self, eps: float = 1e-12, name: str = "cross-entropy", output_names: Any = None,
                 label_names: Any = None):
        super().__init__(eps, name, output_names, label_names)


@alias("nll_loss")
@register
class NegativeLogLikelihood(_LogLikelihood):
    """Negative log-likelihood; the same figure as CrossEntropy under its other name."""

    def __init__(self, eps: float = 1e-12, name: str = "nll-loss", output_names: Any = None,
                 label_names: Any = None):
        super().__init__(eps, name, output_names, label_names)


@register
class Perplexity(EvalMetric):
    """exp of the mean of -log p(label), for probabilities (..., classes).

    Labels equal to `ignore_label` do not count.  Labels outside the classes are clipped.
    """

    def __init__(self, ignore_label: int | None, axis: int = -1, name: str = "perplexity",
                 output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis,
                         has_global_stats=True)
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        for label, pred in pairs_of(labels, preds):
            pred = numpy.moveaxis(pred, self.axis, -1).reshape(-1, pred.shape[self.axis])
            label = label.ravel().astype(numpy.int64)
            if label.size != len(pred):
                raise ArgumentError(f"{self.name}: {label.size} labels for {len(pred)} predictions")
            counted = numpy.full(label.size, True)
            if self.ignore_label is not None:
                counted = label != self.ignore_label
            chosen = pred[numpy.arange(label.size), label.clip(0, pred.shape[1] - 1)][counted]
            self._add(float(-numpy.log(numpy.maximum(1e-10, chosen)).sum()), chosen.size)

    def get(self) -> tuple[str, float]:
        name, value = super().get()
        return name, math.exp(value)

    def get_global(self) -> tuple[str, float]:
        name, value = super().get_global()
        return name, math.exp(value)


@register
class Loss(EvalMetric):
    """Mean of everything in the outputs; labels are not looked at."""

    def __init__(self, name: str = "loss", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, labels: Any, preds: Any) -> None:
        for pred in preds if isinstance(preds, (list, tuple)) else [preds]:
            values = as_numpy(pred)
            self._add(float(values.sum()), values.size)


@register
class Torch(Loss):
    """`Loss` under the name it has for Torch criterions."""

    def __init__(self, name: str = "torch", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """`Loss` under the name it has for Caffe criterions."""

    def __init__(self, name: str = "caffe", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)
