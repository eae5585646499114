"""add_n, and where, whose condition may select whole rows.  (All other ops are formulas.)"""

from __future__ import annotations

from typing import Any

from ...dispatch import implements
from ...elementwise.arithmetic import AddN, Where, _rows, sum_program
from ...op import Call
from ..lib.fill import fill
from ..runtime.device_memory import Arrays, Outputs
from ..runtime.launch import Launch
from .formula_op import run_program


def _where(op: Where, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    rows: Any = _rows(ins[0], outs[0])  # type: ignore[arg-type]  # of any device
    return run_program(op.program(), [rows, *ins[1:]], outs)


def _where_backward(op: Where, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    program = op.backward_program()
    rows: Any = _rows(ins[1], ins[0])  # type: ignore[arg-type]  # of any device
    operands = op.operands([ins[0], rows], program)
    launches = run_program(program, operands, [None, *outs[1:]], add=call.add)
    if outs[0] is None or call.add and call.add[0]:
        return launches
    return launches + fill(outs[0], 0)


implements(AddN, "cuda",
           lambda op, ins, outs, call: run_program(sum_program(len(ins)), ins, outs, add=call.add))
implements(Where, "cuda", _where, _where_backward)
