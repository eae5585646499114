"""Operations of PTX, on arrays with an element for each thread.

`OPERATIONS` has functions (instruction, *operands) by name; operands have the type of the
instruction.  Results are rounded as the instruction says.  Functions that a GPU approximates are
computed exactly, so that results agree with a card's but for its error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.ptx_program import TYPES, Instruction

__all__ = ["OPERATIONS", "compared", "converted", "result_type"]

Operation = Callable[..., Any]
INEXACT = {np.dtype(np.float16): np.float32, np.dtype(np.float32): np.float64,
           np.dtype(np.float64): np.longdouble}
"""Types in which sums and products of a type are exact, or nearly so."""


def result_type(instruction: Instruction) -> np.dtype:
    """The type of the result: wide products have twice the bits."""
    dtype = np.dtype(TYPES[instruction.types[0]])
    if "wide" in instruction.words:
        return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
    return dtype


def rounded(instruction: Instruction, value: Any, dtype: np.dtype) -> Any:
    """A result of a wider type in `dtype`, to the nearest or as the instruction says."""
    value, words = np.asarray(value), instruction.words
    result = value.astype(dtype)
    back = result.astype(value.dtype)
    for word, wrong, towards in (("rm", back > value, -np.inf), ("rp", back < value, np.inf),
                                 ("rz", np.abs(back) > np.abs(value), 0)):
        if word in words:
            result = np.where(wrong, np.nextafter(result, dtype.type(towards)), result)
    if "sat" in words:
        result = np.where(np.isnan(result), 0, np.clip(result, 0, 1)).astype(dtype)
    return result


def _float(compute: Operation) -> Operation:
    """An operation on floats, computed in a wider type."""
    def run(instruction: Instruction, *operands: Any) -> Any:
        dtype = np.dtype(TYPES[instruction.types[0]])
        wide = INEXACT[dtype]
        return rounded(instruction, compute(*[np.asarray(x).astype(wide) for x in operands]), dtype)
    return run


def _packed(compute: Operation) -> Operation:
    """The operation on both halves of packed pairs."""
    def run(instruction: Instruction, *operands: Any) -> Any:
        pairs = [np.ascontiguousarray(np.broadcast_to(x, _shape(operands)), np.uint32).view(
            np.float16).reshape(-1, 2).astype(np.float32) for x in operands]
        return np.ascontiguousarray(compute(*pairs).astype(np.float16)).view(np.uint32).reshape(-1)
    return run


def _shape(operands: Any) -> tuple[int, ...]:
    return np.broadcast_shapes(*[np.shape(x) for x in operands])


def _by_kind(integers: Operation, floats: Operation) -> Operation:
    """The operation for integers, for floats, or for packed pairs."""
    in_floats, in_pairs = _float(floats), _packed(floats)

    def run(instruction: Instruction, *operands: Any) -> Any:
        kind = instruction.types[0]
        if kind.startswith("f16x2"):
            return in_pairs(instruction, *operands)
        return (in_floats if kind.startswith("f") else integers)(instruction, *operands)
    return run


def _wide(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}") if dtype.itemsize < 8 else dtype


def _product(instruction: Instruction, a: Any, b: Any) -> Any:
    dtype = np.dtype(TYPES[instruction.types[0]])
    if dtype.itemsize == 8 and "hi" in instruction.words:
        whole = [int(x) * int(y) >> 64 for x, y in np.broadcast(a, b)]
        return np.array([x & (2 ** 64 - 1) for x in whole], np.uint64).view(dtype)
    whole = np.asarray(a).astype(_wide(dtype)) * np.asarray(b).astype(_wide(dtype))
    if "wide" in instruction.words:
        return whole
    if "hi" in instruction.words:
        whole = whole >> (8 * dtype.itemsize)
    return whole.astype(dtype)


def _mad(instruction: Instruction, a: Any, b: Any, c: Any) -> Any:
    product = _product(instruction, a, b)
    return product + np.asarray(c).astype(product.dtype)


def _quotient(_: Instruction, a: Any, b: Any) -> Any:
    a, b = np.broadcast_arrays(a, np.where(np.asarray(b) == 0, 1, b))
    if a.dtype.kind == "u":
        return a // b
    wide = a.astype(np.int64), b.astype(np.int64)
    return (np.sign(wide[0]) * np.sign(wide[1]) * (np.abs(wide[0]) // np.abs(wide[1]))).astype(
        a.dtype)


def _remainder(instruction: Instruction, a: Any, b: Any) -> Any:
    b = np.where(np.asarray(b) == 0, 1, b)
    return a - _quotient(instruction, a, b) * b


def _shift_left(_: Instruction, a: Any, count: Any) -> Any:
    a, count = np.broadcast_arrays(a, count)
    bits = 8 * a.dtype.itemsize
    return np.where(count >= bits, 0, a << np.minimum(count, bits - 1).astype(a.dtype)).astype(
        a.dtype)


def _shift_right(_: Instruction, a: Any, count: Any) -> Any:
    a, count = np.broadcast_arrays(a, count)
    bits = 8 * a.dtype.itemsize
    shifted = a >> np.minimum(count, bits - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(count >= bits, 0, shifted).astype(a.dtype)


def _funnel(instruction: Instruction, low: Any, high: Any, count: Any) -> Any:
    count = np.asarray(count).astype(np.uint64)
    count = count & np.uint64(31) if "wrap" in instruction.words else np.minimum(
        count, np.uint64(32))
    whole = np.asarray(high).astype(np.uint64) << np.uint64(32) | np.asarray(low).astype(np.uint64)
    if "l" in instruction.words:
        return (whole << count >> np.uint64(32)).astype(np.uint32)
    return (whole >> count).astype(np.uint32)


def _limit(pick: Operation, quiet: Operation, strict: Operation) -> Operation:
    in_floats, with_nan = _float(quiet), _float(strict)

    def run(instruction: Instruction, *operands: Any) -> Any:
        if not instruction.types[0].startswith("f"):
            return pick(*operands)
        return (with_nan if "NaN" in instruction.words else in_floats)(instruction, *operands)
    return run


COMPARISONS: dict[str, Operation] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal}


def compared(instruction: Instruction, a: Any, b: Any) -> Any:
    """The result of a comparison; with NaN it is false, or true, as the name says."""
    words = instruction.words
    if not instruction.types[0].startswith("f") and not instruction.types[-1].startswith("f"):
        return next(COMPARISONS[word] for word in words if word in COMPARISONS)(a, b)
    unordered = np.isnan(a) | np.isnan(b)
    if "num" in words:
        return ~unordered
    if "nan" in words:
        return unordered
    word = next(word for word in words if word.removesuffix("u") in COMPARISONS)
    if word in COMPARISONS:
        return COMPARISONS[word](a, b) & ~unordered
    return COMPARISONS[word[:-1]](a, b) | unordered


def converted(instruction: Instruction, *operands: Any) -> Any:
    """The result of `cvt`, in the type of its bits."""
    to, source = instruction.types[0], instruction.types[-1]
    a = operands[0]
    if to in ("f16x2", "bf16x2"):
        halves = [_narrowed(to.removesuffix("x2"), x).astype(np.uint32) for x in operands]
        return halves[0] << np.uint32(16) | halves[1]
    if to == "tf32":
        bits = np.asarray(a, np.float32).view(np.uint32)
        return np.where(np.isfinite(a), (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits)
    if source == "bf16":
        a = (np.asarray(a).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if to in ("bf16",):
        return _narrowed(to, a)
    target = np.dtype(TYPES[to])
    a = np.asarray(a)
    if a.dtype.kind == "f" and target.kind in "iu":
        return _to_integer(instruction, a, target)
    if target.kind == "f":
        if a.dtype.kind == "f" and instruction.words & {"rni", "rzi", "rmi", "rpi"}:
            a = _whole(instruction, a)
        wide = a if a.dtype.kind == "f" and a.dtype.itemsize > target.itemsize else a.astype(
            np.longdouble if target.itemsize == 8 or a.dtype.itemsize == 8 else np.float64)
        return rounded(instruction, wide, target)
    if "sat" in instruction.words:
        info = np.iinfo(target)
        return np.clip(a.astype(object), info.min, info.max).astype(target)
    return a.astype(target)


def _narrowed(kind: str, a: Any) -> Any:
    """Bits of float16, or of bfloat16, rounded to the nearest."""
    a = np.asarray(a, np.float32)
    if kind == "f16":
        return a.astype(np.float16).view(np.uint16)
    bits = a.view(np.uint32).astype(np.uint64)
    nearest = (bits + np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(a), 0x7FFF, nearest).astype(np.uint16)


def _whole(instruction: Instruction, a: Any) -> Any:
    words = instruction.words
    for word, function in (("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        if word in words:
            return function(a)
    return np.rint(a)


def _to_integer(instruction: Instruction, a: Any, target: np.dtype) -> Any:
    """Out of range: the nearest; NaN: 0, or the lowest bit pattern of 64 bits."""
    info = np.iinfo(target)
    whole = _whole(instruction, a.astype(np.float64))
    inside = (whole > float(info.min)) & (whole < float(info.max))
    kept = np.where(inside, whole, 0).astype(target)
    outside = np.where(whole > 0, info.max, info.min).astype(target)
    return np.where(inside, kept, np.where(np.isnan(whole), 0, outside)).astype(target)


def _bits_between(instruction: Instruction, a: Any, start: Any, count: Any) -> Any:
    """`bfe`: bits from `start` on."""
    dtype = np.dtype(TYPES[instruction.types[0]])
    bits = 8 * dtype.itemsize
    values = []
    for x, first, size in np.broadcast(a, start, count):
        first, size = int(first) & 255, int(size) & 255
        number = (int(x) % 2 ** bits) >> first & (2 ** size - 1)
        if dtype.kind == "i" and size and number >> (size - 1):
            number -= 2 ** size
        values.append(number % 2 ** bits)
    return np.array(values, f"u{dtype.itemsize}").view(dtype)


def _inserted(instruction: Instruction, a: Any, b: Any, start: Any, count: Any) -> Any:
    """`bfi`: b with bits of a from `start` on."""
    bits = 8 * np.dtype(TYPES[instruction.types[0]]).itemsize
    values = []
    for x, y, first, size in np.broadcast(a, b, start, count):
        mask = ((1 << (int(size) & 255)) - 1) << (int(first) & 255)
        values.append((int(y) & ~mask | int(x) << (int(first) & 255) & mask) % 2 ** bits)
    return np.array(values, f"u{bits // 8}")


def _permuted(instruction: Instruction, a: Any, b: Any, selector: Any) -> Any:
    """`prmt`: four of eight bytes."""
    a, b, selector = [np.asarray(x).astype(np.uint64) for x in (a, b, selector)]
    whole, result = b << np.uint64(32) | a, np.uint64(0)
    for k in range(4):
        code = selector >> np.uint64(4 * k) & np.uint64(15)
        byte = whole >> (np.uint64(8) * (code & np.uint64(7))) & np.uint64(255)
        sign = np.where(byte >= 128, 255, 0).astype(np.uint64)
        byte = np.where(code & np.uint64(8), sign, byte)
        result = result | byte << np.uint64(8 * k)
    return np.asarray(result).astype(np.uint32)


def _lop3(_: Instruction, a: Any, b: Any, c: Any, table: Any) -> Any:
    result = np.zeros(_shape((a, b, c)), np.uint32)
    for row in range(8):
        if int(np.max(table)) >> row & 1:
            terms = [x if row >> shift & 1 else ~np.asarray(x, np.uint32)
                     for x, shift in ((a, 2), (b, 1), (c, 0))]
            result |= terms[0] & terms[1] & terms[2]
    return result


def _bit_counts(count: Callable[[int, int], int]) -> Operation:
    def run(instruction: Instruction, a: Any) -> Any:
        bits = 8 * np.dtype(TYPES[instruction.types[0]]).itemsize
        return np.array([count(int(x) % 2 ** bits, bits) for x in np.atleast_1d(a)], np.uint32)
    return run


def _tested(instruction: Instruction, a: Any) -> Any:
    tests: dict[str, Operation] = {
        "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan,
        "number": lambda x: ~np.isnan(x),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny)}
    return next(test for word, test in tests.items() if word in instruction.words)(a)


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _not(instruction: Instruction, a: Any) -> Any:
    return ~np.asarray(a, TYPES[instruction.types[0]])


def _negated(instruction: Instruction, a: Any) -> Any:
    a = np.asarray(a)
    return -a if a.dtype.kind == "f" else (~a + a.dtype.type(1))


OPERATIONS: dict[str, Operation] = {
    "add": _by_kind(lambda _, a, b: a + b, np.add),
    "sub": _by_kind(lambda _, a, b: a - b, np.subtract),
    "mul": _by_kind(_product, np.multiply),
    "mad": _by_kind(_mad, _fma),
    "fma": _by_kind(_mad, _fma),
    "div": _by_kind(_quotient, np.divide),
    "rem": _remainder,
    "min": _limit(np.minimum, np.fmin, np.minimum),
    "max": _limit(np.maximum, np.fmax, np.maximum),
    "and": lambda _, a, b: a & b,
    "or": lambda _, a, b: a | b,
    "xor": lambda _, a, b: a ^ b,
    "not": _not,
    "cnot": lambda _, a: (np.asarray(a) == 0).astype(np.asarray(a).dtype),
    "neg": _negated,
    "abs": lambda _, a: np.abs(a),
    "shl": _shift_left,
    "shr": _shift_right,
    "shf": _funnel,
    "lop3": _lop3,
    "prmt": _permuted,
    "bfe": _bits_between,
    "bfi": _inserted,
    "popc": _bit_counts(lambda x, bits: x.bit_count()),
    "clz": _bit_counts(lambda x, bits: bits - x.bit_length()),
    "brev": _bit_counts(lambda x, bits: int(f"{x:0{bits}b}"[::-1], 2)),
    "copysign": lambda _, a, b: np.copysign(b, a),
    "testp": _tested,
    "rcp": _float(lambda x: 1 / x),
    "sqrt": _float(np.sqrt),
    "rsqrt": _float(lambda x: 1 / np.sqrt(x)),
    "ex2": _float(np.exp2),
    "lg2": _float(np.log2),
    "sin": _float(np.sin),
    "cos": _float(np.cos),
    "tanh": _float(np.tanh),
    "setp": compared,
    "set": compared,
    "cvt": converted,
}
