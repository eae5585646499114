"""Pooling over 1, 2 and 3 axes, and padding by reflection.

All pooling layers are one operator; the classes have MXNet's defaults, and its positions of
`layout` and `ceil_mode`, which differ between them.
"""

from __future__ import annotations

from typing import Any

from ...base import CheckError, plain_numbers
from ..block import HybridBlock

__all__ = ["AvgPool1D", "AvgPool2D", "AvgPool3D", "GlobalAvgPool1D", "GlobalAvgPool2D",
           "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "MaxPool1D",
           "MaxPool2D", "MaxPool3D", "ReflectionPad2D"]
__dir__ = __all__.copy

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
"""Orders of the axes, by the number of spatial ones."""
Size = int | tuple[int, ...] | list[int]
"""A number for each spatial axis, or one for all."""


def _sizes(argument: str, size: Size, rank: int) -> tuple[int, ...]:
    """A number for each of `rank` axes; CheckError, naming the argument, if there are others."""
    chosen = plain_numbers(size)
    if isinstance(chosen, int):
        return (chosen,) * rank
    if not isinstance(chosen, (tuple, list)) or len(chosen) != rank:
        raise CheckError(f"{argument} must be a number or a list of {rank} ints, given {size}")
    return tuple(chosen)


class _Pooling(HybridBlock):
    """Base of pooling layers."""

    _hint = "pool"

    def __init__(self, rank: int, pool_type: str, layout: str, global_pool: bool, pool_size: Size,
                 strides: Size | None, padding: Size, ceil_mode: bool,
                 count_include_pad: bool | None = None, **kwargs: Any):
        if layout not in LAYOUTS[rank]:
            raise CheckError(f"Only {' and '.join(LAYOUTS[rank])} layouts are valid for {rank}D "
                             f"Pooling; layout is {layout!r}")
        super().__init__(**kwargs)
        strides = pool_size if strides is None else strides
        self._kwargs = {
            "kernel": _sizes("pool_size", pool_size, rank),
            "stride": _sizes("strides", strides, rank), "pad": _sizes("padding", padding, rank),
            "global_pool": global_pool, "pool_type": pool_type, "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid"}
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        facts = self._kwargs
        return (f"{type(self).__name__}(size={facts['kernel']}, stride={facts['stride']}, "
                f"padding={facts['pad']}, ceil_mode={facts['pooling_convention'] == 'full'}, "
                f"global_pool={facts['global_pool']}, pool_type={facts['pool_type']}, "
                f"layout={facts['layout']})")


class _GlobalPooling(_Pooling):
    """Base of pooling layers with one window."""

    def __init__(self, rank: int, pool_type: str, layout: str, **kwargs: Any):
        super().__init__(rank, pool_type, layout, True, 1, None, 0, True, **kwargs)


class MaxPool1D(_Pooling):
    """The largest element of each window of sequences.

    Parameters
    ----------
    pool_size, strides, padding, ceil_mode
        As for `MaxPool2D`.
    layout : {'NCW', 'NWC'}, default 'NCW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.MaxPool1D()(mx.nd.ones((1, 1, 4))).shape
    (1, 1, 2)
    """

    def __init__(self, pool_size: Size = 2, strides: Size | None = None, padding: Size = 0,
                 layout: str = "NCW", ceil_mode: bool = False, **kwargs: Any):
        super().__init__(1, "max", layout, False, pool_size, strides, padding, ceil_mode, **kwargs)


