"""Convolutions over 1, 2 and 3 axes and their transposes; also MXNet's module path of pooling."""

from __future__ import annotations

from typing import Any, ClassVar

from ... import symbol
from ...base import CheckError
from ..base_parameter import Init
from ..block import HybridBlock
from . import pooling_layers
from .activations import Activation
from .pooling_layers import *  # noqa: F403
from .pooling_layers import Size, _Pooling, _sizes  # noqa: F401 - programs take _Pooling from here

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]
__all__ += pooling_layers.__all__    # type checkers understand this form alone
__dir__ = __all__.copy


def _infer_weight_shape(op_name: str, data_shape: tuple[int, ...], kwargs: dict[str, Any]
                        ) -> list[tuple[int, ...]]:
    """Shapes of the inputs of an operator, which convolutions of other projects ask for."""
    inputs = getattr(symbol, op_name)(symbol.var("data", shape=data_shape), **kwargs)
    return inputs.infer_shape_partial()[0]


class _Conv(HybridBlock):
    """Base of convolutions; `adj` is the padding of the output that a transpose has."""

    _hint = "conv"
    _layouts: ClassVar[tuple[str, ...]]

    def __init__(self, channels: int, kernel_size: Size, strides: Size, padding: Size,
                 dilation: Size, groups: int, layout: str, in_channels: int = 0,
                 activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Init = None, bias_initializer: Init = "zeros",
                 op_name: str | None = None, adj: Size | None = None, **kwargs: Any):
        if layout not in self._layouts:
            raise CheckError(f"Only supports {' and '.join(map(repr, self._layouts))} layout for "
                             f"now; layout is {layout!r}")
        super().__init__(**kwargs)
        self._channels, self._in_channels = channels, in_channels
        self._op_name = op_name or ("Convolution" if adj is None else "Deconvolution")
        rank = len(layout) - 2
        self._kwargs: dict[str, Any] = {
            "kernel": _sizes("kernel_size", kernel_size, rank),
            "stride": _sizes("strides", strides, rank),
            "dilate": _sizes("dilation", dilation, rank), "pad": _sizes("padding", padding, rank),
            "num_filter": channels, "num_group": groups, "no_bias": not use_bias, "layout": layout}
        if adj is not None:
            self._kwargs["adj"] = _sizes("output_padding", adj, rank)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=self._weight_shape(),
                                          init=weight_initializer, allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer,
                                        allow_deferred_init=True) if use_bias else None
            self.act = Activation(activation, prefix=f"{activation}_") if activation else None

    def _weight_shape(self) -> tuple[int, ...]:
        """(outputs, inputs, ...) in the layout, of a transpose with outputs and inputs swapped."""
        groups, outputs, inputs = self._kwargs["num_group"], self._channels, self._in_channels
        if self._op_name == "Deconvolution":
            outputs, inputs = inputs, outputs
        axes = dict(zip(self._layouts[0][2:], self._kwargs["kernel"], strict=True))
        axes |= {"N": outputs, "C": inputs // groups}
        return tuple(axes[axis] for axis in self._kwargs["layout"])

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        x = getattr(F, self._op_name)(x, weight, bias, name="fwd", **self._kwargs)
        return x if self.act is None else self.act(x)

    def __repr__(self) -> str:
        outputs, inputs, *_ = self.weight.shape or (0, 0)
        known = inputs if self._op_name == "Deconvolution" else inputs or None
        return _convolution_text(self, f"{known} -> {outputs}", self._kwargs)


def _convolution_text(layer: Any, channels: str, facts: dict[str, Any]) -> str:
    """The text of a convolution with those facts that are not the defaults."""
    rank = len(facts["kernel"])
    parts = [channels, f"kernel_size={facts['kernel']}", f"stride={facts['stride']}"]
    parts += [f"{name}={facts[key]}" for name, key, default in (
        ("padding", "pad", (0,) * rank), ("dilation", "dilate", (1,) * rank),
        ("groups", "num_group", 1)) if facts[key] != default]
    parts += ["bias=False"] * facts["no_bias"] + [str(layer.act)] * (layer.act is not None)
    return f"{type(layer).__name__}({', '.join(parts)})"


class Conv1D(_Conv):
    """Convolution of sequences.

    Parameters
    ----------
    channels, kernel_size, strides, padding, dilation, groups
        As for `Conv2D`.
    layout : {'NCW'}, default 'NCW'
        Order of the axes.
    activation, use_bias, weight_initializer, bias_initializer, in_channels, **kwargs
        As for `Conv2D`.

    Examples
    --------
    >>> layer = mx.gluon.nn.Conv1D(4, kernel_size=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8))).shape
    (1, 4, 6)
    """

    _layouts = "NCW",

    def __init__(self, channels: int, kernel_size: Size, strides: Size = 1, padding: Size = 0,
                 dilation: Size = 1, groups: int = 1, layout: str = "NCW",
                 activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Init = None, bias_initializer: Init = "zeros",
                 in_channels: int = 0, **kwargs: Any):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer,
                         **kwargs)


