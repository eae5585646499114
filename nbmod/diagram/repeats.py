"""Find stretches of a sequence of layers that repeat: `x 3` in a drawing.

A layer has a kind and reads layers before it, by position, or sources, by negative numbers.  Two
layers at a distance `period` correspond if they are of one kind and each input of the second is
that of the first, or the layer `period` after it, or a source of the same kind.  Where this holds
for at least `period` layers in sequence, the stretch consists of copies.  The first copy may also
read from outside what the others read from the copy before them, as the first step of an unrolled
recurrent network does.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..base import Array

__all__ = ["Layers", "RepeatedBlock", "find_repeats"]

LOOKAHEAD = 4
"""Distances to so many later layers of one kind are possible periods."""
PERIODS = 40
"""So many periods are tried, the most frequent distances."""
WORTH = 3
"""Fewer layers are not folded away."""


class Layers(NamedTuple):
    """The sequence: names, kinds and inputs of layers, and the kinds of the sources ~0, ~1, ..."""

    names: Sequence[str]
    kinds: Sequence[Hashable]
    reads: Sequence[Sequence[int]]
    sources: Sequence[Hashable] = ()

    def correspond(self, first: int, second: int) -> bool:
        """Whether two layers do the same on corresponding inputs."""
        a, b = self.reads[first], self.reads[second]
        return len(a) == len(b) and all(
            x == y or (y - x == second - first if min(x, y) >= 0 else self._alike(x, y))
            for x, y in zip(a, b, strict=True))

    def _alike(self, x: int, y: int) -> bool:
        return max(x, y) < 0 and self.sources[~x] == self.sources[~y]

    def begins(self, start: int, period: int) -> bool:
        """Whether a first copy is at `start`: it reads from outside what the others carry over."""
        return start >= 0 and all(
            self.kinds[at] == self.kinds[at + period]
            and len(self.reads[at]) == len(self.reads[at + period])
            and all(x == y or (x >= 0 and y - x == period) or (x < start <= y < start + period)
                    or self._alike(x, y)
                    for x, y in zip(self.reads[at], self.reads[at + period], strict=True))
            for at in range(start, start + period))

    def readers(self) -> list[list[int]]:
        """The layers that read each layer."""
        readers: list[list[int]] = [[] for _ in self.kinds]
        for at, sources in enumerate(self.reads):
            for source in sources:
                if source >= 0:
                    readers[source].append(at)
        return readers


class RepeatedBlock(NamedTuple):
    """`copies` of `period` layers each, from layer `start` on."""

    start: int
    period: int
    copies: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.copies


def find_repeats(layers: Layers) -> list[RepeatedBlock]:
    """Repeats that do not overlap, those that fold most layers away first; sorted by position."""
    numbers: dict[Hashable, int] = {}
    kinds = np.array([numbers.setdefault(kind, len(numbers)) for kind in layers.kinds], np.int64)
    heap = [(_worth(stop - start, period), start, stop, period)
            for period in _periods(kinds) for start, stop in _runs(layers, kinds, period)]
    heapq.heapify(heap)
    free, repeats, readers = np.ones(len(kinds), bool), list[RepeatedBlock](), layers.readers()
    while heap:
        _, start, stop, period = heapq.heappop(heap)
        pieces = [(a, b) for a, b in _stretches(free[start:stop], start) if b - a >= 2 * period]
        if pieces != [(start, stop)]:
            for a, b in pieces:
                heapq.heappush(heap, (_worth(b - a, period), a, b, period))
            continue
        repeat = _aligned(layers, start, stop, period)
        if layers.begins(repeat.start - period, period) and free[
                max(0, repeat.start - period):repeat.start].all():
            repeat = RepeatedBlock(repeat.start - period, period, repeat.copies + 1)
        if period * (repeat.copies - 1) >= WORTH and _leaves_alike(repeat, readers):
            free[repeat.start:repeat.stop] = False
            repeats.append(repeat)
    return sorted(repeats)


def _leaves_alike(repeat: RepeatedBlock, readers: Sequence[Sequence[int]]) -> bool:
    """Whether layers outside read the same of each copy; of the last one, perhaps more."""
    start, period, stop = repeat.start, repeat.period, repeat.stop
    outer = [{at - first for at in range(first, first + period)
              if any(reader >= stop for reader in readers[at])}
             for first in range(start, stop, period)]
    return all(each == outer[0] for each in outer[:-1]) and outer[0] <= outer[-1]


def _worth(length: int, period: int) -> tuple[int, int]:
    """Most layers folded away first, then the shortest period."""
    return -(length // period - 1) * period, period


def _periods(kinds: Array) -> list[int]:
    """Distances between layers of one kind, the most frequent ones."""
    order = np.argsort(kinds, kind="stable")
    gaps = Counter[int]()
    for step in range(1, LOOKAHEAD + 1):
        same = kinds[order[:-step]] == kinds[order[step:]]
        gaps.update((order[step:] - order[:-step])[same].tolist())
    return [gap for gap, _ in gaps.most_common(PERIODS)]


def _runs(layers: Layers, kinds: Array, period: int) -> Iterator[tuple[int, int]]:
    """Maximal stretches, of at least two copies, that repeat themselves after `period` layers."""
    alike = kinds[:-period] == kinds[period:]
    for at in np.flatnonzero(alike).tolist():
        alike[at] = layers.correspond(at, at + period)
    yield from ((start, stop + period) for start, stop in _stretches(alike, 0)
                if stop - start >= period)


def _stretches(flags: Array, offset: int) -> list[tuple[int, int]]:
    """Where flags are set without a gap, as (start, stop)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))) + offset
    return [*zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]


def _aligned(layers: Layers, start: int, stop: int, period: int) -> RepeatedBlock:
    """The copies in a stretch, whose length need not be a multiple of the period.

    A copy begins where the fewest layers are read across its border; then where names of a copy
    have most in common; then as late as possible.
    """
    def cost(at: int) -> tuple[int, int, int]:
        inside = range(at, at + period)
        outer = {source for i in inside for source in layers.reads[i] if source < at}
        return len(outer), -len(os.path.commonprefix([layers.names[i] for i in inside])), -at

    slack = (stop - start) % period
    return RepeatedBlock(min(range(start, start + slack + 1), key=cost), period,
                  (stop - start) // period)
