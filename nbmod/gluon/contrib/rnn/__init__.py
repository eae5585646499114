"""`mx.gluon.contrib.rnn`: further recurrent cells.

    rnn_cell.py       `LSTMPCell`, `VariationalDropoutCell`, and `dynamic_unroll`
    conv_rnn_cell.py  cells whose maps are convolutions over 1, 2 and 3 axes

Begin with `rnn_cell.py`.  Imports `base`, `gluon.base_parameter`, `gluon.nn`, `gluon.rnn`,
`gluon.utils` and `ndarray`.
"""

from . import conv_rnn_cell, rnn_cell
from .conv_rnn_cell import *  # noqa: F403
from .rnn_cell import *  # noqa: F403

__all__ = conv_rnn_cell.__all__ + rnn_cell.__all__
__dir__ = [*__all__, "conv_rnn_cell", "rnn_cell"].copy
