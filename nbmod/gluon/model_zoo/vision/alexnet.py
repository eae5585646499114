"""AlexNet."""

from __future__ import annotations

from typing import Any

from ....context import Context
from ....symbol import Symbol
from ..builder import Builder
from ..network import Classifier, Network, load_pretrained

__all__ = ["AlexNet", "alexnet"]

_CONVOLUTIONS = ((64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False),
                 (256, 3, 1, 1, False), (256, 3, 1, 1, True))
"""Filters, kernel, stride, padding, and whether pooling follows."""


class AlexNet(Classifier):
    """AlexNet, in the form for one device.

    Parameters
    ----------
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params` of `Network`.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.AlexNet(classes=10)
    >>> net.symbol.infer_shape(data=(1, 3, 224, 224))[1]
    [(1, 10)]
    """

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        for filters, kernel, stride, pad, pooled in _CONVOLUTIONS:
            x = net.conv(x, filters, kernel, stride, pad, relu=True)
            if pooled:
                x = net.max_pool(x, 3, 2)
        x = net.flatten(x)
        for _ in range(2):
            x = net.dropout(net.dense(x, 4096, relu=True))
        return x


def alexnet(pretrained: bool = False, ctx: Context | None = None, root: str | None = None,
            **kwargs: Any) -> Network:
    """Make AlexNet.

    Parameters
    ----------
    pretrained : bool, default False
        Whether to load MXNet's parameters.
    ctx : Context, optional
        Device of the parameters.
    root : str, optional
        Folder of the parameters; MXNet's by default.
    **kwargs
        Arguments of `AlexNet`.
    """
    return load_pretrained(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
