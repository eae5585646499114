"""A small builder for micro-kernels in LLVM IR.

A micro-kernel is a function that kernels call like any other.  Its arguments are flat contiguous
arrays, integers, and tuples of integers (named or not); `emit(v)` generates its code with the
methods of `Vectors`:

    v.args.x           an argument: the pointer of an array, an integer, a list of integers
    v.at(p, i)         the address of element i of p
    v.starts("x", "y") the addresses of elements `at` of arrays x and y, `at` being an argument
    v.load(p)          the vector at p            v.store(value, p)
    v.lane_mask(n)     a mask of n lanes for v.load(p, mask, rest) and v.store(value, p, mask)
    v.store_nontemporal(value, p)    bypasses the caches; p is aligned, v.store_fence() follows
    v.broadcast(p)     the element at p, in every lane
    v.fma(a, b, c)     a b + c, rounded once where the host has such an instruction
    v.loop(...)        a counted loop with loop-carried values
    v.if_else(...)     a branch, with the values of its arms

numba keeps no array in registers, which is why this exists: the values here are registers.
"""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from ..build.inlining import Inlined
from .host import lanes

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Type
    from numba.core.base import BaseContext
    from numba.core.typing import Signature

__all__ = ["Intrinsic", "MicroKernel", "IRValue", "Vectors", "width_of"]

class IRValue(Protocol):
    """A value of LLVM IR: a register, a constant or an address (`llvmlite.ir.Value`)."""

    type: Type


Body = Callable[[IRValue, list[IRValue]], Sequence[IRValue] | None]
"""A loop body: from the index and the loop-carried values to their new values, if any."""
X86 = platform.machine().lower() in ("x86_64", "amd64")


def width_of(dtype: DTypeLike) -> int:
    """Elements of `dtype` in a vector of a micro-kernel."""
    return lanes("float64" if np.dtype(dtype) == np.float64 else "float32")


