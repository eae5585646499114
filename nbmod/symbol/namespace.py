"""`sym.X` for every op in the table: functions that are made on first use.

    sym.FullyConnected   sym.contrib.box_nms   sym.linalg.gemm2   sym._internal._plus_scalar

A namespace is a prefix: `sym.contrib.X` is the op `_contrib_X`.  Modules look up their functions by
`__getattr__` (PEP 562, see `lookup`), so that importing them loads no ops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from ..ops import OPS
from ..ops.refused_ops import absent_function
from ..ops.signature import op_doc, op_signature
from .compose import apply

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["SymbolFunction", "symbol_function", "lookup"]

SymbolFunction: TypeAlias = "Callable[..., Symbol]"  # type: ignore[explicit-any]
"""A function that applies an op; `_op_stubs` declares the parameters of each."""


@cache
def symbol_function(name: str, shown: str | None = None, module: str = "nbmod.symbol"
                    ) -> SymbolFunction:
    """The function that applies op `name` to symbols; automatic names begin with `shown`."""
    from .symbol import Symbol

    op = OPS.find(name)
    shown = shown or name
    hint = shown.lower()

    def function(*args: object, **kwargs: object) -> Symbol:
        return Symbol(apply(op, args, kwargs, hint, Symbol))

    function.__name__ = function.__qualname__ = shown
    function.__module__ = module
    function.__doc__ = op_doc(op, "symbol")
    function.__signature__ = op_signature(op, "symbol")  # type: ignore[attr-defined]
    return function


def lookup(module: str, prefixes: tuple[str, ...],
           accept: Callable[[str], bool] = lambda name: not name.startswith("_")
           ) -> tuple[Callable[[str], SymbolFunction | list[str]], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose functions are ops named `<prefix><function>`.

    A module without a list `__all__` of its own has one of its ops, as in MXNet.  The first prefix
    that gives an op is used.  The module offers the names that `accept` selects.
    """

    def get(name: str) -> SymbolFunction | list[str]:
        if not name.startswith("__") and accept(name):
            for prefix in prefixes:
                if prefix + name in OPS:
                    return symbol_function(prefix + name, name, module)
                if (absent := absent_function(prefix + name)) is not None:
                    return absent
        if name == "__all__":
            return listing()
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def listing() -> list[str]:
        names = {name[len(prefix):] for name in OPS for prefix in prefixes
                 if name.startswith(prefix)}
        return sorted(filter(accept, names))

    return get, listing
