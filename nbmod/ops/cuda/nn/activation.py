"""LeakyReLU, whose slope is constant, learned or random.  (Activation is a formula.)"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch import implements
from ...nn.activation import LeakyReLU
from ...op import Call
from ..elementwise.formula_op import run_program
from ..runtime.device_memory import Arrays, Outputs
from ..runtime.launch import Launch


def _forward(op: LeakyReLU, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    program = op.program()
    scalars = op.scalar_values(program, outs[0])
    if op.act_type != "rrelu":
        operands = op._aligned(op.list_inputs(), ins, ins[0].shape)
        return run_program(program, operands, outs, scalars)
    mask = call.scratch[0] if outs[1] is None else outs[1]

    def draw() -> None:
        drawn = np.empty(mask.shape, mask.dtype)
        op._draw(drawn, call)
        mask.device.copy(drawn, mask)

    return [draw, *run_program(program, [ins[0], mask], outs[:1], scalars)]


def _backward(op: LeakyReLU, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    program, data = op.backward_program(), ins[0].shape
    operands = op.operands(op._aligned(op.needs, ins, data), program)
    return run_program(program, operands, op._aligned(op.list_inputs(), outs, data),
                       op.scalar_values(program, ins[0]), call.add)


implements(LeakyReLU, "cuda", _forward, _backward, scratch=lambda op, ins, outs: outs[1:])
