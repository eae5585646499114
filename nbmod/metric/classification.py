"""Metrics of predicted classes: accuracy, top-k accuracy, statistics of a confusion matrix."""

from __future__ import annotations

import math

import numpy

from ..base import ArgumentError, CheckError, checks_numbers
from .eval_metric import Arrays, EvalMetric, Names, alias, check_label_shapes, pairs_of, register

__all__ = ["Accuracy", "TopKAccuracy", "F1", "MCC", "PCC"]


def _flat_classes(label: numpy.ndarray, pred: numpy.ndarray, axis: int
                  ) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Labels and predicted classes as flat int32 arrays; scores are argmaxed along `axis`."""
    if pred.shape != label.shape:
        pred = pred.argmax(axis)
    label, pred = label.astype(numpy.int32).ravel(), pred.astype(numpy.int32).ravel()
    check_label_shapes(label, pred)
    return label, pred


@alias("acc")
@register
class Accuracy(EvalMetric):
    """The fraction of predictions that equal their label.

    Parameters
    ----------
    axis : int, default 1
        The axis of scores that counts the classes.

    Notes
    -----
    Predictions have the shape of the label and are classes, or are scores with one more axis, of
    which the class with the largest counts.  The value is (number of equal elements) / (number of
    elements).

    Examples
    --------
    >>> metric = mx.metric.Accuracy()
    >>> scores = mx.nd.array([[0.3, 0.7], [0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    >>> metric.update([mx.nd.array([1, 0, 0, 1])], [scores])
    >>> metric.get()
    ('accuracy', 0.75)
    """

    def __init__(self, axis: int = 1, name: str = "accuracy", output_names: Names = None,
                 label_names: Names = None):
        super().__init__(name, output_names, label_names, axis=axis, has_global_stats=True)
        self.axis = axis

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs_of(labels, preds):
            label, pred = _flat_classes(label, pred, self.axis)
            self._add(int((pred == label).sum()), pred.size)


@alias("top_k_accuracy", "top_k_acc")
@register
class TopKAccuracy(EvalMetric):
    """The fraction of labels that are among the classes with the `top_k` largest scores.

    Parameters
    ----------
    top_k : int
        Number of classes, at least 2; `Accuracy` is for 1, which is the default of the signature
        and is refused.

    Notes
    -----
    The reported name is `name`, an underscore and `top_k`.

    Raises
    ------
    ArgumentError
        If `top_k` is less than 2; from `update` if predictions are not of shape (N, classes).

    Examples
    --------
    >>> metric = mx.metric.TopKAccuracy(top_k=2)
    >>> scores = mx.nd.array([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4]])
    >>> metric.update([mx.nd.array([2, 1])], [scores])
    >>> metric.get()
    ('top_k_accuracy_2', 0.5)
    """

    @checks_numbers
    def __init__(self, top_k: int = 1, name: str = "top_k_accuracy", output_names: Names = None,
                 label_names: Names = None):
        if top_k <= 1:
            raise CheckError(f"top_k is {top_k}; please use Accuracy if it is no more than 1")
        super().__init__(f"{name}_{top_k}", output_names, label_names, top_k=top_k,
                         has_global_stats=True)
        self.top_k = top_k

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs_of(labels, preds):
            if pred.ndim != 2:
                raise CheckError(f"{self.name}: predictions have shape {pred.shape}, "
                                 "expected (N, classes)")
            check_label_shapes(label, pred)
            count = min(self.top_k, pred.shape[1])
            best = numpy.argpartition(pred.astype(numpy.float32), -count, axis=1)[:, -count:]
            hits = best == label.astype(numpy.int32).reshape(-1, 1)
            self._add(int(hits.sum()), label.shape[0])


class _BinaryCounts:
    """True and false positives and negatives."""

    def __init__(self) -> None:
        self.true_pos = self.false_pos = self.true_neg = self.false_neg = 0

    def add(self, label: numpy.ndarray, pred: numpy.ndarray) -> None:
        """Count (N,) labels against (N, 2) scores; the second column is the positive class."""
        label = label.astype(numpy.int32).ravel()
        if numpy.unique(label).size > 2:
            raise ArgumentError("F1 and MCC are for two classes, the labels have "
                                f"{numpy.unique(label).tolist()[:10]}")
        check_label_shapes(label, pred)
        positive, actual = pred.argmax(1) == 1, label == 1
        self.true_pos += int((positive & actual).sum())
        self.false_pos += int((positive & ~actual).sum())
        self.false_neg += int((~positive & actual).sum())
        self.true_neg += int((~positive & ~actual).sum())

    @property
    def total(self) -> int:
        return self.true_pos + self.false_pos + self.true_neg + self.false_neg

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 where there is no positive at all."""
        wrong = self.false_pos + self.false_neg
        return 2 * self.true_pos / (2 * self.true_pos + wrong) if self.true_pos else 0.0

    @property
    def matthews(self) -> float:
        """Correlation of labels and predictions; empty rows and columns are left out."""
        margins = (self.true_pos + self.false_pos, self.true_pos + self.false_neg,
                   self.true_neg + self.false_pos, self.true_neg + self.false_neg)
        product = math.prod(margin for margin in margins if margin)
        over = self.true_pos * self.true_neg - self.false_pos * self.false_neg
        return over / math.sqrt(product)


class _BinaryMetric(EvalMetric):
    """A statistic of `_BinaryCounts`: mean over batches ('macro') or over all counts ('micro')."""

    figure = ""

    def __init__(self, name: str, output_names: Names, label_names: Names, average: str):
        if average not in ("macro", "micro"):
            raise ArgumentError(f"{name}: average is {average!r}, expected 'macro' or 'micro'")
        self.average = average
        super().__init__(name, output_names, label_names, average=average, has_global_stats=True)

    def reset(self) -> None:
        super().reset()
        self._counts, self._global_counts = _BinaryCounts(), _BinaryCounts()

    def reset_local(self) -> None:
        super().reset_local()
        self._counts = _BinaryCounts()

    def update(self, labels: Arrays, preds: Arrays) -> None:
        pairs = pairs_of(labels, preds)
        if self.average == "macro":
            batch = _BinaryCounts()
            for label, pred in pairs:
                batch.add(label, pred)
            self._add(getattr(batch, self.figure), 1)
            return
        for label, pred in pairs:
            self._counts.add(label, pred)
            self._global_counts.add(label, pred)
        self.num_inst, self.global_num_inst = self._counts.total, self._global_counts.total
        self.sum_metric = getattr(self._counts, self.figure) * self.num_inst
        self.global_sum_metric = getattr(self._global_counts, self.figure) * self.global_num_inst


@register
class F1(_BinaryMetric):
    """F1 score of binary classification, the harmonic mean of precision and recall of class 1.

    Parameters
    ----------
    average : {'macro', 'micro'}, default 'macro'
        'macro': the mean of the scores of all batches.  'micro': the score of all elements
        together.

    Raises
    ------
    ArgumentError
        From `update` if there are more than two classes among the labels.

    Notes
    -----
    2 TP / (2 TP + FP + FN), with the numbers of true positives, false positives and false
    negatives; 0 if there are no true positives.  Predictions are scores of shape (N, 2).

    Examples
    --------
    >>> metric = mx.metric.F1()
    >>> scores = mx.nd.array([[0.3, 0.7], [0.9, 0.1], [0.4, 0.6], [0.8, 0.2]])
    >>> metric.update([mx.nd.array([1, 0, 0, 1])], [scores])
    >>> metric.get()
    ('f1', 0.5)
    """

    figure = "f1"

    def __init__(self, name: str = "f1", output_names: Names = None, label_names: Names = None,
                 average: str = "macro"):
        super().__init__(name, output_names, label_names, average)


@register
class MCC(_BinaryMetric):
    """Matthews correlation coefficient of binary classification.

    Parameters
    ----------
    average : {'macro', 'micro'}, default 'macro'
        'macro': the mean of the coefficients of all batches.  'micro': the coefficient of all
        elements together.

    Raises
    ------
    ArgumentError
        From `update` if there are more than two classes among the labels.

    Notes
    -----
    (TP TN - FP FN) / sqrt((TP + FP) (TP + FN) (TN + FP) (TN + FN)), where factors that are 0 are
    left out.  Predictions are scores of shape (N, 2).

    References
    ----------
    Matthews, "Comparison of the predicted and observed secondary structure of T4 phage lysozyme",
    1975.

    Examples
    --------
    >>> metric = mx.metric.MCC()
    >>> scores = mx.nd.array([[0.3, 0.7], [0.9, 0.1], [0.4, 0.6], [0.8, 0.2]])
    >>> metric.update([mx.nd.array([1, 0, 0, 1])], [scores])
    >>> metric.get()
    ('mcc', 0.0)
    """

    figure = "matthews"

    def __init__(self, name: str = "mcc", output_names: Names = None, label_names: Names = None,
                 average: str = "macro"):
        super().__init__(name, output_names, label_names, average)


def _multiclass_matthews(matrix: numpy.ndarray) -> float:
    """R_K of Gorodkin (2004) from a confusion matrix; NaN where one side has a single class."""
    total = matrix.sum()
    predicted, actual = matrix.sum(1), matrix.sum(0)
    spread = (predicted * (total - predicted)).sum() * (actual * (total - actual)).sum()
    if not spread:
        return math.nan
    agreement = matrix.trace() * total - (predicted * actual).sum()
    return float(agreement / math.sqrt(spread))


@register
class PCC(EvalMetric):
    """Correlation of labels and predicted classes, for any number of classes (`MCC` for two).

    Parameters
    ----------
    has_global_stats : bool, default True
        Whether `get_global` has the value since `reset`.

    Notes
    -----
    The coefficient R_K of the confusion matrix C of all elements since the reset, with sums p over
    its rows (predictions), a over its columns (labels) and n of all ::

        (n trace(C) - p a) / sqrt(sum(p (n - p)) sum(a (n - a)))

    NaN if predictions or labels are all of one class.

    References
    ----------
    Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004.

    Examples
    --------
    >>> metric = mx.metric.PCC()
    >>> metric.update([mx.nd.array([0, 1, 2, 2])], [mx.nd.array([0, 1, 2, 1])])
    >>> name, value = metric.get()
    >>> name, round(value, 4)
    ('pcc', 0.7)
    """

    def __init__(self, name: str = "pcc", output_names: Names = None, label_names: Names = None,
                 has_global_stats: bool = True):
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    def reset(self) -> None:
        self.num_inst = self.global_num_inst = 0
        self._matrix = self._global_matrix = numpy.zeros((0, 0))

    def reset_local(self) -> None:
        self.num_inst = 0
        self._matrix = numpy.zeros((0, 0))

    @property
    def sum_metric(self) -> float:
        """The coefficient times the number of batches since the last `reset_local`."""
        return _multiclass_matthews(self._matrix) * self.num_inst

    @property
    def global_sum_metric(self) -> float:
        """The coefficient times the number of batches since the last `reset`."""
        return _multiclass_matthews(self._global_matrix) * self.global_num_inst

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs_of(labels, preds):
            label, pred = _flat_classes(label, pred, 1)
            classes = int(max(label.max(initial=0), pred.max(initial=0))) + 1
            batch = numpy.zeros((classes, classes))
            numpy.add.at(batch, (pred, label), 1)
            self._matrix = _grown_sum(self._matrix, batch)
            self._global_matrix = _grown_sum(self._global_matrix, batch)
        self.num_inst += 1
        self.global_num_inst += 1


def _grown_sum(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """a + b for square matrices of which the smaller one is padded with zeros."""
    total = numpy.zeros((max(len(a), len(b)),) * 2)
    total[:len(a), :len(a)] += a
    total[:len(b), :len(b)] += b
    return total
