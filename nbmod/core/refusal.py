"""Modules that can be imported and refuse the use of their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..base import MXNetError

__all__ = ["refuse_names"]


def refuse_names(module: str, reason: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module whose names raise an MXNetError with a reason."""
    shown = "mx." + module.partition(".")[2]

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise MXNetError(f"{shown}.{name}: {reason}")

    return refuse
