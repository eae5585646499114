"""`mx.gluon.loss`: losses of each sample, as blocks that are called on arrays or symbols.

All but `KLDivLoss`, `TripletLoss`, `PoissonNLLLoss`, `CTCLoss` and `SDMLLoss` give the mean over
all axes but `batch_axis`; `weight` multiplies it, and `sample_weight`, which broadcasts to the
loss, weights its elements.
"""

from __future__ import annotations

from typing import Any

from ..base import ArgumentError, CheckError
from .base_loss import TINY, Loss, _apply_weighting, _reshape_like
from .margin_losses import CosineEmbeddingLoss, HingeLoss, SquaredHingeLoss, TripletLoss

__all__ = ["CTCLoss", "CosineEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss", "L1Loss",
           "L2Loss", "LogisticLoss", "Loss", "PoissonNLLLoss", "SDMLLoss", "SigmoidBCELoss",
           "SigmoidBinaryCrossEntropyLoss", "SoftmaxCELoss", "SoftmaxCrossEntropyLoss",
           "SquaredHingeLoss", "TripletLoss"]
__dir__ = __all__.copy


class L2Loss(Loss):
    """Half the mean square of label - pred.

    Parameters
    ----------
    weight : float, default 1.0
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples.

    Examples
    --------
    >>> mx.gluon.loss.L2Loss()(mx.nd.array([[1, 2]]), mx.nd.array([[1, 4]])).asnumpy().tolist()
    [1.0]
    """

    def __init__(self, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        loss = F.square(_reshape_like(F, label, pred) - pred)
        weight = None if self._weight is None else self._weight / 2
        loss = _apply_weighting(F, loss, weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)


class L1Loss(Loss):
    """The mean of |label - pred|.

    Parameters
    ----------
    weight, batch_axis
        As for `Loss`.

    Examples
    --------
    >>> mx.gluon.loss.L1Loss()(mx.nd.array([[1, 2]]), mx.nd.array([[1, 4]])).asnumpy().tolist()
    [1.0]
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        return self._mean(F, F.abs(_reshape_like(F, label, pred) - pred), sample_weight)


def _cross_entropy_of_logits(F: Any, pred: Any, label: Any) -> Any:
    """log(1 + exp(pred)) - pred label, which does not overflow."""
    return F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Binary cross entropy of logits, or of probabilities with `from_sigmoid`.

    Parameters
    ----------
    from_sigmoid : bool, default False
        Whether predictions are probabilities.
    weight, batch_axis
        As for `Loss`.

    Examples
    --------
    >>> loss = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)
    >>> losses = loss(mx.nd.array([[0.5], [1]]), mx.nd.ones((2, 1)))
    >>> [round(x, 2) for x in losses.asnumpy().tolist()]
    [0.69, 0.0]
    """

    def __init__(self, from_sigmoid: bool = False, weight: float | None = None,
                 batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None,
                       pos_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        if self._from_sigmoid:
            positive = F.log(pred + TINY) * label
            if pos_weight is not None:
                positive = F.broadcast_mul(positive, pos_weight)
            loss = -(positive + F.log(1.0 - pred + TINY) * (1.0 - label))
        elif pos_weight is None:
            loss = _cross_entropy_of_logits(F, pred, label)
        else:
            weights = 1 + F.broadcast_mul(pos_weight - 1, label)
            loss = pred - pred * label + weights * (
                F.Activation(-F.abs(pred), act_type="softrelu") + F.relu(-pred))
        return self._mean(F, loss, sample_weight)


class SoftmaxCrossEntropyLoss(Loss):
    """Cross entropy of the softmax of pred.

    Labels have the shape of predictions without the axis of the classes; with it where they are
    probabilities.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes.
    sparse_label : bool, default True
        Whether labels are numbers of classes; otherwise they are probabilities.
    from_logits : bool, default False
        Whether predictions are logarithms of probabilities.
    weight, batch_axis
        As for `Loss`.

    Examples
    --------
    >>> loss, pred = mx.gluon.loss.SoftmaxCrossEntropyLoss(), mx.nd.zeros((2, 4))
    >>> [round(x, 2) for x in loss(pred, mx.nd.array([0, 3])).asnumpy().tolist()]    # log(4)
    [1.39, 1.39]
    """

    def __init__(self, axis: int = -1, sparse_label: bool = True, from_logits: bool = False,
                 weight: float | None = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(pred * _reshape_like(F, label, pred), axis=self._axis, keepdims=True)
        return self._mean(F, loss, sample_weight)


class KLDivLoss(Loss):
    """The sum of label (log(label) - pred), as MXNet 1.9 has it.

    Parameters
    ----------
    from_logits : bool, default True
        Whether predictions are logarithms of probabilities.
    axis : int, default -1
        Axis of the classes.
    weight, batch_axis
        As for `Loss`.

    Examples
    --------
    >>> label = mx.nd.array([[0.5, 0.5]])
    >>> float(mx.gluon.loss.KLDivLoss()(label.log(), label).abs().asscalar()) < 1e-6
    True
    """

    def __init__(self, from_logits: bool = True, axis: int = -1, weight: float | None = None,
                 batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        loss = _apply_weighting(F, label * (F.log(label + TINY) - pred), self._weight,
                                sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class HuberLoss(Loss):
    """Half the square of label - pred over rho up to rho, and |label - pred| - rho / 2 beyond.

    Parameters
    ----------
    rho : float, default 1
        Where the two meet.
    weight, batch_axis
        As for `Loss`.

    Examples
    --------
    >>> mx.gluon.loss.HuberLoss()(mx.nd.array([[1], [3]]), mx.nd.zeros((2, 1))).asnumpy().tolist()
    [0.5, 2.5]
    """

    def __init__(self, rho: float = 1, weight: float | None = None, batch_axis: int = 0,
                 **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        loss = F.abs(_reshape_like(F, label, pred) - pred)
        loss = F.where(loss > self._rho, loss - 0.5 * self._rho, (0.5 / self._rho) * F.square(loss))
        return self._mean(F, loss, sample_weight)


class LogisticLoss(Loss):
    """The mean of log(1 + exp(-pred label)), for labels -1 and 1, or 0 and 1 if 'binary'.

    Parameters
    ----------
    weight, batch_axis
        As for `Loss`.
    label_format : {'signed', 'binary'}, default 'signed'
        Values of labels.

    Examples
    --------
    >>> loss = mx.gluon.loss.LogisticLoss(label_format="binary")
    >>> losses = loss(mx.nd.array([[0], [9]]), mx.nd.ones((2, 1)))
    >>> [round(x, 2) for x in losses.asnumpy().tolist()]
    [0.69, 0.0]
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0,
                 label_format: str = "signed", **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ArgumentError("label_format can only be signed or binary, received "
                                f"{label_format!r}")
        self._label_format = label_format

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        return self._mean(F, _cross_entropy_of_logits(F, pred, label), sample_weight)


class PoissonNLLLoss(Loss):
    """The mean over all elements of exp(pred) - target pred.

    Parameters
    ----------
    weight : float, optional
        Factor of the loss.
    from_logits : bool, default True
        Whether predictions are logarithms of rates; else the loss is pred - target log(pred).
    batch_axis : int, default 0
        Accepted for compatibility.
    compute_full : bool, default False
        Whether to add Stirling's approximation of log(target!) where target > 1.

    Examples
    --------
    >>> loss = mx.gluon.loss.PoissonNLLLoss()
    >>> loss(mx.nd.array([[0], [0]]), mx.nd.array([[1], [2]])).asnumpy().tolist()
    [1.0]
    """

    def __init__(self, weight: float | None = None, from_logits: bool = True, batch_axis: int = 0,
                 compute_full: bool = False, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._compute_full = from_logits, compute_full

    def hybrid_forward(self, F: Any, pred: Any, target: Any, sample_weight: Any = None,
                       epsilon: float = 1e-8) -> Any:
        target = _reshape_like(F, target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target) - target + 0.5 * F.log(2 * target * 3.141592653589793)
            loss = loss + stirling * (target > 1)
        return F.mean(_apply_weighting(F, loss, self._weight, sample_weight))


class CTCLoss(Loss):
    """Connectionist temporal classification; the blank is the last class.

    Labels count from 0; -1 fills short ones.  A call takes the lengths of predictions and of labels
    after them, `loss(pred, label, pred_lengths, label_lengths)`.

    Parameters
    ----------
    layout : {'NTC', 'TNC'}, default 'NTC'
        Axes of predictions: samples, steps, classes.
    label_layout : {'NT', 'TN'}, default 'NT'
        Axes of labels.
    weight : float, optional
        Factor of the loss.

    Examples
    --------
    >>> pred, label = mx.nd.zeros((2, 20, 4)), mx.nd.array([[1, 0], [2, 2]])
    >>> mx.gluon.loss.CTCLoss()(pred, label).shape
    (2,)
    """

    def __init__(self, layout: str = "NTC", label_layout: str = "NT",
                 weight: float | None = None, **kwargs: Any):
        if layout not in ("NTC", "TNC"):
            raise CheckError("Only 'NTC' and 'TNC' layouts for pred are supported. Got: "
                             f"{layout!r}")
        if label_layout not in ("NT", "TN"):
            raise CheckError("Only 'NT' and 'TN' layouts for label are supported. Got: "
                             f"{label_layout!r}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout = layout

    def hybrid_forward(self, F: Any, pred: Any, label: Any, pred_lengths: Any = None,
                       label_lengths: Any = None, sample_weight: Any = None) -> Any:
        if self._layout == "NTC":
            pred = F.swapaxes(pred, dim1=0, dim2=1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, dim1=0, dim2=1)
        loss = F.CTCLoss(pred, label, pred_lengths, label_lengths,
                         use_data_lengths=pred_lengths is not None,
                         use_label_lengths=label_lengths is not None, blank_label="last")
        return _apply_weighting(F, loss, self._weight, sample_weight)


class SDMLLoss(Loss):
    """Smoothed deep metric learning: rows of x1 and x2 with one index belong together.

    The loss of row i is the divergence of the smoothed unit vector of i from the softmax of the
    negative squared distances of x1[i] from all x2[j].

    Parameters
    ----------
    smoothing_parameter : float, default 0.3
        Probability of the other rows together.
    weight : float, default 1.0
        Has no effect, as in MXNet.
    batch_axis : int, default 0
        Accepted for compatibility.

    Examples
    --------
    >>> rows = mx.nd.array([[1, 2], [5, 4]])
    >>> mx.gluon.loss.SDMLLoss()(rows, rows + 0.1).shape
    (2,)
    """

    def __init__(self, smoothing_parameter: float = 0.3, weight: float | None = 1.0,
                 batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:
        differences = F.broadcast_sub(F.expand_dims(x1, axis=1), F.expand_dims(x2, axis=0))
        distances = F.sum(F.square(differences), axis=2)
        return self.kl_loss(F.log_softmax(-distances, axis=1), self._labels(F, x1))

    def _labels(self, F: Any, rows: Any) -> Any:
        """1 - smoothing on the diagonal, the rest of each row in equal parts beside it."""
        index = F.contrib.arange_like(rows, axis=0)
        own = F.broadcast_equal(F.reshape(index, shape=(-1, 1)), F.reshape(index, shape=(1, -1)))
        others = F.broadcast_div(1 - own, F.sum(1 - own, axis=1, keepdims=True))
        return own * (1 - self.smoothing_parameter) + others * self.smoothing_parameter


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss
SoftmaxCELoss = SoftmaxCrossEntropyLoss
