"""Attributes for every symbol made inside a `with` statement; see `AttrScope`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from ..base import wrong_type
from ..core.scope import Scope

__all__ = ["AttrScope"]
__dir__ = __all__.copy


class AttrScope(Scope):
    """Attributes for every symbol that is made inside a `with` statement.

    Parameters
    ----------
    **kwargs : str
        Attributes by name.  `ctx_group`, `lr_mult`, `wd_mult`, `force_mirroring` and `mirror_stage`
        are reserved; other names should have the form `__name__`.

    Raises
    ------
    ValueError
        If a value is not a str.

    Notes
    -----
    Scopes nest: an inner scope overrides attributes of the outer one, and attributes that are
    given to a symbol override both.

    Examples
    --------
    >>> with mx.AttrScope(ctx_group="stage1", lr_mult="0.1"):
    ...     weight = mx.sym.Variable("weight")
    >>> weight.attr("ctx_group"), weight.attr("lr_mult")
    ('stage1', '0.1')
    """

    current: ClassVar[AttrScope]
    """The innermost scope of the calling thread."""

    _subgraph_names: ClassVar[Counter[str]] = Counter()
    """How many subgraphs of loops and branches have each name (MXNet keeps them here, too)."""

    def __init__(self, **kwargs: str):
        super().__init__()
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"AttrScope: {key} is {value!r}, expected text")
        self._attr = dict(kwargs)

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """The scope's attributes merged with those of a symbol, which take precedence.

        Parameters
        ----------
        attr : dict of str to str or None
            Attributes of the symbol.

        Raises
        ------
        ArgumentTypeError
            If `attr` is not a dict of names, such as another type of object.
        """
        if attr is not None and not (isinstance(attr, Mapping)
                                     and all(isinstance(name, str) for name in attr)):
            raise wrong_type("attr", attr, "a dict of text by names")
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> AttrScope:
        self._attr = {**AttrScope.current._attr, **self._attr}
        return super().__enter__()
