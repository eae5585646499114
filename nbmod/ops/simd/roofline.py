"""Kernels that do nothing but what a roof is about: multiply and add in registers, move memory.

`bench.roofs` times them, in threads that it starts itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..jit import kernel
from .host import has_features, registers
from .int8_dot import add_products, multiply_words
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["CHAINS", "STRIDE", "UNROLLED", "copy_memory", "copy_past_caches", "dot_bytes",
           "has_bfloat16", "load_memory", "multiply_add", "multiply_add_half",
           "multiply_add_quarter", "multiply_bfloat16", "sum_memory"]

CHAINS = 3 * registers().number // 4
"""Independent accumulators: an FMA has a latency of about four cycles, and two issue in each."""
STRIDE = (1 + CHAINS) * registers().nbytes
"""Bytes of `values`: a factor and its accumulators."""
UNROLLED = 8
"""Vectors of an iteration that moves memory."""


def has_bfloat16() -> bool:
    """Whether kernels may use the instruction that multiplies pairs of bfloat16 (vdpbf16ps)."""
    return registers().nbytes == 64 and has_features("avx512bf16")


def _accumulate(v: Vectors, step: str) -> None:
    """values[1 + k] = step(values[0], values[0], values[1 + k]), `turns` times for all k."""
    values = v.at(v.args.values, v.args.at)
    factor = v.load(values)
    pointers = [v.at(values, (1 + chain) * v.width) for chain in range(CHAINS)]
    join = {"fma": lambda total: v.fma(total, factor, factor),
            "int8": lambda total: add_products(v, factor, factor, total),
            "bfloat16": lambda total: _add_pairs(v, factor, total)}[step]
    sums = v.loop(v.args.turns, [v.load(pointer) for pointer in pointers],
                  lambda i, sums: [join(total) for total in sums])
    for total, pointer in zip(sums, pointers, strict=True):
        v.store(total, pointer)


def _add_pairs(v: Vectors, factor: IRValue, total: IRValue) -> IRValue:
    """total + x[0] x[0] + x[1] x[1] in every lane, [] being its two bfloat16 numbers."""
    if not has_bfloat16():
        return v.fma(factor, factor, total)

    class Bfloat(v.ir.Type):  # type: ignore[name-defined]
        """LLVM's bfloat, which llvmlite does not have."""

        def _to_string(self) -> str:
            return "bfloat"

        def __eq__(self, other: object) -> bool:
            return type(other).__name__ == type(self).__name__

        def __hash__(self) -> int:
            return hash(type(self).__name__)

    x = v.builder.bitcast(factor, v.ir.VectorType(Bfloat(), 2 * v.width))
    return v.intrinsic(f"x86.avx512bf16.dpbf16ps.{32 * v.width}", v.vector, total, x, x)


def _emit_fma(v: Vectors) -> None:
    _accumulate(v, "fma")


