"""A stack of layers as one `RNN` operator.

All weights are in one vector, whose layout is `RnnLayout`; the names of its pieces are those of the
cells that `unfuse` makes, so weights move between the fused and the unfused network through
`unpack_weights` of one and `pack_weights` of the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .. import initializer as init
from .. import ndarray as nd
from .. import symbol as sym
from ..base import MXNetError
from ..ops.rnn.rnn_weights import GATES, RnnLayout
from .base_cell import BaseRNNCell, RNNParams, States, arrange, as_block, take, time_axis
from .containers import BidirectionalCell, SequentialRNNCell
from .gates import GRUCell, LSTMCell, RNNCell
from .modifiers import DropoutCell

__all__ = ["FusedRNNCell"]


class FusedRNNCell(BaseRNNCell):
    """A stack of recurrent layers as one operator, which is faster than single cells.

    Parameters
    ----------
    num_hidden : int
        Number of hidden units of each layer and direction.
    num_layers : int, default 1
        Number of layers.
    mode : {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'}, default 'lstm'
        The kind of cell; see `RNNCell`, `LSTMCell` and `GRUCell` for their equations.
    bidirectional : bool, default False
        Whether each layer reads in both directions.
    dropout : float, default 0.0
        Probability of dropout between layers.
    get_next_state : bool, default False
        Whether `unroll` returns the last states; otherwise it returns no states.
    forget_bias : float, default 1.0
        Initial bias of forget gates.
    prefix : str, optional
        What names of nodes and weights begin with; the mode and '_' unless given.
    params : RNNParams, optional
        Variables to share with other cells; new ones unless given.

    Raises
    ------
    MXNetError
        If `mode` is none of these.

    Notes
    -----
    The weights are one vector, `<prefix>parameters`.  States have shape
    (num_layers * directions, N, num_hidden).  The fastest layout is 'TNC'.  The cell can only be
    unrolled; `unfuse` gives cells that can be stepped.

    Examples
    --------
    >>> cell = mx.rnn.FusedRNNCell(4, num_layers=2, mode="gru")
    >>> outputs, states = cell.unroll(3, mx.sym.Variable("x"), layout="TNC", merge_outputs=True)
    >>> outputs.infer_shape(x=(3, 2, 5))[1]
    [(3, 2, 4)]
    """

    _why_no_step = "use unroll, or the cells of unfuse()"

    def __init__(self, num_hidden: int, num_layers: int = 1, mode: str = "lstm",
                 bidirectional: bool = False, dropout: float = 0.0, get_next_state: bool = False,
                 forget_bias: float = 1.0, prefix: str | None = None,
                 params: RNNParams | None = None):
        if mode not in GATES:
            raise MXNetError(f"FusedRNNCell: mode is {mode!r}, expected one of {list(GATES)}")
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode: Any = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._forget_bias = forget_bias
        self._directions = ["l", "r"] if bidirectional else ["l"]
        self._layout = RnnLayout(mode, num_hidden, num_layers, bidirectional)
        self._parameter = self.params.get("parameters", init=init.FusedRNN(
            None, num_hidden, num_layers, mode, bidirectional, forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        shape = (self._num_layers * len(self._directions), 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(2 if self._lstm else 1)]

    @property
    def _lstm(self) -> bool:
        return self._mode == "lstm"

    @property
    def _gate_names(self) -> Sequence[str]:
        return GATES[self._mode]

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Any]]:
        """Apply the layers to a sequence; see `BaseRNNCell.unroll`.

        A symbol in 'NTC' is transposed before and after, with a warning.
        """
        self.reset()
        block = as_block(inputs, length, layout)
        batch_first = time_axis(layout) == 1
        if batch_first:
            warnings.warn("NTC layout detected. Consider using TNC for FusedRNNCell for faster "
                          "speed", stacklevel=2)
            block = sym.swapaxes(block, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        rnn = sym.RNN(block, self._parameter, *states,  # type: ignore[misc]
                      state_size=self._num_hidden,
                      num_layers=self._num_layers, bidirectional=self._bidirectional,
                      p=self._dropout, state_outputs=self._get_next_state, mode=self._mode,
                      name=f"{self._prefix}rnn")
        outputs, *new_states = rnn
        if self._get_next_state:
            rnn._set_attr(__layout__="LNC")
        if batch_first:
            outputs = sym.swapaxes(outputs, dim1=0, dim2=1)
        return arrange(outputs, length, layout, merge_outputs), new_states

    def unfuse(self) -> SequentialRNNCell:
        """An equal network of single cells.

        Returns
        -------
        SequentialRNNCell
            The cells; the names of their weights are those of `unpack_weights`.

        Examples
        --------
        >>> stack = mx.rnn.FusedRNNCell(4, num_layers=2, mode="gru", prefix="gru_").unfuse()
        >>> outputs, states = stack.unroll(3, mx.sym.Variable("x"))
        >>> outputs[0].list_arguments()[1:3]
        ['gru_l0_i2h_weight', 'gru_l0_i2h_bias']
        """
        make: Any = {"rnn_relu": partial(RNNCell, activation="relu"),
                     "rnn_tanh": partial(RNNCell, activation="tanh"),
                     "lstm": partial(LSTMCell, forget_bias=self._forget_bias),
                     "gru": GRUCell}[self._mode]
        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            cells = [make(self._num_hidden, prefix=f"{self._prefix}{direction}{layer}_")
                     for direction in self._directions]
            if self._bidirectional:
                stack.add(BidirectionalCell(cells[0], cells[1],
                                            output_prefix=f"{self._prefix}bi_l{layer}_"))
            else:
                stack.add(cells[0])
            if self._dropout > 0 and layer < self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack

    @property
    def _vector_name(self) -> str:
        return f"{self._params._prefix}parameters"

    def unpack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """`args` with an array for every gate of every layer and direction."""
        args = dict(args)
        vector = take(args, self._vector_name)
        for piece in self._layout.pieces(self._layout.input_size(vector.size)):
            args[self._params._prefix + piece.name] = vector[piece.span].reshape(piece.shape).copy()
        return args

    def pack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        args, prefix = dict(args), self._params._prefix
        first = args.get(f"{prefix}l0_i2h{self._gate_names[0]}_weight")
        if first is None:
            raise MXNetError(f"{self._vector_name}: there is no array {prefix}l0_i2h"
                             f"{self._gate_names[0]}_weight to pack")
        size = self._layout.size(first.shape[1])
        vector = nd.empty((size,), ctx=first.context, dtype=first.dtype)
        for piece in self._layout.pieces(first.shape[1]):
            vector[piece.span] = take(args, prefix + piece.name).reshape((piece.size,))
        args[self._vector_name] = vector
        return args
