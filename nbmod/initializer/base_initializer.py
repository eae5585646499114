"""Initialization of parameters.

An initializer is called with an `InitDesc`, the parameter's name and attributes, and the array to
fill.  The `__init__` attribute of the variable takes precedence (the `_init_weight` of that
initializer is called for any name); otherwise the suffix of the name decides: `weight` is filled
by the initializer's distribution, others (`bias`, `gamma`, ...) have fixed values.  An unknown
suffix is an error.  For a plain string, as before MXNet 0.9, a few more names are known.

Random values are drawn by `nbmod.random`, whose `seed` applies.

Examples
--------
>>> import nbmod as mx
>>> weight, bias = mx.nd.zeros((2, 3)), mx.nd.ones(2)
>>> init = mx.init.Xavier()
>>> init(mx.init.InitDesc("fc_weight"), weight)
>>> init(mx.init.InitDesc("fc_bias"), bias)
>>> bias.asnumpy().tolist()
[0.0, 0.0]
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .. import random
from ..base import (
    ArgumentError,
    ArgumentTypeError,
    Array,
    CheckError,
    MXNetError,
    OutOfRange,
    checks_numbers,
    wrong_type,
)
from ..core import registry
from ..ndarray import NDArray, load, zeros
from ..ops.rnn.rnn_weights import GATES, RnnLayout

__all__ = ["InitDesc", "Initializer", "register", "alias", "create", "Zero", "One", "Constant",
           "Uniform", "Normal", "Xavier", "MSRAPrelu", "Orthogonal", "Bilinear", "LSTMBias",
           "FusedRNN", "Load", "Mixed"]
__dir__ = __all__.copy


class InitDesc(str):
    """A parameter's name, with its attributes and the initializer of the whole network.

    Parameters
    ----------
    name : str
        Name of the parameter; the object is a str with this value.
    attrs : dict of str to str, optional
        Attributes of the variable; `__init__` is the JSON of an initializer of its own.
    global_init : Initializer, optional
        The initializer of the whole network; that which is called unless given.

    Examples
    --------
    >>> import nbmod as mx
    >>> desc = mx.init.InitDesc("a_weight", {"__init__": mx.init.One().dumps()})
    >>> array = mx.nd.zeros(2)
    >>> mx.init.Zero()(desc, array)
    >>> array.asnumpy().tolist()
    [1.0, 1.0]
    """

    attrs: dict[str, str]
    global_init: Initializer | None

    def __new__(cls, name: str, attrs: Mapping[str, str] | None = None,
                global_init: Initializer | None = None) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = dict(attrs or {})
        desc.global_init = global_init
        return desc


# Ending of a parameter's name -> the method of Initializer that fills it.
_BY_ENDING = (
    ("weight", "_init_weight"),
    ("bias", "_init_bias"),
    ("gamma", "_init_gamma"),
    ("beta", "_init_beta"),
    ("min", "_init_zero"),
    ("max", "_init_one"),
    ("weight_quantize", "_init_quantized_weight"),
    ("bias_quantize", "_init_quantized_bias"),
)
# The same for plain strings, tried first to last; a pair is (beginning, ending).
_BY_PLAIN_NAME = (
    (("upsampling", ""), "_init_bilinear"),
    (("stn_loc", "weight"), "_init_zero"),
    (("stn_loc", "bias"), "_init_loc_bias"),
    (("", "bias"), "_init_bias"),
    (("", "gamma"), "_init_gamma"),
    (("", "beta"), "_init_beta"),
    (("", "weight"), "_init_weight"),
    (("", "moving_mean"), "_init_zero"),
    (("", "moving_var"), "_init_one"),
    (("", "moving_inv_var"), "_init_zero"),
    (("", "moving_avg"), "_init_zero"),
    (("", "min"), "_init_zero"),
    (("", "max"), "_init_one"),
)


def _fill_as_asked(desc: InitDesc, initializer: str, arr: NDArray) -> None:
    """Fill an array by the initializer that an attribute of its variable tells."""
    try:
        create(initializer)._init_weight(desc, arr)
    except (ValueError, TypeError, ArithmeticError, MXNetError) as error:
        kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
        raise kind(f"{error}; the attribute __init__ of {desc} is {initializer!r:.80}") from error


class Initializer:
    """Base class of initializers: a subclass defines `_init_weight(desc, array)`.

    Parameters
    ----------
    **kwargs
        Arguments of the subclass, which `dumps` writes and `create` passes on.

    Notes
    -----
    Parameters are filled by the endings of their names: `weight` by `_init_weight`; `bias` and
    `beta` with 0; `gamma` with 1; `min` with 0; `max` with 1; `weight_quantize` with random int8
    values; `bias_quantize` with 0.

    Examples
    --------
    >>> import nbmod as mx
    >>> class Ramp(mx.init.Initializer):
    ...     def _init_weight(self, desc, array):
    ...         array[:] = mx.nd.arange(array.size).reshape(array.shape)
    >>> array = mx.nd.zeros((2, 2))
    >>> Ramp()(mx.init.InitDesc("a_weight"), array)
    >>> array.asnumpy().tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    >>> Ramp().dumps(), mx.init.Normal(0.1).dumps()
    ('["ramp", {}]', '["normal", {"sigma": 0.1}]')
    """

    def __init__(self, **kwargs: object):
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], str] | None = None

    def set_verbosity(self, verbose: bool = False,
                      print_func: Callable[[NDArray], str] | None = None) -> Initializer:
        """Log every initialization at level INFO.

        Parameters
        ----------
        verbose : bool, default False
            Whether to log.
        print_func : callable, optional
            Called with the array, returns the text to log; the root mean square unless given.

        Returns
        -------
        Initializer
            The initializer itself.
        """
        self._verbose = verbose
        self._print_func = print_func or _root_mean_square
        return self

    def _verbose_print(self, desc: str, init: str, arr: NDArray) -> None:
        if self._verbose and self._print_func:
            logging.info("Initialized %s as %s: %s", desc, init, self._print_func(arr))

    def dumps(self) -> str:
        """The initializer as JSON, as it is stored in a variable's `__init__` attribute.

        Returns
        -------
        str
            JSON of [name, {arguments}].
        """
        return json.dumps([type(self).__name__.lower(), self._kwargs], default=_plain)

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Initializer) and type(self) is type(other)
                and self._kwargs == other._kwargs)

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, desc: str, arr: NDArray) -> None:
        """Fill an array with the first values of a parameter.

        Parameters
        ----------
        desc : InitDesc or str
            The parameter, or, as before MXNet 0.9, its name only.
        arr : NDArray
            The array to fill.

        Raises
        ------
        ArgumentError
            If no rule fits the name.
        """
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        initializer = desc.attrs.get("__init__", "")
        if initializer:
            _fill_as_asked(desc, initializer, arr)
            self._verbose_print(desc, initializer, arr)
            return
        for ending, method in _BY_ENDING:
            if desc.endswith(ending):
                getattr(self, method)(desc, arr)
                self._verbose_print(desc, ending, arr)
                return
        self._init_default(desc, arr)

    def _legacy_init(self, name: str, arr: NDArray) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"initializer: the name is {name!r}, expected an InitDesc or "
                                    "a str")
        if not hasattr(arr, "shape"):
            raise ArgumentTypeError(f"initializer: the array of {name} is a {type(arr).__name__}, "
                                    "expected an NDArray")
        for (beginning, ending), method in _BY_PLAIN_NAME:
            if name.startswith(beginning) and name.endswith(ending):
                getattr(self, method)(name, arr)
                return
        self._init_default(name, arr)

    def _init_bilinear(self, name: str, arr: NDArray) -> None:
        arr[:] = _bilinear_kernel(arr.shape)

    def _init_loc_bias(self, name: str, arr: NDArray) -> None:
        if arr.shape[0] != 6:
            raise MXNetError(f"{name}: shape {arr.shape}, expected (6,) for an affine transform")
        arr[:] = np.array([1, 0, 0, 0, 1, 0])

    def _init_zero(self, name: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_one(self, name: str, arr: NDArray) -> None:
        arr[:] = 1

    def _init_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_gamma(self, name: str, arr: NDArray) -> None:
        arr[:] = 1

    def _init_beta(self, name: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_quantized_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = np.floor(random.uniform(-127, 127, arr.shape).asnumpy()).astype(np.int8)

    def _init_quantized_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _init_weight(desc, array)")

    def _init_default(self, name: str, arr: NDArray) -> None:
        raise ArgumentError(
            f"Unknown initialization pattern for {name}: no rule fits that name.  Rules exist for "
            f"names that end in {', '.join(ending for ending, _ in _BY_ENDING)}; give the variable "
            "an initializer of its own with mx.sym.Variable(init=mx.init.*)")


def _root_mean_square(arr: NDArray) -> str:
    values = arr.asnumpy().astype(np.float64)
    return str(math.sqrt((values ** 2).mean()))


_register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")


def register(klass: registry.Class) -> registry.Class:
    """Class decorator: register an initializer under its lower-cased name.

    Parameters
    ----------
    klass : type
        A subclass of `Initializer`.

    Returns
    -------
    type
        The class itself.
    """
    return _register(klass)


@alias("zeros")
@register
class Zero(Initializer):
    """Fills parameters with 0.

    Examples
    --------
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
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
    >>> import nbmod as mx
    >>> array = mx.nd.zeros((1, 1, 4, 4))
    >>> mx.init.Bilinear()("up_weight", array)
    >>> array[0, 0, 1].asnumpy().tolist()
    [0.1875, 0.5625, 0.5625, 0.1875]
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        arr[:] = _bilinear_kernel(arr.shape)


