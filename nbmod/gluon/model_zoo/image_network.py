"""Networks that classify images: features and an output layer; and functions that make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ... import symbol as sym
from ...context import Context
from ...symbol import Symbol
from ...symbol.name import NameManager
from ..block import HybridBlock
from ..contrib.nn import HybridConcurrent
from ..nn import HybridSequential
from .model_store import get_model_file

__all__ = ["ImageNetwork", "beside", "in_turn", "load_pretrained", "variant"]

N = TypeVar("N", bound="ImageNetwork")


class ImageNetwork(HybridBlock):
    """A network of features and an output layer, both of which a subclass makes.

    Parameters
    ----------
    prefix, params
        As for `HybridBlock`.

    Attributes
    ----------
    features : HybridSequential
        The network without its last layer.
    output : HybridBlock
        The last layer.
    """

    features: HybridSequential
    output: HybridBlock

    @property
    def symbol(self) -> Symbol:
        """The network as a symbol of one input, `data`, for `mx.mod.Module`."""
        with NameManager():
            return self(sym.var("data"))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.output(self.features(x))


def in_turn(*blocks: HybridBlock) -> HybridSequential:
    """Return one block of several, which are called one after the other.

    Parameters
    ----------
    *blocks : HybridBlock
        Blocks.
    """
    sequence = HybridSequential(prefix="")
    sequence.add(*blocks)
    return sequence


def beside(*blocks: HybridBlock) -> HybridConcurrent:
    """Return one block of several, whose channels are concatenated.

    Parameters
    ----------
    *blocks : HybridBlock
        Blocks.
    """
    branches = HybridConcurrent(axis=1, prefix="")
    branches.add(*blocks)
    return branches


def load_pretrained(net: N, name: str, pretrained: bool, ctx: Context | None,
                    root: str | None) -> N:
    """Return a network, with MXNet's parameters if `pretrained`.

    Parameters
    ----------
    net : ImageNetwork
        Network.
    name : str
        Its name in the model zoo.
    pretrained : bool
        Whether to load parameters.
    ctx : Context, list of Context or None
        Devices.
    root : str or None
        Folder of the file.

    Raises
    ------
    MXNetError
        If the folder does not have the file, and it cannot be downloaded.
    """
    if pretrained:
        net.load_parameters(get_model_file(name, root), ctx)
    return net


def variant(name: str, function: Callable[..., N], *args: Any, **fixed: Any) -> Callable[..., N]:
    """Return a function that makes one network of a family.

    Parameters
    ----------
    name : str
        Its name.
    function : callable
        Function that makes the networks of the family.
    *args
        Its first arguments.
    **fixed
        Further arguments, which callers cannot change.
    """
    def make(**kwargs: Any) -> N:
        return function(*args, **{**kwargs, **fixed})

    call = ", ".join([*map(repr, args), *(f"{key}={value}" for key, value in fixed.items())])
    make.__name__ = make.__qualname__ = name
    make.__module__ = function.__module__
    make.__doc__ = f"""Make a network: `{function.__name__}({call}, **kwargs)`.

    Parameters
    ----------
    **kwargs
        Further arguments of `{function.__name__}`.
    """
    return make
