"""Gluon's layers, which add nodes to a symbol under the names that Gluon gives them.

A `Builder` is a block of layers. Nodes and parameters begin with its prefix, and a counter for each
kind of layer goes on (`resnetv10_stage1_conv3_weight`); in files of `save_parameters`, the name of
a parameter is the path of indices and attributes that leads to it (`features.4.1.body.0.weight`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Literal

from ... import symbol as sym
from ...symbol import Symbol
from ...symbol.name import NameManager

__all__ = ["Builder"]

Size = int | tuple[int, int]


class Builder:
    """A block of layers; names of nodes and parameters begin with `prefix`.

    `keys` are names in files of `save_parameters`, by name of the parameter; `constants` names of
    parameters that are not trained; `inits` initializers of weights by kind of layer, where they
    have their own.
    """

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.keys: dict[str, str] = {}
        self.constants: set[str] = set()
        self.inits: dict[str, str | None] = {"conv": None, "dense": None}
        self._path = ""
        self._names = NameManager()
        self._indices: Iterator[int] = count()

    def child(self, key: str | None = None, *, hint: str = "", prefix: str = "") -> Builder:
        """Return a block inside of this one.

        `key` is the attribute that it is in Gluon, by default the next index; `hint` is a kind,
        which a counter follows in the prefix.  Without `hint` and `prefix` the names go on.
        """
        if hint:
            prefix = self._names.get(None, hint) + "_"
        inner = Builder(self.prefix + prefix)
        inner.keys, inner.constants, inner.inits = self.keys, self.constants, self.inits
        inner._path = f"{self._path}{next(self._indices) if key is None else key}."
        if not prefix:
            inner._names = self._names
        return inner

    def _name(self, hint: str) -> str:
        return self.prefix + self._names.get(None, hint)

    def _parameter(self, name: str, shape: tuple[int, ...], init: str | None = None) -> Symbol:
        whole = self.prefix + name
        self.keys[whole] = self._path + name
        return sym.var(whole, shape=shape, dtype="float32", init=init, lr_mult=1.0, wd_mult=1.0,
                       stype="default")

    # -- layers -----------------------------------------------------------------------------------

    def conv(self, x: Symbol, filters: int, kernel: Size, stride: int = 1, pad: Size = 0, *,
             groups: int = 1, bias: bool = True, relu: bool = False, channels: int = 0,
             key: str | None = None, prefix: str = "") -> Symbol:
        """Convolve; `channels` is the number of channels of `x`, 0 if it is inferred."""
        layer = self.child(key, hint="" if prefix else "conv", prefix=prefix)
        kernel = _pair(kernel)
        weight = layer._parameter("weight", (filters, channels, *kernel), self.inits["conv"])
        shift = layer._parameter("bias", (filters,), "zeros") if bias else None
        x = sym.Convolution(x, weight, shift, kernel=kernel, stride=(stride, stride), dilate=(1, 1),
                            pad=_pair(pad), num_filter=filters, num_group=groups,
                            no_bias=not bias, layout="NCHW", name=layer.prefix + "fwd")
        return _relu(x, layer.prefix + "relu_fwd") if relu else x

    def dense(self, x: Symbol, units: int, relu: bool = False, *, inputs: int = 0,
              key: str | None = None) -> Symbol:
        """Multiply by a matrix and add a bias; `inputs` is the size of a sample, as above."""
        layer = self.child(key, hint="dense")
        x = sym.FullyConnected(x, layer._parameter("weight", (units, inputs), self.inits["dense"]),
                               layer._parameter("bias", (units,), "zeros"), num_hidden=units,
                               no_bias=False, flatten=True, name=layer.prefix + "fwd")
        return _relu(x, layer.prefix + "relu_fwd") if relu else x

    def batch_norm(self, x: Symbol, *, eps: float = 1e-5, trained: bool = True,
                   key: str | None = None) -> Symbol:
        """Normalize batches; if not `trained`, without scale and shift."""
        layer = self.child(key, hint="batchnorm")
        gamma, beta, mean, var = (layer._parameter(name, (0,), init) for name, init in (
            ("gamma", "ones"), ("beta", "zeros"), ("running_mean", "zeros"),
            ("running_var", "ones")))
        if not trained:
            self.constants |= {layer.prefix + "gamma", layer.prefix + "beta"}
        return sym.BatchNorm(x, gamma, beta, mean, var, axis=1, eps=eps, momentum=0.9,
                             fix_gamma=not trained, use_global_stats=False,
                             name=layer.prefix + "fwd")

    def relu(self, x: Symbol) -> Symbol:
        """The rectifier, as a layer."""
        return _relu(x, self.child(hint="relu").prefix + "fwd")

    def relu6(self, x: Symbol) -> Symbol:
        """The rectifier, at most 6."""
        return sym.clip(x, a_min=0, a_max=6, name=self.child(hint="relu6").prefix + "relu6")

    def max_pool(self, x: Symbol, kernel: int, stride: int, pad: int = 0, *,
                 ceil: bool = False) -> Symbol:
        """Maxima of windows; with `ceil`, the last ones may exceed the image."""
        return self._pool(x, "max", kernel, stride, pad, "full" if ceil else "valid")

    def avg_pool(self, x: Symbol, kernel: int, stride: int | None = None, pad: int = 0) -> Symbol:
        """Means of windows."""
        return self._pool(x, "avg", kernel, kernel if stride is None else stride, pad)

    def global_avg_pool(self, x: Symbol) -> Symbol:
        """Means of whole channels."""
        return self._pool(x, "avg", 1, 1, 0, "full", everything=True)

    def _pool(self, x: Symbol, kind: Literal["max", "avg"], kernel: int, stride: int, pad: int,
              convention: Literal["valid", "full"] = "valid", everything: bool = False) -> Symbol:
        more: dict[str, Any] = {}
        if kind == "avg" and not everything:
            more["count_include_pad"] = True
        return sym.Pooling(x, kernel=_pair(kernel), stride=_pair(stride), pad=_pair(pad),
                           global_pool=everything, pool_type=kind, pooling_convention=convention,
                           layout="NCHW", name=self.child(hint="pool").prefix + "fwd", **more)

    def dropout(self, x: Symbol, rate: float = 0.5) -> Symbol:
        """Set elements to 0 at random while training."""
        return sym.Dropout(x, p=rate, axes=(), cudnn_off=False,
                           name=self.child(hint="dropout").prefix + "fwd")

    def flatten(self, x: Symbol) -> Symbol:
        """Make a vector of each sample."""
        return sym.Flatten(x, name=self.child(hint="flatten")._name("flatten"))

    # -- operators, which are no layers: they have no index ----------------------------------------

    def activation(self, x: Symbol) -> Symbol:
        """The rectifier."""
        return _relu(x, self._name("activation"))

    def plus(self, x: Symbol, y: Symbol, hint: str = "_plus") -> Symbol:
        """The sum."""
        return sym.elemwise_add(x, y, name=self._name(hint))

    def concat(self, *parts: Symbol) -> Symbol:
        """Channels of all the parts."""
        return sym.Concat(*parts, dim=1, name=self._name("concat"))


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _relu(x: Symbol, name: str) -> Symbol:
    return sym.Activation(x, act_type="relu", name=name)
