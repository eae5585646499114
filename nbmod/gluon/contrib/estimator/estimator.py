"""`Estimator`: trains a network with a loss, and calls handlers at the events of training."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Sequence
from typing import Any

from ....base import ArgumentError, CheckError, numeric_types, warn_user
from ....context import Context, cpu, gpu, num_gpus
from ....metric import EvalMetric
from ....metric import Loss as LossMetric
from ...block import Block
from ...data import DataLoader
from ...loss import Loss
from ...trainer import Trainer
from . import events
from .batch_processor import BatchProcessor
from .event_handler import (
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    ValidationHandler,
)
from .events import EventHandler, _check_event_handlers
from .utils import _check_handler_metric_ref, _check_metrics, _suggest_metric_for_loss

__all__ = ["Estimator"]
__dir__ = __all__.copy

Metrics = EvalMetric | list[EvalMetric] | None
Handlers = EventHandler | list[EventHandler] | None


class Estimator:
    """Trains a network with a loss, and evaluates it.

    Parameters
    ----------
    net : Block
        Network; what is not initialized of it is initialized.
    loss : gluon.loss.Loss
        Loss of predictions and labels.
    train_metrics : EvalMetric or list of EvalMetric, optional
        Metrics of training, whose names get "training " before them.  By default the loss, and
        the accuracy for `SoftmaxCrossEntropyLoss`.
    val_metrics : EvalMetric or list of EvalMetric, optional
        Metrics of validation, whose names get "validation " before them.  By default copies of
        `train_metrics`.
    initializer : Initializer, optional
        Values of parameters that are not initialized.
    trainer : Trainer, optional
        Trainer; by default, with a warning, SGD with a learning rate of 0.001.
    context : Context or list of Context, optional
        Devices that share each batch.  By default the first GPU, or the CPU if there is none.
    val_net : Block, optional
        Network for validation, which shares parameters of `net`; by default `net`.
    val_loss : gluon.loss.Loss, optional
        Loss for validation; by default `loss`.
    batch_processor : BatchProcessor, optional
        Object with methods `fit_batch` and `evaluate_batch`.

    Attributes
    ----------
    logger : logging.Logger
        Logger of this estimator alone, which writes to the standard output.
    max_epoch, max_batch, batch_axis
        Arguments of `fit`.

    Raises
    ------
    ValueError
        If an argument is of another type.
    AssertionError
        If there is no such device.

    Examples
    --------
    >>> from nbmod.gluon.contrib.estimator import Estimator
    >>> data = mx.gluon.data.ArrayDataset(mx.nd.array([[0, 1], [1, 0]]), mx.nd.array([1, 0]))
    >>> net = mx.gluon.nn.Dense(2)
    >>> net.initialize(mx.init.One())
    >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    >>> estimator = Estimator(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)
    >>> estimator.logger.setLevel("ERROR")
    >>> estimator.fit(mx.gluon.data.DataLoader(data, batch_size=2), epochs=3)
    >>> estimator.train_metrics[0].get()
    ('training accuracy', 1.0)
    """

    def __init__(self, net: Block, loss: Loss, train_metrics: Metrics = None,
                 val_metrics: Metrics = None, initializer: Any = None,
                 trainer: Trainer | None = None, context: Context | list[Context] | None = None,
                 val_net: Block | None = None, val_loss: Loss | None = None,
                 batch_processor: BatchProcessor | None = None):
        self.net = net
        self.val_net = net if val_net is None else val_net
        self.loss = self._check_loss(loss)
        self.val_loss = self.loss if val_loss is None else self._check_loss(val_loss)
        self._train_metrics = _check_metrics(train_metrics)
        self._val_metrics = _check_metrics(val_metrics)
        self._add_default_training_metrics()
        self._add_validation_metrics()
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = self._check_context(context)
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = self._check_batch_processor(batch_processor)
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    # -- arguments ----------------------------------------------------------------------------

    def _check_loss(self, loss: Any) -> Loss:
        if not isinstance(loss, Loss):
            raise ArgumentError(f"loss must be a Loss, refer to gluon.loss.Loss:{loss}")
        return loss

    def _check_context(self, context: Any) -> list[Context]:
        gpus = [gpu(index) for index in range(num_gpus())]
        if not context:
            if len(gpus) > 1:
                warn_user("You have multiple GPUs, gpu(0) will be used by default. To utilize all "
                          "your GPUs, specify context as a list of gpus, e.g. "
                          "context=[mx.gpu(0), mx.gpu(1)]")
            return gpus[:1] or [cpu()]
        contexts = [context] if isinstance(context, Context) else context
        if not isinstance(contexts, list) or not all(
                isinstance(each, Context) for each in contexts):
            raise ArgumentError("context must be a Context or a list of Context, for example "
                                "mx.cpu() or [mx.gpu(0), mx.gpu(1)], refer to "
                                f"mxnet.Context:{context}")
        for each in contexts:
            if each not in gpus and not str(each).startswith("cpu"):
                raise CheckError(f"{each} is not available, please make sure your context is in "
                                 f"one of: {', '.join(map(str, ['mx.cpu()', *gpus]))}")
        return contexts

    def _check_trainer(self, trainer: Any) -> Trainer:
        if not trainer:
            warn_user("No trainer specified, default SGD optimizer with learning rate 0.001 is "
                      "used.")
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ArgumentError("Trainer must be a Gluon Trainer instance, refer to "
                                f"gluon.Trainer:{trainer}")
        return trainer

    def _check_batch_processor(self, processor: Any) -> BatchProcessor:
        if processor is None:
            return BatchProcessor()
        if not all(callable(getattr(processor, name, None))
                   for name in ("fit_batch", "evaluate_batch")):
            raise ArgumentError("Customized Batch Processor must contain fit_batch() and "
                                f"evaluate_batch() methods, unlike {processor}")
        return processor

    def _initialize(self, initializer: Any) -> None:
        if not self._is_initialized():
            self.net.initialize(initializer or None, ctx=self.context)
        elif initializer:
            warn_user("Network already fully initialized, skipping initialization. You don't need "
                      "to pass initializer if you already initialized your net. You can use "
                      "net.initialize(init=your_initializer, force_reinit=True) to force "
                      "re-initialize.")

    def _is_initialized(self) -> bool:
        try:
            for each in self.net.collect_params().values():
                each.list_ctx()
        except RuntimeError:
            return False
        return True

    # -- metrics ------------------------------------------------------------------------------

    def _add_default_training_metrics(self) -> None:
        if not self._train_metrics:
            suggested = _suggest_metric_for_loss(self.loss)
            self._train_metrics = [] if suggested is None else [suggested]
            self._train_metrics.append(LossMetric(self.loss.name.rstrip("1234567890")))
        for metric in self._train_metrics:
            if not metric.name.startswith("training "):    # as those of another estimator do
                metric.name = f"training {metric.name}"

    def _add_validation_metrics(self) -> None:
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            if "training" in metric.name:
                metric.name = metric.name.replace("training", "validation")
            elif not metric.name.startswith("validation "):
                metric.name = f"validation {metric.name}"

    @property
    def train_metrics(self) -> list[EvalMetric]:
        """Metrics of training."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[EvalMetric]:
        """Metrics of validation."""
        return self._val_metrics

    # -- loops --------------------------------------------------------------------------------

    def evaluate(self, val_data: DataLoader, batch_axis: int = 0, event_handlers: Handlers = None
                 ) -> None:
        """Update the metrics of validation by all batches; results are in `val_metrics`.

        Parameters
        ----------
        val_data : DataLoader
            Data and labels.
        batch_axis : int, default 0
            Axis that contexts share.
        event_handlers : EventHandler or list of EventHandler, optional
            Handlers, whose events of epochs and batches happen.  A `MetricHandler` and a
            `LoggingHandler` are added if there are none.

        Raises
        ------
        ValueError
            If the data is no `DataLoader`, or if a handler has metrics of others.
        """
        _check_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    def fit(self, train_data: DataLoader, val_data: DataLoader | None = None,
            epochs: int | None = None, event_handlers: Handlers = None,
            batches: int | None = None, batch_axis: int = 0) -> None:
        """Train for a number of epochs, or of batches.

        Parameters
        ----------
        train_data : DataLoader
            Data and labels.
        val_data : DataLoader, optional
            Data and labels for an evaluation after each epoch.
        epochs, batches : int, optional
            Number of epochs, or else of batches.
        event_handlers : EventHandler or list of EventHandler, optional
            Handlers.  A `StoppingHandler` is added; and a `GradientUpdateHandler`, a
            `MetricHandler`, a `LoggingHandler` and, with `val_data`, a `ValidationHandler` if there
            are none.
        batch_axis : int, default 0
            Axis that contexts share.

        Raises
        ------
        ValueError
            If the data is no `DataLoader`, if there are no batches, if not exactly one of `epochs`
            and `batches` is a number above 0, or if a handler has metrics of others.
        """
        _check_loader(train_data)
        if bool(epochs) == bool(batches):
            raise ArgumentError("Fit only support exactly one type of iteration, train by number "
                                "of epochs or number of batches. Please specify one and only one "
                                f"of: epochs or batches; epochs={epochs}, batches={batches}.")
        length = epochs or batches
        if not isinstance(length, numeric_types) or length < 1 or length % 1:
            raise ArgumentError(f"fit: {'epochs' if epochs else 'batches'} is {length!r}, a number "
                                "that training never reaches; expected a positive integer")
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        categories = self._categorize_handlers(
            self._prepare_default_handlers(val_data, event_handlers))
        train_begin, epoch_begin, *batch_handlers, epoch_end, train_end = categories
        for handler in train_begin:
            handler.train_begin(self)
        stops = False
        while not stops:
            for handler in epoch_begin:
                handler.epoch_begin(self)
            count = self._fit_epoch(train_data, *batch_handlers)
            stops = any([handler.epoch_end(self) for handler in epoch_end])
            if not (count or stops or epochs):
                raise ArgumentError(f"fit: train_data has no batch, so that {batches} cannot be "
                                    "trained")
        for handler in train_end:
            handler.train_end(self)

    def _fit_epoch(self, data: DataLoader, batch_begin: list[Any], batch_end: list[Any]) -> int:
        """Train until a handler ends the epoch, or to the end of the data; return the number."""
        count = 0
        for batch in data:
            count += 1
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.fit_batch(self, batch, self.batch_axis)
            if any([handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
                    for handler in batch_end]):
                break
        return count

    # -- handlers -----------------------------------------------------------------------------

    def _prepare_default_handlers(self, val_data: DataLoader | None, event_handlers: Handlers
                                  ) -> list[EventHandler]:
        """Return the handlers of `fit` in their order, with those that are missing."""
        defaults = [GradientUpdateHandler(), MetricHandler(self.train_metrics),
                    LoggingHandler(metrics=self.train_metrics)]
        if val_data is not None:
            defaults.append(ValidationHandler(val_data, self.evaluate))
        handlers, missing = _with_missing(event_handlers, defaults)
        missing.append(StoppingHandler(self.max_epoch, self.max_batch))
        return _in_order(handlers, missing, [*self.train_metrics, *self.val_metrics])

    def _prepare_default_validation_handlers(self, event_handlers: Handlers) -> list[EventHandler]:
        """Return the handlers of `evaluate` in their order, with those that are missing."""
        handlers, missing = _with_missing(event_handlers, (
            MetricHandler(self.val_metrics), LoggingHandler(metrics=self.val_metrics)))
        return _in_order(handlers, missing, self.val_metrics)

    def _categorize_handlers(self, event_handlers: list[EventHandler]) -> tuple[list[Any], ...]:
        """Return six lists of handlers: of beginnings and ends of training, epochs, batches."""
        return tuple([each for each in event_handlers if isinstance(each, kind)] for kind in (
            events.TrainBegin, events.EpochBegin, events.BatchBegin, events.BatchEnd,
            events.EpochEnd, events.TrainEnd))


def _check_loader(data: object) -> None:
    if not isinstance(data, DataLoader):
        raise ArgumentError("Estimator only support input as Gluon DataLoader. Alternatively, you "
                            "can transform your DataIter or any NDArray into Gluon DataLoader. "
                            f"Refer to gluon.data.DataLoader; this is a {type(data).__name__}")


def _with_missing(event_handlers: Handlers, defaults: Sequence[EventHandler]
                  ) -> tuple[list[EventHandler], list[EventHandler]]:
    """Return the handlers, and the defaults of whose kind there is none among them."""
    handlers = _check_event_handlers(event_handlers)
    return handlers, [default for default in defaults
                      if not any(isinstance(each, type(default)) for each in handlers)]


def _in_order(handlers: list[EventHandler], added: list[EventHandler], metrics: list[EvalMetric]
              ) -> list[EventHandler]:
    """Return all handlers by priority.

    Where there are handlers of both kinds, they must share metrics, or those of one are not updated
    by those of the other.
    """
    together = [*handlers, *added]
    for each in together if handlers and added else ():
        _check_handler_metric_ref(each, metrics)
    return sorted(together, key=lambda each: getattr(each, "priority", 0))
