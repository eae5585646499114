"""SqueezeNet."""

from __future__ import annotations

from typing import Any

from ....base import CheckError
from ....context import Context
from ... import nn
from ..image_network import ImageNetwork, beside, in_turn, load_pretrained, variant

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]
__dir__ = __all__.copy

_SPECS: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "1.0": ((96, 7), (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1.1": ((64, 3), (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64))}
"""Version -> (channels and kernel of the first layer; channels of fire modules, 0 for pooling)."""


class SqueezeNet(ImageNetwork):
    """SqueezeNet (Iandola et al., 2016).

    Parameters
    ----------
    version : {'1.0', '1.1'}
        Version.
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Raises
    ------
    AssertionError
        For another version.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.SqueezeNet("1.1", classes=10)
    >>> net.symbol.infer_shape(data=(1, 3, 224, 224))[1]
    [(1, 10)]
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any):
        if version not in _SPECS:
            raise CheckError(f"Unsupported SqueezeNet version {version}:1.0 or 1.1 expected")
        super().__init__(**kwargs)
        (channels, kernel), modules = _SPECS[version]
        with self.name_scope():
            self.features = features = nn.HybridSequential(prefix="")
            features.add(nn.Conv2D(channels, kernel, 2), nn.Activation("relu"))
            for squeeze in modules:
                features.add(_fire(squeeze) if squeeze else nn.MaxPool2D(3, 2, ceil_mode=True))
            features.add(nn.Dropout(0.5))
            self.output = in_turn(nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13),
                                  nn.Flatten())


def _fire(squeeze: int) -> nn.HybridSequential:
    """Few channels, which convolutions of two sizes expand."""
    return in_turn(_convolution(squeeze, 1),
                   beside(_convolution(4 * squeeze, 1), _convolution(4 * squeeze, 3)))


def _convolution(channels: int, kernel: int) -> nn.HybridSequential:
    return in_turn(nn.Conv2D(channels, kernel, padding=kernel // 2), nn.Activation("relu"))


def get_squeezenet(version: str, pretrained: bool = False, ctx: Context | None = None,
                   root: str | None = None, **kwargs: Any) -> SqueezeNet:
    """Make a SqueezeNet.

    Parameters
    ----------
    version : {'1.0', '1.1'}
        Version.
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `SqueezeNet`.

    Raises
    ------
    AssertionError
        For another version.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.squeezenet.get_squeezenet("1.1", classes=10).output[0]
    Conv2D(None -> 10, kernel_size=(1, 1), stride=(1, 1))
    """
    net = SqueezeNet(version, **kwargs)
    return load_pretrained(net, f"squeezenet{version}", pretrained, ctx, root)


squeezenet1_0 = variant("squeezenet1_0", get_squeezenet, "1.0")
squeezenet1_1 = variant("squeezenet1_1", get_squeezenet, "1.1")
