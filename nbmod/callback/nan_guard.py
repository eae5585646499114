"""NaN and infinity in training.

The callback of `fit(nan_guard=True)` stops at the first step that computes them; without it, there
is a warning where a metric shows them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ..base import NotFinite
from ..metric.eval_metric import numbers
from ..ndarray import NDArray
from ..ndarray.sparse_array import stored_parts
from ..ops.random import rng

if TYPE_CHECKING:
    from ..executor import Executor
    from ..metric import EvalMetric
    from ..module.module_interface import ModuleInterface
    from ..module.training_position import BatchEndParam

__all__ = ["NanGuard", "warn_not_finite"]

Named = tuple[str, NDArray]


class NanGuard:
    """Batch callback that stops at the first training step that computes NaN or infinity.

    ``fit(nan_guard=True)`` uses one. Outputs and gradients are checked before the update,
    and parameters after it. The guard reads all of them, so that steps take longer.

    Raises
    ------
    NotFinite
        In `fit`, naming the epoch, the batch and the first tensor that is not finite.

    Examples
    --------
    >>> guard = mx.callback.NanGuard()
    >>> # module.fit(train_data, num_epoch=5, batch_end_callback=guard)
    """

    def __init__(self) -> None:
        self.step = 0

    def before_update(self, param: BatchEndParam) -> None:
        """Look at the outputs and gradients of a step.

        Parameters
        ----------
        param : BatchEndParam
            The present batch.
        """
        module: ModuleInterface = param.locals["self"]
        executors = module._executors()
        computed: list[tuple[str | int, NDArray]] = [
            *enumerate(module.get_outputs()),
            *(pair for executor in executors for pair in _gradients(executor))]
        bad = _first(computed)
        if bad is not None:
            cause = next(filter(None, map(_cause, executors)), bad)
            raise _error(cause, self._where(param),
                         "the parameters are still those before this step; look at the data, try a "
                         "lower learning rate or clip_gradient")

    def __call__(self, param: BatchEndParam) -> None:
        """Look at the parameters that the update of a step has changed."""
        module: ModuleInterface = param.locals["self"]
        bad = _first(pair for executor in module._executors()
                     for pair in executor.arg_dict.items())
        if bad is not None:
            raise _error(bad, self._where(param),
                         "its gradient was finite, so the update made it so; try a lower learning "
                         "rate")
        self.step += 1

    def _where(self, param: BatchEndParam) -> str:
        return f"epoch {param.epoch}, batch {param.nbatch}, step {self.step}"


def _gradients(executor: Executor) -> Iterator[Named]:
    """The gradients in the order in which the backward pass computes them, roughly."""
    for name, gradient in reversed(executor.grad_dict.items()):
        if gradient is not None:
            yield f"the gradient of {name}", gradient


def _cause(executor: Executor) -> Named | None:
    """The first tensor that is not finite: an input, or what a node gives when it runs again."""
    argument = _first(executor.arg_dict.items())
    if argument is not None:
        return argument
    bad: list[Named] = []

    def look(name: str, array: NDArray) -> None:
        if not bad and _first([(name, array)]) is not None:
            bad.append((name, array.copy()))

    monitor = executor._monitor
    executor.set_monitor_callback(look)
    try:
        with rng.aside():
            executor.forward(is_train=True)
    finally:
        executor._observe(monitor)
    return bad[0] if bad else None


def _first(arrays: Iterable[tuple[str | int, NDArray]]) -> Named | None:
    """The first array with an element that is not finite."""
    for name, array in arrays:
        if np.dtype(array.dtype).kind == "f" and not np.isfinite(stored_parts(array)[0]).all():
            return (f"output {name}" if isinstance(name, int) else name), array
    return None


def _error(bad: Named, where: str, hint: str) -> NotFinite:
    name, array = bad
    values = stored_parts(array)[0]
    counts = [(np.isnan(values), "NaN"), (np.isinf(values), "infinite")]
    summary = " and ".join(f"{int(mask.sum()):,} {word}" for mask, word in counts if mask.any())
    return NotFinite(f"fit: {where}: of the {values.size:,} elements of {name} {array.shape}, "
                     f"{summary}; {hint}")


def warn_not_finite(param: BatchEndParam, values: Collection[tuple[str, object]]) -> None:
    """Warn, once in a `fit`, of a training metric that is NaN or infinite.

    Parameters
    ----------
    param : BatchEndParam
        The batch after which the metric was read.
    values : collection of (str, object)
        What was read.
    """
    seen = param.locals or {}
    if "data_batch" not in seen or all(map(math.isfinite, numbers(values).values())):
        return      # a validation, or nothing to tell
    told = seen.get("warnings", param.eval_metric)  # of this `fit`
    bad = next(_not_finite(param.eval_metric), None)
    if bad is not None and not getattr(told, "has_told_of_nan", False):
        with suppress(AttributeError):
            told.has_told_of_nan = True
        name, value = bad
        logger = getattr(seen.get("self"), "logger", logging)
        logger.warning("fit: epoch %d, batch %d: the training metric %s is %s; try a lower "
                       "learning rate or clip_gradient; fit(nan_guard=True), or the callback "
                       "mx.callback.NanGuard(), names the first tensor that is not finite",
                       param.epoch, param.nbatch, name, value)


def _not_finite(metric: EvalMetric) -> Iterator[tuple[str, float]]:
    """Values since the beginning of the epoch; NaN of no samples is none."""
    for part in getattr(metric, "metrics", None) or [metric]:
        read = getattr(part, "get_global_name_value", part.get_name_value)
        count = "global_num_inst" if getattr(part, "_has_global_stats", False) else "num_inst"
        for name, value in numbers(read()).items():
            if math.isinf(value) or (math.isnan(value) and getattr(part, count, 1) != 0):
                yield name, value
