"""Elementwise programs: one formula, or several, over the elements of arrays.

    Program("gate", steps=(Assign("u", "a * b"), Assign("y", "maximum(u + s, 0)")),
            inputs=("a", "b"), outputs=("y",), scalars=("s",))

Its steps run in order for every element of the iteration space, the shape that all arrays broadcast
to.  An output smaller than the space is reduced (`join`) over the dimensions it lacks, as is the
gradient of a broadcast operand.  Programs are plain values; `run` executes one with NumPy and is
the reference for the kernels generated from it (`codegen`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..param import Shape
from ..shape import PartialShape, broadcast
from .formula import evaluate, functions_of, integer_type, names_in, rename

if TYPE_CHECKING:
    from ..op import Tensor

__all__ = ["Assign", "Elements", "Program", "concatenate", "interpreted", "prune", "run",
           "specialized", "sum_to"]


class Assign(NamedTuple):
    """`target = formula`, over inputs, scalars and earlier targets."""

    target: str
    formula: str


@dataclass(frozen=True)
class Program:
    """Formulas over the elements of arrays; see the module docstring.

    No two inputs or targets share a name, except that an output may be an input (a copy).
    """

    title: str
    steps: tuple[Assign, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    join: str = "add"
    """The ufunc that reduces the terms of an output: `add`, `multiply`, `maximum` or `minimum`."""

    def __str__(self) -> str:
        return "; ".join(f"{step.target} = {step.formula}" for step in self.steps)


class Elements(NamedTuple):
    """A node as an elementwise program, whose outputs are those of the node."""

    program: Program
    reads: tuple[int, ...]
    """For every input of the program, its position among the inputs of the node."""
    scalars: tuple[float, ...] = ()
    """Values of the program's scalars."""
    shapes: tuple[Shape, ...] | None = None
    """The shapes in which the program gets its inputs and outputs; None: their own."""


@cache
def prune(program: Program, requests: tuple[bool, ...]) -> Program:
    """The program without the outputs that are not wanted: dead code elimination."""
    outputs = tuple(name for name, keep in zip(program.outputs, requests, strict=True) if keep)
    alive, steps = set(outputs), []
    for step in reversed(program.steps):
        if step.target in alive:
            steps.append(step)
            alive.update(names_in(step.formula))
    return Program(program.title, tuple(reversed(steps)),
                   tuple(name for name in program.inputs if name in alive), outputs,
                   tuple(name for name in program.scalars if name in alive), program.join)


def concatenate(title: str, parts: Iterable[tuple[Program, Mapping[str, str]]],
                inputs: Sequence[str], outputs: Sequence[str], scalars: Sequence[str] = ()
                ) -> Program:
    """One program that runs `parts` one after another.

    Each part comes with the names of its inputs, outputs and scalars in the whole; its other
    targets are renamed.
    """
    steps: list[Assign] = []
    for index, (program, names) in enumerate(parts):
        known = dict(names)
        for step in program.steps:
            target = known.get(step.target, f"t{index}_{step.target}")
            steps.append(Assign(target, rename(step.formula, known)))
            known[step.target] = target
    return Program(title, tuple(steps), tuple(inputs), tuple(outputs), tuple(scalars))


# -- execution by NumPy ---------------------------------------------------------------------


def run(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
        scalars: Sequence[Any] = (), add: Sequence[bool] = ()) -> None:
    """Execute with NumPy.

    `ins` and `scalars` are in the program's order.  `outs` that are None are skipped; those where
    `add` is true are added to.  An output may be the same array as an input.  Callers decide
    whether NumPy warns of infinity and NaN; devices and executors turn that off.
    """
    interpreted(program, ins, outs, scalars, add)()


