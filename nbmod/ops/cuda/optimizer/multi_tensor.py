"""Sums of squares, tests for infinities and NaN, and zeroing of many tensors on a GPU."""

from __future__ import annotations

from ...dispatch import implements
from ...elementwise.program import Assign, Program
from ...op import Call, Spec
from ...optimizer.multi_tensor import AllFinite, MultiAllFinite, MultiSumSq, ResetArrays
from ..elementwise.allclose import NONE
from ..elementwise.formula_op import run_program
from ..lib.fill import fill_zero
from ..runtime.device_memory import Arrays
from ..runtime.launch import Launch

SQUARES = Program("squares", (Assign("y", "x * x"),), ("x",), ("y",))
WRONG = Program("wrong", (Assign("y", "where(x * 0 == 0, 0, 1)"),), ("x",), ("y",))
KEPT = Program("kept", (Assign("z", "where(wrong > 0, 0, where(y == 0, 0, 1))"),), ("wrong", "y"),
               ("z",))


def _sum_squares(op: MultiSumSq, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return [launch for index, array in enumerate(ins)
            for launch in run_program(SQUARES, [array], [outs[0].part(index, (1,))])]


def _finite(op: AllFinite | MultiAllFinite, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    """1 if the count of non-finite elements is 0."""
    wrong = call.scratch[0]
    counts = [launch for index, array in enumerate(ins)
              for launch in run_program(WRONG, [array], [wrong], add=[index > 0])]
    if op.init_output:
        return counts + run_program(NONE, [wrong], outs)
    return counts + run_program(KEPT, [wrong, outs[0]], outs)


implements(MultiSumSq, "cuda", _sum_squares)
implements((AllFinite, MultiAllFinite), "cuda", _finite,
           scratch=lambda op, ins, outs: [Spec((1,), outs[0].dtype)])
implements(ResetArrays, "cuda", lambda op, ins, outs, call: fill_zero(ins))
