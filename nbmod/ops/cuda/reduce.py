"""Sums, means, and repetition along axes, which are one another's gradients."""

from __future__ import annotations

from typing import Any

from ..program import Program, Step
from ..reduce import Broadcast, Mean, NanSum, Sum, keep
from .fill import fill_zero
from .formula_op import COPY, run_program
from .launch import Launch, on_gpu

DIVIDED = Program("divided", (Step("y", "x / share"),), ("x",), ("y",), ("share",))
NUMBERS = Program("numbers", (Step("y", "where(x == x, x, 0)"),), ("x",), ("y",))
TO_NUMBERS = Program("to_numbers", (Step("gx", "where(x == x, g, 0)"),), ("g", "x"), ("gx",))


def _sum(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x = ins[0]
    program = NUMBERS if isinstance(op, NanSum) else COPY
    return run_program(program, [x], [keep(x.shape, op.axes(x.ndim), outs[0])])


def _sum_backward(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    gx = outs[0]
    g = keep(gx.shape, op.axes(gx.ndim), ins[0])
    if isinstance(op, NanSum):
        return run_program(TO_NUMBERS, [g, ins[1]], [gx])
    return run_program(COPY, [g], [gx])


def _mean(op: Mean, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x, y = ins[0], keep(ins[0].shape, op.axes(ins[0].ndim), outs[0])
    share = [x.size // y.size]
    if x.dtype.kind == "f":
        return run_program(DIVIDED, [x], [y], share)
    return run_program(COPY, [x], [y]) + run_program(DIVIDED, [y], [y], share)


def _mean_backward(op: Mean, ins: Any, outs: Any, call: Any) -> list[Launch]:
    gx = outs[0]
    g = keep(gx.shape, op.axes(gx.ndim), ins[0])
    return run_program(DIVIDED, [g], [gx], [gx.size // g.size])


def _broadcast(op: Broadcast, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return run_program(COPY, ins[:1], outs)


def _broadcast_backward(op: Broadcast, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return run_program(COPY, ins[:1], outs[:1]) + fill_zero(outs[1:])


on_gpu(Sum, _sum, _sum_backward)
on_gpu(NanSum, _sum, _sum_backward)
on_gpu(Mean, _mean, _mean_backward)
on_gpu(Broadcast, _broadcast, _broadcast_backward)
