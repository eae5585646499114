"""Samplers: `IntervalSampler`."""

from __future__ import annotations

from collections.abc import Iterator

from ....base import CheckError
from ...data.sampler import Sampler

__all__ = ["IntervalSampler"]
__dir__ = __all__.copy


class IntervalSampler(Sampler):
    """Indices at equal distances, such as for batches of neighbouring parts of a text.

    Parameters
    ----------
    length : int
        Number of indices, from 0 on.
    interval : int
        Distance of two indices.
    rollover : bool, default True
        Whether the indices that were left out follow, from the first of them on.

    Raises
    ------
    AssertionError
        If `interval` is larger than `length`, or less than 1.

    Examples
    --------
    >>> list(mx.gluon.contrib.data.IntervalSampler(8, interval=3))
    [0, 3, 6, 1, 4, 7, 2, 5]
    >>> list(mx.gluon.contrib.data.IntervalSampler(8, interval=3, rollover=False))
    [0, 3, 6]
    """

    def __init__(self, length: int, interval: int, rollover: bool = True):
        if not 1 <= interval <= length:
            raise CheckError(f"Interval {interval} must be smaller than or equal to length "
                             f"{length}, and at least 1")
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else -(-self._length // self._interval)
