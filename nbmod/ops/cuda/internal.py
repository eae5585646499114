"""The ops that the executor's passes insert."""

from __future__ import annotations

from typing import Any

from ..internal import Accumulate, ZeroGradient
from .fill import fill
from .formula_op import COPY, run_program
from .launch import Launch, on_gpu


def _accumulate(op: Accumulate, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return run_program(COPY, [ins[0]], [outs[0]], add=call.add)


def _zero(op: ZeroGradient, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return fill(outs[0], 0)


on_gpu(Accumulate, _accumulate)
on_gpu(ZeroGradient, _zero)
