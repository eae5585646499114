"""BatchNorm: moments of channels, then one pass that normalises; backward two sums, then one pass.

The statistics take one reading of the data however large the batch is; see `cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..batch_norm import BatchNormOp
from ..half import single
from ..op import Spec
from ..program import Program, Step
from .cells import Cells, deviations, moments, two_sums
from .fill import fill, fill_zero
from .formula_op import COPY, run_program
from .launch import Launch, PerRun, device_function, on_gpu
from .memory import Array

__all__ = ["backward", "backward_scratch", "forward", "scratch"]

INVERSE = Program("inverse_deviation", (Step("y", "1 / sqrt(v + eps)"),), ("v",), ("y",), ("eps",))
ALONG = Program("gamma_gradient", (Step("y", "a * r"),), ("a", "r"), ("y",))
FOLLOW = Program("moving_statistics", (
    Step("next_mean", "a * momentum + m * share"),
    Step("next_var", "v * momentum + (1 / (r * r) - eps) * share")),
    ("a", "v", "m", "r"), ("next_mean", "next_var"), ("momentum", "share", "eps"))


@cache
def _normalize(scaled: bool, relu: bool) -> Program:
    value = f"(x - m) * {'(w * r)' if scaled else 'r'} + b"
    return Program("batch_norm", (Step("y", f"maximum({value}, 0)" if relu else value),),
                   ("x", "m", "r", "b", *(["w"] if scaled else [])), ("y",))


@cache
def _gradient(scaled: bool, relu: bool) -> Program:
    steps = (Step("h", "where(y > 0, g, 0)" if relu else "g"),
             Step("gx", "(h - t * n - (x - m) * (a * n * r * r)) * "
                        + ("(w * r)" if scaled else "r")))
    names = ("g", "x", "m", "r", "t", "a", *(["w"] if scaled else []), *(["y"] if relu else []))
    return Program("batch_norm_back", steps, names, ("gx",), ("n",))


ZERO = np.float32(0)
"""Beside an integer, numba would compare in double precision."""


@device_function
def _positive_deviations(g, x, mean, y, cell, term, at):
    """`deviations` of the gradients that relu lets pass; where its output y is not above 0, that is
    a zero of the right type."""
    grad = g[at] if y[at] > ZERO else y[at]
    return grad, grad * (x[at] - mean[cell])


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


def forward(op: BatchNormOp, ins: Any, outs: Any, call: Any, relu: bool = False) -> list[Any]:
    """What `Prepare` returns; with `relu` the output is cut at 0."""
    data, gamma, beta, moving_mean, moving_var = ins
    mean, inverse = _spares(outs[1:], call.scratch[2:])
    scale = [] if op.fix_gamma else [gamma]
    # MXNet does this in every eager call; its executor only where it could train.
    ones = fill(gamma, 1) if op.fix_gamma and (not call.specs or outs[1] is not None) else []
    apply = run_program(_normalize(not op.fix_gamma, relu), [
        _split(op, data), *_columns(mean, inverse, beta, *scale)], [_split(op, outs[0])])
    of_batch = ones + moments(data, _cells(op, data), mean, inverse, call.scratch, op.eps,
                              True) + apply
    of_past = ones + run_program(COPY, [moving_mean], [mean]) + run_program(
        INVERSE, [moving_var], [inverse], [op.eps]) + apply
    return [PerRun(
        lambda: of_batch if call.is_train and not op.use_global_stats else of_past)]


def backward(op: BatchNormOp, ins: Any, outs: Any, call: Any, relu: bool = False) -> list[Any]:
    """What `Prepare` returns; with `relu` gradients pass where the output, the last of `ins`, is
    above 0."""
    mean, inverse, moving_mean, moving_var = ins[3:7]
    *_, fixed = call.scratch
    momentum = single(op.momentum)
    follow = run_program(FOLLOW, [moving_mean, moving_var, mean, inverse],
                         [moving_mean, moving_var], [momentum, 1 - momentum, op.eps])
    of_batch = _gradients(op, ins, outs, call, (mean, inverse), relu) + follow
    of_past = run_program(INVERSE, [moving_var], [fixed], [op.eps]) + _gradients(
        op, ins, outs, call, (moving_mean, fixed), relu)
    return [PerRun(
        lambda: of_batch if call.is_train and not op.use_global_stats else of_past)]


def _gradients(op: BatchNormOp, ins: Any, outs: Any, call: Any, statistics: tuple[Array, Array],
               relu: bool) -> list[Launch]:
    """Launches that write the gradients, given the mean and inverse deviation that were used."""
    ograd, data, gamma = ins[:3]
    gx, ggamma, gbeta = outs[:3]
    *spare, totals, along, fixed = call.scratch
    mean, inverse = statistics
    cells = _cells(op, data)
    launches = two_sums(_positive_deviations if relu else deviations,
                        (ograd, data, mean, ins[-1] if relu else mean), cells, (totals, along),
                        spare)
    if gbeta is not None:
        launches += run_program(COPY, [totals], [gbeta])
    if ggamma is not None:
        launches += fill_zero([ggamma]) if op.fix_gamma else run_program(
            ALONG, [along, inverse], [ggamma])
    if gx is None:
        return launches
    scale, shown = [] if op.fix_gamma else [gamma], [_split(op, ins[-1])] if relu else []
    operands = [_split(op, ograd), _split(op, data),
                *_columns(mean, inverse, totals, along, *scale), *shown]
    share = 0.0 if inverse is fixed else 1 / cells.terms
    return launches + run_program(_gradient(not op.fix_gamma, relu), operands, [_split(op, gx)],
                                  [share])


def scratch(op: BatchNormOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """What is known of pieces, mean, inverse deviation."""
    return [*_cells(op, ins[0]).spare(ins[0].dtype), *outs[1:]]


def backward_scratch(op: BatchNormOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """What is known of pieces, both sums, the inverse deviation of the past."""
    return [*_cells(op, ins[1]).spare(ins[1].dtype), *[ins[3]] * 3]


on_gpu(BatchNormOp, forward, backward, scratch, backward_scratch)
