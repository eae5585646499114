"""Callbacks that limit the norm of gradients and the time of training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, StopTraining, checks_numbers

if TYPE_CHECKING:
    from ..module.module_interface import ModuleInterface
    from ..module.training_position import BatchEndParam
    from ..ndarray import NDArray

__all__ = ["ClipGradients", "TimeLimit"]


class ClipGradients:
    """Batch callback that limits the norm of all gradients together.

    It acts between the backward pass and the update. The norm is that of the gradients which the
    optimizer uses: summed over devices, and multiplied by its ``rescale_grad``, which makes them
    the mean over the batch. If it is larger than `max_norm`, all gradients are multiplied by
    ``max_norm / norm``; otherwise they stay as they are. With a distributed store it is the norm
    of one worker's gradients.

    Parameters
    ----------
    max_norm : float
        Largest norm, greater than 0.

    Attributes
    ----------
    norm : float
        Norm before the last update, before it was limited.

    Examples
    --------
    >>> clip = mx.callback.ClipGradients(max_norm=1.0)
    >>> # module.fit(train_data, num_epoch=5, batch_end_callback=clip)
    """

    @checks_numbers
    def __init__(self, max_norm: float):
        if not max_norm > 0:
            raise ArgumentError(f"ClipGradients: max_norm is {max_norm}, expected more than 0")
        self.max_norm = max_norm
        self.norm = 0.0

    def before_update(self, param: BatchEndParam) -> None:
        """Limit the gradients of a batch.

        Parameters
        ----------
        param : BatchEndParam
            The present batch.
        """
        module: ModuleInterface = param.locals["self"]
        gradients = module._param_gradients()
        rescale = max((optimizer.rescale_grad for optimizer in module._optimizers()), default=1.0)
        self.norm = rescale * float(np.sqrt(sum(map(_square_sum, gradients))))
        if self.norm > self.max_norm and np.isfinite(self.norm):
            for copies in gradients:
                for gradient in copies:
                    gradient *= self.max_norm / self.norm

    def __call__(self, param: BatchEndParam) -> None:
        """Do nothing: this batch is over."""


def _square_sum(copies: Sequence[NDArray]) -> float:
    """Sum of the squares of a gradient's elements, the gradient being the sum over devices."""
    first, *others = copies
    total = first.astype(np.float32)
    for other in others:
        total += other.as_in_context(first.context).astype(np.float32)
    return float(nd.square(total).sum().asscalar())


class TimeLimit:
    """Batch callback that stops training when a time is over.

    Training ends after a batch; a checkpoint that is then saved with the states of the optimizer
    resumes at the next one.

    Parameters
    ----------
    limit : float or datetime.timedelta
        Seconds, counted from the making of the callback.

    Examples
    --------
    >>> from datetime import timedelta
    >>> limit = mx.callback.TimeLimit(timedelta(hours=2))
    >>> # module.fit(train_data, num_epoch=100, batch_end_callback=limit)
    """

    def __init__(self, limit: float | timedelta):
        self.limit = limit.total_seconds() if isinstance(limit, timedelta) else float(limit)
        self._began = time.monotonic()

    def __call__(self, param: BatchEndParam) -> None:
        if time.monotonic() - self._began >= self.limit:
            raise StopTraining(f"the time limit of {self.limit:g} s is reached")
