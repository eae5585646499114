"""allclose: elements that differ by more than the tolerance are counted."""

from __future__ import annotations

import numpy as np

from ...dispatch import implements
from ...elementwise.allclose import AllClose
from ...elementwise.program import Assign, Program
from ...op import Call, Spec
from ..runtime.device_memory import Arrays
from ..runtime.launch import Launch
from .formula_op import run_program

APART = Program("apart", (
    Assign("near", "where(b - b == 0, where(abs(a - b) <= atol + rtol * abs(b), 1, 0), 0)"),
    Assign("same", "where(a == b, 1, where(a != a, where(b != b, both, 0), near))"),
    Assign("y", "1 - same")), ("a", "b"), ("y",), ("rtol", "atol", "both"))
NONE = Program("none", (Assign("y", "where(count > 0, 0, 1)"),), ("count",), ("y",))
"""Whether a count is 0."""


def _all_close(op: AllClose, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    apart = call.scratch[0]
    scalars = [op.rtol, op.atol, float(op.equal_nan)]
    return (run_program(APART, [x.reshape(-1) for x in ins], [apart], scalars)
            + run_program(NONE, [apart], [outs[0].reshape(1)]))


implements(AllClose, "cuda", _all_close,
           scratch=lambda op, ins, outs: [Spec((1,), np.dtype(np.float32))])
