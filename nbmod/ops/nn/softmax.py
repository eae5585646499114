"""Softmax and its variants along one axis, by `softmax_kernels`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ...base import MXNetError
from ..elementwise.float_op import FloatOp, require_float
from ..elementwise.formula_graph import apply
from ..op import Run, Tensor, all_of
from ..rules import fill_zero
from ..shape import ShapeMismatch, normalize_axis, require_rank, unify
from .softmax_kernels import NO_LENGTH, AxisView

__all__ = ["Softmax", "LogSoftmax", "Softmin", "SoftmaxActivation", "SoftmaxCrossEntropy"]

LEAST = 1e-8
"""Probabilities are clipped to this before the logarithm in softmax_cross_entropy, as in MXNet."""


class _AlongAxis(FloatOp):
    """Base of operators that compute softmax, or its logarithm, along one axis."""

    log: ClassVar[bool] = False
    needs: ClassVar = ("ograd", "output")
    use_length: bool = False

    @property
    def scale(self) -> float:
        """Factor applied to data first."""
        return 1.0

    def axis_view(self, tensor: Tensor) -> AxisView:
        """The view of data or output along the axis."""
        raise NotImplementedError

    def backward_axis_view(self, tensor: Tensor) -> AxisView:
        """The view of the tensors of the backward pass along the axis."""
        return self.axis_view(tensor)

    def scratch(self, ins, outs):
        return self.axis_view(outs[0]).work(outs[0].dtype)

    def backward_scratch(self, ins, outs):
        return self.backward_axis_view(ins[1]).work(ins[1].dtype)

    def prepare(self, ins, outs, call):
        view, length = self.axis_view(outs[0]), ins[1] if self.use_length else NO_LENGTH
        return view.softmax(ins[0], outs[0], call.scratch[:2], self.scale, self.log, length)

    def forward(self, ins, outs, call):
        self.at_once(ins, outs)(self, ins, outs, call)

    def at_once(self, ins, outs):
        view = self.axis_view(outs[0])
        return lambda op, ins, outs, call: view.eager_softmax(
            ins[0], outs[0], op.scale, op.log, ins[1] if op.use_length else NO_LENGTH)

    def prepare_backward(self, ins, outs, call):
        (g, y), runs = ins, list[Run]([partial(fill_zero, outs[1:])])
        if outs[0] is not None:
            runs.append(self.backward_axis_view(y).gradient(g, y, outs[0], call.scratch[:2],
                                                            self.scale, self.log))
        return all_of(runs)

    def backward(self, ins, outs, call):
        g, y = ins
        if outs[0] is not None:
            self.backward_axis_view(y).eager_gradient(g, y, outs[0], self.scale, self.log)
        fill_zero(outs[1:])


@dataclass(frozen=True)
class _Softmax(_AlongAxis):
    """Base of softmax, log_softmax and softmin, which differ in `inputs`, `sign` and `log`."""

    axis: int = -1
    temperature: float | None = None
    dtype: Literal["float16", "float32", "float64"] | None = None
    use_length: bool = False

    shapes: ClassVar = "data and output have one shape"
    numbers: ClassVar = ("temperature",)
    sign: ClassVar[int] = 1

    def __post_init__(self):
        if "length" not in self.inputs:
            object.__setattr__(self, "use_length", False)

    def list_inputs(self):
        return self.inputs if self.use_length else self.inputs[:1]

    @property
    def inplace(self):  # type: ignore[override]
        return () if self.dtype else (("data", "output"),)

    @property
    def inplace_backward(self):  # type: ignore[override]
        return () if self.dtype else (("ograd", "data"),)

    @property
    def scale(self) -> float:
        """Factor applied to data first."""
        if self.temperature is None:
            return float(self.sign)
        return self.sign / self.temperature if self.temperature else np.inf

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, [data]
        axis = normalize_axis(self.axis, len(data))
        return [data, (*data[:axis], *data[axis + 1:])][:len(ins)], [data]

    def infer_type(self, ins, outs):
        require_float(self, ins)
        data = ins[0] or (None if self.dtype else outs[0])
        if len(ins) > 1 and ins[1] is not None and ins[1].kind not in "iu":
            raise MXNetError(f"length has type {ins[1]}, expected int32 or int64")
        return [data, *ins[1:]], [np.dtype(self.dtype) if self.dtype else data]

    def decompose_backward(self, node):
        grad, y = node.inputs
        weighted = grad if self.log else apply("broadcast_mul", grad, y)
        total = apply("sum", weighted, axis=self.axis, keepdims=True)
        share = apply("exp", y) if self.log else y
        along = apply("broadcast_sub", weighted, apply("broadcast_mul", share, total))
        return [apply("_mul_scalar", along, scalar=self.scale), None][:len(self.list_inputs())]

    def axis_view(self, tensor):
        return AxisView.along(tensor.shape, self.axis)


@dataclass(frozen=True)
class Softmax(_Softmax, name="softmax"):
    """y = exp(x / temperature) / (sum of the same along `axis`).

    With `use_length` an integer tensor `length`, shaped like data without `axis`, says how many
    leading elements take part; y is 0 for the others.  `dtype` is the type of y.
    """

    inputs: ClassVar = ("data", "length")


@dataclass(frozen=True)
class LogSoftmax(_Softmax, name="log_softmax"):
    """y = log(softmax(x / temperature)) along `axis`; `use_length` has no effect, as in MXNet."""

    log: ClassVar = True


@dataclass(frozen=True)
class Softmin(_Softmax, name="softmin"):
    """y = softmax(-x / temperature) along `axis`; `use_length` has no effect, as in MXNet."""

    sign: ClassVar = -1


@dataclass(frozen=True)
class SoftmaxActivation(_AlongAxis, name="SoftmaxActivation"):
    """softmax over axis 1 of data (N, C, ...) in mode "channel", over the last axis in "instance".

    As in MXNet 1.9.1 on the CPU, the backward pass takes it to be over axis 1 in either mode; for
    "instance" that is the derivative only if data is (N, K).
    """

    mode: Literal["channel", "instance"] = "instance"
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        least = 3 if self.mode == "channel" else 2
        require_rank(data, least, f"at least {least} dimensions for mode {self.mode!r}")
        return [data], [data]

    def axis_view(self, tensor):
        return AxisView.along(tensor.shape, 1 if self.mode == "channel" else -1)

    def backward_axis_view(self, tensor):
        return AxisView.along(tensor.shape, 1)


@dataclass(frozen=True)
class SoftmaxCrossEntropy(FloatOp, name="softmax_cross_entropy"):
    """y (1,) = - sum over rows of log(softmax(data)[row, label[row]]); data (N, K), label (N,).

    Labels that are no class are ignored; probabilities below 1e-8 count as 1e-8.
    """

    inputs: ClassVar = ("data", "label")
    needs: ClassVar = ("ograd", "data", "label")

    def infer_shape(self, ins, outs):
        data, label = ins
        if data is not None and len(data) != 2:
            raise ShapeMismatch(f"data has shape {data}, expected (N, K)")
        label = unify(label, None if data is None else data[:1], "label and rows of data")
        return [data, label], [(1,)]

    def scratch(self, ins, outs):
        return [ins[0]]

    def forward(self, ins, outs, call):
        (data, label), logs = ins, call.scratch[0]
        AxisView.along(data.shape, -1).eager_softmax(data, logs, log=True)
        _sum_losses(logs, label, outs[0])

    def prepare(self, ins, outs, call):
        (data, label), logs = ins, call.scratch[0]
        return all_of([AxisView.along(data.shape, -1).softmax(data, logs, (), log=True),
                       partial(_sum_losses, logs, label, outs[0])])

    def backward(self, ins, outs, call):
        (ograd, data, label), gradient = ins, outs[0]
        if gradient is not None:
            AxisView.along(data.shape, -1).eager_softmax(data, gradient)
            _subtract_labels(gradient, label, ograd)
        fill_zero(outs[1:])

    def prepare_backward(self, ins, outs, call):
        (ograd, data, label), gradient = ins, outs[0]
        clear = partial(fill_zero, outs[1:])
        if gradient is None:
            return clear
        return all_of([clear, AxisView.along(data.shape, -1).softmax(data, gradient, ()),
                       partial(_subtract_labels, gradient, label, ograd)])


def _sum_losses(logs: np.ndarray, label: np.ndarray, y: np.ndarray) -> None:
    """y of `softmax_cross_entropy` from the logarithms of probabilities."""
    picked = logs[_picked(label, logs.shape[1])]
    y[0] = -np.maximum(picked, np.log(LEAST)).sum(dtype=np.float64)


def _subtract_labels(gradient: np.ndarray, label: np.ndarray, ograd: np.ndarray) -> None:
    """Make the gradient of probabilities, in place."""
    gradient[_picked(label, gradient.shape[1])] -= 1
    np.multiply(gradient, ograd[0], out=gradient)


def _picked(label: np.ndarray, classes: int) -> tuple[Any, Any]:
    """(row, class) of the labels that are a class."""
    column = label.astype(np.int64)
    row, = np.nonzero((column >= 0) & (column < classes))
    return row, column[row]
