"""Layers side by side, shuffled pixels, embeddings with sparse weights, shared statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .... import ndarray as nd
from ....base import ArgumentTypeError, CheckError, warn_user
from ....context import num_gpus
from ...base_parameter import Init
from ...block import Block, HybridBlock
from ...nn import HybridSequential, Sequential
from ...nn.norm_layers import BatchNorm

__all__ = ["Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D",
           "PixelShuffle3D", "SparseEmbedding", "SyncBatchNorm"]
__dir__ = __all__.copy


class Concurrent(Sequential):
    """Blocks that are all called on one input, with their outputs concatenated.

    Parameters
    ----------
    axis : int, default -1
        Axis along which outputs are concatenated.
    prefix, params
        As for `Block`.

    Examples
    --------
    >>> net = mx.gluon.contrib.nn.Concurrent()
    >>> net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.contrib.nn.Identity())
    >>> net.initialize()
    >>> net(mx.nd.ones((2, 3))).shape
    (2, 7)
    """

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any) -> Any:
        return nd.concat(*(block(x) for block in self._children.values()), dim=self.axis)

    def _part(self) -> Any:
        return type(self)(self.axis, self.prefix)


class HybridConcurrent(HybridSequential):
    """Hybrid blocks that are all called on one input, with their outputs concatenated.

    Parameters
    ----------
    axis : int, default -1
        Axis along which outputs are concatenated.
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> net = mx.gluon.contrib.nn.HybridConcurrent(axis=1)
    >>> net.add(mx.gluon.nn.Conv2D(4, 1), mx.gluon.nn.Conv2D(2, 3, padding=1))
    >>> net.initialize()
    >>> net.hybridize()
    >>> net(mx.nd.ones((1, 3, 8, 8))).shape
    (1, 6, 8, 8)
    """

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.concat(*(block(x) for block in self._children.values()), dim=self.axis)

    def _part(self) -> Any:
        return type(self)(self.axis, self.prefix)


class Identity(HybridBlock):
    """Returns its input, such as beside other blocks in a `HybridConcurrent`.

    Parameters
    ----------
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.contrib.nn.Identity()(mx.nd.array([3])).asnumpy().tolist()
    [3.0]
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x


class SparseEmbedding(Block):
    """Rows of a row-sparse weight, chosen by numbers: (...) becomes (..., output_dim).

    The weight is in the store of a `Trainer`, from which each call pulls the rows that it needs;
    the gradient has these rows, too.

    Parameters
    ----------
    input_dim : int
        Number of rows.
    output_dim : int
        Length of each row.
    dtype : dtype, default 'float32'
        Element type of the weight.
    weight_initializer : Initializer or str, optional
        Initializer of the weight (input_dim, output_dim); None leaves it to `initialize`.
    **kwargs
        `prefix` and `params`, as for `Block`.

    Examples
    --------
    >>> layer = mx.gluon.contrib.nn.SparseEmbedding(10, 4)
    >>> layer.initialize()
    >>> trainer = mx.gluon.Trainer(layer.collect_params(), "sgd")
    >>> with mx.autograd.record():
    ...     output = layer(mx.nd.array([[1, 2, 1]]))
    >>> output.backward()
    >>> output.shape, layer.weight.list_grad()[0].indices.asnumpy().tolist()
    ((1, 3, 4), [1, 2])
    """

    def __init__(self, input_dim: int, output_dim: int, dtype: Any = "float32",
                 weight_initializer: Init = None, **kwargs: Any):
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype,
                        "sparse_grad": True}
        self.weight = self.params.get("weight", shape=(input_dim, output_dim), dtype=dtype,
                                      init=weight_initializer, stype="row_sparse",
                                      grad_stype="row_sparse")

    def forward(self, x: Any) -> Any:
        """Return the rows.

        Parameters
        ----------
        x : NDArray
            Numbers of rows.
        """
        return nd.Embedding(x, self.weight.row_sparse_data(x), name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        facts = self._kwargs
        return (f"{type(self).__name__}({facts['input_dim']} -> {facts['output_dim']}, "
                f"{facts['dtype']})")


class SyncBatchNorm(BatchNorm):
    """`BatchNorm` over axis 1 under the name of that whose statistics span devices.

    Statistics are those of each device's own samples, since devices run one after another; a
    larger `num_devices` is warned of.  With one device it is MXNet's.

    Parameters
    ----------
    in_channels : int, default 0
        Number of channels; 0 for that of the first call.
    num_devices : int, optional
        Number of devices that share statistics; the number of GPUs, with a warning, by default.
    momentum, epsilon, center, scale, use_global_stats
        As for `BatchNorm`.
    beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer
        As for `BatchNorm`.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.contrib.nn.SyncBatchNorm(num_devices=1)
    >>> layer.initialize()
    >>> with mx.autograd.train_mode():
    ...     layer(mx.nd.array([[1], [3]])).round().asnumpy().tolist()
    [[-1.0], [1.0]]
    """

    def __init__(self, in_channels: int = 0, num_devices: int | None = None, momentum: float = 0.9,
                 epsilon: float = 1e-5, center: bool = True, scale: bool = True,
                 use_global_stats: bool = False, beta_initializer: Init = "zeros",
                 gamma_initializer: Init = "ones", running_mean_initializer: Init = "zeros",
                 running_variance_initializer: Init = "ones", **kwargs: Any):
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, beta_initializer,
                         gamma_initializer, running_mean_initializer,
                         running_variance_initializer, in_channels, **kwargs)
        if num_devices is None:
            warn_user("Caution using SyncBatchNorm: if not using all the GPUs, please set "
                      "num_devices")
            num_devices = max(num_gpus(), 1)
        if num_devices > 1:
            # Without its name, for one warning of a whole network.
            warn_user(f"SyncBatchNorm: num_devices is {num_devices}, but statistics are those of "
                      "each device's own samples")
        del self._kwargs["axis"]
        self._kwargs |= {"ndev": num_devices, "key": self.prefix}

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                       running_var: Any) -> Any:
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd",
                                       **self._kwargs)


