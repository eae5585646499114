"""add_n, and where, whose condition may select whole rows.  (All other ops are formulas.)"""

from __future__ import annotations

from typing import Any

from ...dispatch import implements
from ...elementwise.arithmetic import AddN, Where, _rows, sum_program
from ..lib.fill import fill
from ..runtime.launch import Launch
from .formula_op import run_program


def _where(op: Where, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return run_program(op.program(), [_rows(ins[0], outs[0]), *ins[1:]], outs)


def _where_backward(op: Where, ins: Any, outs: Any, call: Any) -> list[Launch]:
    program = op.backward_program()
    operands = op.operands([ins[0], _rows(ins[1], ins[0])], program)
    launches = run_program(program, operands, [None, *outs[1:]], add=call.add)
    if outs[0] is None or call.add and call.add[0]:
        return launches
    return launches + fill(outs[0], 0)


implements(AddN, "cuda",
           lambda op, ins, outs, call: run_program(sum_program(len(ins)), ins, outs, add=call.add))
implements(Where, "cuda", _where, _where_backward)
