"""ResNet, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base import CheckError
from ....context import Context
from ....symbol import Symbol
from ..builder import Builder
from ..network import Classifier, Network, load_pretrained, variant

__all__ = ["BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "ResNetV1", "ResNetV2",
           "get_resnet", "resnet101_v1", "resnet101_v2", "resnet152_v1", "resnet152_v2",
           "resnet18_v1", "resnet18_v2", "resnet34_v1", "resnet34_v2", "resnet50_v1",
           "resnet50_v2"]

_SPECS = {18: (False, (2, 2, 2, 2)), 34: (False, (3, 4, 6, 3)), 50: (True, (3, 4, 6, 3)),
          101: (True, (3, 4, 23, 3)), 152: (True, (3, 8, 36, 3))}
"""Number of layers -> (whether blocks are bottlenecks, blocks of each stage)."""


class _Block(Network):
    """A block, here as a network of its own.

    Parameters
    ----------
    channels : int
        Channels of the output.
    stride : int
        Stride.
    downsample : bool, default False
        Whether the data are convolved before they are added.
    in_channels : int, default 0
        Channels of the data; 0 if they are inferred.
    **kwargs
        `prefix` and `params` of `Network`.
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any):
        self._spec = channels, stride, downsample, in_channels
        super().__init__(**kwargs)

    def _build(self, net: Builder, x: Symbol) -> Symbol:
        return self.add(net, x, *self._spec)

    @staticmethod
    def add(net: Builder, x: Symbol, channels: int, stride: int, downsample: bool, inputs: int
            ) -> Symbol:
        """Add the block to a network.

        Parameters
        ----------
        net : Builder
            Block of layers.
        x : Symbol
            Data.
        channels, stride, downsample, inputs : int
            Arguments of the class.
        """
        raise NotImplementedError


class BasicBlockV1(_Block):
    """Two convolutions of 3 x 3, each followed by batch normalization."""

    @staticmethod
    def add(net: Builder, x: Symbol, channels: int, stride: int, downsample: bool, inputs: int
            ) -> Symbol:
        body = net.child("body")
        y = body.batch_norm(_conv3x3(body, x, channels, stride, inputs))
        y = body.batch_norm(_conv3x3(body, body.relu(y), channels, 1, channels))
        if downsample:
            x = _projection(net.child("downsample"), x, channels, stride, inputs)
        return net.activation(net.plus(x, y))


