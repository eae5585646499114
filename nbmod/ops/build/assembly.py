"""The assembly of compiled functions, and the intermediate representation before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["ModuleText", "assemblies", "assembly", "module_text"]


class ModuleText(NamedTuple):
    """A compiled function with what is inlined into it, as LLVM writes it."""

    intermediate: str
    """After optimization."""
    assembly: str


def assemblies(dispatcher: Any) -> Iterator[str]:
    """The assembly for every signature of a numba dispatcher."""
    return (assembly(dispatcher, signature) for signature in dispatcher.signatures)


def assembly(dispatcher: Any, signature: Any) -> str:
    """The assembly of a numba dispatcher for types of arguments."""
    return module_text(dispatcher, signature).assembly


def module_text(dispatcher: Any, signature: Any) -> ModuleText:
    """The texts of a numba dispatcher for types of arguments.

    It is compiled once more: caches keep machine code only.
    """
    from numba.core.caching import NullCache

    fresh = type(dispatcher)(dispatcher.py_func, locals=dispatcher.locals,
                             targetoptions=dict(dispatcher.targetoptions),
                             pipeline_class=dispatcher._compiler.pipeline_class)
    fresh._cache = NullCache()
    fresh.compile(signature)
    return ModuleText(fresh.inspect_llvm(fresh.signatures[0]),
                      fresh.inspect_asm(fresh.signatures[0]))
