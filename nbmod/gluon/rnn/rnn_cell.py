"""The cells with weights; also MXNet's module path of all other cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ..base_parameter import Init, Parameter
from ..block import HybridBlock
from .cell_containers import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell
from .cell_modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from .recurrent_cell import (  # noqa: F401 - MXNet's extensions import these
    HybridRecurrentCell,
    RecurrentCell,
    StateInfo,
    _cells_begin_state,
    _cells_state_info,
    _format_sequence,
    _get_begin_state,
    _mask_sequence_variable_length,
    _reverse_sequences,
)

__all__ = ["BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell",
           "HybridSequentialRNNCell", "LSTMCell", "ModifierCell", "RNNCell", "RecurrentCell",
           "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]
__dir__ = __all__.copy

Function = str | HybridBlock | Callable[..., Any]
"""An activation: its name, or a function of an array or a symbol."""


def _add_parameters(cell: HybridRecurrentCell, shapes: dict[str, tuple[int, ...]],
                    initializers: Iterable[Init]) -> None:
    """Add parameters of these shapes, by name, each with an initializer."""
    for (name, shape), init in zip(shapes.items(), initializers, strict=True):
        setattr(cell, name, cell.params.get(name, shape=shape, init=init, allow_deferred_init=True))


class _DenseCell(HybridRecurrentCell):
    """Base of cells that map the input and the last output by fully connected layers.

    `_gates` is the number of parts of a map, `_states` that of states of shape (N, hidden_size).
    """

    i2h_weight: Parameter
    _gates: ClassVar[int]
    _states: ClassVar[int] = 1

    def _add_parameters(self, hidden_size: int, input_size: int, *initializers: Any) -> None:
        """Add both weights, then both biases, with these initializers."""
        self._hidden_size, self._input_size = hidden_size, input_size
        size = hidden_size * self._gates
        _add_parameters(self, {
            "i2h_weight": (size, input_size), "h2h_weight": (size, hidden_size),
            "i2h_bias": (size,), "h2h_bias": (size,)}, initializers)

    def _maps(self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any,
              i2h_bias: Any, h2h_bias: Any) -> tuple[str, Any, Any]:
        """(prefix of the step, map of the input, map of the last output)."""
        prefix, size = f"t{self._counter}_", self._hidden_size * self._gates
        i2h = F.FullyConnected(data=inputs, weight=i2h_weight, bias=i2h_bias, num_hidden=size,
                               name=f"{prefix}i2h")
        h2h = F.FullyConnected(data=states[0], weight=h2h_weight, bias=h2h_bias, num_hidden=size,
                               name=f"{prefix}h2h")
        return prefix, i2h, h2h

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any,
                       i2h_bias: Any, h2h_bias: Any) -> Any:
        maps = self._maps(F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        return self._from_maps(F, *maps, states)

    def _from_maps(self, F: Any, prefix: str, i2h: Any, h2h: Any, states: Any) -> Any:
        """(output, new states) of the maps."""
        raise NotImplementedError

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}
                for _ in range(self._states)]

    def __repr__(self) -> str:
        size, inputs = self.i2h_weight.shape or (0, 0)
        return f"{type(self).__name__}({inputs or None} -> {size})"


class RNNCell(_DenseCell):
    """Elman's cell: h' = activation(W x + b + R h + c).

    Parameters
    ----------
    hidden_size : int
        Number of units.
    activation : str or HybridBlock, default 'tanh'
        Function of the outputs.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of W and R; None leaves them to `initialize`.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str, default 'zeros'
        Initializers of b and c.
    input_size : int, default 0
        Number of inputs; 0 for that of the first call.
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> cell = mx.gluon.rnn.RNNCell(4)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3)), cell.begin_state(2))
    >>> output.shape
    (2, 4)
    """

    _hint, _gates = "rnn", 1

    def __init__(self, hidden_size: int, activation: Function = "tanh",
                 i2h_weight_initializer: Init = None, h2h_weight_initializer: Init = None,
                 i2h_bias_initializer: Init = "zeros", h2h_bias_initializer: Init = "zeros",
                 input_size: int = 0, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._activation = activation
        self._add_parameters(hidden_size, input_size, i2h_weight_initializer,
                             h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer)

    def _from_maps(self, F: Any, prefix: str, i2h: Any, h2h: Any, states: Any) -> Any:
        output = self._get_activation(F, F.elemwise_add(i2h, h2h, name=f"{prefix}plus0"),
                                      self._activation, name=f"{prefix}out")
        return output, [output]

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self._activation})"


class LSTMCell(_DenseCell):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997).

    i, f, g, o are the four parts of W x + b + R h + c; then c' = f * c + i * g and
    h' = o * act(c'), with gates i, f, o through the recurrent activation and act(g) for g.

    Parameters
    ----------
    hidden_size : int
        Number of units.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of W and R; None leaves them to `initialize`.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str, default 'zeros'
        Initializers of b and c; `LSTMBias` opens the forget gate.
    input_size : int, default 0
        Number of inputs; 0 for that of the first call.
    prefix, params
        As for `HybridBlock`.
    activation : str or HybridBlock, default 'tanh'
        Function of the candidate and of the memory.
    recurrent_activation : str or HybridBlock, default 'sigmoid'
        Function of the gates.

    Examples
    --------
    >>> cell = mx.gluon.rnn.LSTMCell(4)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3)), cell.begin_state(2))
    >>> output.shape, len(states)
    ((2, 4), 2)
    """

    _hint, _gates, _states = "lstm", 4, 2

    def __init__(self, hidden_size: int, i2h_weight_initializer: Init = None,
                 h2h_weight_initializer: Init = None, i2h_bias_initializer: Init = "zeros",
                 h2h_bias_initializer: Init = "zeros", input_size: int = 0,
                 prefix: str | None = None, params: Any = None, activation: Function = "tanh",
                 recurrent_activation: Function = "sigmoid"):
        super().__init__(prefix=prefix, params=params)
        self._activation, self._recurrent_activation = activation, recurrent_activation
        self._add_parameters(hidden_size, input_size, i2h_weight_initializer,
                             h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer)

    def _from_maps(self, F: Any, prefix: str, i2h: Any, h2h: Any, states: Any) -> Any:
        parts = F.SliceChannel(F.elemwise_add(i2h, h2h, name=f"{prefix}plus0"), num_outputs=4,
                               name=f"{prefix}slice")
        write, keep, show = (
            self._get_activation(F, parts[index], self._recurrent_activation, name=prefix + name)
            for index, name in ((0, "i"), (1, "f"), (3, "o")))
        candidate = self._get_activation(F, parts[2], self._activation, name=f"{prefix}c")
        memory = F.elemwise_add(
            F.elemwise_mul(keep, states[1], name=f"{prefix}mul0"),
            F.elemwise_mul(write, candidate, name=f"{prefix}mul1"), name=f"{prefix}state")
        shown = F.Activation(memory, act_type=self._activation, name=f"{prefix}activation0")
        output = F.elemwise_mul(show, shown, name=f"{prefix}out")
        return output, [output, memory]


