"""Ops that are formulas, and all other elementwise programs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...dispatch import implements
from ...elementwise.codegen import ArraySpec, KernelSpec, collapse
from ...elementwise.formula import integer_type
from ...elementwise.formula_op import FormulaOp
from ...elementwise.kernel_cache import load_text
from ...elementwise.program import Assign, Program, prune
from ...op import Call
from ...shape import size_of
from ..lib.block_reduce import chunk_count, column_sum_kernel, each_block
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, each
from .codegen import is_broadcast, source

__all__ = ["COPY", "TIMES", "kernel_of", "run_program"]

COPY = Program("copy", (Assign("y", "x"),), ("x",), ("y",))
"""y = x; x is broadcast to y, or summed where y lacks a dimension."""

TIMES = Program("times", (Assign("y", "x * m"),), ("x", "m"), ("y",))
"""y = x m, broadcast or summed likewise."""


def run_program(program: Program, ins: Arrays, outs: Outputs,
                scalars: Sequence[Any] = (), add: Sequence[bool] = ()) -> list[Launch]:
    """Launches that execute `program` on arrays; arguments as those of `program.run`.

    Outputs over the whole space are written in one pass.  Each that is a sum takes a pass of its
    own; those come first, because the other may overwrite an input.
    """
    space = np.broadcast_shapes(*(a.shape for a in (*ins, *outs) if a is not None))
    targets = {i: out for i, out in enumerate(outs) if out is not None}
    sums = [i for i, out in targets.items() if out.size != size_of(space)]
    passes = [[i] for i in sums] + [[i for i in targets if i not in sums]]
    launches = []
    for group in filter(None, passes):
        part = prune(program, tuple(i in group for i in range(len(outs))))
        arrays = dict(zip(program.inputs, ins, strict=True))
        values = dict(zip(program.scalars, scalars, strict=True))
        launches += _launch(part, space, [arrays[name] for name in part.inputs],
                            [targets[i] for i in group], [values[name] for name in part.scalars],
                            tuple(bool(add) and bool(add[i]) for i in group))
    return launches


def _launch(program: Program, space: tuple[int, ...], ins: Arrays, outs: Arrays,
            scalars: Sequence[Any], add: tuple[bool, ...]) -> list[Launch]:
    """One kernel over all of `outs`; two for a sum of many terms, which is split into chunks."""
    targets = tuple(f"{name}_out" if name in program.inputs else name for name in program.outputs)
    names, arrays = [*program.inputs, *targets], [*ins, *outs]
    layout = collapse(space, [array.shape for array in arrays])
    real = _computed_in(program, ins, outs, scalars)
    specs = tuple(ArraySpec(name, array.dtype.name, mask) for name, array, mask
                  in zip(names, arrays, layout.masks, strict=True))
    spec = KernelSpec(program, specs, targets, add, real)
    extents = layout.dims if is_broadcast(spec) else ()
    values = [np.dtype(real).type(number) for number in scalars]
    if not any(spec.reduced):
        return each(kernel_of(spec, extents), outs[0].size, *arrays, *values)
    if (chunks := _chunks(outs[0], size_of(space), real)) == 1:
        return each_block(kernel_of(spec, extents), outs[0].size, *arrays, *values)
    return _in_chunks(spec, extents, chunks, (*ins, *values), outs[0])


def _chunks(out: Array, size: int, real: str) -> int:
    """The number of chunks of the sums `out` over `size` elements."""
    floats = out.dtype.kind == "f" and real.startswith("float")
    return chunk_count(out.size, size // out.size) if floats and out.size else 1


def _in_chunks(spec: KernelSpec, extents: tuple[int, ...], chunks: int, args: Sequence[Any],
               out: Array) -> list[Launch]:
    """Sums of chunks, then sums of those."""
    ins, values = args[:len(spec.program.inputs)], args[len(spec.program.inputs):]
    target = spec.arrays[-1]._replace(dtype=spec.real)
    first = replace(spec, arrays=(*spec.arrays[:-1], target), add=(False,))
    sums = out.device.empty((chunks, out.size), spec.real)
    real = np.dtype(spec.real).type
    launches = [*each_block(kernel_of(first, extents, chunks), sums.size, *ins, sums, *values),
                *each_block(column_sum_kernel(real), out.size, sums, out, chunks, spec.add[0])]
    return [launch._replace(own=(sums,)) for launch in launches]


def _computed_in(program: Program, ins: Arrays, outs: Arrays,
                 scalars: Sequence[Any]) -> str:
    """The type in which a kernel computes, by NumPy's promotion rules."""
    for arrays, real in ((ins or outs, "float32"), (outs, "float64")):
        types = {array.dtype for array in arrays}
        if any(dtype.kind == "f" for dtype in types):
            return "float64" if np.dtype(np.float64) in types else real
    if any(isinstance(number, float) and not number.is_integer() for number in scalars):
        return "float64"
    forced = [t for t in (integer_type(step.formula) for step in program.steps) if t is not None]
    if np.dtype(np.float32) in forced:
        return "float32"
    return max(forced).name if forced else "int64"


@cache
def kernel_of(spec: KernelSpec, extents: tuple[int, ...] = (), chunks: int = 1) -> CudaKernel:
    """The kernel of a specification; `extents` where its source depends on them, and the number of
    chunks of a sum."""
    text = source(spec, extents, chunks)
    name = f"{spec.name}_cuda_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return getattr(load_text(name, text), spec.name)


def _forward(op: FormulaOp, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    program = op.program(outs[0].dtype.kind)
    return run_program(program, ins, outs, op.scalar_values(program, outs[0]), call.add)


def _backward(op: FormulaOp, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    program = op.backward_program(ins[0].dtype.kind)
    return run_program(program, op.operands(ins, program), outs, op.scalar_values(program, ins[0]),
                       call.add)


implements(FormulaOp, "cuda", _forward, _backward)