def _emit_half_fma(v: Vectors) -> None:
    v.narrow(max(v.width // 2, 1))
    _accumulate(v, "fma")


def _emit_quarter_fma(v: Vectors) -> None:
    v.narrow(max(v.width // 4, 1))
    _accumulate(v, "fma")


def _emit_int8(v: Vectors) -> None:
    _accumulate(v, "int8")


def _emit_bfloat16(v: Vectors) -> None:
    _accumulate(v, "bfloat16")


def _parts(values: np.ndarray, at: int, divisor: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The factor and the accumulators; `divisor` of them fit a register."""
    width = max(STRIDE // (1 + CHAINS) // values.itemsize // divisor, 1)
    factor, sums = np.split(values[at:at + (1 + CHAINS) * width].reshape(-1, width), [1])
    return factor[0], sums


def _plain_fma(values: np.ndarray, at: int, turns: int, divisor: int = 1) -> None:
    factor, sums = _parts(values, at, divisor)
    for _ in range(turns):
        sums[:] = sums * factor + factor


def _plain_half_fma(values: np.ndarray, at: int, turns: int) -> None:
    _plain_fma(values, at, turns, 2)


def _plain_quarter_fma(values: np.ndarray, at: int, turns: int) -> None:
    _plain_fma(values, at, turns, 4)


def _plain_int8(values: np.ndarray, at: int, turns: int) -> None:
    factor, sums = _parts(values, at)
    for _ in range(turns):
        for lane, word in enumerate(factor):
            sums[:, lane] += multiply_words(word, factor[lane:lane + 1])


def _plain_bfloat16(values: np.ndarray, at: int, turns: int) -> None:
    factor, sums = _parts(values, at)
    if not has_bfloat16():
        squares = factor * factor
    else:
        halves = (factor.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        squares = (halves ** 2).reshape(-1, 2).sum(axis=1)
    for _ in range(turns):
        sums += squares


fma_chains = MicroKernel(("values", "at", "turns"), _emit_fma, _plain_fma)
half_fma_chains = MicroKernel(("values", "at", "turns"), _emit_half_fma, _plain_half_fma)
quarter_fma_chains = MicroKernel(("values", "at", "turns"), _emit_quarter_fma,
                                 _plain_quarter_fma)
int8_chains = MicroKernel(("values", "at", "turns"), _emit_int8, _plain_int8)
bfloat16_chains = MicroKernel(("values", "at", "turns"), _emit_bfloat16, _plain_bfloat16)


def _sweep(v: Vectors, start: list[IRValue], step: Callable[[IRValue, IRValue], IRValue]
           ) -> list[IRValue]:
    """UNROLLED loop-carried values over all vectors, `turns` times: each from itself and the offset
    of a vector."""
    steps = v.builder.udiv(v.args.count, v.int64(UNROLLED * v.width))

    def inner(i: IRValue, sums: list[IRValue]) -> list[IRValue]:
        first = v.add(v.args.at, v.mul(i, UNROLLED * v.width))
        return [step(v.add(first, k * v.width), total) for k, total in enumerate(sums)]

    return v.loop(v.args.turns, start, lambda _, sums: v.loop(steps, sums, inner))


def _emit_read(v: Vectors) -> None:
    sums = _sweep(v, [v.zero] * UNROLLED, lambda offset, total: v.builder.fadd(
        total, v.load(v.at(v.args.x, offset))))
    target = v.at(v.args.out, v.args.at)
    for k, total in enumerate(sums):
        v.store(total, v.at(target, k * v.width))


def _emit_add(v: Vectors) -> None:
    def step(offset: IRValue, unused: IRValue) -> IRValue:
        total = v.builder.fadd(v.load(v.at(v.args.x, offset)), v.load(v.at(v.args.y, offset)))
        v.store(total, v.at(v.args.out, offset))
        return unused

    _sweep(v, [v.zero] * UNROLLED, step)


def _emit_copy(v: Vectors) -> None:
    def step(offset: IRValue, unused: IRValue) -> IRValue:
        v.store_nontemporal(v.load(v.at(v.args.x, offset)), v.at(v.args.out, offset))
        return unused

    _sweep(v, [v.zero] * UNROLLED, step)
    v.store_fence()


def _emit_plain_copy(v: Vectors) -> None:
    def step(offset: IRValue, unused: IRValue) -> IRValue:
        v.store(v.load(v.at(v.args.x, offset)), v.at(v.args.out, offset))
        return unused

    _sweep(v, [v.zero] * UNROLLED, step)


def _plain_read(x: np.ndarray, out: np.ndarray, at: int, count: int, turns: int) -> None:
    size = UNROLLED * registers().nbytes // x.itemsize
    out[at:at + size] = turns * x[at:at + count].reshape(-1, size).sum(axis=0)


def _plain_add(x: np.ndarray, y: np.ndarray, out: np.ndarray, at: int, count: int, turns: int
               ) -> None:
    out[at:at + count] = x[at:at + count] + y[at:at + count]


def _plain_copy(x: np.ndarray, out: np.ndarray, at: int, count: int, turns: int) -> None:
    out[at:at + count] = x[at:at + count]


read_part = MicroKernel(("x", "out", "at", "count", "turns"), _emit_read, _plain_read)
add_part = MicroKernel(("x", "y", "out", "at", "count", "turns"), _emit_add, _plain_add)
copy_part = MicroKernel(("x", "out", "at", "count", "turns"), _emit_copy, _plain_copy)
plain_copy_part = MicroKernel(("x", "out", "at", "count", "turns"), _emit_plain_copy, _plain_copy)


@kernel
def multiply_add(values, turns):
    """Multiply and add floats in registers."""
    fma_chains(values, 0, turns)


@kernel
def multiply_add_half(values, turns):
    """Multiply and add floats in halves of registers."""
    half_fma_chains(values, 0, turns)


@kernel
def multiply_add_quarter(values, turns):
    """Multiply and add floats in quarters of registers."""
    quarter_fma_chains(values, 0, turns)


@kernel
def dot_bytes(values, turns):
    """Add dot products of four bytes in registers."""
    int8_chains(values, 0, turns)


@kernel
def multiply_bfloat16(values, turns):
    """Add products of two pairs of bfloat16 in registers."""
    bfloat16_chains(values, 0, turns)


@kernel
def load_memory(x, out, turns):
    """Read an array."""
    read_part(x, out, 0, x.size, turns)


@kernel
def sum_memory(x, y, out, turns):
    """Read two arrays and write their sum."""
    add_part(x, y, out, 0, x.size, turns)


@kernel
def copy_memory(x, out, turns):
    """Copy an array."""
    plain_copy_part(x, out, 0, x.size, turns)


@kernel
def copy_past_caches(x, out, turns):
    """Copy an array by non-temporal stores."""
    copy_part(x, out, 0, x.size, turns)
