"""The modules of `mx.contrib`, each loaded when its name is first used.

    autograd.py         the functions of `mx.autograd` under their names before MXNet 0.10
    io.py               `DataLoaderIter`: loaders of other libraries as iterators for `Module.fit`
    tensorboard.py      `LogMetricsCallback`: metrics for TensorBoard
    amp/                automatic mixed precision, float16 and float32
    quantization/       networks on 8-bit integers, from trained float32 networks
    svrg_optimization/  `SVRGModule`, which trains with variance-reduced gradients
    text/               vocabularies and pre-trained word vectors
    simpledet/          operators of SimpleDet's fork of MXNet, loaded when one is used

Begin with `autograd.py`.  Imports `autograd`, `base`, `compat.c_interface`, `context`,
`core.registry`, `gluon`, `graph`, `io`, `metric.eval_metric`, `module`, `ndarray`, `onnx`,
`operator.register_op`, `ops`, `passes` and `symbol`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .. import onnx
    from ..ndarray import contrib as nd
    from ..ndarray import contrib as ndarray
    from ..symbol import contrib as sym
    from ..symbol import contrib as symbol
    from . import amp, autograd, io, quantization, svrg_optimization, tensorboard, text
    from . import quantization as quant

    # Of an installed package, checkers know the names of `__all__` only.
    __all__ = ["amp", "autograd", "io", "nd", "ndarray", "onnx", "quant", "quantization",
               "svrg_optimization", "sym", "symbol", "tensorboard", "text"]

_MODULES = ("amp", "autograd", "io", "quantization", "svrg_optimization", "tensorboard", "text")

# Other names under which scripts import modules.
_ALIASES = {"nd": "..ndarray.contrib", "ndarray": "..ndarray.contrib", "onnx": "..onnx",
            "quant": ".quantization", "sym": "..symbol.contrib", "symbol": "..symbol.contrib"}


def _load(name: str) -> Any:
    module = _ALIASES.get(name, f".{name}")
    if name.startswith("__") or find_spec(module, __name__) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(module, __name__)


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*_MODULES, *_ALIASES})
