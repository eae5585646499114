"""Arithmetic of arrays and numbers: one table for Python's operators and for `nd.add` etc.

Operations on two arrays broadcast.  For an array and a number, the result has the array's type:
`int32_array + 1.5` is int32.  In-place operators write to their left operand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

__all__ = ["BinaryOperator", "BINARY", "Operators"]


class BinaryOperator(NamedTuple):
    """The implementations of one operation, by the kinds of its operands."""

    arrays: str
    """Op of two arrays."""
    scalar: str
    """Op of `array, number`."""
    reflected: str
    """Op of `number, array`, the array being its input."""
    numbers: Callable[[Any, Any], Any]
    """The function of two plain numbers."""


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], int]:
    return lambda lhs, rhs: int(compare(lhs, rhs))


def _binary(name: str, numbers: Callable[[Any, Any], Any], reflected: str | None = None,
            short: str | None = None) -> BinaryOperator:
    short = short or name
    return BinaryOperator(f"broadcast_{name}", f"_{short}_scalar",
                          f"_{reflected or short}_scalar", numbers)


BINARY = {
    "add": _binary("add", operator.add, short="plus"),
    "subtract": _binary("sub", operator.sub, "rminus", short="minus"),
    "multiply": _binary("mul", operator.mul),
    "divide": _binary("div", operator.truediv, "rdiv"),
    "modulo": _binary("mod", operator.mod, "rmod"),
    "power": _binary("power", operator.pow, "rpower"),
    "maximum": _binary("maximum", max),
    "minimum": _binary("minimum", min),
    "equal": _binary("equal", _comparison(operator.eq)),
    "not_equal": _binary("not_equal", _comparison(operator.ne)),
    "greater": _binary("greater", _comparison(operator.gt), "lesser"),
    "greater_equal": _binary("greater_equal", _comparison(operator.ge), "lesser_equal"),
    "lesser": _binary("lesser", _comparison(operator.lt), "greater"),
    "lesser_equal": _binary("lesser_equal", _comparison(operator.le), "greater_equal"),
    "logical_and": _binary("logical_and", _comparison(lambda a, b: bool(a and b))),
    "logical_or": _binary("logical_or", _comparison(lambda a, b: bool(a or b))),
    "logical_xor": _binary("logical_xor", _comparison(lambda a, b: bool(a) != bool(b))),
}

_DUNDERS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
            "div": "divide", "mod": "modulo"}
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal",
                "lt": "lesser", "le": "lesser_equal"}


def _plain(binary: BinaryOperator) -> Callable[..., Any]:
    return lambda self, other: self._binary(binary, other)


def _reflected(binary: BinaryOperator) -> Callable[..., Any]:
    return lambda self, other: self._binary(binary, other, reflected=True)


def _in_place(binary: BinaryOperator) -> Callable[..., Any]:
    return lambda self, other: self._binary(binary, other, out=self)


def _operators() -> dict[str, Callable[..., Any]]:
    """`__add__`, `__radd__`, `__iadd__`, `__eq__`, ... by name."""
    methods = {"__pow__": _plain(BINARY["power"]), "__rpow__": _reflected(BINARY["power"])}
    for dunder, name in _DUNDERS.items():
        methods[f"__{dunder}__"] = _plain(BINARY[name])
        methods[f"__r{dunder}__"] = _reflected(BINARY[name])
        methods[f"__i{dunder}__"] = _in_place(BINARY[name])
    for dunder, name in _COMPARISONS.items():
        methods[f"__{dunder}__"] = _plain(BINARY[name])
    for method_name, method in methods.items():
        method.__name__ = method_name
        method.__qualname__ = f"NDArray.{method_name}"
    return methods


if TYPE_CHECKING:
    from ._op_stubs.methods import Operators
else:
    Operators = type("Operators", (), {
        "__doc__": "Python's operators for a class with `_binary(binary, other, reflected, out)`.",
        "__slots__": (), "__array_priority__": 1000.0, "__hash__": object.__hash__, **_operators()})
