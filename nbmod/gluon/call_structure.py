"""The structure of arguments and results: nested lists, as flat lists and MXNet's formats of them.

A format is a nested list of 0 for an array, -1 for None, and n for a symbol of n outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from ..base import ArgumentError
from ..context import Context, computing
from ..ndarray import NDArray
from ..symbol import Symbol

__all__ = ["Format", "agree", "devices_of", "facts_of", "flatten", "regroup"]

Format: TypeAlias = "int | list[Format]"
Flat = list[Any]  # arrays, symbols and None

_LONGEST = 80
"""Characters of an argument that errors show."""


def flatten(value: Any, what: str) -> tuple[Flat, Format]:
    """Return the arrays, symbols and None in nested lists, and the format of these.

    Parameters
    ----------
    value : NDArray, Symbol, None or a nested list
        Arguments or results.
    what : {'input', 'output'}
        Which of them, for the error.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(value, NDArray):
        return [value], 0
    if isinstance(value, Symbol):
        count = len(value)
        return [value], count if count > 1 else 0
    if value is None:
        return [None], -1
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"When hybridized, the input of HybridBlock {what} must be (nested) "
                            f"list of Symbol or NDArray, but got {str(value)[:_LONGEST]} of type "
                            f"{type(value)}")
    flat: Flat = []
    formats: list[Format] = []
    for each in value:
        inner, form = ([each], 0) if isinstance(each, NDArray) else flatten(each, what)
        flat += inner
        formats.append(form)
    return flat, formats


def regroup(flat: Sequence[Any], form: Format) -> Any:
    """Return a flat list as nested lists of a format; a symbol of n outputs takes n elements.

    Parameters
    ----------
    flat : list
        Arrays or symbols in the places of those that `flatten` returned, without None.
    form : Format
        Format.
    """
    return _regroup(iter(flat), form)


def _regroup(flat: Iterator[Any], form: Format) -> Any:
    if isinstance(form, list):
        return [_regroup(flat, each) for each in form]
    if form == -1:
        return None
    return next(flat) if form == 0 else [next(flat) for _ in range(form)]


def agree(form: Format, other: Format) -> bool:
    """Return whether two formats are equal but for None at the end.

    Parameters
    ----------
    form, other : Format
        Formats of the arguments of two calls.
    """
    return form == other or _stripped(form) == _stripped(other)


def _stripped(form: Format) -> Format:
    while isinstance(form, list) and form[-1:] == [-1]:
        form = form[:-1]
    return form


def devices_of(args: Sequence[Any]) -> list[Context]:
    """Return the devices that compute with the arrays in arguments, in order; none for symbols.

    Parameters
    ----------
    args : sequence
        Arguments; in nested lists of these, other values are passed over.

    Raises
    ------
    ValueError
        If there are arrays and symbols, or neither.
    """
    contexts: list[Context] = []
    has_symbols = False
    waiting = [*args]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, NDArray):
            if (ctx := computing(value._ctx)) not in contexts:
                contexts.append(ctx)
        elif isinstance(value, Symbol):
            has_symbols = True
        elif isinstance(value, (list, tuple)):
            waiting[:0] = value
    if has_symbols == bool(contexts):
        start = ("we do not support mixed NDArrays and Symbols types for the input"
                 if has_symbols else "there must be one NDArray or one Symbol in the input")
        hint = "" if has_symbols else "; mx.nd.array makes arrays of numbers, lists and NumPy's"
        raise ArgumentError(f"In HybridBlock, {start}. Please check the type of the args: "
                            f"{list(map(_type_name, args))}{hint}")
    return contexts


def _type_name(value: object) -> str:
    """`numpy.ndarray`, or the name alone of a type of Python or of this package."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    own = package in ("builtins", __name__.partition(".")[0])
    return kind.__name__ if own else f"{package}.{kind.__name__}"


def facts_of(inputs: list[Symbol], args: tuple[Any, ...], outputs: Symbol, fact: str
              ) -> dict[str, Any]:
    """Shapes or types of those inputs that a symbol uses, by name."""
    arrays = [each for each in flatten(args, "input")[0] if each is not None]
    used = {*outputs.list_inputs()}
    return {str(variable.name): getattr(array, fact)
            for variable, array in zip(inputs, arrays, strict=True) if variable.name in used}
