"""Helpers that kernels call, and how a kernel's module gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .compiler import numba_package
from .linkage import linked

__all__ = ["FASTMATH", "Inlined", "inlined", "link", "prange"]

FASTMATH = {"contract", "nsz", "arcp", "afn", "reassoc"}
"""Relaxations kernels may opt into: no assumption that NaN or infinity cannot occur."""

prange = range
"""Placeholder until numba is imported; `link` puts numba's own into the kernels' modules."""


def link(namespace: dict[str, Any]) -> None:
    """Replace the placeholders in the module of a kernel by numba's own functions."""
    for name, value in list(namespace.items()):
        if isinstance(value, Inlined):
            namespace[name] = value.compile()
        elif value is range and name == "prange":
            namespace[name] = numba_package().prange


class Inlined:
    """A helper of kernels; compiled when the first kernel that calls it is."""

    def __init__(self, function: Callable, fastmath: bool = False, always: bool = False):
        self.function = function
        self.fastmath = FASTMATH if fastmath else False
        self.always = always
        self.fingerprint_parts: tuple = (function, fastmath, always)
        self._compiled: Any = None

    def compile(self) -> Any:
        if self._compiled is None:
            self._compiled = linked(self.function, fastmath=self.fastmath, nogil=True,
                                    error_model="numpy", inline="never", forceinline=self.always)
            self._compiled.fingerprint_parts = self.fingerprint_parts
            link(self.function.__globals__)
        return self._compiled

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


def inlined(function: Callable | None = None, *, fastmath: bool = False, always: bool = False
            ) -> Any:
    """Decorator of helpers that kernels call.

    always: even where LLVM finds them too large.
    """
    if function is None:
        return lambda f: Inlined(f, fastmath, always)
    return Inlined(function, fastmath, always)
