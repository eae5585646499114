"""Checks of the metrics that an estimator and its handlers refer to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ....base import ArgumentError
from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import Loss, SoftmaxCrossEntropyLoss

__all__: list[str] = []
__dir__ = __all__.copy


def _check_metrics(metrics: Any) -> list[EvalMetric]:
    """Return the metrics as a list; those of composite ones one by one."""
    if isinstance(metrics, CompositeEvalMetric):
        return _check_metrics(metrics.metrics)
    if isinstance(metrics, EvalMetric):
        return [metrics]
    metrics = metrics or []
    if not isinstance(metrics, (list, tuple)) or not all(
            isinstance(each, EvalMetric) for each in metrics):
        raise ArgumentError("metrics must be a Metric or a list of Metric, refer to "
                            f"mxnet.metric.EvalMetric: {metrics}")
    return [single for each in metrics for single in (
        _check_metrics(each) if isinstance(each, CompositeEvalMetric) else [each])]


def _check_handler_metric_ref(handler: object, known_metrics: Collection[EvalMetric]) -> None:
    """Raise ValueError if an attribute with "metric" in its name has a metric of others."""
    for attribute in dir(handler):
        if "metric" in attribute:
            value = getattr(handler, attribute, None)
            for metric in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(metric, EvalMetric):
                    _check_metric_known(handler, metric, known_metrics)


def _check_metric_known(handler: object, metric: EvalMetric,
                        known_metrics: Collection[EvalMetric]) -> None:
    if not any(metric is each for each in known_metrics):
        raise ArgumentError(
            f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside "
            "of the known training and validation metrics. Please use the metrics from "
            "estimator.train_metrics and estimator.val_metrics instead.")


def _suggest_metric_for_loss(loss: Loss) -> EvalMetric | None:
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
