"""Functions that make symbols: variables, groups, files, arithmetic and creation."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..base import (
    FLAG_OF_DTYPE,
    STORAGE_FLAGS,
    ArgumentTypeError,
    MXNetError,
    element_type,
    integer_types,
    plain_numbers,
    wrong_type,
)
from ..core.interrupts import from_handler
from ..graph import Entry, Node
from .attribute import AttrScope
from .compose import stored_attrs
from .json_reader import read_graph
from .namespace import symbol_function
from .operators import binary
from .symbol import Symbol

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..initializer import Initializer
    from ..ndarray.array_creation import Shape

__all__ = ["Variable", "var", "Group", "load", "load_json", "fromjson", "pow", "power", "maximum",
           "minimum", "hypot", "zeros", "ones", "full", "arange", "linspace", "eye", "histogram",
           "split_v2"]


def Variable(name: str, attr: dict[str, str] | None = None, shape: Shape | None = None,
             lr_mult: float | None = None, wd_mult: float | None = None,
             dtype: DTypeLike | None = None, init: str | Initializer | None = None,
             stype: str | None = None, profiler_scope: str | None = None, **kwargs: object
             ) -> Symbol:
    """Make a variable: an input of a network, such as data, labels or weights.

    `var` is the same function.

    Parameters
    ----------
    name : str
        Name of the variable.
    attr : dict of str to str, optional
        Further attributes.
    shape : tuple of int, optional
        Shape for inference; 0 for unknown dimensions.
    lr_mult, wd_mult : float, optional
        Multipliers of the optimizer's learning rate and weight decay.
    dtype : dtype, optional
        Element type for inference.
    init : Initializer or str, optional
        Initializer, or the JSON of one.
    stype : {'default', 'row_sparse', 'csr'}, optional
        Storage type of the array that `simple_bind` makes, and of its gradient where that has
        rows.
    profiler_scope : str, optional
        Kept as an attribute.
    **kwargs
        Further attributes, whose names must have the form `__name__`.

    Raises
    ------
    TypeError
        If the name is not a str.
    ValueError
        If an attribute is not a str, or a keyword does not have the form `__name__`.
    MXNetError
        If `dtype` or `stype` is unknown.

    Examples
    --------
    >>> w = mx.sym.Variable("w", shape=(3, 0), lr_mult=2.0, __note__="mine")
    >>> w.attr("__note__"), w.attr("lr_mult")
    ('mine', '2.0')
    """
    if not isinstance(name, str):
        raise TypeError(f"Variable: name is {name!r}, expected text")
    attrs = AttrScope.current.get(attr)
    for key, text in attrs.items():
        if not isinstance(text, str):
            raise ValueError(f"Variable {name}: attribute {key} is {text!r}, expected text")
    if stype is not None and stype not in STORAGE_FLAGS:
        raise MXNetError(f"Variable {name}: stype is {stype!r}, expected one of "
                         f"{list(STORAGE_FLAGS)}")
    if not isinstance(init, (str, type(None))) and (
            isinstance(init, type) or not hasattr(init, "dumps")):
        raise wrong_type(f"Variable {name}: init", init, "an initializer, or its name")
    values = {"__shape__": None if shape is None else str(plain_numbers(shape)),
              "__lr_mult__": lr_mult, "__wd_mult__": wd_mult,
              "__dtype__": None if dtype is None else _dtype_flag(name, dtype),
              "__init__": init if init is None or isinstance(init, str) else init.dumps(),
              "__storage_type__": None if stype is None else str(STORAGE_FLAGS[stype]),
              "__profiler_scope__": profiler_scope}
    attrs.update({key: str(value) for key, value in values.items() if value is not None})
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(f"Variable {name}: there is no argument {key!r}; additional "
                             "attributes must start and end with double underscores, "
                             "as in __yourattr__")
        attrs[key] = str(value)
    return Symbol([Entry(Node(None, name, attrs=stored_attrs(attrs, name)))])


var = Variable


def _dtype_flag(name: str, dtype: DTypeLike) -> int:
    try:
        return FLAG_OF_DTYPE[element_type(dtype)]
    except (TypeError, KeyError):
        raise ArgumentTypeError(f"Variable {name}: dtype is {dtype!r}, expected one of "
                                f"{[str(known) for known in FLAG_OF_DTYPE]}") from None


def Group(symbols: Sequence[Symbol], create_fn: Callable[[list[Entry]], Symbol] = Symbol) -> Symbol:
    """Combine the outputs of several symbols, in order, in one symbol.

    Parameters
    ----------
    symbols : list of Symbol
        The symbols.
    create_fn : callable, default Symbol
        Called with the list of outputs, makes the symbol.

    Raises
    ------
    TypeError
        If `symbols` is not a list of symbols, or empty.

    Examples
    --------
    >>> group = mx.sym.Group([mx.sym.Variable("a"), mx.sym.Variable("b")])
    >>> group.list_outputs()
    ['a', 'b']
    """
    if not isinstance(symbols, (list, tuple)) or not symbols:
        raise TypeError(f"Group: {symbols!r} is given, expected a list of symbols")
    for symbol in symbols:
        if not isinstance(symbol, Symbol):
            raise TypeError(f"Group: a {type(symbol).__name__} is given among the symbols")
    return create_fn([entry for symbol in symbols for entry in symbol.entries])


def load(fname: str | os.PathLike[str]) -> Symbol:
    """Load a symbol from a JSON file that nbmod, or MXNet 0.8 or later, has written.

    Parameters
    ----------
    fname : str
        Name of the file.

    Raises
    ------
    MXNetError
        If the file cannot be read or its content is invalid; names the file.
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise ArgumentTypeError(f"load: fname is a {type(fname).__name__}, expected a str")
    try:
        with open(fname, "rb") as stream:
            text = stream.read()
    except OSError as error:
        if from_handler(error):
            raise
        raise MXNetError(f"{fname}: cannot be read: {error.strerror or error}") from error
    return Symbol(read_graph(text, str(fname)))


