"""Trainings with `gluon.contrib.estimator`: logs, events, files, errors.

`mx` is nbmod in the tests and MXNet in the oracle's worker.
"""

from __future__ import annotations

import logging
import os
import random
import re
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

EVENTS = ("train_begin", "epoch_begin", "batch_begin", "batch_end", "epoch_end", "train_end")


def data_of(mx: Any, count: int = 10, batch_size: int = 4, axis: int = 0) -> Any:
    """A loader of two-dimensional points in three classes."""
    rng = np.random.default_rng(count)
    points, labels = rng.standard_normal((count, 2)), rng.integers(0, 3, count)
    data = mx.gluon.data.ArrayDataset(mx.nd.array(points + labels[:, None]), mx.nd.array(labels))
    return mx.gluon.data.DataLoader(data, batch_size=batch_size)


def make(mx: Any, contexts: int = 1, lines: list[str] | None = None, **options: Any) -> Any:
    """An estimator of a layer with fixed parameters, whose log goes to `lines`."""
    net = options.pop("net", None) or mx.gluon.nn.Dense(3, in_units=2, prefix="net_")
    devices = [mx.cpu(index) for index in range(contexts)]
    net.initialize(mx.init.Constant(0.1), ctx=devices, force_reinit=True)
    if "trainer" not in options:
        options["trainer"] = mx.gluon.Trainer(net.collect_params(), "sgd", {
            "learning_rate": 0.25, "momentum": 0.5})
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    estimator = mx.gluon.contrib.estimator.Estimator(net, loss, context=devices, **options)
    estimator.logger.handlers = [Lines([] if lines is None else lines)]
    return estimator


class Lines(logging.Handler):
    """Collects what is logged, without times and folders."""

    def __init__(self, lines: list[str]):
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        text = re.sub(r"\d+\.\d+s", "TIME", record.getMessage())
        self.lines.append(re.sub(r"total \d+s", "total TIME", re.sub(r"\S*[/\\]", "", text)))


# -- logs and values ------------------------------------------------------------------------------


def _interval(mx: Any, estimator: Any) -> list[Any]:
    return [mx.gluon.contrib.estimator.LoggingHandler(2, estimator.train_metrics)]


def _validated(mx: Any, estimator: Any) -> list[Any]:
    return [mx.gluon.contrib.estimator.ValidationHandler(data_of(mx, 6), estimator.evaluate,
                                                         epoch_period=2, batch_period=2)]


def _stopped(mx: Any, estimator: Any) -> list[Any]:
    return [mx.gluon.contrib.estimator.EarlyStoppingHandler(
        estimator.train_metrics[0], min_delta=0.2, patience=2, mode="max")]


def _least(mx: Any, estimator: Any) -> list[Any]:
    return [mx.gluon.contrib.estimator.EarlyStoppingHandler(
        estimator.train_metrics[1], min_delta=0.1, patience=1, mode="min", baseline=1.2)]


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[..., Any] | None]] = {
    "epochs": ({}, {"epochs": 2}, None),
    "batches": ({}, {"batches": 5}, None),
    "validation": ({}, {"epochs": 2, "val_data": 6}, None),
    "contexts": ({"contexts": 2}, {"epochs": 2, "val_data": 6}, None),
    "interval": ({}, {"epochs": 2}, _interval),
    "validated": ({}, {"epochs": 3}, _validated),
    "stopped": ({}, {"epochs": 9, "val_data": 6}, _stopped),
    "least": ({}, {"epochs": 9}, _least),
}
"""Options of the estimator, of `fit`, and handlers."""


