"""Texts for people: tables, and reprs of a few lines, which are never an error.

They read what an object already has; nothing is computed, and no device is waited for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeVar

__all__ = ["aligned", "listed", "safe_repr", "shaped"]

_Self = TypeVar("_Self")


def safe_repr(describe: Callable[[_Self], str]) -> Callable[[_Self], str]:
    """Decorate a `__repr__`, which debuggers and error messages call at any time.

    In place of an error, of an object whose constructor has not ended, it returns the class's name.
    """
    @functools.wraps(describe)
    def text(self: _Self) -> str:
        try:
            return describe(self)
        except Exception:
            return f"<{type(self).__name__}, incomplete>"

    return text


def aligned(rows: Sequence[Sequence[str]], left: Container[int] = (0,)) -> list[str]:
    """The lines of a table, whose columns end at the right, those of the numbers `left` begin left.

    Examples
    --------
    >>> aligned([("a", "1"), ("bcd", "23")])
    ['a     1', 'bcd  23']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) if number in left else cell.rjust(width) for number,
                      (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in rows]


def listed(texts: Iterable[str], most: int = 4) -> str:
    """The first of some texts, separated by commas, and how many there are beside them.

    Examples
    --------
    >>> listed("abcdef", 2), listed("abc", 2)
    ('a, b and 4 more', 'a, b, c')
    """
    every = [*texts]
    if len(every) <= most + 1:
        return ", ".join(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"


def shaped(pairs: Iterable[tuple[str, Sequence[int]]]) -> str:
    """Names and shapes, as by `listed`.

    Examples
    --------
    >>> shaped([("data", (2, 3)), ("label", (2,))])
    'data (2, 3), label (2,)'
    """
    return listed(f"{name} {tuple(shape)}" for name, shape in pairs)
