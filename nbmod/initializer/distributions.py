"""Fixed values and distributions: `Constant`, `Normal`, `Xavier` and others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import random
from ..base import ArgumentError, ArgumentTypeError, Array, MXNetError, checks_numbers, wrong_type
from ..ndarray import NDArray
from .base_initializer import Initializer, _bilinear_kernel, alias, register

__all__ = ["Zero", "One", "Constant", "Uniform", "Normal", "Xavier", "MSRAPrelu", "Orthogonal",
           "Bilinear", "LSTMBias"]


@alias("zeros")
@register
class Zero(Initializer):
    """Fills parameters with 0.

    Examples
    --------
    >>> array = mx.nd.ones(2)
    >>> mx.init.Zero()("a_weight", array)
    >>> array.asnumpy().tolist()
    [0.0, 0.0]
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        arr[:] = 0


@alias("ones")
@register
class One(Initializer):
    """Fills parameters with 1.

    Examples
    --------
    >>> array = mx.nd.zeros(2)
    >>> mx.init.One()("a_weight", array)
    >>> array.asnumpy().tolist()
    [1.0, 1.0]
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """Fills parameters with a constant.

    Parameters
    ----------
    value : float, list, numpy.ndarray or NDArray
        The value, or an array that broadcasts to the parameter's shape.

    Examples
    --------
    >>> array = mx.nd.zeros((2, 2))
    >>> mx.init.Constant([3.0, 5.0])("a_weight", array)
    >>> array.asnumpy().tolist()
    [[3.0, 5.0], [3.0, 5.0]]
    """

    def __init__(self, value: float | Sequence[object] | NDArray | Array):
        values = value.asnumpy() if isinstance(value, NDArray) else value
        plain = values.tolist() if isinstance(values, np.ndarray) else values
        super().__init__(value=plain)
        self.value = value

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        try:
            arr[:] = np.asarray(self.value) if isinstance(self.value, (list, tuple)) else self.value
        except (ValueError, TypeError) as error:
            kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
            raise kind(f"Constant: the value {self.value!r:.80} does not fit {desc} of shape "
                       f"{arr.shape}: {error}") from error


@register
class Uniform(Initializer):
    """Fills weights from a uniform distribution.

    Parameters
    ----------
    scale : float, default 0.07
        Values are from -scale to scale.

    Examples
    --------
    >>> array = mx.nd.zeros(1000)
    >>> mx.init.Uniform(0.5)("a_weight", array)
    >>> 0.4 < float(array.asnumpy().max()) <= 0.5
    True
    """

    @checks_numbers
    def __init__(self, scale: float = 0.07):
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        arr[:] = random.uniform(-self.scale, self.scale, arr.shape)


@register
class Normal(Initializer):
    """Fills weights from a normal distribution of mean 0.

    Parameters
    ----------
    sigma : float, default 0.01
        The standard deviation.

    Examples
    --------
    >>> array = mx.nd.zeros(10000)
    >>> mx.init.Normal(2.0)("a_weight", array)
    >>> 1.9 < float(array.asnumpy().std()) < 2.1
    True
    """

    @checks_numbers
    def __init__(self, sigma: float = 0.01):
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        arr[:] = random.normal(0, self.sigma, arr.shape)


@register
class Xavier(Initializer):
    """Fills weights so that activations and gradients keep their variance from layer to layer.

    Parameters
    ----------
    rnd_type : {'uniform', 'gaussian'}, default 'uniform'
        The distribution.
    factor_type : {'avg', 'in', 'out'}, default 'avg'
        The fan: the number of inputs of a unit ('in'), the number of outputs ('out'), or their
        mean.
    magnitude : float, default 3
        Factor of the variance.

    Raises
    ------
    ArgumentError
        When called, if the array has fewer than 2 dimensions or an option is none of these.

    Notes
    -----
    With scale = sqrt(magnitude / fan), values are uniform from -scale to scale, or normal with
    standard deviation scale.  For a weight of shape (outputs, inputs, ...), both are multiplied by
    the product of the remaining dimensions.

    References
    ----------
    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
    2010.

    Examples
    --------
    >>> array = mx.nd.zeros((100, 200))
    >>> mx.init.Xavier(factor_type="in", magnitude=2)("a_weight", array)
    >>> 0.09 < float(array.asnumpy().max()) <= 0.1  # sqrt(2 / 200)
    True
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        try:
            self.magnitude = float(magnitude)
        except (ValueError, TypeError):
            raise wrong_type("Xavier: magnitude", magnitude, "a number") from None

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        if self.magnitude < 0:
            raise ArgumentError(f"Xavier: magnitude is {self.magnitude}, expected at least 0")
        scale = math.sqrt(self.magnitude / self._fan(desc, arr.shape))
        if self.rnd_type == "uniform":
            arr[:] = random.uniform(-scale, scale, arr.shape)
        elif self.rnd_type == "gaussian":
            arr[:] = random.normal(0, scale, arr.shape)
        else:
            raise ArgumentError(f"Xavier: rnd_type is {self.rnd_type!r}, expected 'uniform' or "
                                "'gaussian'")

    def _fan(self, desc: str, shape: Sequence[int]) -> float:
        if len(shape) < 2:
            raise ArgumentError(f"Xavier initializer cannot be applied to {desc} of shape "
                                f"{tuple(shape)}: it needs at least 2 dimensions")
        area = math.prod(shape[2:])
        fans = {"in": shape[1] * area, "out": shape[0] * area,
                "avg": (shape[0] + shape[1]) * area / 2}
        if self.factor_type not in [*fans]:
            raise ArgumentError(f"Xavier: factor_type is {self.factor_type!r}, expected one of "
                                f"{sorted(fans)}")
        return fans[self.factor_type]


