"""Code generation: a program over arrays of given types and shapes becomes Python source text.

The iteration space is collapsed first: dimensions of size 1 are dropped, and adjacent ones that
every array either has or lacks are merged.  Arrays of one shape thus are one flat loop, a bias over
(N, C, H, W) is three nested ones, and no array is ever expanded.  What remains of the shapes is a
mask for each array: which of the collapsed dimensions it has.  The text depends on the masks but
not on the sizes, so one kernel serves all shapes of one pattern.

    space (8, 32, 56, 56), arrays (8, 32, 56, 56) and (32, 1, 1)
    ->  dims (8, 32, 3136), masks (1, 1, 1) and (0, 1, 0)

In the text an array has its value's name in capitals: `x = X[i]`.  An output that shares memory
with an input is that input's array, so the compiler sees the dependence and vectorizes the loop.
GPU kernels are generated from the same specifications by `ops.cuda.elementwise.codegen`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..simd.raw_arrays import STEP
from .formula import functions_in, scalar_text
from .program import Program

__all__ = ["ROW", "ArraySpec", "KernelSpec", "IterationSpace", "collapse", "cpu_source", "indent",
           "step_lines"]

Mask = tuple[bool, ...]
Dim = int | str
"""A dimension of the space, or another that is looped over: of i<dim> from 0 to n<dim>."""

TILE = 256
"""Columns that one thread sums at a time: 1 KB of every row, long enough for hardware
prefetching."""
START = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}
"""The reductions (`Program.join`) and their neutral elements."""
SIGNS = {"add": "+", "multiply": "*"}
ROW = 4096
"""Elements of a flat array per row where outputs are streamed; after each row, a thread waits for
its stores."""


class IterationSpace(NamedTuple):
    """A collapsed iteration space: its extents, and for each array which of them it has."""

    dims: tuple[int, ...]
    masks: tuple[Mask, ...]

    def shapes(self) -> list[tuple[int, ...]]:
        """The shape in which each array is passed to the kernel."""
        return [tuple(n for n, has in zip(self.dims, mask, strict=True) if has) or (1,)
                for mask in self.masks]


def collapse(space: Sequence[int], shapes: Iterable[Sequence[int]]) -> IterationSpace:
    """Merge the dimensions of `space`, to which arrays of `shapes` broadcast from the right."""
    rank = len(space)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    dims: list[int] = []
    flags: list[Mask] = []
    for d, extent in enumerate(space):
        if extent == 1:
            continue
        has = tuple(shape[d] != 1 for shape in aligned)
        if flags and flags[-1] == has:
            dims[-1] *= extent
        else:
            dims.append(extent)
            flags.append(has)
    if not dims:
        return IterationSpace((1,), ((True,),) * len(aligned))
    masks = tuple(tuple(has[k] for has in flags) for k in range(len(aligned)))
    return IterationSpace(tuple(dims), masks)


class ArraySpec(NamedTuple):
    """One array of a kernel: the value it holds, its element type, its mask."""

    name: str
    dtype: str
    mask: Mask


@dataclass(frozen=True)
class KernelSpec:
    """Everything that the source text of a kernel depends on.

    `arrays` are the kernel's parameters; `targets[k]` is the name of the array that output k is
    written to (an input's when they share memory) and `add[k]` whether it is added to.  All
    outputs have the whole space, or there is one that lacks dimensions, over which it is summed.
    With `partial` the kernel gets a float64 workspace of shape (chunks, *shape of the output): the
    outermost summed dimension is split into chunks, which are summed in parallel.
    With `many` it gets tables instead of arrays and scalars, and does the same for any number of
    sets of arrays (see `ops.optimizer.multi_tensor_apply`).  Arrays in `streamed` are written with
    non-temporal stores (`simd.nontemporal`); their rows are multiples of a vector.  Of matrices in
    `picked` it gets indices, too, of the rows that are the rows of the space; those of rows that
    come `ahead` rows later are prefetched.
    """

    program: Program
    arrays: tuple[ArraySpec, ...]
    targets: tuple[str, ...]
    add: tuple[bool, ...]
    real: str = "float32"
    parallel: bool = False
    partial: bool = False
    many: bool = False
    streamed: tuple[str, ...] = ()
    picked: tuple[str, ...] = ()
    ahead: int = 0

    @property
    def name(self) -> str:
        """The name of the kernel function; the title alone could hide a function of the text."""
        return f"{self.program.title}_kernel"

    @property
    def rank(self) -> int:
        return len(self.arrays[0].mask)

    def array(self, name: str) -> ArraySpec:
        return next(array for array in self.arrays if array.name == name)

    @property
    def parameters(self) -> list[str]:
        if self.many:
            return ["ADDRESSES", "SCALARS", "CHUNKS", "JOBS"]
        partial = ["PARTIAL"] if self.partial else []
        return [*(array.name.upper() for array in self.arrays), *partial,
                *(f"{name.upper()}_AT" for name in self.picked), *self.program.scalars]

    @property
    def reduced(self) -> Mask:
        """Which dimensions the output is summed over."""
        return tuple(not has for has in self.array(self.targets[0]).mask)


# -- source fragments ---------------------------------------------------------------------------


def _element(spec: KernelSpec, array: ArraySpec) -> str:
    """`X[i0, i2]`: the element of an array at the current indices."""
    if array.name in spec.picked:
        return f"{array.name.upper()}[{array.name}_row, i1]"
    indices = ", ".join(f"i{d}" for d, has in enumerate(array.mask) if has) or "0"
    return f"{array.name.upper()}[{indices}]"


def _load(spec: KernelSpec, array: ArraySpec) -> str:
    element = _element(spec, array)
    if array.dtype == "float16":
        element = f"from_half({element})"
        return f"{array.name} = {element if spec.real == 'float32' else f'real({element})'}"
    return f"{array.name} = {element if array.dtype == spec.real else f'real({element})'}"


def _store(spec: KernelSpec, output: str, target: str, add: bool) -> str:
    array = spec.array(target)
    element = _element(spec, array)
    if array.dtype == "float16":
        value = f"from_half({element}) + {output}" if add else output
        return f"{element} = to_half({value})"
    return f"{element} = {element} + {output}" if add else f"{element} = {output}"


def _extent(spec: KernelSpec, d: int) -> str:
    """Where a kernel finds the size of dimension d: in the shape of an array that has it."""
    array = next(array for array in spec.arrays
                 if array.mask[d] and array.name not in spec.picked)
    return f"{array.name.upper()}.shape[{sum(array.mask[:d])}]"


def indent(lines: Iterable[str], depth: int) -> list[str]:
    """The lines, `depth` levels further in."""
    return [" " * (4 * depth) + line for line in lines]


def _unravel(flat: str, dims: Sequence[Dim]) -> list[str]:
    """Lines that set i<d> for every d of `dims` from one flat index over their extents."""
    lines = []
    for position, d in enumerate(dims):
        inner = " * ".join(f"n{e}" for e in dims[position + 1:])
        index = f"{flat} // ({inner})" if len(dims) - position > 2 else (
            f"{flat} // {inner}" if inner else flat)
        lines.append(f"i{d} = {index}" + (f" % n{d}" if position else ""))
    return lines


def _split_loads(spec: KernelSpec, inputs: Iterable[str]) -> tuple[list[str], list[str]]:
    """Loads that are invariant in the innermost loop, and the others."""
    arrays = [spec.array(name) for name in inputs]
    outer = [_load(spec, array) for array in arrays if not array.mask[-1]]
    return outer, [_load(spec, array) for array in arrays if array.mask[-1]]


def step_lines(program: Program) -> list[str]:
    """One line per step, over one element; copies of an input need none."""
    return [f"{step.target} = {scalar_text(step.formula)}" for step in program.steps
            if step.target != step.formula]


# -- CPU ----------------------------------------------------------------------------------------

_HELPERS = "nbmod.ops.elementwise.kernel_math"

_CPU = {
    **{name: ("numpy", name) for name in (
        "floor", "ceil", "trunc", "sqrt", "cbrt", "log2", "log10", "tan", "arcsin", "arccos",
        "arctan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "hypot")},
    **{name: (_HELPERS, name) for name in ("maximum", "minimum", "mod", "from_half", "to_half")},
    **{name: ("numpy", name) for name in ("exp", "log", "log1p", "expm1", "tanh", "sin", "cos")},
    **{name: (_HELPERS, f"{name}64") for name in ("erf", "erfinv", "gamma", "gammaln", "digamma")},
}
_CPU32 = {
    **{name: (_HELPERS, f"{name}32") for name in (
        "exp", "log", "tanh", "sin", "cos", "erf", "erfinv", "gamma", "gammaln", "digamma")},
    **{name: (_HELPERS, f"{name}_32") for name in ("log1p", "expm1")},
}
"""Where a CPU kernel takes each function of the vocabulary from; `abs` is Python's own."""
_SOURCES = {"prange": "nbmod.ops.jit", "int64": "numpy", "uint64": "numpy", "uint16": "numpy",
            "float32": "numpy", "float64": "numpy", "inf": "numpy",
            "array_at": "nbmod.ops.simd.raw_arrays", "stack_buffer": "nbmod.ops.simd.raw_arrays",
            "store_nontemporal": "nbmod.ops.simd.nontemporal",
            "store_fence": "nbmod.ops.simd.nontemporal",
            "prefetch_line": "nbmod.ops.simd.pixel_rows"}
"""Where a CPU kernel takes the names around its formulas from."""


def cpu_source(spec: KernelSpec) -> str:
    """The text of a module with one kernel, `spec.name`."""
    table = _CPU | (_CPU32 if spec.real == "float32" else {})
    summed = any(spec.reduced)
    body = _sum_body(spec) if summed else _many_body(spec) if spec.many else _map_body(spec)
    used = [word for word in _SOURCES if any(word in line for line in body)]
    imports = [("numpy", spec.real, "real"), ("nbmod.ops.jit", "kernel", "kernel"),
               *((_SOURCES[word], word, word) for word in used),
               *((*table[name], name) for name in _functions(spec) if name != "abs")]
    chosen = {"parallel": spec.parallel and "prange" in used,
              "fastmath": summed and spec.program.join == "add"}
    options = [f"{option}=True" for option, on in chosen.items() if on]
    return "\n".join([
        *_head(spec), *_import_lines(imports), "", "",
        f"@kernel({', '.join(options)})" if options else "@kernel",
        f"def {spec.name}({', '.join(spec.parameters)}):",
        *indent([f"n{d} = {_extent(spec, d)}" for d in range(0 if spec.many else spec.rank)], 1),
        *indent(body, 1), ""])


def _functions(spec: KernelSpec) -> list[str]:
    """Functions the text calls besides `real`, sorted."""
    names = {name for step in spec.program.steps for name in functions_in(step.formula)}
    types = {array.dtype for array in spec.arrays}
    if any(spec.reduced) and spec.program.join not in SIGNS:
        names.add(spec.program.join)
    return sorted(names | ({"from_half", "to_half"} if "float16" in types else set()))


def _head(spec: KernelSpec) -> list[str]:
    arrays = ", ".join(f"{array.name.upper()} {array.dtype}" for array in spec.arrays)
    writer = "nbmod.ops.elementwise.codegen"
    return [f'"""{spec.program}', "", f"Over {arrays}. Written by {writer}.", '"""', ""]


def _import_lines(imports: Iterable[tuple[str, str, str]]) -> list[str]:
    names: dict[str, list[str]] = {}
    for module, name, used in imports:
        names.setdefault(module, []).append(name if name == used else f"{name} as {used}")
    return [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]


def _map_body(spec: KernelSpec) -> list[str]:
    """All outputs have the whole space: a loop over rows, and one along each row."""
    last = spec.rank - 1
    outer, inner = _split_loads(spec, spec.program.inputs)
    outer = _picked_rows(spec) + outer
    inner += step_lines(spec.program)
    stores = {target: _store(spec, output, target, add) for output, target, add
              in zip(spec.program.outputs, spec.targets, spec.add, strict=True)}
    work = [*inner, *stores.values()]
    if spec.streamed:
        row = [*outer, *_streamed_row(spec, inner, stores)]
        if last == 0:  # rows of a flat array, each from `first` to `stop`
            return [f"for flat in prange((n0 + {ROW - 1}) // {ROW}):",
                    f"    first = int64(flat) * {ROW}", f"    stop = min(n0, first + {ROW})",
                    *indent(row, 1)]
        return _parallel_over(range(last), row)
    if last == 0:
        return [*outer, "for i0 in prange(n0):", *indent(work, 1)]
    row = [*outer, f"for i{last} in range(n{last}):", *indent(work, 1)]
    return _parallel_over(range(last), row)


def _picked_rows(spec: KernelSpec) -> list[str]:
    """Lines before a row: where it is in arrays of which rows are picked, and prefetches of a later
    one, which the hardware cannot foresee."""
    places = {name.upper(): f"{name}_row" for name in spec.picked}
    lines = [f"{row} = uint64({name}_AT[i0])" for name, row in places.items()]
    if spec.ahead:
        lines += [f"later = min(int64(i0) + {spec.ahead}, n0 - 1)",
                  *(f"prefetch_line({name}, uint64({name}_AT[later]) * uint64(n1))"
                    for name in places)]
    return lines


def _streamed_row(spec: KernelSpec, inner: Sequence[str], stores: Mapping[str, str]) -> list[str]:
    """Loops along a row: streamed outputs are staged in a stack buffer, the others stored."""
    last, streamed = spec.rank - 1, spec.streamed
    first, stop, at = ("first", "stop", "step") if last == 0 else (
        "0", f"n{last}", f"{'int64(i0)' if last == 1 else 'row'} * n{last} + step")
    new = {name: f"{name}_new" for name in streamed}
    assignments = [f"{new[target]}[k] = {output}" if target in new else stores[target]
                   for output, target in zip(spec.program.outputs, spec.targets, strict=True)]
    turn = [*(f"{name} = stack_buffer(real)" for name in new.values()), f"for k in range({STEP}):",
            # Unsigned indices: numba adds no wraparound of negative ones.
            f"    i{last} = uint64(step) + uint64(k)", *indent([*inner, *assignments], 1),
            *(f"store_nontemporal({new[name]}, {name.upper()}, {at})" for name in streamed)]
    return [f"for step in range({first}, {stop} - {STEP - 1}, {STEP}):", *indent(turn, 1),
            f"store_fence({streamed[0].upper()})",
            f"for i{last} in range({stop} // {STEP} * {STEP}, {stop}):",
            *indent([*inner, *stores.values()], 1)]


def _many_body(spec: KernelSpec) -> list[str]:
    """Flat arrays, whose addresses and scalars are rows of tables, in jobs of several chunks.

    A chunk is (row, first element, number of elements).
    """
    sizes = {"float16": 2, "float32": 4, "float64": 8}
    kinds = {"float16": "uint16", spec.real: "real"}
    arrays = [f"{array.name.upper()} = array_at(ADDRESSES[row, {k}] + {sizes[array.dtype]} * start"
              f", n0, {kinds.get(array.dtype, array.dtype)})"
              for k, array in enumerate(spec.arrays)]
    scalars = [f"{name} = SCALARS[row, {k}]" for k, name in enumerate(spec.program.scalars)]
    chunk = ["row, start, n0 = CHUNKS[chunk, 0], CHUNKS[chunk, 1], CHUNKS[chunk, 2]", *arrays,
             *scalars, *(line.replace("prange", "range") for line in _map_body(spec))]
    return ["for flat in prange(len(JOBS) - 1):", "    job = int64(flat)",
            "    for chunk in range(JOBS[job], JOBS[job + 1]):", *indent(chunk, 2)]


def _parallel_over(dims: Iterable[Dim], work: Sequence[str]) -> list[str]:
    """A parallel loop over all indices of `dims` together."""
    dims = list(dims)
    if len(dims) == 1:
        return [f"for i{dims[0]} in prange(n{dims[0]}):", *indent(work, 1)]
    # The index of `prange` is unsigned, and numba's unsigned // signed is a float.
    return [f"for flat in prange({' * '.join(f'n{d}' for d in dims)}):", "    row = int64(flat)",
            *indent(_unravel("row", dims), 1), *indent(work, 1)]


def _sum_body(spec: KernelSpec) -> list[str]:
    """One output that lacks dimensions: a reduction over these, by addition or another `join`.

    With `partial` the outermost of them is split into chunks, `first` to `stop`.
    """
    body = _sum_rows(spec) if spec.reduced[-1] else _sum_columns(spec)
    if not spec.partial:
        return body
    return ["nc = PARTIAL.shape[0]", f"size = (n{_summed(spec)[0]} + nc - 1) // nc", *body]


def _chunk(spec: KernelSpec) -> list[str]:
    """The range of a chunk."""
    return ["first = int64(ic) * size", f"stop = min(n{_summed(spec)[0]}, first + size)"]


def _sum_rows(spec: KernelSpec) -> list[str]:
    """The innermost dimension is summed: in lanes along a row, in double precision."""
    dims = _kept(spec)
    store = _store(spec, "real(total)", spec.targets[0], spec.add[0])
    if not spec.partial:
        cell = [*_row_total(spec), store]
        return _parallel_over(dims, cell) if dims else cell
    cell = [*_chunk(spec), *_row_total(spec), f"{_part(dims)} = total"]
    combine = [*_all_parts(spec, dims), store]
    for d in reversed(dims):
        combine = [f"for i{d} in range(n{d}):", *indent(combine, 1)]
    return [*_parallel_over(["c", *dims], cell), *combine]


def _row_total(spec: KernelSpec) -> list[str]:
    """Lines that set `total`."""
    start, dims = START[spec.program.join], _summed(spec)
    if spec.program.join == "add":
        return [f"total = {start}", *_over_terms(spec, dims, _sum_row)]
    kind, pair = "real", ("lanes[k]", "lanes[k + width]")
    if spec.program.join == "multiply":
        # The product may be in range although that of every other element overflows.
        kind, pair = "float64", ("lanes[2 * k]", "lanes[2 * k + 1]")
    return [f"lanes = stack_buffer({kind})", f"for k in range({STEP}):",
            f"    lanes[k] = {kind}({start})",
            *_over_terms(spec, dims, _join_row),
            f"for width in {tuple(STEP >> k for k in range(1, STEP.bit_length()))}:",
            "    for k in range(width):",
            f"        lanes[k] = {_joined(spec, *pair)}",
            "total = lanes[0]"]


def _sum_row(spec: KernelSpec, start: str, stop: str) -> list[str]:
    """A loop along a row that adds to `total`."""
    outer, work = _term(spec)
    if start != "0":  # the wraparound of negative indices would prevent vectorization
        start, stop = f"uint64({start})", f"uint64({stop})"
    return [*outer, f"for i{spec.rank - 1} in range({start}, {stop}):",
            *indent([*work, f"total += float64({spec.program.outputs[0]})"], 1)]


def _join_row(spec: KernelSpec, start: str, stop: str) -> list[str]:
    """Loops along a row that reduce it to `lanes`: compilers do not reassociate floats."""
    last, (outer, work) = spec.rank - 1, _term(spec)
    joins = [f"lanes[k] = {_joined(spec, 'lanes[k]', spec.program.outputs[0])}"]
    return [*outer, f"for step in range({start}, {stop}, {STEP}):",
            f"    for k in range(min({STEP}, {stop} - step)):",
            f"        i{last} = uint64(step) + uint64(k)", *indent([*work, *joins], 2)]


def _sum_columns(spec: KernelSpec) -> list[str]:
    """The innermost dimension is kept: every thread accumulates a tile of columns, row by row."""
    last, dims = spec.rank - 1, _kept(spec)
    along = f"for i{last} in range(lo, hi):"
    cells: list[Dim] = [*dims[:-1], "t"]
    cell = _part(dims) if spec.partial else _element(spec, spec.array(spec.targets[0]))
    # Unsigned indices: numba adds no wraparound of negative ones.
    tile = [f"lo = uint64(int64(it) * {TILE})", f"hi = min(uint64(n{last}), lo + uint64({TILE}))"]

    def add_row(spec: KernelSpec, start: str, stop: str) -> list[str]:
        outer, work = _term(spec)
        joined = _joined(spec, cell, spec.program.outputs[0])
        row = [*outer, along, *indent([*work, f"{cell} = {joined}"], 1)]
        dim = _summed(spec)[-1]
        return [f"for i{dim} in range({start}, {stop}):", *indent(row, 1)]

    lines = [*tile, *_over_terms(spec, _summed(spec), add_row)]
    if spec.partial or not spec.add[0]:
        kind = "float64" if spec.partial else "real"
        lines[2:2] = [along, f"    {cell} = {kind}({START[spec.program.join]})"]
    tiles = f"nt = (n{last} + {TILE - 1}) // {TILE}"
    if not spec.partial:
        return [tiles, *_parallel_over(cells, lines)]
    store = _store(spec, "real(total)", spec.targets[0], spec.add[0])
    return [tiles, *_parallel_over(["c", *cells], [*_chunk(spec), *lines]),
            *_parallel_over(cells, [*tile, along, *indent([*_all_parts(spec, dims), store], 1)])]


def _over_terms(spec: KernelSpec, dims: Sequence[int],
                body: Callable[[KernelSpec, str, str], list[str]]) -> list[str]:
    """Loops over the summed dimensions; `body` generates the innermost from its start and end."""
    ranges = [("first", "stop") if spec.partial and d == dims[0] else ("0", f"n{d}") for d in dims]
    lines = body(spec, *ranges[-1])
    for d, (start, stop) in reversed(list(zip(dims[:-1], ranges, strict=False))):
        lines = [f"for i{d} in range({start}, {stop}):", *indent(lines, 1)]
    return lines


def _joined(spec: KernelSpec, a: str, b: str) -> str:
    join = spec.program.join
    return f"{a} {SIGNS[join]} {b}" if join in SIGNS else f"{join}({a}, {b})"


def _part(dims: Sequence[int]) -> str:
    """The partial result of a chunk."""
    return f"PARTIAL[{', '.join(f'i{d}' for d in ['c', *dims])}]"


def _all_parts(spec: KernelSpec, dims: Sequence[int]) -> list[str]:
    """Lines that set `total` to the combination of all partial results."""
    return [f"total = {START[spec.program.join]}", "for ic in range(nc):",
            f"    total = {_joined(spec, 'total', _part(dims))}"]


def _summed(spec: KernelSpec) -> list[int]:
    return [d for d, gone in enumerate(spec.reduced) if gone]


def _kept(spec: KernelSpec) -> list[int]:
    return [d for d, gone in enumerate(spec.reduced) if not gone]


def _term(spec: KernelSpec) -> tuple[list[str], list[str]]:
    """Loop-invariant loads, and the lines that compute a term in the innermost loop."""
    outer, inner = _split_loads(spec, spec.program.inputs)
    return outer, [*inner, *step_lines(spec.program)]
