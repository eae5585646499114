"""A model of a step of distributed training: a timeline of one process, and a link.

Buckets and owners are those that the store chooses for a number of ranks.  The model knows of one
clock that computes and one that exchanges:

    forward    waits where it reads a parameter whose bucket has not arrived
    backward   hands on a bucket when its last gradient is final; reduce-scatters follow each other
    update     begins when the backward pass and all reduce-scatters have ended; a rank updates
               what it owns; then all-gathers follow each other, in the order of reads

All ranks are taken to compute equally fast.  Work of the host on exchanged bytes (packing, sums,
copies) is part of the exchange.  It is done by cores that also compute, so the timeline is to be
one that is slowed down by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from nbmod.core.config import CONFIG
from nbmod.kvstore.distributed.bucket import BucketKey, buckets_of
from nbmod.kvstore.distributed.overlap import BUCKET_BYTES, FIRST_BUCKET_BYTES
from nbmod.kvstore.distributed.row_ranges import OwnerChoice, elements_by_rank

from .throttled import Link
from .timelines import Timeline

__all__ = ["HostCost", "StepModel"]

ITEMSIZE = 4
SETTLED = 4
"""Steps after which one is like the one before."""


@dataclass(frozen=True)
class HostCost:
    """Seconds of the host for a byte of gradients that is reduced, and of values gathered."""

    reduce: float = 0.0
    gather: float = 0.0

    def of(self, timeline: Timeline) -> float:
        """Seconds for all parameters of a timeline."""
        elements = sum(prod(shape) for shape in timeline.shapes.values())
        return ITEMSIZE * elements * (self.reduce + self.gather)


@dataclass(frozen=True)
class Leg:
    """A bucket: when it is first read and when it is final, and the seconds of its exchanges."""

    read: float
    final: float
    reduce: float
    gather: float


class StepModel:
    """Predicts steps of ranks that train as a timeline says.

    Parameters
    ----------
    timeline : Timeline
        A step of one process.
    ranks : int
        How many there are.
    link : Link
        That of each.
    host : HostCost
        Work on exchanged bytes.
    """

    def __init__(self, timeline: Timeline, ranks: int, link: Link, host: HostCost = HostCost()):
        self._timeline, self._ranks, self._link, self._host = timeline, ranks, link, host
        self.buckets = _buckets(timeline, ranks)
        self.legs = [self._leg(part) for part in self.buckets]
        owned = [sum(counts) for counts in zip(*map(_counts, self.buckets), strict=True)]
        self._share = max(owned) / sum(owned)

    def _leg(self, keys: Sequence[BucketKey]) -> Leg:
        names, counts = [str(key.name) for key in keys], _counts(keys)
        sizes = [ITEMSIZE * count for count in counts]
        whole, others = sum(sizes), self._ranks - 1
        reduce = max(self._link.alltoallv(self._ranks, whole - own, others * own) for own in sizes)
        gather = self._link.allgatherv(self._ranks, max(sizes))
        return Leg(min(self._timeline.reads[name] for name in names),
                   max(self._timeline.finals[name] for name in names),
                   reduce + self._host.reduce * whole, gather + self._host.gather * whole)

    @property
    def exchange(self) -> float:
        """Seconds of all exchanges of a step."""
        return sum(leg.reduce + leg.gather for leg in self.legs)

    @property
    def alone(self) -> float:
        """Seconds of a step of ranks that exchange nothing, but update only what they own."""
        return self._timeline.step - (1 - self._share) * self._timeline.update

    def seconds(self) -> float:
        """Seconds of a step."""
        arrivals, began, exchanging = [0.0] * len(self.legs), 0.0, 0.0
        for _ in range(SETTLED):
            before = began
            began, exchanging, arrivals = self._step(began, exchanging, arrivals)
        return began - before

    @property
    def hidden(self) -> float:
        """Share of the exchange that takes no time."""
        return 1 - (self.seconds() - self.alone) / self.exchange

    def _step(self, began: float, exchanging: float, arrivals: Sequence[float]
              ) -> tuple[float, float, list[float]]:
        """One step: when the next begins, when the exchange is idle, and when buckets arrive."""
        for leg, arrival in sorted(zip(self.legs, arrivals, strict=True),
                                   key=lambda pair: pair[0].read):
            began = max(began, arrival - leg.read)
        for leg in self.legs:
            exchanging = max(exchanging, began + leg.final) + leg.reduce
        ready = max(began + self._timeline.backward, exchanging)
        updated = ready + self._share * self._timeline.update
        exchanging = updated
        found = [0.0] * len(self.legs)
        for number in sorted(range(len(self.legs)), key=lambda one: self.legs[one].read):
            exchanging += self.legs[number].gather
            found[number] = exchanging
        rest = self._timeline.step - self._timeline.backward - self._timeline.update
        agreement = self._link.allgather(self._ranks, 1)    # whether all have another batch
        return updated + rest + agreement, exchanging, found


def _counts(keys: Sequence[BucketKey]) -> list[int]:
    """Elements that each rank owns of a bucket."""
    each = [elements_by_rank(key.bounds, key.shape) for key in keys]
    return [sum(counts) for counts in zip(*each, strict=True)]


def _buckets(timeline: Timeline, ranks: int) -> list[list[BucketKey]]:
    """Buckets of float32 parameters, in the order in which they are exchanged."""
    choose = OwnerChoice(ranks, CONFIG.bigarray_bound)
    keys = [BucketKey(name, shape, choose(shape, False))
            for name, shape in timeline.shapes.items()]

    def final(key: BucketKey) -> float:
        return timeline.finals[str(key.name)]

    found = buckets_of(sorted(keys, key=final), ITEMSIZE, [FIRST_BUCKET_BYTES, BUCKET_BYTES])
    return sorted(found, key=lambda part: max(map(final, part)))
