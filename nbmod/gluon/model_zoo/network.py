"""Networks that are built layer by layer, and their files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ... import initializer
from ... import symbol as sym
from ...context import Context
from ...symbol import Symbol
from ...symbol.name import NameManager
from ..base_parameter import Parameter
from ..hybrid_block import HybridBlock
from ..symbol_block import SymbolBlock
from .builder import Builder
from .model_store import get_model_file

__all__ = ["Classifier", "Network", "load_pretrained", "variant"]


class Network(SymbolBlock):
    """A `SymbolBlock` with the names of nodes and parameters that Gluon gives.

    Parameters
    ----------
    prefix : str, optional
        Beginning of all names; by default that of the class with a counter, as `alexnet0_`.
    params : ParameterDict, optional
        Parameters to share.

    Attributes
    ----------
    symbol : Symbol
        The network, for `mx.mod.Module`.
    """

    def __init__(self, prefix: str | None = None, params: Any = None):
        HybridBlock.__init__(self, prefix)
        net, data = Builder(self.prefix), sym.var("data")
        with NameManager():
            output = self._build(net, data)
        self._keys = net.keys
        self._take_graph(output, data, params)
        attributes = self.symbol.attr_dict()
        for name, parameter in self._params.items():
            if own := attributes[name].get("__init__"):
                parameter.init = initializer.create(own)
            if parameter.shape is None:
                parameter.shape = tuple(map(int, attributes[name]["__shape__"][1:-1]
                                            .rstrip(",").split(",")))
            if name in net.constants:
                parameter.grad_req = "null"

    def _build(self, net: Builder, x: Symbol) -> Symbol:
        """Return the output for data `x`."""
        raise NotImplementedError

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by the path that leads to them in Gluon's blocks."""
        start = prefix + "." if prefix else ""
        return {start + self._keys[name]: each for name, each in self._params.items()}


class Classifier(Network):
    """A network of features and an output layer.

    Parameters
    ----------
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params` of `Network`.

    Attributes
    ----------
    features : SymbolBlock
        The network without its last layer, with the same parameters.
    """

    _prefixes = "", ""

    def __init__(self, classes: int = 1000, **kwargs: Any):
        self._classes = classes
        super().__init__(**kwargs)

    def _build(self, net: Builder, x: Symbol) -> Symbol:
        of_features, of_output = self._prefixes
        self._last = self._features(net.child("features", prefix=of_features), x)
        return self._output(net, self._last)

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        raise NotImplementedError

    def _output(self, net: Builder, x: Symbol) -> Symbol:
        return net.dense(x, self._classes, key="output")

    @property
    def features(self) -> SymbolBlock:
        """The network without its last layer, with the same parameters."""
        return SymbolBlock(self._last, sym.var("data"), self._params)


def load_pretrained(net: Network, name: str, pretrained: bool, ctx: Context | None,
                    root: str | None) -> Network:
    """Return a network, with MXNet's parameters if they are asked for.

    Parameters
    ----------
    net : Network
        Network.
    name : str
        Its name in the model zoo.
    pretrained : bool
        Whether to load parameters.
    ctx : Context or None
        Device.
    root : str or None
        Folder of the file.

    Raises
    ------
    MXNetError
        If the folder does not have the file.
    """
    if pretrained:
        net.load_parameters(get_model_file(name, root), ctx)
    return net


def variant(name: str, function: Callable[..., Network], *args: Any, **fixed: Any
            ) -> Callable[..., Network]:
    """Return a function that makes one network of a family.

    Parameters
    ----------
    name : str
        Its name.
    function : callable
        What makes a network of the family.
    *args
        Its first arguments.
    **fixed
        Further arguments.
    """
    @functools.wraps(function)
    def make(**kwargs: Any) -> Network:
        return function(*args, **{**kwargs, **fixed})

    make.__name__ = make.__qualname__ = name
    return make
