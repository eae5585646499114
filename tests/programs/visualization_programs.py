"""Tables and diagrams of a network by either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither. The package
graphviz is replaced by one that records its calls, so that neither needs it.
"""

from __future__ import annotations

import contextlib
import io
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

from tests.programs import networks


def mixed(mx: Any) -> Any:
    """Ops with a drawing style of their own among others, outputs of which only one is used."""
    sym = mx.sym
    x = sym.Embedding(sym.Variable("words"), input_dim=11, output_dim=6, name="embedding")
    x = sym.SliceChannel(x, num_outputs=2, axis=2, name="halves")
    x = sym.Concat(sym.tanh(x[0], name="left"), x[1], dim=2, name="joined")
    x = sym.Reshape(x, shape=(0, 2, -1, 3), name="cut")
    x = sym.Convolution(x, num_filter=4, kernel=(2, 1), stride=(2, 1), num_group=2, name="conv",
                        no_bias=True)
    x = sym.LeakyReLU(x, name="leaky") + sym.LeakyReLU(x, act_type="elu", name="elu")
    x = sym.Pooling(x, kernel=(1, 2), stride=[1, 2], pool_type="avg", name="pool")
    x = sym.FullyConnected(sym.Flatten(x, name="flat"), num_hidden=3,
                           name="a_name_that_is_too_long_for_any_column_of_the_table_to_hold")
    return sym.Group([sym.softmax(x, name="probabilities"), sym.sum(x, name="total")])


NETWORKS = {name: getattr(networks, name) for name in ("perceptron", "lenet", "resnet")}
NETWORKS["mixed"] = mixed


def network(mx: Any, name: str) -> Any:
    """A network whose names do not depend on what was created before."""
    with mx.name.NameManager():
        return NETWORKS[name](mx)


def summary(mx: Any, name: str, options: dict[str, Any]) -> str:
    """The output of `print_summary`."""
    return printed(mx, network(mx, name), options)


def printed(mx: Any, symbol: Any, options: dict[str, Any]) -> str:
    """The same for any symbol."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        mx.viz.print_summary(symbol, **options)
    return text.getvalue()


class Digraph:
    """Records its calls."""

    def __init__(self, **options: Any):
        self.told: list[Any] = [options]

    def node(self, **options: Any) -> None:
        """A node."""
        self.told.append(list(options.items()))

    edge = node


def dot_calls(mx: Any, name: str, options: dict[str, Any]) -> list[Any]:
    """The calls of the package graphviz by `plot_network`."""
    with mock.patch.dict(sys.modules, graphviz=SimpleNamespace(Digraph=Digraph)):
        return mx.viz.plot_network(network(mx, name), **options).told
