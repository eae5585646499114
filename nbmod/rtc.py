"""`mxnet.rtc`: CUDA code compiled at run time, which nbmod has not."""

from __future__ import annotations

from typing import NoReturn

from .base import MXNetError


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise MXNetError(f"mx.rtc.{name}: nbmod has no CUDA code compiled at run time; mx.register_op "
                     "registers operators with GPU kernels written in Python")
