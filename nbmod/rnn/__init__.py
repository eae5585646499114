"""Recurrent networks from cells, and iterators and checkpoints for training them on sentences.

Examples
--------
>>> import nbmod as mx
>>> cell = mx.rnn.LSTMCell(num_hidden=4, prefix="lstm_")
>>> outputs, states = cell.unroll(3, mx.sym.Variable("data"), merge_outputs=True)
>>> outputs.infer_shape(data=(2, 3, 5))[1]
[(2, 3, 4)]
"""

from . import io, rnn, rnn_cell
from .io import *  # noqa: F403
from .rnn import *  # noqa: F403
from .rnn_cell import *  # noqa: F403

__all__ = io.__all__ + rnn.__all__ + rnn_cell.__all__
__dir__ = __all__.copy
