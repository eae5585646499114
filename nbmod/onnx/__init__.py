"""`mxnet.onnx`: models to and from files of ONNX (extra `onnx`).

`export_model` writes a symbol with its parameters to a file and verifies it; the functions that
read files are in `importing`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from .exporting.export_model import export_model
from .exporting.operator_support import get_operator_support

__all__ = ["export_model", "get_operator_support"]


def __getattr__(name: str) -> object:
    """The functions that read files, loaded when they are first used."""
    if not name.startswith("_") and find_spec(f"{__name__}.importing") is not None:
        found = getattr(import_module(f"{__name__}.importing"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
