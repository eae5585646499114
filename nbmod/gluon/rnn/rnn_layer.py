"""Recurrent networks over whole sequences, each computed by the one operator `RNN`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ... import ndarray as nd
from ... import symbol as sym
from ...base import ArgumentError, CheckError, NoSuchKey
from ...ndarray import NDArray
from ..base_parameter import Init, Parameter
from ..block import HybridBlock
from .cell_containers import BidirectionalCell, HybridSequentialRNNCell
from .cell_modifiers import DropoutCell
from .recurrent_cell import StateInfo, _is_tensor
from .rnn_cell import GRUCell, LSTMCell, RNNCell

__all__ = ["GRU", "LSTM", "RNN"]
__dir__ = __all__.copy

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
"""Parts of a map by mode."""


class _Form(threading.local):
    """The form of a thread's last call of a layer: whether it returns the outputs alone."""

    skip_states: bool | None = None


def _of_form(name: str, default: Any) -> Any:
    """An attribute of `HybridBlock` that is one for each form of calls."""
    def read(layer: _RNNLayer) -> Any:
        return layer._traces.get((name, layer.skip_states), default)

    def write(layer: _RNNLayer, value: Any) -> None:
        layer._traces[name, layer.skip_states] = value

    return property(read, write)


class _RNNLayer(HybridBlock):
    """Base of recurrent layers.

    Parameters are `{l,r}{layer}_{i2h,h2h}_{weight,bias}`: r is the direction in reverse.  Traces of
    calls with and without states return different things: there are two.
    """

    l0_i2h_weight: Parameter
    _traces: dict[tuple[str, bool], Any]
    _skips_states = False
    _in_format, _out_format = _of_form("in_format", None), _of_form("out_format", None)
    _cached_graph, _cached_op = _of_form("graph", ()), _of_form("op", None)

    def __init__(self, hidden_size: int, num_layers: int, layout: str, dropout: float,
                 bidirectional: bool, input_size: int, i2h_weight_initializer: Init,
                 h2h_weight_initializer: Init, i2h_bias_initializer: Init,
                 h2h_bias_initializer: Init, mode: str, projection_size: int | None,
                 h2r_weight_initializer: Init, lstm_state_clip_min: float | None,
                 lstm_state_clip_max: float | None, lstm_state_clip_nan: bool | None, dtype: Any,
                 use_sequence_length: bool = False, **kwargs: Any):
        if mode not in GATES:
            raise NoSuchKey(f"RNN: activation is {mode.partition('_')[2]!r}, expected 'relu' or "
                            "'tanh'")
        if layout not in ("TNC", "NTC"):
            raise CheckError(f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        self._traces = {}
        super().__init__(**kwargs)
        self._hidden_size, self._num_layers, self._layout = hidden_size, num_layers, layout
        self._dropout, self._dir, self._input_size = dropout, 1 + bool(bidirectional), input_size
        self._mode, self._gates, self._projection_size = mode, GATES[mode], projection_size
        self._i2h_weight_initializer = i2h_weight_initializer
        self._h2h_weight_initializer = h2h_weight_initializer
        self._i2h_bias_initializer = i2h_bias_initializer
        self._h2h_bias_initializer = h2h_bias_initializer
        self._h2r_weight_initializer = h2r_weight_initializer
        self._lstm_state_clip_min = lstm_state_clip_min
        self._lstm_state_clip_max = lstm_state_clip_max
        self._lstm_state_clip_nan = lstm_state_clip_nan
        self._use_sequence_length = use_sequence_length
        for layer in range(num_layers):
            for direction in "lr"[:self._dir]:
                self._add_parameters(f"{direction}{layer}_", layer, dtype)

    def _add_parameters(self, prefix: str, layer: int, dtype: Any) -> None:
        """Add the parameters of one layer in one direction."""
        size, outputs = self._gates * self._hidden_size, self._projection_size or self._hidden_size
        inputs = outputs * self._dir if layer else self._input_size
        table = [("i2h_weight", (size, inputs)), ("h2h_weight", (size, outputs)),
                 ("i2h_bias", (size,)), ("h2h_bias", (size,))]
        if self._projection_size:
            table.append(("h2r_weight", (outputs, self._hidden_size)))
        for name, shape in table:
            setattr(self, prefix + name, self.params.get(
                prefix + name, shape=shape, init=getattr(self, f"_{name}_initializer"),
                allow_deferred_init=True, dtype=dtype))

    # -- states -------------------------------------------------------------------------------

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        """Shapes, layouts and types of the states.

        Parameters
        ----------
        batch_size : int, default 0
            Number of samples; 0 for one that is inferred.
        """
        sizes = [self._projection_size or self._hidden_size]
        if self._mode == "lstm":
            sizes.append(self._hidden_size)
        return [{"shape": (self._num_layers * self._dir, batch_size, size), "__layout__": "LNC",
                 "dtype": self._dtype} for size in sizes]

    @property
    def _dtype(self) -> Any:
        """Element type of the parameters, however that was changed, and so of the first states."""
        return self.l0_i2h_weight.dtype

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
            More arguments of `func`, such as `ctx`.

        Examples
        --------
        >>> [state.shape for state in mx.gluon.rnn.LSTM(3, num_layers=2).begin_state(5)]
        [(2, 5, 3), (2, 5, 3)]
        """
        return [func(name=f"{self.prefix}h0_{index}", **{**info, **kwargs})
                for index, info in enumerate(self.state_info(batch_size))]

    # -- calls --------------------------------------------------------------------------------

    def __call__(self, inputs: Any, states: Any = None,  # type: ignore[override]  # as in MXNet
                 sequence_length: Any = None, **kwargs: Any) -> Any:
        """Compute the outputs of all steps, and with `states` also the states after the last one.

        Parameters
        ----------
        inputs : NDArray or Symbol
            Sequences in the layout.
        states : NDArray, Symbol or list of these, optional
            States before the first step; zeros by default.
        sequence_length : NDArray or Symbol, optional
            Number of steps of each sample, for a layer with `use_sequence_length`.
        **kwargs
            Accepted for compatibility.
        """
        self.skip_states = states is None
        if states is None:
            states = self._first_states(inputs)
        elif _is_tensor(states):
            states = [states]
        if self._use_sequence_length:
            return super().__call__(inputs, states, sequence_length, **kwargs)
        return super().__call__(inputs, states, **kwargs)

    @property
    def skip_states(self) -> bool:
        """Whether the last call of this thread, or else of any, returns the outputs alone."""
        form: _Form = self.__dict__.setdefault("_form", _Form())
        return self._skips_states if form.skip_states is None else form.skip_states

    @skip_states.setter
    def skip_states(self, skip: bool) -> None:
        form: _Form = self.__dict__.setdefault("_form", _Form())
        form.skip_states = self.__dict__["_skips_states"] = skip

    def _clear_cached_op(self) -> None:
        self._traces = {}

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_form", "_cached_graph", "_cached_op")
        return {name: value for name, value in super().__getstate__().items()
                if name not in left_out} | {"_traces": {}}

    def _first_states(self, inputs: Any) -> list[Any]:
        if isinstance(inputs, NDArray):
            size = inputs.shape[self._layout.find("N")]
            return self.begin_state(size, ctx=inputs.context, dtype=inputs.dtype)
        return self.begin_state(0, func=sym.zeros)

    def hybrid_forward(self, F: Any, inputs: Any,  # type: ignore[override]  # as in MXNet
                       states: Any, sequence_length: Any = None, **kwargs: Any) -> Any:
        if F is nd:
            size = inputs.shape[self._layout.find("N")]
            for state, info in zip(states, self.state_info(size), strict=False):
                if state.shape != info["shape"]:
                    raise ArgumentError("Invalid recurrent state shape. Expecting "
                                        f"{info['shape']}, got {state.shape}.")
        outputs, states = self._forward_kernel(F, inputs, states, sequence_length, **kwargs)
        return outputs if self.skip_states else (outputs, states)

    def _forward_kernel(self, F: Any, inputs: Any, states: Any, sequence_length: Any,
                        **kwargs: Any) -> tuple[Any, list[Any]]:
        """(outputs, states) of the operator, with the parameters `kwargs`."""
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, dim1=0, dim2=1)
        weights = F._internal._rnn_param_concat(
            *(F.reshape(kwargs[name], shape=-1) for name in self._names()), dim=0)
        lengths = [sequence_length] if self._use_sequence_length else []
        outputs, *after = F.RNN(
            inputs, weights, *states, *lengths, use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size, projection_size=self._projection_size,
            num_layers=self._num_layers, bidirectional=self._dir == 2, p=self._dropout,
            state_outputs=True, mode=self._mode, lstm_state_clip_min=self._lstm_state_clip_min,
            lstm_state_clip_max=self._lstm_state_clip_max,
            lstm_state_clip_nan=self._lstm_state_clip_nan)
        if self._layout == "NTC":
            outputs = F.swapaxes(outputs, dim1=0, dim2=1)
        return outputs, after

    def _names(self) -> Iterator[str]:
        """Names of the parameters in the order of the operator: weights, then biases."""
        weights = ["i2h_weight", "h2h_weight", *["h2r_weight"] * bool(self._projection_size)]
        for kind in (weights, ["i2h_bias", "h2h_bias"]):
            for layer in range(self._num_layers):
                for direction in "lr"[:self._dir]:
                    yield from (f"{direction}{layer}_{name}" for name in kind)

    # -- files and texts ----------------------------------------------------------------------

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Any]:
        """Parameters by the names that they have in files: those of the unfused cells."""
        start = f"{prefix}." if prefix else ""
        place = r"_unfused.\2.\1_cell." if self._dir == 2 else r"_unfused.\2."
        return {start + re.sub(r"^([lr])(\d+)_", place, name): parameter
                for name, parameter in self._reg_params.items()}

    def _unfuse(self) -> HybridSequentialRNNCell:
        """The network as cells with the parameters of this layer."""
        if self._projection_size:
            raise CheckError("_unfuse does not support projection layer yet!")
        if self._lstm_state_clip_min is not None or self._lstm_state_clip_max is not None:
            raise CheckError("_unfuse does not support state clipping yet!")
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with stack.name_scope():
            for layer in range(self._num_layers):
                size = self._hidden_size * self._dir if layer else self._input_size
                cells = [self._cell(f"{direction}{layer}_", size) for direction in "lr"[:self._dir]]
                stack.add(BidirectionalCell(cells[0], cells[1]) if self._dir == 2 else cells[0])
                if self._dropout > 0 and layer < self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
        return stack

    def _cell(self, prefix: str, input_size: int) -> RNNCell | LSTMCell | GRUCell:
        settings: dict[str, Any] = {
            "prefix": prefix, "input_size": input_size,
            **{f"{name}_initializer": getattr(self, f"_{name}_initializer")
               for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")}}
        if self._mode == "lstm":
            return LSTMCell(self._hidden_size, **settings)
        if self._mode == "gru":
            return GRUCell(self._hidden_size, **settings)
        return RNNCell(self._hidden_size, activation=self._mode.partition("_")[2], **settings)

    def __repr__(self) -> str:
        inputs = (self.l0_i2h_weight.shape or (0, 0))[1] or None
        facts = [f"{inputs} -> {self._hidden_size}", self._layout]
        facts += [f"num_layers={self._num_layers}"] * bool(self._num_layers != 1)
        facts += [f"dropout={self._dropout}"] * bool(self._dropout != 0)
        facts += ["bidirectional"] * (self._dir == 2)
        return f"{type(self).__name__}({', '.join(facts)})"


class RNN(_RNNLayer):
    """Elman's network: h' = activation(W x + b + R h + c) for each step.

    Called on inputs alone it returns the outputs of all steps; called on inputs and states, the
    outputs and the states after the last step.

    Parameters
    ----------
    hidden_size : int
        Number of units.
    num_layers : int, default 1
        Number of layers, of which each takes the outputs of the one before it.
    activation : {'relu', 'tanh'}, default 'relu'
        Function of the outputs.
    layout : {'TNC', 'NTC'}, default 'TNC'
        Order of the axes steps, samples, channels of inputs and outputs.
    dropout : float, default 0
        Share of the outputs of each layer but the last that are set to 0 in training.
    bidirectional : bool, default False
        Whether a second network takes the steps in reverse; outputs are concatenated.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of W and R; None leaves them to `initialize`.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str, default 'zeros'
        Initializers of b and c.
    input_size : int, default 0
        Number of inputs; 0 for that of the first call.
    dtype : dtype, default 'float32'
        Element type of parameters and states.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`, and `use_sequence_length`, whether calls take
        the number of steps of each sample.

    Raises
    ------
    AssertionError
        For another layout.

    Examples
    --------
    >>> layer = mx.gluon.rnn.RNN(4)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((5, 2, 3))).shape
    (5, 2, 4)
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, activation: str = "relu",
                 layout: str = "TNC", dropout: float = 0, bidirectional: bool = False,
                 i2h_weight_initializer: Init = None, h2h_weight_initializer: Init = None,
                 i2h_bias_initializer: Init = "zeros", h2h_bias_initializer: Init = "zeros",
                 input_size: int = 0, dtype: Any = "float32", **kwargs: Any):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, f"rnn_{activation}", None, None, None, None, False,
                         dtype, **kwargs)


class LSTM(_RNNLayer):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), as `LSTMCell` for each step.

    Called on inputs alone it returns the outputs of all steps; called on inputs and states [h, c],
    the outputs and the states after the last step.

    Parameters
    ----------
    hidden_size, num_layers, layout, dropout, bidirectional, input_size
        As for `RNN`.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        As for `RNN`.
    projection_size : int, optional
        Number of outputs, to which the units are mapped by a weight h2r.
    h2r_weight_initializer : Initializer or str, optional
        Initializer of this weight.
    state_clip_min, state_clip_max : float, optional
        Limits of the memory c.
    state_clip_nan : bool, default False
        Whether the limits replace NaN.
    dtype, **kwargs
        As for `RNN`.

    Examples
    --------
    >>> layer = mx.gluon.rnn.LSTM(4, num_layers=2)
    >>> layer.initialize()
    >>> outputs, states = layer(mx.nd.ones((5, 2, 3)), layer.begin_state(2))
    >>> outputs.shape, [state.shape for state in states]
    ((5, 2, 4), [(2, 2, 4), (2, 2, 4)])
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, layout: str = "TNC",
                 dropout: float = 0, bidirectional: bool = False, input_size: int = 0,
                 i2h_weight_initializer: Init = None, h2h_weight_initializer: Init = None,
                 i2h_bias_initializer: Init = "zeros", h2h_bias_initializer: Init = "zeros",
                 projection_size: int | None = None, h2r_weight_initializer: Init = None,
                 state_clip_min: float | None = None, state_clip_max: float | None = None,
                 state_clip_nan: bool = False, dtype: Any = "float32", **kwargs: Any):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, "lstm", projection_size, h2r_weight_initializer,
                         state_clip_min, state_clip_max, state_clip_nan, dtype, **kwargs)


class GRU(_RNNLayer):
    """Gated recurrent unit (Cho et al., 2014), as `GRUCell` for each step.

    Called on inputs alone it returns the outputs of all steps; called on inputs and states, the
    outputs and the states after the last step.

    Parameters
    ----------
    hidden_size, num_layers, layout, dropout, bidirectional, input_size
        As for `RNN`.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        As for `RNN`.
    dtype, **kwargs
        As for `RNN`.

    Examples
    --------
    >>> layer = mx.gluon.rnn.GRU(4, bidirectional=True, layout="NTC")
    >>> layer.initialize()
    >>> layer(mx.nd.ones((2, 5, 3))).shape
    (2, 5, 8)
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, layout: str = "TNC",
                 dropout: float = 0, bidirectional: bool = False, input_size: int = 0,
                 i2h_weight_initializer: Init = None, h2h_weight_initializer: Init = None,
                 i2h_bias_initializer: Init = "zeros", h2h_bias_initializer: Init = "zeros",
                 dtype: Any = "float32", **kwargs: Any):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, "gru", None, None, None, None, False, dtype,
                         **kwargs)
