"""`mxnet.contrib.onnx`: `mxnet.onnx` under its older name."""

from __future__ import annotations

from ..onnx import export_model

__all__ = ["export_model"]


def __getattr__(name: str) -> object:
    from .. import onnx

    return getattr(onnx, name)
