"""MobileNet, versions 1 and 2."""

from __future__ import annotations

from typing import Any

from ....context import Context
from ... import nn
from ...block import HybridBlock
from ..image_network import ImageNetwork, load_pretrained, variant

__all__ = ["MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2", "mobilenet0_25",
           "mobilenet0_5", "mobilenet0_75", "mobilenet1_0", "mobilenet_v2_0_25",
           "mobilenet_v2_0_5", "mobilenet_v2_0_75", "mobilenet_v2_1_0"]
__dir__ = __all__.copy

_STAGES = ((64, 1, 1), (128, 2, 2), (256, 2, 2), (512, 2, 6), (1024, 2, 2))
"""Channels, stride of the first layer, layers."""
_BOTTLENECKS = ((16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 4), (96, 1, 3), (160, 2, 3),
                (320, 1, 1))
"""Channels, stride of the first layer and layers of linear bottlenecks."""


class RELU6(HybridBlock):
    """Elements between 0 and 6; others become the nearer of both.

    Parameters
    ----------
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> block = mx.gluon.model_zoo.vision.mobilenet.RELU6()
    >>> block(mx.nd.array([-1, 3, 8])).asnumpy().tolist()
    [0.0, 3.0, 6.0]
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.clip(x, 0, 6, name="relu6")


class LinearBottleneck(HybridBlock):
    """Convolutions that expand channels, mix each one's pixels, and reduce to few.

    The data are added if the result has their shape.

    Parameters
    ----------
    in_channels : int
        Channels of the data.
    channels : int
        Channels of the result.
    t : int
        Factor of the expansion.
    stride : int
        Stride of the convolution in the middle.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> block = mx.gluon.model_zoo.vision.mobilenet.LinearBottleneck(8, 16, t=6, stride=2)
    >>> block(mx.sym.var("data")).infer_shape(data=(1, 8, 14, 14))[1]
    [(1, 16, 7, 7)]
    """

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        inner = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            self.out.add(*_conv_norm(inner, 1), RELU6(),
                         *_conv_norm(inner, 3, stride, groups=inner), RELU6(),
                         *_conv_norm(channels, 1))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(ImageNetwork):
    """MobileNet (Howard et al., 2017).

    Parameters
    ----------
    multiplier : float, default 1.0
        Factor of the number of channels.
    classes : int, default 1000
        Number of classes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.MobileNet(0.25, classes=10)
    >>> net.symbol.infer_shape(data=(1, 3, 32, 32))[1]
    [(1, 10)]
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        inputs = int(32 * multiplier)
        with self.name_scope():
            self.features = features = nn.HybridSequential(prefix="")
            features.add(*_conv_norm(inputs, 3, 2), nn.Activation("relu"))
            for size, first, layers in _STAGES:
                channels = int(size * multiplier)
                for index in range(layers):
                    features.add(
                        *_conv_norm(inputs, 3, 1 if index else first, groups=inputs),
                        nn.Activation("relu"), *_conv_norm(channels, 1), nn.Activation("relu"))
                    inputs = channels
            features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class MobileNetV2(ImageNetwork):
    """MobileNetV2 (Sandler et al., 2018).

    Parameters
    ----------
    multiplier, classes, **kwargs
        As for `MobileNet`.

    Examples
    --------
    >>> net = mx.gluon.model_zoo.vision.MobileNetV2(0.25, classes=10)
    >>> net.symbol.infer_shape(data=(1, 3, 32, 32))[1]
    [(1, 10)]
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                self._add_features(self.features, multiplier)
            self.output = output = nn.HybridSequential(prefix="output_")
            with output.name_scope():
                output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())

    @staticmethod
    def _add_features(features: nn.HybridSequential, multiplier: float) -> None:
        inputs = int(32 * multiplier)
        features.add(*_conv_norm(inputs, 3, 2), RELU6())
        for stage, (size, first, layers) in enumerate(_BOTTLENECKS):
            channels = int(size * multiplier)
            for index in range(layers):
                features.add(LinearBottleneck(inputs, channels, 6 if stage else 1,
                                              1 if index else first))
                inputs = channels
        last = int(1280 * multiplier) if multiplier > 1 else 1280
        features.add(*_conv_norm(last, 1), RELU6(), nn.GlobalAvgPool2D())


def _conv_norm(channels: int, kernel: int, stride: int = 1, groups: int = 1) -> list[HybridBlock]:
    return [nn.Conv2D(channels, kernel, stride, kernel // 2, groups=groups, use_bias=False),
            nn.BatchNorm()]


def get_mobilenet(multiplier: float, pretrained: bool = False, ctx: Context | None = None,
                  root: str | None = None, **kwargs: Any) -> MobileNet:
    """Make a MobileNet.

    Parameters
    ----------
    multiplier : float
        Factor of the number of channels.
    pretrained : bool, default False
        Whether to load MXNet's parameters, which exist for 0.25, 0.5, 0.75 and 1.
    ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `MobileNet`.

    Raises
    ------
    ValueError
        If MXNet has no parameters for the multiplier.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.get_mobilenet(0.25, classes=10).output
    Dense(None -> 10, linear)
    """
    net = MobileNet(multiplier, **kwargs)
    return load_pretrained(net, f"mobilenet{_text(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v2(multiplier: float, pretrained: bool = False, ctx: Context | None = None,
                     root: str | None = None, **kwargs: Any) -> MobileNetV2:
    """Make a MobileNetV2.

    Parameters
    ----------
    multiplier, pretrained, ctx, root
        As for `get_mobilenet`.
    **kwargs
        Arguments of `MobileNetV2`.

    Raises
    ------
    ValueError
        If MXNet has no parameters for the multiplier.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.get_mobilenet_v2(0.25, classes=10).output[0]
    Conv2D(None -> 10, kernel_size=(1, 1), stride=(1, 1), bias=False)
    """
    net = MobileNetV2(multiplier, **kwargs)
    return load_pretrained(net, f"mobilenetv2_{_text(multiplier)}", pretrained, ctx, root)


def _text(multiplier: float) -> str:
    """The multiplier in names of files."""
    text = f"{multiplier:.2f}"
    return text[:-1] if text in ("1.00", "0.50") else text


mobilenet1_0 = variant("mobilenet1_0", get_mobilenet, 1.0)
mobilenet0_75 = variant("mobilenet0_75", get_mobilenet, 0.75)
mobilenet0_5 = variant("mobilenet0_5", get_mobilenet, 0.5)
mobilenet0_25 = variant("mobilenet0_25", get_mobilenet, 0.25)
mobilenet_v2_1_0 = variant("mobilenet_v2_1_0", get_mobilenet_v2, 1.0)
mobilenet_v2_0_75 = variant("mobilenet_v2_0_75", get_mobilenet_v2, 0.75)
mobilenet_v2_0_5 = variant("mobilenet_v2_0_5", get_mobilenet_v2, 0.5)
mobilenet_v2_0_25 = variant("mobilenet_v2_0_25", get_mobilenet_v2, 0.25)
