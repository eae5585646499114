"""BatchNorm: moments of channels, then one pass that normalises; backward two sums, then one pass.

The statistics take one reading of the data however large the batch is; see `cells`.  Additions and
limits behind the norm (`FollowedNorm`) are done where its results are in registers: forward reads
what is added and nothing else; backward finds out again what was within the limits, or, behind an
addition, writes what passes while it adds up, and reads that in the place of the head gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ...elementwise.float_op import single
from ...elementwise.program import Program, Step
from ...nn.batch_norm import BatchNormOp, FollowedNorm, SyncBatchNorm
from ...op import Spec
from ..elementwise.formula_op import COPY, run_program
from ..elementwise.group_stats import Cells, deviations, moments, two_sums
from ..lib.fill import fill, fill_zero
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Array
from ..runtime.launch import Launch, PerRun, device_function, on_gpu

__all__ = ["backward", "backward_scratch", "forward", "scratch"]

INVERSE = Program("inverse_deviation", (Step("y", "1 / sqrt(v + eps)"),), ("v",), ("y",), ("eps",))
SQUARE = Program("square_of_deviation", (Step("y", "d * d"),), ("d",), ("y",))
ALONG = Program("gamma_gradient", (Step("y", "a * r"),), ("a", "r"), ("y",))
FOLLOW = Program("moving_statistics", (
    Step("next_mean", "a * momentum + m * share"),
    Step("next_var", "v * momentum + (1 / (r * r) - eps) * share")),
    ("a", "v", "m", "r"), ("next_mean", "next_var"), ("momentum", "share", "eps"))


@cache
def _normalize(op: BatchNormOp) -> Program:
    limited = "where(v <= 0, 0, v)" if op.relu else "v"
    if op.most < np.inf:
        limited = f"minimum(maximum(v, 0), {op.most!r})"
    value = f"(x - m) * {_scale(op)} + b{' + z' * op.add}"
    return Program("batch_norm", (Step("v", value), Step("y", limited)), (
        "x", "m", "r", "b", *["w"] * (not op.fix_gamma), *["z"] * op.add), ("y",))


def _scale(op: BatchNormOp) -> str:
    return "r" if op.fix_gamma else "(w * r)"


@cache
def _gradient(op: BatchNormOp, passing: str) -> Program:
    """The gradient of data, where `passing` says what of the head gradient g passes: all of it, or
    what numbers within the limits get."""
    steps: list[Step] = []
    if passing == "within":
        steps.append(Step("v", f"(x - m) * {_scale(op)} + b"))
        passes = ("where(v > 0, g, where(v <= 0, 0, v))" if op.most == np.inf
                  else f"where(v < 0, 0, where(v > {op.most!r}, 0, g))")
    else:
        passes = {"all": "g", "shown": "where(y > 0, g, y)"}[passing]
    steps += [Step("h", passes),
              Step("gx", f"(h - t * n - (x - m) * (a * n * r * r)) * {_scale(op)}")]
    limit = {"all": [], "shown": ["y"], "within": ["b"]}[passing]
    return Program("batch_norm_back", tuple(steps), (
        "g", "x", "m", "r", "t", "a", *["w"] * (not op.fix_gamma), *limit), ("gx",), ("n",))


@cache
def _shown_function(real: Any, relu: bool, keeps: bool) -> Any:
    """`deviations` of the gradients that pass where the output y is above 0, or of all without
    `relu`; what is added gets the same, in h."""
    zero = real(0)

    @device_function
    def terms(g, x, mean, y, h, cell, term, at):
        grad = real(g[at]) if not relu or real(y[at]) > zero else real(y[at])
        if keeps:
            h[at] = grad
        return grad, grad * (real(x[at]) - mean[cell])
    return terms


@cache
def _within_function(real: Any, most: float) -> Any:
    """`deviations` of the gradients that pass where the result is within the limits: it is computed
    again, as in forward."""
    zero, high, clipped = real(0), real(most), most < np.inf

    @device_function
    def terms(g, x, mean, scale, beta, cell, term, at):
        distance = real(x[at]) - mean[cell]
        value = distance * scale[cell] + beta[cell]
        outside = value < zero or value > high if clipped else value <= zero
        grad = zero if outside else real(g[at])
        if not clipped and value != value:
            grad = value
        return grad, grad * distance
    return terms


def _split(op: BatchNormOp, array: Any) -> Any:
    """A tensor as (N, C, S)."""
    axis = op.axis % array.ndim
    return array.reshape(prod(array.shape[:axis]), array.shape[axis], -1)


def _cells(op: BatchNormOp, data: Any) -> Cells:
    return Cells.channels(data.shape, op.axis % len(data.shape))


def _columns(*arrays: Array) -> list[Array]:
    """Numbers of channels beside tensors of (N, C, S)."""
    return [array.reshape(1, -1, 1) for array in arrays]


def _spares(wanted: Sequence[Array | None], spare: Sequence[Array]) -> list[Array]:
    """Scratch in the place of outputs that nobody wants."""
    return [other if array is None else array for array, other in zip(wanted, spare, strict=False)]


def forward(op: BatchNormOp, ins: Any, outs: Any, call: Any) -> list[Any]:
    """What `Prepare` returns."""
    given = dict(zip(op.list_inputs(), ins, strict=True))
    data, gamma, moving_mean, moving_var = (
        given[name] for name in ("data", "gamma", "moving_mean", "moving_var"))
    variance = outs[2] if op.shows_variance else None
    mean, inverse = _spares((outs[1], None if op.shows_variance else outs[2]), call.scratch[2:])
    # MXNet does this in every eager call; its executor only where it could train.
    ones = fill(gamma, 1) if op.fix_gamma and (not call.specs or outs[1] is not None) else []
    added = [_split(op, given["add"])] if op.add else []
    apply = run_program(_normalize(op), [
        _split(op, data), *_columns(mean, inverse, given["beta"], *[gamma] * (not op.fix_gamma)),
        *added], [_split(op, outs[0])])
    of_batch = ones + _variance(op, data, variance, call.scratch) + moments(
        data, _cells(op, data), mean, inverse, call.scratch, op.eps, True) + apply
    of_past = ones + run_program(COPY, [moving_mean], [mean]) + run_program(
        INVERSE, [moving_var], [inverse], [op.eps]) + apply
    if variance is not None:
        of_past += run_program(COPY, [moving_var], [variance])
    return [PerRun(
        lambda: of_batch if call.is_train and not op.use_global_stats else of_past)]


def _variance(op: BatchNormOp, data: Array, variance: Array | None, spare: Sequence[Array]
              ) -> list[Launch]:
    """Launches that write the variance of channels where it is shown."""
    if variance is None:
        return []
    return [*moments(data, _cells(op, data), spare[2], variance, spare, 0.0),
            *run_program(SQUARE, [variance], [variance])]


def backward(op: BatchNormOp, ins: Any, outs: Any, call: Any) -> list[Any]:
    """What `Prepare` returns."""
    given = dict(zip(op.list_needs(), ins, strict=True))
    moving = [given["moving_mean"], given["moving_var"]]
    found, fixed = (given["mean"], given["var"]), call.scratch[4]
    inverted = []
    if op.shows_variance:
        inverted = run_program(INVERSE, [given["var"]], [call.scratch[5]], [op.eps])
        found = (given["mean"], call.scratch[5])
    momentum = single(op.momentum)
    follow = run_program(FOLLOW, [*moving, *found], moving, [momentum, 1 - momentum, op.eps])
    of_batch = inverted + _gradients(op, given, outs, call, found) + follow
    of_past = run_program(INVERSE, [moving[1]], [fixed], [op.eps]) + _gradients(
        op, given, outs, call, (moving[0], fixed))
    return [PerRun(
        lambda: of_batch if call.is_train and not op.use_global_stats else of_past)]


def _passing(op: BatchNormOp) -> str:
    """How backward sees which gradients pass the limits; see `_gradient`."""
    if not op.relu:
        return "all"
    return "within" if "beta" in op.list_needs() else "shown"


def _gradients(op: BatchNormOp, given: Mapping[str, Array], outs: Any, call: Any,
               statistics: tuple[Array, Array]) -> list[Launch]:
    """Launches that write the gradients, given the mean and inverse deviation that were used."""
    wanted = dict(zip(op.list_inputs(), outs, strict=False))
    gx, ggamma, gbeta = (wanted[name] for name in ("data", "gamma", "beta"))
    totals, along, fixed = call.scratch[2:5]
    mean, inverse = statistics
    cells = _cells(op, given["data"])
    launches = _sums(op, given, wanted.get("add"), statistics, call.scratch)
    if gbeta is not None:
        launches += run_program(COPY, [totals], [gbeta])
    if ggamma is not None:
        launches += fill_zero([ggamma]) if op.fix_gamma else run_program(
            ALONG, [along, inverse], [ggamma])
    if gx is None:
        return launches
    g, x, passing = given["ograd"], given["data"], _passing(op)
    if wanted.get("add") is not None:
        g, passing = wanted["add"], "all"
    limit = ([_split(op, given["output"])] if passing == "shown" else
             _columns(given["beta"]) if passing == "within" else [])
    operands = [_split(op, g), _split(op, x), *_columns(mean, inverse, totals, along),
                *_columns(*[given["gamma"]] * (not op.fix_gamma)), *limit]
    share = 0.0 if inverse is fixed else 1 / cells.terms
    return launches + run_program(_gradient(op, passing), operands, [_split(op, gx)], [share])


def _sums(op: BatchNormOp, given: Mapping[str, Array], gadd: Array | None,
          statistics: tuple[Array, Array], scratch: Sequence[Array]) -> list[Launch]:
    """Launches that add up the gradients of beta, and those of gamma times the deviation, and write
    the gradient of what is added on the way."""
    g, x, (mean, inverse), passing = given["ograd"], given["data"], statistics, _passing(op)
    *spare, totals, along, _, scale = scratch
    real, launches, more = real_of(x.dtype), list[Launch](), list[Array]()
    if passing == "within":
        if op.fix_gamma:
            scale = inverse
        else:
            launches += run_program(ALONG, [given["gamma"], inverse], [scale])
        take, more = _within_function(real, op.most), [scale, given["beta"]]
    elif passing == "shown" or gadd is not None:
        take = _shown_function(real, op.relu, gadd is not None)
        more = [given["output"] if op.relu else g, g if gadd is None else gadd]
    else:
        take = deviations
    return launches + two_sums(take, (g, x, mean, *more), _cells(op, x), (totals, along), spare)


def scratch(op: BatchNormOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """What is known of pieces, mean, inverse deviation."""
    return [*_cells(op, ins[0]).spare(ins[0].dtype), *outs[1:]]


def backward_scratch(op: BatchNormOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """What is known of pieces, both sums, the inverse deviation of the past, and times gamma."""
    return [*_cells(op, ins[1]).spare(ins[1].dtype), *[ins[3]] * 4]


on_gpu(BatchNormOp, forward, backward, scratch, backward_scratch)
on_gpu(SyncBatchNorm, forward, backward, scratch, backward_scratch)
on_gpu(FollowedNorm, forward, backward, scratch, backward_scratch)