@register
class MSRAPrelu(Xavier):
    """Fills weights of layers that are followed by a PReLU or ReLU.

    Parameters
    ----------
    factor_type : {'avg', 'in', 'out'}, default 'avg'
        The fan, as of `Xavier`.
    slope : float, default 0.25
        Initial slope of the PReLU for negative values; 0 for ReLU.

    Notes
    -----
    Values are normal with standard deviation sqrt(2 / ((1 + slope^2) fan)).

    References
    ----------
    He et al., "Delving deep into rectifiers: surpassing human-level performance on ImageNet
    classification", 2015.

    Examples
    --------
    >>> array = mx.nd.zeros((100, 200))
    >>> mx.init.MSRAPrelu("in", slope=0)("a_weight", array)
    >>> 0.098 < float(array.asnumpy().std()) < 0.102  # sqrt(2 / 200)
    True
    """

    @checks_numbers
    def __init__(self, factor_type: str = "avg", slope: float = 0.25):
        super().__init__("gaussian", factor_type, 2 / (1 + slope ** 2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Orthogonal(Initializer):
    """Fills weights with a random orthogonal matrix.

    Parameters
    ----------
    scale : float, default 1.414
        Factor of the matrix; sqrt(2) suits ReLU.
    rand_type : {'uniform', 'normal'}, default 'uniform'
        Distribution of the random matrix from which the orthogonal one is computed.

    Raises
    ------
    MXNetError
        When called, if `rand_type` is none of these.

    Notes
    -----
    The weight is treated as a matrix of shape (outputs, all else).  Its rows, or its columns where
    it has more rows than columns, are orthogonal and have norm `scale`.  They are singular vectors
    of a random matrix.

    References
    ----------
    Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep
    linear neural networks", 2014.

    Examples
    --------
    >>> array = mx.nd.zeros((2, 3))
    >>> mx.init.Orthogonal(scale=2.0)("a_weight", array)
    >>> product = mx.nd.dot(array, array.T).asnumpy()
    >>> [[abs(round(x, 3)) for x in row] for row in product.tolist()]
    [[4.0, 0.0], [0.0, 4.0]]
    """

    @checks_numbers
    def __init__(self, scale: float = 1.414, rand_type: str = "uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        flat = (arr.shape[0], math.prod(arr.shape[1:]))
        if self.rand_type == "uniform":
            start = random.uniform(-1, 1, flat)
        elif self.rand_type == "normal":
            start = random.normal(0, 1, flat)
        else:
            raise MXNetError(f"Orthogonal: rand_type is {self.rand_type!r}, expected 'uniform' or "
                             "'normal'")
        left, _, right = np.linalg.svd(start.asnumpy(), full_matrices=False)
        basis = left if left.shape == flat else right
        arr[:] = (self.scale * basis).reshape(arr.shape)


@register
class Bilinear(Initializer):
    """Fills weights with the kernel of bilinear upsampling.

    Notes
    -----
    For weights of shape (C, 1, H, W) of a `Deconvolution` with stride s, kernel 2 s - s % 2 and
    num_group C.

    Examples
    --------
    >>> array = mx.nd.zeros((1, 1, 4, 4))
    >>> mx.init.Bilinear()("up_weight", array)
    >>> array[0, 0, 1].asnumpy().tolist()
    [0.1875, 0.5625, 0.5625, 0.1875]
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        arr[:] = _bilinear_kernel(arr.shape)


@register
class LSTMBias(Initializer):
    """Fills biases of an LSTM with 0, and those of the forget gate with a constant.

    Parameters
    ----------
    forget_bias : float, default 1.0
        The bias of the forget gate, which is the second quarter of the array (gates i, f, c, o).

    References
    ----------
    Jozefowicz, Zaremba and Sutskever, "An empirical exploration of recurrent network
    architectures", 2015.

    Examples
    --------
    >>> array = mx.nd.zeros(8)
    >>> desc = mx.init.InitDesc("lstm_i2h_bias", {"__init__": mx.init.LSTMBias(2.0).dumps()})
    >>> mx.init.Uniform()(desc, array)
    >>> array.asnumpy().tolist()
    [0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    """

    @checks_numbers
    def __init__(self, forget_bias: float = 1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        hidden = arr.shape[0] // 4
        values = np.zeros(arr.shape, np.float32)
        values[hidden:2 * hidden] = self.forget_bias
        arr[:] = values
