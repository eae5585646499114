"""Normalizations, with a trained scale (gamma) and shift (beta) for each channel."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...base import element_type, plain_numbers
from ..base_parameter import Init, Parameter
from ..block import HybridBlock

__all__ = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]
__dir__ = __all__.copy


class _BatchNorm(HybridBlock):
    """Base of batch normalizations; `fuse_relu` sets negative results to 0."""

    gamma: Parameter
    fuse_relu: ClassVar = False

    def __init__(self, axis: int = 1, momentum: float = 0.9, epsilon: float = 1e-5,
                 center: bool = True, scale: bool = True, use_global_stats: bool = False,
                 beta_initializer: Init = "zeros", gamma_initializer: Init = "ones",
                 running_mean_initializer: Init = "zeros",
                 running_variance_initializer: Init = "ones", in_channels: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self._kwargs: dict[str, Any] = {
            "axis": axis, "eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
            "use_global_stats": use_global_stats}
        if in_channels:
            self.in_channels = in_channels
        table = (("gamma", scale, gamma_initializer), ("beta", center, beta_initializer),
                 ("running_mean", False, running_mean_initializer),
                 ("running_var", False, running_variance_initializer))
        with self.name_scope():
            for name, trained, init in table:
                setattr(self, name, self.params.get(
                    name, grad_req="write" if trained else "null", shape=(in_channels,), init=init,
                    allow_deferred_init=True, differentiable=trained))

    def cast(self, dtype: Any) -> None:
        """Change the element type of the parameters; float16 leaves them float32.

        Parameters
        ----------
        dtype : dtype
            Element type.
        """
        super().cast("float32" if element_type(dtype) == np.float16 else dtype)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                       running_var: Any) -> Any:
        function = F.contrib.BatchNormWithReLU if self.fuse_relu else F.BatchNorm
        return function(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return _text(self, **self._kwargs, in_channels=_channels(self.gamma) or None)


def _channels(gamma: Parameter) -> int:
    """The number of channels; 0 if it is not known yet."""
    return (gamma.shape or (0,))[0]


def _text(layer: HybridBlock, **facts: Any) -> str:
    """The text of a layer with facts in this order."""
    parts = ", ".join(f"{name}={plain_numbers(fact)!r}" for name, fact in facts.items())
    return f"{type(layer).__name__}({parts})"


class BatchNorm(_BatchNorm):
    """Normalization of each channel over the batch (Ioffe and Szegedy, 2015).

    In training, each channel gets mean 0 and variance 1, and backward updates the moving averages,
    which inference uses instead.

    Parameters
    ----------
    axis : int, default 1
        Axis of the channels.
    momentum : float, default 0.9
        Share of the old moving averages in the new ones.
    epsilon : float, default 1e-5
        Added to variances.
    center, scale : bool, default True
        Whether beta, and gamma, are trained; otherwise they stay 0 and 1.
    use_global_stats : bool, default False
        Whether training, too, uses the moving averages.
    beta_initializer, gamma_initializer : Initializer or str
        Initializers of the shift ('zeros') and of the scale ('ones').
    running_mean_initializer, running_variance_initializer : Initializer or str
        Initializers of the moving averages ('zeros' and 'ones').
    in_channels : int, default 0
        Number of channels; 0 for that of the first call.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.nn.BatchNorm()
    >>> layer.initialize()
    >>> with mx.autograd.train_mode():
    ...     layer(mx.nd.array([[1], [3]])).round().asnumpy().tolist()
    [[-1.0], [1.0]]
    """


class BatchNormReLU(_BatchNorm):
    """`BatchNorm` followed by max(x, 0), as one operator.

    Parameters
    ----------
    axis, momentum, epsilon, center, scale, use_global_stats
        As for `BatchNorm`.
    beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer
        As for `BatchNorm`.
    in_channels, **kwargs
        As for `BatchNorm`.

    Examples
    --------
    >>> layer = mx.gluon.nn.BatchNormReLU()
    >>> layer.initialize()
    >>> with mx.autograd.train_mode():
    ...     layer(mx.nd.array([[1], [3]])).round().asnumpy().tolist()
    [[0.0], [1.0]]
    """

    fuse_relu = True


class _PerSampleNorm(HybridBlock):
    """Base of normalizations of each sample by itself, which have no moving averages."""

    gamma: Parameter
    _kwargs: dict[str, Any]

    def _add_parameters(self, size: int, gamma: Init, beta: Init) -> None:
        """Add gamma and beta, trained where `scale` and `center` of `_kwargs` say so."""
        with self.name_scope():
            for name, trained, init in (("gamma", "scale", gamma), ("beta", "center", beta)):
                setattr(self, name, self.params.get(
                    name, grad_req="write" if self._kwargs[trained] else "null", shape=(size,),
                    init=init, allow_deferred_init=True))


class InstanceNorm(_PerSampleNorm):
    """Normalization of each channel of each sample (Ulyanov et al., 2016).

    Parameters
    ----------
    axis : int, default 1
        Axis of the channels.
    epsilon : float, default 1e-5
        Added to variances.
    center : bool, default True
        Whether beta is trained; otherwise it stays 0.
    scale : bool, default False
        Whether gamma is trained; otherwise it stays 1.
    beta_initializer, gamma_initializer : Initializer or str
        Initializers of the shift ('zeros') and of the scale ('ones').
    in_channels : int, default 0
        Number of channels; 0 for that of the first call.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.nn.InstanceNorm()
    >>> layer.initialize()
    >>> layer(mx.nd.array([[[1, 3]]])).round().asnumpy().tolist()
    [[[-1.0, 1.0]]]
    """

    def __init__(self, axis: int = 1, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = False, beta_initializer: Init = "zeros",
                 gamma_initializer: Init = "ones", in_channels: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self._axis, self._epsilon = axis, epsilon
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._add_parameters(in_channels, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, eps=self._epsilon, name="fwd")
        x = F.swapaxes(x, dim1=1, dim2=self._axis)
        x = F.InstanceNorm(x, gamma, beta, eps=self._epsilon, name="fwd")
        return F.swapaxes(x, dim1=1, dim2=self._axis)

    def __repr__(self) -> str:
        return _text(self, **self._kwargs, in_channels=_channels(self.gamma))


class LayerNorm(_PerSampleNorm):
    """Normalization of one axis of each sample, the last by default (Ba et al., 2016).

    Parameters
    ----------
    axis : int, default -1
        Axis, which is that of the channels, too.
    epsilon : float, default 1e-5
        Added to variances.
    center, scale : bool, default True
        Whether beta, and gamma, are trained; otherwise they stay 0 and 1.
    beta_initializer, gamma_initializer : Initializer or str
        Initializers of the shift ('zeros') and of the scale ('ones').
    in_channels : int, default 0
        Number of channels; 0 for that of the first call.
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.nn.LayerNorm()
    >>> layer.initialize()
    >>> layer(mx.nd.array([[1, 3]])).round().asnumpy().tolist()
    [[-1.0, 1.0]]
    """

    def __init__(self, axis: int = -1, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = True, beta_initializer: Init = "zeros",
                 gamma_initializer: Init = "ones", in_channels: int = 0,
                 prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._axis, self._epsilon, self._center, self._scale = axis, epsilon, center, scale
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._add_parameters(in_channels, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)

    def __repr__(self) -> str:
        return _text(self, **self._kwargs, in_channels=_channels(self.gamma))


class GroupNorm(_PerSampleNorm):
    """Normalization of groups of channels (axis 1) of each sample (Wu and He, 2018).

    Parameters
    ----------
    num_groups : int, default 1
        Number of groups, each of which has one scale and one shift.
    epsilon : float, default 1e-5
        Added to variances.
    center, scale : bool, default True
        Whether beta, and gamma, are trained; otherwise they stay 0 and 1.
    beta_initializer, gamma_initializer : Initializer or str
        Initializers of the shift ('zeros') and of the scale ('ones').
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.nn.GroupNorm()
    >>> layer.initialize()
    >>> layer(mx.nd.array([[[1, 3]]])).round().asnumpy().tolist()
    [[[-1.0, 1.0]]]
    """

    def __init__(self, num_groups: int = 1, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = True, beta_initializer: Init = "zeros",
                 gamma_initializer: Init = "ones", prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._num_groups, self._epsilon = num_groups, epsilon
        self._center, self._scale = center, scale
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._add_parameters(num_groups, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups,
                           eps=self._epsilon)

    def __repr__(self) -> str:
        return _text(self, **self._kwargs)
