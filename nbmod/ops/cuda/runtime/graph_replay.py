"""Frozen launches: one by one, or those of a whole half of a network by one call of the driver.

A bound network makes the same launches in every run, on the same memory.  `Launcher` has the
launches of one step ready to be started.  `Replay` joins those of consecutive steps to a graph of
the driver, which starts them all by one call; a `gpu(i)` does that for forward and for backward if
`NBMOD_CUDA_GRAPHS=1`.

What differs from run to run (`PerRun`: random streams, training or not) is asked for before the
graph starts.  Launches that have changed are exchanged in the graph; where there are more or others
of them, the graph is made anew.  A step that does anything but launch, and one that must see the
results of steps before it, stays by itself between two graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from .launch import Launch, PerRun, Step, gate

__all__ = ["Launcher", "Replay", "join"]


class Launcher:
    """The launches of a step.  Calling it starts them; what can be compiled is when it is made.

    `holds`: keep the memory that the launches use.
    """

    def __init__(self, card: Any, steps: Sequence[Step], holds: bool = True):
        self.card, self.steps = card, steps
        self.starts = [_prepared(card, step, holds) if isinstance(step, Launch)
                       else Decided(card, step) for step in steps]
        if not holds and self.is_fixed:
            self.steps = ()

    @property
    def is_fixed(self) -> bool:
        """Every run is the same."""
        return not any(isinstance(start, Decided) for start in self.starts)

    @property
    def joins(self) -> bool:
        """All launches can be known before the steps ahead have run."""
        return all(isinstance(step, (Launch, PerRun)) for step in self.steps)

    def __call__(self) -> None:
        with gate:
            for start in self.starts:
                start()


class Decided:
    """Launches that a function decides on; they stay frozen while it returns the same list."""

    def __init__(self, card: Any, decide: PerRun | Callable[[], Sequence[Launch] | None]):
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


def _prepared(card: Any, launch: Launch, holds: bool = True) -> Any:
    launch.check()
    return card.prepare(launch, holds)


class Replay:
    """The launches of several steps on one card as a graph."""

    def __init__(self, launchers: Sequence[Launcher]):
        self.card = launchers[0].card
        self.parts = [step if isinstance(step, PerRun) else start for launcher in launchers
                      for start, step in zip(launcher.starts, launcher.steps, strict=True)]
        self.decided: list[Sequence[Launch]] = []
        self.graph: Any = None

    def __call__(self) -> None:
        with gate:
            decided = [part() for part in self.parts if isinstance(part, PerRun)]
            if self.graph is None or not self._follow(decided):
                self._build(decided)
            self.decided = decided
            self.graph.launch()

    def _build(self, decided: Sequence[Sequence[Launch]]) -> None:
        later, starts, self.places = iter(decided), [], []
        for part in self.parts:
            if not isinstance(part, PerRun):
                starts.append(part)
                continue
            for launch in next(later):
                self.places.append(len(starts))
                starts.append(_prepared(self.card, launch))
        self.graph = self.card.graph(starts)

    def _follow(self, decided: Sequence[Sequence[Launch]]) -> bool:
        """Exchange the launches that have changed; False if the graph does not allow it."""
        if list(map(len, decided)) != list(map(len, self.decided)):
            return False
        pairs = zip(self.places, chain(*self.decided), chain(*decided), strict=True)
        return all(self.graph.exchange(place, _prepared(self.card, new))
                   for place, old, new in pairs if old is not new and old != new)


def join(calls: Sequence[Callable[[], None] | None], halves: int) -> list[Any]:
    """`calls` with a `Replay` in the place of the first of those that it stands for, and None in
    the places of the others; none reaches over the border before call number `halves`."""
    joined: list[Any] = list(calls)
    for numbers in _runs(calls, halves):
        launchers = [calls[number] for number in numbers]
        joined[numbers[0]] = Replay(launchers)  # type: ignore[arg-type]
        for number in numbers[1:]:
            joined[number] = None
    return joined


def _runs(calls: Sequence[Any], halves: int) -> Iterator[list[int]]:
    """Numbers of consecutive launchers of one card, None among them left out."""
    run: list[int] = []
    for number, call in enumerate(calls):
        fits = isinstance(call, Launcher) and call.joins
        if run and (number == halves or call is not None and not (
                fits and call.card is calls[run[0]].card)):
            yield run
            run = []
        if fits:
            run.append(number)
    if run:
        yield run
