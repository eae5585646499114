"""Options of MXNet's asynchronous engine, accepted for compatibility: nbmod runs synchronously.

`set_bulk_size` and `bulk` group operations that MXNet's engine runs as one; there is nothing to
group here, so they only store the number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import index

__all__ = ["set_bulk_size", "bulk"]
__dir__ = __all__.copy

_bulk_size = 0


def set_bulk_size(size: int) -> int:
    """Store the number of operations to run as one, without effect; returns that before.

    Parameters
    ----------
    size : int
        The number.

    Examples
    --------
    >>> before = mx.engine.set_bulk_size(10)
    >>> mx.engine.set_bulk_size(before)
    10
    """
    global _bulk_size
    before, _bulk_size = _bulk_size, index(size)
    return before


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """A block with another bulk size; accepted for compatibility, without effect.

    Parameters
    ----------
    size : int
        The number of operations to run as one.

    Examples
    --------
    >>> with mx.engine.bulk(10):
    ...     x = mx.nd.ones(2) + 1
    """
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
