"""`mxnet.th`: functions of Lua Torch, which nbmod has not."""

from __future__ import annotations

from typing import NoReturn

from .base import MXNetError


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise MXNetError(f"mx.th.{name}: nbmod has no functions of Lua Torch; "
                     "mx.operator.CustomOp calls Python code, that of PyTorch included")
