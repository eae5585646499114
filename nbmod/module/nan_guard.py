"""`fit(nan_guard=True)`: stop at the first training step that computes NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..base import NotFinite
from ..ndarray import NDArray
from ..ops.random import rng

if TYPE_CHECKING:
    from ..executor import Executor
    from .base_module import BaseModule

__all__ = ["NanGuard"]

Named = tuple[str, NDArray]


class NanGuard:
    """Looks at what a step has computed before the parameters are updated, and at these after it.

    Parameters
    ----------
    module : BaseModule
        The module that is trained.
    """

    def __init__(self, module: BaseModule):
        self.module, self.step = module, 0

    def update(self, epoch: int, batch: int) -> None:
        """Update the parameters of the module, between two looks.

        Parameters
        ----------
        epoch, batch : int
            Of this step, for the error.

        Raises
        ------
        NotFinite
            If an output or a gradient is not finite, before the update, or a parameter after it.
        """
        self._check_gradients(epoch, batch)
        self.module.update()
        self._check_parameters(epoch, batch)
        self.step += 1

    def _check_gradients(self, epoch: int, batch: int) -> None:
        """Raise NotFinite if an output or a gradient of this step is not finite."""
        executors = self.module._executors()
        computed: list[tuple[str | int, NDArray]] = [
            *enumerate(self.module.get_outputs()),
            *(found for executor in executors for found in _gradients(executor))]
        bad = _first(computed)
        if bad is not None:
            cause = next(filter(None, map(_cause, executors)), bad)
            raise _error(cause, f"epoch {epoch}, batch {batch}, step {self.step}",
                         "the parameters are still those before this step; look at the data, try a "
                         "lower learning rate or clip_gradient")

    def _check_parameters(self, epoch: int, batch: int) -> None:
        """Raise NotFinite if the update of this step has made a parameter infinite or NaN."""
        bad = _first(found for executor in self.module._executors()
                     for found in executor.arg_dict.items())
        if bad is not None:
            raise _error(bad, f"epoch {epoch}, batch {batch}, step {self.step}",
                         "its gradient was finite, so the update made it so; try a lower learning "
                         "rate")


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
        if np.dtype(array.dtype).kind == "f" and not np.isfinite(array.asnumpy()).all():
            return (f"output {name}" if isinstance(name, int) else name), array
    return None


def _error(bad: Named, where: str, hint: str) -> NotFinite:
    name, array = bad
    values = array.asnumpy()
    counts = [(np.isnan(values), "NaN"), (np.isinf(values), "infinite")]
    found = " and ".join(f"{int(mask.sum()):,} {word}" for mask, word in counts if mask.any())
    return NotFinite(f"fit: {where}: of the {values.size:,} elements of {name} {values.shape}, "
                     f"{found}; {hint}")
