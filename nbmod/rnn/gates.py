"""The steps of three recurrent networks, and the cells that compute them with dense layers.

A step maps the input (i2h) and the last output (h2h), each with a weight and a bias for all gates
at once, and combines the two. The mapping is defined by the cell: `DenseCell` has fully connected
layers, `BaseConvRNNCell` convolutions; the combination is defined by the mixins `ElmanStep`,
`LSTMStep` and `GRUStep`. Sources: Elman (1990), Hochreiter and Schmidhuber (1997), Cho et al.
(2014).
"""

from __future__ import annotations

from typing import Any

from .. import symbol as sym
from ..initializer import Initializer, LSTMBias
from .base_cell import BaseRNNCell, RNNParams, States

__all__ = ["DenseCell", "ElmanStep", "GRUCell", "GRUStep", "LSTMCell", "LSTMStep", "RNNCell",
           "GatedCell"]


class GatedCell(BaseRNNCell):
    """A cell whose step combines (`_combine`) the maps (`_map`) of its input and last output."""

    _activation: Any
    _slice_options: dict[str, Any] = {}
    """How to cut an array into its gates, where that is not along axis 1."""

    def __call__(self, inputs: sym.Symbol, states: States) -> tuple[Any, list[Any]]:
        """One step: (output, new states)."""
        name = self._next_name()
        return self._combine(name, *self._map(name, inputs, states[0]), states)

    def _map(self, name: str, inputs: sym.Symbol, output: sym.Symbol
             ) -> tuple[sym.Symbol, sym.Symbol]:
        """(i2h, h2h), all gates along the axis of channels."""
        raise NotImplementedError(type(self).__name__)

    def _combine(self, name: str, i2h: sym.Symbol, h2h: sym.Symbol, states: States
                 ) -> tuple[Any, list[Any]]:
        raise NotImplementedError(type(self).__name__)

    def _cut(self, gates: sym.Symbol, name: str) -> sym.Symbol:
        return sym.SliceChannel(gates, num_outputs=self._num_gates, name=name,
                                **self._slice_options)


class ElmanStep(GatedCell):
    """h' = activation(i2h + h2h)."""

    _gate_names = ("",)

    def _combine(self, name: str, i2h: sym.Symbol, h2h: sym.Symbol, states: States
                 ) -> tuple[Any, list[Any]]:
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class LSTMStep(GatedCell):
    """c' = f * c + i * g and h' = o * act(c'), where act(g) is the candidate and i, f, o are gates.

    i, f, g, o are the four parts of i2h + h2h, gates through a sigmoid; states are [h, c].
    """

    _gate_names = ("_i", "_f", "_c", "_o")

    def _combine(self, name: str, i2h: sym.Symbol, h2h: sym.Symbol, states: States
                 ) -> tuple[Any, list[Any]]:
        i, f, g, o = self._cut(i2h + h2h, f"{name}slice")
        write = sym.Activation(i, act_type="sigmoid", name=f"{name}i")
        keep = sym.Activation(f, act_type="sigmoid", name=f"{name}f")
        candidate = self._get_activation(g, self._activation, name=f"{name}c")
        show = sym.Activation(o, act_type="sigmoid", name=f"{name}o")
        memory = sym.elemwise_add(keep * states[1], write * candidate, name=f"{name}state")
        output = sym.elemwise_mul(show, self._get_activation(memory, self._activation),
                                  name=f"{name}out")
        return output, [output, memory]


class GRUStep(GatedCell):
    """h' = (1 - z) * act(i2h_h + r * h2h_h) + z * h with gates r and z through a sigmoid.

    r resets, z updates; the parts of i2h and h2h are r, z and the candidate.
    """

    _gate_names = ("_r", "_z", "_o")

    def _combine(self, name: str, i2h: sym.Symbol, h2h: sym.Symbol, states: States
                 ) -> tuple[Any, list[Any]]:
        i2h_r, i2h_z, i2h_h = self._cut(i2h, f"{name}_i2h_slice")
        h2h_r, h2h_z, h2h_h = self._cut(h2h, f"{name}_h2h_slice")
        reset = sym.Activation(i2h_r + h2h_r, act_type="sigmoid", name=f"{name}_r_act")
        keep = sym.Activation(i2h_z + h2h_z, act_type="sigmoid", name=f"{name}_z_act")
        candidate = self._get_activation(i2h_h + reset * h2h_h, self._activation,
                                         name=f"{name}_h_act")
        output = sym.elemwise_add((1.0 - keep) * candidate, keep * states[0], name=f"{name}out")
        return output, [output]


