"""Automatic names of nodes.  They are part of the API: scripts look up `_plus12_output`.

A name is a hint (the operator's name as called, in lower case) followed by a counter from 0 per
hint and per manager.  The manager is that of the innermost `with` statement of the thread.
"""

from __future__ import annotations

from typing import ClassVar

from ..core.scope import Scope

__all__ = ["NameManager", "Prefix"]
__dir__ = __all__.copy


class NameManager(Scope):
    """Names nodes; in a `with` statement, it names every node that is made inside.

    Notes
    -----
    Counters persist: entering the same manager again continues them.

    Examples
    --------
    >>> with mx.name.NameManager():
    ...     x = mx.sym.Variable("x")
    ...     (mx.sym.relu(x).name, mx.sym.relu(x).name)
    ('relu0', 'relu1')
    """

    current: ClassVar[NameManager]
    """The innermost manager of the calling thread."""

    def __init__(self) -> None:
        super().__init__()
        self._counter: dict[str, int] = {}

    def get(self, name: str | None, hint: str) -> str:
        """The name of a node.

        Parameters
        ----------
        name : str or None
            Explicit name, returned unless empty.
        hint : str
            Prefix of an automatic name.
        """
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"


class Prefix(NameManager):
    """A manager that prepends a prefix to explicit and automatic names of operators.

    Parameters
    ----------
    prefix : str
        The prefix.

    Examples
    --------
    >>> with mx.name.Prefix("net_"):
    ...     mx.sym.relu(mx.sym.Variable("x"), name="first").name
    'net_first'
    """

    def __init__(self, prefix: str):
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)
