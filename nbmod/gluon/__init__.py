"""`mx.gluon`: what scripts of the Module API import from it, and names for the rest.

    SymbolBlock   networks exported from Gluon, called on arrays       (`symbol_block`)
    loss          losses as functions of arrays or symbols
    utils         split_and_load, clip_global_norm, download, ...

Gluon's layers, data loaders and trainers are not part of nbmod.  Their names exist, so that modules
which define subclasses of them can be imported; making an object of one is an MXNetError.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .absent import absent_classes
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from .symbol_block import SymbolBlock

__all__ = ["Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter",
           "ParameterDict", "SymbolBlock", "Trainer"]

_MODULES = ("block", "contrib", "data", "loss", "model_zoo", "nn", "rnn", "trainer", "utils")

Block, HybridBlock, Trainer = absent_classes(__name__, "Block HybridBlock Trainer").values()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
