"""RNN: stacked recurrent layers (plain, LSTM, GRU) over whole sequences.

`rnn_weights` defines the layout of the parameter vector, `rnn_plan` the memory of the operator,
`rnn_steps` what is computed in which order; `rnn_kernels` runs one layer, and `rnn_cells` has the
formulas of the cells and of their gradients.  This module has the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...base import MXNetError
from ..elementwise.float_op import FloatOp, accumulator
from ..nn.sliding_window import expect
from ..op import Run, Tensor, all_of
from ..shape import PartialShape, ShapeMismatch, is_known, unify
from .rnn_plan import RnnPlan
from .rnn_steps import Arrays, backward_steps, forward_steps
from .rnn_weights import RnnLayout

__all__ = ["RNN"]


@dataclass(frozen=True, kw_only=True)
class RNN(FloatOp, name="RNN"):
    """Stacked recurrent layers over all steps of data (T, N, I).

        rnn    h = tanh(a), or max(a, 0);  a = i2h x + i2h_bias + h2h h' + h2h_bias
        lstm   i, f, o = sigmoid(a), u = tanh(a);  c = f c' + i u;  h = o tanh(c)
        gru    r, z = sigmoid(a);  n = tanh(i2h x + i2h_bias + r (h2h h' + h2h_bias));
               h = (1 - z) n + z h'

    each gate with its own rows of i2h and h2h; `parameters` is the vector of all weights and biases
    (see `rnn_weights`).  state and state_cell (L D, N, H) are h' and c' of the first step, D = 2 if
    bidirectional: the second direction goes from the last step to the first.  Output (T, N, D H),
    and with `state_outputs` the last states, shaped like the first ones.

    With `projection_size` R (lstm) h is projected to h2r h, of size R instead of H.  `p` is the
    probability of dropout between layers in training.  With `use_sequence_length`, sample n has
    sequence_length[n] steps: its outputs after them are 0, its last states are those of its own
    last step, where its second direction begins.  `lstm_state_clip_min` and `_max` bound c; with
    `lstm_state_clip_nan` NaN becomes the lower bound.

    The hidden output holds what the backward pass reads: gates, cells, outputs of lower layers.
    """

    state_size: int
    num_layers: int
    bidirectional: bool = False
    mode: Literal["gru", "lstm", "rnn_relu", "rnn_tanh"]
    p: float = 0.0
    state_outputs: bool = False
    projection_size: int | None = None
    lstm_state_clip_min: float | None = None
    lstm_state_clip_max: float | None = None
    lstm_state_clip_nan: bool = False
    use_sequence_length: bool = False

    inputs: ClassVar[tuple[str, ...]] = ("data", "parameters", "state", "state_cell",
                                           "sequence_length")
    needs: ClassVar[tuple[str, ...]] = ("ograds", *inputs, "output", "workspace")

    def __post_init__(self) -> None:
        for name in ("state_size", "num_layers"):
            if getattr(self, name) < 1:
                raise self._wrong(name, "at least 1")
        if not 0 <= self.p <= 1:
            raise self._wrong("p", "a number from 0 to 1")
        if self.projection_size is not None and (self.projection_size < 1 or self.mode != "lstm"):
            raise self._wrong("projection_size", "None, or in mode lstm at least 1; mode is "
                              f"{self.mode}")
        if (self.lstm_state_clip_min is None) != (self.lstm_state_clip_max is None):
            raise self._wrong("lstm_state_clip_min", "a number if and only if lstm_state_clip_max "
                              f"is one, which is {self.lstm_state_clip_max}")

    def _wrong(self, name: str, expected: str) -> MXNetError:
        return MXNetError(f"RNN: parameter {name} is {getattr(self, name)}, expected {expected}")

    # -- names --------------------------------------------------------------------------------

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self.p > 0

    def list_inputs(self) -> tuple[str, ...]:
        skipped = set() if self.mode == "lstm" else {"state_cell"}
        skipped |= set() if self.use_sequence_length else {"sequence_length"}
        return tuple(name for name in self.inputs if name not in skipped)

    def list_outputs(self) -> tuple[str, ...]:
        states = ("state_output", "statecell_output")[:1 + (self.mode == "lstm")]
        return ("output", *(states if self.state_outputs else ()), "workspace")

    @property
    def num_visible(self) -> int:
        return len(self.list_outputs()) - 1

    @property
    def layout(self) -> RnnLayout:
        """Layout of the parameters."""
        return RnnLayout(self.mode, self.state_size, self.num_layers, self.bidirectional,
                         self.projection_size or 0)

    # -- inference ------------------------------------------------------------------------------

    def infer_shape(self, ins, outs):
        layout, named = self.layout, dict(zip(self.list_inputs(), ins, strict=True))
        data = steps, samples, inputs = self._data_shape(named, outs[0])
        cells = layout.num_layers * layout.directions
        expected = {
            "data": data,
            "parameters": (layout.size(inputs) if inputs else 0,),
            "state": (cells, samples, layout.output_size),
            "state_cell": (cells, samples, layout.state_size),
            "sequence_length": (samples,),
        }
        shapes = [expect(name, shape, expected[name], data) for name, shape in named.items()]
        results = [(steps, samples, layout.directions * layout.output_size), expected["state"],
                   expected["state_cell"]][:self.num_visible]
        visible = [unify(want, shape, "computed and wanted output")
                   for want, shape in zip(results, outs[:-1], strict=True)]
        plan = RnnPlan(layout, data, np.dtype(np.float32), self.p > 0)
        return shapes, [*visible, (plan.workspace_size if is_known(data) else 0,)]

    def _data_shape(self, known: dict[str, PartialShape], output: PartialShape
                    ) -> tuple[int, int, int]:
        """(T, N, I) as far as inputs and output determine it."""
        data, state, parameters = (known[name] for name in ("data", "state", "parameters"))
        if data is not None and len(data) != 3:
            raise ShapeMismatch(f"data has shape {data}, expected (T, N, I): steps, samples, "
                                "elements per step")
        steps, samples, inputs = data or (0, 0, 0)
        if output is not None and len(output) == 3:
            steps, samples = steps or output[0], samples or output[1]
        if state is not None and len(state) == 3:
            samples = samples or state[1]
        if not inputs and parameters is not None and len(parameters) == 1 and parameters[0]:
            inputs = self.layout.input_size(parameters[0])
        return steps, samples, inputs

    def infer_type(self, ins, outs):
        floats = [kind for name, kind in zip(self.list_inputs(), ins, strict=True)
                  if name != "sequence_length"]
        kinds, visible = super().infer_type(floats, outs[:-1])
        kind = kinds[0]
        lengths = [ins[-1] or kind] if self.use_sequence_length else []
        return [*kinds, *lengths], [*visible, None if kind is None else accumulator(kind)]

    # -- execution ------------------------------------------------------------------------------

    def _plan(self, data: Tensor) -> RnnPlan:
        return RnnPlan(self.layout, tuple(data.shape), accumulator(data.dtype), self.p > 0)

    def _arrays(self, plan: RnnPlan, tensors: Sequence[Any]) -> Arrays:
        """Inputs or gradients by name; in `Arrays` sequence_length is `lengths`."""
        named = dict(zip(self.list_inputs(), tensors, strict=True))
        lengths, vector = named.pop("sequence_length", None), named.pop("parameters")
        return Arrays(**named, lengths=lengths,
                      weights={} if vector is None else plan.weights(vector))

    def _clip(self, dtype: np.dtype) -> tuple[Any, Any, bool]:
        if self.lstm_state_clip_min is None or self.lstm_state_clip_max is None:
            return dtype.type(-np.inf), dtype.type(np.inf), False
        return (dtype.type(self.lstm_state_clip_min), dtype.type(self.lstm_state_clip_max),
                self.lstm_state_clip_nan)

    def scratch(self, ins, outs):
        return list(self._plan(ins[0]).forward_scratch().values())

    def backward_scratch(self, ins, outs):
        return list(self._plan(outs[0]).backward_scratch().values())

    def prepare(self, ins, outs, call):
        plan = self._plan(ins[0])
        scratch = dict(zip(plan.forward_scratch(), call.scratch, strict=False))
        output, *states, workspace = outs
        stores = (plan.shared_stores(scratch["store"], output) if workspace is None
                  else plan.kept_stores(workspace, output))
        h, c = (scratch[name] if array is None else array.reshape(scratch[name].shape)
                for name, array in zip("hc", [*states, None, None], strict=False))
        return all_of(forward_steps(plan, self._arrays(plan, ins), stores, (h, c), scratch,
                                    self._clip(plan.dtype), (self.p, call)))

    def prepare_backward(self, ins, outs, call) -> Run:
        ograds, rest = ins[:self.num_visible], ins[self.num_visible:]
        *inputs, output, workspace = rest
        plan = self._plan(inputs[0])
        arrays, grads = self._arrays(plan, inputs), self._arrays(plan, outs)
        scratch = dict(zip(plan.backward_scratch(), call.scratch, strict=False))
        runs = [lambda: grads.lengths.fill(0)] if grads.lengths is not None else []
        heads = [*ograds, None, None][:3]
        return all_of(runs + backward_steps(plan, arrays, plan.kept_stores(workspace, output),
                                            heads, grads, scratch, self._clip(plan.dtype)))
