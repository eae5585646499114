"""Recurrent networks from cells, and iterators and checkpoints for training them on sentences.

A cell is a function (inputs, states) -> (output, states) of symbols.  Names of nodes and weights
are exactly MXNet's, because checkpoints and scripts look them up.

    base_cell.py   `BaseRNNCell`: parameters, first states, and `unroll`
    gates.py       `RNNCell`, `LSTMCell` and `GRUCell`, and the steps that they share with `conv`
    conv.py        cells over images, with convolutions
    containers.py  `SequentialRNNCell` and `BidirectionalCell`
    modifiers.py   `DropoutCell`, `ZoneoutCell` and `ResidualCell`
    fused.py       `FusedRNNCell`: a stack of layers as one operator
    rnn_cell.py    `mx.rnn.rnn_cell`, MXNet's path to the cells
    io.py          `encode_sentences` and `BucketSentenceIter`
    rnn.py         checkpoints that fused and unfused cells can both load

Begin with `base_cell.py`.  Imports `base`, `callback.mxnet_callbacks`, `checkpoint`, `initializer`,
`io`, `ndarray`, `ops` and `symbol`.

Examples
--------
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
