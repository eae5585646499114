"""`mx.gluon`: networks as Python classes, whose calls can be compiled.

    base_parameter.py   `Parameter`: an array with a copy and a gradient on each device
    parameter_arrays.py  its copies, which a program may replace
    saved_values.py     how a parameter takes an array of a file
    constant.py         `Constant`: a parameter with fixed values
    parameter_files.py  one reader for all names that files give to parameters
    parameter_dict.py   `ParameterDict`: parameters by name, which blocks may share
    parameter.py        MXNet's module path of these
    block_scope.py      prefixes of names
    block_summary.py    `Block.summary`
    saved_blocks.py     `Block.save` and `load`
    base_block.py       `Block`: parameters and children, called on arrays
    call_structure.py   nested lists of arguments and results
    trace_errors.py     errors name the block that they are from
    op_hook.py          `OpHook`: shows what operators of hybridized calls compute
    hybrid_block.py     `HybridBlock`: called on arrays or symbols, traced, exported
    symbol_block.py     `SymbolBlock`: a network given by a symbol, called on arrays
    block.py            MXNet's module path of these
    nn/                 layers
    rnn/                recurrent layers and cells
    base_loss.py        `Loss`: weights of elements and of samples
    margin_losses.py    losses that are 0 beyond a margin
    loss.py             losses
    step_errors.py      errors of steps
    trainer.py          `Trainer`: steps parameters with an optimizer
    utils.py            `split_and_load`, `clip_global_norm`, `download` and others
    model_zoo/          networks for images
    data/               data sets, and loaders of batches
    contrib/            experimental layers, cells, samplers and texts; the estimator

Begin with `base_parameter.py`.  Imports `autograd`, `base`, `checkpoint`, `compat.c_interface`,
`context`, `contrib.text`, `core.archive_members`, `core.atomic`, `core.fork`, `core.reprs`,
`core.scope`, `core.shape_semantics`, `execution.cached_op`, `execution.step_monitor`, `executor`,
`graph`, `image`, `initializer`, `io.job_pipeline`, `io.mnist`, `kvstore`, `metric`, `module`,
`ndarray`, `ops.jit`, `optimizer`, `random`, `recordio` and `symbol`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base_block import Block
from .hybrid_block import HybridBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict, tensor_types
from .symbol_block import SymbolBlock

if TYPE_CHECKING:
    from . import block, contrib, data, loss, model_zoo, nn, rnn, trainer, utils
    from .trainer import Trainer

__all__ = ["Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter",
           "ParameterDict", "SymbolBlock", "Trainer", "tensor_types"]

if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += ["block", "contrib", "data", "loss", "model_zoo", "nn", "rnn", "trainer", "utils"]

_MODULES = ("block", "contrib", "data", "loss", "model_zoo", "nn", "rnn", "trainer", "utils")


def _load(name: str) -> Any:
    if name == "Trainer":  # which needs modules and stores
        return import_module(f"{__name__}.trainer").Trainer
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
