"""Metrics of predicted probabilities, and means of loss outputs."""

from __future__ import annotations

import math

import numpy

from ..base import CheckError, checks_numbers
from ..ops.shape import normalize_axis
from .eval_metric import Arrays, EvalMetric, Names, alias, as_numpy, pairs_of, register

__all__ = ["CrossEntropy", "NegativeLogLikelihood", "Perplexity", "Loss", "Torch", "Caffe"]


class _LogLikelihood(EvalMetric):
    """Mean of -log(p(label) + eps); predictions are (N, classes, ...) probabilities."""

    def __init__(self, eps: float, name: str, output_names: Names, label_names: Names):
        super().__init__(name, output_names, label_names, eps=eps, has_global_stats=True)
        self.eps = eps

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs_of(labels, preds):
            label = label.ravel().astype(numpy.int64)
            if pred.ndim < 2 or pred.shape[0] != label.size:
                raise CheckError(f"{self.name}: {label.size} labels for predictions of shape "
                                 f"{pred.shape}, expected ({label.size}, classes)")
            chosen = pred[numpy.arange(label.size), label]
            self._add(float((-numpy.log(chosen + self.eps)).sum()), label.size)


@alias("ce")
@register
class CrossEntropy(_LogLikelihood):
    """Cross-entropy of predicted probabilities.

    Parameters
    ----------
    eps : float, default 1e-12
        Added to probabilities, so that the logarithm is finite.

    Raises
    ------
    ArgumentError
        From `update` if predictions are not of shape (number of labels, classes).

    Notes
    -----
    The mean of -log(p[label] + eps) over all labels.  Predictions have shape (N, classes); labels
    have N elements.

    Examples
    --------
    >>> metric = mx.metric.CrossEntropy()
    >>> metric.update([mx.nd.array([0, 1])], [mx.nd.array([[0.5, 0.5], [0.75, 0.25]])])
    >>> name, value = metric.get()
    >>> name, round(value, 4)
    ('cross-entropy', 1.0397)
    """

    @checks_numbers
    def __init__(self, eps: float = 1e-12, name: str = "cross-entropy", output_names: Names = None,
                 label_names: Names = None):
        super().__init__(eps, name, output_names, label_names)


@alias("nll_loss")
@register
class NegativeLogLikelihood(_LogLikelihood):
    """Negative log-likelihood of predicted probabilities: `CrossEntropy` under another name.

    Parameters
    ----------
    eps : float, default 1e-12
        Added to probabilities, so that the logarithm is finite.

    Examples
    --------
    >>> metric = mx.metric.NegativeLogLikelihood()
    >>> metric.update([mx.nd.array([0])], [mx.nd.array([[0.5, 0.5]])])
    >>> name, value = metric.get()
    >>> name, round(value, 4)
    ('nll-loss', 0.6931)
    """

    @checks_numbers
    def __init__(self, eps: float = 1e-12, name: str = "nll-loss", output_names: Names = None,
                 label_names: Names = None):
        super().__init__(eps, name, output_names, label_names)


@register
class Perplexity(EvalMetric):
    """Perplexity of predicted probabilities, as of language models.

    Parameters
    ----------
    ignore_label : int or None
        Elements with this label are not counted; None to count all.
    axis : int, default -1
        The axis of predictions that counts the classes.

    Notes
    -----
    exp of the mean of -log(max(p[label], 1e-10)) over all labels that count.  Labels outside of the
    classes are clipped to them.

    Examples
    --------
    >>> metric = mx.metric.Perplexity(ignore_label=0)
    >>> probabilities = mx.nd.array([[0.1, 0.5, 0.4], [0.2, 0.3, 0.5], [0.9, 0.05, 0.05]])
    >>> metric.update([mx.nd.array([1, 2, 0])], [probabilities])
    >>> name, value = metric.get()
    >>> name, round(value, 4)
    ('perplexity', 2.0)
    """

    @checks_numbers
    def __init__(self, ignore_label: int | None, axis: int = -1, name: str = "perplexity",
                 output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis,
                         has_global_stats=True)
        self.ignore_label, self.axis = ignore_label, axis

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs_of(labels, preds):
            axis = normalize_axis(int(self.axis), pred.ndim, f"{self.name}: axis")
            pred = numpy.moveaxis(pred, axis, -1).reshape(-1, pred.shape[axis])
            label = label.ravel().astype(numpy.int64)
            if label.size != len(pred):
                raise CheckError(f"{self.name}: {label.size} labels for {len(pred)} predictions")
            counted = numpy.full(label.size, True)
            if self.ignore_label is not None:
                counted = label != self.ignore_label
            chosen = pred[numpy.arange(label.size), label.clip(0, pred.shape[1] - 1)][counted]
            self._add(float(-numpy.log(numpy.maximum(1e-10, chosen)).sum()), chosen.size)

    def get(self) -> tuple[str | list[str], float]:
        name, value = super().get()
        return name, math.exp(value)

    def get_global(self) -> tuple[str | list[str], float]:
        name, value = super().get_global()
        return name, math.exp(value)


@register
class Loss(EvalMetric):
    """The mean of all elements of the outputs; labels are ignored.

    Examples
    --------
    >>> metric = mx.metric.Loss()
    >>> metric.update(None, [mx.nd.array([1, 2]), mx.nd.array([6])])
    >>> metric.get()
    ('loss', 3.0)
    """

    def __init__(self, name: str = "loss", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for pred in preds if isinstance(preds, (list, tuple)) else [preds]:
            values = as_numpy(pred)
            self._add(float(values.sum()), values.size)


@register
class Torch(Loss):
    """`Loss` under the name that MXNet has for Torch criterions."""

    def __init__(self, name: str = "torch", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """`Loss` under the name that MXNet has for Caffe criterions."""

    def __init__(self, name: str = "caffe", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)
