"""LAMB on a GPU: the stages of `ops.optimizer.lamb_update` in order."""

from __future__ import annotations

from ...dispatch import implements
from ...elementwise.float16 import FLOAT16, FLOAT32
from ...op import Call, Spec
from ...optimizer.lamb_update import LambUpdate
from ..runtime.device_memory import Arrays
from ..runtime.launch import Launch
from .sgd_update import launches


def _lengths(op: LambUpdate, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Scratch for the squared norms of the weight and of the step."""
    kind = dict(zip(op.inputs, ins, strict=True))["mean"].dtype
    return [Spec((1,), FLOAT32 if kind == FLOAT16 else kind)] * 2


def _lamb(op: LambUpdate, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    tensors = {**op.tensors(ins, outs), **dict(zip(("w2", "s2"), call.scratch, strict=True))}
    return [launch for program in op.stages() for launch in launches(op, program, tensors)]


implements(LambUpdate, "cuda", _lamb, scratch=_lengths)