def _plain(value: object) -> object:
    """A NumPy array or number as Python's own, for JSON."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise wrong_type("dumps: an argument of an initializer", value, "a number or text")


def _bilinear_kernel(shape: Sequence[int]) -> Array:
    """A tent of the width's size along both axes, the same for all channels."""
    if len(shape) != 4:
        raise OutOfRange(f"Bilinear: a weight has shape {tuple(shape)}, expected 4 axes: "
                         "filters, channels, rows, columns")
    half = math.ceil(shape[3] / 2)
    centre = (2 * half - 1 - half % 2) / (2 * half)
    rows, columns = (1 - np.abs(np.arange(size) / half - centre) for size in shape[2:])
    return np.broadcast_to(np.outer(rows, columns).astype(np.float32), tuple(shape))


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
    >>> import nbmod as mx
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


@register
class FusedRNN(Initializer):
    """Fills the flat parameter vector of an `RNN` operator, one gate after the other.

    Parameters
    ----------
    init : Initializer, str or None
        Fills the weights and biases of gates, which have names like `l0_i2h_f_weight`: an
        initializer, its name or JSON, or None for that of the whole network.
    num_hidden : int
        Number of hidden units.
    num_layers : int
        Number of layers.
    mode : {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'}
        The kind of cell.
    bidirectional : bool, default False
        Whether there are two directions.
    forget_bias : float, default 1.0
        Bias of the forget gates of an LSTM.

    Raises
    ------
    MXNetError
        If `mode` is none of these; when called, if there is no initializer.

    Examples
    --------
    >>> import nbmod as mx
    >>> array = mx.nd.zeros(4 * (2 + 3 + 2))  # inputs, hidden units, two biases
    >>> init = mx.init.FusedRNN(mx.init.Zero(), num_hidden=1, num_layers=1, mode="lstm")
    >>> init("lstm_weight", array)
    >>> float(array.sum().asscalar())
    2.0
    """

    @checks_numbers
    def __init__(self, init: Initializer | str | None, num_hidden: int, num_layers: int, mode: str,
                 bidirectional: bool = False, forget_bias: float = 1.0):
        if mode not in GATES:
            raise MXNetError(f"FusedRNN: mode is {mode!r}, expected one of {sorted(GATES)}")
        init = create(init) if isinstance(init, str) else init
        if not isinstance(init, (Initializer, type(None))):
            raise wrong_type("FusedRNN: init", init, "an Initializer, or its name")
        super().__init__(init=None if init is None else init.dumps(), num_hidden=num_hidden,
                         num_layers=num_layers, mode=mode, bidirectional=bidirectional,
                         forget_bias=forget_bias)
        self._init = init
        self._layout = RnnLayout(mode, num_hidden, num_layers, bidirectional)
        self._forget_bias = forget_bias

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        network = getattr(desc, "global_init", None)
        init = self._init or network
        if init is None:
            raise MXNetError(f"FusedRNN: {desc} is to be filled by the initializer of the network, "
                             "and there is none; give `init`")
        for piece in self._layout.pieces(self._layout.input_size(arr.size)):
            part = zeros(piece.shape, dtype=arr.dtype)
            if self._layout.mode == "lstm" and piece.name.endswith("_f_bias"):
                part[:] = self._forget_bias
            else:
                init(InitDesc(piece.name, global_init=network), part)
            arr[piece.span] = part.reshape((-1,))


