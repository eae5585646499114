"""DenseNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....context import Context
from ....symbol import Symbol
from ..builder import Builder
from ..network import Classifier, Network, load_pretrained, variant

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

_SPECS = {121: (64, 32, (6, 12, 24, 16)), 161: (96, 48, (6, 12, 36, 24)),
          169: (64, 32, (6, 12, 32, 32)), 201: (64, 32, (6, 12, 48, 32))}
"""Number of layers -> (filters of the first layer, growth, layers of each block)."""


class DenseNet(Classifier):
    """DenseNet.

    Parameters
    ----------
    num_init_features : int
        Filters of the first layer.
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
        `prefix` and `params` of `Network`.
    """

    def __init__(self, num_init_features: int, growth_rate: int, block_config: Sequence[int],
                 bn_size: int = 4, dropout: float = 0, classes: int = 1000, **kwargs: Any):
        self._initial, self._growth, self._blocks = num_init_features, growth_rate, block_config
        self._inner, self._dropout = bn_size * growth_rate, dropout
        super().__init__(classes, **kwargs)

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        x = net.conv(x, self._initial, 7, 2, 3, bias=False)
        x = net.max_pool(_norm_relu(net, x), 3, 2, 1)
        channels = self._initial
        for index, layers in enumerate(self._blocks, 1):
            stage = net.child(prefix=f"stage{index}_")
            for _ in range(layers):
                x = self._layer(stage.child(), x)
            channels += layers * self._growth
            if index < len(self._blocks):
                channels //= 2
                x = _transition(net.child(), x, channels)
        return net.flatten(net.avg_pool(_norm_relu(net, x), 7))

    def _layer(self, net: Builder, x: Symbol) -> Symbol:
        """Add channels to those of the data."""
        net.child()  # the identity
        new = net.child()
        y = new.conv(_norm_relu(new, x), self._inner, 1, bias=False)
        y = new.conv(_norm_relu(new, y), self._growth, 3, pad=1, bias=False)
        return net.concat(x, new.dropout(y, self._dropout) if self._dropout else y)


def _norm_relu(net: Builder, x: Symbol) -> Symbol:
    return net.relu(net.batch_norm(x))


def _transition(net: Builder, x: Symbol, filters: int) -> Symbol:
    """Halve the channels, height and width."""
    return net.avg_pool(net.conv(_norm_relu(net, x), filters, 1, bias=False), 2)


def get_densenet(num_layers: int, pretrained: bool = False, ctx: Context | None = None,
                 root: str | None = None, **kwargs: Any) -> Network:
    """Make a DenseNet.

    Parameters
    ----------
    num_layers : {121, 161, 169, 201}
        Number of layers.
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `DenseNet`.
    """
    net = DenseNet(*_SPECS[num_layers], **kwargs)
    return load_pretrained(net, f"densenet{num_layers}", pretrained, ctx, root)


densenet121 = variant("densenet121", get_densenet, 121)
densenet161 = variant("densenet161", get_densenet, 161)
densenet169 = variant("densenet169", get_densenet, 169)
densenet201 = variant("densenet201", get_densenet, 201)