def interpreted(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
                scalars: Sequence[Any] = (), add: Sequence[bool] = ()) -> Callable[[], None]:
    """A function without arguments that does the same on these very arrays."""
    plan = _evaluation(program, tuple([(a.shape, a.dtype) for a in ins]),
                       tuple([None if a is None else (a.shape, a.dtype) for a in outs]))
    values: dict[str, Any] = {program.inputs[i]: ins[i] for i in plan.inputs}
    for i in plan.scalars:
        values[program.scalars[i]] = scalars[i]
    targets = [Accumulation(out, bool(add) and add[i])
               for i, out in enumerate(outs) if out is not None]
    if not len(plan.program.steps) == len(targets) == 1:
        return partial(_run_all, values, plan, targets)
    (_, formula), = plan.program.steps
    (out, adds), = targets
    into = functions_of(formula, tuple(values)).into if plan.direct and not adds else None
    if into is not None:
        return partial(into, *values.values(), out)
    return partial(_run_step, formula, values, plan, out, adds)


Specialized = Callable[[Sequence[np.ndarray], Sequence[np.ndarray | None], Sequence[Any]], None]
"""From inputs, outputs and scalars, in the program's order."""


def specialized(program: Program, ins: Sequence[Tensor], outs: Sequence[Tensor | None]
                ) -> Specialized:
    """A function that does what `run` does for arrays of these shapes and types.

    Outputs overlap no input.
    """
    out_facts = tuple([None if a is None else (a.shape, a.dtype) for a in outs])
    plan = _evaluation(program, tuple([(a.shape, a.dtype) for a in ins]), out_facts)
    steps, positions = plan.program.steps, [i for i, out in enumerate(outs) if out is not None]
    if plan.converted or [step.target for step in steps] != [*plan.program.outputs] or any(
            step.target in names_in(each.formula) for step in steps for each in steps):
        return partial(run, program)
    names = (*[program.inputs[i] for i in plan.inputs], *[program.scalars[i] for i in plan.scalars])
    is_whole = len(plan.scalars) == len(program.scalars)
    uniform, many = {ins[i].dtype for i in plan.inputs} == {plan.real}, len(steps) > 1
    parts = [_part(step.formula, names, plan, uniform and out == (plan.space, plan.real), many)
             for step, out in zip(steps, filter(None, out_facts), strict=True)]

    def compute(arrays: Sequence[np.ndarray], results: Sequence[np.ndarray | None],
                scalars: Sequence[Any]) -> None:
        values = [*[arrays[i] for i in plan.inputs], *(scalars if is_whole else
                                                       [scalars[i] for i in plan.scalars])]
        for part, i in zip(parts, positions, strict=True):
            part(values, results[i])

    return compute


def _part(formula: str, names: tuple[str, ...], plan: Evaluation, direct: bool, converts: bool
          ) -> Callable[[Sequence[Any], Any], None]:
    """A function of the values of these names that writes the value of a formula to an array."""
    value_of, into = functions_of(formula, names)
    if direct and into is not None:
        write = into
        return lambda values, result: write(*values, result)

    def compute(values: Sequence[Any], result: np.ndarray) -> None:
        value = value_of(*values)
        if converts and plan.real is not None and not (
                isinstance(value, np.ndarray) and value.dtype.kind == "f"):
            value = np.asarray(value, plan.real)
        _store(value, plan, result, False)

    return compute


class Accumulation(NamedTuple):
    """An output, and whether to add to it."""

    out: np.ndarray
    adds: bool


Known = tuple[tuple[int, ...], np.dtype]


class Evaluation(NamedTuple):
    """Decisions for all arrays of the same shapes and types."""

    program: Program
    """Pruned to the wanted outputs."""
    inputs: list[int]
    """Positions of the inputs and scalars that it reads."""
    scalars: list[int]
    converted: dict[str, np.dtype]
    """Inputs that are converted to another type: float16, integers in inexact formulas, and what is
    narrower than the results of several steps."""
    space: tuple[int, ...]
    direct: bool
    """NumPy may write the result directly to the output."""
    real: np.dtype | None
    """The type of computation, if it is floating-point."""


