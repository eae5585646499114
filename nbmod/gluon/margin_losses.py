"""Losses that are 0 beyond a margin."""

from __future__ import annotations

from typing import Any

from .base_loss import TINY, Loss, _apply_weighting, _reshape_like

__all__ = ["CosineEmbeddingLoss", "HingeLoss", "SquaredHingeLoss", "TripletLoss"]


class HingeLoss(Loss):
    """The mean of max(0, margin - pred label), for labels -1 and 1.

    Parameters
    ----------
    margin : float, default 1
        Margin.
    weight, batch_axis
        As for `Loss`.

    Examples
    --------
    >>> loss = mx.gluon.loss.HingeLoss()
    >>> loss(mx.nd.array([[2], [0.5]]), mx.nd.array([[1], [-1]])).asnumpy().tolist()
    [0.0, 1.5]
    """

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0,
                 **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        return self._mean(F, self._excess(F, pred, label), sample_weight)

    def _excess(self, F: Any, pred: Any, label: Any) -> Any:
        return F.relu(self._margin - pred * _reshape_like(F, label, pred))


class SquaredHingeLoss(HingeLoss):
    """The mean of max(0, margin - pred label)^2, for labels -1 and 1.

    Parameters
    ----------
    margin : float, default 1
        Margin.
    weight, batch_axis
        As for `Loss`.

    Examples
    --------
    >>> loss = mx.gluon.loss.SquaredHingeLoss()
    >>> loss(mx.nd.array([[2], [0.5]]), mx.nd.array([[1], [-1]])).asnumpy().tolist()
    [0.0, 2.25]
    """

    def _excess(self, F: Any, pred: Any, label: Any) -> Any:
        return F.square(super()._excess(F, pred, label))


class TripletLoss(Loss):
    """max(0, |positive - pred|^2 - |negative - pred|^2 + margin) of each sample.

    A call takes predictions, and what shall be near and far: `loss(pred, positive, negative)`.

    Parameters
    ----------
    margin : float, default 1
        Margin.
    weight, batch_axis
        As for `Loss`.

    Examples
    --------
    >>> near, far = mx.nd.array([[1, 0]]), mx.nd.array([[1, 1]])
    >>> mx.gluon.loss.TripletLoss(margin=3)(mx.nd.zeros((1, 2)), near, far).asnumpy().tolist()
    [2.0]
    """

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0,
                 **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, positive: Any, negative: Any) -> Any:
        distance = F.sum(F.square(_reshape_like(F, positive, pred) - pred)
                         - F.square(_reshape_like(F, negative, pred) - pred),
                         axis=self._batch_axis, exclude=True)
        return _apply_weighting(F, F.relu(distance + self._margin), self._weight)


class CosineEmbeddingLoss(Loss):
    """1 - cos(input1, input2) for label 1, max(0, cos - margin) for -1, and 0 for other labels.

    A call takes two arrays of vectors, and labels: `loss(input1, input2, label)`.

    Parameters
    ----------
    weight, batch_axis
        As for `Loss`.
    margin : float, default 0
        Margin.

    Examples
    --------
    >>> loss = mx.gluon.loss.CosineEmbeddingLoss()
    >>> x, y = mx.nd.array([[1, 0], [1, 0]]), mx.nd.array([[0, 2], [3, 0]])
    >>> loss(x, y, mx.nd.array([1, -1])).asnumpy().tolist()
    [[1.0], [1.0]]
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, margin: float = 0,
                 **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, input1: Any, input2: Any, label: Any,
                       sample_weight: Any = None) -> Any:
        input1 = _reshape_like(F, input1, input2)
        product = F.sum(input1 * input2, axis=-1).reshape((-1, 1))
        lengths = [F.norm(x, axis=-1).reshape((-1, 1)) for x in (input1, input2)]
        cosine = product / F.broadcast_maximum(lengths[0] * lengths[1], F.ones_like(product) * TINY)
        label = label.reshape((-1, 1))
        loss = (F.broadcast_mul(label == 1, 1 - cosine)
                + F.broadcast_mul(label == -1, F.relu(cosine - self._margin)))
        return _apply_weighting(F, loss, self._weight, sample_weight)
