"""Constants in the shape of a tensor.  (The ops that pass it on are views, or formulas.)"""

from __future__ import annotations

from ...dispatch import implements
from ...elementwise.identity import Filled
from ..lib.fill import fill

implements(Filled, "cuda", lambda op, ins, outs, call: fill(outs[0], op.value))
