"""How parameters get their first values.

An initializer is called with an `InitDesc`, which is the parameter's name and attributes, and the
array to fill.  Who decides, in this order: the `__init__` attribute of the variable (its
`_init_weight` then fills whatever the name is), else the ending of the name: `weight` is what the
initializer is about, the others (`bias`, `gamma`, ...) have fixed values.  Any other ending is an
error.  Called with a plain string, as before MXNet 0.9, a few more names are known.

Random values come from `nbmod.random`, so `nbmod.random.seed` governs them.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import random, registry
from .base import ArgumentError, MXNetError
from .ndarray import NDArray, load, zeros
from .ops.rnn_layout import GATES, RnnLayout

__all__ = ["InitDesc", "Initializer", "register", "alias", "create", "Zero", "One", "Constant",
           "Uniform", "Normal", "Xavier", "MSRAPrelu", "Orthogonal", "Bilinear", "LSTMBias",
           "FusedRNN", "Load", "Mixed"]


class InitDesc(str):
    """A parameter's name, with its attributes and the initializer used for the whole network."""

    attrs: dict[str, str]
    global_init: Any

    def __new__(cls, name: str, attrs: Mapping[str, str] | None = None, global_init: Any = None
                ) -> InitDesc:
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


class Initializer:
    """Base class: a subclass defines `_init_weight(desc, array)`, which fills the array.

    Keyword arguments given to this constructor are what `dumps` writes and `create` passes back.
    """

    def __init__(self, **kwargs: Any):
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[Any], str] | None = None

    def set_verbosity(self, verbose: bool = False,
                      print_func: Callable[[Any], str] | None = None) -> Initializer:
        """Log every initialization, with `print_func(array)` (default: root mean square)."""
        self._verbose = verbose
        self._print_func = print_func or _root_mean_square
        return self

    def _verbose_print(self, desc: str, init: str, arr: Any) -> None:
        if self._verbose and self._print_func:
            logging.info("Initialized %s as %s: %s", desc, init, self._print_func(arr))

    def dumps(self) -> str:
        """JSON `["name", {arguments}]`, as stored in a variable's `__init__` attribute."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Initializer) and type(self) is type(other)
                and self._kwargs == other._kwargs)

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, desc: str, arr: Any) -> None:
        """Fill `arr` for the parameter `desc`, an `InitDesc` or (old style) its name alone."""
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        asked = desc.attrs.get("__init__", "")
        if asked:
            create(asked)._init_weight(desc, arr)
            self._verbose_print(desc, asked, arr)
            return
        for ending, method in _BY_ENDING:
            if desc.endswith(ending):
                getattr(self, method)(desc, arr)
                self._verbose_print(desc, ending, arr)
                return
        self._init_default(desc, arr)

    def _legacy_init(self, name: str, arr: Any) -> None:
        if not isinstance(name, str):
            raise MXNetError(f"initializer: the name is {name!r}, expected an InitDesc or a str")
        for (beginning, ending), method in _BY_PLAIN_NAME:
            if name.startswith(beginning) and name.endswith(ending):
                getattr(self, method)(name, arr)
                return
        self._init_default(name, arr)

    def _init_bilinear(self, name: str, arr: Any) -> None:
        arr[:] = _bilinear_kernel(arr.shape)

    def _init_loc_bias(self, name: str, arr: Any) -> None:
        if arr.shape[0] != 6:
            raise MXNetError(f"{name}: shape {arr.shape}, expected (6,) for an affine transform")
        arr[:] = np.array([1, 0, 0, 0, 1, 0])

    def _init_zero(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_one(self, name: str, arr: Any) -> None:
        arr[:] = 1

    def _init_bias(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_gamma(self, name: str, arr: Any) -> None:
        arr[:] = 1

    def _init_beta(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_quantized_weight(self, name: str, arr: Any) -> None:
        arr[:] = np.floor(random.uniform(-127, 127, arr.shape).asnumpy()).astype(np.int8)

    def _init_quantized_bias(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_weight(self, desc: str, arr: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _init_weight(desc, array)")

    def _init_default(self, name: str, arr: Any) -> None:
        raise ArgumentError(
            f"Unknown initialization pattern for {name}: no rule fits that name.  Rules exist for "
            f"names that end in {', '.join(ending for ending, _ in _BY_ENDING)}; give the variable "
            "an initializer of its own with mx.sym.Variable(init=mx.init.*)")


def _root_mean_square(arr: Any) -> str:
    values = arr.asnumpy().astype(np.float64)
    return str(math.sqrt((values ** 2).mean()))


_register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")


def register(klass: type) -> type:
    """Class decorator: let `__init__` attributes and strings name a custom initializer."""
    return _register(klass)


@alias("zeros")
@register
class Zero(Initializer):
    """0 everywhere."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: str, arr: Any) -> None:
        arr[:] = 0