class BottleneckV1(_Block):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1, each followed by batch normalization."""

    @staticmethod
    def add(net: Builder, x: Symbol, channels: int, stride: int, downsample: bool, inputs: int
            ) -> Symbol:
        body, inner = net.child("body"), channels // 4
        y = body.relu(body.batch_norm(body.conv(x, inner, 1, stride)))
        y = body.relu(body.batch_norm(_conv3x3(body, y, inner, 1, inner)))
        y = body.batch_norm(body.conv(y, channels, 1))
        if downsample:
            x = _projection(net.child("downsample"), x, channels, stride, inputs)
        return net.activation(net.plus(y, x))


class BasicBlockV2(_Block):
    """Version 1 with batch normalization before each convolution."""

    @staticmethod
    def add(net: Builder, x: Symbol, channels: int, stride: int, downsample: bool, inputs: int
            ) -> Symbol:
        first = net.activation(net.batch_norm(x, key="bn1"))
        y = _conv3x3(net, first, channels, stride, inputs, "conv1")
        y = net.activation(net.batch_norm(y, key="bn2"))
        y = _conv3x3(net, y, channels, 1, channels, "conv2")
        if downsample:
            x = net.conv(first, channels, 1, stride, bias=False, channels=inputs, key="downsample")
        return net.plus(y, x)


class BottleneckV2(_Block):
    """Version 1 with batch normalization before each convolution."""

    @staticmethod
    def add(net: Builder, x: Symbol, channels: int, stride: int, downsample: bool, inputs: int
            ) -> Symbol:
        first, inner = net.activation(net.batch_norm(x, key="bn1")), channels // 4
        y = net.conv(first, inner, 1, bias=False, key="conv1")
        y = net.activation(net.batch_norm(y, key="bn2"))
        y = _conv3x3(net, y, inner, stride, inner, "conv2")
        y = net.activation(net.batch_norm(y, key="bn3"))
        y = net.conv(y, channels, 1, bias=False, key="conv3")
        if downsample:
            x = net.conv(first, channels, 1, stride, bias=False, channels=inputs, key="downsample")
        return net.plus(y, x)


def _conv3x3(net: Builder, x: Symbol, filters: int, stride: int, inputs: int,
             key: str | None = None) -> Symbol:
    return net.conv(x, filters, 3, stride, 1, bias=False, channels=inputs, key=key)


def _projection(net: Builder, x: Symbol, filters: int, stride: int, inputs: int) -> Symbol:
    return net.batch_norm(net.conv(x, filters, 1, stride, bias=False, channels=inputs))


class _ResNet(Classifier):
    """ResNet.

    Parameters
    ----------
    block : type
        `BasicBlockV1`, `BottleneckV1`, `BasicBlockV2` or `BottleneckV2`.
    layers : sequence of int
        Number of blocks of each stage.
    channels : sequence of int
        Channels of the first layer and of each stage.
    classes : int, default 1000
        Number of classes.
    thumbnail : bool, default False
        Whether images are small, as those of CIFAR: the first layer keeps their size.
    **kwargs
        `prefix` and `params` of `Network`.
    """

    def __init__(self, block: type[_Block], layers: Sequence[int], channels: Sequence[int],
                 classes: int = 1000, thumbnail: bool = False, **kwargs: Any):
        if len(layers) != len(channels) - 1:
            raise CheckError(f"{type(self).__name__}: {len(channels)} numbers of channels are "
                             f"given, expected {len(layers) + 1}: one for the first layer and "
                             f"one for each of {len(layers)} stages")
        self._block, self._layers, self._channels = block, layers, channels
        self._thumbnail = thumbnail
        super().__init__(classes, **kwargs)

    def _stem(self, net: Builder, x: Symbol) -> Symbol:
        if self._thumbnail:
            return _conv3x3(net, x, self._channels[0], 1, 0)
        x = net.conv(x, self._channels[0], 7, 2, 3, bias=False)
        return net.max_pool(net.relu(net.batch_norm(x)), 3, 2, 1)

    def _stages(self, net: Builder, x: Symbol) -> Symbol:
        inputs = self._channels[0]
        for index, (blocks, channels) in enumerate(
                zip(self._layers, self._channels[1:], strict=True), 1):
            stage = net.child(prefix=f"stage{index}_")
            stride = 1 if index == 1 else 2
            for _ in range(blocks):
                x = self._block.add(stage.child(), x, channels, stride, inputs != channels, inputs)
                stride, inputs = 1, channels
        return x

    def _output(self, net: Builder, x: Symbol) -> Symbol:
        return net.dense(x, self._classes, inputs=self._channels[-1], key="output")


class ResNetV1(_ResNet):
    """ResNet version 1: batches are normalized after convolutions."""

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        return net.global_avg_pool(self._stages(net, self._stem(net, x)))


class ResNetV2(_ResNet):
    """ResNet version 2: batches are normalized before convolutions."""

    def _features(self, net: Builder, x: Symbol) -> Symbol:
        x = self._stem(net, net.batch_norm(x, trained=False))
        x = net.relu(net.batch_norm(self._stages(net, x)))
        return net.flatten(net.global_avg_pool(x))


_NETWORKS: dict[int, tuple[type[_ResNet], type[_Block], type[_Block]]] = {
    1: (ResNetV1, BasicBlockV1, BottleneckV1), 2: (ResNetV2, BasicBlockV2, BottleneckV2)}


def get_resnet(version: int, num_layers: int, pretrained: bool = False,
               ctx: Context | None = None, root: str | None = None, **kwargs: Any) -> Network:
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
    """
    if num_layers not in _SPECS:
        raise CheckError(f"Invalid number of layers: {num_layers}. Options are {[*_SPECS]}")
    if version not in _NETWORKS:
        raise CheckError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    network, basic, bottleneck = _NETWORKS[version]
    is_deep, layers = _SPECS[num_layers]
    channels = [64, *(size * (4 if is_deep else 1) for size in (64, 128, 256, 512))]
    net = network(bottleneck if is_deep else basic, layers, channels, **kwargs)
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
