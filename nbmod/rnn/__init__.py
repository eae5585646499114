"""Recurrent networks from cells, and iterators and checkpoints for training them on sentences.

Examples
--------
>>> import nbmod as mx
>>> cell = mx.rnn.LSTMCell(num_hidden=4, prefix="lstm_")
>>> outputs, states = cell.unroll(3, mx.sym.Variable("data"), merge_outputs=True)
>>> outputs.infer_shape(data=(2, 3, 5))[1]
[(2, 3, 4)]
"""

from .io import BucketSentenceIter, encode_sentences
from .rnn import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from .rnn_cell import (
    BaseConvRNNCell,
    BaseRNNCell,
    BidirectionalCell,
    ConvGRUCell,
    ConvLSTMCell,
    ConvRNNCell,
    DropoutCell,
    FusedRNNCell,
    GRUCell,
    LSTMCell,
    ModifierCell,
    ResidualCell,
    RNNCell,
    RNNParams,
    SequentialRNNCell,
    ZoneoutCell,
)

__all__ = ["BaseConvRNNCell", "BaseRNNCell", "BidirectionalCell", "BucketSentenceIter",
           "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell", "DropoutCell", "FusedRNNCell", "GRUCell",
           "LSTMCell", "ModifierCell", "RNNCell", "RNNParams", "ResidualCell", "SequentialRNNCell",
           "ZoneoutCell", "do_rnn_checkpoint", "encode_sentences", "load_rnn_checkpoint",
           "rnn_unroll", "save_rnn_checkpoint"]
