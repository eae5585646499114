"""Loss layers: SoftmaxOutput, the regressions, and MakeLoss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...dispatch import implements
from ...elementwise.float_op import as_float32
from ...elementwise.program import Assign, Program
from ...nn.loss import IdentityAttachKLSparseReg, MakeLoss, SoftmaxOutput, SVMOutput, _Regression
from ...op import Call, Op, Spec
from ..elementwise.formula_op import COPY, run_program
from ..lib.block_reduce import each_block, sum_kernel
from ..lib.fill import fill, fill_zero, first_gradient
from ..lib.kernel_math import maximum, real_of, whole
from ..runtime.device_memory import Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride
from .softmax import softmax

# -- SoftmaxOutput ------------------------------------------------------------------------------


@cache
def _count_kernel(real: type[np.floating], ignored: int) -> CudaKernel:
    """Count the labels that are not `ignored`."""
    return sum_kernel(lambda label, segment, term, segments: (
        0.0 if whole(real(label[term])) == ignored else 1.0), np.float64)


class _Rule(NamedTuple):
    """Constants of the kernel."""

    real: type[np.floating]
    ignoring: bool
    times_head: bool
    counted: bool
    """The divisor is computed on the device."""


@cache
def _against_labels_kernel(rule: _Rule) -> CudaKernel:
    real, ignoring, times_head, counted = rule

    @grid_stride
    def against_labels(i, y, label, head, gx, total, size, inner, factor, right, wrong, ignored):
        position, k = i // (size * inner) * inner + i % inner, i // inner % size
        scale = factor
        if counted:     # rounded like the parameter it is part of
            scale = real(np.float32(np.float64(factor) / maximum(total[0], 1.0)))
        own = whole(real(label[position]))
        if ignoring and own == ignored:
            scale = real(0)
        grad = (real(y[i]) - (right if k == own else wrong)) * scale
        gx[i] = grad * real(head[i]) if times_head else grad
    return against_labels


AGAINST = Program("against_probabilities", (Assign("gx", "(y - t) * scale"),), ("y", "t"), ("gx",),
                  ("scale",))
AGAINST_HEAD = Program("against_probabilities_times_head",
                       (Assign("gx", "(y - t) * scale * g"),), ("y", "t", "g"), ("gx",),
                       ("scale",))


@first_gradient
def _softmax_output_backward(op: SoftmaxOutput, ins: Arrays, outs: Arrays, call: Call
                             ) -> list[Launch]:
    (y, label, *ograd), gx, launches = ins, outs[0], list[Launch]()
    if label.shape == y.shape:
        program = AGAINST_HEAD if ograd else AGAINST
        return run_program(program, ins, [gx], [as_float32(op.grad_scale)])
    view, real = op.axis_view(y), real_of(y.dtype)
    counted = op.normalization == "valid"
    ignored = op.ignored
    if counted:
        launches += each_block(_count_kernel(real, ignored), 1, label, call.scratch[0], label.size,
                               False)
    divisor = {"batch": label.size, "valid": 1, "null": view.lanes}[op.normalization]
    spread = 0.0 if op.multi_output else as_float32(op.smooth_alpha)
    rule = _Rule(real, op.use_ignore, op.out_grad, counted)
    return launches + each(
        _against_labels_kernel(rule), y.size, y, label, *(ograd or [y]), gx,
        call.scratch[0] if counted else gx, view.size, view.lanes,
        real(as_float32(as_float32(op.grad_scale) / divisor)), real(1 - spread),
        real(as_float32(spread / max(view.size - 1, 1))), ignored)


def _count(op: SoftmaxOutput | MakeLoss, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Scratch for a divisor that is computed on the device."""
    return [Spec((1,), np.dtype(np.float64))] if op.normalization == "valid" else []


# -- the others ---------------------------------------------------------------------------------


