"""Optimizer updates on a GPU: the programs of `ops.optimizer`, one launch for each weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch import implements
from ...elementwise.program import Program
from ...optimizer import sgd_update
from ..elementwise.formula_op import run_program
from ..runtime.launch import Launch

__all__ = ["launches"]


def launches(op: sgd_update.Update, program: Program, tensors: dict[str, Any],
             add: Sequence[bool] = ()) -> list[Launch]:
    """Launches that run a program of `op` over named arrays."""
    return run_program(program, [tensors[name] for name in program.inputs],
                       [tensors[name] for name in program.outputs], op.scalar_values(program), add)


implements(sgd_update.Update, "cuda",
           lambda op, ins, outs, call: launches(op, op.program(), op.tensors(ins, outs)))
