"""A cell with a projection, dropout that all steps share, and unrolling as a loop."""

from __future__ import annotations

from typing import Any

from .... import ndarray as nd
from ....base import CheckError
from ....ndarray import NDArray
from ...base_parameter import Init, Parameter
from ...rnn.cell_modifiers import _has_directions, _RememberingCell
from ...rnn.recurrent_cell import (
    RecurrentCell,
    StateInfo,
    Stepped,
    _format_sequence,
    _get_begin_state,
    _is_tensor,
    _mask_sequence_variable_length,
)
from ...rnn.rnn_cell import _add_parameters, _DenseCell

__all__ = ["LSTMPCell", "VariationalDropoutCell"]
__dir__ = __all__.copy


class VariationalDropoutCell(_RememberingCell):
    """Dropout around a cell, with one draw for all steps (Gal and Ghahramani, 2016).

    The elements to drop are drawn by the first step after `reset`, which `unroll` calls, too.

    Parameters
    ----------
    base_cell : RecurrentCell
        The cell.
    drop_inputs, drop_outputs : float, default 0.0
        Shares of the elements of inputs and outputs that are set to 0 in training.
    drop_states : float, default 0.0
        Share of the elements of the first state.

    Raises
    ------
    AssertionError
        If states of a cell are dropped that cannot be stepped, or the cell is modified already.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.VariationalDropoutCell(mx.gluon.rnn.GRUCell(4), 0.2, 0.2)
    >>> cell.initialize()
    >>> cell.unroll(5, mx.nd.ones((1, 5, 3)), merge_outputs=True)[0].shape
    (1, 5, 4)
    """

    _hint = "vardrop"

    def __init__(self, base_cell: RecurrentCell, drop_inputs: float = 0.0,
                 drop_states: float = 0.0, drop_outputs: float = 0.0):
        if drop_states and _has_directions(base_cell):
            raise CheckError("BidirectionalCell doesn't support variational state dropout. Please "
                             "add VariationalDropoutCell to the cells underneath instead.")
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states = drop_inputs, drop_states
        self.drop_outputs = drop_outputs

    drop_inputs_mask: Any
    drop_states_mask: Any
    drop_outputs_mask: Any

    def reset(self) -> None:
        """Begin a new sequence: the next step draws anew."""
        super().reset()
        self.drop_inputs_mask = self.drop_states_mask = self.drop_outputs_mask = None

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Stepped:
        first, *others = states
        first = self._dropped(F, "drop_states", first)
        inputs = self._dropped(F, "drop_inputs", inputs)
        output, after = self.base_cell(inputs, [first, *others])
        return self._dropped(F, "drop_outputs", output), after

    def _dropped(self, F: Any, name: str, values: Any) -> Any:
        """The values without the dropped elements, which are drawn if they are not yet."""
        rate, mask = getattr(self, name), getattr(self, f"{name}_mask")
        if not rate:
            return values
        if not isinstance(mask, type(values)):  # none, or that of a trace
            mask = F.Dropout(F.ones_like(values), p=rate)
            setattr(self, f"{name}_mask", mask)
        if isinstance(mask, NDArray) and mask.shape != values.shape:
            raise CheckError(f"{self.name}: {name} was drawn for shape {mask.shape}, but values "
                             f"have shape {values.shape}; call reset() before each sequence")
        return values * mask

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None, valid_length: Any = None) -> Stepped:
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()        # without states, all steps are one operation
        inputs, axis, functions, size = _format_sequence(length, inputs, layout, True)
        F: Any = functions
        states = _get_begin_state(self, F, begin_state, inputs, size)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(length, inputs, states, layout, True, valid_length)
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = merge_outputs is not False
        outputs = _format_sequence(length, outputs, layout, merge)[0]
        if valid_length is not None:
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis, merge)
        return outputs, states

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(p_out = {self.drop_outputs}, "
                f"p_state = {self.drop_states})")