class GRUCell(_DenseCell):
    """Gated recurrent unit (Cho et al., 2014).

    Gates r and z are sigmoids of the first two parts of W x + b + R h + c; the candidate is
    tanh(g) of g = (W x + b) + r * (R h + c), and h' = (1 - z) * tanh(g) + z * h.

    Parameters
    ----------
    hidden_size : int
        Number of units.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of W and R; None leaves them to `initialize`.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str, default 'zeros'
        Initializers of b and c.
    input_size : int, default 0
        Number of inputs; 0 for that of the first call.
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> cell = mx.gluon.rnn.GRUCell(4)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3)), cell.begin_state(2))
    >>> output.shape
    (2, 4)
    """

    _hint, _gates = "gru", 3

    def __init__(self, hidden_size: int, i2h_weight_initializer: Init = None,
                 h2h_weight_initializer: Init = None, i2h_bias_initializer: Init = "zeros",
                 h2h_bias_initializer: Init = "zeros", input_size: int = 0,
                 prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._add_parameters(hidden_size, input_size, i2h_weight_initializer,
                             h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer)

    def _from_maps(self, F: Any, prefix: str, i2h: Any, h2h: Any, states: Any) -> Any:
        i2h_r, i2h_z, i2h_g = F.SliceChannel(i2h, num_outputs=3, name=f"{prefix}i2h_slice")
        h2h_r, h2h_z, h2h_g = F.SliceChannel(h2h, num_outputs=3, name=f"{prefix}h2h_slice")
        reset = F.Activation(F.elemwise_add(i2h_r, h2h_r, name=f"{prefix}plus0"),
                             act_type="sigmoid", name=f"{prefix}r_act")
        keep = F.Activation(F.elemwise_add(i2h_z, h2h_z, name=f"{prefix}plus1"),
                            act_type="sigmoid", name=f"{prefix}z_act")
        candidate = F.Activation(
            F.elemwise_add(i2h_g, F.elemwise_mul(reset, h2h_g, name=f"{prefix}mul0"),
                           name=f"{prefix}plus2"), act_type="tanh", name=f"{prefix}h_act")
        write = F.elemwise_sub(F.ones_like(keep, name=f"{prefix}ones_like0"), keep,
                               name=f"{prefix}minus0")
        output = F.elemwise_add(
            F.elemwise_mul(write, candidate, name=f"{prefix}mul1"),
            F.elemwise_mul(keep, states[0], name=f"{prefix}mul20"), name=f"{prefix}out")
        return output, [output]
