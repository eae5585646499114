"""Elementwise nodes that run as one: their program is a kernel like that of any formula."""

from __future__ import annotations

from ...dispatch import implements
from ...elementwise.fused_elements import FusedElements
from ...op import Call
from ..runtime.device_memory import Arrays
from ..runtime.launch import Launch
from .formula_op import run_program


def _forward(op: FusedElements, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    seen_ins, seen_outs = op.reshaped(ins, outs)
    return run_program(op.program, seen_ins, seen_outs, op.scalars, call.add)


implements(FusedElements, "cuda", _forward)
