"""Automatic names.  They are part of the API: scripts look up `_plus12_output`.

A name is a hint (the op's name as it was called, in lower case) and a number that counts up from 0
per hint and per manager.  The manager of the innermost `with` statement of the thread decides; each
thread starts with a manager of its own.
"""

from __future__ import annotations

import threading

__all__ = ["NameManager", "Prefix"]


class _Current(type):
    """Gives the classes their `current`: the manager in charge in this thread."""

    _current = threading.local()

    @property
    def current(cls) -> NameManager:
        if not hasattr(_Current._current, "value"):
            _Current._current.value = NameManager()
        return _Current._current.value

    @current.setter
    def current(cls, manager: NameManager) -> None:
        _Current._current.value = manager


class NameManager(metaclass=_Current):
    """Names nodes; in a `with` statement it names every node that is made inside.

    Notes
    -----
    The counters are kept after the block, so entering the same manager again continues them.

    Examples
    --------
    >>> import nbmod as mx
    >>> with mx.name.NameManager():
    ...     x = mx.sym.Variable("x")
    ...     (mx.sym.relu(x).name, mx.sym.relu(x).name)
    ('relu0', 'relu1')
    """

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._outer: list[NameManager] = []

    def get(self, name: str | None, hint: str) -> str:
        """The name of a node.

        Parameters
        ----------
        name : str or None
            The name that the user gave, which is returned if it is not empty.
        hint : str
            What an automatic name begins with; a number follows.

        Returns
        -------
        str
            The name.
        """
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self) -> NameManager:
        self._outer.append(NameManager.current)
        NameManager.current = self
        return self

    def __exit__(self, *exc: object) -> None:
        NameManager.current = self._outer.pop()


class Prefix(NameManager):
    """A manager that prepends a prefix to the name of every operator, given or automatic.

    Parameters
    ----------
    prefix : str
        The prefix.

    Examples
    --------
    >>> import nbmod as mx
    >>> with mx.name.Prefix("net_"):
    ...     mx.sym.relu(mx.sym.Variable("x"), name="first").name
    'net_first'
    """

    def __init__(self, prefix: str):
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)
