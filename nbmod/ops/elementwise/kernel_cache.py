"""Compiled kernels of elementwise programs: generated, cached on disk, and bound to arrays.

    step = prepare(program, ins, outs, scalars, add)     # at bind
    step()                                               # in the loop

`prepare` chooses.  Large floating-point programs get a kernel: its source (`codegen`) becomes a
module, with lines that tracebacks and debuggers show.  Everything else, mainly integers and small
arrays, is interpreted by NumPy (`program.interpreted`).
"""

from __future__ import annotations

import hashlib
import linecache
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...core.fork import fresh
from ..jit import Kernel, pays_off
from ..op import Run, all_of
from ..param import Shape
from ..shape import size_of
from ..simd.host import lanes
from ..simd.nontemporal import bypasses_cache
from .codegen import ROW, TILE, ArraySpec, IterationSpace, KernelSpec, collapse, cpu_source
from .program import Program, interpreted, prune

__all__ = ["COMPILED_FROM", "PARALLEL_FROM", "compiled", "kernel_of", "load_text", "prepare"]

COMPILED_FROM = 4096
"""Elements from which a kernel is compiled: 0.1 to 0.3 s once per machine, against 5 us per call
that a kernel saves for 4096 elements."""

PARALLEL_FROM = 32768
"""Elements times formulas from which a kernel runs on all cores: entering a parallel loop costs
about 3 us, as much as 32768 additions of float32 on one core."""

CHUNKS = 16
"""Partial sums that keep all cores busy where there are fewer sums."""
FEW = 64
"""Terms that may be added sequentially in float32."""

_FLOATS = ("float16", "float32", "float64")
_loading = fresh(threading.Lock())


def prepare(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
            scalars: Sequence[Any] = (), add: Sequence[bool] = ()) -> Run:
    """A function without arguments that executes `program` on these very arrays.

    Arguments as those of `program.run`.  All arrays are C-contiguous.
    """
    most = max((x.size for x in (*ins, *outs) if x is not None), default=0)
    if pays_off(most, COMPILED_FROM):
        step = compiled(program, ins, outs, scalars, add)
        if step is not None:
            return step
    return interpreted(program, ins, outs, scalars, add)


def compiled(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
             scalars: Sequence[Any] = (), add: Sequence[bool] = ()) -> Run | None:
    """A function that runs a kernel, whatever the size; None where no kernel supports the types.

    Kernels read any type and write floating-point types.
    """
    arrays = (*ins, *outs)
    passes = _passes(program, _operands(arrays), tuple(map(bool, add)))
    if passes is None:
        return None
    return all_of([step.bind(arrays, scalars) for step in passes]) if passes else _nothing


def _nothing() -> None:
    pass


class Operand(NamedTuple):
    """An input or output of a program, by position; arrays of equal `memory` are the same array,
    and those `beyond` the cache size may be written with non-temporal stores."""

    position: int
    shape: Shape
    dtype: np.dtype
    memory: int
    beyond: bool


def _operands(arrays: Sequence[np.ndarray | None]) -> tuple[Operand | None, ...]:
    first: dict[Any, int] = {}
    return tuple(None if array is None else Operand(
        position, array.shape, array.dtype, first.setdefault(
            (array.__array_interface__["data"][0], array.size, array.dtype), position),
        bypasses_cache(array)) for position, array in enumerate(arrays))


class KernelCall(NamedTuple):
    """A kernel, and its arguments among the inputs, outputs and scalars of a program."""

    kernel: Kernel
    arrays: tuple[tuple[int, Shape], ...]
    """Positions, and the shapes in which they are passed."""
    sums: Shape | None
    """Shape of the workspace for partial sums."""
    scalars: tuple[int, ...]
    real: type[np.floating]

    def bind(self, arrays: Sequence[Any], scalars: Sequence[Any]) -> Run:
        """A function without arguments that executes it on these arrays."""
        inputs = [_argument(arrays[position], shape) for position, shape in self.arrays]
        sums = [] if self.sums is None else [np.empty(self.sums)]
        return partial(self.kernel, *inputs, *sums, *(self.real(scalars[i]) for i in self.scalars))


def _argument(array: np.ndarray, shape: Shape) -> np.ndarray:
    flat = array.view(np.uint16) if array.dtype == np.float16 else array
    return flat if flat.shape == shape else flat.reshape(shape)