class MaxPool2D(_Pooling):
    """The largest element of each window of images.

    Parameters
    ----------
    pool_size : int or tuple of int, default (2, 2)
        Size of the windows.
    strides : int or tuple of int, optional
        Steps between windows; `pool_size` for None.
    padding : int or tuple of int, default 0
        Padding at both ends of each axis.
    layout : {'NCHW', 'NHWC'}, default 'NCHW'
        Order of the axes.
    ceil_mode : bool, default False
        Whether the last windows may exceed the padded input.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.MaxPool2D()(mx.nd.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def __init__(self, pool_size: Size = (2, 2), strides: Size | None = None, padding: Size = 0,
                 layout: str = "NCHW", ceil_mode: bool = False, **kwargs: Any):
        super().__init__(2, "max", layout, False, pool_size, strides, padding, ceil_mode, **kwargs)


class MaxPool3D(_Pooling):
    """The largest element of each window of volumes.

    Parameters
    ----------
    pool_size, strides, padding, ceil_mode
        As for `MaxPool2D`.
    layout : {'NCDHW', 'NDHWC'}, default 'NCDHW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.MaxPool3D()(mx.nd.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 2, 2, 2)
    """

    def __init__(self, pool_size: Size = (2, 2, 2), strides: Size | None = None, padding: Size = 0,
                 ceil_mode: bool = False, layout: str = "NCDHW", **kwargs: Any):
        super().__init__(3, "max", layout, False, pool_size, strides, padding, ceil_mode, **kwargs)


class AvgPool1D(_Pooling):
    """The mean of each window of sequences.

    Parameters
    ----------
    pool_size, strides, padding, ceil_mode, count_include_pad
        As for `AvgPool2D`.
    layout : {'NCW', 'NWC'}, default 'NCW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.AvgPool1D()(mx.nd.ones((1, 1, 4))).shape
    (1, 1, 2)
    """

    def __init__(self, pool_size: Size = 2, strides: Size | None = None, padding: Size = 0,
                 layout: str = "NCW", ceil_mode: bool = False, count_include_pad: bool = True,
                 **kwargs: Any):
        super().__init__(1, "avg", layout, False, pool_size, strides, padding, ceil_mode,
                         count_include_pad, **kwargs)


class AvgPool2D(_Pooling):
    """The mean of each window of images.

    Parameters
    ----------
    pool_size : int or tuple of int, default (2, 2)
        Size of the windows.
    strides : int or tuple of int, optional
        Steps between windows; `pool_size` for None.
    padding : int or tuple of int, default 0
        Padding at both ends of each axis.
    ceil_mode : bool, default False
        Whether the last windows may exceed the padded input.
    layout : {'NCHW', 'NHWC'}, default 'NCHW'
        Order of the axes.
    count_include_pad : bool, default True
        Whether padding counts as elements, which are 0.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.AvgPool2D()(mx.nd.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def __init__(self, pool_size: Size = (2, 2), strides: Size | None = None, padding: Size = 0,
                 ceil_mode: bool = False, layout: str = "NCHW", count_include_pad: bool = True,
                 **kwargs: Any):
        super().__init__(2, "avg", layout, False, pool_size, strides, padding, ceil_mode,
                         count_include_pad, **kwargs)


class AvgPool3D(_Pooling):
    """The mean of each window of volumes.

    Parameters
    ----------
    pool_size, strides, padding, ceil_mode, count_include_pad
        As for `AvgPool2D`.
    layout : {'NCDHW', 'NDHWC'}, default 'NCDHW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.AvgPool3D()(mx.nd.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 2, 2, 2)
    """

    def __init__(self, pool_size: Size = (2, 2, 2), strides: Size | None = None, padding: Size = 0,
                 ceil_mode: bool = False, layout: str = "NCDHW", count_include_pad: bool = True,
                 **kwargs: Any):
        super().__init__(3, "avg", layout, False, pool_size, strides, padding, ceil_mode,
                         count_include_pad, **kwargs)


class GlobalMaxPool1D(_GlobalPooling):
    """The largest element of each channel of sequences.

    Parameters
    ----------
    layout : {'NCW', 'NWC'}, default 'NCW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.GlobalMaxPool1D()(mx.nd.ones((1, 1, 4))).shape
    (1, 1, 1)
    """

    def __init__(self, layout: str = "NCW", **kwargs: Any):
        super().__init__(1, "max", layout, **kwargs)


class GlobalMaxPool2D(_GlobalPooling):
    """The largest element of each channel of images.

    Parameters
    ----------
    layout : {'NCHW', 'NHWC'}, default 'NCHW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.GlobalMaxPool2D()(mx.nd.ones((1, 1, 4, 4))).shape
    (1, 1, 1, 1)
    """

    def __init__(self, layout: str = "NCHW", **kwargs: Any):
        super().__init__(2, "max", layout, **kwargs)


class GlobalMaxPool3D(_GlobalPooling):
    """The largest element of each channel of volumes.

    Parameters
    ----------
    layout : {'NCDHW', 'NDHWC'}, default 'NCDHW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.GlobalMaxPool3D()(mx.nd.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 1, 1, 1)
    """

    def __init__(self, layout: str = "NCDHW", **kwargs: Any):
        super().__init__(3, "max", layout, **kwargs)


class GlobalAvgPool1D(_GlobalPooling):
    """The mean of each channel of sequences.

    Parameters
    ----------
    layout : {'NCW', 'NWC'}, default 'NCW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.GlobalAvgPool1D()(mx.nd.ones((1, 1, 4))).shape
    (1, 1, 1)
    """

    def __init__(self, layout: str = "NCW", **kwargs: Any):
        super().__init__(1, "avg", layout, **kwargs)


class GlobalAvgPool2D(_GlobalPooling):
    """The mean of each channel of images.

    Parameters
    ----------
    layout : {'NCHW', 'NHWC'}, default 'NCHW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.GlobalAvgPool2D()(mx.nd.ones((1, 1, 4, 4))).shape
    (1, 1, 1, 1)
    """

    def __init__(self, layout: str = "NCHW", **kwargs: Any):
        super().__init__(2, "avg", layout, **kwargs)


class GlobalAvgPool3D(_GlobalPooling):
    """The mean of each channel of volumes.

    Parameters
    ----------
    layout : {'NCDHW', 'NDHWC'}, default 'NCDHW'
        Order of the axes.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.GlobalAvgPool3D()(mx.nd.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 1, 1, 1)
    """

    def __init__(self, layout: str = "NCDHW", **kwargs: Any):
        super().__init__(3, "avg", layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Pads images with their reflection.

    Parameters
    ----------
    padding : int or tuple of int, default 0
        Width at all four sides, or 8 numbers: before and after each axis of (N, C, H, W).
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.ReflectionPad2D(1)(mx.nd.ones((1, 1, 4, 4))).shape
    (1, 1, 6, 6)
    """

    def __init__(self, padding: int | tuple[int, ...] = 0, **kwargs: Any):
        super().__init__(**kwargs)
        padding = plain_numbers(padding)
        self._padding = (0,) * 4 + (padding,) * 4 if isinstance(padding, int) else padding

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.pad(x, mode="reflect", pad_width=self._padding)
