"""Deformable convolutions, with the convolution that tells where they sample the image."""

from __future__ import annotations

from typing import Any, ClassVar

from ....base import ArgumentError, CheckError
from ...base_parameter import Init, Parameter
from ...block import HybridBlock
from ...nn import Activation
from ...nn.conv_layers import _convolution_text
from ...nn.pooling_layers import Size, _sizes

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]
__dir__ = __all__.copy


class _Deformable(HybridBlock):
    """Base of deformable convolutions.

    `_numbers` is how many numbers the first convolution computes for each element of a window;
    its parameters come first if `_begins_with_offsets`.
    """

    deformable_conv_weight: Parameter
    _numbers: ClassVar[int]
    _begins_with_offsets: ClassVar[bool]

    def __init__(self, channels: int, kernel_size: Size, strides: Size, padding: Size,
                 dilation: Size, groups: int, num_deformable_group: int, layout: str,
                 use_bias: bool, in_channels: int, activation: str | None,
                 initializers: tuple[Init, ...], offset_use_bias: bool,
                 adj: Size | None, prefix: str | None, params: Any):
        if layout != "NCHW":
            raise CheckError(f"Only supports 'NCHW' layout for now; layout of "
                             f"{type(self).__name__} is {layout!r}")
        if adj:
            raise ArgumentError(f"{type(self).__name__}: adj is {adj}, but a convolution has no "
                                "padding of its output")
        super().__init__(prefix=prefix, params=params)
        self._channels, self._in_channels = channels, in_channels
        kernel = _sizes("kernel_size", kernel_size, 2)
        shared = {"kernel": kernel, "stride": _sizes("strides", strides, 2),
                  "dilate": _sizes("dilation", dilation, 2), "pad": _sizes("padding", padding, 2),
                  "num_group": groups, "layout": layout}
        points = num_deformable_group * kernel[0] * kernel[1]
        self.offset_split_index = 2 * points
        self._kwargs_offset = {**shared, "num_filter": self._numbers * points,
                               "no_bias": not offset_use_bias}
        self._kwargs_deformable_conv = {**shared, "num_filter": channels, "no_bias": not use_bias,
                                        "num_deformable_group": num_deformable_group}
        shapes = {"deformable_conv_weight": (channels, 0, *kernel),
                  "deformable_conv_bias": (channels,) if use_bias else None,
                  "offset_weight": (self._numbers * points, in_channels // groups, *kernel),
                  "offset_bias": (self._numbers * points,) if offset_use_bias else None}
        table = [*zip(shapes, shapes.values(), initializers, strict=True)]
        for name, shape, init in table[2:] + table[:2] if self._begins_with_offsets else table:
            setattr(self, name, None if shape is None else self.params.get(
                name, shape=shape, init=init, allow_deferred_init=True))
        with self.name_scope():
            self.act = Activation(activation, prefix=f"{activation}_") if activation else None

    def _sampled(self, F: Any, offset: Any, **inputs: Any) -> Any:
        """The operator on the image, a weight and a bias, with the results of the convolution."""
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Any, offset_weight: Any, deformable_conv_weight: Any,
                       offset_bias: Any = None, deformable_conv_bias: Any = None) -> Any:
        offset = F.Convolution(x, offset_weight, offset_bias, cudnn_off=True, **self._kwargs_offset)
        x = self._sampled(F, offset, data=x, weight=deformable_conv_weight,
                          bias=deformable_conv_bias)
        return x if self.act is None else self.act(x)


