"""Attributes for every symbol made inside a `with` statement; see `AttrScope`."""

from __future__ import annotations

import threading
from collections.abc import Mapping

__all__ = ["AttrScope"]


class _Current(type):
    """Gives the class its `current`: the scope in charge in this thread."""

    _current = threading.local()

    @property
    def current(cls) -> AttrScope:
        if not hasattr(_Current._current, "value"):
            _Current._current.value = AttrScope()
        return _Current._current.value

    @current.setter
    def current(cls, scope: AttrScope) -> None:
        _Current._current.value = scope


class AttrScope(metaclass=_Current):
    """Attributes for every symbol that is made inside a `with` statement.

    Parameters
    ----------
    **kwargs : str
        Attributes by name.  `ctx_group`, `lr_mult`, `wd_mult`, `force_mirroring` and `mirror_stage`
        are the framework's; others should look like `__mine__`.

    Raises
    ------
    ValueError
        If a value is not a str.

    Notes
    -----
    A scope inside another adds to it and takes precedence where both have the same key; attributes
    of a symbol itself take precedence over both.

    Examples
    --------
    >>> import nbmod as mx
    >>> with mx.AttrScope(ctx_group="stage1", lr_mult="0.1"):
    ...     weight = mx.sym.Variable("weight")
    >>> weight.attr("ctx_group"), weight.attr("lr_mult")
    ('stage1', '0.1')
    """

    def __init__(self, **kwargs: str):
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"AttrScope: {key} is {value!r}, expected text")
        self._attr = dict(kwargs)
        self._outer: list[AttrScope] = []

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """The scope's attributes, together with others that take precedence.

        Parameters
        ----------
        attr : dict of str to str or None
            The others.

        Returns
        -------
        dict of str to str
            All of them.
        """
        return {**self._attr, **attr} if attr else dict(self._attr)

    def __enter__(self) -> AttrScope:
        self._outer.append(AttrScope.current)
        self._attr = {**AttrScope.current._attr, **self._attr}
        AttrScope.current = self
        return self

    def __exit__(self, *exc: object) -> None:
        AttrScope.current = self._outer.pop()
