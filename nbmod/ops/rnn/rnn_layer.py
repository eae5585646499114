"""One recurrent layer with separate weights: the result of loop rerolling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .rnn import RNN
from .rnn_plan import RnnPlan, Vector
from .rnn_steps import Arrays
from .rnn_weights import RnnLayout

__all__ = ["RecurrentLayer"]

KINDS = ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")


@dataclass(frozen=True, kw_only=True)
class RecurrentLayer(RNN):
    """`RNN` of one layer and one direction, without the vector of parameters.

    data (T, N, I), i2h_weight (G H, I), h2h_weight (G H, H), both biases (G H,), state and
    state_cell (N, H); output (T, N, H) and the last states, all that an unrolled cell has.  `order`
    is that of `rnn_weights`.
    """

    order: tuple[int, ...]
    num_layers: int = 1
    state_outputs: bool = True

    name: ClassVar = "_recurrent_layer"
    inputs: ClassVar = ("data", *KINDS, "state", "state_cell")
    needs: ClassVar = ("ograds", *inputs, "output", "workspace")

    @property
    def layout(self) -> RnnLayout:
        return replace(super().layout, order=self.order)

    def infer_shape(self, ins, outs):
        if ins[0] is None:
            return list(ins), list(outs)
        (steps, samples, inputs), size = ins[0], self.state_size
        rows, states = len(self.layout.gates) * size, len(self.list_outputs()) - 2
        plan = RnnPlan(self.layout, ins[0], np.dtype(np.float32), False)
        return ([ins[0], (rows, inputs), (rows,), (rows, size), (rows,),
                 *[(samples, size)] * states],
                [(steps, samples, size), *[(samples, size)] * states, (plan.workspace_size,)])

    def _arrays(self, plan: RnnPlan, tensors: Sequence[Vector | None]) -> Arrays:
        named = dict(zip(self.list_inputs(), tensors, strict=True))
        weights = {(0, 0, kind): array for kind in KINDS
                   if (array := named.pop(kind)) is not None}
        return Arrays(**named, weights=weights)
