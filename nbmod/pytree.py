"""Nested lists of tensors (pytrees) in control flow: `x`, `[x, y]`, `[x, [y, z]]`.

`flatten` returns the tensors and the structure, a nested list of None; `unflatten` is its inverse.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .base import ArgumentError

__all__ = ["flatten", "unflatten"]


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


def unflatten(tensors: Iterable[Any], structure: Any) -> Any:
    """`tensors` in that structure."""
    remaining = iter(tensors)

    def build(part: Any) -> Any:
        return next(remaining) if part is None else [build(inner) for inner in part]

    return build(structure)
