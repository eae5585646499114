"""`EvalMetric`: a sum and a count, kept twice.

`sum_metric / num_inst` is the value since the last `reset_local` (`Speedometer` calls it after each
line that it prints); `global_sum_metric / global_num_inst` is the value since `reset` (one epoch).
A subclass implements `update` and either adds through `_add`, which keeps both, or, as metrics
written for older MXNet do, changes `sum_metric` and `num_inst` only: those have no global part
(`_has_global_stats` is false) and `get_global` returns what `get` does.

Labels and predictions are lists of NDArrays or numpy arrays; arithmetic is numpy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy
from numpy.typing import ArrayLike

from ..base import ArgumentError, Forwarded, MXNetError, numbered
from ..core import registry
from ..ndarray import NDArray

__all__ = ["EvalMetric", "CompositeEvalMetric", "CustomMetric", "create", "register", "alias",
           "check_label_shapes"]

Arrays = NDArray | ArrayLike | Sequence[NDArray]
"""Labels or predictions: an array, or a list with one for each output."""
Names = Sequence[str] | None
Feval: TypeAlias = Callable[[numpy.ndarray, numpy.ndarray], object]  # type: ignore[explicit-any]
"""A function of label and prediction that returns a value, or a sum and a count."""
Config: TypeAlias = dict[str, Any]  # type: ignore[explicit-any]
"""A metric's class and the arguments of its constructor, which are of any type."""
Inputs: TypeAlias = Any  # type: ignore[explicit-any]
"""Labels or predictions (`Arrays`).  Any: a metric knows whether it is given one or a list."""
Sum: TypeAlias = Any  # type: ignore[explicit-any]
"""A sum or a count.  Any: users' metrics keep numbers, arrays, or lists of them."""
MetricValue: TypeAlias = Any  # type: ignore[explicit-any]
"""A float, or a list of them.  Any: that depends on the number of metrics."""


def as_numpy(array: object) -> numpy.ndarray:  # type: ignore[explicit-any]  # of any type
    """Values as a numpy array.

    Parameters
    ----------
    array : NDArray or array_like
        An NDArray, or anything that `numpy.asarray` accepts.
    """
    return array.asnumpy() if hasattr(array, "asnumpy") else numpy.asarray(array)


def check_label_shapes(labels: Inputs, preds: Inputs, wrap: bool = False, shape: bool = False
                       ) -> tuple[Inputs, Inputs]:
    """Check that there are as many labels as predictions; ArgumentError if not.

    Parameters
    ----------
    labels, preds : NDArray, numpy.ndarray or list of them
        Labels and predictions.
    wrap : bool, default False
        Whether to return single arrays as lists of one.
    shape : bool, default False
        Whether to compare the shapes of two arrays instead of their lengths.

    Returns
    -------
    tuple
        (labels, preds).

    Examples
    --------
    >>> labels, preds = mx.metric.check_label_shapes(mx.nd.ones(2), mx.nd.ones((2, 3)), wrap=True)
    >>> len(labels), labels[0].shape, preds[0].shape
    (1, (2,), (2, 3))
    """
    sizes = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if sizes[0] != sizes[1]:
        hint = ("; there are no labels: name them in label_names, and let the batches bring them"
                if sizes[0] == 0 else "")
        raise ArgumentError(f"Shape of labels {sizes[0]} does not match shape of predictions "
                            f"{sizes[1]}{hint}")
    if wrap:
        labels = labels if isinstance(labels, (list, tuple)) else [labels]
        preds = preds if isinstance(preds, (list, tuple)) else [preds]
    return labels, preds


def pairs_of(labels: Inputs, preds: Inputs  # type: ignore[explicit-any]
             ) -> Iterable[tuple[numpy.ndarray, numpy.ndarray]]:
    """(label, prediction) pairs as numpy arrays.

    Parameters
    ----------
    labels, preds : NDArray, numpy.ndarray or list of them
        Lists of equal length, or single arrays.
    """
    labels, preds = check_label_shapes(labels, preds, wrap=True)
    return [(as_numpy(label), as_numpy(pred)) for label, pred in zip(labels, preds, strict=True)]


def quotient(total: Sum, count: Sum) -> float:
    """total / count; NaN if nothing was counted.

    Parameters
    ----------
    total, count : float
        Dividend and divisor.
    """
    return total / count if count else math.nan


