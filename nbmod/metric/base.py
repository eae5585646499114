"""`EvalMetric`: a sum and a count, kept twice.

`sum_metric / num_inst` is the value since the last `reset_local` (the Speedometer resets it after
each line it prints); `global_sum_metric / global_num_inst` the value since `reset` (one epoch).
A subclass implements `update` and either adds through `_add`, which keeps both, or, as metrics
written for older MXNet do, touches `sum_metric` and `num_inst` only: those have no global part
(`_has_global_stats` is false) and `get_global` answers `get`.

Labels and predictions are lists of NDArrays or numpy arrays; arithmetic is numpy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy

from .. import registry
from ..base import ArgumentError, MXNetError

__all__ = ["EvalMetric", "CompositeEvalMetric", "CustomMetric", "create", "register", "alias",
           "check_label_shapes", "as_numpy"]


def as_numpy(array: Any) -> numpy.ndarray:
    """The values of an NDArray, or of anything numpy understands."""
    return array.asnumpy() if hasattr(array, "asnumpy") else numpy.asarray(array)


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple:
    """`(labels, preds)` after checking that there are as many of one as of the other.

    `shape`: compare their shapes rather than their lengths.  `wrap`: put single arrays into lists.
    """
    given = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if given[0] != given[1]:
        hint = ("; there are no labels: name them in label_names, and let the batches bring them"
                if given[0] == 0 else "")
        raise ArgumentError(f"Shape of labels {given[0]} does not match shape of predictions "
                            f"{given[1]}{hint}")
    if wrap:
        labels = labels if isinstance(labels, (list, tuple)) else [labels]
        preds = preds if isinstance(preds, (list, tuple)) else [preds]
    return labels, preds


def pairs_of(labels: Any, preds: Any) -> Iterable[tuple[numpy.ndarray, numpy.ndarray]]:
    """(label, prediction) pairs as numpy arrays, from lists of equal length or single arrays."""
    labels, preds = check_label_shapes(labels, preds, wrap=True)
    return [(as_numpy(label), as_numpy(pred)) for label, pred in zip(labels, preds, strict=True)]


def quotient(total: Any, count: Any) -> float:
    """total / count, NaN where nothing was counted."""
    return total / count if count else math.nan


class EvalMetric:
    """Base class of metrics.

    `output_names` and `label_names` choose what `update_dict` passes on; default everything.
    """

    def __init__(self, name: Any, output_names: Any = None, label_names: Any = None, **kwargs: Any):
        self.name = name
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Keyword arguments from which `create` makes this metric again."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name,
                "output_names": self.output_names, "label_names": self.label_names}

    def update_dict(self, label: Mapping[str, Any], pred: Mapping[str, Any]) -> None:
        """`update` with the labels and outputs chosen by name."""
        self.update(_chosen(label, self.label_names, "label"),
                    _chosen(pred, self.output_names, "output"))

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account: lists of labels and of predictions."""
        raise NotImplementedError(f"{type(self).__name__} must define update(labels, preds)")

    def _add(self, total: Any, count: Any) -> None:
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def reset(self) -> None:
        """Forget everything."""
        self.num_inst: Any = 0
        self.sum_metric: Any = 0.0
        self.global_num_inst: Any = 0
        self.global_sum_metric: Any = 0.0

    def reset_local(self) -> None:
        """Forget what `get` answers, but not what `get_global` does."""
        if self._has_global_stats:
            self.num_inst = 0
            self.sum_metric = 0.0
        else:
            self.reset()  # a metric of the old kind may keep its sums in a list

    def get(self) -> tuple[Any, Any]:
        """(name, value) since the last `reset_local`; both may be lists."""
        return self.name, quotient(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """(name, value) since the last `reset`."""
        if not self._has_global_stats:
            return self.get()
        return self.name, quotient(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, Any]]:
        """[(name, value), ...] since the last `reset_local`."""
        return _zipped(*self.get())

    def get_global_name_value(self) -> list[tuple[str, Any]]:
        """[(name, value), ...] since the last `reset`."""
        return _zipped(*self.get_global())


def _chosen(arrays: Mapping[str, Any], names: Iterable[str] | None, kind: str) -> list:
    if names is None:
        return list(arrays.values())
    missing = [name for name in names if name not in arrays]
    if missing:
        raise MXNetError(f"metric: {kind} names {missing} are not among {list(arrays)}")
    return [arrays[name] for name in names]


def _zipped(names: Any, values: Any) -> list[tuple[str, Any]]:
    names = names if isinstance(names, list) else [names]
    values = values if isinstance(values, list) else [values]
    return list(zip(names, values, strict=True))


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """A metric from a name, a function `feval(label, pred)`, a list of such, or as it is."""
    if callable(metric) and not isinstance(metric, EvalMetric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        return CompositeEvalMetric([create(child, *args, **kwargs) for child in metric])
    return _create(metric, *args, **kwargs)


@alias("composite")
@register
class CompositeEvalMetric(EvalMetric):
    """Several metrics updated together; names and values come as lists."""

    def __init__(self, metrics: Iterable[Any] | None = None, name: str = "composite",
                 output_names: Any = None, label_names: Any = None):
        self.metrics = [create(metric) for metric in metrics or ()]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Append a metric (anything `create` understands)."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """The metric at a position."""
        try:
            return self.metrics[index]
        except IndexError:
            raise MXNetError(f"Metric index {index} is out of range 0 and {len(self.metrics)}"
                             ) from None

    def update_dict(self, labels: Mapping[str, Any], preds: Mapping[str, Any]) -> None:
        if self.label_names is not None:
            labels = {name: labels[name] for name in labels if name in self.label_names}
        if self.output_names is not None:
            preds = {name: preds[name] for name in preds if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[list, list]:
        return _unzipped(pair for metric in self.metrics for pair in metric.get_name_value())

    def get_global(self) -> tuple[list, list]:
        return _unzipped(pair for metric in self.metrics for pair in metric.get_global_name_value())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}


def _unzipped(pairs: Iterable[tuple[str, Any]]) -> tuple[list, list]:
    pairs = list(pairs)
    return [name for name, _ in pairs], [value for _, value in pairs]


@register
class CustomMetric(EvalMetric):
    """The mean over batches of `feval(label, pred)`, called with numpy arrays.

    `feval` answers a number, or a pair (sum, count).
    """

    def __init__(self, feval: Callable[[Any, Any], Any], name: str | None = None,
                 allow_extra_outputs: bool = False, output_names: Any = None,
                 label_names: Any = None):
        if name is None:
            name = getattr(feval, "__name__", type(feval).__name__)
            name = f"custom({name})" if "<" in name else name
        super().__init__(name, output_names, label_names, has_global_stats=True)
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=False):
            value = self._feval(as_numpy(label), as_numpy(pred))
            total, count = value if isinstance(value, tuple) else (value, 1)
            self._add(total, count)

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("CustomMetric cannot be serialized: it holds a function")
