"""Compiled kernels for programs: made, kept on disk, and bound to arrays.

    step = prepare(program, ins, outs, scalars, add)     # at bind
    step()                                               # in the loop

`prepare` chooses.  Floating point work of some size gets a kernel: its text is written
(`ops.writer`) to a file of its own in the cache folder and imported, so that numba finds its
compiled form there in the next process, a debugger can step into it and a person can read it.
Everything else, above all integers and small arrays, is left to NumPy (`program.interpreted`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import linecache
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from ..base import CONFIG
from .jit import Kernel, cache_folder
from .program import Program, interpreted, prune
from .shape import size_of
from .writer import ArraySpec, KernelSpec, Layout, collapse, cpu_source

__all__ = ["COMPILED_FROM", "PARALLEL_FROM", "compiled", "kernel_of", "load_text", "prepare"]

COMPILED_FROM = 4096
"""Elements from which a kernel is worth compiling: 0.1 to 0.3 s once per machine, against the
5 us that NumPy needs more than a kernel for 4096 elements (8 against 1)."""

PARALLEL_FROM = 32768
"""Elements from which a kernel runs on all cores: entering a parallel loop costs about 3 us, one
core needs 3 us for 32768 sums of two float32 numbers."""

_FLOATS = ("float16", "float32", "float64")
_loading = threading.Lock()


def prepare(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
            scalars: Sequence[Any] = (), add: Sequence[bool] = ()) -> Callable[[], None]:
    """A function without arguments that executes `program` on these very arrays.

    Arguments as those of `program.run`.  All arrays are C-contiguous.
    """
    if _size(ins, outs) >= COMPILED_FROM:
        step = compiled(program, ins, outs, scalars, add)
        if step is not None:
            return step
    return interpreted(program, ins, outs, scalars, add)


def _size(ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None]) -> int:
    return max((array.size for array in (*ins, *outs) if array is not None), default=0)


def compiled(program: Program, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
             scalars: Sequence[Any] = (), add: Sequence[bool] = ()) -> Callable[[], None] | None:
    """The same through a kernel whatever the size; None where kernels do not go.

    Kernels read any type and write floating point numbers.  They write all outputs over the whole
    space in one pass; each output that is a sum takes another, and comes first, because a later
    pass may overwrite an input.
    """
    space = np.broadcast_shapes(*(a.shape for a in (*ins, *outs) if a is not None))
    wanted = [i for i, out in enumerate(outs) if out is not None]
    sums = [i for i in wanted if outs[i].size != size_of(space)]  # type: ignore[union-attr]
    passes = [[i] for i in sums] + [[i for i in wanted if i not in sums]]
    steps = []
    for group in passes:
        part = [out if i in group else None for i, out in enumerate(outs)]
        step = _bind(program, space, ins, part, scalars, add) if group else None
        if group and step is None:
            return None
        if step is not None:
            steps.append(step)
    return steps[0] if len(steps) == 1 else partial(_run_all, steps)


def _run_all(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()


def _bind(program: Program, space: tuple[int, ...], ins: Sequence[np.ndarray],
          outs: Sequence[np.ndarray | None], scalars: Sequence[Any], add: Sequence[bool]
          ) -> Callable[[], None] | None:
    """One kernel with its arguments; None if an element type is beyond it."""
    part = prune(program, tuple(out is not None for out in outs))
    given = dict(zip(program.inputs, ins, strict=True))
    arrays = {name: given[name] for name in part.inputs}
    written = [out for out in outs if out is not None]
    if _is_idle(part, arrays, written, add):
        return _nothing
    summed = written[0].size != size_of(space)
    if not _suits([*arrays.values(), *written], written, summed):
        return None
    targets = []
    for name, out in zip(part.outputs, written, strict=True):
        shared = [key for key, array in arrays.items() if _same_memory(array, out)]
        targets.append(shared[0] if shared else name)
        arrays.setdefault(targets[-1], out)
    layout = collapse(space, [array.shape for array in arrays.values()])
    real = _real(arrays.values())
    spec = KernelSpec(
        part, tuple(ArraySpec(name, array.dtype.name, mask) for (name, array), mask
                    in zip(arrays.items(), layout.masks, strict=True)),
        tuple(targets), tuple(bool(add) and add[i] for i, out in enumerate(outs)
                              if out is not None),
        real, size_of(space) >= PARALLEL_FROM)
    sums = _partial_sums(spec, layout)
    numbers = dict(zip(program.scalars, scalars, strict=True))
    return partial(kernel_of(replace(spec, partial=bool(sums))),
                   *(_argument(array, shape) for array, shape
                     in zip(arrays.values(), layout.shapes(), strict=True)),
                   *sums, *(np.dtype(real).type(numbers[name]) for name in part.scalars))


def _is_idle(program: Program, arrays: dict[str, np.ndarray], written: Sequence[np.ndarray],
             add: Sequence[bool]) -> bool:
    """Whether the program only copies an array to itself."""
    copies = len(program.steps) == 1 and program.steps[0].formula in arrays
    return (copies and not any(add)
            and _same_memory(arrays[program.steps[0].formula], written[0]))


def _nothing() -> None:
    pass


def _partial_sums(spec: KernelSpec, layout: Layout) -> list[np.ndarray]:
    """Memory for sums over many short rows: some 500 KB at most, for the life of the kernel.

    The number of chunks does not depend on the number of threads, nor does the result.
    """
    reduced = spec.reduced
    if reduced[-1] or not any(reduced):
        return []
    shape = tuple(n for n, gone in zip(layout.dims, reduced, strict=True) if not gone)
    chunks = min(16, next(n for n, gone in zip(layout.dims, reduced, strict=True) if gone) // 16)
    return [np.empty((chunks, *shape), spec.real)] if chunks > 1 and size_of(shape) <= 8192 else []


def _suits(arrays: Sequence[np.ndarray], written: Sequence[np.ndarray], summed: bool) -> bool:
    """Whether a kernel may do this.

    It writes floating point numbers, adds up sums in their own type, and does not mix half with
    double precision, which it could only round twice.
    """
    floats = _FLOATS[1:] if summed else _FLOATS
    types = {array.dtype.name for array in arrays}
    return (all(out.dtype.name in floats for out in written)
            and not {"float16", "float64"} <= types)


def _real(arrays: Any) -> str:
    """The type a kernel computes in."""
    return "float64" if any(array.dtype == np.float64 for array in arrays) else "float32"


def _same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    return (a is b or (a.dtype == b.dtype and a.size == b.size and
                       a.__array_interface__["data"][0] == b.__array_interface__["data"][0]))


def _argument(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    flat = array.view(np.uint16) if array.dtype == np.float16 else array
    return flat.reshape(shape)


# -- files --------------------------------------------------------------------------------------


@cache
def kernel_of(spec: KernelSpec) -> Kernel:
    """The kernel of a specification, compiled at its first call."""
    text = cpu_source(spec)
    name = f"{spec.program.title}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return getattr(load_text(name, text), spec.name)


def load_text(name: str, text: str) -> ModuleType:
    """The module `name` with this text, from a file of its own unless nothing may be kept.

    numba finds a cached kernel by importing its module by name, hence the entry in `sys.modules`.
    """
    with _loading:
        return sys.modules.get(name) or (_from_file if CONFIG.cache else _from_text)(name, text)


def _from_text(name: str, text: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = f"<{name}>"
    linecache.cache[module.__file__] = (len(text), None, text.splitlines(True), module.__file__)
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    sys.modules[name] = module
    return module


def _from_file(name: str, text: str) -> ModuleType:
    path = cache_folder() / "kernels" / f"{name}.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)  # complete or absent, whoever else writes it
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module
