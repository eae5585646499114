"""Symbols: networks as values.

Every operator in the table is a function here, made on first use (see `namespace`).

Examples
--------
>>> import nbmod as mx
>>> data = mx.sym.Variable("data")
>>> net = mx.sym.FullyConnected(data, num_hidden=10, name="fc1")
>>> net = mx.sym.SoftmaxOutput(net, name="softmax")
>>> net.list_arguments()
['data', 'fc1_weight', 'fc1_bias', 'softmax_label']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import functions
from .functions import *  # noqa: F403
from .namespace import lookup
from .symbol import Symbol

if TYPE_CHECKING:
    from . import _internal, contrib, image, linalg, op, random, sparse  # noqa: F401
    from ._op_stubs import op as _op_stub
    from ._op_stubs.op import *  # noqa: F403

__all__ = ["Symbol"]
__all__ += functions.__all__
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _op_stub.__all__
    __all__ += ["_internal", "contrib", "image", "linalg", "op", "random", "sparse"]

_MODULES = ("_internal", "contrib", "image", "linalg", "op", "random", "sparse")

_op, _ops = lookup(__name__, ("",))


def _load(name: str) -> Any:  # type: ignore[explicit-any]  # modules and functions
    return import_module(f"{__name__}.{name}") if name in _MODULES else _op(name)


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *_ops()})