# -- pixels -----------------------------------------------------------------------------------


class _PixelShuffle(HybridBlock):
    """Base of layers that make axes longer by a factor each, and the channels fewer."""

    _rank: ClassVar[int]

    def __init__(self, factor: int | Sequence[int], **kwargs: Any):
        super().__init__(**kwargs)
        try:
            self._factors = ((int(factor),) * self._rank  # type: ignore[arg-type]
                             if not isinstance(factor, (tuple, list))
                             else tuple(int(each) for each in factor))
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(f"{type(self).__name__}: factor is {factor!r}, expected an "
                                    f"int or a tuple of {self._rank}") from error
        if len(self._factors) != self._rank:
            raise CheckError(f"wrong length {len(self._factors)}: {type(self).__name__} takes a "
                             f"factor, or a tuple of {self._rank}; given {factor!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors})"


class PixelShuffle1D(_PixelShuffle):
    """Moves channels to places of a longer axis: (N, C f, W) becomes (N, C, W f).

    Parameters
    ----------
    factor : int
        The factor f.

    Examples
    --------
    >>> mx.gluon.contrib.nn.PixelShuffle1D(2)(mx.nd.zeros((1, 8, 3))).shape
    (1, 4, 6)
    """

    _rank = 1

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        x = F.reshape(x, (0, -4, -1, *self._factors, 0))
        x = F.transpose(x, (0, 1, 3, 2))
        return F.reshape(x, (0, 0, -3))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors[0]})"


class PixelShuffle2D(_PixelShuffle):
    """Moves channels to places of a larger image: (N, C f g, H, W) becomes (N, C, H f, W g).

    See Shi et al., 2016.

    Parameters
    ----------
    factor : int or tuple of int
        The factors f and g, or one for both.

    Examples
    --------
    >>> mx.gluon.contrib.nn.PixelShuffle2D((2, 3))(mx.nd.zeros((1, 12, 3, 5))).shape
    (1, 2, 6, 15)
    """

    _rank = 2

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        f, g = self._factors
        x = F.reshape(x, (0, -4, -1, f * g, 0, 0))
        x = F.reshape(x, (0, 0, -4, f, g, 0, 0))
        x = F.transpose(x, (0, 1, 4, 2, 5, 3))
        return F.reshape(x, (0, 0, -3, -3))


class PixelShuffle3D(_PixelShuffle):
    """Moves channels to places of a larger volume.

    (N, C f g h, D, H, W) becomes (N, C, D f, H g, W h).

    Parameters
    ----------
    factor : int or tuple of int
        The factors f, g and h, or one for all.

    Examples
    --------
    >>> mx.gluon.contrib.nn.PixelShuffle3D((2, 3, 4))(mx.nd.zeros((1, 48, 3, 5, 7))).shape
    (1, 2, 6, 15, 28)
    """

    _rank = 3

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        # One axis after another: a transpose of all has 8 axes, more than MXNet's takes.
        f, g, h = self._factors
        x = F.reshape(x, (0, -4, -1, f * g * h, 0, 0, 0))
        x = F.swapaxes(x, 2, 3)
        x = F.reshape(x, (0, 0, 0, -4, f, g * h, 0, 0))
        x = F.reshape(x, (0, 0, -3, 0, 0, 0))
        x = F.swapaxes(x, 3, 4)
        x = F.reshape(x, (0, 0, 0, 0, -4, g, h, 0))
        x = F.reshape(x, (0, 0, 0, -3, 0, 0))
        x = F.swapaxes(x, 4, 5)
        return F.reshape(x, (0, 0, 0, 0, -3))