class LSTMPCell(_DenseCell):
    """Long short-term memory with projected outputs (Sak et al., 2014).

    `LSTMCell` whose output, which the next step takes, is P h.  Its states are P h and c.

    Parameters
    ----------
    hidden_size : int
        Number of units.
    projection_size : int
        Number of outputs.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of the weights (4 hidden_size, input_size) and (4 hidden_size,
        projection_size); None leaves them to `initialize`.
    h2r_weight_initializer : Initializer or str, optional
        Initializer of P, (projection_size, hidden_size).
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str, default 'zeros'
        Initializers of the biases.
    input_size : int, default 0
        Number of inputs; 0 for that of the first call.
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.LSTMPCell(4, projection_size=2)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((1, 3)), cell.begin_state(1))
    >>> output.shape, [state.shape for state in states]
    ((1, 2), [(1, 2), (1, 4)])
    """

    h2r_weight: Parameter
    _hint, _gates = "lstmp", 4

    def __init__(self, hidden_size: int, projection_size: int, i2h_weight_initializer: Init = None,
                 h2h_weight_initializer: Init = None, h2r_weight_initializer: Init = None,
                 i2h_bias_initializer: Init = "zeros", h2h_bias_initializer: Init = "zeros",
                 input_size: int = 0, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size = hidden_size, input_size
        self._projection_size = projection_size
        size = 4 * hidden_size
        _add_parameters(self, {
            "i2h_weight": (size, input_size), "h2h_weight": (size, projection_size),
            "h2r_weight": (projection_size, hidden_size), "i2h_bias": (size,),
            "h2h_bias": (size,)}, (
                i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer,
                i2h_bias_initializer, h2h_bias_initializer))

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return [{"shape": (batch_size, size), "__layout__": "NC"}
                for size in (self._projection_size, self._hidden_size)]

    def hybrid_forward(self, F: Any, inputs: Any, states: Any,  # type: ignore[override]
                       i2h_weight: Any, h2h_weight: Any, h2r_weight: Any, i2h_bias: Any,
                       h2h_bias: Any) -> Any:
        prefix, i2h, h2h = self._maps(F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        parts = F.SliceChannel(i2h + h2h, num_outputs=4, name=f"{prefix}slice")
        write, keep, candidate, show = (
            F.Activation(part, act_type=function, name=prefix + name)
            for part, (name, function) in zip(parts, (("i", "sigmoid"), ("f", "sigmoid"),
                                                      ("c", "tanh"), ("o", "sigmoid")),
                                              strict=True))
        memory = F.elemwise_add(keep * states[1], write * candidate, name=f"{prefix}state")
        hidden = F.elemwise_mul(show, F.Activation(memory, act_type="tanh"), name=f"{prefix}hidden")
        output = F.FullyConnected(data=hidden, num_hidden=self._projection_size, weight=h2r_weight,
                                  no_bias=True, name=f"{prefix}out")
        return output, [output, memory]

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} -> {self._projection_size})"


def dynamic_unroll(cell: RecurrentCell, inputs: Any, begin_state: Any, drop_inputs: float = 0,
                   drop_outputs: float = 0, layout: str = "TNC", valid_length: Any = None
                   ) -> Stepped:
    """Call a cell for each step of a sequence by one loop, `contrib.foreach`, of any length.

    Parameters
    ----------
    cell : RecurrentCell
        The cell.
    inputs : NDArray, Symbol or list of these
        The sequence in the layout, or its steps, each of shape (N, C).
    begin_state : NDArray, Symbol or list of these
        States before the first step.
    drop_inputs, drop_outputs : float, default 0
        Shares of the elements that are set to 0 in training, by one draw for all steps.
    layout : {'TNC', 'NTC'}, default 'TNC'
        Order of the axes steps, samples, channels; the default needs no transpositions.
    valid_length : NDArray or Symbol, optional
        Number of steps of each sample, (N,).  Outputs after it are 0, and the states returned are
        those after the last valid step.

    Returns
    -------
    outputs : NDArray or Symbol
        Outputs of all steps in the layout.
    states : list
        States after the last step.

    Examples
    --------
    >>> from nbmod.gluon.contrib.rnn.rnn_cell import dynamic_unroll
    >>> cell = mx.gluon.rnn.LSTMCell(4)
    >>> cell.initialize()
    >>> outputs, states = dynamic_unroll(cell, mx.nd.ones((5, 2, 3)), cell.begin_state(2))
    >>> outputs.shape, [state.shape for state in states]
    ((5, 2, 4), [(2, 4), (2, 4)])
    """
    inputs, axis, functions, _ = _format_sequence(None, inputs, layout, True)
    F: Any = functions
    swapped = [axis, *range(1, len(layout))]
    swapped[axis] = 0
    if axis:
        inputs = F.transpose(inputs, axes=swapped)
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(0,))
    states = [begin_state] if _is_tensor(begin_state) else [*begin_state]
    if valid_length is None:
        outputs, states = F.contrib.foreach(lambda step, states: cell(step, states), inputs, states)
    else:
        outputs, states = _foreach_valid(F, cell, inputs, states, valid_length)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,))
    if axis:
        outputs = F.transpose(outputs, axes=swapped)
    if valid_length is not None:
        outputs = F.SequenceMask(outputs, sequence_length=valid_length, use_sequence_length=True,
                                 axis=axis)
    return outputs, states


def _foreach_valid(F: Any, cell: RecurrentCell, inputs: Any, states: list[Any],
                   valid_length: Any) -> Stepped:
    """Outputs of all steps, and the states after the last valid one of each sample."""
    def step(values: Any, states: Any) -> Stepped:
        *before, number = states
        output, after = cell(values, before)
        after = [F.where(F.broadcast_greater(valid_length, number), new, old)
                 for new, old in zip(after, before, strict=True)]
        return output, [*after, number + 1]

    zero = nd.zeros(1, inputs.context) if F is nd else F.zeros(1)
    outputs, (*states, _) = F.contrib.foreach(step, inputs, [*states, zero])
    return outputs, states
