"""Optimizer updates as programs over the elements of weight, gradient and states.

The formulas are those of `ops.update`.  `mp_` ops compute on their float32 master weight, from
which the output is rounded.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from .. import update
from ..formula import names_in
from ..half import single
from ..program import Program, Step
from .formula_op import run_program
from .launch import Launch, on_gpu

CLIPPED = "where({0} > clip, clip, where({0} < -clip, -clip, {0}))"
AFTER = [("x", "g * scale"), ("c", CLIPPED.format("x")), ("d", "c + wd * w")]
BEFORE = [("x", "g * scale + wd * w"), ("d", CLIPPED.format("x"))]
"""The gradient that steps: weight decay is added after or before it is clipped."""

BOUND = "where(v > bound, bound, where(v < -bound, -bound, v))"

RULES: dict[type[update._Update], tuple[list[tuple[str, str]], tuple[str, ...]]] = {
    # steps from w, g and states to w_new and <state>_new; states in the order of the op's inputs
    update.SGDUpdate: ([*AFTER, ("w_new", "w - lr * d")], ()),
    update.SGDMomUpdate: ([*AFTER, ("m_new", "momentum * m - lr * d"), ("w_new", "w + m_new")],
                          ("m",)),
    update.NAGMomUpdate: ([*AFTER, ("y", "lr * d"),
                           ("w_new", "w + (momentum * (momentum * m - y) - y)"),
                           ("m_new", "momentum * m - lr * (c + wd * w_new)")], ("m",)),
    update.AdamUpdate: ([*BEFORE, ("m_new", "beta1 * m + rest_beta1 * d"),
                         ("v_new", "beta2 * v + rest_beta2 * d * d"),
                         ("w_new", "w - lr * m_new / (sqrt(v_new) + epsilon)")], ("m", "v")),
    update.RMSPropUpdate: ([*BEFORE, ("n_new", "gamma1 * n + rest_gamma1 * d * d"),
                            ("v", "w - lr * d / sqrt(n_new + epsilon)"), ("w_new", BOUND)],
                           ("n",)),
    update.RMSPropAlexUpdate: ([*BEFORE, ("n_new", "gamma1 * n + rest_gamma1 * d * d"),
                                ("a_new", "gamma1 * a + rest_gamma1 * d"),
                                ("e_new", "gamma2 * e - lr * d / "
                                          "sqrt(n_new - a_new * a_new + epsilon)"),
                                ("v", "w + e_new"), ("w_new", BOUND)], ("n", "a", "e")),
    update.AdaGradUpdate: ([("x", "g * scale"), ("c", CLIPPED.format("x")),
                            ("h_new", "h + c * c"),
                            ("w_new", "w - lr * (c / sqrt(h_new + epsilon) + wd * w)")], ("h",)),
}

MASTERS = {update.MPSGDUpdate: update.SGDUpdate, update.MPSGDMomUpdate: update.SGDMomUpdate,
           update.MPNAGMomUpdate: update.NAGMomUpdate}
"""Ops with a master weight, and the rules that they apply to it."""

def _number(op: Any, name: str) -> float:
    """The value of a word in the rules: mostly a field of the op."""
    if name == "scale":
        return op.rescale_grad
    if name in ("clip", "bound"):
        limit = op.clip_gradient if name == "clip" else op.clip_weights
        return limit if limit >= 0 else math.inf
    if name.startswith("rest_"):
        return float(np.float32(1) - np.float32(getattr(op, name.removeprefix("rest_"))))
    return getattr(op, name)


@cache
def _program(rule: Any, masters: bool) -> Program:
    """From w, g and the states to the output, the new states and, if there is one, the master."""
    rows, states = RULES[rule]
    steps = tuple(Step(*row) for row in rows)
    tensors = {"w", "g", *states, *(step.target for step in steps)}
    words = {word for step in steps for word in names_in(step.formula)}
    rounded = (Step("w_rounded", "w_new"),) if masters else ()
    outputs = ("w_new", *(f"{state}_new" for state in states), *(["w_rounded"] if masters else []))
    return Program(rule.name.strip("_"), steps + rounded, ("w", "g", *states), outputs,
                   tuple(sorted(words - tensors)))



def _numbers(op: Any, program: Program) -> list[float]:
    """MXNet keeps parameters in float32, whatever the weight's type."""
    return [single(_number(op, name)) for name in program.scalars]


def _step(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    kind: Any = type(op)
    program = _program(kind, False)
    return run_program(program, ins, [outs[0], *ins[2:]], _numbers(op, program))


def _master_step(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    program = _program(MASTERS[type(op)], True)
    _, grad, *states, master = ins
    return run_program(program, [master, grad, *states], [master, *states, outs[0]],
                       _numbers(op, program))


for _op in RULES:
    on_gpu(_op, _step)
for _op in MASTERS:
    on_gpu(_op, _master_step)
