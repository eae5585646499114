"""`BatchProcessor`: how an estimator trains with a batch, and how it evaluates one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .... import autograd
from ....context import Context
from ....ndarray import NDArray
from ...utils import split_and_load

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["BatchProcessor"]
__dir__ = __all__.copy

Parts = list[NDArray]
"""Arrays, one for each context."""
Results = tuple[Any, Any, Any, Any]
"""Data, labels, predictions and losses."""


class BatchProcessor:
    """Calls the network and the loss on batches; subclasses override how.

    Examples
    --------
    >>> class Clipped(mx.gluon.contrib.estimator.BatchProcessor):
    ...     def fit_batch(self, estimator, train_batch, batch_axis=0):
    ...         results = super().fit_batch(estimator, train_batch, batch_axis)
    ...         gradients = [each.grad() for each in estimator.net.collect_params().values()]
    ...         mx.gluon.utils.clip_global_norm(gradients, 1)
    ...         return results
    """

    def _get_data_and_label(self, batch: Any, ctx: list[Context], batch_axis: int = 0
                            ) -> tuple[Parts, Parts]:
        """Split data and labels, and put the parts on the contexts."""
        data, label = (split_and_load(each, ctx_list=ctx, batch_axis=batch_axis)
                       for each in (batch[0], batch[1]))
        return data, label

    def evaluate_batch(self, estimator: Estimator, val_batch: Any, batch_axis: int = 0) -> Results:
        """Call the network and the loss that are for validation.

        Parameters
        ----------
        estimator : Estimator
            Estimator.
        val_batch : tuple
            Data and labels.
        batch_axis : int, default 0
            Axis that contexts share.

        Returns
        -------
        tuple of four lists of NDArray
            Data, labels, predictions and losses, one of each for each context.
        """
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(each) for each in data]
        loss = [estimator.val_loss(*each) for each in zip(pred, label, strict=True)]
        return data, label, pred, loss

    def fit_batch(self, estimator: Estimator, train_batch: Any, batch_axis: int = 0) -> Results:
        """Call the network and the loss, and the backward pass; a handler steps the parameters.

        Parameters
        ----------
        estimator : Estimator
            Estimator.
        train_batch : tuple
            Data and labels.
        batch_axis : int, default 0
            Axis that contexts share.

        Returns
        -------
        tuple of four lists of NDArray
            Data, labels, predictions and losses, one of each for each context.
        """
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(each) for each in data]
            loss = [estimator.loss(*each) for each in zip(pred, label, strict=True)]
        for each in loss:
            each.backward()
        return data, label, pred, loss
