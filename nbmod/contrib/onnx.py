"""`mxnet.contrib.onnx`: `mxnet.onnx` with the signatures of MXNet before 1.9."""

from __future__ import annotations

from ..onnx.exporting.export_model import export_model_contrib as export_model

__all__ = ["export_model"]


def __getattr__(name: str) -> object:
    from .. import onnx

    return getattr(onnx, name)
