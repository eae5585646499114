"""Prepared launches, started one by one or replayed as CUDA graphs.

A bound network launches the same kernels on the same memory in every run.  `Launcher` prepares the
launches of one step.  `GraphReplay` merges those of consecutive steps into a CUDA graph, which one
call of the driver starts; with `NBMOD_CUDA_GRAPHS=1` a `gpu(i)` does so for the forward pass and
for the backward pass.

Launches that may differ from run to run (`PerRun`: random streams, training or inference) are
queried before the graph starts.  Changed launches are updated in the graph; if their number or
their kernels change, the graph is built again.  A step that is not made of launches only, or that
reads results of earlier steps on the host, is not part of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from .launch import Launch, PerRun, Step, simulator_lock

if TYPE_CHECKING:
    from .driver import Card

__all__ = ["Launcher", "GraphReplay", "join"]


class Launcher:
    """The launches of a step.  Kernels are compiled on construction; calling it starts them.

    `holds`: keep references to the memory that the launches use.
    """

    def __init__(self, card: Card, steps: Sequence[Step], holds: bool = True):
        self.card, self.steps = card, steps
        self.starts = [_prepared(card, step, holds) if isinstance(step, Launch)
                       else DynamicLaunches(card, step) for step in steps]
        if not holds and self.is_fixed:
            self.steps = ()

    @property
    def is_fixed(self) -> bool:
        """Whether every run has the same launches."""
        return not any(isinstance(start, DynamicLaunches) for start in self.starts)

    @property
    def joins(self) -> bool:
        """Whether all launches are known before the preceding steps have run."""
        return all(isinstance(step, (Launch, PerRun)) for step in self.steps)

    def __call__(self) -> None:
        with simulator_lock:
            for start in self.starts:
                start()


class DynamicLaunches:
    """Launches that a function returns; they stay prepared while it returns the same list."""

    def __init__(self, card: Card, decide: PerRun | Callable[[], Sequence[Launch] | None]):
        self.card, self.decide = card, decide
        self.launches: Sequence[Launch] | None = ()
        self.starts: list[Any] = []

    def __call__(self) -> None:
        launches = self.decide()
        if launches is not self.launches:
            self.launches = launches
            self.starts = [_prepared(self.card, launch) for launch in launches or ()]
        for start in self.starts:
            start()


def _prepared(card: Card, launch: Launch, holds: bool = True) -> Any:
    launch.check()
    return card.prepare(launch, holds)


class GraphReplay:
    """The launches of several steps on one GPU as a CUDA graph."""

    def __init__(self, launchers: Sequence[Launcher]):
        self.card = launchers[0].card
        self.parts: list[Any] = [
            step if isinstance(step, PerRun) else start for launcher in launchers
            for start, step in zip(launcher.starts, launcher.steps, strict=True)]
        self.decided: list[Sequence[Launch]] = []
        self.graph: Any = None

    def __call__(self) -> None:
        with simulator_lock:
            decided = [part() for part in self.parts if isinstance(part, PerRun)]
            if self.graph is None or not self._update(decided):
                self._build(decided)
            self.decided = decided
            self.graph.launch()

    def _build(self, decided: Sequence[Sequence[Launch]]) -> None:
        later, starts, self.nodes = iter(decided), [], []
        for part in self.parts:
            if not isinstance(part, PerRun):
                starts.append(part)
                continue
            for launch in next(later):
                self.nodes.append(len(starts))
                starts.append(_prepared(self.card, launch))
        self.graph = self.card.graph(starts)

    def _update(self, decided: Sequence[Sequence[Launch]]) -> bool:
        """Update the launches that have changed; False if the graph must be built again."""
        if list(map(len, decided)) != list(map(len, self.decided)):
            return False
        pairs = zip(self.nodes, chain(*self.decided), chain(*decided), strict=True)
        return all(self.graph.exchange(place, _prepared(self.card, new))
                   for place, old, new in pairs if old is not new and old != new)


def join(calls: Sequence[Callable[[], None] | None], num_forward: int) -> list[Any]:
    """`calls` with a `GraphReplay` in place of the first launcher that it replays, and None in
    place of the others; none contains both forward calls, the first `num_forward`, and backward
    calls."""
    joined: list[Any] = list(calls)
    for indices in _runs(calls, num_forward):
        launchers = [calls[number] for number in indices]
        joined[indices[0]] = GraphReplay(launchers)  # type: ignore[arg-type]
        for number in indices[1:]:
            joined[number] = None
    return joined


def _runs(calls: Sequence[Any], num_forward: int) -> Iterator[list[int]]:
    """Indices of consecutive launchers of one GPU; None between them is skipped."""
    run: list[int] = []
    for number, call in enumerate(calls):
        fits = isinstance(call, Launcher) and call.joins
        if run and (number == num_forward or call is not None and not (
                fits and call.card is calls[run[0]].card)):
            yield run
            run = []
        if fits:
            run.append(number)
    if run:
        yield run
