"""`mxnet.onnx.mx2onnx`: the functions that write files, under MXNet's name."""

from .exporting.export_model import export_model
from .exporting.operator_support import get_operator_support

__all__ = ["export_model", "get_operator_support"]
