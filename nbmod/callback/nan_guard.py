"""The callback of `fit(nan_guard=True)`: stop at the first step that computes NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..base import NotFinite
from ..ndarray import NDArray
from ..ndarray.sparse_array import stored_parts
from ..ops.random import rng

if TYPE_CHECKING:
    from ..executor import Executor
    from ..module import BaseModule
    from ..module.base_module import BatchEndParam

__all__ = ["NanGuard"]

Named = tuple[str, NDArray]


class NanGuard:
    """Batch callback that stops at the first training step that computes NaN or infinity.

    ``fit(nan_guard=True)`` uses one. Outputs and gradients are looked at before the parameters
    are updated, and the parameters after it. It reads all of them, so that steps take longer.

    Raises
    ------
    NotFinite
        In `fit`, naming the epoch, the batch and the first tensor that is not finite.

    Examples
    --------
    >>> import nbmod as mx
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
        module: BaseModule = param.locals["self"]
        executors = module._executors()
        computed: list[tuple[str | int, NDArray]] = [
            *enumerate(module.get_outputs()),
            *(found for executor in executors for found in _gradients(executor))]
        bad = _first(computed)
        if bad is not None:
            cause = next(filter(None, map(_cause, executors)), bad)
            raise _error(cause, self._where(param),
                         "the parameters are still those before this step; look at the data, try a "
                         "lower learning rate or clip_gradient")

    def __call__(self, param: BatchEndParam) -> None:
        """Look at the parameters that the update of a step has changed."""
        module: BaseModule = param.locals["self"]
        bad = _first(found for executor in module._executors()
                     for found in executor.arg_dict.items())
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
    found = _first(executor.arg_dict.items())
    if found is not None:
        return found
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
        executor._monitor = monitor
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
    found = " and ".join(f"{int(mask.sum()):,} {word}" for mask, word in counts if mask.any())
    return NotFinite(f"fit: {where}: of the {values.size:,} elements of {name} {array.shape}, "
                     f"{found}; {hint}")
