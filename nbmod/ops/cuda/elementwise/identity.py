"""Constants in the shape of a tensor.  (The ops that pass it on are views, or formulas.)"""

from __future__ import annotations

from typing import Any

from ...elementwise.identity import Filled
from ..lib.fill import fill
from ..runtime.launch import Launch, on_gpu


def _forward(op: Filled, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return fill(outs[0], op.value)


on_gpu(Filled, _forward)