def trained(mx: Any) -> dict[str, Any]:
    """Of each case: the log, metrics and parameters."""
    found = {}
    for name, (options, call, handlers) in CASES.items():
        lines: list[str] = []
        estimator = make(mx, lines=lines, **options)
        call = {key: data_of(mx, value) if key == "val_data" else value
                for key, value in call.items()}
        estimator.fit(data_of(mx), event_handlers=handlers and handlers(mx, estimator), **call)
        found[name] = {
            "log": lines,
            "metrics": [metric.get() for metric in estimator.train_metrics + estimator.val_metrics
                        if call.get("val_data") or metric in estimator.train_metrics],
            "weights": [each.asnumpy() for parameter in estimator.net.collect_params().values()
                        for each in parameter.list_data()],
            "left": (estimator.max_epoch, estimator.max_batch, estimator.batch_axis)}
    return found


def names(mx: Any) -> list[Any]:
    """Names of metrics, kinds of handlers in their order, and priorities."""
    metric = mx.metric
    found: list[Any] = []
    for options in ({}, {"train_metrics": metric.MAE()},
                    {"train_metrics": [metric.MAE(), metric.MSE("error")]},
                    {"train_metrics": metric.create(["acc", "loss"]),
                     "val_metrics": metric.MSE("error")}):
        estimator = make(mx, **options)
        found.append([[each.name for each in group]
                      for group in (estimator.train_metrics, estimator.val_metrics)])
    estimator.fit(data_of(mx), epochs=1)
    for handlers in (estimator._prepare_default_handlers(data_of(mx), None),
                     estimator._prepare_default_validation_handlers(None)):
        found.append([(type(each).__name__, getattr(each, "priority", 0)) for each in handlers])
    return found


# -- events ---------------------------------------------------------------------------------------


def events(mx: Any, seed: int) -> list[str]:
    """Events that handlers of random kinds and priorities get, until one of them stops."""
    module, rng = mx.gluon.contrib.estimator, random.Random(seed)
    calls: list[str] = []

    def handler(number: int) -> Any:
        kinds = rng.sample(EVENTS, rng.randint(1, 6))
        stops_after = rng.choice([3, 100])
        counts = {"batch_end": 0, "epoch_end": 0}

        def method(event: str) -> Any:
            def call(self: Any, estimator: Any, *args: Any, **kwargs: Any) -> bool:
                calls.append(f"{number} {event} {sorted(kwargs)}")
                counts[event] = counts.get(event, 0) + 1
                return event in ("batch_end", "epoch_end") and counts[event] >= stops_after
            return call

        bases = tuple(getattr(module, event.title().replace("_", "")) for event in kinds)
        made = type(f"Handler{number}", bases, {event: method(event) for event in kinds})()
        if rng.random() < 0.7:
            made.priority = rng.choice([-3000, -1000, 0, 5])
        return made

    handlers = [handler(number) for number in range(5)]
    estimator = make(mx)
    estimator.fit(data_of(mx), epochs=3, event_handlers=[*handlers])
    estimator.evaluate(data_of(mx), event_handlers=handlers[:3])
    return calls


# -- files ----------------------------------------------------------------------------------------

CHECKPOINTS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {"epochs": 2}), ({"max_checkpoints": 5}, {"epochs": 7}),
    ({"model_prefix": "net", "max_checkpoints": 2}, {"epochs": 3}),
    ({"epoch_period": 2}, {"epochs": 4}),
    ({"epoch_period": None, "batch_period": 2, "max_checkpoints": 3}, {"batches": 10}),
    ({"epoch_period": None, "batch_period": 2}, {"batches": 4}),
    ({"epoch_period": 1, "batch_period": 2}, {"batches": 5}),
    ({"save_best": True, "mode": "max"}, {"epochs": 2}),
    ({"resume_from_checkpoint": True}, {"epochs": 2}),
    ({"resume_from_checkpoint": True, "epoch_period": None, "batch_period": 2}, {"batches": 5}),
)
"""Options of handlers, and of `fit`.  MXNet counts no old checkpoints when it goes on from one, so
that those with a limit do not."""


