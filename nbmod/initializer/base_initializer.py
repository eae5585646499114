"""Initialization of parameters.

An initializer is called with an `InitDesc`, the parameter's name and attributes, and the array to
fill.  The `__init__` attribute of the variable takes precedence (the `_init_weight` of that
initializer is called for any name); otherwise the suffix of the name decides: `weight` is filled
by the initializer's distribution, others (`bias`, `gamma`, ...) have fixed values.  An unknown
suffix is an error.  For a plain string, as before MXNet 0.9, a few more names are known.

Random values are drawn by `nbmod.random`, whose `seed` applies.

Examples
--------
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
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

import numpy as np

from .. import random
from ..base import (
    ArgumentError,
    ArgumentTypeError,
    Array,
    CheckError,
    MXNetError,
    OutOfRange,
    wrong_type,
)
from ..core import registry
from ..ndarray import NDArray

__all__ = ["InitDesc", "Initializer", "register", "alias", "create"]


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


def fills(value: object) -> TypeGuard[Callable[[InitDesc, NDArray], None]]:
    """Return whether a value can be called to fill arrays; a class makes an initializer instead.

    Parameters
    ----------
    value : object
        Initializer, function, or anything else.
    """
    return callable(value) and not isinstance(value, type)


def require_initializer(value: object, what: str) -> None:
    """Raise an error for what is neither an initializer nor the name of one.

    Parameters
    ----------
    value : object
        Argument.
    what : str
        Beginning of the error, such as the name of a parameter.

    Raises
    ------
    CheckError
        If it is none, or a name that is not registered.
    """
    if isinstance(value, str):
        create(value)
    elif not fills(value):
        raise CheckError("initializer must be of string type, or an object such as "
                         f"mx.init.Xavier(); {what} has {value!r}")


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