class Vectors:
    """Code of one micro-kernel on vectors of `width` float32 elements.

    If its first array has another type, elements have it too: half as many of float64, as many of
    integers of any size.
    """

    def __init__(self, builder: IRBuilder, dtype: np.dtype, args: SimpleNamespace):
        from llvmlite import ir

        self.ir, self.builder, self.args = ir, builder, args
        self.is_integer, self.bits = dtype.kind != "f", 8 * dtype.itemsize
        self.width = width_of(dtype)
        self.nbytes = self.width * self.bits // 8
        self.integer = ir.IntType(64)
        self.scalar = (ir.IntType(self.bits) if self.is_integer else
                       ir.DoubleType() if self.bits == 64 else ir.FloatType())
        self.vector = ir.VectorType(self.scalar, self.width)
        self.zero = ir.Constant(self.vector, None)

    def narrow(self, width: int) -> None:
        """Make all vectors that are built from here on this wide."""
        self.width, self.nbytes = width, width * self.bits // 8
        self.vector = self.ir.VectorType(self.scalar, width)
        self.zero = self.ir.Constant(self.vector, None)

    def int64(self, value: IRValue | int) -> IRValue:
        """An IR constant of a Python int; other values are returned unchanged."""
        return self.ir.Constant(self.integer, value) if isinstance(value, int) else value

    def add(self, a: IRValue | int, b: IRValue | int) -> IRValue:
        return self.builder.add(self.int64(a), self.int64(b))

    def mul(self, a: IRValue | int, b: IRValue | int) -> IRValue:
        return self.builder.mul(self.int64(a), self.int64(b))

    def minimum(self, a: IRValue | int, b: IRValue | int) -> IRValue:
        """The smaller of two integers."""
        a, b = self.int64(a), self.int64(b)
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def at(self, pointer: IRValue, index: IRValue | int) -> IRValue:
        return self.builder.gep(pointer, [self.int64(index)])

    def starts(self, *names: str) -> list[IRValue]:
        """Addresses in the arrays `names`, at the offsets that the argument `at` begins with."""
        return [self.at(getattr(self.args, name), offset)
                for name, offset in zip(names, self.args.at, strict=False)]

    def load_int(self, pointer: IRValue, index: IRValue | int) -> IRValue:
        return self.builder.load(self.at(pointer, index))

    def load(self, pointer: IRValue, mask: IRValue | None = None, rest: IRValue | None = None
             ) -> IRValue:
        """The vector at `pointer`; lanes outside the mask are taken from `rest`."""
        if mask is None:
            return self.builder.load(self._as_vector(pointer), align=self.bits // 8)
        assert rest is not None
        return self._masked("load", self.vector, self._as_vector(pointer), mask, rest)

    def store(self, value: IRValue, pointer: IRValue, mask: IRValue | None = None) -> None:
        """Store a vector; memory of lanes outside the mask is not written."""
        if mask is None:
            self.builder.store(value, self._as_vector(pointer, value.type),
                               align=self._bytes(value))
        else:
            self._masked("store", self.ir.VoidType(), value, self._as_vector(pointer), mask)

    def lane_mask(self, count: IRValue | int) -> IRValue:
        """A mask of the first `count` lanes."""
        kind = self.ir.VectorType(self.integer, self.width)
        lanes = self.ir.Constant(kind, list(range(self.width)))
        return self.builder.icmp_signed("<", lanes, self.splat(self.int64(count)))

    def _masked(self, word: str, result: Type, *operands: IRValue) -> IRValue:
        pointer = next(i for i, each in enumerate(operands) if each.type.is_pointer)
        name = f"masked.{word}.v{self.width}f{self.bits}.p0v{self.width}f{self.bits}"
        alignment = self.ir.IntType(32)(self.bits // 8)
        return self.intrinsic(name, result, *operands[:pointer + 1], alignment,
                              *operands[pointer + 1:])

    def intrinsic(self, name: str, result: Type, *operands: IRValue) -> IRValue:
        """The result, of type `result`, of the LLVM intrinsic `name`."""
        from numba.core import cgutils

        kind = self.ir.FunctionType(result, [each.type for each in operands])
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}")
        return self.builder.call(function, operands)

    def fetch_add(self, pointer: IRValue) -> IRValue:
        """Increment the integer atomically and return its previous value."""
        return self.builder.atomic_rmw("add", pointer, self.int64(1), "monotonic")

    def prefetch(self, pointer: IRValue, level: int = 2, write: bool = False) -> None:
        """Prefetch into the cache of a `level`, to be read or written; any address is valid."""
        byte, flag = self.ir.IntType(8).as_pointer(), self.ir.IntType(32)
        self.intrinsic("prefetch.p0i8", self.ir.VoidType(), self.builder.bitcast(pointer, byte),
                       flag(int(write)), flag(4 - level), flag(1))

    def store_nontemporal(self, value: IRValue, pointer: IRValue) -> None:
        """Store a vector that is not read soon, without reading its cache line first."""
        store = self.builder.store(value, self._as_vector(pointer, value.type),
                                   align=self.width * self._bytes(value))
        one = self.ir.Constant(self.ir.IntType(32), 1)
        store.set_metadata("nontemporal", self.builder.module.add_metadata([one]))

    def store_fence(self) -> None:
        """Order non-temporal stores before the following stores of this thread."""
        if X86:
            self.intrinsic("x86.sse.sfence", self.ir.VoidType())

    def _bytes(self, value: IRValue) -> int:
        """Bytes of an element of a vector."""
        return int(getattr(value.type.element, "width", self.bits)) // 8

    def _as_vector(self, pointer: IRValue, kind: Type | None = None) -> IRValue:
        return self.builder.bitcast(pointer, (kind or self.vector).as_pointer())

    def widen(self, value: IRValue) -> IRValue:
        """A vector converted to float64."""
        if self.bits == 64:
            return value
        return self.builder.fpext(value, self.ir.VectorType(self.ir.DoubleType(), self.width))

    def broadcast(self, pointer: IRValue) -> IRValue:
        return self.splat(self.builder.load(pointer))

    def splat(self, value: IRValue) -> IRValue:
        """`value` in every lane."""
        ir, lane = self.ir, self.ir.IntType(32)
        vector = ir.VectorType(value.type, self.width)
        empty = ir.Constant(vector, ir.Undefined)
        first = self.builder.insert_element(empty, value, ir.Constant(lane, 0))
        zeros = ir.Constant(ir.VectorType(lane, self.width), None)
        return self.builder.shuffle_vector(first, empty, zeros)

    def constant(self, value: float) -> IRValue:
        return self.ir.Constant(self.vector, [float(value)] * self.width)

    def fma(self, a: IRValue, b: IRValue, c: IRValue) -> IRValue:
        return self.intrinsic(f"fmuladd.v{self.width}f{self.bits}", self.vector, a, b, c)

    def shuffle(self, a: IRValue, b: IRValue, lanes: Sequence[int]) -> IRValue:
        """Elements of two vectors at `lanes`; those of b follow those of a."""
        kind = self.ir.VectorType(self.ir.IntType(32), self.width)
        return self.builder.shuffle_vector(a, b, self.ir.Constant(kind, list(lanes)))

    def reduce_lanes(self, value: IRValue, join: Callable[[IRValue, IRValue], IRValue]) -> IRValue:
        """The reduction of all lanes by `join`, in every lane."""
        size = self.width // 2
        while size:
            other = self.shuffle(value, value, [lane ^ size for lane in range(self.width)])
            value, size = join(value, other), size // 2
        return value

    def relu(self, value: IRValue, flag: IRValue) -> IRValue:
        """`value`, with 0 for elements <= 0 if `flag` is set; NaN is kept."""
        below = self.builder.fcmp_ordered("<=", value, self.zero)
        return self.builder.select(self.builder.and_(below, self.splat(flag)), self.zero, value)

    def clamp(self, value: IRValue, least: IRValue, most: IRValue) -> IRValue:
        """`value` clamped to [least, most]; NaN is kept.  One instruction for each bound."""
        b = self.builder
        value = b.select(b.fcmp_ordered("<", value, least), least, value)
        return b.select(b.fcmp_ordered(">", value, most), most, value)

    def loop(self, count: IRValue | int, start: Sequence[IRValue], body: Body) -> list[IRValue]:
        """`values = body(i, values)` for i in 0 .. count - 1, from `start`; count is at least 1."""
        b, before = self.builder, self.builder.block
        inside, done = (b.function.append_basic_block(name) for name in ("loop", "done"))
        b.branch(inside)
        b.position_at_end(inside)
        index, values = b.phi(self.integer), [b.phi(value.type) for value in start]
        after = body(index, list(values)) or []
        following, last = self.add(index, 1), b.block
        for phi, first, then in [(index, self.int64(0), following),
                                 *zip(values, start, after, strict=True)]:
            phi.add_incoming(first, before)
            phi.add_incoming(then, last)
        b.cbranch(b.icmp_signed("<", following, self.int64(count)), inside, done)
        b.position_at_end(done)
        return list(after)

    def loop_if_any(self, count: IRValue | int, start: Sequence[IRValue], body: Body
                    ) -> list[IRValue]:
        """A `loop` whose count may be 0."""
        more = self.builder.icmp_signed(">", self.int64(count), self.int64(0))
        return self.if_else(more, lambda: self.loop(count, start, body), lambda: start)

    def interleaved_loop(self, count: IRValue | int, start: Sequence[IRValue],
                         body: Callable[[IRValue, list[IRValue]], Sequence[IRValue]]
                         ) -> list[list[IRValue]]:
        """A loop with four independent sets of loop-carried values, to hide latency: iteration i
        changes set i % 4, except the last ones, fewer than four, which change the first."""
        rounds, size = self.builder.udiv(self.int64(count), self.int64(4)), len(start)

        def unrolled(i: IRValue, values: list[IRValue]) -> list[IRValue]:
            after: list[IRValue] = []
            for k in range(4):
                after += body(self.add(self.mul(i, 4), k), values[k * size:][:size])
            return after

        sets = self.loop_if_any(rounds, list(start) * 4, unrolled)
        done = self.mul(rounds, 4)
        sets[:size] = self.loop_if_any(self.builder.sub(self.int64(count), done), sets[:size],
                                       lambda i, own: body(self.add(i, done), own))
        return [sets[k * size:][:size] for k in range(4)]

    def has_flag(self, flags: IRValue, bits: int) -> IRValue:
        """Whether any of `bits` is set in an integer of flags, as an i1."""
        b = self.builder
        return b.icmp_signed("!=", b.and_(flags, self.int64(bits)), self.int64(0))

    def if_else(self, flag: IRValue, then: Callable[[], Sequence[IRValue] | None],
                otherwise: Callable[[], Sequence[IRValue] | None]) -> list[IRValue]:
        """The values, if any, of `then` or `otherwise`, selected by `flag` (an i1)."""
        b, ends = self.builder, []
        blocks = [b.function.append_basic_block(name) for name in ("then", "else", "joined")]
        b.cbranch(flag, *blocks[:2])
        for block, values in zip(blocks[:2], (then, otherwise), strict=True):
            b.position_at_end(block)
            ends.append((values() or [], b.block))
            b.branch(blocks[2])
        b.position_at_end(blocks[2])
        results = []
        for pair in zip(ends[0][0], ends[1][0], strict=True):
            phi = b.phi(pair[0].type)
            for value, (_, block) in zip(pair, ends, strict=True):
                phi.add_incoming(value, block)
            results.append(phi)
        return results


class Intrinsic(Inlined):
    """A numba intrinsic with this typing function; `plain` computes the same in Python."""

    def __init__(self, typer: Callable[..., Any], plain: Callable[..., Any]):
        super().__init__(plain)
        self._typer = typer
        self.fingerprint_parts = (typer,)

    def compile(self) -> Any:
        if self._compiled is None:
            from numba.extending import intrinsic

            self._compiled = intrinsic(self._typer)
            self._compiled.fingerprint_parts = self.fingerprint_parts
        return self._compiled


class MicroKernel(Intrinsic):
    """A micro-kernel: `emit` generates the code of arguments called `arguments`, and returns the
    integer result if it `returns` one.

    `reference` computes the same in NumPy, element by element, for tests.
    """

    def __init__(self, arguments: Sequence[str], emit: Callable[[Vectors], IRValue | None],
                 reference: Callable, returns: bool = False):
        super().__init__(_typer(arguments, emit, returns), reference)
        self.arguments, self.emit = tuple(arguments), emit


def _typer(names: Sequence[str], emit: Callable[[Vectors], IRValue | None], returns: bool) -> Any:
    """The typing function of a micro-kernel."""

    def typer(typingctx, *kinds):
        from numba import types
        from numba.np.numpy_support import as_dtype

        wide = [types.intp if isinstance(kind, types.Integer) else
                types.UniTuple(types.intp, len(kind)) if isinstance(kind, types.BaseAnonymousTuple)
                else kind for kind in kinds]
        dtype = as_dtype(next(kind.dtype for kind in kinds if isinstance(kind, types.Array)))

        def code(context: BaseContext, builder: IRBuilder, signature: Signature,
                 values: Sequence[IRValue]) -> IRValue | None:
            arguments: dict[str, IRValue | list[IRValue]] = dict(zip(names, values, strict=True))
            for name, kind, value in zip(names, signature.args, values, strict=True):
                if isinstance(kind, types.Array):
                    arguments[name] = context.make_array(kind)(context, builder, value).data
                elif isinstance(kind, types.BaseTuple):
                    arguments[name] = [
                        context.cast(builder, builder.extract_value(value, i), of, types.intp)
                        for i, of in enumerate(kind)]
            result = emit(Vectors(builder, dtype, SimpleNamespace(**arguments)))
            return result if returns else context.get_dummy_value()

        return (types.intp if returns else types.void)(*wide), code

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                  for name in ("typingctx", *names)]
    typer.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return typer
