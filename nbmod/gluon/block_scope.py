"""Prefixes of blocks: a block made within another's scope has the names of that one before its own.

Counters of a scope belong to its block, so that a block's children are named alike wherever it is
made; without a scope the thread's `NameManager` counts.
"""

from __future__ import annotations

from types import NoneType
from typing import ClassVar, Protocol

from ..base import wrong_type
from ..core.scope import Scope
from ..symbol.name import NameManager, Prefix
from .parameter_dict import ParameterDict

__all__ = ["BlockScope"]


class Named(Protocol):
    """Facts that a scope needs of its block."""

    _empty_prefix: bool

    @property
    def prefix(self) -> str:
        """Beginning of the names of all that is inside."""

    @property
    def params(self) -> ParameterDict:
        """The block's own parameters."""


class BlockScope(Scope):
    """Names blocks, parameters and nodes that are made inside, after those of a block."""

    current: ClassVar[BlockScope]
    """The innermost scope of the calling thread."""

    def __init__(self, block: Named | None = None):
        super().__init__()
        self._block = block
        self._counter: dict[str, int] = {}
        self._managers: list[NameManager] = []

    def __enter__(self) -> BlockScope:
        if self._block is None or self._block._empty_prefix:
            return self
        self._managers.append(Prefix(self._block.prefix).__enter__())
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        if self._block is not None and not self._block._empty_prefix:
            super().__exit__(*exc)
            self._managers.pop().__exit__(*exc)

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str
               ) -> tuple[str, ParameterDict]:
        """Return prefix and parameters of a block that is made in the current scope.

        Parameters
        ----------
        prefix : str or None
            Own part of the prefix; by default the hint with a counter.
        params : ParameterDict or None
            Parameters to share, under their names.
        hint : str
            Kind of block.

        Raises
        ------
        TypeError
            If prefix or parameters are something else.
        """
        if not isinstance(prefix, (str, NoneType)):
            raise wrong_type("prefix", prefix, "text; a container takes blocks by add(...)")
        if params is not None and not hasattr(params, "_shared"):
            raise wrong_type("params", params, "parameters to share, such as other.params")
        scope = BlockScope.current
        parent = scope._block
        if prefix is None:
            prefix = (NameManager.current.get(None, hint) if parent is None
                      else scope._next(hint)) + "_"
        whole = prefix if parent is None else parent.prefix + prefix
        if params is not None:
            return whole, ParameterDict(params.prefix, params)
        if parent is None:
            return whole, ParameterDict(whole)
        return whole, ParameterDict(parent.params.prefix + prefix, parent.params._shared)

    def _next(self, hint: str) -> str:
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"
