"""A program: one formula, or a chain of them, over the elements of some arrays.

    Program("gate", steps=(Step("u", "a * b"), Step("y", "maximum(u + s, 0)")),
            inputs=("a", "b"), outputs=("y",), scalars=("s",))

Its steps run in order for every element of one iteration space, the shape that all arrays
broadcast to.  An output smaller than the space is the sum over the dimensions it lacks: that is
how the gradient of a broadcast operand is said.  Programs are plain values; `run` executes one
with NumPy and is the twin that every kernel written for it (`ops.writer`) is tested against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .formula import evaluate, integer_type, names_in, rename

__all__ = ["Program", "Step", "fuse", "prune", "run", "sum_to"]


class Step(NamedTuple):
    """`target = formula`, over inputs, scalars and earlier targets."""

    target: str
    formula: str


@dataclass(frozen=True)
class Program:
    """Formulas over the elements of arrays; see the module docstring.

    No two inputs or targets share a name, except that an output may be an input (a copy).
    """

    title: str
    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scalars: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join(f"{step.target} = {step.formula}" for step in self.steps)


@cache
def prune(program: Program, wanted: tuple[bool, ...]) -> Program:
    """The program without the outputs that are not wanted, and what only they needed."""
    outputs = tuple(name for name, keep in zip(program.outputs, wanted, strict=True) if keep)
    alive, steps = set(outputs), []
    for step in reversed(program.steps):
        if step.target in alive:
            steps.append(step)
            alive.update(names_in(step.formula))
    return Program(program.title, tuple(reversed(steps)),
                   tuple(name for name in program.inputs if name in alive), outputs,
                   tuple(name for name in program.scalars if name in alive))


def fuse(title: str, parts: Iterable[tuple[Program, Mapping[str, str]]],
         inputs: Sequence[str], outputs: Sequence[str], scalars: Sequence[str] = ()) -> Program:
    """One program that does what `parts` do one after another.

    Each part comes with the names that its inputs, outputs and scalars have in the whole; its
    other targets are private and get names of their own.
    """
    steps: list[Step] = []
    for number, (program, names) in enumerate(parts):
        known = dict(names)
        for step in program.steps:
            target = known.get(step.target, f"t{number}_{step.target}")
            steps.append(Step(target, rename(step.formula, known)))
            known[step.target] = target
    return Program(title, tuple(steps), tuple(inputs), tuple(outputs), tuple(scalars))


# -- execution by NumPy ---------------------------------------------------------------------


def run(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
        scalars: Sequence[Any] = (), add: Sequence[bool] = ()) -> None:
    """Execute with NumPy.

    `ins` and `scalars` are in the program's order.  `outs` that are None are skipped; those where
    `add` is true are added to.  An output may be the same array as an input: all values are
    computed before the first is written, unless there is only one.
    """
    program, wanted = _only_wanted(program, ins, outs)
    values = dict(zip(program.scalars, _kept(scalars, wanted.scalars), strict=True))
    arrays = _kept(ins, wanted.inputs)
    targets = [(out, bool(add) and add[i]) for i, out in enumerate(outs) if out is not None]
    shapes = {array.shape for array in (*arrays, *(out for out, _ in targets))}
    shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    with np.errstate(all="ignore"):
        working = _working(program, arrays)
        values.update(zip(program.inputs, working, strict=True))
        if len(program.steps) == 1 and len(targets) == 1:
            _single(program.steps[0], values, shape, *targets[0])
            return
        for step in program.steps:
            values[step.target] = evaluate(step.formula, values)
        for name, (out, adds) in zip(program.outputs, targets, strict=True):
            _store(values[name], shape, out, adds)


class _Wanted(NamedTuple):
    inputs: tuple[bool, ...]
    scalars: tuple[bool, ...]


def _only_wanted(program: Program, ins: Sequence[Any], outs: Sequence[Any]
                 ) -> tuple[Program, _Wanted]:
    if all(out is not None for out in outs):
        return program, _Wanted((True,) * len(ins), (True,) * len(program.scalars))
    pruned = prune(program, tuple(out is not None for out in outs))
    return pruned, _Wanted(tuple(name in pruned.inputs for name in program.inputs),
                           tuple(name in pruned.scalars for name in program.scalars))


def _kept(items: Sequence[Any], keep: Sequence[bool]) -> list[Any]:
    return [item for item, kept in zip(items, keep, strict=True) if kept]


def _working(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays in the types they are computed in: half is widened, integers as they must be."""
    kinds = [array.dtype.kind for array in arrays]
    whole = None
    if "f" not in kinds:
        types = (integer_type(step.formula) for step in program.steps)
        whole = next((dtype for dtype in types if dtype is not None), None)
    working = []
    for array, kind in zip(arrays, kinds, strict=True):
        if array.dtype == np.float16:
            array = array.astype(np.float32)
        elif kind != "f" and whole is not None:
            array = array.astype(whole)
        working.append(array)
    return working


def _single(step: Step, values: Mapping[str, Any], shape: tuple[int, ...], out: np.ndarray,
            adds: bool) -> None:
    """One formula, one output: NumPy may write its last operation straight to it."""
    types = {value.dtype for value in values.values() if isinstance(value, np.ndarray)}
    direct = types == {out.dtype} and out.dtype.kind == "f" and out.shape == shape and not adds
    result = evaluate(step.formula, values, out if direct else None)
    if result is not out:
        _store(result, shape, out, adds)


def _store(value: Any, shape: tuple[int, ...], out: np.ndarray, adds: bool) -> None:
    if out.shape != shape:
        value = sum_to(np.broadcast_to(value, shape), out.shape)
    if adds:
        np.add(out, value, out=out, casting="unsafe")
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and out.dtype.kind in "iu":
        out[...] = _truncated(value, out.dtype)
    else:
        np.copyto(out, value, casting="unsafe")


def _truncated(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Real numbers as integers: cut off, and modulo the type's range like a cast in C.

    Going through 64 bits makes NumPy do the same on every processor.
    """
    return value.astype(np.int64).astype(dtype) if dtype.itemsize < 4 else value.astype(dtype)


def sum_to(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum over the dimensions that broadcasting `shape` to the shape of `value` would repeat."""
    lead = value.ndim - len(shape)
    axes = tuple(i for i in range(value.ndim)
                 if i < lead or (shape[i - lead] == 1 and value.shape[i] != 1))
    return np.add.reduce(value, axis=axes, keepdims=True).reshape(shape) if axes else (
        value.reshape(shape))
