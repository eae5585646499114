"""Symbols: networks as values.

Every operator in the table is a function here, made on first use (see `namespace`).  Names of nodes
are exactly MXNet's, because scripts and files look nodes up by them.

    symbol.py            `Symbol`: one or more outputs of a graph, and its methods
    name.py              automatic names of nodes, such as `fullyconnected0`
    attribute.py         `AttrScope`: attributes for all nodes made in a `with` statement
    compose.py           a node from an op, inputs and attributes; variables for missing inputs
    operators.py         `x + y`, `x > 2` and their like
    fluent.py            `x.exp()` for `sym.exp(x)`
    functions.py         `Variable`, `Group`, `load`, arithmetic and creation
    inference.py         `infer_shape` and `infer_type`
    namespace.py         `sym.X` for every op X
    json_text.py         a JSON parser with bounds on depth and memory
    json_reader.py       graphs in JSON, all versions since MXNet 0.8
    graph_text.py        graphs as text, for debugging
    json_writer.py       graphs in MXNet 1.9's JSON, byte for byte
    control_flow.py      `foreach`, `while_loop` and `cond`, by tracing a function once
    inference_symbol.py  the part of a training symbol that predictions need
    random.py            `mx.sym.random`: samples of distributions
    contrib.py           `mx.sym.contrib`: the ops `_contrib_X`
    image.py             `mx.sym.image`: the ops `_image_X`
    linalg.py            `mx.sym.linalg`: the ops `_linalg_X`
    sparse.py            `mx.sym.sparse`: ops under their names for sparse arrays
    op.py                `mx.sym.op`: public ops only
    _internal.py         `mx.sym._internal`: ops whose names start with an underscore

Begin with `symbol.py`.  Imports `base`, `context`, `core`, `diagram.symbol_picture`,
`execution.bind`, `executor`, `graph`, `initializer`, `ndarray`, `ops`, `passes.infer` and
`passes.rewrite`.

Examples
--------
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
