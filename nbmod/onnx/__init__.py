"""`mxnet.onnx`: files of ONNX, as `mxnet.contrib.onnx`."""

from ..contrib.onnx import ONNX_REFUSAL
from ..refusal import refuse_names

__getattr__ = refuse_names(__name__, ONNX_REFUSAL)
