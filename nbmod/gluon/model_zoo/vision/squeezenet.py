"""SqueezeNet."""

from __future__ import annotations

from typing import Any

from ....base import CheckError
from ....context import Context
from ....symbol import Symbol
from ..builder import Builder
from ..network import Classifier, Network, load_pretrained, variant

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

_SPECS: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "1.0": ((96, 7), (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1.1": ((64, 3), (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64))}
"""Version -> (filters and kernel of the first layer; filters of fire modules, 0 for pooling)."""


class SqueezeNet(Classifier):
    """SqueezeNet.

    Parameters
    ----------
    version : {'1.0', '1.1'}
        Version.
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params` of `Network`.
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any):
        if version not in _SPECS:
            raise CheckError(f"Unsupported SqueezeNet version {version}:1.0 or 1.1 expected")
        self._spec = _SPECS[version]
        super().__init__(classes, **kwargs)

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        (filters, kernel), modules = self._spec
        x = net.relu(net.conv(x, filters, kernel, 2))
        for squeeze in modules:
            x = _fire(net.child(), x, squeeze) if squeeze else net.max_pool(x, 3, 2, ceil=True)
        return net.dropout(x)

    def _output(self, net: Builder, x: Symbol) -> Symbol:
        net = net.child("output")
        x = net.relu(net.conv(x, self._classes, 1))
        return net.flatten(net.avg_pool(x, 13))


def _fire(net: Builder, x: Symbol, squeeze: int) -> Symbol:
    """Reduce to few channels, then expand by convolutions of two sizes."""
    x = _conv_relu(net.child(), x, squeeze, 1)
    expand = net.child()
    return expand.concat(*(_conv_relu(expand.child(), x, 4 * squeeze, kernel)
                           for kernel in (1, 3)))


def _conv_relu(net: Builder, x: Symbol, filters: int, kernel: int) -> Symbol:
    return net.relu(net.conv(x, filters, kernel, pad=kernel // 2))


def get_squeezenet(version: str, pretrained: bool = False, ctx: Context | None = None,
                   root: str | None = None, **kwargs: Any) -> Network:
    """Make a SqueezeNet.

    Parameters
    ----------
    version : {'1.0', '1.1'}
        Version.
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `SqueezeNet`.
    """
    net = SqueezeNet(version, **kwargs)
    return load_pretrained(net, f"squeezenet{version}", pretrained, ctx, root)


squeezenet1_0 = variant("squeezenet1_0", get_squeezenet, "1.0")
squeezenet1_1 = variant("squeezenet1_1", get_squeezenet, "1.1")
