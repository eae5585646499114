"""Code generator for GPU kernels, of the programs that `ops.elementwise.codegen` compiles for CPUs.

The iteration space is collapsed in the same way.  Arrays are flat: if one of them is broadcast, the
extents are constants of the source and the compiler replaces divisions by them with
multiplications; otherwise one kernel serves every size.

    def add_1a2b(A, B, Y, count):
        for i in range(thread(), count, threads()):
            a = A[i]
            ...

Each element of an output that is a sum is reduced by one block (`block_reduce`), or in chunks by
several.  Kernels over many sets of arrays read tables of their addresses, as in
`ops.optimizer.multi_tensor_apply`; a block computes a part of a set.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...elementwise.codegen import ArraySpec, KernelSpec, indent, step_lines
from ...elementwise.formula import functions_in
from ..lib.block_reduce import BLOCK_SIZE

__all__ = ["is_broadcast", "source"]

_HERE, _TABLES = "nbmod.ops.cuda.lib.kernel_math", "nbmod.ops.cuda.runtime.ptx"


def is_broadcast(spec: KernelSpec) -> bool:
    """Whether some array lacks a dimension, so that the text depends on the extents."""
    return not all(all(array.mask) for array in spec.arrays)


def source(spec: KernelSpec, extents: Sequence[int], chunks: int = 1) -> str:
    """The text of a module with one CUDA kernel, named like the program.

    Its arguments are the arrays of `spec`, the program's scalars, and the number of elements: of
    the iteration space, of the output that is a sum, or of (chunks, output) with several chunks.
    Those of a kernel over many sets are tables and the number of parts.
    """
    used = {name for step in spec.program.steps for name in functions_in(step.formula)} - {"abs"}
    words = [f"{name} = MATH['{name}']" for name in sorted(used)]
    kinds = {spec.array(target).dtype for target in spec.targets if _is_cast(spec, target)}
    words += [f"to_{kind} = CASTS['{kind}']" for kind in sorted(kinds)]
    body = (_sum_body(spec, extents, chunks) if any(spec.reduced)
            else _multi_body(spec) if spec.many else _map_body(spec, extents))
    parameters = ["ADDRESSES", "SCALARS", "CHUNKS"] if spec.many else spec.parameters
    shown = sorted({array.dtype for array in spec.arrays}) if spec.many else []
    arrays = ", ".join(f"{array.name.upper()} {array.dtype}" for array in spec.arrays)
    return "\n".join([
        f'"""{spec.program}', "", f"Over {arrays}. Written by {__name__}.", '"""', "",
        f"from {_HERE} import CASTS, MATH, cuda, kernel, minimum, thread, threads",
        *([f"from {_TABLES} import elements_at"] if spec.many else []),
        f"from numpy import {', '.join([*shown, f'{spec.real} as real'])}", "", *words, "", "",
        "@kernel", f"def {spec.name}({', '.join([*parameters, 'count'])}):", *indent(body, 1), ""])


def _loads(spec: KernelSpec, extents: Sequence[int]) -> list[str]:
    lines = []
    for name in spec.program.inputs:
        array = spec.array(name)
        element = _element(array, extents)
        lines.append(f"{name} = {element if array.dtype == spec.real else f'real({element})'}")
    return lines


def _store(spec: KernelSpec, value: str, target: str, add: bool, element: str) -> str:
    array = spec.array(target)
    if add:
        before = element if array.dtype == spec.real else f"real({element})"
        value = f"{before} + {value}"
    if array.dtype == "bool":
        return f"{element} = {value} != 0"
    return f"{element} = to_{array.dtype}({value})" if _is_cast(spec, target) else (
        f"{element} = {value}")


def _is_cast(spec: KernelSpec, target: str) -> bool:
    """Whether a result is cast to an integer type."""
    kind = spec.array(target).dtype
    return "int" in kind and kind != spec.real


def _element(array: ArraySpec, extents: Sequence[int]) -> str:
    """The element of a flat array at the current index."""
    if all(array.mask):
        return f"{array.name.upper()}[i]"
    held = [d for d, has in enumerate(array.mask) if has]
    terms = [(d, prod(extents[e] for e in held if e > d)) for d in held]
    offset = " + ".join(f"i{d} * {step}" if step != 1 else f"i{d}" for d, step in terms)
    return f"{array.name.upper()}[{offset or '0'}]"


def _unravel(flat: str, dims: Sequence[int], extents: Sequence[int]) -> list[str]:
    """Lines that set i<d> for every d of `dims` from one index over their extents."""
    return [f"i{d} = {flat} // {prod(extents[e] for e in dims[k + 1:])} % {extents[d]}"
            for k, d in enumerate(dims)]


def _map_body(spec: KernelSpec, extents: Sequence[int]) -> list[str]:
    """A grid-stride loop, for outputs over the whole space."""
    indices = _unravel("i", range(spec.rank), extents) if is_broadcast(spec) else []
    return ["for i in range(thread(), count, threads()):",
            *indent([*indices, *_step(spec, extents)], 1)]


def _step(spec: KernelSpec, extents: Sequence[int]) -> list[str]:
    """Lines that compute one element of the space."""
    stores = [_store(spec, value, target, add, _element(spec.array(target), extents))
              for value, target, add in zip(spec.program.outputs, spec.targets, spec.add,
                                            strict=True)]
    return [*_loads(spec, extents), *step_lines(spec.program), *stores]


def _multi_body(spec: KernelSpec) -> list[str]:
    """A loop over parts (row of the tables, first element, end) of flat arrays or single elements,
    whose addresses and scalars are in tables."""
    arrays, scalars = spec.arrays, spec.program.scalars
    views = [f"{array.name.upper()} = elements_at(ADDRESSES, row * {len(arrays)} + {k}, stop, "
             f"{array.dtype})" for k, array in enumerate(arrays)]
    loads = [f"{name} = SCALARS[row * {len(scalars)} + {k}]" for k, name in enumerate(scalars)]
    return ["for part in range(cuda.blockIdx.x, count, cuda.gridDim.x):",
            *indent(["row, start = CHUNKS[3 * part], CHUNKS[3 * part + 1]",
                     "stop = CHUNKS[3 * part + 2]", *views, *loads,
                     "for i in range(start + cuda.threadIdx.x, stop, cuda.blockDim.x):",
                     *indent(_step(spec, ()), 1)], 1)]


def _sum_body(spec: KernelSpec, extents: Sequence[int], chunks: int) -> list[str]:
    """A block reduction for each chunk of each element of an output that is a sum."""
    summed = [d for d, gone in enumerate(spec.reduced) if gone]
    free_dims = [d for d, gone in enumerate(spec.reduced) if not gone]
    terms, segments = (prod(extents[d] for d in dims) for dims in (summed, free_dims))
    length = -(-terms // chunks)
    position = " + ".join(f"i{d} * {prod(extents[d + 1:])}" for d in range(spec.rank))
    target = spec.targets[0]
    place = f"{spec.array(target).name.upper()}[task]"
    return [
        f"part = cuda.shared.array({BLOCK_SIZE}, real)",
        "tid = cuda.threadIdx.x",
        "for task in range(cuda.blockIdx.x, count, cuda.gridDim.x):",
        *indent([
            f"segment, first = task % {segments}, task // {segments} * {length}",
            *_unravel("segment", free_dims, extents),
            "total = real(0)",
            f"for term in range(first + tid, minimum(first + {length}, {terms}), {BLOCK_SIZE}):",
            *indent([*_unravel("term", summed, extents), f"i = {position}",
                      *_loads(spec, extents), *step_lines(spec.program),
                      f"total += {spec.program.outputs[0]}"], 1),
            "part[tid] = total",
            "cuda.syncthreads()",
            f"width = {BLOCK_SIZE // 2}",
            "while width > 0:",
            "    if tid < width:",
            "        part[tid] += part[tid + width]",
            "    cuda.syncthreads()",
            "    width //= 2",
            "if tid == 0:",
            f"    {_store(spec, 'part[0]', target, spec.add[0], place)}",
            "cuda.syncthreads()"], 1)]
