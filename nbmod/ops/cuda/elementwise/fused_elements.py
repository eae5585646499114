"""Elementwise nodes that run as one: their program is a kernel like that of any formula."""

from __future__ import annotations

from typing import Any

from ...dispatch import implements
from ...elementwise.fused_elements import FusedElements
from ..runtime.launch import Launch
from .formula_op import run_program


def _forward(op: FusedElements, ins: Any, outs: Any, call: Any) -> list[Launch]:
    seen_ins, seen_outs = op.reshaped(ins, outs)
    return run_program(op.program, seen_ins, seen_outs, op.scalars, call.add)


implements(FusedElements, "cuda", _forward)
