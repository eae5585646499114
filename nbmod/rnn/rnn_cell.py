"""MXNet's own path to the cells: scripts import from `mxnet.rnn.rnn_cell`."""

from .base_cell import BaseRNNCell, RNNParams
from .containers import BidirectionalCell, SequentialRNNCell
from .conv import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .fused import FusedRNNCell
from .gates import GRUCell, LSTMCell, RNNCell
from .modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell

__all__ = ["BaseConvRNNCell", "BaseRNNCell", "BidirectionalCell", "ConvGRUCell", "ConvLSTMCell",
           "ConvRNNCell", "DropoutCell", "FusedRNNCell", "GRUCell", "LSTMCell", "ModifierCell",
           "RNNCell", "RNNParams", "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]
