"""Handlers of events; also MXNet's module path of the events, and of `CheckpointHandler`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....base import ArgumentError, plain_numbers, warn_user
from ....metric import EvalMetric
from ....metric import Loss as LossMetric
from . import events
from .checkpoint_handler import CheckpointHandler
from .events import *  # noqa: F403
from .events import BatchBegin, BatchEnd, EpochBegin, EpochEnd, EventHandler, TrainBegin, TrainEnd
from .events import _check_event_handlers as _check_event_handlers
from .utils import _check_metrics, check_monitor, comparison, worst

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["CheckpointHandler", "EarlyStoppingHandler", "GradientUpdateHandler", "LoggingHandler",
           "MetricHandler", "StoppingHandler", "ValidationHandler"]
__all__ += events.__all__    # type checkers understand this form alone
__dir__ = __all__.copy


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends training after a number of epochs or batches, those of `fit`.

    Parameters
    ----------
    max_epoch, max_batch : int, optional
        Numbers of epochs and batches; training begins with those of the estimator.

    Examples
    --------
    >>> handler = mx.gluon.contrib.estimator.StoppingHandler(max_batch=1)
    >>> handler.batch_end(None)
    True
    """

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None):
        self.max_epoch, self.max_batch = max_epoch, max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Take the numbers of the estimator, and begin to count."""
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Count a batch."""
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
        """Count an epoch."""
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Updates metrics after every batch: those of losses by losses, others by predictions.

    Parameters
    ----------
    metrics : EvalMetric or list of EvalMetric
        Metrics, which every epoch resets.
    priority : float, default -1000
        Place among the handlers: before those that read metrics.

    Raises
    ------
    ValueError
        If there is anything but metrics.

    Examples
    --------
    >>> accuracy = mx.metric.Accuracy()
    >>> handler = mx.gluon.contrib.estimator.MetricHandler(accuracy)
    >>> handler.batch_end(None, pred=[mx.nd.array([[0, 1]])], label=[mx.nd.array([1])], loss=[])
    >>> accuracy.get()
    ('accuracy', 1.0)
    """

    def __init__(self, metrics: EvalMetric | list[EvalMetric] | None, priority: float = -1000):
        self.metrics = _check_metrics(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Reset the metrics."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Update the metrics."""
        for metric in self.metrics:
            if isinstance(metric, LossMetric):
                metric.update([], kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluates the network from time to time.

    Parameters
    ----------
    val_data : DataLoader
        Data and labels.
    eval_fn : callable
        `Estimator.evaluate`, or a function with arguments `val_data`, `batch_axis` and
        `event_handlers`.
    epoch_period, batch_period : int, optional
        Numbers of epochs and batches from one evaluation to the next; by default 1 epoch.
    priority : float, default -1000
        Place among the handlers: before those that read metrics.
    event_handlers : EventHandler or list of EventHandler, optional
        Handlers for the evaluations.

    Examples
    --------
    >>> handler = mx.gluon.contrib.estimator.ValidationHandler(
    ...     [], lambda **options: print("evaluating"), epoch_period=None, batch_period=2)
    >>> class Net:
    ...     batch_axis = 0
    >>> handler.batch_end(Net), handler.batch_end(Net)
    evaluating
    (None, None)
    """

    def __init__(self, val_data: Any, eval_fn: Callable[..., Any], epoch_period: int | None = 1,
                 batch_period: int | None = None, priority: float = -1000,
                 event_handlers: EventHandler | list[EventHandler] | None = None):
        self.val_data, self.eval_fn = val_data, eval_fn
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_batch = self.current_epoch = 0
        self.priority = priority
        self.event_handlers = event_handlers

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Begin to count."""
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Count a batch, and evaluate after `batch_period` of them."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._evaluate(estimator)

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Count an epoch, and evaluate after `epoch_period` of them."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._evaluate(estimator)

    def _evaluate(self, estimator: Estimator) -> None:
        self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis,
                     event_handlers=self.event_handlers)


