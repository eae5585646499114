"""Lowering of what kernels are made of, where numba-cuda-mlir 0.6 is wrong or slow.

    !=              it compares floats as ordered, so that NaN would equal NaN
    p[i]            it extends negative indices, and values for wider integers, with zeros
    a, b = f(x)     it extends integers with zeros where tuples of other types are joined
    range           it counts in 64 bits, by two divisions, and checks that the step is not 0
    //              it tests signs of products, which takes more instructions than of remainders
    cuda.threadIdx  it reads registers by PTX whose range the optimizer does not know

It also links every kernel to a binary, which `compiler` makes, and which `own_lowering` leaves out.
All of it applies inside of that context only: kernels of other packages are compiled as usual.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from numba_cuda_mlir import cuda, lowering_utilities, types
from numba_cuda_mlir._mlir import ir
from numba_cuda_mlir._mlir.dialects import arith, func, gpu, llvm, memref
from numba_cuda_mlir.linker import Linker
from numba_cuda_mlir.lowering import cuda as usual_cuda
from numba_cuda_mlir.lowering.math import _operator_mapping
from numba_cuda_mlir.lowering_utilities import (
    IterResult,
    RangeObject,
    convert,
    get_conversion_signedness,
    get_or_insert_function,
    index_of,
    int_of,
)
from numba_cuda_mlir.mlir_lowering import MLIRLower

__all__ = ["own_lowering"]

Lowering = Callable[[Any, Any, Any, Any], None]
_REGISTERS = {cuda.threadIdx: "tid", cuda.blockIdx: "ctaid", cuda.blockDim: "ntid",
              cuda.gridDim: "nctaid"}
_BLACKWELL = (10, 0)


@contextmanager
def own_lowering(capability: tuple[int, int]) -> Iterator[None]:
    """Context in which kernels for a compute capability are lowered by the functions of this
    file."""
    usual, operators = MLIRLower._lookup_actual_function, _operator_mapping()
    extend = lowering_utilities._convert_integer_to_integer

    def lookup(builder: Any, function: Any, signature: Any) -> Any:
        return _own(function, signature, capability) or usual(builder, function, signature)

    def extended(value: Any, target: Any, *, signed: bool | None = None) -> Any:
        if signed is None:      # not known there: the integers of kernels have a sign
            signed = value.type.width > 1
        return extend(value, target, signed=signed)

    with ExitStack() as stack:
        for owner, name, value in (
                (lowering_utilities, "_convert_integer_to_integer", extended),
                (MLIRLower, "_lookup_actual_function", lookup),
                (usual_cuda, "_get_dim3_attribute", _register),
                (Linker, "complete", lambda linker: SimpleNamespace(code=b""))):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        ordered = operators[operator.ne]
        stack.callback(operators.__setitem__, operator.ne, ordered)
        operators[operator.ne] = replace(
            ordered, float=partial(arith.cmpf, arith.CmpFPredicate.UNE))
        yield


def _own(function: Any, signature: Any, capability: tuple[int, int]) -> Lowering | None:
    """The lowering of this file for a function, or None."""
    kind, args = signature.return_type, signature.args
    if function is range and isinstance(kind, types.RangeType) and kind.dtype == types.int32:
        return partial(_lower_range, guarded=capability >= _BLACKWELL)
    if function in (operator.floordiv, operator.ifloordiv) and _is_signed(kind):
        return _lower_floor_divide
    if (function in (operator.getitem, operator.setitem) and isinstance(args[0], types.CPointer)
            and isinstance(args[1], types.Integer)):
        return _lower_getitem if function is operator.getitem else _lower_setitem
    return None


def _is_signed(kind: Any) -> bool:
    return isinstance(kind, types.Integer) and kind.signed


def _operand(builder: Any, arg: Any, kind: Any) -> Any:
    """The value of an argument, a variable or a constant, as a number of this type."""
    wide = builder.get_mlir_type(kind)
    if isinstance(arg, int):
        return int_of(arg, wide)
    signed = get_conversion_signedness(builder.get_numba_type(arg.name), kind)
    return convert(builder.load_var(arg), wide, signed=signed)


def _lower_floor_divide(builder: Any, target: Any, args: Any, _: Any) -> None:
    kind = builder.get_numba_type(target.name)
    a, b = (_operand(builder, arg, kind) for arg in args)
    rest, zero = arith.remsi(a, b), int_of(0, a.type)
    apart = arith.cmpi(arith.CmpIPredicate.slt, arith.xori(rest, b), zero)
    below = arith.andi(apart, arith.cmpi(arith.CmpIPredicate.ne, rest, zero))
    builder.store_var(target, arith.addi(arith.divsi(a, b), arith.extsi(a.type, below)))


def _element(builder: Any, pointer: Any, index: Any) -> Any:
    """The address of an element."""
    kind = builder.get_numba_type(pointer.name).dtype
    dynamic = -2 ** 31      # the index is an operand
    return llvm.getelementptr(
        llvm.PointerType.get(), builder.load_var(pointer), [_operand(builder, index, types.int64)],
        [dynamic], builder.get_storage_type(kind), None)


def _lower_getitem(builder: Any, target: Any, args: Any, _: Any) -> None:
    kind = builder.get_numba_type(args[0].name).dtype
    value = llvm.load(builder.get_storage_type(kind), _element(builder, *args))
    builder.store_var(target, builder.from_storage(kind, value))


def _lower_setitem(builder: Any, _: Any, args: Any, __: Any) -> None:
    kind = builder.get_numba_type(args[0].name).dtype
    value = builder.as_storage(kind, _operand(builder, args[2], kind))
    llvm.store(value, _element(builder, *args[:2]))


def _register(which: Any, dimension: Any) -> Any:
    """The value of a special register, by a function that LLVM knows by its name."""
    module = ir.InsertionPoint.current.block.owner
    while not isinstance(module.opview, gpu.GPUModuleOp):
        module = module.parent
    axis, word = "xyz"[int(dimension)], ir.IntegerType.get_signless(32)
    callee = get_or_insert_function(f"llvm.nvvm.read.ptx.sreg.{_REGISTERS[which]}.{axis}",
                                    ir.FunctionType.get([], [word]), module.opview)
    return func.call([word], callee.name.value, [])


# -- ranges -------------------------------------------------------------------------------------


def _lower_range(builder: Any, target: Any, args: Any, _: Any, guarded: bool) -> None:
    values = [_operand(builder, arg, types.int32) for arg in args]
    start, stop = values[:2] if len(values) > 1 else (int_of(0, values[0].type), *values)
    builder.store_var(target, _Range(builder, start, stop, *values[2:], guarded=guarded))


class _Range(RangeObject):
    """A range of 32-bit integers: its next value and, unless it ends with `stop`, how many are
    left.

    guarded: it does not step over its end.  The linker for compute capability 10.0 does not see how
    often such a loop runs, and so unrolls only short ones; it would make thousands of instructions
    of windows.
    """

    def __init__(self, builder: Any, start: Any, stop: Any, step: Any = None, *, guarded: bool):
        with builder.alloca_insertion_point():
            self._memref = memref.alloca(ir.MemRefType.get([2], start.type), [], [])
        self._guarded, self._step = guarded, int_of(1, start.type) if step is None else step
        self._stop = None if guarded or step is not None else stop
        self._set(0, start)
        if self._stop is None:
            self._set(1, _count(start, stop, self._step))

    def _get(self, place: int) -> Any:
        return memref.load(self._memref, [index_of(place)])

    def _set(self, place: int, value: Any) -> None:
        memref.store(value, self._memref, [index_of(place)])

    def next(self) -> IterResult:
        value, step = self._get(0), self._step
        if self._stop is not None:
            self._set(0, arith.addi(value, step, overflow_flags="nsw"))
            return IterResult(value, arith.cmpi(arith.CmpIPredicate.slt, value, self._stop))
        left, zero, one = self._get(1), int_of(0, value.type), int_of(1, value.type)
        valid = arith.cmpi(arith.CmpIPredicate.ne, left, zero)
        if self._guarded:
            step, one = (arith.select(valid, each, zero) for each in (step, one))
        self._set(0, arith.addi(value, step))
        self._set(1, arith.subi(left, one))
        return IterResult(value, valid)


def _count(start: Any, stop: Any, step: Any) -> Any:
    """The number of values, which are fewer than 2 ** 32; the step is not 0."""
    zero, one = (int_of(i, start.type) for i in (0, 1))
    up = arith.cmpi(arith.CmpIPredicate.sgt, step, zero)
    first, last = arith.select(up, start, stop), arith.select(up, stop, start)
    by = arith.select(up, step, arith.subi(zero, step))
    count = arith.addi(arith.divui(arith.subi(arith.subi(last, first), one), by), one)
    some = arith.cmpi(arith.CmpIPredicate.slt, first, last)
    return arith.select(some, count, zero)
