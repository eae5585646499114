"""`LoggingHandler`: lines about training in the log of the estimator."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from ....base import ArgumentError
from ....metric import EvalMetric
from .events import BatchBegin, BatchEnd, EpochBegin, EpochEnd, TrainBegin, TrainEnd
from .utils import _check_metrics

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["LoggingHandler"]
__dir__ = __all__.copy


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
        is_number = isinstance(log_interval, int)
        if log_interval != "epoch" and not (is_number and int(log_interval) > 0):
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