class Conv2D(_Conv):
    """Convolution of images.

    Parameters
    ----------
    channels : int
        Number of output channels.
    kernel_size : int or tuple of int
        Size of the windows.
    strides : int or tuple of int, default 1
        Steps between windows.
    padding : int or tuple of int, default 0
        Zeros at both ends of each axis.
    dilation : int or tuple of int, default 1
        Steps between the elements of a window.
    groups : int, default 1
        Number of groups of channels that are convolved apart.
    layout : {'NCHW', 'NHWC'}, default 'NCHW'
        Order of the axes.
    activation : str, optional
        Function of the outputs, as for `Activation`.
    use_bias : bool, default True
        Whether to add a bias.
    weight_initializer : Initializer or str, optional
        Initializer of the weight (channels, in_channels / groups, *kernel_size).
    bias_initializer : Initializer or str, default 'zeros'
        Initializer of the bias.
    in_channels : int, default 0
        Number of input channels; 0 for that of the first call.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`, and `op_name`, another operator.

    Examples
    --------
    >>> layer = mx.gluon.nn.Conv2D(4, kernel_size=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8, 8))).shape
    (1, 4, 6, 6)
    """

    _layouts = "NCHW", "NHWC"

    def __init__(self, channels: int, kernel_size: Size, strides: Size = (1, 1),
                 padding: Size = (0, 0), dilation: Size = (1, 1), groups: int = 1,
                 layout: str = "NCHW", activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Init = None, bias_initializer: Init = "zeros",
                 in_channels: int = 0, **kwargs: Any):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer,
                         **kwargs)


class Conv3D(_Conv):
    """Convolution of volumes.

    Parameters
    ----------
    channels, kernel_size, strides, padding, dilation, groups
        As for `Conv2D`.
    layout : {'NCDHW', 'NDHWC'}, default 'NCDHW'
        Order of the axes.
    activation, use_bias, weight_initializer, bias_initializer, in_channels, **kwargs
        As for `Conv2D`.

    Examples
    --------
    >>> layer = mx.gluon.nn.Conv3D(4, kernel_size=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8, 8, 8))).shape
    (1, 4, 6, 6, 6)
    """

    _layouts = "NCDHW", "NDHWC"

    def __init__(self, channels: int, kernel_size: Size, strides: Size = (1, 1, 1),
                 padding: Size = (0, 0, 0), dilation: Size = (1, 1, 1), groups: int = 1,
                 layout: str = "NCDHW", activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Init = None, bias_initializer: Init = "zeros",
                 in_channels: int = 0, **kwargs: Any):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer,
                         **kwargs)


