"""Inception version 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....context import Context
from ....symbol import Symbol
from ..builder import Builder
from ..network import Classifier, Network, load_pretrained

__all__ = ["Inception3", "inception_v3"]

Size = int | tuple[int, int]
Convolution = tuple[int, Size] | tuple[int, Size, int]
"""Filters, kernel, and stride if it is not 1; images are padded to keep their size if it is 1."""
Branch = Sequence[Convolution | str]
"""Layers one after the other; 'avg' and 'max' are pooling."""

_ROW, _COLUMN = (1, 7), (7, 1)


def _a(pooled: int) -> list[Branch]:
    return [[(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)], ["avg", (pooled, 1)]]


def _c(inner: int) -> list[Branch]:
    return [[(192, 1)], [(inner, 1), (inner, _ROW), (192, _COLUMN)],
            [(inner, 1), (inner, _COLUMN), (inner, _ROW), (inner, _COLUMN), (192, _ROW)],
            ["avg", (192, 1)]]


_BLOCKS: dict[str, list[Branch]] = {
    "A1": _a(32), "A2": _a(64), "A3": _a(64),
    "B": [[(384, 3, 2)], [(64, 1), (96, 3), (96, 3, 2)], ["max"]],
    "C1": _c(128), "C2": _c(160), "C3": _c(160), "C4": _c(192),
    "D": [[(192, 1), (320, 3, 2)], [(192, 1), (192, _ROW), (192, _COLUMN), (192, 3, 2)], ["max"]]}


class Inception3(Classifier):
    """Inception version 3, for images of 299 x 299 pixels.

    Parameters
    ----------
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params` of `Network`.
    """

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        x = _conv(net.child(), x, 32, 3, 2)
        x = _conv(net.child(), x, 32, 3, pad=0)
        x = net.max_pool(_conv(net.child(), x, 64, 3), 3, 2)
        x = _conv(net.child(), x, 80, 1)
        x = net.max_pool(_conv(net.child(), x, 192, 3, pad=0), 3, 2)
        for name, branches in _BLOCKS.items():
            block = net.child(prefix=f"{name}_")
            x = block.concat(*(_branch(block.child(), x, layers) for layers in branches))
        for name in ("E1", "E2"):
            x = _e(net.child(prefix=f"{name}_"), x)
        return net.dropout(net.avg_pool(x, 8))


def _e(net: Builder, x: Symbol) -> Symbol:
    """The last blocks, in which two branches divide again."""
    return net.concat(_branch(net.child(), x, [(320, 1)]),
                      _divided(net.child(), x, [(384, 1)]),
                      _divided(net.child(), x, [(448, 1), (384, 3)]),
                      _branch(net.child(), x, ["avg", (192, 1)]))


def _divided(net: Builder, x: Symbol, layers: Branch) -> Symbol:
    x = _branch(net.child(), x, layers)
    halves = net.child()
    return halves.concat(*(_branch(halves.child(), x, [(384, kernel)])
                           for kernel in ((1, 3), (3, 1))))


def _branch(net: Builder, x: Symbol, layers: Branch) -> Symbol:
    for layer in layers:
        if layer == "avg":
            x = net.avg_pool(x, 3, 1, 1)
        elif layer == "max":
            x = net.max_pool(x, 3, 2)
        elif not isinstance(layer, str):
            x = _conv(net.child(), x, *layer)
    return x


def _conv(net: Builder, x: Symbol, filters: int, kernel: Size, stride: int = 1,
          pad: Size | None = None) -> Symbol:
    if pad is None:
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        pad = (height // 2, width // 2) if stride == 1 else 0
    x = net.conv(x, filters, kernel, stride, pad, bias=False)
    return net.relu(net.batch_norm(x, eps=0.001))


def inception_v3(pretrained: bool = False, ctx: Context | None = None, root: str | None = None,
                 **kwargs: Any) -> Network:
    """Make Inception version 3.

    Parameters
    ----------
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `Inception3`.
    """
    return load_pretrained(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