class DeformableConvolution(_Deformable):
    """Convolution of images whose windows have an offset for each element (Dai et al., 2017).

    A convolution of the image by `offset_weight` computes the offsets.

    Parameters
    ----------
    channels : int
        Number of output channels.
    kernel_size : int or tuple of int, default (1, 1)
        Size of the windows.
    strides : int or tuple of int, default (1, 1)
        Steps between windows.
    padding : int or tuple of int, default (0, 0)
        Zeros at both ends of each axis.
    dilation : int or tuple of int, default (1, 1)
        Steps between the elements of a window.
    groups : int, default 1
        Number of groups of channels that are convolved apart.
    num_deformable_group : int, default 1
        Number of groups of input channels with offsets of their own.
    layout : {'NCHW'}, default 'NCHW'
        Order of the axes.
    use_bias : bool, default True
        Whether to add a bias.
    in_channels : int, default 0
        Number of input channels; 0 for that of the first call.
    activation : str, optional
        Function of the outputs, as for `Activation`.
    weight_initializer : Initializer or str, optional
        Initializer of the weight (channels, in_channels / groups, *kernel_size).
    bias_initializer : Initializer or str, default 'zeros'
        Initializer of the bias.
    offset_weight_initializer, offset_bias_initializer : Initializer or str, default 'zeros'
        Initializers of the weight and bias of the first convolution.
    offset_use_bias : bool, default True
        Whether the first convolution adds a bias.
    op_name : str
        Has no effect.
    adj : optional
        None: a convolution has no padding of its output.
    prefix, params
        As for `HybridBlock`.

    Raises
    ------
    AssertionError
        For another layout, or sizes of other than two axes.

    Examples
    --------
    >>> layer = mx.gluon.contrib.cnn.DeformableConvolution(4, kernel_size=3, padding=1)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8, 8))).shape
    (1, 4, 8, 8)
    """

    _hint, _numbers, _begins_with_offsets = "deformable_conv", 2, True

    def __init__(self, channels: int, kernel_size: Size = (1, 1), strides: Size = (1, 1),
                 padding: Size = (0, 0), dilation: Size = (1, 1), groups: int = 1,
                 num_deformable_group: int = 1, layout: str = "NCHW", use_bias: bool = True,
                 in_channels: int = 0, activation: str | None = None,
                 weight_initializer: Init = None, bias_initializer: Init = "zeros",
                 offset_weight_initializer: Init = "zeros", offset_bias_initializer: Init = "zeros",
                 offset_use_bias: bool = True, op_name: str = "DeformableConvolution",
                 adj: Size | None = None, prefix: str | None = None, params: Any = None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups,
                         num_deformable_group, layout, use_bias, in_channels, activation,
                         (weight_initializer, bias_initializer, offset_weight_initializer,
                          offset_bias_initializer), offset_use_bias, adj, prefix, params)

    def _sampled(self, F: Any, offset: Any, **inputs: Any) -> Any:
        return F.contrib.DeformableConvolution(offset=offset, name="fwd", **inputs,
                                               **self._kwargs_deformable_conv)

    def __repr__(self) -> str:
        outputs, inputs, *_ = self.deformable_conv_weight.shape or (0, 0)
        return _convolution_text(self, f"{inputs or None} -> {outputs}",
                                 self._kwargs_deformable_conv)


class ModulatedDeformableConvolution(_Deformable):
    """`DeformableConvolution` whose elements have a weight from 0 to 2, too (Zhu et al., 2018).

    The first convolution computes offsets, and what a sigmoid makes these weights of.

    Parameters
    ----------
    channels, kernel_size, strides, padding, dilation, groups, num_deformable_group, layout
        As for `DeformableConvolution`.
    use_bias, in_channels, activation, weight_initializer, bias_initializer
        As for `DeformableConvolution`.
    offset_weight_initializer, offset_bias_initializer, offset_use_bias, op_name, adj
        As for `DeformableConvolution`.
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.contrib.cnn.ModulatedDeformableConvolution(4, kernel_size=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8, 8))).shape
    (1, 4, 6, 6)
    """

    _hint, _numbers, _begins_with_offsets = "modulated_deformable_conv", 3, False

    def __init__(self, channels: int, kernel_size: Size = (1, 1), strides: Size = (1, 1),
                 padding: Size = (0, 0), dilation: Size = (1, 1), groups: int = 1,
                 num_deformable_group: int = 1, layout: str = "NCHW", use_bias: bool = True,
                 in_channels: int = 0, activation: str | None = None,
                 weight_initializer: Init = None, bias_initializer: Init = "zeros",
                 offset_weight_initializer: Init = "zeros", offset_bias_initializer: Init = "zeros",
                 offset_use_bias: bool = True, op_name: str = "ModulatedDeformableConvolution",
                 adj: Size | None = None, prefix: str | None = None, params: Any = None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups,
                         num_deformable_group, layout, use_bias, in_channels, activation,
                         (weight_initializer, bias_initializer, offset_weight_initializer,
                          offset_bias_initializer), offset_use_bias, adj, prefix, params)

    def _sampled(self, F: Any, offset: Any, **inputs: Any) -> Any:
        places = F.slice_axis(offset, axis=1, begin=0, end=self.offset_split_index)
        weights = F.sigmoid(F.slice_axis(offset, axis=1, begin=self.offset_split_index,
                                         end=None)) * 2
        return F.contrib.ModulatedDeformableConvolution(
            offset=places, mask=weights, name="fwd", **inputs, **self._kwargs_deformable_conv)