class Load:
    """Takes parameters from a file or a dict.

    Parameters
    ----------
    param : str or dict of str to NDArray
        A file that `mx.nd.save` wrote, or arrays by name.  Prefixes `arg:` and `aux:` are removed.
    default_init : callable, optional
        Called with name and array for parameters that are missing.
    verbose : bool, default False
        Whether to log where every parameter comes from.

    Raises
    ------
    MXNetError
        If the file has no names; when called, if the shape is another, or if a parameter is missing
        and there is no `default_init`.

    Examples
    --------
    >>> import nbmod as mx
    >>> init = mx.init.Load({"arg:a_weight": mx.nd.array([1, 2])}, default_init=mx.init.One())
    >>> a, b = mx.nd.zeros(2), mx.nd.zeros(2)
    >>> init("a_weight", a)
    >>> init("b_weight", b)
    >>> a.asnumpy().tolist(), b.asnumpy().tolist()
    ([1.0, 2.0], [1.0, 1.0])
    """

    def __init__(self, param: str | Mapping[str, NDArray],
                 default_init: Callable[[str, NDArray], None] | None = None, verbose: bool = False):
        arrays = param if isinstance(param, Mapping) else load(param)
        if not isinstance(arrays, Mapping):
            raise MXNetError(f"Load: {param} holds arrays without names")
        self.param = {re.sub("^(arg|aux):", "", name): array for name, array in arrays.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        if name in self.param:
            if self.param[name].shape != arr.shape:
                raise CheckError(f"Parameter {name} cannot be initialized from loading: shape "
                                 f"{arr.shape}, loaded {self.param[name].shape}")
            arr[:] = self.param[name]
            source = "loading"
        elif self.default_init is not None:
            self.default_init(name, arr)
            source = "default"
        else:
            raise CheckError(f"Cannot initialize {name}: it is not among the loaded parameters and "
                             "no default initializer is given")
        if self.verbose:
            logging.info("Initialized %s by %s", name, source)


class Mixed:
    """Selects an initializer by the name of the parameter.

    Parameters
    ----------
    patterns : list of str
        Regular expressions, which have to match at the beginning of the name; the first that does
        counts.
    initializers : list of callable
        The initializer of every pattern.

    Raises
    ------
    MXNetError
        If the lists differ in length.
    ArgumentError
        When called, if no pattern matches.

    Examples
    --------
    >>> import nbmod as mx
    >>> init = mx.init.Mixed(["fc1_", ".*"], [mx.init.Zero(), mx.init.One()])
    >>> a, b = mx.nd.ones(2), mx.nd.zeros(2)
    >>> init("fc1_weight", a)
    >>> init("fc2_weight", b)
    >>> a.asnumpy().tolist(), b.asnumpy().tolist()
    ([0.0, 0.0], [1.0, 1.0])
    """

    def __init__(self, patterns: Sequence[str],
                 initializers: Sequence[Callable[[str, NDArray], None]]):
        if len(patterns) != len(initializers):
            raise CheckError(f"Mixed: {len(patterns)} patterns for {len(initializers)} "
                             "initializers")
        self.map = [(re.compile(pattern), initializer)
                    for pattern, initializer in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: NDArray) -> None:
        for pattern, initializer in self.map:
            if pattern.match(name):
                initializer(name, arr)
                return
        raise ArgumentError(f"Parameter name {name} did not match any pattern: add a \".*\" "
                            "pattern at the end with a default initializer")
