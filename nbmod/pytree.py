"""Nested lists of tensors, as loops take and return them: `x`, `[x, y]`, `[x, [y, z]]`.

`flatten` takes one apart into its tensors and its structure, a nested list of None; `regroup` puts
tensors together again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .base import ArgumentError

__all__ = ["flatten", "regroup"]


def flatten(value: Any, kind: type, what: str) -> tuple[list[Any], Any]:
    """The tensors of `value`, all of type `kind`, and its structure.

    Raises ArgumentError, which starts with `what`, for anything else.
    """
    if isinstance(value, kind):
        return [value], None
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"{what}: a {type(value).__name__} is given, expected a {kind.__name__}"
                            f" or a (nested) list of them")
    parts = [flatten(item, kind, what) for item in value]
    return [tensor for tensors, _ in parts for tensor in tensors], [shape for _, shape in parts]


def regroup(tensors: Iterable[Any], structure: Any) -> Any:
    """`tensors` in that structure."""
    waiting = iter(tensors)

    def take(part: Any) -> Any:
        return next(waiting) if part is None else [take(inner) for inner in part]

    return take(structure)
