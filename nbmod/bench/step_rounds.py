"""The steps of a network as arms: a round is two runs, in which each step takes its turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..execution.steps import BoundGraph
from ..executor import Executor
from .rounds import Rounds

__all__ = ["step_rounds"]


def step_rounds(executor: Executor, training: bool, count: int) -> Rounds:
    """Run a network, and record the seconds of its steps.

    Parameters
    ----------
    executor : Executor
        The network with its arrays.
    training : bool
        Whether to run backward, too.
    count : int
        Number of rounds.

    Returns
    -------
    Rounds
        Its arms are the steps that a run takes, in their order.
    """
    from .. import nd

    heads = [nd.ones(out.shape, dtype=out.dtype) for out in executor.outputs]

    def run() -> dict[int, float]:
        with _watched() as times:
            executor.forward(is_train=training)
            if training:
                executor.backward(heads)
        return times

    run()       # compiles
    steps = sorted(run())       # touches all memory
    names = [executor.compiled.nodes[step].name for step in steps]
    rounds = Rounds(names * 2, [1] * 2 * len(names))
    for _ in range(count):
        runs = [run(), run()]
        rounds.add([times[step] for times in runs for step in steps], list(range(2 * len(steps))))
    return rounds


@contextmanager
def _watched() -> Iterator[dict[int, float]]:
    """A block in which executors record the seconds of their steps."""
    times: dict[int, float] = {}

    class Stopwatch:
        def before(self, bound: BoundGraph, index: int) -> float:
            return time.perf_counter()

        def after(self, bound: BoundGraph, index: int, started: float) -> None:
            times[index] = time.perf_counter() - started

    before, Executor.profiler = Executor.profiler, Stopwatch()
    try:
        yield times
    finally:
        Executor.profiler = before
