"""The assembly of compiled functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["assemblies", "assembly"]


def assemblies(dispatcher: Any) -> Iterator[str]:
    """The assembly for every signature of a numba dispatcher."""
    return (assembly(dispatcher, signature) for signature in dispatcher.signatures)


def assembly(dispatcher: Any, signature: Any) -> str:
    """The assembly of a numba dispatcher for types of arguments.

    It is compiled once more: caches keep machine code only.
    """
    from numba.core.caching import NullCache

    fresh = type(dispatcher)(dispatcher.py_func, locals=dispatcher.locals,
                             targetoptions=dict(dispatcher.targetoptions),
                             pipeline_class=dispatcher._compiler.pipeline_class)
    fresh._cache = NullCache()
    fresh.compile(signature)
    text: str = fresh.inspect_asm(fresh.signatures[0])
    return text