class EvalMetric:
    """Base class of metrics.

    Parameters
    ----------
    name : str
        Name under which the value is reported; of other metrics, the default is in the signature.
    output_names : list of str, optional
        Outputs of the network that `update_dict` passes on; None for all.
    label_names : list of str, optional
        Labels that `update_dict` passes on; None for all.
    **kwargs
        `has_global_stats` (bool, default False): whether `update` maintains the global sums, too,
        as `_add` does.  Others are stored for `get_config`.

    Notes
    -----
    A subclass defines `update` and calls `self._add(total, count)` in it.  The value of the metric
    is the sum of all totals divided by the sum of all counts, NaN if that is 0.

    Examples
    --------
    >>> class Largest(mx.metric.EvalMetric):
    ...     def __init__(self):
    ...         super().__init__("largest", has_global_stats=True)
    ...     def update(self, labels, preds):
    ...         for pred in preds:
    ...             self._add(pred.max().asscalar().item(), 1)
    >>> metric = Largest()
    >>> metric.update(None, [mx.nd.array([1, 5, 3])])
    >>> metric.reset_local()
    >>> metric.update(None, [mx.nd.array([1, 2, 3])])
    >>> metric.get(), metric.get_global()
    (('largest', 3.0), ('largest', 4.0))
    """

    def __init__(self, name: str, output_names: Names = None, label_names: Names = None,
                 **kwargs: Forwarded):
        self.name, self.output_names, self.label_names = name, output_names, label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> Config:
        """The class name as `metric`, and the keyword arguments of the constructor."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name,
                "output_names": self.output_names, "label_names": self.label_names}

    def update_dict(self, label: Mapping[str, Inputs], pred: Mapping[str, Inputs]) -> None:
        """Update with labels and outputs that are selected by `label_names` and `output_names`.

        Parameters
        ----------
        label : dict of str to NDArray
            Labels by name.
        pred : dict of str to NDArray
            Outputs by name.
        """
        self.update(_chosen(label, self.label_names, "label"),
                    _chosen(pred, self.output_names, "output"))

    def update(self, labels: Inputs, preds: Inputs) -> None:
        """Update the metric with a batch; to be defined by subclasses.

        Parameters
        ----------
        labels : list of NDArray or numpy.ndarray
            Labels of the batch, or a single array.
        preds : list of NDArray or numpy.ndarray
            Predictions of the batch, or a single array.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update(labels, preds)")

    def _add(self, total: Sum, count: Sum) -> None:
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def reset(self) -> None:
        """Clear all sums and counts, the global ones too."""
        self.num_inst: Sum = 0
        self.sum_metric: Sum = 0.0
        self.global_num_inst: Sum = 0
        self.global_sum_metric: Sum = 0.0

    def reset_local(self) -> None:
        """Clear the sums and counts of `get`, but not those of `get_global`."""
        if self._has_global_stats:
            self.num_inst = 0
            self.sum_metric = 0.0
        else:
            self.reset()  # a metric of the old kind may keep its sums in a list

    def get(self) -> tuple[str | list[str], MetricValue]:
        """(name, value) since the last `reset_local`; lists for metrics with several values."""
        return self.name, quotient(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[str | list[str], MetricValue]:
        """(name, value) since the last `reset`; lists for metrics with several values."""
        if not self._has_global_stats:
            return self.get()
        return self.name, quotient(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, MetricValue]]:
        """[(name, value), ...] since the last `reset_local`."""
        return _zipped(*self.get())

    def get_global_name_value(self) -> list[tuple[str, MetricValue]]:
        """[(name, value), ...] since the last `reset`."""
        return _zipped(*self.get_global())


def _chosen(arrays: Mapping[str, Inputs], names: Iterable[str] | None, kind: str) -> list:
    if names is None:
        return list(arrays.values())
    missing = [name for name in names if name not in arrays]
    if missing:
        raise MXNetError(f"metric: {kind} names {missing} are not among {list(arrays)}")
    return [arrays[name] for name in names]


def _zipped(names: str | list[str], values: MetricValue) -> list[tuple[str, MetricValue]]:
    names = names if isinstance(names, list) else [names]
    values = values if isinstance(values, list) else [values]
    return list(zip(names, values, strict=True))


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


MetricLike: TypeAlias = str | EvalMetric | Feval | Sequence[str | EvalMetric | Feval]
"""Arguments of `create`."""


def create(metric: MetricLike, *args: Forwarded, **kwargs: Forwarded) -> EvalMetric:
    """Create a metric.

    Parameters
    ----------
    metric : str, callable, list or EvalMetric
        A registered name ('acc', 'mse', ...), in upper or lower case; a function
        `feval(label, pred)`, of which a `CustomMetric` is made; a list of such, of which a
        `CompositeEvalMetric` is made; or a metric, which is returned as it is.
    *args, **kwargs
        Arguments of the metric's class; for a list, those of each.

    Examples
    --------
    >>> mx.metric.create("top_k_accuracy", top_k=3).name
    'top_k_accuracy_3'
    >>> type(mx.metric.create(["acc", "mse"])).__name__
    'CompositeEvalMetric'
    """
    if callable(metric) and not isinstance(metric, EvalMetric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        return CompositeEvalMetric([create(child, *args, **kwargs) for child in metric])
    return _create(metric, *args, **kwargs)


@alias("composite")
@register
class CompositeEvalMetric(EvalMetric):
    """Several metrics that are updated together; names and values are lists.

    Parameters
    ----------
    metrics : list, optional
        The metrics, or anything that `create` accepts.

    Examples
    --------
    >>> metric = mx.metric.CompositeEvalMetric(["mae", "mse"])
    >>> metric.update([mx.nd.array([1.0, 2.0])], [mx.nd.array([1.0, 4.0])])
    >>> metric.get()
    (['mae', 'mse'], [1.0, 2.0])
    """

    def __init__(self, metrics: Iterable[MetricLike] | None = None, name: str = "composite",
                 output_names: Names = None, label_names: Names = None):
        self.metrics = [create(metric) for metric in metrics or ()]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: MetricLike) -> None:
        """Append a metric.

        Parameters
        ----------
        metric : str, callable or EvalMetric
            The metric, or anything that `create` accepts.
        """
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """One of the metrics.

        Parameters
        ----------
        index : int
            Its position; MXNetError if there is none.
        """
        try:
            return self.metrics[index]
        except IndexError:
            raise MXNetError(f"Metric index {index} is out of range 0 and {len(self.metrics)}"
                             ) from None

    def update_dict(self, labels: Mapping[str, Inputs], preds: Mapping[str, Inputs]) -> None:
        """Update every metric with the labels and outputs that this metric's names select.

        Parameters
        ----------
        labels, preds : dict of str to NDArray
            Labels and outputs by name.
        """
        if self.label_names is not None:
            labels = {name: labels[name] for name in labels if name in self.label_names}
        if self.output_names is not None:
            preds = {name: preds[name] for name in preds if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels: Inputs, preds: Inputs) -> None:
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

    def get_config(self) -> Config:
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}


