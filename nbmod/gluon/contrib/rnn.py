"""`mx.gluon.contrib.rnn`: names of Gluon's cells (see `nbmod.gluon`)."""

from ..absent import absent_classes

_NAMES = """
    Conv1DGRUCell Conv1DLSTMCell Conv1DRNNCell Conv2DGRUCell Conv2DLSTMCell Conv2DRNNCell
    Conv3DGRUCell Conv3DLSTMCell Conv3DRNNCell LSTMPCell VariationalDropoutCell
"""

globals().update(absent_classes(__name__, _NAMES))
globals().update(absent_classes(__name__, "dynamic_unroll"))  # of its module rnn_cell
__all__ = _NAMES.split()
