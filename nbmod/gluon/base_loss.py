"""`Loss`: the base of losses, and how they weight their elements."""

from __future__ import annotations

from typing import Any

from .block import HybridBlock

__all__ = ["Loss"]

TINY = 1e-12
"""Added to arguments of logarithms, and to lengths of vectors."""


def _apply_weighting(F: Any, loss: Any, weight: float | None = None, sample_weight: Any = None
                     ) -> Any:
    """`loss` times the weights that there are: of elements, which broadcast, and of all."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    return loss if weight is None else loss * weight


def _reshape_like(F: Any, x: Any, y: Any) -> Any:
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """Base of losses: `loss(pred, label, sample_weight)`.

    Parameters
    ----------
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> loss = mx.gluon.loss.L1Loss()
    >>> loss.hybridize()
    >>> loss(mx.nd.array([[1], [2]]), mx.nd.array([[3], [2]])).asnumpy().tolist()
    [2.0, 0.0]
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Any):
        super().__init__(**kwargs)
        self._weight, self._batch_axis = weight, batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _mean(self, F: Any, loss: Any, sample_weight: Any) -> Any:
        """The weighted loss, averaged over all axes but that of the samples."""
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)
