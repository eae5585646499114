"""`mxnet.library`: operators and passes of C++ libraries, which nbmod has not."""

from __future__ import annotations

from typing import NoReturn

from .base import MXNetError


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise MXNetError(f"mx.library.{name}: nbmod has no operators and passes of C++ libraries; "
                     "mx.register_op registers operators written in Python")
