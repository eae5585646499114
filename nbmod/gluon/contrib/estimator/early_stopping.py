"""`EarlyStoppingHandler`, and how a metric tells that a network is better than before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ....base import ArgumentError, warn_user
from ....metric import CompositeEvalMetric, EvalMetric
from .events import EpochEnd, TrainBegin, TrainEnd

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["EarlyStoppingHandler"]
__dir__ = __all__.copy

_GREATER = ("acc", "f1", "mcc", "pcc", "pearson")
"""Parts of names of metrics of which a greater value is better."""


def check_monitor(monitor: object, handler: str, please: str = "Please") -> EvalMetric:
    """Return the metric; raise ValueError if it is none, or has several values."""
    if not isinstance(monitor, EvalMetric):
        raise ArgumentError(f"{please} provide one of the metric objects from "
                            "estimator.train_metrics and estimator.val_metrics as monitor of "
                            f"{handler}; it is {monitor!r}")
    if isinstance(monitor, CompositeEvalMetric):
        raise ArgumentError(f"CompositeEvalMetric is not supported for {handler}, please specify a "
                            "simple metric instead.")
    return monitor


def comparison(monitor: EvalMetric, mode: str, handler: str) -> np.ufunc:
    """Return `np.less` or `np.greater`, by which a better value compares with one before."""
    if mode not in ("auto", "min", "max"):
        warn_user(f"{handler} mode {mode} is unknown, fallback to auto mode: max for accuracies, "
                  "F1 and correlations, min otherwise", RuntimeWarning)
    elif mode != "auto":
        return np.less if mode == "min" else np.greater
    name = str(monitor.get()[0])
    is_greater = any(part in name.lower() for part in _GREATER)
    used, other = ("greater", "less") if is_greater else ("less", "greater")
    warn_user(f"`{used}` operator will be used to determine if {name} has improved. Please specify "
              f"`mode='{'min' if is_greater else 'max'}'` to use the `{other}` operator. Specify "
              f"`mode='{'max' if is_greater else 'min'}'` to disable this warning.")
    return np.greater if is_greater else np.less


def worst(operator: np.ufunc) -> float:
    """Return the value that every other one is better than."""
    return math.inf if operator is np.less else -math.inf


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends training when a metric has not improved for some epochs.

    Parameters
    ----------
    monitor : EvalMetric
        Metric, one of those of the estimator.
    min_delta : float, default 0
        Difference to the best value that counts as an improvement if it is exceeded.
    patience : int, default 0
        Number of epochs without improvement that end training; with 0 it is the first, too.
    mode : {'auto', 'min', 'max'}, default 'auto'
        Whether less or more is better.  By default, and with a warning, more is better for
        accuracies, F1 and correlations, and less for others.
    baseline : float, optional
        Value that the first epoch must improve.

    Raises
    ------
    ValueError
        If `monitor` is no metric, or a composite one.

    Examples
    --------
    >>> handler = mx.gluon.contrib.estimator.EarlyStoppingHandler(
    ...     mx.metric.Loss(), patience=3, mode="min")
    >>> bool(handler.monitor_op(0.5, 0.6))
    True
    """

    def __init__(self, monitor: EvalMetric, min_delta: float = 0, patience: int = 0,
                 mode: str = "auto", baseline: float | None = None):
        self.monitor = check_monitor(monitor, "EarlyStoppingHandler")
        self.baseline, self.patience = baseline, patience
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.monitor_op = comparison(monitor, mode, "EarlyStopping")
        self.min_delta = -min_delta if self.monitor_op is np.less else min_delta

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Forget former trainings."""
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.best = worst(self.monitor_op) if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Compare the metric with its best value."""
        name, value = self.monitor.get()
        if math.isnan(value):
            warn_user(f"{name} is not updated, make sure you pass one of the metric objects from "
                      "estimator.train_metrics and estimator.val_metrics as monitor.",
                      RuntimeWarning)
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best, self.wait = value, 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch, self.stop_training = self.current_epoch, True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the epoch that ended training."""
        if self.stop_training:    # the word is spelled as programs that read MXNet's logs know it
            estimator.logger.info("[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not "
                                  "improving", self.stopped_epoch, self.monitor.get()[0])
