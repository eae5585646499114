"""Executors running together: alternately, on threads, in shared memory.

Each must compute the same bits as alone, on arrays of its own, from copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.program import Line, Program, build
from tests.fuzz.runs import (
    ROUNDS,
    Results,
    Way,
    empty,
    fill,
    heads,
    kept_by,
    outputs_of,
    pass_by_pass,
    results,
    run,
    settings,
    unset_gradients,
    values_of,
)

Check = Callable[[Any, Program, Way, Random], tuple[Results, Results]]
CHECKS: dict[str, tuple[float, Check]] = {}
"""By name, of which share of programs, and what gives (found, expected)."""


def check(share: float) -> Callable[[Check], Check]:
    def enter(function: Check) -> Check:
        CHECKS[function.__name__.replace("_", " ")] = share, function
        return function

    return enter


# -- the second program ---------------------------------------------------------------------------

def partner(mx: Any, program: Program, rng: Random) -> Program:
    """A program that has variables in common with `program`, which it is itself if none works."""
    made = [change(program, rng) for change in (_larger, _shorter, _shorter, _beginning)]
    for other in rng.sample(made, len(made)):
        try:
            if rng.random() < 0.8 and other != program:
                run(mx, other, Way("partner"))
                return other
        except (mx.MXNetError, AssertionError):
            pass    # shapes and counts of values in the program are those of its inputs
    return program


def _larger(program: Program, rng: Random) -> Program:
    """Of twice the batch."""
    return replace(program, inputs=tuple((2 * n, *rest) for n, *rest in program.inputs))


def _shorter(program: Program, rng: Random) -> Program:
    """Sequences have one step less."""
    steps = next((line.params["steps"] for line in program.lines if "steps" in line.params), 0)
    if steps < 2:
        return program

    def shortened(line: Line) -> Line:
        found = line.params.get("steps") == steps and line.params.get("merge")
        return line._replace(params={**line.params, "steps": steps - 1}) if found else line

    inputs = tuple((shape[0], steps - 1, *shape[2:]) if shape[1:2] == (steps,) else shape
                   for shape in program.inputs)
    return replace(program, inputs=inputs, lines=tuple(map(shortened, program.lines)))


def _beginning(program: Program, rng: Random) -> Program:
    """The first lines."""
    if len(program.lines) < 2:
        return program
    lines = list(program.values())[:rng.randrange(1, len(program.lines))]
    return replace(program, lines=tuple(line for line, _ in lines), outputs=tuple(lines[-1][1]))


# -- separate executors ---------------------------------------------------------------------------

@contextmanager
def _pair(mx: Any, program: Program, way: Way, rng: Random) -> Iterator[tuple[Any, Any]]:
    """(program, executor) twice; of the same symbol where the programs are the same."""
    other, built = partner(mx, program, rng), build(mx, program, way.dtype)
    with settings(mx, program, way):
        made = [(one, empty(mx, one, use, way.dtype), use) for one, use in (
            (program, built), (other, built if other == program else build(mx, other, way.dtype)))]
        for _, executor, (_, fixed) in made:
            fill(executor, fixed, way.dtype)
        yield tuple((one, executor) for one, executor, _ in made)


def _numbered(each: list[Results]) -> Results:
    return {f"executor {i}: {key}": array for i, found in enumerate(each)
            for key, array in found.items()}


@check(0.12)
def in_turns(mx: Any, program: Program, way: Way, rng: Random) -> tuple[Results, Results]:
    """Passes of both executors in any order: forward of one, backward of the other, ..."""
    found: list[Results] = [{}, {}]
    with _pair(mx, program, way, rng) as pair:
        expected = [run(mx, one, way) for one, _ in pair]
        running = [pass_by_pass(mx, executor, one, values)
                   for (one, executor), values in zip(pair, found, strict=True)]
        while running:
            chosen = rng.choice(running)
            if next(chosen, running) is running:
                running.remove(chosen)
    return _numbered(found), _numbered(expected)


@check(0.06)
def on_threads(mx: Any, program: Program, way: Way, rng: Random) -> tuple[Results, Results]:
    """Each on a thread of its own."""
    with _pair(mx, program, way, rng) as pair, ThreadPoolExecutor(2) as pool:
        expected = [run(mx, one, way) for one, _ in pair]
        found = list(pool.map(lambda each: results(mx, each[1], each[0]), pair))
    return _numbered(found), _numbered(expected)


# -- in shared memory -----------------------------------------------------------------------------

class _World:
    """Two executors; `common` are names of variables that are the same for both.

    The `manner` is what they share: arrays by name, a buffer, or the memory of intermediates. For
    the comparison common variables are copied, and each step is that of a new executor.
    """

    def __init__(self, mx: Any, programs: list[Program], way: Way, manner: str):
        self.mx, self.programs, self.way = mx, programs, way
        self.builts = [build(mx, program, way.dtype) for program in programs]
        self.executors = self._bound({})
        self.common: dict[str, list[str]] = {"arg_dict": [], "aux_dict": []}
        self.manner, self._shares, self._has_run = manner, False, [False, False]
        if not self.equal("aux_dict")[1]:
            self.manner = "intermediates"   # states are those of one shape
        if "names" in self.manner:
            self.common["arg_dict"] = self.equal("arg_dict")[0]
        if self.manner != "intermediates":
            self.common["aux_dict"] = self.equal("aux_dict")[0]

    def _bound(self, options: dict[str, Any], shares: bool = False) -> list[Any]:
        executors: list[Any] = []
        for program, built in zip(self.programs, self.builts, strict=True):
            if executors and shares:
                options["shared_exec"] = executors[0]
            executors.append(empty(self.mx, program, built, self.way.dtype, **options))
        return executors

    def equal(self, table: str) -> tuple[list[str], bool]:
        """Names of the variables except inputs that both have, and whether those have one shape."""
        first, second = (getattr(executor, table) for executor in self.executors)
        both = [name for name in first if name in second and name[0] != "x"]
        same = [name for name in both if (first[name].shape, first[name].dtype) == (
            second[name].shape, second[name].dtype)]
        return same, same == both

    def share(self) -> None:
        """Bind both again, with shared memory."""
        options: dict[str, Any] = {}
        if "names" in self.manner:
            options["shared_arg_names"] = self.common["arg_dict"]
        if "buffer" in self.manner:
            options["shared_buffer"] = {}
        self.executors, self._shares = self._bound(options, True), True

    def run(self, schedule: list[int]) -> Results:
        found: Results = {}
        for executor, (_, fixed) in zip(self.executors, self.builts, strict=True):
            fill(executor, fixed, self.way.dtype)
        for number, i in enumerate(schedule):
            self._write(i, number)
            if not self._shares:
                self._renew(i)
            self._step(i, f"step {number} of executor {i}", found)
            self._copy(i)
        return found

    def _write(self, i: int, number: int) -> None:
        """Set new values in all arguments: derived constants must follow."""
        executor, fixed = self.executors[i], self.builts[i][1]
        for name, array in executor.arg_dict.items():
            if name in self.common["arg_dict"]:
                array[:] = array * 0.75 if array.dtype == np.float32 else array
            else:
                array[:] = values_of(name, array, fixed, self.way.dtype, "float32", number)
        unset_gradients(executor)

    def _renew(self, i: int) -> None:
        """A fresh executor with the same values."""
        before = self.executors[i]
        after = empty(self.mx, self.programs[i], self.builts[i], self.way.dtype)
        for table in ("arg_dict", "aux_dict"):
            for name, array in getattr(after, table).items():
                array[:] = getattr(before, table)[name]
        unset_gradients(after)
        self.executors[i] = after

    def _step(self, i: int, when: str, found: Results) -> None:
        executor, other = self.executors[i], self.executors[1 - i]
        executor.forward(is_train=False)
        found.update(outputs_of(executor, f"{when}, inference"))
        if self.programs[i].trains:
            executor.forward(is_train=True)
            found.update(outputs_of(executor, when))
            executor.backward(heads(self.mx, executor))
        found.update({f"{when}, {key}": array for key, array in kept_by(executor).items()})
        self._has_run[i] = True
        if self._has_run[1 - i] and "buffer" not in self.manner:   # where outputs may be inputs
            found.update(outputs_of(other, f"{when}, then of the other"))

    def _copy(self, i: int) -> None:
        """Copy the common variables that executor `i` has changed to the other one."""
        for table, names in self.common.items():
            mine, others = (getattr(self.executors[k], table) for k in (i, 1 - i))
            for name in names if not self._shares else ():
                others[name][:] = mine[name]


MANNERS = ("names", "names", "names, buffer", "names, buffer", "buffer", "intermediates")


@check(0.16)
def in_shared_memory(mx: Any, program: Program, way: Way, rng: Random) -> tuple[Results, Results]:
    """Whole steps of two executors that share arrays and intermediates, as buckets do."""
    programs = rng.sample([program, partner(mx, program, rng)], 2)
    schedule = [rng.randrange(2) for _ in range(2 * ROUNDS)]
    manner, found = rng.choice(MANNERS), []
    with settings(mx, program, way):
        for shared in (True, False):
            world = _World(mx, programs, way, manner)
            if shared:
                world.share()
            found.append(world.run(schedule))
    return found[0], found[1]
