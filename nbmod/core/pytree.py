"""Nested lists of tensors (pytrees) in control flow: `x`, `[x, y]`, `[x, [y, z]]`.

`flatten` returns the tensors and the structure, a nested list of None; `unflatten` is its inverse.
`outputs_and_states` splits what the body of a loop returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from ..base import ArgumentError, CheckError

__all__ = ["LoopFunction", "Nested", "Structure", "flatten", "outputs_and_states", "unflatten"]

T = TypeVar("T")
Nested: TypeAlias = Any  # type: ignore[explicit-any]
"""A tensor or a nested list of tensors.  Any: users index what they know to be a list."""
Structure: TypeAlias = "list[Structure] | None"
LoopFunction: TypeAlias = Callable[..., Nested]  # type: ignore[explicit-any]
"""A function of the loop variables, however many there are."""


def flatten(value: Nested, kind: type[T], what: str) -> tuple[list[T], Structure]:
    """The tensors of `value`, all of type `kind`, and its structure.

    Raises ArgumentError, which starts with `what`, for anything else.
    """
    if isinstance(value, kind):
        return [value], None
    if not isinstance(value, (list, tuple)):
        raise CheckError(f"{what}: a {type(value).__name__} is given, expected a {kind.__name__}"
                         f" or a (nested) list of them")
    parts = [flatten(item, kind, what) for item in value]
    return [tensor for tensors, _ in parts for tensor in tensors], [shape for _, shape in parts]


def unflatten(tensors: Iterable[Nested], structure: Structure) -> Nested:
    """`tensors` in that structure."""
    remaining = iter(tensors)

    def build(part: Structure) -> Nested:
        return next(remaining) if part is None else [build(inner) for inner in part]

    return build(structure)


def outputs_and_states(where: str, result: object) -> tuple[Nested, Nested]:
    """Both parts of what the body of a loop returns; ArgumentError for anything but a pair."""
    if not isinstance(result, (list, tuple)) or len(result) != 2:
        raise ArgumentError(f"{where}: the body must return two things, its outputs and the next "
                            f"states; given a {type(result).__name__}")
    return result[0], result[1]
