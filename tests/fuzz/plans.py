"""Random programs for the memory planner, whose plans are checked byte by byte.

The planner sees integers only, so ten thousand programs take few seconds; nothing is computed.
Half of the steps share memory: views, functions in place, concatenations and slices.

    python -m tests.fuzz.plans --seconds 200 --seed 7
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from nbmod import MXNetError
from nbmod.passes.memory.plan import plan_memory
from nbmod.passes.memory.plan_step import NONE, PlanStep
from nbmod.passes.memory.verify import check_plan

UNIT = 4
"""Bytes of the inputs; few sizes, so that many entries fit into one another's memory."""
LARGEST = 64 * UNIT


class Case(NamedTuple):
    """What the planner is given."""

    steps: list[PlanStep]
    sizes: list[int]
    external: set[int]
    keep: set[int]


class Drawing:
    """A program in construction."""

    def __init__(self, rng: Random):
        self.rng, self.steps = rng, []
        self.sizes = [UNIT] * rng.randint(1, 2)
        self.inputs = set(range(len(self.sizes)))
        self.spaces = rng.choice([[0], [0], [0], [0, 0, 1]])

    def add(self, inputs: tuple[int, ...], sizes: list[int], **others) -> None:
        """A step in one of the spaces, whose outputs have these sizes."""
        outputs = tuple(range(len(self.sizes), len(self.sizes) + len(sizes)))
        self.sizes += sizes
        self.steps.append(PlanStep(inputs, outputs, space=self.rng.choice(self.spaces), **others))

    def recent(self, among: list[int] | None = None) -> int:
        """An entry, likely one of the last: those that share memory are made in sequence."""
        among = list(range(len(self.sizes))) if among is None else among
        return among[max(-1 - int(self.rng.expovariate(0.5)), -len(among))]

    def some(self, share: float, pairs: list) -> tuple:
        return tuple(pair for pair in pairs if self.rng.random() < share)

    def function(self) -> None:
        """One input; one or two outputs of its size, perhaps in place of it."""
        source, count = self.recent(), self.rng.choice([1, 1, 1, 2])
        self.add((source,), [self.sizes[source]] * count,
                 inplace=self.some(0.7, [(0, self.rng.randrange(count))]),
                 scratch=self.some(0.2, [UNIT]), accumulates=self.rng.random() < 0.3)

    def view(self) -> None:
        source = self.recent()
        self.add((source,), [self.sizes[source]], view=True)

    def pair(self) -> None:
        """Two inputs of one size, perhaps two gradients that are summed."""
        first = self.recent()
        equal = [eid for eid, size in enumerate(self.sizes) if size == self.sizes[first]]
        sums = self.rng.random() < 0.3
        self.add((first, self.recent(equal)), [self.sizes[first]],
                 inplace=self.some(0.6, [(0, 0), (1, 0)]), sums=sums,
                 accumulates=not sums and self.rng.random() < 0.5)

    def several(self) -> None:
        """As many outputs as inputs, of their sizes, each perhaps in place of any."""
        inputs = tuple(self.recent() for _ in range(self.rng.randint(1, 2)))
        sizes = [self.sizes[eid] for eid in inputs]
        pairs = [(i, o) for i, size in enumerate(sizes) for o, other in enumerate(sizes)
                 if size == other]
        self.add(inputs, sizes, inplace=self.some(0.5, pairs), accumulates=self.rng.random() < 0.3)

    def join(self) -> None:
        inputs = tuple(self.recent() for _ in range(self.rng.randint(1, 3)))
        sizes, rows = [self.sizes[eid] for eid in inputs], self.rng.choice([1, 1, 2])
        if sum(sizes) <= LARGEST:
            out = len(self.sizes)
            self.add(inputs, [sum(sizes)], rows=rows, strided=self.some(0.7, [*inputs, out]),
                     concat_offsets=tuple(sum(sizes[:i]) // rows for i in range(len(inputs))))

    def cut(self) -> None:
        source = self.recent()
        size = self.sizes[source]
        rows = 1 if size % (4 * UNIT) else self.rng.choice([1, 1, 2])
        if size % (2 * UNIT) == 0:
            self.add((source,), [size // 2] * 2, rows=rows, split_offsets=(0, size // 2 // rows),
                     strided=self.some(0.7, [source]))

    def finished(self) -> Case:
        """Results that nothing reads are kept, left out or computed for nothing."""
        entries = range(len(self.sizes))
        read = {eid for step in self.steps for eid in step.inputs}
        external = self.inputs | set(self.some(0.2, [self.rng.choice(entries)]))
        keep = {eid for eid in entries
                if self.rng.random() < (0.05 if eid in read else 0.6)} - external
        dropped = {eid for step in self.steps if len(step.outputs) > 1
                   for eid in self.some(0.5, list(step.outputs))} - read - keep - external
        steps = [step._replace(outputs=tuple(NONE if eid in dropped else eid
                                             for eid in step.outputs)) for step in self.steps]
        return Case(steps, self.sizes, external, keep)


KINDS: list[Callable[[Drawing], None]] = [
    Drawing.function, Drawing.view, Drawing.view, Drawing.pair, Drawing.pair, Drawing.several,
    Drawing.join, Drawing.join, Drawing.cut]


def draw(seed: int) -> Case:
    """The program of a seed: 2 to 14 steps."""
    drawing = Drawing(Random(seed))
    for _ in range(drawing.rng.randint(2, 14)):
        drawing.rng.choice(KINDS)(drawing)
    return drawing.finished()


def conflict(case: Case) -> str:
    """What is wrong with the plan of a program; empty if nothing is."""
    try:
        check_plan(case.steps, case.sizes, plan_memory(*case), case.keep)
    except MXNetError as error:
        return str(error)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end, seed, wrong = time.monotonic() + given.seconds, given.seed, 0
    while time.monotonic() < end:
        found = conflict(draw(seed))
        if found:
            wrong += 1
            print(f"seed {seed}: {found}", flush=True)
        seed += 1
    print(f"{seed - given.seed} programs, {wrong} wrong plans")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
