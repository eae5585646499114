"""Loss layers: the forward pass outputs the prediction, the backward pass the gradient of the loss.

None of them reads a head gradient, and the gradient of labels is zero.  SoftmaxOutput and SVMOutput
view data as (R, K, L): K classes at R x L positions, with one label per position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...base import MXNetError
from ...core.config import CONFIG
from ..elementwise.float_op import FloatOp, accumulator, as_float32, require_float
from ..elementwise.formula import evaluate
from ..elementwise.kernel_cache import prepare
from ..elementwise.program import Assign, Program, run
from ..jit import kernel, prange
from ..op import Call, Op, Run, Tensor, all_of
from ..rules import fill_zero
from ..shape import PartialShape, ShapeMismatch, is_known, require_rank, size_of, unify
from .softmax_kernels import PARALLEL_FROM, ROWS_FROM, AxisView

__all__ = ["SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput",
           "MAERegressionOutput", "SVMOutput", "MakeLoss", "IdentityAttachKLSparseReg"]

NO_LABEL = -2 ** 62
"""An `ignored` label that matches no label."""


def label_like(label: PartialShape, choices: Iterable[PartialShape]) -> PartialShape:
    """`label` unified with the first of `choices` that fits; ShapeMismatch if none does."""
    choices = list(dict.fromkeys(choices))
    for choice in choices:
        try:
            return unify(label, choice)
        except ShapeMismatch:
            continue
    raise ShapeMismatch(f"label has shape {label}, expected " + " or ".join(map(str, choices)))


class _Loss(FloatOp):
    """Base of loss layers: data and label of one floating point type, no gradient for label."""

    inputs: ClassVar = ("data", "label")
    needs: ClassVar = ("output", "label")
    inplace: ClassVar = (("data", "output"),)


# -- SoftmaxOutput --------------------------------------------------------------------------


class ClassTargets(NamedTuple):
    """Targets of SoftmaxOutput for the class of the label and for the others; the ignored label."""

    right: Any
    wrong: Any
    ignored: int


@kernel(parallel=True, fastmath=True)
def _label_gradient(y, label, gx, factor, right, wrong, ignored):
    """gx = factor (y - target); y, gx (R, K * L), label (R, L).  See `ClassTargets`."""
    rows, lanes = label.shape
    size = y.shape[1] // lanes
    zero = y.dtype.type(0)
    for r in prange(rows):
        for i in range(y.shape[1]):
            gx[r, i] = (y[r, i] - wrong) * factor
        for j in range(lanes):
            k = int(label[r, j])
            if k == ignored:
                for i in range(size):
                    gx[r, i * lanes + j] = zero
            elif 0 <= k < size:
                gx[r, k * lanes + j] = (y[r, k * lanes + j] - right) * factor


@kernel(fastmath=True)
def _small_label_gradient(y, label, gx, factor, right, wrong, ignored):
    """`_label_gradient` on the calling thread; all of gx first, as rows may be short vectors."""
    rows, lanes = label.shape
    size = y.shape[1] // lanes
    zero = y.dtype.type(0)
    flat, target = y.reshape(-1), gx.reshape(-1)
    for i in range(flat.size):
        target[i] = (flat[i] - wrong) * factor
    for r in range(rows):
        for j in range(lanes):
            k = int(label[r, j])
            if k == ignored:
                for i in range(size):
                    gx[r, i * lanes + j] = zero
            elif 0 <= k < size:
                gx[r, k * lanes + j] = (y[r, k * lanes + j] - right) * factor


def _eager_label_gradient(y: np.ndarray, label: np.ndarray, gx: np.ndarray, factor: np.floating,
                          target: ClassTargets) -> None:
    """`_label_gradient` with NumPy."""
    rows, lanes = label.shape
    y, gx = y.reshape(rows, -1, lanes), gx.reshape(rows, -1, lanes)
    whole = np.nan_to_num(np.trunc(label), nan=-1).astype(np.int64)
    np.subtract(y, target.wrong, out=gx)
    row, lane = np.nonzero((whole >= 0) & (whole < y.shape[1]))
    own = (row, whole[row, lane], lane)
    gx[own] = y[own] - target.right
    np.multiply(gx, factor, out=gx)
    row, lane = np.nonzero(whole == target.ignored)
    gx[row, :, lane] = 0


class ClassLabels(NamedTuple):
    """Labels that SoftmaxOutput reads, the shape of all, what they may be, and how many are not."""

    flat: Any
    shape: tuple[int, ...]
    classes: Any
    ignored: Any
    outside: np.ndarray

    @classmethod
    def of(cls, label: np.ndarray, view: AxisView, ignored: int) -> ClassLabels:
        """The labels of the positions of a view."""
        kind = label.dtype.type
        return cls(label.reshape(-1)[:view.rows * view.lanes], label.shape, kind(view.size),
                   kind(ignored), np.zeros(1, np.int64))

    def are_allowed(self) -> Any:
        """Whether each label, truncated, is a class or ignored; NaN is neither."""
        whole = np.trunc(self.flat)
        return (whole >= 0) & (whole < self.classes) | (whole == self.ignored)

    def error(self) -> MXNetError:
        """The error that names the first label that is neither."""
        allowed = self.are_allowed()
        first = int(np.argmin(allowed))
        position = tuple(map(int, np.unravel_index(first, self.shape)))
        return MXNetError(
            f"label{list(position)} is {self.flat[first]:g}, expected one of {self.classes:g} "
            f"classes, which count from 0, or ignore_label {self.ignored:g}; "
            f"{np.count_nonzero(~allowed)} of {self.flat.size} labels are neither "
            "(NBMOD_CHECK_LABELS=0 accepts them, as MXNet does)")


@kernel
def _count_outside(label, classes, ignored, count):
    """count[0]: labels, truncated, that are neither one of so many classes nor `ignored`."""
    total = 0
    for i in range(label.size):
        whole = np.trunc(label[i])
        total += not (0 <= whole < classes or whole == ignored)
    count[0] = total


def _require_classes(labels: ClassLabels) -> None:
    """MXNetError for a label that is neither a class nor ignored."""
    _count_outside(labels.flat, labels.classes, labels.ignored, labels.outside)
    if labels.outside[0]:
        raise labels.error()


def _eager_require_classes(labels: ClassLabels) -> None:
    """`_require_classes` with NumPy."""
    if not labels.are_allowed().all():
        raise labels.error()


@dataclass(frozen=True)
class SoftmaxOutput(_Loss, name="SoftmaxOutput", aliases=("Softmax",)):
    """softmax, with the gradient of its cross entropy to `label`: scale (y - onehot(label)).

    data (N, K), label (N,).  `multi_output` makes axis 1 of data (N, K, D, ...) the classes, with
    label (N, D ...), (N, 1, D, ...) or (N, D * ...).  `preserve_shape` makes the last axis the
    classes, with a label for each position; without either data is (N, rest) and, as in MXNet, the
    first N labels are read.  A label shaped like data holds probabilities: gradient
    grad_scale (y - label), never normalised.

    scale is grad_scale divided by 1 ("null"), by the number of labels ("batch"), or by the number
    of labels that are not `ignore_label`, even without `use_ignore` ("valid").  "null" with
    `multi_output` divides by the positions of a sample.  With `use_ignore` positions with
    `ignore_label` have no gradient.
    Labels are truncated to integers.  One that is neither a class nor `ignore_label` is an error;
    with NBMOD_CHECK_LABELS=0, and on GPUs, its gradient is scale y.
    `smooth_alpha` is the part of the target that the other classes share (not for `multi_output`).

    With `out_grad` the gradient is multiplied by that of the output, which `backward` must then be
    given.  (MXNet 1.9.1 multiplies by the output itself, and reads no gradient of it.)
    """

    grad_scale: float = 1.0
    ignore_label: float = -1.0
    multi_output: bool = False
    use_ignore: bool = False
    preserve_shape: bool = False
    normalization: Literal["batch", "null", "valid"] = "null"
    out_grad: bool = False
    smooth_alpha: float = 0.0

    def list_needs(self):
        return ("output", "label", "ograd") if self.out_grad else self.needs

    def infer_shape(self, ins, outs):
        data, label = unify(ins[0], outs[0], "data and output"), ins[1]
        if data is None:
            return [data, label], [data]
        require_rank(data, 2, "at least (N, K)")
        return [data, label_like(label, self._label_shapes(data))], [data]

    def _label_shapes(self, data: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Shapes of label that fit `data`, the default first."""
        if not self.multi_output:
            return [data[:-1], data]
        batch, space = data[0], data[2:]
        return [(batch, size_of(space)), (batch, *space), (batch, 1, *space), data]

    def axis_view(self, data: Tensor) -> AxisView:
        if self.multi_output:
            return AxisView.along(data.shape, 1)
        if self.preserve_shape:
            return AxisView.along(data.shape, -1)
        return AxisView(data.shape[0], size_of(data.shape[1:]), 1)

    def scratch(self, ins, outs):
        return self.axis_view(outs[0]).work(outs[0].dtype)

    def prepare(self, ins, outs, call):
        return self.axis_view(outs[0]).softmax(ins[0], outs[0], call.scratch[:2])

    def forward(self, ins, outs, call):
        self.axis_view(outs[0]).eager_softmax(ins[0], outs[0])

    def backward(self, ins, outs, call):
        self._gradient(ins, outs, _eager_label_gradient, _eager_require_classes)()

    def prepare_backward(self, ins, outs, call):
        size = ins[0].size
        if size < ROWS_FROM:
            return self._gradient(ins, outs, _eager_label_gradient, _eager_require_classes)
        rows = _small_label_gradient if size < PARALLEL_FROM else _label_gradient
        return self._gradient(ins, outs, lambda *arguments: rows(*arguments[:-1], *arguments[-1]),
                              _require_classes)

    def _gradient(self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
                  label_gradient: Callable[..., None], require_classes: Callable[..., None]) -> Run:
        (output, label, *ograd), gradient = ins, outs[0]
        # The label's gradient is 0, and hardly ever wanted.
        runs: list[Run] = [] if outs[1] is None else [partial(fill_zero, outs[1:])]
        if gradient is not None:
            runs.append(self._loss_gradient(output, label, gradient, label_gradient,
                                            require_classes))
            runs += [partial(np.multiply, gradient, each, gradient) for each in ograd]
        return all_of(runs)

    def _loss_gradient(self, output: np.ndarray, label: np.ndarray, gradient: np.ndarray,
                       label_gradient: Callable[..., None],
                       require_classes: Callable[..., None]) -> Run:
        """Computes the gradient of data for a head gradient of one."""
        if label.shape == output.shape:
            return lambda: self._probability_gradient(output, label, gradient)
        view, kind = self.axis_view(output), output.dtype.type
        y, gx = (tensor.reshape(view.rows, -1) for tensor in (output, gradient))
        labels, target = ClassLabels.of(label, view, self.ignored), self._targets(view, kind)
        read = labels.flat.reshape(-1, view.lanes)

        def factor() -> Any:
            divisor = {"batch": label.size, "null": view.lanes}.get(self.normalization)
            if divisor is None:
                divisor = max(int(np.count_nonzero(np.trunc(label) != self.ignored)), 1)
            return kind(as_float32(as_float32(self.grad_scale) / divisor))

        fixed = None if self.normalization == "valid" else factor()

        def run() -> None:
            if CONFIG.check_labels:
                require_classes(labels)
            label_gradient(y, read, gx, factor() if fixed is None else fixed, target)

        return run

    def _targets(self, view: AxisView, kind: type) -> ClassTargets:
        smoothing = 0 if self.multi_output else as_float32(self.smooth_alpha)
        others = kind(as_float32(smoothing / max(view.size - 1, 1)))
        ignored = self.ignored if self.use_ignore else NO_LABEL
        return ClassTargets(kind(1 - smoothing), others, ignored)

    @property
    def ignored(self) -> int:
        """`ignore_label` truncated, as labels are; what no label is where no integer is it."""
        return int(self.ignore_label) if abs(self.ignore_label) < -NO_LABEL else NO_LABEL

    def _probability_gradient(self, output: np.ndarray, label: np.ndarray, gradient: np.ndarray
                              ) -> None:
        np.subtract(output, label, out=gradient)
        np.multiply(gradient, gradient.dtype.type(as_float32(self.grad_scale)), out=gradient)


