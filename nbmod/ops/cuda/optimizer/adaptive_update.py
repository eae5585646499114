"""GroupAdaGrad on a GPU, whose rate varies by row; `sgd_update` has all other updates."""

from __future__ import annotations

from ...dispatch import implements
from ...op import Call
from ...optimizer.adaptive_update import GroupAdaGradUpdate
from ..elementwise.formula_op import run_program
from ..runtime.device_memory import Arrays
from ..runtime.launch import Launch


def _group_adagrad(op: GroupAdaGradUpdate, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    tensors = op.tensors(ins, outs)
    return [launch for program, add in op.stages() for launch in run_program(
        program, [tensors[name] for name in program.inputs],
        [tensors[name] for name in program.outputs],
        op.scalar_values_of(program, ins[0].shape[1]), add)]


implements(GroupAdaGradUpdate, "cuda", _group_adagrad)
