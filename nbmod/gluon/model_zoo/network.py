"""Networks that are built layer by layer, and their files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ... import initializer
from ... import ndarray as nd
from ... import symbol as sym
from ...checkpoint import strip_kind
from ...context import Context
from ...symbol import Symbol
from ...symbol.name import NameManager
from ..parameter_files import Loading, ParameterFile
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
        if prefix is None:
            prefix = NameManager.current.get(None, type(self).__name__.lower()) + "_"
        net, data = Builder(prefix), sym.var("data")
        with NameManager():
            output = self._build(net, data)
        super().__init__(output, data, params)
        self.prefix, self._keys = prefix, net.keys
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

    @property
    def name(self) -> str:
        """The prefix without its last underscore."""
        return self.prefix.removesuffix("_")

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write the parameters to a file, under the names of Gluon's blocks.

        Parameters
        ----------
        filename : str
            File.
        deduplicate : bool, default False
            Accepted for compatibility: no parameter has two names.
        """
        nd.save(filename, {self._keys[name]: parameter.data()
                           for name, parameter in self._params.items()})

    def load_parameters(self, filename: str, ctx: Any = None, allow_missing: bool = False,
                        ignore_extra: bool = False, **kwargs: Any) -> None:
        """Read the parameters from a file of MXNet or nbmod.

        Parameters
        ----------
        filename, ctx, allow_missing, ignore_extra
            As for `SymbolBlock.load_parameters`.
        **kwargs
            `cast_dtype` and `dtype_source` of `ParameterDict.load`.
        """
        by_path = {path: own for own, path in self._keys.items()}

        def own_name(name: str) -> str:
            without_prefix = name not in self._keys and self.prefix + name in self._keys
            return by_path.get(name, self.prefix + name if without_prefix else name)

        file = ParameterFile.read(filename)
        arrays = {own_name(strip_kind(name)): array for name, array in file.arrays.items()}
        ParameterFile(file.where, arrays).load_into(
            self._params._params, Loading(ctx, allow_missing, ignore_extra, **kwargs))


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
