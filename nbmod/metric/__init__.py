"""Evaluation metrics: `create("acc")`, the classes behind the names, and the base class.

`base` has what all share, `classification`, `regression` and `likelihood` the metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import (
    CompositeEvalMetric,
    CustomMetric,
    EvalMetric,
    alias,
    check_label_shapes,
    create,
    register,
)
from .classification import F1, MCC, PCC, Accuracy, TopKAccuracy
from .likelihood import Caffe, CrossEntropy, Loss, NegativeLogLikelihood, Perplexity, Torch
from .regression import MAE, MSE, RMSE, PearsonCorrelation

__all__ = ["EvalMetric", "CompositeEvalMetric", "CustomMetric", "Accuracy", "TopKAccuracy", "F1",
           "MCC", "PCC", "MAE", "MSE", "RMSE", "PearsonCorrelation", "CrossEntropy",
           "NegativeLogLikelihood", "Perplexity", "Loss", "Torch", "Caffe", "create", "register",
           "alias", "check_label_shapes", "np"]


def np(numpy_feval: Callable[[Any, Any], Any], name: str | None = None,
       allow_extra_outputs: bool = False) -> CustomMetric:
    """A metric from a function of numpy arrays `(label, pred)` that answers a number."""
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
