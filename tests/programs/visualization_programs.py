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


def resnet50(mx: Any) -> Any:
    """ResNet-50 with strides in the 3 x 3 convolutions, as torchvision and Gluon's v1b have it."""
    sym = mx.sym

    def unit(x: Any, name: str, filters: int, kernel: int = 1, stride: int = 1) -> Any:
        x = sym.Convolution(x, kernel=(kernel, kernel), stride=(stride, stride), no_bias=True,
                            pad=(kernel // 2, kernel // 2), num_filter=filters, name=f"{name}_conv")
        return sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn")

    x = sym.relu(unit(sym.Variable("data"), "stem", 64, 7, 2), name="stem_relu")
    x = sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name="stem_pool")
    for stage, count in enumerate((3, 4, 6, 3), 1):
        for number in range(1, count + 1):
            name, first = f"stage{stage}_unit{number}", number == 1
            stride, filters = 2 if first and stage > 1 else 1, 32 << stage
            y = sym.relu(unit(x, f"{name}_a", filters), name=f"{name}_a_relu")
            y = sym.relu(unit(y, f"{name}_b", filters, 3, stride), name=f"{name}_b_relu")
            y = unit(y, f"{name}_c", 4 * filters)
            x = unit(x, f"{name}_shortcut", 4 * filters, 1, stride) if first else x
            x = sym.relu(y + x, name=f"{name}_out")
    x = sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(7, 7), name="pool")
    return sym.FullyConnected(sym.Flatten(x, name="flat"), num_hidden=1000, name="fc")


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