def _unzipped(pairs: Iterable[tuple[str, MetricValue]]) -> tuple[list, list]:
    pairs = list(pairs)
    return [name for name, _ in pairs], [value for _, value in pairs]


@register
class CustomMetric(EvalMetric):
    """The mean of a function of label and prediction.

    Parameters
    ----------
    feval : callable
        Called as `feval(label, pred)` with numpy arrays, for every pair of label and prediction;
        returns a value, or a tuple (sum, count).
    name : str, optional
        Name under which the value is reported; the function's name unless given.
    allow_extra_outputs : bool, default False
        Whether there may be more predictions than labels, of which the last are ignored.

    Notes
    -----
    The value is the sum of what `feval` returned divided by the number of calls, or by the sum of
    the counts.

    Examples
    --------
    >>> def wrong(label, pred):
    ...     return float((label != pred).sum()), label.size
    >>> metric = mx.metric.CustomMetric(wrong)
    >>> metric.update([mx.nd.array([1, 2, 3, 4])], [mx.nd.array([1, 2, 3, 0])])
    >>> metric.get()
    ('wrong', 0.25)
    """

    def __init__(self, feval: Feval, name: str | None = None,
                 allow_extra_outputs: bool = False, output_names: Names = None,
                 label_names: Names = None):
        if name is None:
            name = getattr(feval, "__name__", type(feval).__name__)
            name = f"custom({name})" if "<" in name else name
        super().__init__(name, output_names, label_names, has_global_stats=True)
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs

    def update(self, labels: Inputs, preds: Inputs) -> None:
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=False):
            value = self._feval(as_numpy(label), as_numpy(pred))
            total, count = value if isinstance(value, tuple) else (value, 1)
            self._add(total, count)

    def get_config(self) -> Config:
        """Raise a NotImplementedError: the metric holds a function."""
        raise NotImplementedError("CustomMetric cannot be serialized: it holds a function")


# -- values of metrics ---------------------------------------------------------------------------
# Metrics of users return what they like: a float, an array of one element, an NDArray, text.  All
# that prints or records a value goes through here, so that none of them ends training.


def as_number(value: object) -> float | None:
    """Return a metric's value as a float; None unless it is a number or an array of one element.

    Parameters
    ----------
    value : object
        The value.

    Examples
    --------
    >>> import numpy
    >>> as_number(numpy.array([0.5])), as_number("none yet")
    (0.5, None)
    """
    with suppress(TypeError, ValueError, OverflowError):
        return float(as_numpy(value).item())
    return None


def as_text(value: object, spec: str = "f") -> str:
    """Format a metric's value on one line.

    Parameters
    ----------
    value : object
        A number, or anything else.
    spec : str, default 'f'
        Format of numbers; other values have their own text, with single spaces.

    Examples
    --------
    >>> import numpy
    >>> as_text(numpy.array([0.5])), as_text(numpy.array([0.25, 0.5])), as_text("none yet")
    ('0.500000', '[0.25 0.5 ]', 'none yet')
    """
    number = as_number(value)
    return " ".join(str(as_numpy(value)).split()) if number is None else format(number, spec)


def numbers(pairs: Iterable[tuple[str, object]]) -> dict[str, float]:
    """Return the values that are numbers by name, as ``accuracy`` and ``accuracy_1`` where shared.

    Parameters
    ----------
    pairs : iterable of (str, object)
        Names and values, as from ``metric.get_name_value()``.
    """
    named = distinct([*pairs])
    return {name: number for name, value in named if (number := as_number(value)) is not None}


def distinct(pairs: Collection[tuple[str, object]]) -> Iterable[tuple[str, object]]:
    """Return names and values of metrics, with a name of its own each: see `base.numbered`.

    Parameters
    ----------
    pairs : collection of (str, object)
        As for `numbers`.
    """
    names, values = [name for name, _ in pairs], [value for _, value in pairs]
    return pairs if len({*names}) == len(names) else zip(numbered(names), values, strict=True)