def _copy(op: Op, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return run_program(COPY, ins[:1], outs[:1])


def _regression_backward(op: _Regression, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    launches: list[Launch] = op._gradient(run_program, ins, outs, call) or []
    return launches if call.add and call.add[1] else launches + fill_zero(outs[1:])


@cache
def _hinge_kernel(real: type[np.floating], linear: bool) -> CudaKernel:
    @grid_stride
    def hinge(i, y, label, gx, size, margin, coefficient):
        side = real(-1) if whole(real(label[i // size])) == i % size else real(1)
        short = margin + side * real(y[i])
        push = coefficient if linear else real(2) * short * coefficient
        gx[i] = side * push if short > real(0) else real(0)
    return hinge


@first_gradient
def _svm_backward(op: SVMOutput, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (y, label), real = ins, real_of(ins[0].dtype)
    return each(_hinge_kernel(real, op.use_linear), y.size, y, label, outs[0], y.shape[-1],
                real(as_float32(op.margin)), real(as_float32(op.regularization_coefficient)))


@cache
def _above_kernel(real: type[np.floating], threshold: float) -> CudaKernel:
    """Count the elements above the threshold."""
    return sum_kernel(lambda x, segment, term, segments: (
        1.0 if real(x[term]) > real(threshold) else 0.0), np.float64)


@cache
def _shared_kernel(real: type[np.floating]) -> CudaKernel:
    @grid_stride
    def shared(i, gx, total, scale):
        gx[i] = scale / real(maximum(total[0], 1.0))
    return shared


def _make_loss_backward(op: MakeLoss, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    loss, gx, scale = ins[0], outs[0], as_float32(op.grad_scale)
    if op.normalization != "valid":
        batch = loss.shape[0] if op.normalization == "batch" and loss.ndim > 1 else 1
        return fill(gx, as_float32(scale / batch))
    real, total = real_of(loss.dtype), call.scratch[0]
    above = _above_kernel(real, as_float32(op.valid_thresh))
    return [*each_block(above, 1, loss, total, loss.size, False),
            *each(_shared_kernel(real), gx.size, gx, total, real(scale))]


AVERAGE = Program("average", (Assign("m", "y / n"),), ("y",), ("m",), ("n",))
FOLLOW = Program("moving_average", (Assign("next", "v * momentum + m * share"),), ("v", "m"),
                 ("next",), ("momentum", "share"))
PUSH = Program("sparse_push", (Assign("gx", "g + penalty * ((1 - t) / (1 - v) - t / v)"),),
               ("g", "v"), ("gx",), ("t", "penalty"))


def _sparse_backward(op: IdentityAttachKLSparseReg, ins: Arrays, outs: Arrays, call: Call
                     ) -> list[Launch]:
    (ograd, output, moving), mean = ins, call.scratch[0]
    shape = (output.shape[0], output.shape[1], -1)
    g, y, gx = (array.reshape(shape) for array in (ograd, output, outs[0]))
    momentum, average = as_float32(op.momentum), moving.reshape(1, -1, 1)
    return [*run_program(AVERAGE, [y], [mean.reshape(average.shape)], [y.size // moving.size]),
            *run_program(FOLLOW, [moving, mean], [moving], [momentum, 1 - momentum]),
            *run_program(PUSH, [g, average], [gx],
                         [as_float32(op.sparseness_target), as_float32(op.penalty)])]


implements(IdentityAttachKLSparseReg, "cuda", _copy, _sparse_backward,
           backward_scratch=lambda op, ins, outs: [ins[2]])
implements(SoftmaxOutput, "cuda",
           lambda op, ins, outs, call: softmax(op.axis_view(outs[0]), ins[0], outs[0]),
           _softmax_output_backward, backward_scratch=_count)
implements(_Regression, "cuda",
           lambda op, ins, outs, call: run_program(op.prediction, ins[:1], outs),
           _regression_backward)
implements(SVMOutput, "cuda", _copy, _svm_backward)
implements(MakeLoss, "cuda", _copy, _make_loss_backward, backward_scratch=_count)