@alias("ones")
@register
class One(Initializer):
    """1 everywhere."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: str, arr: Any) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """`value` everywhere: a number, or an array that broadcasts to the parameter."""

    def __init__(self, value: Any):
        values = value.asnumpy() if isinstance(value, NDArray) else value
        plain = values.tolist() if isinstance(values, np.ndarray) else values
        super().__init__(value=plain)
        self.value = value

    def _init_weight(self, desc: str, arr: Any) -> None:
        arr[:] = np.asarray(self.value) if isinstance(self.value, (list, tuple)) else self.value


@register
class Uniform(Initializer):
    """Uniform over [-scale, scale]."""

    def __init__(self, scale: float = 0.07):
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, desc: str, arr: Any) -> None:
        arr[:] = random.uniform(-self.scale, self.scale, arr.shape)


@register
class Normal(Initializer):
    """Normal with mean 0 and standard deviation sigma."""

    def __init__(self, sigma: float = 0.01):
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, desc: str, arr: Any) -> None:
        arr[:] = random.normal(0, self.sigma, arr.shape)


@register
class Xavier(Initializer):
    """Glorot and Bengio (2010): spread sqrt(magnitude / fan), which keeps variances alike.

    fan is the mean of inputs and outputs ('avg'), the inputs ('in') or the outputs ('out'); the
    spread is the half-width of a 'uniform' or the deviation of a 'gaussian' distribution.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, desc: str, arr: Any) -> None:
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
        if self.factor_type not in fans:
            raise ArgumentError(f"Xavier: factor_type is {self.factor_type!r}, expected one of "
                                f"{sorted(fans)}")
        return fans[self.factor_type]


@register
class MSRAPrelu(Xavier):
    """He et al. (2015) for PReLU of initial slope `slope`: a gaussian Xavier of that magnitude."""

    def __init__(self, factor_type: str = "avg", slope: float = 0.25):
        super().__init__("gaussian", factor_type, 2 / (1 + slope ** 2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Orthogonal(Initializer):
    """Saxe et al. (2014): the rows, flattened, are orthogonal and of length `scale`."""

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, desc: str, arr: Any) -> None:
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
    """The kernel of bilinear upsampling, for a Deconvolution weight (C, 1, H, W)."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, desc: str, arr: Any) -> None:
        arr[:] = _bilinear_kernel(arr.shape)


def _bilinear_kernel(shape: Sequence[int]) -> np.ndarray:
    """A tent of the width's size along both axes, the same for all channels."""
    half = math.ceil(shape[3] / 2)
    centre = (2 * half - 1 - half % 2) / (2 * half)
    rows, columns = (1 - np.abs(np.arange(size) / half - centre) for size in shape[2:])
    return np.broadcast_to(np.outer(rows, columns).astype(np.float32), tuple(shape))


@register
class LSTMBias(Initializer):
    """0, except `forget_bias` for the forget gate: the second quarter (gates i, f, c, o)."""

    def __init__(self, forget_bias: float = 1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, desc: str, arr: Any) -> None:
        hidden = arr.shape[0] // 4
        values = np.zeros(arr.shape, np.float32)
        values[hidden:2 * hidden] = self.forget_bias
        arr[:] = values


@register
class FusedRNN(Initializer):
    """The flat parameter vector of an `RNN` operator, piece by piece (see `ops.rnn_layout`).

    Every gate's weight and bias is a parameter with a name of its own, `l0_i2h_f_weight`, which
    `init` fills: an initializer, its JSON, or None for the one of the whole network.  But biases of
    forget gates (lstm) are `forget_bias`.
    """

    def __init__(self, init: Initializer | str | None, num_hidden: int, num_layers: int, mode: str,
                 bidirectional: bool = False, forget_bias: float = 1.0):
        if mode not in GATES:
            raise MXNetError(f"FusedRNN: mode is {mode!r}, expected one of {sorted(GATES)}")
        init = create(init) if isinstance(init, str) else init
        super().__init__(init=None if init is None else init.dumps(), num_hidden=num_hidden,
                         num_layers=num_layers, mode=mode, bidirectional=bidirectional,
                         forget_bias=forget_bias)
        self._init = init
        self._layout = RnnLayout(mode, num_hidden, num_layers, bidirectional)
        self._forget_bias = forget_bias

    def _init_weight(self, desc: str, arr: Any) -> None:
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
    """Takes parameters from a file or a dict; those it lacks are left to `default_init`.

    `arg:` and `aux:` before the names are dropped.
    """

    def __init__(self, param: str | Mapping[str, Any],
                 default_init: Callable[[str, Any], None] | None = None, verbose: bool = False):
        arrays = param if isinstance(param, Mapping) else load(param)
        if not isinstance(arrays, Mapping):
            raise MXNetError(f"Load: {param} holds arrays without names")
        self.param = {re.sub("^(arg|aux):", "", name): array for name, array in arrays.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: Any) -> None:
        if name in self.param:
            if self.param[name].shape != arr.shape:
                raise MXNetError(f"Parameter {name} cannot be initialized from loading: shape "
                                 f"{arr.shape}, loaded {self.param[name].shape}")
            arr[:] = self.param[name]
            how = "loading"
        elif self.default_init is not None:
            self.default_init(name, arr)
            how = "default"
        else:
            raise MXNetError(f"Cannot initialize {name}: it is not among the loaded parameters and "
                             "no default initializer is given")
        if self.verbose:
            logging.info("Initialized %s by %s", name, how)


class Mixed:
    """The first initializer whose regular expression matches the beginning of the name."""

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Callable[[str, Any], None]]):
        if len(patterns) != len(initializers):
            raise MXNetError(f"Mixed: {len(patterns)} patterns for {len(initializers)} "
                             "initializers")
        self.map = [(re.compile(pattern), initializer)
                    for pattern, initializer in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: Any) -> None:
        for pattern, initializer in self.map:
            if pattern.match(name):
                initializer(name, arr)
                return
        raise ArgumentError(f"Parameter name {name} did not match any pattern: add a \".*\" "
                            "pattern at the end with a default initializer")
