"""Which rank owns which rows of a key.

A key's array is partitioned by rows, its first axis: rank k owns the rows from `bounds[k]` to
`bounds[k + 1]`, sums their gradients and performs their updates, so that each optimizer state is
stored by one rank only (as in ZeRO stage 1; Rajbhandari et al., "ZeRO: memory optimizations toward
training trillion parameter models", 2020).  Small arrays have a single owner, that with the fewest
elements so far; larger ones are cut evenly, unless the optimizer needs whole arrays (norms of
layers, or an `update` of the user's).  Small are arrays of up to MXNET_KVSTORE_BIGARRAY_BOUND
elements on two ranks, and of fewer on more: an owner receives an array from every other rank, so
that a bound which did not fall would keep its link busy for longer the more ranks there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

__all__ = ["Bounds", "OwnerChoice", "Span", "elements_by_rank", "even_bounds", "whole_bounds"]

Span: TypeAlias = "slice[int, int, None]"
"""Rows or elements from a start to a stop."""
Bounds = tuple[int, ...]
"""First row of every rank, and the number of rows; as many as there are ranks, and one."""


def even_bounds(rows: int, ranks: int) -> Bounds:
    """Rows in equal parts.

    Examples
    --------
    >>> even_bounds(10, 4)
    (0, 2, 5, 7, 10)
    """
    return tuple(rows * rank // ranks for rank in range(ranks + 1))


def whole_bounds(rows: int, ranks: int, owner: int) -> Bounds:
    """All rows with one owner.

    Examples
    --------
    >>> whole_bounds(10, 4, owner=1)
    (0, 0, 10, 10, 10)
    """
    return tuple(rows if rank > owner else 0 for rank in range(ranks + 1))


def elements_by_rank(bounds: Bounds, shape: Sequence[int]) -> list[int]:
    """Number of elements that each rank owns of an array.

    Examples
    --------
    >>> elements_by_rank((0, 2, 5), (5, 3))
    [6, 9]
    """
    row = prod(shape[1:])
    return [(stop - start) * row for start, stop in zip(bounds, bounds[1:], strict=False)]


class OwnerChoice:
    """Chooses owners; equal on all ranks, as keys are created in the same order.

    On two ranks an array of up to `bound` elements has a single owner.
    """

    def __init__(self, ranks: int, bound: int):
        self._ranks, self._bound = ranks, bound * 2 // max(ranks, 2)
        self._load = [0] * ranks

    def __call__(self, shape: Sequence[int], whole: bool, by_rows: bool = False) -> Bounds:
        """Return the bounds of a new array; `by_rows` (if it is sparse) cuts any size."""
        rows, size = (shape[0] if shape else 1), prod(shape)
        if not whole and rows > 1 and (by_rows or size > self._bound):
            return even_bounds(rows, self._ranks)
        owner = min(range(self._ranks), key=self._load.__getitem__)
        self._load[owner] += size
        return whole_bounds(rows, self._ranks, owner)