def checkpoints(mx: Any) -> list[Any]:
    """Of each case, eager and hybridized: files and logs after training, and after going on."""
    found = []
    for hybridized in (False, True):
        for options, call in CHECKPOINTS:
            with tempfile.TemporaryDirectory() as folder:
                for more in (0,) if "max_checkpoints" in options else (0, 3):
                    lines: list[str] = []
                    net = mx.gluon.nn.Dense(3, in_units=2, prefix="net_")
                    net.hybridize(hybridized)
                    estimator = make(mx, lines=lines, net=net)
                    handler = _checkpointer(mx, folder, estimator, {
                        **options, "resume_from_checkpoint":
                            bool(more) or options.get("resume_from_checkpoint", False)})
                    call = {key: value + more for key, value in call.items()}
                    try:
                        estimator.fit(data_of(mx), event_handlers=[handler], **call)
                        failed = None
                    except AssertionError:    # of both periods, none goes on
                        failed = True
                    found.append((sorted(os.listdir(folder)), lines, failed,
                                  estimator.max_epoch, estimator.max_batch))
    return found


def _checkpointer(mx: Any, folder: str, estimator: Any, options: dict[str, Any]) -> Any:
    monitor = estimator.train_metrics[0] if options.get("save_best") else None
    return mx.gluon.contrib.estimator.CheckpointHandler(folder, monitor=monitor, **options)


# -- errors ---------------------------------------------------------------------------------------


def errors(mx: Any) -> list[Any]:
    """Kind and beginning of the error of each wrong use, and of each warning."""
    module, gluon, metric = mx.gluon.contrib.estimator, mx.gluon, mx.metric
    net, loss = gluon.nn.Dense(3, in_units=2), gluon.loss.L2Loss()
    net.initialize()
    estimator, loader = make(mx), data_of(mx)

    def new(**options: Any) -> Any:
        return module.Estimator(**{"net": net, "loss": loss, **options})

    def resumed(**options: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                make(mx).fit(loader, event_handlers=module.CheckpointHandler(
                    folder, resume_from_checkpoint=True, **options), epochs=1)

    calls: list[Callable[[], Any]] = [
        lambda: new(loss=3), lambda: new(val_loss="loss"), lambda: new(train_metrics="acc"),
        lambda: new(val_metrics=[3]), lambda: new(context="cpu"), lambda: new(context=[3]),
        lambda: new(context=mx.Context("gpu", 99)), lambda: new(trainer="sgd"),
        lambda: new(batch_processor=3), lambda: new(initializer="ones"), lambda: new(),
        lambda: estimator.fit([1], epochs=1), lambda: estimator.fit(loader),
        lambda: estimator.fit(loader, epochs=1, batches=1), lambda: estimator.fit(loader, epochs=0),
        lambda: estimator.evaluate(3), lambda: estimator.fit(loader, epochs=1, event_handlers=[3]),
        lambda: estimator.fit(loader, epochs=1, event_handlers=module.MetricHandler(metric.MAE())),
        lambda: estimator.evaluate(loader, event_handlers=[
            module.LoggingHandler(metrics=estimator.train_metrics)]),
        lambda: module.LoggingHandler(log_interval="batch"), lambda: module.MetricHandler(["acc"]),
        lambda: module.CheckpointHandler(tempfile.gettempdir(), save_best=True),
        lambda: module.EarlyStoppingHandler(3),
        lambda: module.EarlyStoppingHandler(metric.create(["acc", "mse"])),
        lambda: module.EarlyStoppingHandler(metric.Accuracy()),
        lambda: resumed(), lambda: resumed(batch_period=2)]
    return [_outcome(call) for call in calls]


def _outcome(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            call()
            error = None
        except (ValueError, AssertionError) as raised:
            kind = ValueError if isinstance(raised, ValueError) else AssertionError
            error = kind.__name__, str(raised)[:12]
    return error, [(each.category.__name__, str(each.message)[:30]) for each in warned
                   if "is already initialized" not in str(each.message)
                   and issubclass(each.category, (UserWarning, RuntimeWarning))]