class GradientUpdateHandler(BatchEnd):
    """Steps the parameters after every batch, by the mean of its losses.

    Parameters
    ----------
    priority : float, default -2000
        Place among the handlers: before all others of nbmod.

    Examples
    --------
    >>> mx.gluon.contrib.estimator.GradientUpdateHandler().priority
    -2000
    """

    def __init__(self, priority: float = -2000):
        self.priority = priority

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Step the trainer by a batch as large as the losses of all contexts together."""
        loss = kwargs["loss"]
        losses = loss if isinstance(loss, list) else [loss]
        estimator.trainer.step(sum(each.shape[0] for each in losses))


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


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs the optimizer, epochs with their times, and metrics.

    Parameters
    ----------
    log_interval : int or 'epoch', default 'epoch'
        Number of batches from one line to the next; by default there is a line for each epoch.
    metrics : EvalMetric or list of EvalMetric, optional
        Metrics of the lines.
    priority : float, default infinity
        Place among the handlers: after all others.

    Raises
    ------
    ValueError
        If `log_interval` is neither a positive integer nor 'epoch', or if there is anything but
        metrics.

    Examples
    --------
    >>> mx.gluon.contrib.estimator.LoggingHandler(log_interval=10).log_interval
    10
    """

    def __init__(self, log_interval: int | str = "epoch",
                 metrics: EvalMetric | list[EvalMetric] | None = None, priority: float = math.inf):
        log_interval = plain_numbers(log_interval)
        if log_interval != "epoch" and not (isinstance(log_interval, int) and log_interval > 0):
            raise ArgumentError("log_interval must be either an integer or string 'epoch', and "
                                f"at least 1; it is {log_interval!r}")
        self.metrics = _check_metrics(metrics)
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.priority = priority
        self.log_interval = log_interval
        self.log_interval_time = 0.0

    def _figures(self) -> str:
        """Names and values of the metrics."""
        return ", ".join(f"{name}: {value:.4f}" for metric in self.metrics
                         for name, value in metric.get_name_value())

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the optimizer and how long it trains."""
        self.train_start = time.time()
        trainer, log = estimator.trainer, estimator.logger.info
        log("Training begin: using optimizer %s with current learning rate %.4f ",
            type(trainer.optimizer).__name__, trainer.learning_rate)
        if estimator.max_epoch:
            log("Train for %d epochs.", estimator.max_epoch)
        else:
            log("Train for %d batches.", estimator.max_batch)
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the time of training and the metrics."""
        self._log(estimator, f"Train finished using total {int(time.time() - self.train_start)}s "
                             f"with {self.current_epoch} epochs. ")

    def _log(self, estimator: Estimator, begin: str) -> None:
        """Log a line of the metrics."""
        estimator.logger.info("%s", (begin + self._figures()).rstrip(", "))

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Begin to measure time."""
        if isinstance(self.log_interval, int):
            self.batch_start = time.time()

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log number, samples and time every `log_interval` batches, from the first on."""
        if isinstance(self.log_interval, int):
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.time() - self.batch_start
            if self.batch_index % self.log_interval == 0:
                self._log(estimator, f"[Epoch {self.current_epoch}][Batch {self.batch_index}]"
                          f"[Samples {self.processed_samples}] "
                          f"time/interval: {self.log_interval_time:.3f}s ")
                self.log_interval_time = 0.0
        self.batch_index += 1

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the learning rate, or that validation begins if no metric is one of training."""
        self.epoch_start = time.time()
        if any("training" in str(metric.name) for metric in self.metrics):
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f",
                                  self.current_epoch, estimator.trainer.learning_rate)
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Log the time of the epoch and the metrics."""
        self._log(estimator, f"[Epoch {self.current_epoch}] Finished in "
                             f"{time.time() - self.epoch_start:.3f}s, ")
        self.current_epoch += 1
        self.batch_index = 0
