"""Minimizing a program that fails, and finding the pass at fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.program import Line, Program, Shape, build

Fails = Callable[[Program], bool]


def smallest(mx: Any, program: Program, fails: Fails, patience: int = 400) -> Program:
    """A program that still fails, from which nothing more can be removed."""
    tries, found = 0, True
    while found and tries < patience:
        found = False
        for smaller in _smaller(mx, program):
            tries += 1
            if fails(smaller):
                program, found = smaller, True
                break
            if tries >= patience:
                break
    return program


def _smaller(mx: Any, program: Program) -> Iterator[Program]:
    if program.groups:
        yield replace(program, groups=False)
    if program.mirror:
        yield replace(program, mirror=False)
    if program.request != "null":
        yield replace(program, request="null")
    if program.request not in ("null", "write"):
        yield replace(program, request="write")
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield pruned(replace(program, outputs=(output,)))
    shapes = _shapes(mx, program)
    for number in reversed(range(len(program.lines))):
        yield pruned(_without(program, number, shapes))
    if len(program.lines) > 1:
        last = dict(enumerate(program.values()))
        for number in reversed(range(len(program.lines) - 1)):
            yield pruned(replace(program, lines=program.lines[:number + 1],
                                  outputs=tuple(last[number][1])))


def _shapes(mx: Any, program: Program) -> list[Shape]:
    """The shape of every value."""
    total = len(program.inputs) + sum(line.gives for line in program.lines)
    symbol, _ = build(mx, replace(program, outputs=tuple(range(total)), groups=False))
    known = {f"x{i}": shape for i, shape in enumerate(program.inputs)}
    return [tuple(shape) for shape in symbol.infer_shape(**known)[1]]


def _without(program: Program, number: int, shapes: list[Shape]) -> Program:
    """Inputs replace the results of line `number`."""
    gone = list(program.values())[number][1]
    count = len(program.inputs)
    moved = {value: count + i for i, value in enumerate(gone)}
    for value in range(len(shapes)):
        if value not in moved:
            moved[value] = value if value < count else (
                value + len(gone) if value < gone.start else value)
    inputs = (*program.inputs, *(shapes[value] for value in gone))
    return _renumbered(program, inputs, [line for i, line in enumerate(program.lines)
                                         if i != number], moved)


def pruned(program: Program) -> Program:
    """Without lines and inputs that no output depends on."""
    needed, lines = set(program.outputs), []
    for line, values in reversed(list(program.values())):
        if needed & set(values):
            needed |= {*line.args, *values}
            lines.insert(0, (line, values))
    kept = [i for i in range(len(program.inputs)) if i in needed] or [0]
    moved = {value: i for i, value in enumerate(kept)}
    for _, values in lines:
        for value in values:
            moved[value] = len(moved)
    return _renumbered(program, tuple(program.inputs[i] for i in kept),
                       [line for line, _ in lines], moved)


def _renumbered(program: Program, inputs: tuple[Shape, ...], lines: list[Line],
                moved: dict[int, int]) -> Program:
    return replace(program, inputs=inputs, outputs=tuple(moved[i] for i in program.outputs),
                   lines=tuple(line._replace(args=tuple(moved[i] for i in line.args))
                               for line in lines))


def guilty(mx: Any, program: Program, fails: Fails) -> list[str]:
    """Passes without which the program does not fail."""
    from nbmod.passes.switches import PASSES

    found = []
    for name in PASSES:
        with mx.without_passes(name):
            if not fails(program):
                found.append(name)
    return found
