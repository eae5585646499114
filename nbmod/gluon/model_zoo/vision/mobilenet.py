"""MobileNet."""

from __future__ import annotations

from typing import Any

from ....context import Context
from ....symbol import Symbol
from ..builder import Builder
from ..network import Classifier, Network, load_pretrained, variant

__all__ = ["MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2", "mobilenet0_25",
           "mobilenet0_5", "mobilenet0_75", "mobilenet1_0", "mobilenet_v2_0_25",
           "mobilenet_v2_0_5", "mobilenet_v2_0_75", "mobilenet_v2_1_0"]

_STAGES = ((64, 1, 1), (128, 2, 2), (256, 2, 2), (512, 2, 6), (1024, 2, 2))
"""Filters, stride of the first layer, layers."""
_BOTTLENECKS = ((16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 4), (96, 1, 3), (160, 2, 3),
                (320, 1, 1))
"""Filters, stride of the first layer and layers of linear bottlenecks."""


class MobileNet(Classifier):
    """MobileNet.

    Parameters
    ----------
    multiplier : float, default 1.0
        Factor of the number of filters.
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params` of `Network`.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any):
        self._multiplier = multiplier
        super().__init__(classes, **kwargs)

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        inputs = int(32 * self._multiplier)
        x = net.relu(_conv_norm(net, x, inputs, 3, 2))
        for size, first, layers in _STAGES:
            filters = int(size * self._multiplier)
            for index in range(layers):
                x = net.relu(_conv_norm(net, x, inputs, 3, 1 if index else first, groups=inputs))
                x = net.relu(_conv_norm(net, x, filters, 1))
                inputs = filters
        return net.flatten(net.global_avg_pool(x))


class MobileNetV2(Classifier):
    """MobileNetV2.

    Parameters
    ----------
    multiplier, classes, **kwargs
        As for `MobileNet`.
    """

    _prefixes = "features_", "output_"

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any):
        self._multiplier = multiplier
        super().__init__(classes, **kwargs)

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        inputs = int(32 * self._multiplier)
        x = net.relu6(_conv_norm(net, x, inputs, 3, 2))
        for stage, (size, first, layers) in enumerate(_BOTTLENECKS):
            filters = int(size * self._multiplier)
            for index in range(layers):
                x = _bottleneck(net.child(hint="linearbottleneck"), x, inputs, filters,
                                1 if index else first, 6 if stage else 1)
                inputs = filters
        last = int(1280 * self._multiplier) if self._multiplier > 1 else 1280
        return net.global_avg_pool(net.relu6(_conv_norm(net, x, last, 1)))

    def _output(self, net: Builder, x: Symbol) -> Symbol:
        net = net.child("output", prefix=self._prefixes[1])
        return net.flatten(net.conv(x, self._classes, 1, bias=False, prefix="pred_"))


def _conv_norm(net: Builder, x: Symbol, filters: int, kernel: int, stride: int = 1,
               groups: int = 1) -> Symbol:
    return net.batch_norm(net.conv(x, filters, kernel, stride, kernel // 2, groups=groups,
                                   bias=False))


def _bottleneck(net: Builder, x: Symbol, inputs: int, filters: int, stride: int, expansion: int
                ) -> Symbol:
    """Expand, convolve channel by channel, and reduce, around which an equal shape is added."""
    out, inner = net.child("out"), inputs * expansion
    y = out.relu6(_conv_norm(out, x, inner, 1))
    y = out.relu6(_conv_norm(out, y, inner, 3, stride, groups=inner))
    y = _conv_norm(out, y, filters, 1)
    return net.plus(y, x, "elemwise_add") if stride == 1 and inputs == filters else y


def get_mobilenet(multiplier: float, pretrained: bool = False, ctx: Context | None = None,
                  root: str | None = None, **kwargs: Any) -> Network:
    """Make a MobileNet.

    Parameters
    ----------
    multiplier : float
        Factor of the number of filters.
    pretrained : bool, default False
        Whether to load MXNet's parameters, which exist for 0.25, 0.5, 0.75 and 1.
    ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `MobileNet`.
    """
    net = MobileNet(multiplier, **kwargs)
    return load_pretrained(net, f"mobilenet{_text(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v2(multiplier: float, pretrained: bool = False, ctx: Context | None = None,
                     root: str | None = None, **kwargs: Any) -> Network:
    """Make a MobileNetV2.

    Parameters
    ----------
    multiplier, pretrained, ctx, root
        As for `get_mobilenet`.
    **kwargs
        Arguments of `MobileNetV2`.
    """
    net = MobileNetV2(multiplier, **kwargs)
    return load_pretrained(net, f"mobilenetv2_{_text(multiplier)}", pretrained, ctx, root)


def _text(multiplier: float) -> str:
    """The multiplier in names of files."""
    return str(round(float(multiplier), 2))


mobilenet1_0 = variant("mobilenet1_0", get_mobilenet, 1.0)
mobilenet0_75 = variant("mobilenet0_75", get_mobilenet, 0.75)
mobilenet0_5 = variant("mobilenet0_5", get_mobilenet, 0.5)
mobilenet0_25 = variant("mobilenet0_25", get_mobilenet, 0.25)
mobilenet_v2_1_0 = variant("mobilenet_v2_1_0", get_mobilenet_v2, 1.0)
mobilenet_v2_0_75 = variant("mobilenet_v2_0_75", get_mobilenet_v2, 0.75)
mobilenet_v2_0_5 = variant("mobilenet_v2_0_5", get_mobilenet_v2, 0.5)
mobilenet_v2_0_25 = variant("mobilenet_v2_0_25", get_mobilenet_v2, 0.25)
