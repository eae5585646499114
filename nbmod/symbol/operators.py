"""Arithmetic operators of symbols.

Each operator has one op for two symbols and one for a symbol and a number, with the hints of their
automatic names.  The hints are MXNet's, irregularities included (`_rpower_scalar0`, but
`_powerscalar0`), since scripts look nodes up by name.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import TYPE_CHECKING, NoReturn, TypeAlias, cast

from ..base import NotImplementedForSymbol
from ..graph import Entry
from .compose import named_node

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["Operators", "binary", "only_for_arrays"]

Unsupported: TypeAlias = Callable[..., NoReturn]  # type: ignore[explicit-any]
"""A method that always raises, whatever it is given."""


def binary(left: Symbol, right: object, tensor: tuple[str, str], scalar: tuple[str, str]
           ) -> list[Entry]:
    """Apply a binary operator to a symbol and a symbol or number.

    Parameters
    ----------
    left : Symbol
        Left operand.
    right : Symbol or float
        Right operand.
    tensor : (str, str)
        Op and name hint for two symbols.
    scalar : (str, str)
        Op and name hint for a symbol and a number.

    Raises
    ------
    TypeError
        For a right operand of another type.
    """
    if isinstance(right, Operators):
        return [Entry(named_node(tensor[0], [left, cast("Symbol", right)], tensor[1]))]
    if isinstance(right, Number):
        return [Entry(named_node(scalar[0], [left], scalar[1], scalar=right))]
    raise TypeError(f"{tensor[0]}: a Symbol cannot be combined with a {type(right).__name__}, "
                    "expected a Symbol or a number")


def _operator(tensor: str, tensor_hint: str, scalar: str, scalar_hint: str
              ) -> Callable[[Symbol, Symbol | float], Symbol]:
    def method(self: Symbol, other: Symbol | float) -> Symbol:
        return type(self)(binary(self, other, (tensor, tensor_hint), (scalar, scalar_hint)))

    method.__doc__ = f"`{tensor}` of two symbols, `{scalar}` with a number."
    return method


def only_for_arrays(name: str, alias: str | None = None) -> Unsupported:
    """Make a method that raises NotImplementedForSymbol.

    Parameters
    ----------
    name : str
        Name of the method.
    alias : str, optional
        What to use instead.
    """
    def method(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedForSymbol(method, alias)

    method.__name__, method.__qualname__ = name, f"Symbol.{name}"
    method.__doc__ = ("Undefined for symbols: raises NotImplementedForSymbol.\n\nParameters\n"
                      "----------\n*args, **kwargs\n    Not used.\n")
    return method


class Operators:
    """The operators `+ - * / % ** == != > >= < <=`, unary minus and `abs` of `Symbol`.

    Two symbols must have equal shapes; `sym.broadcast_add` and similar functions broadcast.
    In-place operators raise NotImplementedForSymbol.

    Examples
    --------
    >>> x = mx.sym.Variable("x")
    >>> (2 * x + 1).eval(x=mx.nd.array([1, 2]))[0].asnumpy().tolist()
    [3.0, 5.0]
    """

    __slots__ = ()

    __array_priority__ = 1000.0
    __array_ufunc__ = None

    entries: list[Entry]

    __add__ = _operator("elemwise_add", "_plus", "_plus_scalar", "_plusscalar")
    __radd__ = __add__
    __sub__ = _operator("elemwise_sub", "_minus", "_minus_scalar", "_minusscalar")
    __rsub__ = _operator("elemwise_sub", "_minus", "_rminus_scalar", "_rminusscalar")
    __mul__ = _operator("elemwise_mul", "_mul", "_mul_scalar", "_mulscalar")
    __rmul__ = __mul__
    __truediv__ = _operator("elemwise_div", "_div", "_div_scalar", "_divscalar")
    __rtruediv__ = _operator("elemwise_div", "_div", "_rdiv_scalar", "_rdivscalar")
    __div__ = __truediv__
    __rdiv__ = __rtruediv__
    __mod__ = _operator("_mod", "_mod", "_mod_scalar", "_modscalar")
    __rmod__ = _operator("_mod", "_mod", "_rmod_scalar", "_rmodscalar")
    __pow__ = _operator("_power", "_power", "_power_scalar", "_powerscalar")
    __rpow__ = _operator("_power", "_power", "_rpower_scalar", "_rpower_scalar")
    __eq__ = _operator("_equal", "_equal",  # type: ignore[assignment]  # symbols
                       "_equal_scalar", "_equal_scalar")
    __ne__ = _operator("_not_equal", "_not_equal",  # type: ignore[assignment]  # symbols
                       "_not_equal_scalar", "_not_equal_scalar")
    __gt__ = _operator("_greater", "_greater", "_greater_scalar", "_greater_scalar")
    __ge__ = _operator("_greater_equal", "_greater_equal", "_greater_equal_scalar",
                       "_greater_equal_scalar")
    __lt__ = _operator("_lesser", "_lesser", "_lesser_scalar", "_lesser_scalar")
    __le__ = _operator("_lesser_equal", "_lesser_equal", "_lesser_equal_scalar",
                       "_lesser_equal_scalar")
    __hash__ = None  # type: ignore[assignment]  # as == is no comparison

    __iadd__ = only_for_arrays("__iadd__", "add without assignment")
    __isub__ = only_for_arrays("__isub__", "sub without assignment")
    __imul__ = only_for_arrays("__imul__", "mul without assignment")
    __itruediv__ = only_for_arrays("__itruediv__", "truediv without assignment")
    __idiv__ = __itruediv__

    def __neg__(self) -> Symbol:
        return cast("Symbol", self) * -1.0

    def __abs__(self) -> Symbol:
        symbol = cast("Symbol", self)
        return type(symbol)([Entry(named_node("abs", [symbol], "abs"))])
