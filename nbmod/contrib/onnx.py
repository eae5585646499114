"""`mxnet.contrib.onnx`: `mxnet.onnx` under its older name."""

from __future__ import annotations

from ..onnx import export_model, get_model_metadata, import_model, import_to_gluon

__all__ = ["export_model", "get_model_metadata", "import_model", "import_to_gluon"]
__dir__ = __all__.copy
