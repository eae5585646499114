"""Inception version 3."""

from __future__ import annotations

from typing import Any

from ....context import Context
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ..image_network import ImageNetwork, beside, in_turn, load_pretrained

__all__ = ["Inception3", "inception_v3"]
__dir__ = __all__.copy

Size = int | tuple[int, int]
Convolution = tuple[int, Size] | tuple[int, Size, int]
"""Channels, kernel, and stride if it is not 1; images are padded to keep their size if it is 1."""
Branch = list[Convolution | str]
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


class Inception3(ImageNetwork):
    """Inception version 3, for images of 299 x 299 pixels (Szegedy et al., 2015).

    Parameters
    ----------
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.Inception3(classes=10)
    >>> net.symbol.infer_shape(data=(1, 3, 299, 299))[1]
    [(1, 10)]
    """

    def __init__(self, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = features = nn.HybridSequential(prefix="")
            features.add(_conv(32, 3, 2), _conv(32, 3, padding=0), _conv(64, 3), nn.MaxPool2D(3, 2),
                         _conv(80, 1), _conv(192, 3, padding=0), nn.MaxPool2D(3, 2))
            for name, branches in _BLOCKS.items():
                block = HybridConcurrent(axis=1, prefix=f"{name}_")
                with block.name_scope():
                    block.add(*(_sequence(layers) for layers in branches))
                features.add(block)
            features.add(_last_block("E1_"), _last_block("E2_"), nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def _last_block(prefix: str) -> HybridConcurrent:
    """Branches two of which divide again."""
    block = HybridConcurrent(axis=1, prefix=prefix)
    with block.name_scope():
        block.add(_sequence([(320, 1)]), _divided([(384, 1)]), _divided([(448, 1), (384, 3)]),
                  _sequence(["avg", (192, 1)]))
    return block


def _divided(layers: Branch) -> nn.HybridSequential:
    """Layers, and then a row and a column side by side."""
    return in_turn(_sequence(layers),
                   beside(_sequence([(384, (1, 3))]), _sequence([(384, (3, 1))])))


def _sequence(layers: Branch) -> nn.HybridSequential:
    return in_turn(*map(_layer, layers))


def _layer(layer: Convolution | str) -> HybridBlock:
    if layer == "avg":
        return nn.AvgPool2D(3, 1, 1)
    return nn.MaxPool2D(3, 2) if isinstance(layer, str) else _conv(*layer)


def _conv(channels: int, kernel: Size, stride: int = 1, padding: Size | None = None
          ) -> nn.HybridSequential:
    if padding is None:
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (height // 2, width // 2) if stride == 1 else 0
    return in_turn(nn.Conv2D(channels, kernel, stride, padding, use_bias=False),
                   nn.BatchNorm(epsilon=0.001), nn.Activation("relu"))


def make_aux(classes: int) -> nn.HybridSequential:
    """Make the classifier that helps to train Inception version 3, for features of 17 x 17.

    Parameters
    ----------
    classes : int
        Number of classes.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.inception.make_aux(classes=10)
    >>> net(mx.sym.var("data")).infer_shape(data=(1, 768, 17, 17))[1]
    [(1, 10)]
    """
    return in_turn(nn.AvgPool2D(5, 3), _conv(128, 1), _conv(768, 5, padding=0), nn.Flatten(),
                   nn.Dense(classes))


def inception_v3(pretrained: bool = False, ctx: Context | None = None, root: str | None = None,
                 **kwargs: Any) -> Inception3:
    """Make Inception version 3.

    Parameters
    ----------
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `Inception3`.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.inception_v3(classes=10).output
    Dense(None -> 10, linear)
    """
    return load_pretrained(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
