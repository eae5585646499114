"""ResNet, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base import CheckError
from ....context import Context
from ... import nn
from ...block import HybridBlock
from ..image_network import ImageNetwork, in_turn, load_pretrained, variant

__all__ = ["BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "ResNetV1", "ResNetV2",
           "get_resnet", "resnet101_v1", "resnet101_v2", "resnet152_v1", "resnet152_v2",
           "resnet18_v1", "resnet18_v2", "resnet34_v1", "resnet34_v2", "resnet50_v1",
           "resnet50_v2"]
__dir__ = __all__.copy


class BasicBlockV1(HybridBlock):
    """Two convolutions of 3 x 3, each followed by batch normalization, to which data are added.

    Parameters
    ----------
    channels : int
        Channels of the result.
    stride : int
        Stride.
    downsample : bool, default False
        Whether the data are convolved before they are added.
    in_channels : int, default 0
        Channels of the data; 0 if they are inferred.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> block = mx.gluon.model_zoo.vision.BasicBlockV1(8, stride=2, downsample=True)
    >>> block(mx.sym.var("data")).infer_shape(data=(1, 4, 16, 16))[1]
    [(1, 8, 8, 8)]
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any):
        super().__init__(**kwargs)
        self.body = in_turn(_conv3x3(channels, stride, in_channels), nn.BatchNorm(),
                            nn.Activation("relu"), _conv3x3(channels, 1, channels), nn.BatchNorm())
        self.downsample = _projection(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        residual = x if self.downsample is None else self.downsample(x)
        return F.Activation(residual + self.body(x), act_type="relu")


class BottleneckV1(HybridBlock):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1, the first two with a quarter of the channels.

    Parameters
    ----------
    channels, stride, downsample, in_channels, **kwargs
        As for `BasicBlockV1`.

    Examples
    --------
    >>> block = mx.gluon.model_zoo.vision.BottleneckV1(8, stride=2, downsample=True)
    >>> block(mx.sym.var("data")).infer_shape(data=(1, 4, 16, 16))[1]
    [(1, 8, 8, 8)]
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any):
        super().__init__(**kwargs)
        inner = channels // 4
        self.body = in_turn(nn.Conv2D(inner, 1, stride), nn.BatchNorm(), nn.Activation("relu"),
                            _conv3x3(inner, 1, inner), nn.BatchNorm(), nn.Activation("relu"),
                            nn.Conv2D(channels, 1), nn.BatchNorm())
        self.downsample = _projection(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        residual = x if self.downsample is None else self.downsample(x)
        return F.Activation(self.body(x) + residual, act_type="relu")


class BasicBlockV2(HybridBlock):
    """Two convolutions of 3 x 3, each after batch normalization, to which data are added.

    Parameters
    ----------
    channels, stride, downsample, in_channels, **kwargs
        As for `BasicBlockV1`.

    Examples
    --------
    >>> block = mx.gluon.model_zoo.vision.BasicBlockV2(8, stride=2, downsample=True)
    >>> block(mx.sym.var("data")).infer_shape(data=(1, 4, 16, 16))[1]
    [(1, 8, 8, 8)]
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any):
        super().__init__(**kwargs)
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)
        self.downsample = _conv1x1(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        first = F.Activation(self.bn1(x), act_type="relu")
        residual = x if self.downsample is None else self.downsample(first)
        x = F.Activation(self.bn2(self.conv1(first)), act_type="relu")
        return self.conv2(x) + residual


class BottleneckV2(HybridBlock):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1, each after batch normalization.

    Parameters
    ----------
    channels, stride, downsample, in_channels, **kwargs
        As for `BasicBlockV1`.

    Examples
    --------
    >>> block = mx.gluon.model_zoo.vision.BottleneckV2(8, stride=2, downsample=True)
    >>> block(mx.sym.var("data")).infer_shape(data=(1, 4, 16, 16))[1]
    [(1, 8, 8, 8)]
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any):
        super().__init__(**kwargs)
        inner = channels // 4
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv1x1(inner, 1, 0)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(inner, stride, inner)
        self.bn3 = nn.BatchNorm()
        self.conv3 = _conv1x1(channels, 1, 0)
        self.downsample = _conv1x1(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        first = F.Activation(self.bn1(x), act_type="relu")
        residual = x if self.downsample is None else self.downsample(first)
        x = F.Activation(self.bn2(self.conv1(first)), act_type="relu")
        x = F.Activation(self.bn3(self.conv2(x)), act_type="relu")
        return self.conv3(x) + residual


def _conv3x3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


def _conv1x1(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)


def _projection(channels: int, stride: int, in_channels: int) -> nn.HybridSequential:
    return in_turn(_conv1x1(channels, stride, in_channels), nn.BatchNorm())


class _ResNet(ImageNetwork):
    """Stages of blocks between `_first` and `_last` layers."""

    def __init__(self, block: type[HybridBlock], layers: Sequence[int], channels: Sequence[int],
                 classes: int = 1000, thumbnail: bool = False, **kwargs: Any):
        if len(layers) != len(channels) - 1:
            raise CheckError(f"{type(self).__name__}: {len(channels)} numbers of channels are "
                             f"given, expected {len(layers) + 1}: one for the first layer and "
                             f"one for each of {len(layers)} stages")
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = in_turn(*self._first(channels[0], thumbnail))
            for index, count in enumerate(layers):
                self.features.add(self._make_layer(
                    block, count, channels[index + 1], 2 if index else 1, index + 1,
                    channels[index]))
            self.features.add(*self._last())
            self.output = nn.Dense(classes, in_units=channels[-1])

    def _first(self, channels: int, thumbnail: bool) -> list[HybridBlock]:
        """Layers before the stages."""
        if thumbnail:
            return [_conv3x3(channels, 1, 0)]
        return [nn.Conv2D(channels, 7, 2, 3, use_bias=False), nn.BatchNorm(),
                nn.Activation("relu"), nn.MaxPool2D(3, 2, 1)]

    def _last(self) -> list[HybridBlock]:
        """Layers after the stages."""
        return [nn.GlobalAvgPool2D()]

    def _make_layer(self, block: type[HybridBlock], layers: int, channels: int, stride: int,
                    stage_index: int, in_channels: int = 0) -> nn.HybridSequential:
        """A stage of blocks, the first of which has the stride."""
        stage = nn.HybridSequential(prefix=f"stage{stage_index}_")
        make: Any = block
        with stage.name_scope():
            stage.add(make(channels, stride, channels != in_channels, in_channels=in_channels,
                           prefix=""))
            stage.add(*(make(channels, 1, False, in_channels=channels, prefix="")
                        for _ in range(layers - 1)))
        return stage


class ResNetV1(_ResNet):
    """ResNet version 1, whose blocks normalize after convolutions (He et al., 2015).

    Parameters
    ----------
    block : type
        `BasicBlockV1` or `BottleneckV1`, or another block with their arguments.
    layers : sequence of int
        Number of blocks of each stage.
    channels : sequence of int
        Channels of the first layer and of each stage.
    classes : int, default 1000
        Number of classes.
    thumbnail : bool, default False
        Whether images are small, as those of CIFAR: the first layer keeps their size.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Raises
    ------
    AssertionError
        If `channels` is not one longer than `layers`.

    Examples
    --------
    >>> vision = mx.gluon.model_zoo.vision
    >>> net = vision.ResNetV1(vision.BasicBlockV1, [1, 1], [8, 8, 16], classes=10, thumbnail=True)
    >>> net.symbol.infer_shape(data=(1, 3, 32, 32))[1]
    [(1, 10)]
    """


class ResNetV2(_ResNet):
    """ResNet version 2, whose blocks normalize before convolutions (He et al., 2016).

    Parameters
    ----------
    block : type
        `BasicBlockV2` or `BottleneckV2`, or another block with their arguments.
    layers, channels, classes, thumbnail, **kwargs
        As for `ResNetV1`.

    Raises
    ------
    AssertionError
        If `channels` is not one longer than `layers`.

    Examples
    --------
    >>> vision = mx.gluon.model_zoo.vision
    >>> net = vision.ResNetV2(vision.BasicBlockV2, [1, 1], [8, 8, 16], classes=10, thumbnail=True)
    >>> net.symbol.infer_shape(data=(1, 3, 32, 32))[1]
    [(1, 10)]
    """

    def _first(self, channels: int, thumbnail: bool) -> list[HybridBlock]:
        return [nn.BatchNorm(scale=False, center=False), *super()._first(channels, thumbnail)]

    def _last(self) -> list[HybridBlock]:
        return [nn.BatchNorm(), nn.Activation("relu"), *super()._last(), nn.Flatten()]


resnet_spec = {18: ("basic_block", [2, 2, 2, 2], [64, 64, 128, 256, 512]),
               34: ("basic_block", [3, 4, 6, 3], [64, 64, 128, 256, 512]),
               50: ("bottle_neck", [3, 4, 6, 3], [64, 256, 512, 1024, 2048]),
               101: ("bottle_neck", [3, 4, 23, 3], [64, 256, 512, 1024, 2048]),
               152: ("bottle_neck", [3, 8, 36, 3], [64, 256, 512, 1024, 2048])}
"""Number of layers -> (kind of block, blocks of each stage, channels)."""
resnet_net_versions: list[type[_ResNet]] = [ResNetV1, ResNetV2]
resnet_block_versions: list[dict[str, type[HybridBlock]]] = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2}]


def get_resnet(version: int, num_layers: int, pretrained: bool = False, ctx: Context | None = None,
               root: str | None = None, **kwargs: Any) -> ImageNetwork:
    """Make a ResNet.

    Parameters
    ----------
    version : {1, 2}
        Version.
    num_layers : {18, 34, 50, 101, 152}
        Number of layers.
    pretrained, ctx, root
        As for `alexnet`.
    **kwargs
        Arguments of `ResNetV1` or `ResNetV2`.

    Raises
    ------
    AssertionError
        For another version or number of layers.

    Examples
    --------
    >>> mx.gluon.model_zoo.vision.get_resnet(1, 18, classes=10).output
    Dense(512 -> 10, linear)
    """
    if num_layers not in resnet_spec:
        raise CheckError(f"Invalid number of layers: {num_layers}. Options are {[*resnet_spec]}")
    if version not in (1, 2):
        raise CheckError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][kind], layers,
                                           channels, **kwargs)
    return load_pretrained(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


resnet18_v1 = variant("resnet18_v1", get_resnet, 1, 18)
resnet34_v1 = variant("resnet34_v1", get_resnet, 1, 34)
resnet50_v1 = variant("resnet50_v1", get_resnet, 1, 50)
resnet101_v1 = variant("resnet101_v1", get_resnet, 1, 101)
resnet152_v1 = variant("resnet152_v1", get_resnet, 1, 152)
resnet18_v2 = variant("resnet18_v2", get_resnet, 2, 18)
resnet34_v2 = variant("resnet34_v2", get_resnet, 2, 34)
resnet50_v2 = variant("resnet50_v2", get_resnet, 2, 50)
resnet101_v2 = variant("resnet101_v2", get_resnet, 2, 101)
resnet152_v2 = variant("resnet152_v2", get_resnet, 2, 152)
