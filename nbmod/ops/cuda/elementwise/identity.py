"""Constants in the shape of a tensor.  (The ops that pass it on are views, or formulas.)"""

from __future__ import annotations

from ...elementwise.identity import Filled
from ..lib.fill import fill
from ..runtime.launch import on_gpu

on_gpu(Filled, lambda op, ins, outs, call: fill(outs[0], op.value))