def load_json(json_str: str) -> Symbol:
    """Load a symbol from JSON text that nbmod, or MXNet 0.8 or later, has written.

    Parameters
    ----------
    json_str : str
        Text.

    Raises
    ------
    TypeError
        If it is not a str.
    MXNetError
        If the content is invalid.
    """
    if not isinstance(json_str, str):
        raise TypeError(f"load_json: a {type(json_str).__name__} is given, expected text")
    return Symbol(read_graph(json_str))


fromjson = load_json


# -- functions of two symbols or numbers --------------------------------------------------------

Operand: TypeAlias = Any  # type: ignore[explicit-any]
"""A symbol or a number.  Any: the result is a symbol if an operand is, which no union says."""


def _binary_function(left: Operand, right: Operand, name: str, reflected: tuple[str, str],
                     of_numbers: Callable[[Operand, Operand], Operand]) -> Operand:
    """Apply `name` to two symbols, a symbol and a number in either order, or two numbers."""
    tensor, scalar = (f"_{name}", f"_{name}"), (f"_{name}_scalar", f"_{name}scalar")
    if isinstance(left, Symbol) and isinstance(right, (Symbol, Number)):
        return Symbol(binary(left, right, tensor, scalar))
    if isinstance(right, Symbol) and isinstance(left, Number):
        return Symbol(binary(right, left, tensor, reflected))
    if isinstance(left, Number) and isinstance(right, Number):
        return of_numbers(left, right)
    raise TypeError(f"{name}: given a {type(left).__name__} and a {type(right).__name__}, expected "
                    "symbols or numbers")


def pow(base: Operand, exp: Operand) -> Operand:
    """`base ** exp`, elementwise.  `power` is the same function.

    Parameters
    ----------
    base, exp : Symbol or float
        Symbols of equal shape, or numbers.
    """
    return _binary_function(base, exp, "power", ("_rpower_scalar", "_rpowerscalar"), operator.pow)


power = pow


def maximum(left: Operand, right: Operand) -> Operand:
    """Return the larger of two, elementwise.

    Parameters
    ----------
    left, right : Symbol or float
        Operands of `pow`.

    Examples
    --------
    >>> mx.sym.maximum(mx.sym.Variable("x"), 2).eval(x=mx.nd.array([1, 3]))[0].asnumpy().tolist()
    [2.0, 3.0]
    """
    return _binary_function(left, right, "maximum", ("_maximum_scalar", "_maximumscalar"), max)


def minimum(left: Operand, right: Operand) -> Operand:
    """Return the smaller of two, elementwise.

    Parameters
    ----------
    left, right : Symbol or float
        Operands of `pow`.
    """
    return _binary_function(left, right, "minimum", ("_minimum_scalar", "_minimumscalar"), min)


def hypot(left: Operand, right: Operand) -> Operand:
    """Return `sqrt(left ** 2 + right ** 2)`, elementwise.

    Parameters
    ----------
    left, right : Symbol or float
        Operands of `pow`.
    """
    return _binary_function(left, right, "hypot", ("_hypot_scalar", "_hypotscalar"), math.hypot)


# -- creation -----------------------------------------------------------------------------------

def _create(op_name: str, dtype: DTypeLike | None, **kwargs: object) -> Symbol:
    return symbol_function(op_name)(dtype=np.float32 if dtype is None else dtype, **kwargs)