# -- regression -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Regression(Op):
    """y = f(data); gradient of data: an error of y times grad_scale / (labels per sample)."""

    shapes: ClassVar = "label is shaped like data, or (N,) for data (N, 1)"
    inputs: ClassVar = ("data", "label")
    needs: ClassVar = ("output", "label")
    inplace: ClassVar = (("data", "output"),)
    accumulates_backward: ClassVar = True
    prediction: ClassVar = Program("prediction", (Assign("y", "x"),), ("x",), ("y",))
    error: ClassVar = Program("difference", (Assign("g", "s * (y - t)"),), ("y", "t"), ("g",),
                                      ("s",))
    grad_scale: float = 1.0

    def infer_shape(self, ins, outs):
        data, label = unify(ins[0], outs[0], "data and output"), ins[1]
        if data is None or label is not None and not is_known(label):
            return [data, label], [data]
        if label is None:
            label = data[:1] if len(data) == 2 and data[1] == 1 else data
        elif is_known(data) and (label[:1] != data[:1] or size_of(label) != size_of(data)):
            raise ShapeMismatch(f"label has shape {label}, expected {data}")
        return [data, label], [data]

    def infer_type(self, ins, outs):
        require_float(self, ins)
        return super().infer_type(ins, outs)

    def forward(self, ins, outs, call):
        run(self.prediction, ins[:1], outs)

    def prepare(self, ins, outs, call):
        return prepare(self.prediction, ins[:1], outs)

    def backward(self, ins, outs, call):
        self._gradient(run, ins, outs, call)
        if not (call.add and call.add[1]):
            fill_zero(outs[1:])

    def prepare_backward(self, ins, outs, call):
        if outs[0] is None or outs[1] is not None:
            return partial(self.backward, ins, outs, call)
        return self._gradient(prepare, ins, outs, call)

    def _gradient(self, execute: Callable[..., Any], ins: Sequence[Any], outs: Sequence[Any],
                  call: Call) -> Any:
        output, label = ins
        if outs[0] is None:
            return None
        per_sample = max(label.size // max(len(output), 1), 1)
        arrays = [output, label.reshape(output.shape)]
        scale = as_float32(as_float32(self.grad_scale) / per_sample)
        return execute(self.error, arrays, outs[:1], [scale], call.add[:1])


class LinearRegressionOutput(_Regression, name="LinearRegressionOutput",
                             aliases=("_sparse_LinearRegressionOutput",)):
    """y = data; gradient grad_scale (y - label) / (labels per sample).

    label is shaped like data, or (N,) for data (N, 1); any shape with as many elements will do.
    """


class MAERegressionOutput(_Regression, name="MAERegressionOutput",
                          aliases=("_sparse_MAERegressionOutput",)):
    """y = data; gradient grad_scale sign(y - label) / (labels per sample), -1 where they agree."""

    error: ClassVar = Program("side", (Assign("g", "where(y > t, s, -s)"),), ("y", "t"), ("g",),
                              ("s",))


class LogisticRegressionOutput(_Regression, name="LogisticRegressionOutput",
                               aliases=("_sparse_LogisticRegressionOutput",)):
    """y = 1 / (1 + exp(-data)); gradient grad_scale (y - label) / (labels per sample)."""

    prediction: ClassVar = Program("logistic", (Assign("y", "1 / (1 + exp(-x))"),), ("x",), ("y",))


# -- other losses ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SVMOutput(_Loss, name="SVMOutput"):
    """y = data; gradient of the hinge loss of every class against `label`, one against the rest.

    data (..., K), label (...).  The score of the label's class should be above `margin`, every
    other one below -margin.  A class that misses that by s > 0 has the gradient 2 s C, or C with
    `use_linear`, C being `regularization_coefficient`; negative for the class of the label.
    """

    margin: float = 1.0
    regularization_coefficient: float = 1.0
    use_linear: bool = False

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return [data, ins[1]], [data]
        require_rank(data, 2, "at least (N, K)")
        return [data, label_like(ins[1], [data[:-1]])], [data]

    def forward(self, ins, outs, call):
        np.copyto(outs[0], ins[0])

    def backward(self, ins, outs, call):
        (score, label), gradient = ins, outs[0]
        fill_zero(outs[1:])
        if gradient is None:
            return
        kind = score.dtype.type
        own = np.arange(score.shape[-1]) == np.trunc(label)[..., None]
        side = np.where(own, kind(-1), kind(1))
        short = kind(as_float32(self.margin)) + side * score
        loss = "where(s > 0, c, 0)" if self.use_linear else "where(s > 0, 2 * s * c, 0)"
        coefficient = kind(as_float32(self.regularization_coefficient))
        gradient[...] = side * evaluate(loss, {"s": short, "c": coefficient})


@dataclass(frozen=True)
class MakeLoss(Op, name="MakeLoss"):
    """y = data, which is itself the loss: the gradient is grad_scale everywhere.

    `normalization` divides it by the first dimension ("batch"; by 1 for data of one dimension, as
    in MXNet) or by the number of elements above `valid_thresh`, at least 1 ("valid").
    """

    grad_scale: float = 1.0
    valid_thresh: float = 0.0
    normalization: Literal["batch", "null", "valid"] = "null"

    shapes: ClassVar = "data and output have one shape"
    needs: ClassVar = ("output",)
    inplace: ClassVar = (("data", "output"),)

    def is_identity(self, ins, outs):
        return True

    def infer_type(self, ins, outs):
        require_float(self, ins)
        return super().infer_type(ins, outs)

    def forward(self, ins, outs, call):
        np.copyto(outs[0], ins[0])

    def backward(self, ins, outs, call):
        loss, scale = ins[0], as_float32(self.grad_scale)
        if self.normalization == "batch" and loss.ndim > 1:
            scale = as_float32(scale / len(loss))
        elif self.normalization == "valid":
            above = loss > loss.dtype.type(as_float32(self.valid_thresh))
            scale /= max(int(np.count_nonzero(above)), 1)
        outs[0].fill(scale)


@dataclass(frozen=True)
class IdentityAttachKLSparseReg(FloatOp, name="IdentityAttachKLSparseReg"):
    """y = data (N, C), activations in (0, 1), with a penalty that keeps their averages low.

    The backward pass moves moving_avg (C,) to momentum moving_avg + (1 - momentum) mean(data) and
    adds penalty (-t / moving_avg + (1 - t) / (1 - moving_avg)) to the gradient, t being
    `sparseness_target`.
    """

    sparseness_target: float = 0.1
    penalty: float = 0.001
    momentum: float = 0.9

    inputs: ClassVar = ("data", "moving_avg")
    aux: ClassVar = ("moving_avg",)
    needs: ClassVar = ("ograd", "output", "moving_avg")
    inplace: ClassVar = (("data", "output"),)
    init: ClassVar = {"moving_avg": '["zero", {}]'}

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, outs
        require_rank(data, 2, "(N, C)")
        return [data, data[1:2]], [data]

    def infer_type(self, ins, outs):
        (data,), _ = super().infer_type(ins[:1], outs)
        return [data, None if data is None else accumulator(data)], [data]

    def forward(self, ins, outs, call):
        np.copyto(outs[0], ins[0])

    def backward(self, ins, outs, call):
        ograd, output, moving = ins
        over = tuple(axis for axis in range(output.ndim) if axis != 1)
        momentum, kind = as_float32(self.momentum), moving.dtype.type
        moving *= momentum
        moving += output.mean(axis=over) * kind(1 - momentum)
        target = kind(as_float32(self.sparseness_target))
        push = kind(as_float32(self.penalty)) * ((1 - target) / (1 - moving) - target / moving)
        np.add(ograd, push.reshape(-1, *[1] * (output.ndim - 2)), out=outs[0])
