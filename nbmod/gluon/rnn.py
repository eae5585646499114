"""`mx.gluon.rnn`: names of Gluon's recurrent layers (see `nbmod.gluon`)."""

from .absent import absent_classes

_NAMES = """
    BidirectionalCell DropoutCell GRU GRUCell HybridRecurrentCell HybridSequentialRNNCell LSTM
    LSTMCell ModifierCell RNN RNNCell RecurrentCell ResidualCell SequentialRNNCell ZoneoutCell
"""

globals().update(absent_classes(__name__, _NAMES))
__all__ = _NAMES.split()
