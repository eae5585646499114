"""`mx.gluon.rnn`: recurrent networks as blocks.

    recurrent_cell.py   `RecurrentCell`: one step of a network, and how steps are unrolled
    rnn_cell.py         the cells with weights: `RNNCell`, `LSTMCell`, `GRUCell`
    cell_containers.py  cells of cells: one after the other, in both directions
    cell_modifiers.py   cells around a cell: `DropoutCell`, `ZoneoutCell`, `ResidualCell`
    rnn_layer.py        whole sequences by one operator: `RNN`, `LSTM`, `GRU`

Begin with `recurrent_cell.py`.  Imports `base`, `gluon.base_parameter`, `gluon.block`, `gluon.nn`,
`gluon.utils`, `ndarray` and `symbol`.
"""

from . import rnn_cell, rnn_layer
from .cell_containers import *  # noqa: F403
from .cell_modifiers import *  # noqa: F403
from .rnn_cell import *  # noqa: F403
from .rnn_layer import *  # noqa: F403

__all__ = rnn_cell.__all__ + rnn_layer.__all__
__dir__ = [*__all__, "rnn_cell", "rnn_layer"].copy