@lru_cache(maxsize=4096)
def _evaluation(program: Program, ins: tuple[Known, ...], outs: tuple[Known | None, ...]
                ) -> Evaluation:
    part = prune(program, tuple(out is not None for out in outs))
    inputs = [i for i, name in enumerate(program.inputs) if name in part.inputs]
    scalars = [i for i, name in enumerate(program.scalars) if name in part.scalars]
    types = {program.inputs[i]: ins[i][1] for i in inputs}
    written = [out for out in outs if out is not None]
    space: PartialShape = ()
    for shape, _ in (*(ins[i] for i in inputs), *written):
        space = broadcast(space, shape)
    assert space is not None
    converted, dtypes = _conversions(part, types), {*types.values()}
    results = {dtype for _, dtype in written}
    if len(part.steps) > 1 and all(dtype.kind == "f" for dtype in results):
        # as in kernels; where the first step is a Cast, NumPy would go on in the type before it
        float64 = np.dtype(np.float64)
        wide = float64 if float64 in dtypes | results else np.dtype(np.float32)
        converted |= {name: wide for name, dtype in types.items()
                      if dtype.kind in "iu" or dtype.itemsize < wide.itemsize}
    direct = (not converted and len(dtypes) == 1 and written == [(space, *dtypes)]
              and written[0][1].kind == "f")
    computed = {converted.get(name, dtype) for name, dtype in types.items()}
    real = max((dtype for dtype in computed if dtype.kind == "f"), default=None)
    return Evaluation(part, inputs, scalars, converted, space, direct, real)


def _conversions(program: Program, types: Mapping[str, np.dtype]) -> dict[str, np.dtype]:
    whole = None
    if all(dtype.kind != "f" for dtype in types.values()):
        wide = (integer_type(step.formula) for step in program.steps)
        whole = next((dtype for dtype in wide if dtype is not None), None)
    float32 = np.dtype(np.float32)
    targets = {name: float32 if dtype == np.float16 else whole or dtype
               for name, dtype in types.items()}
    return {name: dtype for name, dtype in targets.items() if dtype != types[name]}


def _run_step(formula: str, values: Mapping[str, Any], plan: Evaluation, out: np.ndarray, adds: bool
              ) -> None:
    """One formula, one output."""
    _store(evaluate(formula, _as_computed(values, plan.converted)), plan, out, adds)


def _run_all(values: Mapping[str, Any], plan: Evaluation, targets: Sequence[Accumulation]) -> None:
    known = _as_computed(values, plan.converted)
    for step in plan.program.steps:
        value = evaluate(step.formula, known)
        # NumPy's types for literals and booleans are int8, which overflows, and bool, for which
        # ufuncs return float16 or float64.
        exact = plan.real is None or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
        known[step.target] = value if exact else np.asarray(value, plan.real)
    results = [known[name] for name in plan.program.outputs]
    for k, result in enumerate(results):
        # The result may alias an input whose memory an earlier output overwrites.
        if any(np.may_share_memory(result, before.out) for before in targets[:k]):
            results[k] = result.copy()
    for result, (out, adds) in zip(results, targets, strict=True):
        _store(result, plan, out, adds)


def _as_computed(values: Mapping[str, Any], converted: Mapping[str, np.dtype]) -> dict[str, Any]:
    return {**values, **{name: values[name].astype(dtype) for name, dtype in converted.items()}}


def _store(value: Any, plan: Evaluation, out: np.ndarray, adds: bool) -> None:
    if out.shape != plan.space:
        value = sum_to(np.broadcast_to(value, plan.space), out.shape, plan.program.join)
    if adds:
        np.add(out, value, out=out, casting="unsafe")
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and out.dtype.kind in "iu":
        # Truncated, and modulo the type's range like a cast in C; conversion through int64 gives
        # the same on every processor.
        out[...] = value.astype(np.int64) if out.itemsize < 4 else value.astype(out.dtype)
    else:
        np.copyto(out, value, casting="unsafe")


def sum_to(value: np.ndarray, shape: tuple[int, ...], join: str = "add") -> np.ndarray:
    """Reduce `value` with `join` over the dimensions along which `shape` broadcasts to its
    shape."""
    lead = value.ndim - len(shape)
    axes = tuple(i for i in range(value.ndim)
                 if i < lead or (shape[i - lead] == 1 and value.shape[i] != 1))
    return getattr(np, join).reduce(value, axis=axes, keepdims=True).reshape(shape) if axes else (
        value.reshape(shape))
