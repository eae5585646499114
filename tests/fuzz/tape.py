"""Programs on the tape: gradients of gradients, against finite differences of gradients, and
gradients from arrays of gradients.

Applies to lines without parameters, which are the same functions of arrays and of symbols.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from tests.fuzz.company import check
from tests.fuzz.program import Program, build, drawn
from tests.fuzz.runs import Results, Way
from tests.fuzz.shrink import pruned

KINDS = ("unary", "chain", "binary", "power", "broadcast", "add_n", "reshape", "expand", "flatten",
         "transpose", "concat", "stack", "slice", "split", "split_join", "reduce", "tile",
         "repeat", "dot", "softmax", "each")


class _Arrays:
    """The library, with arrays for symbols: `sym` is its `nd`, and variables are given."""

    def __init__(self, mx: Any, variables: dict[str, Any]):
        self.mx, self.sym, self.variables = mx, self, variables

    def Variable(self, name: str) -> Any:
        return self.variables[name]

    def Group(self, arrays: list[Any]) -> list[Any]:
        return arrays

    def __getattr__(self, name: str) -> Any:
        return getattr(self.mx if name in ("name", "AttrScope") else self.mx.nd, name)


def applies(program: Program) -> bool:
    return all(line.kind in KINDS for line in program.lines)


def curvature(mx: Any, program: Program, attempt: int) -> tuple[float, float, float] | None:
    """The second derivative along two directions, by the tape and by differences of gradients, and
    the size of its terms; None where it is not finite."""
    program = pruned(program)
    points = {f"x{i}": drawn(f"x{i}", shape, "float64", attempt)
              for i, shape in enumerate(program.inputs)}
    along, other = ({name: drawn(f"{which} {name} {attempt}", values.shape, "float64")
                     for name, values in points.items()} for which in ("along", "other"))
    arrays = {name: mx.nd.array(values, dtype="float64") for name, values in points.items()}
    for array in arrays.values():
        array.attach_grad()
    with mx.autograd.record():
        slopes = _gradients(mx, program, arrays, True)
        total = sum(((slope * mx.nd.array(along[name], dtype="float64")).sum()
                     for name, slope in slopes.items()))
    total.backward()
    second = {name: array.grad.asnumpy() for name, array in arrays.items()}
    by_tape = sum(float((second[name] * other[name]).sum()) for name in arrays)
    size = sum(float(np.abs(second[name] * other[name]).sum()) for name in arrays)
    step, ends = 1e-6, []
    for sign in (1, -1):
        moved = {name: mx.nd.array(values + sign * step * other[name], dtype="float64")
                 for name, values in points.items()}
        for array in moved.values():
            array.attach_grad()
        with mx.autograd.record():
            slopes = _gradients(mx, program, moved, False)
        ends.append([(slopes[name].asnumpy() * along[name]) for name in arrays])
    by_differences = sum(float((a - b).sum()) for a, b in zip(*ends, strict=True)) / (2 * step)
    size += sum(float(np.abs(a).sum()) for a in ends[0]) * 1e-14 / step / 1e-5
    return (by_tape, by_differences, size) if np.isfinite(size) else None


def _gradients(mx: Any, program: Program, arrays: dict[str, Any], again: bool) -> dict[str, Any]:
    """First derivatives of a weighted sum of the outputs, by name."""
    made, _ = build(_Arrays(mx, arrays), program, "float64")
    outputs = made if isinstance(made, list) else [made]
    weights = [mx.nd.array(drawn(f"head{i}", output.shape, "float64"), dtype="float64")
               for i, output in enumerate(outputs)]
    names = list(arrays)
    found = mx.autograd.grad(outputs, [arrays[name] for name in names], weights,
                             create_graph=again, retain_graph=True)
    return dict(zip(names, found, strict=True))


@check(0.1)
def from_gradients(mx: Any, program: Program, way: Way, rng: Random) -> tuple[Results, Results]:
    """Head gradients are the arrays of gradients of leaves, or copies of these."""
    if not applies(program):
        return {}, {}
    return _from_gradients(mx, program, False), _from_gradients(mx, program, True)


def _from_gradients(mx: Any, program: Program, copies: bool) -> Results:
    arrays = {f"x{i}": mx.nd.array(drawn(f"x{i}", shape, "float32"))
              for i, shape in enumerate(program.inputs)}
    for name, array in arrays.items():
        array.attach_grad()
        array.grad[:] = drawn(f"gradient {name}", array.shape, "float32")
    with mx.autograd.record():
        made, _ = build(_Arrays(mx, arrays), program)
    outputs = made if isinstance(made, list) else [made]
    heads = [next((array.grad for array in arrays.values() if array.shape == output.shape),
                  mx.nd.ones(output.shape)) for output in outputs]
    mx.autograd.backward(outputs, [head.copy() for head in heads] if copies else heads)
    return {name: array.grad.asnumpy() for name, array in arrays.items()}
