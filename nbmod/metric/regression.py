"""Metrics of regression: errors and correlation.

The errors are means over batches of each batch's mean, as in MXNet: a smaller last batch has the
same weight as the others.
"""

from __future__ import annotations

import math

import numpy

from ..base import ArgumentError
from .eval_metric import Arrays, EvalMetric, Names, alias, pairs_of, register

__all__ = ["MAE", "MSE", "RMSE", "PearsonCorrelation"]


class _Error(EvalMetric):
    """Mean over batches of `_error(label - prediction)`; vectors count as one column."""

    def __init__(self, name: str, output_names: Names, label_names: Names):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _error(self, difference: numpy.ndarray) -> float:
        raise NotImplementedError

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs_of(labels, preds):
            label = label.reshape(-1, 1) if label.ndim == 1 else label
            pred = pred.reshape(-1, 1) if pred.ndim == 1 else pred
            self._add(float(self._error(label - pred)), 1)


@register
class MAE(_Error):
    """Mean absolute error.

    Notes
    -----
    The mean over batches of mean(|label - pred|).  Vectors are treated as matrices of one column.

    Examples
    --------
    >>> metric = mx.metric.MAE()
    >>> metric.update([mx.nd.array([1, 2])], [mx.nd.array([1, 5])])
    >>> metric.get()
    ('mae', 1.5)
    """

    def __init__(self, name: str = "mae", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _error(self, difference: numpy.ndarray) -> float:
        return numpy.abs(difference).mean()


@register
class MSE(_Error):
    """Mean squared error.

    Notes
    -----
    The mean over batches of mean((label - pred)^2).  Vectors are treated as matrices of one column.

    Examples
    --------
    >>> metric = mx.metric.MSE()
    >>> metric.update([mx.nd.array([1, 2])], [mx.nd.array([1, 5])])
    >>> metric.get()
    ('mse', 4.5)
    """

    def __init__(self, name: str = "mse", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _error(self, difference: numpy.ndarray) -> float:
        return (difference ** 2).mean()


@register
class RMSE(_Error):
    """Root of the mean squared error, of each batch.

    Notes
    -----
    The mean over batches of sqrt(mean((label - pred)^2)), which is not the root of the mean over
    all elements.  Vectors are treated as matrices of one column.

    Examples
    --------
    >>> metric = mx.metric.RMSE()
    >>> metric.update([mx.nd.array([1, 2])], [mx.nd.array([4, 5])])
    >>> metric.get()
    ('rmse', 3.0)
    """

    def __init__(self, name: str = "rmse", output_names: Names = None, label_names: Names = None):
        super().__init__(name, output_names, label_names)

    def _error(self, difference: numpy.ndarray) -> float:
        return math.sqrt((difference ** 2).mean())


class _Moments:
    """Count, means, variances and covariance of two series, merged batch by batch (Chan 1979)."""

    def __init__(self) -> None:
        self.count = 0
        self.means = numpy.zeros(2)
        self.products = numpy.zeros((2, 2))

    def add(self, label: numpy.ndarray, pred: numpy.ndarray) -> None:
        both = numpy.stack([label.ravel(), pred.ravel()]).astype(numpy.float64)
        count, means = both.shape[1], both.mean(1)
        centred = both - means[:, None]
        shift, total = means - self.means, self.count + count
        between = numpy.outer(shift, shift) * self.count * count / total
        self.products += centred @ centred.T + between
        self.means += shift * count / total
        self.count = total

    @property
    def correlation(self) -> float:
        spread = math.sqrt(self.products[0, 0] * self.products[1, 1])
        return float(self.products[0, 1] / spread) if spread else math.nan


@alias("pearsonr")
@register
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation coefficient of labels and predictions.

    Parameters
    ----------
    average : {'macro', 'micro'}, default 'macro'
        'macro': the mean of the coefficients of all batches.  'micro': the coefficient of all
        elements together.

    Raises
    ------
    ArgumentError
        From `update` if labels and predictions differ in shape.

    Notes
    -----
    cov(label, pred) / (std(label) std(pred)), NaN if either is constant.  The global value of
    'micro' is that of all batches since `reset` (in MXNet it is 0).

    Examples
    --------
    >>> metric = mx.metric.PearsonCorrelation()
    >>> metric.update([mx.nd.array([1, 2, 3])], [mx.nd.array([2, 4, 6])])
    >>> name, value = metric.get()
    >>> name, round(value, 4)
    ('pearsonr', 1.0)
    """

    def __init__(self, name: str = "pearsonr", output_names: Names = None,
                 label_names: Names = None, average: str = "macro"):
        if average not in ("macro", "micro"):
            raise ArgumentError(f"{name}: average is {average!r}, expected 'macro' or 'micro'")
        self.average = average
        super().__init__(name, output_names, label_names, average=average, has_global_stats=True)

    def reset(self) -> None:
        super().reset()
        self.reset_micro()

    def reset_micro(self) -> None:
        """Clear the moments that 'micro' is computed from."""
        self._moments = _Moments()

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs_of(labels, preds):
            if label.shape != pred.shape:
                raise ArgumentError(f"{self.name}: labels have shape {label.shape}, predictions "
                                    f"{pred.shape}; expected the same")
            if self.average == "micro":
                self._moments.add(label, pred)
                self.num_inst = self.global_num_inst = 1
                self.sum_metric = self.global_sum_metric = self._moments.correlation
            else:
                batch = _Moments()
                batch.add(label, pred)
                self._add(batch.correlation, 1)