@lru_cache(maxsize=4096)
def _passes(program: Program, operands: tuple[Operand | None, ...], add: tuple[bool, ...]
            ) -> list[KernelCall] | None:
    """The passes that execute `program` on arrays like these; None if a type is not supported.

    All outputs over the whole space are written in one pass; each output that is a sum takes
    an earlier one, because a later pass may overwrite an input.  So does an output in the memory of
    a later one, since a kernel reads what it adds to before it writes anything.
    """
    space = np.broadcast_shapes(*(operand.shape for operand in operands if operand))
    outs = operands[len(program.inputs):]
    sums = [out for out in outs if out and size_of(out.shape) != size_of(space)]
    whole = [out for out in outs if out and out not in sums]
    last = {out.memory: out for out in whole}
    early = [out for out in whole if last[out.memory] is not out]
    groups = [[out] for out in (*sums, *early)] + [[out for out in whole if out not in early]]
    passes = []
    for group in filter(None, groups):
        part = prune(program, tuple(out in group for out in outs))
        used = {name: operand for name, operand in zip(program.inputs, operands, strict=False)
                if operand and name in part.inputs}
        adds = tuple(bool(add) and add[i] for i, out in enumerate(outs) if out in group)
        source = used.get(part.steps[0].formula) if len(part.steps) == 1 else None
        if source is not None and not any(adds) and source.memory == group[0].memory:
            continue  # a copy of an array to itself
        # Kernels do not mix float16 with float64, which they could only round twice.
        types = {array.dtype.name for array in (*used.values(), *group)}
        if not {out.dtype.name for out in group} <= set(_FLOATS) or {"float16", "float64"} <= types:
            return None
        # A sum that reads nothing is a zero gradient: no array has the axes that it is over.
        passes.append(_pass(program, part, space if used else group[0].shape, used, group, adds))
    return passes


def _pass(program: Program, part: Program, space: Shape, used: dict[str, Operand],
          written: Sequence[Operand], add: tuple[bool, ...]) -> KernelCall:
    """The kernel of `part` of a program, which reads `used` and writes `written`."""
    arrays, targets = dict(used), []
    for name, out in zip(part.outputs, written, strict=True):
        shared = [key for key, array in arrays.items() if array.memory == out.memory]
        targets.append(shared[0] if shared else name)
        arrays.setdefault(targets[-1], out)
    layout = collapse(space, [array.shape for array in arrays.values()])
    real = np.float64 if any(a.dtype == np.float64 for a in arrays.values()) else np.float32
    spec = KernelSpec(
        part, tuple(ArraySpec(name, array.dtype.name, mask) for (name, array), mask
                    in zip(arrays.items(), layout.masks, strict=True)),
        tuple(targets), add, real.__name__, size_of(space) * len(part.steps) >= PARALLEL_FROM,
        streamed=_streamed(part, targets, arrays, add, layout, real))
    sums = _partial_sums(spec, layout)
    positions = tuple((array.position, shape) for array, shape
                      in zip(arrays.values(), layout.shapes(), strict=True))
    return KernelCall(kernel_of(replace(spec, partial=sums is not None)), positions, sums,
                      tuple(map(program.scalars.index, part.scalars)), real)


def _streamed(part: Program, targets: Sequence[str], arrays: Mapping[str, Operand],
              add: Sequence[bool], layout: IterationSpace, real: type) -> tuple[str, ...]:
    """Outputs written with non-temporal stores: not read, and flat or with long rows of whole
    vectors."""
    if len(layout.dims) > 1 and (layout.dims[-1] < ROW or layout.dims[-1] % lanes(real)):
        return ()
    return tuple(name for name, added in zip(targets, add or [False] * len(targets), strict=True)
                 if arrays[name].beyond and arrays[name].dtype == real
                 and name not in part.inputs and not added)


def _partial_sums(spec: KernelSpec, layout: IterationSpace) -> Shape | None:
    """Shape of the workspace for partial sums of chunks; None where sums are not split.

    The number of chunks does not depend on the number of threads, nor does the result.
    """
    reduced = spec.reduced
    if not any(reduced):
        return None
    shape = tuple(n for n, gone in zip(layout.dims, reduced, strict=True) if not gone)
    terms = [n for n, gone in zip(layout.dims, reduced, strict=True) if gone]
    if reduced[-1]:
        jobs, least = size_of(shape), ROW if len(terms) == 1 else 1
    else:
        jobs, least = size_of(shape[:-1]) * -(-shape[-1] // TILE), FEW // 4
    chunks = 1 if jobs >= CHUNKS else max(1, min(CHUNKS, terms[0] // least))
    apart = chunks > 1 or (spec.add[0] and spec.program.join != "add")
    # Without chunks, terms are summed in the output itself.
    close = size_of(terms) <= FEW and spec.array(spec.targets[0]).dtype != "float16"
    return (chunks, *shape) if apart or not (reduced[-1] or close) else None


# -- modules ------------------------------------------------------------------------------------


@cache
def kernel_of(spec: KernelSpec) -> Kernel:
    """The kernel of a specification, compiled at its first call."""
    text = cpu_source(spec)
    name = f"{spec.program.title}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return getattr(load_text(name, text), spec.name)


def load_text(name: str, text: str) -> ModuleType:
    """The module `name` with this text.

    numba finds the module of a function by importing it, hence the entry in `sys.modules`.
    """
    with _loading:
        if name not in sys.modules:
            module = ModuleType(name)
            module.__file__ = f"<{name}>"
            lines = text.splitlines(True)
            linecache.cache[module.__file__] = (len(text), None, lines, module.__file__)
            exec(compile(text, module.__file__, "exec"), module.__dict__)
            sys.modules[name] = module
        return sys.modules[name]
