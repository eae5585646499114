"""BatchNorm: moments of channels, then one pass that normalises; backward, two sums and one pass.

The statistics take one pass over the data; see `group_stats`.  Addition, ReLU and clip after the
norm (`FusedBatchNorm`) are fused into its last pass.  Backward needs to know where the result was
within the bounds: it recomputes the result or, after an addition, reads the output, and writes the
masked gradient while it sums, to read that in place of the output gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...dispatch import implements
from ...elementwise.float_op import as_float32
from ...elementwise.program import Assign, Program
from ...nn.batch_norm import BatchNormOp, FusedBatchNorm, SyncBatchNorm
from ...op import Call, Spec
from ..elementwise.formula_op import COPY, run_program
from ..elementwise.group_stats import Groups, centered_terms, moments, paired_sums
from ..lib.fill import fill, fill_zero
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Array, Arrays, Outputs, or_scratch
from ..runtime.launch import Launch, PerRun, cache, device_function

__all__ = ["backward", "backward_scratch", "forward", "scratch"]

INVERSE = Program("inverse_deviation", (Assign("y", "1 / sqrt(v + eps)"),), ("v",), ("y",),
                  ("eps",))
SQUARE = Program("square_of_deviation", (Assign("y", "d * d"),), ("d",), ("y",))
ALONG = Program("gamma_gradient", (Assign("y", "a * r"),), ("a", "r"), ("y",))
FOLLOW = Program("moving_statistics", (
    Assign("next_mean", "a * momentum + m * share"),
    Assign("next_var", "v * momentum + (1 / (r * r) - eps) * share")),
    ("a", "v", "m", "r"), ("next_mean", "next_var"), ("momentum", "share", "eps"))


@cache
def _normalize(op: BatchNormOp) -> Program:
    limited = "where(v <= 0, 0, v)" if op.relu else "v"
    if op.most < np.inf:
        limited = f"minimum(maximum(v, 0), {op.most!r})"
    value = f"(x - m) * {_scale(op)} + b{' + z' * op.add}"
    return Program("batch_norm", (Assign("v", value), Assign("y", limited)), (
        "x", "m", "r", "b", *["w"] * (not op.fix_gamma), *["z"] * op.add), ("y",))


def _scale(op: BatchNormOp) -> str:
    return "r" if op.fix_gamma else "(w * r)"


@cache
def _gradient(op: BatchNormOp, passing: str) -> Program:
    """The gradient of data.  `passing` says how the output gradient g is masked: not at all, by the
    output y ("shown"), or by the result, computed again ("within")."""
    steps: list[Assign] = []
    if passing == "within":
        steps.append(Assign("v", f"(x - m) * {_scale(op)} + b"))
        passes = ("where(v > 0, g, where(v <= 0, 0, v))" if op.most == np.inf
                  else f"where(v < 0, 0, where(v > {op.most!r}, 0, g))")
    else:
        passes = {"all": "g", "shown": "where(y > 0, g, y)"}[passing]
    steps += [Assign("h", passes),
              Assign("gx", f"(h - t * n - (x - m) * (a * n * r * r)) * {_scale(op)}")]
    limit = {"all": [], "shown": ["y"], "within": ["b"]}[passing]
    return Program("batch_norm_back", tuple(steps), (
        "g", "x", "m", "r", "t", "a", *["w"] * (not op.fix_gamma), *limit), ("gx",), ("n",))


@cache
def _shown_function(real: type[np.floating], relu: bool, keeps: bool) -> Callable:
    """`centered_terms` of the gradient masked by y > 0, or unmasked without `relu`; with `keeps`
    the masked gradient is stored in h, as that of the addend."""
    zero = real(0)

    @device_function
    def terms(g, x, mean, y, h, group, term, at):
        grad = real(g[at]) if not relu or real(y[at]) > zero else real(y[at])
        if keeps:
            h[at] = grad
        return grad, grad * (real(x[at]) - mean[group])
    return terms


@cache
def _within_function(real: type[np.floating], most: float) -> Callable:
    """`centered_terms` of the gradient masked to where the result, computed again, is within the
    bounds."""
    zero, high, clipped = real(0), real(most), most < np.inf

    @device_function
    def terms(g, x, mean, scale, beta, group, term, at):
        distance = real(x[at]) - mean[group]
        value = distance * scale[group] + beta[group]
        outside = value < zero or value > high if clipped else value <= zero
        grad = zero if outside else real(g[at])
        if not clipped and value != value:
            grad = value
        return grad, grad * distance
    return terms


def _split(op: BatchNormOp, array: Array) -> Array:
    """A tensor as (N, C, S)."""
    axis = op.axis % array.ndim
    return array.reshape(prod(array.shape[:axis]), array.shape[axis], -1)


def _groups(op: BatchNormOp, data: Array | Spec) -> Groups:
    return Groups.channels(data.shape, op.axis % len(data.shape))


def _columns(*arrays: Array) -> list[Array]:
    """Vectors of a value per channel, to be broadcast to (N, C, S)."""
    return [array.reshape(1, -1, 1) for array in arrays]


def forward(op: BatchNormOp, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    """Launches of the forward pass (see `ops.dispatch.Prepare`)."""
    tensors = dict(zip(op.list_inputs(), ins, strict=True))
    data, gamma, moving_mean, moving_var = (
        tensors[name] for name in ("data", "gamma", "moving_mean", "moving_var"))
    variance = outs[2] if op.shows_variance else None
    inverse_out = None if op.shows_variance else outs[2]
    mean, inverse = or_scratch((outs[1], inverse_out), call.scratch[2:])
    # MXNet does this in every eager call; its executor only where it could train.
    ones = fill(gamma, 1) if op.fix_gamma and (not call.specs or outs[1] is not None) else []
    added = [_split(op, tensors["add"])] if op.add else []
    apply = run_program(_normalize(op), [
        _split(op, data), *_columns(mean, inverse, tensors["beta"], *[gamma] * (not op.fix_gamma)),
        *added], [_split(op, outs[0])])
    of_batch = ones + _variance(op, data, variance, call.scratch) + moments(
        data, _groups(op, data), mean, inverse, call.scratch, op.eps, True) + apply
    of_past = ones + run_program(COPY, [moving_mean], [mean]) + run_program(
        INVERSE, [moving_var], [inverse], [op.eps]) + apply
    if variance is not None:
        of_past += run_program(COPY, [moving_var], [variance])
    return [PerRun(
        lambda: of_batch if call.is_train and not op.use_global_stats else of_past)]


def _variance(op: BatchNormOp, data: Array, variance: Array | None, scratch: Sequence[Array]
              ) -> list[Launch]:
    """Launches that write the variance of channels, if it is an output."""
    if variance is None:
        return []
    return [*moments(data, _groups(op, data), scratch[2], variance, scratch, 0.0),
            *run_program(SQUARE, [variance], [variance])]


def backward(op: BatchNormOp, ins: Arrays, outs: Outputs, call: Call) -> list[Any]:
    """Launches of the backward pass (see `ops.dispatch.Prepare`)."""
    tensors = dict(zip(op.list_needs(), ins, strict=True))
    moving = [tensors["moving_mean"], tensors["moving_var"]]
    statistics, fixed = (tensors["mean"], tensors["var"]), call.scratch[4]
    inverted = []
    if op.shows_variance:
        inverted = run_program(INVERSE, [tensors["var"]], [call.scratch[5]], [op.eps])
        statistics = (tensors["mean"], call.scratch[5])
    momentum = as_float32(op.momentum)
    follow = run_program(FOLLOW, [*moving, *statistics], moving, [momentum, 1 - momentum, op.eps])
    of_batch = inverted + _gradients(op, tensors, outs, call, statistics) + follow
    of_past = run_program(INVERSE, [moving[1]], [fixed], [op.eps]) + _gradients(
        op, tensors, outs, call, (moving[0], fixed))
    return [PerRun(
        lambda: of_batch if call.is_train and not op.use_global_stats else of_past)]


def _passing(op: BatchNormOp) -> str:
    """How backward masks gradients; see `_gradient`."""
    if not op.relu:
        return "all"
    return "within" if "beta" in op.list_needs() else "shown"


def _gradients(op: BatchNormOp, tensors: Mapping[str, Array], outs: Outputs, call: Call,
               statistics: tuple[Array, Array]) -> list[Launch]:
    """Launches that write the gradients, given the mean and inverse deviation that were used."""
    grads = dict(zip(op.list_inputs(), outs, strict=False))
    gx, ggamma, gbeta = (grads[name] for name in ("data", "gamma", "beta"))
    totals, along, fixed = call.scratch[2:5]
    mean, inverse = statistics
    groups = _groups(op, tensors["data"])
    launches = _sums(op, tensors, grads.get("add"), statistics, call.scratch)
    if gbeta is not None:
        launches += run_program(COPY, [totals], [gbeta])
    if ggamma is not None:
        launches += fill_zero([ggamma]) if op.fix_gamma else run_program(
            ALONG, [along, inverse], [ggamma])
    if gx is None:
        return launches
    g, x, passing = tensors["ograd"], tensors["data"], _passing(op)
    if (added := grads.get("add")) is not None:
        g, passing = added, "all"
    limit = ([_split(op, tensors["output"])] if passing == "shown" else
             _columns(tensors["beta"]) if passing == "within" else [])
    operands = [_split(op, g), _split(op, x), *_columns(mean, inverse, totals, along),
                *_columns(*[tensors["gamma"]] * (not op.fix_gamma)), *limit]
    share = 0.0 if inverse is fixed else 1 / groups.size
    return launches + run_program(_gradient(op, passing), operands, [_split(op, gx)], [share])


def _sums(op: BatchNormOp, tensors: Mapping[str, Array], gadd: Array | None,
          statistics: tuple[Array, Array], scratch: Sequence[Array]) -> list[Launch]:
    """Launches that sum the gradients of beta, and those of gamma times the deviation, and write
    the gradient of the addend on the way."""
    g, x, (mean, inverse), passing = tensors["ograd"], tensors["data"], statistics, _passing(op)
    *partials, totals, along, _, scale = scratch
    real, launches, more = real_of(x.dtype), list[Launch](), list[Array]()
    if passing == "within":
        if op.fix_gamma:
            scale = inverse
        else:
            launches += run_program(ALONG, [tensors["gamma"], inverse], [scale])
        take, more = _within_function(real, op.most), [scale, tensors["beta"]]
    elif passing == "shown" or gadd is not None:
        take = _shown_function(real, op.relu, gadd is not None)
        more = [tensors["output"] if op.relu else g, g if gadd is None else gadd]
    else:
        take = centered_terms
    return launches + paired_sums(take, (g, x, mean, *more), _groups(op, x), (totals, along),
                                  partials)


def scratch(op: BatchNormOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Statistics of chunks, mean, inverse deviation."""
    return [*_groups(op, ins[0]).scratch(ins[0].dtype), *outs[1:]]


def backward_scratch(op: BatchNormOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Sums of chunks, both sums, the inverse deviation of moving statistics, and that times
    gamma."""
    return [*_groups(op, ins[1]).scratch(ins[1].dtype), *[ins[3]] * 4]


implements((BatchNormOp, SyncBatchNorm, FusedBatchNorm), "cuda", forward, backward, scratch,
           backward_scratch)