def zeros(shape: Shape, dtype: DTypeLike | None = None, **kwargs: object) -> Symbol:
    """Make an array of zeros.

    Parameters
    ----------
    shape : tuple of int
        Shape; a dimension of 0 is inferred from the consumers of the symbol.
    dtype : dtype, optional
        Element type; None: float32.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return _create("_zeros", dtype, shape=shape, **kwargs)


def ones(shape: Shape, dtype: DTypeLike | None = None, **kwargs: object) -> Symbol:
    """Make an array of ones.

    Parameters
    ----------
    shape, dtype, **kwargs
        As for `zeros`.
    """
    return _create("_ones", dtype, shape=shape, **kwargs)


def full(shape: Shape, val: float, dtype: DTypeLike | None = None, **kwargs: object) -> Symbol:
    """Make an array filled with a value.

    Parameters
    ----------
    shape, dtype, **kwargs
        As for `zeros`.
    val : float
        Value of all elements.
    """
    return _create("_full", dtype, shape=shape, value=float(val), **kwargs)


def arange(start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1,
           infer_range: bool = False, name: str | None = None,
           dtype: DTypeLike | None = None) -> Symbol:
    """Make a sequence of equally spaced elements in [start, stop).

    Parameters
    ----------
    start, stop, step, repeat
        As for `nd.arange`.
    infer_range : bool, default False
        Whether the number of elements is inferred from the consumers of the symbol.
    name : str, optional
        Name of the node.
    dtype : dtype, optional
        Element type; None: float32.

    Examples
    --------
    >>> mx.sym.arange(0, 4, 2, repeat=2).eval()[0].asnumpy().tolist()
    [0.0, 0.0, 2.0, 2.0]
    """
    return _create("_arange", dtype, start=start, stop=stop, step=step, repeat=repeat,
                   infer_range=infer_range, name=name)


def linspace(start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None,
             dtype: DTypeLike | None = None) -> Symbol:
    """Make a sequence of `num` equally spaced elements from `start` to `stop`.

    Parameters
    ----------
    start, stop, num, endpoint
        As for `nd.linspace`.
    name, dtype
        As for `arange`.
    """
    return _create("_linspace", dtype, start=start, stop=stop, num=num, endpoint=endpoint,
                   name=name)


def eye(N: int, M: int = 0, k: int = 0, dtype: DTypeLike | None = None, **kwargs: object
        ) -> Symbol:
    """Make a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    N, M, k
        As for `nd.eye`.
    dtype, **kwargs
        As for `zeros`.
    """
    return _create("_eye", dtype, N=N, M=M, k=k, **kwargs)


def histogram(a: Symbol, bins: int | Symbol = 10, range: tuple[float, float] | None = None,
              **kwargs: object) -> Symbol:
    """Count elements in bins; outputs are counts and edges.

    Parameters
    ----------
    a, bins
        As for `nd.histogram`, with symbols instead of arrays.
    range : tuple of float, optional
        (lowest, highest) edge; required for a number of bins.
    **kwargs
        `name` (str) of the node, and its attributes.

    Raises
    ------
    ValueError
        If `bins` is neither, or `range` is missing.
    """
    function = symbol_function("_histogram")
    if isinstance(bins, Symbol):
        return function(data=a, bins=bins, **kwargs)
    if not isinstance(bins, integer_types):
        raise ValueError(f"histogram: bins is {bins!r}, expected an integer or a Symbol of edges")
    if range is None:
        raise ValueError("histogram: range must be given for a number of bins")
    return function(data=a, bin_cnt=bins, range=range, **kwargs)


def split_v2(ary: Symbol, indices_or_sections: int | tuple[int, ...], axis: int = 0,
             squeeze_axis: bool = False) -> Symbol:
    """Split an array into equal parts, or at given indices, with an output for every part.

    Parameters
    ----------
    ary, indices_or_sections, axis, squeeze_axis
        As for `nd.split_v2`, with a symbol instead of an array and a tuple for a sequence.

    Raises
    ------
    ValueError
        If `indices_or_sections` is neither.

    Examples
    --------
    >>> parts = mx.sym.split_v2(mx.sym.Variable("x"), (1,))
    >>> [part.shape for part in parts.eval(x=mx.nd.zeros((3, 2)))]
    [(1, 2), (2, 2)]
    """
    if isinstance(indices_or_sections, integer_types):
        indices, sections = [], indices_or_sections
    elif isinstance(indices_or_sections, tuple):
        indices, sections = [0, *indices_or_sections], 0
    else:
        raise ValueError(f"split_v2: indices_or_sections is {indices_or_sections!r}, expected an "
                         "integer or a tuple of integers")
    return symbol_function("_split_v2")(ary, indices=indices, axis=axis, squeeze_axis=squeeze_axis,
                                        sections=sections)