class Conv1DTranspose(_Conv):
    """The transpose of a convolution of sequences: its gradient, which enlarges.

    Parameters
    ----------
    channels, kernel_size, strides, padding, output_padding, dilation, groups
        As for `Conv2DTranspose`.
    layout : {'NCW'}, default 'NCW'
        Order of the axes.
    activation, use_bias, weight_initializer, bias_initializer, in_channels, **kwargs
        As for `Conv2DTranspose`.

    Examples
    --------
    >>> layer = mx.gluon.nn.Conv1DTranspose(4, kernel_size=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8))).shape
    (1, 4, 10)
    """

    _layouts = "NCW",

    def __init__(self, channels: int, kernel_size: Size, strides: Size = 1, padding: Size = 0,
                 output_padding: Size = 0, dilation: Size = 1, groups: int = 1, layout: str = "NCW",
                 activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Init = None, bias_initializer: Init = "zeros",
                 in_channels: int = 0, **kwargs: Any):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer,
                         adj=output_padding, **kwargs)


class Conv2DTranspose(_Conv):
    """The transpose of a convolution of images: its gradient, which enlarges.

    Parameters
    ----------
    channels : int
        Number of output channels.
    kernel_size : int or tuple of int
        Size of the windows.
    strides : int or tuple of int, default 1
        Steps between windows.
    padding : int or tuple of int, default 0
        Zeros at both ends of each axis.
    output_padding : int or tuple of int, default 0
        Elements that are added at the end of each axis of the output.
    dilation : int or tuple of int, default 1
        Steps between the elements of a window.
    groups : int, default 1
        Number of groups of channels that are convolved apart.
    layout : {'NCHW', 'NHWC'}, default 'NCHW'
        Order of the axes.
    activation : str, optional
        Function of the outputs, as for `Activation`.
    use_bias : bool, default True
        Whether to add a bias.
    weight_initializer : Initializer or str, optional
        Initializer of the weight (in_channels, channels / groups, *kernel_size).
    bias_initializer : Initializer or str, default 'zeros'
        Initializer of the bias.
    in_channels : int, default 0
        Number of input channels; 0 for that of the first call.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`, and `op_name`, another operator.

    Examples
    --------
    >>> layer = mx.gluon.nn.Conv2DTranspose(4, kernel_size=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8, 8))).shape
    (1, 4, 10, 10)
    """

    _layouts = "NCHW", "NHWC"

    def __init__(self, channels: int, kernel_size: Size, strides: Size = (1, 1),
                 padding: Size = (0, 0), output_padding: Size = (0, 0), dilation: Size = (1, 1),
                 groups: int = 1, layout: str = "NCHW", activation: str | None = None,
                 use_bias: bool = True, weight_initializer: Init = None,
                 bias_initializer: Init = "zeros", in_channels: int = 0, **kwargs: Any):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer,
                         adj=output_padding, **kwargs)


class Conv3DTranspose(_Conv):
    """The transpose of a convolution of volumes: its gradient, which enlarges.

    Parameters
    ----------
    channels, kernel_size, strides, padding, output_padding, dilation, groups
        As for `Conv2DTranspose`.
    layout : {'NCDHW', 'NDHWC'}, default 'NCDHW'
        Order of the axes.
    activation, use_bias, weight_initializer, bias_initializer, in_channels, **kwargs
        As for `Conv2DTranspose`.

    Examples
    --------
    >>> layer = mx.gluon.nn.Conv3DTranspose(4, kernel_size=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8, 8, 8))).shape
    (1, 4, 10, 10, 10)
    """

    _layouts = "NCDHW", "NDHWC"

    def __init__(self, channels: int, kernel_size: Size, strides: Size = (1, 1, 1),
                 padding: Size = (0, 0, 0), output_padding: Size = (0, 0, 0),
                 dilation: Size = (1, 1, 1), groups: int = 1, layout: str = "NCDHW",
                 activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Init = None, bias_initializer: Init = "zeros",
                 in_channels: int = 0, **kwargs: Any):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer,
                         adj=output_padding, **kwargs)
