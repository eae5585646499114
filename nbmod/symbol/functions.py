"""Symbols that are more than an op applied: variables, groups, files, creation, `maximum`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from ..attribute import AttrScope
from ..base import FLAG_OF_DTYPE, MXNetError
from ..graph import Entry, Node
from .compose import stored_attrs
from .json_reader import read_graph
from .namespace import symbol_function
from .operators import binary
from .symbol import Symbol

__all__ = ["Variable", "var", "Group", "load", "load_json", "fromjson", "pow", "power", "maximum",
           "minimum", "hypot", "zeros", "ones", "full", "arange", "linspace", "eye", "histogram",
           "split_v2"]

_STORAGE = {"default": "0", "row_sparse": "1", "csr": "2"}


def Variable(name: str, attr: dict[str, str] | None = None, shape: Any = None,
             lr_mult: float | None = None, wd_mult: float | None = None, dtype: Any = None,
             init: Any = None, stype: str | None = None, profiler_scope: str | None = None,
             **kwargs: Any) -> Symbol:
    """A named input: data, labels, weights.

    `shape` (0 for unknown dimensions) and `dtype` take part in inference; `lr_mult` and `wd_mult`
    scale the optimizer's rates for it; `init` is an Initializer or its text; `stype` is 'default',
    'row_sparse' or 'csr'.  Further attributes look like `__mine__`; any other keyword is a
    ValueError.
    """
    if not isinstance(name, str):
        raise TypeError(f"Variable: name is {name!r}, expected text")
    attrs = AttrScope.current.get(attr)
    for key, text in attrs.items():
        if not isinstance(text, str):
            raise ValueError(f"Variable {name}: attribute {key} is {text!r}, expected text")
    given = {"__shape__": None if shape is None else str(shape),
             "__lr_mult__": lr_mult, "__wd_mult__": wd_mult,
             "__dtype__": None if dtype is None else _dtype_flag(name, dtype),
             "__init__": init if init is None or isinstance(init, str) else init.dumps(),
             "__storage_type__": None if stype is None else _storage_flag(name, stype),
             "__profiler_scope__": profiler_scope}
    attrs.update({key: str(value) for key, value in given.items() if value is not None})
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(f"Variable {name}: there is no argument {key!r}; additional "
                             "attributes must start and end with double underscores, "
                             "as in __yourattr__")
        attrs[key] = str(value)
    return Symbol([Entry(Node(None, name, attrs=stored_attrs(attrs, name)))])


var = Variable


def _dtype_flag(name: str, dtype: Any) -> int:
    try:
        return FLAG_OF_DTYPE[np.dtype(dtype)]
    except (TypeError, KeyError):
        raise MXNetError(f"Variable {name}: dtype is {dtype!r}, expected one of "
                         f"{[str(known) for known in FLAG_OF_DTYPE]}") from None


def _storage_flag(name: str, stype: str) -> str:
    if stype not in _STORAGE:
        raise MXNetError(f"Variable {name}: stype is {stype!r}, expected one of {list(_STORAGE)}")
    return _STORAGE[stype]


def Group(symbols: Sequence[Symbol], create_fn: Callable = Symbol) -> Symbol:
    """One symbol with the outputs of all `symbols`, in order."""
    if not isinstance(symbols, (list, tuple)) or not symbols:
        raise TypeError(f"Group: {symbols!r} is given, expected a list of symbols")
    for symbol in symbols:
        if not isinstance(symbol, Symbol):
            raise TypeError(f"Group: a {type(symbol).__name__} is given among the symbols")
    return create_fn([entry for symbol in symbols for entry in symbol.entries])


def load(fname: Any) -> Symbol:
    """The symbol in a JSON file, of any MXNet version back to 0.8.

    Raises MXNetError naming the file, and what in it is wrong.
    """
    try:
        with open(fname, "rb") as stream:
            text = stream.read()
    except OSError as error:
        raise MXNetError(f"{fname}: cannot be read: {error.strerror or error}") from error
    return Symbol(read_graph(text, str(fname)))


def load_json(json_str: str) -> Symbol:
    """The symbol in JSON text, of any MXNet version back to 0.8."""
    if not isinstance(json_str, str):
        raise TypeError(f"load_json: a {type(json_str).__name__} is given, expected text")
    return Symbol(read_graph(json_str))


fromjson = load_json


# -- functions of two symbols or numbers --------------------------------------------------------

def _two_way(left: Any, right: Any, name: str, reflected: tuple[str, str],
             of_numbers: Callable) -> Any:
    """`name` of two symbols, a symbol and a number either way round, or two numbers."""
    tensor, scalar = (f"_{name}", f"_{name}"), (f"_{name}_scalar", f"_{name}scalar")
    if isinstance(left, Symbol) and isinstance(right, (Symbol, Number)):
        return Symbol(binary(left, right, tensor, scalar))
    if isinstance(right, Symbol) and isinstance(left, Number):
        return Symbol(binary(right, left, tensor, reflected))
    if isinstance(left, Number) and isinstance(right, Number):
        return of_numbers(left, right)
    raise TypeError(f"{name}: given a {type(left).__name__} and a {type(right).__name__}, expected "
                    "symbols or numbers")


def pow(base: Any, exp: Any) -> Any:
    """`base ** exp`, element by element; symbols of equal shape, or numbers."""
    return _two_way(base, exp, "power", ("_rpower_scalar", "_rpowerscalar"), lambda a, b: a ** b)


power = pow


def maximum(left: Any, right: Any) -> Any:
    """The larger of two, element by element; symbols of equal shape, or numbers."""
    return _two_way(left, right, "maximum", ("_maximum_scalar", "_maximumscalar"), max)


def minimum(left: Any, right: Any) -> Any:
    """The smaller of two, element by element; symbols of equal shape, or numbers."""
    return _two_way(left, right, "minimum", ("_minimum_scalar", "_minimumscalar"), min)


def hypot(left: Any, right: Any) -> Any:
    """`sqrt(left ** 2 + right ** 2)`, element by element; symbols of equal shape, or numbers."""
    return _two_way(left, right, "hypot", ("_hypot_scalar", "_hypotscalar"), math.hypot)


# -- creation -----------------------------------------------------------------------------------

def _create(op_name: str, dtype: Any, **kwargs: Any) -> Symbol:
    return symbol_function(op_name)(dtype=np.float32 if dtype is None else dtype, **kwargs)


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Zeros; a 0 in `shape` is a dimension that follows from the symbol's users."""
    return _create("_zeros", dtype, shape=shape, **kwargs)


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Ones of a shape."""
    return _create("_ones", dtype, shape=shape, **kwargs)


def full(shape: Any, val: float, dtype: Any = None, **kwargs: Any) -> Symbol:
    """`val` everywhere."""
    return _create("_full", dtype, shape=shape, value=float(val), **kwargs)


def arange(start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1,
           infer_range: bool = False, name: str | None = None, dtype: Any = None) -> Symbol:
    """`start, start + step, ...` below `stop`, each `repeat` times; one argument is `stop`."""
    return _create("_arange", dtype, start=start, stop=stop, step=step, repeat=repeat,
                   infer_range=infer_range, name=name)


def linspace(start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None,
             dtype: Any = None) -> Symbol:
    """`num` evenly spaced numbers from `start` to `stop`."""
    return _create("_linspace", dtype, start=start, stop=stop, num=num, endpoint=endpoint,
                   name=name)


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An (N, M) matrix, (N, N) for M = 0, with ones on diagonal `k`."""
    return _create("_eye", dtype, N=N, M=M, k=k, **kwargs)


def histogram(a: Symbol, bins: Any = 10, range: tuple | None = None, **kwargs: Any) -> Symbol:
    """Counts per bin: `bins` bins over `range`, or between the edges in the symbol `bins`."""
    function = symbol_function("_histogram")
    if isinstance(bins, Symbol):
        return function(data=a, bins=bins, **kwargs)
    if not isinstance(bins, int):
        raise ValueError(f"histogram: bins is {bins!r}, expected an integer or a Symbol of edges")
    if range is None:
        raise ValueError("histogram: range must be given for a number of bins")
    return function(data=a, bin_cnt=bins, range=range, **kwargs)


def split_v2(ary: Symbol, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False
             ) -> Symbol:
    """`ary` cut along `axis` into equal parts (an integer) or before each index of a tuple."""
    if isinstance(indices_or_sections, int):
        indices, sections = [], indices_or_sections
    elif isinstance(indices_or_sections, tuple):
        indices, sections = [0, *indices_or_sections], 0
    else:
        raise ValueError(f"split_v2: indices_or_sections is {indices_or_sections!r}, expected an "
                         "integer or a tuple of integers")
    return symbol_function("_split_v2")(ary, indices=indices, axis=axis, squeeze_axis=squeeze_axis,
                                        sections=sections)
