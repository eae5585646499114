"""DenseNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base import NoSuchKey
from ....context import Context
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent, Identity
from ..image_network import ImageNetwork, beside, in_turn, load_pretrained, variant

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]
__dir__ = __all__.copy

densenet_spec = {121: (64, 32, [6, 12, 24, 16]), 161: (96, 48, [6, 12, 36, 24]),
                 169: (64, 32, [6, 12, 32, 32]), 201: (64, 32, [6, 12, 48, 32])}
"""Number of layers -> (channels of the first layer, growth, layers of each block)."""


class DenseNet(ImageNetwork):
    """DenseNet (Huang et al., 2017).

    Parameters
    ----------
    num_init_features : int
        Channels of the first layer.
    growth_rate : int
        Channels that a layer adds.
    block_config : sequence of int
        Number of layers of each block.
    bn_size : int, default 4
        Channels inside a layer, as a multiple of the growth.
    dropout : float, default 0
        Rate of dropout after each layer.
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.DenseNet(8, 4, [2, 2], classes=10)
    >>> net.symbol.infer_shape(data=(1, 3, 64, 64))[1]
    [(1, 10)]
    """

    def __init__(self, num_init_features: int, growth_rate: int, block_config: Sequence[int],
                 bn_size: int = 4, dropout: float = 0, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = features = nn.HybridSequential(prefix="")
            features.add(nn.Conv2D(num_init_features, 7, 2, 3, use_bias=False), *_norm_relu(),
                         nn.MaxPool2D(3, 2, 1))
            channels = num_init_features
            for index, layers in enumerate(block_config, 1):
                if index > 1:
                    channels //= 2
                    features.add(_make_transition(channels))
                features.add(_make_dense_block(layers, bn_size, growth_rate, dropout, index))
                channels += layers * growth_rate
            features.add(*_norm_relu(), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)


def _make_dense_block(num_layers: int, bn_size: int, growth_rate: int, dropout: float,
                      stage_index: int) -> nn.HybridSequential:
    """Layers of a stage; networks of other projects are built of them, too."""
    stage = nn.HybridSequential(prefix=f"stage{stage_index}_")
    with stage.name_scope():
        stage.add(*(_make_dense_layer(growth_rate, bn_size, dropout) for _ in range(num_layers)))
    return stage


def _make_dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    """Channels of the data, and new ones."""
    added = in_turn(*_norm_relu(), nn.Conv2D(bn_size * growth_rate, 1, use_bias=False),
                    *_norm_relu(), nn.Conv2D(growth_rate, 3, padding=1, use_bias=False))
    if dropout:
        added.add(nn.Dropout(dropout))
    return beside(Identity(), added)


def _make_transition(num_output_features: int) -> nn.HybridSequential:
    """Fewer channels, and half the height and width."""
    return in_turn(*_norm_relu(), nn.Conv2D(num_output_features, 1, use_bias=False),
                   nn.AvgPool2D(2, 2))


def _norm_relu() -> list[HybridBlock]:
    return [nn.BatchNorm(), nn.Activation("relu")]


def get_densenet(num_layers: int, pretrained: bool = False, ctx: Context | None = None,
                 root: str | None = None, **kwargs: Any) -> DenseNet:
    """Make a DenseNet.

    Parameters
    ----------
    num_layers : {121, 161, 169, 201}
        Number of layers.
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `DenseNet`.

    Raises
    ------
    KeyError
        For another number of layers.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.densenet.get_densenet(121, classes=10).output
    Dense(None -> 10, linear)
    """
    if num_layers not in densenet_spec:
        raise NoSuchKey(f"get_densenet: num_layers is {num_layers!r}, expected one of "
                        f"{[*densenet_spec]}")
    net = DenseNet(*densenet_spec[num_layers], **kwargs)
    return load_pretrained(net, f"densenet{num_layers}", pretrained, ctx, root)


densenet121 = variant("densenet121", get_densenet, 121)
densenet161 = variant("densenet161", get_densenet, 161)
densenet169 = variant("densenet169", get_densenet, 169)
densenet201 = variant("densenet201", get_densenet, 201)