class DenseCell(GatedCell):
    """A cell over vectors: inputs of shape (N, C), states of shape (N, num_hidden).

    Parameters
    ----------
    num_hidden : int
        Number of hidden units.
    prefix : str
        What names of nodes and weights begin with.
    params : RNNParams or None
        Variables to share with other cells; None for new ones.
    activation : str or callable, default 'tanh'
        A type for `mx.sym.Activation`, or a function of a symbol.
    i2h_bias : Initializer, optional
        Initializer of the bias of the input.
    """

    _map_names = "{}"
    """The position of a step's own name in the names of its layers."""

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None,
                 activation: Any = "tanh", i2h_bias: Initializer | None = None):
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        self._activation = activation
        self._iW = self.params.get("i2h_weight")
        self._iB = self.params.get("i2h_bias", init=i2h_bias)
        self._hW = self.params.get("h2h_weight")
        self._hB = self.params.get("h2h_bias")

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _map(self, name: str, inputs: sym.Symbol, output: sym.Symbol
             ) -> tuple[sym.Symbol, sym.Symbol]:
        name, rows = self._map_names.format(name), self._num_hidden * self._num_gates
        return (sym.FullyConnected(inputs, self._iW, self._iB, num_hidden=rows, name=f"{name}i2h"),
                sym.FullyConnected(output, self._hW, self._hB, num_hidden=rows, name=f"{name}h2h"))


class RNNCell(ElmanStep, DenseCell):
    """Elman's simple recurrent cell.

    Parameters
    ----------
    num_hidden : int
        Number of hidden units.
    activation : str or callable, default 'tanh'
        A type for `mx.sym.Activation`, or a function of a symbol.
    prefix : str
        What names of nodes and weights begin with; the default is in the signature.
    params : RNNParams, optional
        Variables to share with other cells; new ones unless given.

    Notes
    -----
    With input x of shape (N, C) and output h of shape (N, num_hidden) ::

        h = activation(x W_i + b_i + h W_h + b_h)

    The state is [h].

    References
    ----------
    Elman, "Finding structure in time", 1990.

    Examples
    --------
    >>> cell = mx.rnn.RNNCell(4)
    >>> output, states = cell(mx.sym.Variable("x"), cell.begin_state())
    >>> output.infer_shape(x=(2, 3))[1]
    [(2, 4)]
    """

    def __init__(self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_",
                 params: RNNParams | None = None):
        super().__init__(num_hidden, prefix, params, activation)


class LSTMCell(LSTMStep, DenseCell):
    """Long short-term memory.

    Parameters
    ----------
    num_hidden : int
        Number of hidden units.
    prefix : str
        What names of nodes and weights begin with; the default is in the signature.
    params : RNNParams, optional
        Variables to share with other cells; new ones unless given.
    forget_bias : float, default 1.0
        Initial bias of the forget gate.

    Notes
    -----
    With input x of shape (N, C), and output h and memory c of shape (N, num_hidden), the four parts
    of x W_i + b_i + h W_h + b_h give ::

        i, f, o = sigmoid(part 1), sigmoid(part 2), sigmoid(part 4)
        g = tanh(part 3)
        c = f * c + i * g
        h = o * tanh(c)

    The states are [h, c]; the output is h.

    References
    ----------
    Hochreiter and Schmidhuber, "Long short-term memory", 1997.
    Gers, Schmidhuber and Cummins, "Learning to forget", 2000.

    Examples
    --------
    >>> cell = mx.rnn.LSTMCell(4)
    >>> output, states = cell(mx.sym.Variable("x"), cell.begin_state())
    >>> len(states), output.infer_shape(x=(2, 3))[1]
    (2, [(2, 4)])
    """

    def __init__(self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None,
                 forget_bias: float = 1.0):
        super().__init__(num_hidden, prefix, params, i2h_bias=LSTMBias(forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return 2 * super().state_info


class GRUCell(GRUStep, DenseCell):
    """Gated recurrent unit, in cuDNN's variant: the reset gate is applied after the linear map.

    Parameters
    ----------
    num_hidden : int
        Number of hidden units.
    prefix : str
        What names of nodes and weights begin with; the default is in the signature.
    params : RNNParams, optional
        Variables to share with other cells; new ones unless given.

    Notes
    -----
    With input x of shape (N, C) and output h of shape (N, num_hidden), and three parts of each of
    u = x W_i + b_i and v = h W_h + b_h ::

        r = sigmoid(u1 + v1)
        z = sigmoid(u2 + v2)
        n = tanh(u3 + r * v3)
        h = (1 - z) * n + z * h

    The state is [h].

    References
    ----------
    Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine
    translation", 2014.

    Examples
    --------
    >>> cell = mx.rnn.GRUCell(4)
    >>> output, states = cell(mx.sym.Variable("x"), cell.begin_state())
    >>> output.infer_shape(x=(2, 3))[1]
    [(2, 4)]
    """

    _map_names = "{}_"

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None):
        super().__init__(num_hidden, prefix, params)
