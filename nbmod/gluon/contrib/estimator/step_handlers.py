"""Handlers that `fit` adds: they step parameters, update metrics, validate and end training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....metric import EvalMetric
from ....metric import Loss as LossMetric
from .events import BatchEnd, EpochBegin, EpochEnd, EventHandler, TrainBegin
from .utils import _check_metrics

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["GradientUpdateHandler", "MetricHandler", "StoppingHandler", "ValidationHandler"]
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
