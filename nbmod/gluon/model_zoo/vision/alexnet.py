"""AlexNet."""

from __future__ import annotations

from typing import Any

from ....context import Context
from ... import nn
from ..image_network import ImageNetwork, load_pretrained

__all__ = ["AlexNet", "alexnet"]
__dir__ = __all__.copy

_CONVOLUTIONS = ((64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False),
                 (256, 3, 1, 1, False), (256, 3, 1, 1, True))
"""Channels, kernel, stride, padding, and whether pooling follows."""


class AlexNet(ImageNetwork):
    """AlexNet, in the form for one device (Krizhevsky, 2014).

    Parameters
    ----------
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.AlexNet(classes=10)
    >>> net.symbol.infer_shape(data=(1, 3, 224, 224))[1], net.output
    ([(1, 10)], Dense(None -> 10, linear))
    """

    def __init__(self, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = features = nn.HybridSequential(prefix="")
            for channels, kernel, stride, padding, pooled in _CONVOLUTIONS:
                features.add(nn.Conv2D(channels, kernel, stride, padding, activation="relu"))
                if pooled:
                    features.add(nn.MaxPool2D(3, 2))
            features.add(nn.Flatten())
            for _ in range(2):
                features.add(nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def alexnet(pretrained: bool = False, ctx: Context | None = None, root: str | None = None,
            **kwargs: Any) -> AlexNet:
    """Make AlexNet.

    Parameters
    ----------
    pretrained : bool, default False
        Whether to load MXNet's parameters, as `model_store.get_model_file` finds them.
    ctx : Context or list of Context, optional
        Devices of these parameters; `cpu(0)` by default.
    root : str, optional
        Folder of their file; MXNet's by default.
    **kwargs
        Arguments of `AlexNet`.

    Raises
    ------
    MXNetError
        If the folder does not have the file, and it cannot be downloaded.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.alexnet(classes=10).output
    Dense(None -> 10, linear)
    """
    return load_pretrained(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
