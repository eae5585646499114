"""VGG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....context import Context
from ....initializer import Xavier
from ....symbol import Symbol
from ..builder import Builder
from ..network import Classifier, Network, load_pretrained, variant

__all__ = ["VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19",
           "vgg19_bn"]

_LAYERS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_FILTERS = (64, 128, 256, 512, 512)


class VGG(Classifier):
    """VGG.

    Parameters
    ----------
    layers : sequence of int
        Number of convolutions of each stage.
    filters : sequence of int
        Filters of each stage.
    classes : int, default 1000
        Number of classes.
    batch_norm : bool, default False
        Whether batches are normalized after convolutions.
    **kwargs
        `prefix` and `params` of `Network`.
    """

    def __init__(self, layers: Sequence[int], filters: Sequence[int], classes: int = 1000,
                 batch_norm: bool = False, **kwargs: Any):
        self._stages = list(zip(layers, filters, strict=True))
        self._batch_norm = batch_norm
        super().__init__(classes, **kwargs)

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        net.inits.update(conv=Xavier("gaussian", "out", 2).dumps(), dense="normal")
        for layers, filters in self._stages:
            for _ in range(layers):
                x = net.conv(x, filters, 3, pad=1)
                x = net.relu(net.batch_norm(x) if self._batch_norm else x)
            x = net.max_pool(x, 2, 2)
        for _ in range(2):
            x = net.dropout(net.dense(x, 4096, relu=True))
        return x


def get_vgg(num_layers: int, pretrained: bool = False, ctx: Context | None = None,
            root: str | None = None, **kwargs: Any) -> Network:
    """Make a VGG.

    Parameters
    ----------
    num_layers : {11, 13, 16, 19}
        Number of layers.
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `VGG`.
    """
    net = VGG(_LAYERS[num_layers], _FILTERS, **kwargs)
    suffix = "_bn" if kwargs.get("batch_norm") else ""
    return load_pretrained(net, f"vgg{num_layers}{suffix}", pretrained, ctx, root)


vgg11 = variant("vgg11", get_vgg, 11)
vgg13 = variant("vgg13", get_vgg, 13)
vgg16 = variant("vgg16", get_vgg, 16)
vgg19 = variant("vgg19", get_vgg, 19)
vgg11_bn = variant("vgg11_bn", get_vgg, 11, batch_norm=True)
vgg13_bn = variant("vgg13_bn", get_vgg, 13, batch_norm=True)
vgg16_bn = variant("vgg16_bn", get_vgg, 16, batch_norm=True)
vgg19_bn = variant("vgg19_bn", get_vgg, 19, batch_norm=True)
