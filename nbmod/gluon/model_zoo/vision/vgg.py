"""VGG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base import CheckError, NoSuchKey
from ....context import Context
from ....initializer import Xavier
from ... import nn
from ..image_network import ImageNetwork, load_pretrained, variant

__all__ = ["VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19",
           "vgg19_bn"]
__dir__ = __all__.copy

_FILTERS = [64, 128, 256, 512, 512]

vgg_spec = {11: ([1, 1, 2, 2, 2], _FILTERS), 13: ([2, 2, 2, 2, 2], _FILTERS),
            16: ([2, 2, 3, 3, 3], _FILTERS), 19: ([2, 2, 4, 4, 4], _FILTERS)}
"""Number of layers -> (convolutions of each stage, their filters)."""


class VGG(ImageNetwork):
    """VGG (Simonyan and Zisserman, 2014).

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
        `prefix` and `params`, as for `HybridBlock`.

    Raises
    ------
    AssertionError
        If `layers` and `filters` have different lengths.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.VGG([1, 2], [8, 16], classes=10)
    >>> net.symbol.infer_shape(data=(1, 3, 32, 32))[1]
    [(1, 10)]
    """

    def __init__(self, layers: Sequence[int], filters: Sequence[int], classes: int = 1000,
                 batch_norm: bool = False, **kwargs: Any):
        if len(layers) != len(filters):
            raise CheckError(f"VGG: layers has {len(layers)} stages and filters {len(filters)}, "
                             "expected as many")
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = self._make_features(layers, filters, batch_norm)
            for _ in range(2):
                self.features.add(_dense(4096, "relu"), nn.Dropout(0.5))
            self.output = _dense(classes)

    def _make_features(self, layers: Sequence[int], filters: Sequence[int], batch_norm: bool
                       ) -> nn.HybridSequential:
        """All stages of convolutions."""
        features = nn.HybridSequential(prefix="")
        for count, channels in zip(layers, filters, strict=True):
            for _ in range(count):
                features.add(nn.Conv2D(channels, 3, padding=1, weight_initializer=Xavier(
                    "gaussian", "out", 2)))
                if batch_norm:
                    features.add(nn.BatchNorm())
                features.add(nn.Activation("relu"))
            features.add(nn.MaxPool2D(strides=2))
        return features


def _dense(units: int, activation: str | None = None) -> nn.Dense:
    return nn.Dense(units, activation, weight_initializer="normal")


def get_vgg(num_layers: int, pretrained: bool = False, ctx: Context | None = None,
            root: str | None = None, **kwargs: Any) -> VGG:
    """Make a VGG.

    Parameters
    ----------
    num_layers : {11, 13, 16, 19}
        Number of layers.
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `VGG`.

    Raises
    ------
    KeyError
        For another number of layers.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.get_vgg(11, classes=10).output
    Dense(None -> 10, linear)
    """
    if num_layers not in vgg_spec:
        raise NoSuchKey(f"get_vgg: num_layers is {num_layers!r}, expected one of {[*vgg_spec]}")
    net = VGG(*vgg_spec[num_layers], **kwargs)
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
