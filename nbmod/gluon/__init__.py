"""`mx.gluon`: what scripts of the Module API import from it, and names for the rest.

Gluon's layers, data loaders and trainers are not part of nbmod.  Their names exist, so that modules
which define subclasses of them can be imported; making an object of one is an MXNetError.

    parameter.py     `Parameter`: an array with a name and a gradient
    symbol_block.py  `SymbolBlock`: a network exported from Gluon, called on arrays
    loss.py          losses as functions of arrays or symbols
    utils.py         `split_and_load`, `clip_global_norm`, `download` and others
    model_zoo/       networks for images, as symbols
    absent.py        makes the classes that exist by name only
    nn.py            names of layers
    rnn.py           names of recurrent layers
    block.py         names of blocks
    trainer.py       the name `Trainer`
    data/            names of data sets and loaders
    contrib/         names of experimental parts

Begin with `parameter.py`.  Imports `autograd`, `base`, `checkpoint`, `compat.c_interface`,
`context`, `core.atomic`, `executor`, `graph`, `initializer`, `ndarray` and `symbol`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .absent import absent_classes
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from .symbol_block import SymbolBlock

if TYPE_CHECKING:
    from . import block, contrib, data, loss, model_zoo, nn, rnn, trainer, utils

__all__ = ["Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter",
           "ParameterDict", "SymbolBlock", "Trainer"]

if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += ["block", "contrib", "data", "loss", "model_zoo", "nn", "rnn", "trainer", "utils"]

_MODULES = ("block", "contrib", "data", "loss", "model_zoo", "nn", "rnn", "trainer", "utils")

Block, HybridBlock, Trainer = absent_classes(__name__, "Block HybridBlock Trainer").values()


def _load(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
