"""`RecurrentCell`: one step of a recurrent network, and how the steps of a sequence follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from ... import ndarray as nd
from ... import symbol as sym
from ...base import AbstractError, CheckError
from ...ndarray import NDArray
from ...symbol import Symbol
from ..block import Block, HybridBlock
from ..nn.activations import LeakyReLU

__all__ = ["HybridRecurrentCell", "RecurrentCell"]

StateInfo = dict[str, Any]
"""Shape and layout of a state, and its type where a layer knows it."""
Stepped = tuple[Any, list[Any]]
"""Output of a step or of a sequence, and the states after it."""


def _is_tensor(value: object) -> bool:
    """Whether this is one array or symbol, not a list of steps."""
    return isinstance(value, (NDArray, Symbol))


# -- sequences --------------------------------------------------------------------------------


def _format_sequence(length: int | None, inputs: Any, layout: str, merge: bool | None,
                     in_layout: str | None = None) -> tuple[Any, int, ModuleType, int]:
    """(sequence, axis of the steps, `mx.nd` or `mx.sym`, batch size or 0 of symbols).

    The sequence becomes one array if `merge` is True, a list of steps if it is False, and stays as
    it is if it is None.
    """
    if inputs is None:
        raise CheckError("unroll(inputs=None) has been deprecated. Please create input variables "
                         "outside unroll.")
    axis, in_axis = layout.find("T"), (in_layout or layout).find("T")
    first = inputs if _is_tensor(inputs) else inputs[0]
    functions = sym if isinstance(first, Symbol) else nd
    if _is_tensor(inputs):
        size = 0 if functions is sym else inputs.shape[layout.find("N")]
        if merge is False:
            inputs = _steps(inputs, length, in_axis)
    else:
        size = 0 if functions is sym else first.shape[0]
        _check_length(length, len(inputs))
        if merge is True:
            inputs, in_axis = functions.stack(*inputs, axis=axis), axis
    if _is_tensor(inputs) and axis != in_axis:
        inputs = functions.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis, functions, size


def _steps(inputs: Any, length: int | None, axis: int) -> list[Any]:
    """The steps of a sequence that is one array."""
    if isinstance(inputs, Symbol):
        if len(inputs.list_outputs()) != 1:
            raise CheckError("unroll doesn't allow grouped symbol as input. Please convert to list "
                             "with list(inputs) first or let unroll handle splitting.")
        assert length is not None
        return [*sym.split(inputs, axis=axis, num_outputs=length, squeeze_axis=1)]
    _check_length(length, inputs.shape[axis])
    steps = nd.split(inputs, axis=axis, num_outputs=inputs.shape[axis], squeeze_axis=1)
    return steps if isinstance(steps, list) else [steps]


def _check_length(length: int | None, steps: int) -> None:
    if length is not None and length != steps:
        raise CheckError(f"unroll: length is {length}, but the inputs have {steps} steps; the axis "
                         "of the steps is the T of layout")


def _mask_sequence_variable_length(F: Any, data: Any, length: int, valid_length: Any,
                                   time_axis: int, merge: bool | None) -> Any:
    """The sequence, with zeros from its valid length on: one array, or a list of steps."""
    if not _is_tensor(data):
        data = F.stack(*data, axis=time_axis)
    masked = F.SequenceMask(data, sequence_length=valid_length, use_sequence_length=True,
                            axis=time_axis)
    if merge:
        return masked
    return _as_list(F.split(masked, num_outputs=length, axis=time_axis, squeeze_axis=True))


def _reverse_sequences(sequences: Sequence[Any], unroll_step: int, valid_length: Any = None
                       ) -> list[Any]:
    """The steps in reverse; those from the valid length on stay where they are."""
    if valid_length is None:
        return [*reversed(sequences)]
    functions: Any = sym if isinstance(sequences[0], Symbol) else nd
    turned = functions.SequenceReverse(functions.stack(*sequences, axis=0),
                                       sequence_length=valid_length, use_sequence_length=True)
    if unroll_step == 1 and functions is nd:
        return [turned[0]]
    return _as_list(functions.split(turned, axis=0, num_outputs=unroll_step, squeeze_axis=True))


def _as_list(steps: Any) -> list[Any]:
    return [steps] if isinstance(steps, NDArray) else [*steps]


# -- states -----------------------------------------------------------------------------------


def _cells_state_info(cells: Iterable[Any], batch_size: int) -> list[StateInfo]:
    return [info for cell in cells for info in cell.state_info(batch_size)]


def _cells_begin_state(cells: Iterable[Any], **kwargs: Any) -> list[Any]:
    return [state for cell in cells for state in cell.begin_state(**kwargs)]


def _get_begin_state(cell: Any, F: Any, begin_state: Any, inputs: Any, batch_size: int) -> Any:
    """The states before the first step: those there are, or zeros on the device of the inputs."""
    if begin_state is not None:
        return begin_state
    if F is sym:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)
    first = inputs if isinstance(inputs, NDArray) else inputs[0]
    with first.context:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)


# -- cells ------------------------------------------------------------------------------------


class RecurrentCell(Block):
    """Base of cells: `cell(inputs, states)` is one step and returns (output, new states).

    A subclass defines `state_info` and `forward`; `HybridRecurrentCell` is the base of those that
    can be hybridized.

    Parameters
    ----------
    prefix, params
        As for `Block`.

    Examples
    --------
    >>> class Sum(mx.gluon.rnn.RecurrentCell):
    ...     def state_info(self, batch_size=0):
    ...         return [{"shape": (batch_size, 1), "__layout__": "NC"}]
    ...     def forward(self, inputs, states):
    ...         total = inputs + states[0]
    ...         return total, [total]
    >>> outputs, states = Sum().unroll(3, mx.nd.array([[[1], [2], [3]]]), merge_outputs=True)
    >>> outputs.reshape(-1).asnumpy().tolist()
    [1.0, 3.0, 6.0]
    """

    def __init__(self, prefix: str | None = None, params: Any = None, **unknown: Any):
        super().__init__(prefix=prefix, params=params, **unknown)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Begin a new sequence: names of nodes count from 0 again."""
        self._init_counter = self._counter = -1
        for cell in self._children.values():
            if hasattr(cell, "reset"):
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        """Shapes and layouts of the states.

        Parameters
        ----------
        batch_size : int, default 0
            Number of samples; 0 for one that is inferred.
        """
        raise AbstractError(f"{type(self).__name__}.state_info is not defined")

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
                    ) -> list[Any]:
        """Return the states before the first step.

        Parameters
        ----------
        batch_size : int, default 0
            Number of samples.
        func : callable, default mx.nd.zeros
            Makes a state of a name and a shape: `mx.sym.zeros` for symbols.
        **kwargs
            More arguments of `func`, such as `ctx` and `dtype`.

        Raises
        ------
        AssertionError
            If a modifier cell has been put around this cell.

        Examples
        --------
        >>> [state.shape for state in mx.gluon.rnn.LSTMCell(3).begin_state(2)]
        [(2, 3), (2, 3)]
        """
        self._check_unmodified("ZoneoutCell")
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            name = f"{self.prefix}begin_state_{self._init_counter}"
            states.append(func(name=name, **{**info, **kwargs}))
        return states

    def _check_unmodified(self, modifier: str) -> None:
        if self._modified:
            raise CheckError(f"After applying modifier cells (e.g. {modifier}) the base cell "
                             "cannot be called directly. Call the modifier cell instead.")

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None, valid_length: Any = None) -> Stepped:
        """Call the cell for each step of a sequence.

        Parameters
        ----------
        length : int
            Number of steps.
        inputs : NDArray, Symbol or list of these
            The sequence in the layout, or its steps, each of shape (N, C).
        begin_state : list, optional
            States before the first step; zeros by default.
        layout : {'NTC', 'TNC'}, default 'NTC'
            Order of the axes samples, steps, channels.
        merge_outputs : bool, optional
            Whether outputs become one array in the layout, or a list of steps; None leaves them as
            they come.
        valid_length : NDArray or Symbol, optional
            Number of steps of each sample, (N,).  Outputs after it are 0, and the states returned
            are those after the last valid step.

        Returns
        -------
        outputs : NDArray, Symbol or list of these
            The outputs of all steps.
        states : list
            The states after the last one.

        Raises
        ------
        AssertionError
            If the inputs have another number of steps.

        Examples
        --------
        >>> cell = mx.gluon.rnn.GRUCell(4)
        >>> cell.initialize()
        >>> outputs, states = cell.unroll(5, mx.nd.ones((2, 5, 3)), merge_outputs=True)
        >>> outputs.shape, states[0].shape
        ((2, 5, 4), (2, 4))
        """
        self.reset()
        inputs, axis, functions, size = _format_sequence(length, inputs, layout, False)
        F: Any = functions
        states = _get_begin_state(self, F, begin_state, inputs, size)
        outputs, history = [], []
        for step in range(length):
            output, states = self(inputs[step], states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:
            states = [F.SequenceLast(F.stack(*each, axis=0), sequence_length=valid_length,
                                     use_sequence_length=True, axis=0)
                      for each in zip(*history, strict=True)]
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis, True)
        return _format_sequence(length, outputs, layout, merge_outputs)[0], states

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """Apply an activation: its name, a `LeakyReLU`, or another function."""
        if activation in ("relu", "sigmoid", "softsign", "tanh"):
            return getattr(F, activation)(inputs, **kwargs)
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs, **kwargs)

    def forward(self, inputs: Any, states: Any) -> Any:
        """Compute one step.

        Parameters
        ----------
        inputs : NDArray or Symbol
            Inputs of the step, (N, C).
        states : list
            States before it.

        Returns
        -------
        output : NDArray or Symbol
            Output of the step.
        states : list
            States after it.
        """
        self._counter += 1
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """Base of cells that can be hybridized; a subclass defines `hybrid_forward`.

    Parameters
    ----------
    prefix, params
        As for `HybridBlock`.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        raise AbstractError(f"{type(self).__name__}.hybrid_forward is not defined")
