"""Updates of weights by their formulas, evaluated with NumPy whatever the number of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch import REFERENCE, implements
from ..elementwise.program import run
from ..op import Call
from ..optimizer.multi_tensor import MultiSumSq, sum_of_squares_by_numpy
from ..optimizer.multi_weight_update import MultiUpdate
from ..optimizer.sgd_update import Update

__all__: list[str] = []


def update(op: Update | MultiUpdate, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """All rules, of one weight or of several."""
    op.update(ins, outs, run)


def _multi_sum_sq(op: MultiSumSq, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    outs[0][:] = [sum_of_squares_by_numpy(array) for array in ins]


implements((MultiUpdate, Update), REFERENCE, update)
implements(MultiSumSq, REFERENCE, _multi_sum_sq)
