"""Checks and comparisons of the metrics that an estimator and its handlers refer to."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from ....base import ArgumentError, warn_user
from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import Loss, SoftmaxCrossEntropyLoss

__all__: list[str] = []
__dir__ = __all__.copy

_GREATER = ("acc", "f1", "mcc", "pcc", "pearson")
"""Parts of names of metrics of which a greater value is better."""


def _check_metrics(metrics: Any) -> list[EvalMetric]:
    """Return the metrics as a list; those of composite ones one by one."""
    metrics = [metrics] if isinstance(metrics, EvalMetric) else metrics or []
    if not isinstance(metrics, (list, tuple)) or not all(
            isinstance(each, EvalMetric) for each in metrics):
        raise ArgumentError("metrics must be a Metric or a list of Metric, refer to "
                            f"mxnet.metric.EvalMetric: {metrics}")
    return [single for each in metrics for single in (
        _check_metrics(each.metrics) if isinstance(each, CompositeEvalMetric) else [each])]


def _check_handler_metric_ref(handler: object, known_metrics: Collection[EvalMetric]) -> None:
    """Raise ValueError if an attribute with "metric" in its name has a metric of others."""
    for attribute in dir(handler):
        if "metric" in attribute:
            value = getattr(handler, attribute, None)
            for metric in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(metric, EvalMetric) and not any(
                        metric is each for each in known_metrics):
                    raise ArgumentError(
                        f"Event handler {type(handler).__name__} refers to a metric instance "
                        f"{metric} outside of the known training and validation metrics. Please "
                        "use the metrics from estimator.train_metrics and "
                        "estimator.val_metrics instead.")


def _suggest_metric_for_loss(loss: Loss) -> EvalMetric | None:
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None


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
