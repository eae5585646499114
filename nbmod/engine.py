"""MXNet's knobs for its engine, accepted: here work is done when a call returns.

`set_bulk_size` and `bulk` group operations that the engine runs as one; there is nothing to group,
so they only remember the number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import index

__all__ = ["set_bulk_size", "bulk"]

_bulk_size = 0


def set_bulk_size(size: int) -> int:
    """Remember how many operations to run as one; returns the number before."""
    global _bulk_size
    before, _bulk_size = _bulk_size, index(size)
    return before


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """A block with another bulk size."""
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
