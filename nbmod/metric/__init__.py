"""Evaluation metrics: `create("acc")`, the registered classes, and the base class.

A metric is a sum and a count, each kept twice: since `reset` and since `reset_local`.

    eval_metric.py     `EvalMetric`, the base; `create`, `CompositeEvalMetric` and `CustomMetric`
    classification.py  accuracy, F1, MCC and others, of predicted classes
    likelihood.py      cross entropy and perplexity, and means of loss outputs
    regression.py      absolute and squared errors, and correlation

Begin with `eval_metric.py`.  Imports `base`, `core.registry`, `ndarray` and `ops`.

Examples
--------
>>> metric = mx.metric.create(["acc", "ce"])
>>> metric.update([mx.nd.array([0, 1])], [mx.nd.array([[0.5, 0.25], [0.25, 0.5]])])
>>> [(name, round(float(value), 4)) for name, value in metric.get_name_value()]
[('accuracy', 1.0), ('cross-entropy', 0.6931)]
"""

from __future__ import annotations

from .. import ndarray  # noqa: F401 - programs import it from here
from . import classification, eval_metric, likelihood, regression
from .classification import *  # noqa: F403
from .eval_metric import *  # noqa: F403
from .eval_metric import CustomMetric, Feval
from .likelihood import *  # noqa: F403
from .regression import *  # noqa: F403

__all__ = ["np"]
__all__ += eval_metric.__all__ + classification.__all__ + likelihood.__all__ + regression.__all__
__dir__ = __all__.copy


def np(numpy_feval: Feval, name: str | None = None,
       allow_extra_outputs: bool = False) -> CustomMetric:
    """A metric from a function of numpy arrays.

    Parameters
    ----------
    numpy_feval : callable
        Called as `numpy_feval(label, pred)` for every pair of label and prediction; returns the
        value of the pair, or a tuple (sum, count).
    name : str, optional
        Name of the metric; the function's name unless given.
    allow_extra_outputs : bool, default False
        Whether there may be more predictions than labels, of which the last are ignored.

    Examples
    --------
    >>> def worst(label, pred):
    ...     return abs(label - pred).max()
    >>> metric = mx.metric.np(worst)
    >>> metric.update([mx.nd.array([1, 2, 3])], [mx.nd.array([1, 2.5, 2])])
    >>> name, value = metric.get()
    >>> name, float(value)
    ('worst', 1.0)
    """
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
