"""GroupAdaGrad on a GPU, whose rate varies by row; `sgd_update` has all other updates."""

from __future__ import annotations

from typing import Any

from ...dispatch import implements
from ...optimizer.adaptive_update import GroupAdaGradUpdate
from ..elementwise.formula_op import run_program
from ..runtime.launch import Launch


def _group_adagrad(op: GroupAdaGradUpdate, ins: Any, outs: Any, call: Any) -> list[Launch]:
    tensors = op.tensors(ins, outs)
    return [launch for program, add in op.stages() for launch in run_program(
        program, [tensors[name] for name in program.inputs],
        [tensors[name] for name in program.outputs],
        op.scalar_values_of(program, ins[0].shape[1]), add)]


implements(GroupAdaGradUpdate, "cuda", _group_adagrad)
