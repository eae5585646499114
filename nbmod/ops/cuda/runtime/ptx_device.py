"""The functions of `ptx` as inline PTX."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

__all__ = ["elements_at", "mma_bf16", "mma_f16", "mma_tf32", "to_bf16x2", "to_f16x2", "to_tf32"]

_WORD, _LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_four = types.UniTuple(types.float32, 4)


def _address(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
    """The address of element args[1] of args[0], a pointer or a shared array, as an integer."""
    (kind, index_kind), (value, index) = kinds, args
    base = value if isinstance(kind, types.CPointer) else context.make_array(kind)(
        context, builder, value).data
    offset = context.cast(builder, index, index_kind, types.int64)
    return builder.ptrtoint(builder.gep(base, [offset]), _LONG)


def _assembly(builder: Any, text: str, constraints: str, result: Any, args: list[Any],
              effect: bool = True) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(ir.InlineAsm(kind, text, constraints, side_effect=effect), args)


def _unpacked(context: Any, builder: Any, kind: Any, struct: Any) -> Any:
    return context.make_tuple(builder, kind,
                              [builder.extract_value(struct, i) for i in range(len(kind))])


@intrinsic
def elements_at(typing, p, i, n, kind):
    """A pointer to global memory at the address p[i]."""
    pointer = types.CPointer(kind.dtype)

    def generate(context, builder, sig, args):
        address = _address(context, builder, sig.args[:2], args[:2])
        address = builder.load(builder.inttoptr(address, _LONG.as_pointer()))
        plain = context.get_value_type(pointer)
        there = builder.inttoptr(address, plain.pointee.as_pointer(1))  # space 1 is global memory
        return builder.addrspacecast(there, plain)
    return pointer(p, i, n, kind), generate


def _conversion(text: str, count: int) -> Any:
    def generate(context, builder, sig, args):
        # Of two operands the instruction takes the upper one first.
        return _assembly(builder, text, ",".join(["=r"] + ["f"] * count), _WORD, args[::-1],
                         effect=False)
    return types.uint32(*[types.float32] * count), generate


@intrinsic
def to_tf32(typing, x):
    """A float rounded to TF32."""
    return _conversion("cvt.rna.tf32.f32 $0, $1;", 1)


@intrinsic
def to_bf16x2(typing, low, high):
    """Two floats rounded to bfloat16, in a word."""
    return _conversion("cvt.rn.bf16x2.f32 $0, $1, $2;", 2)


@intrinsic
def to_f16x2(typing, low, high):
    """Two floats rounded to float16, in a word."""
    return _conversion("cvt.rn.f16x2.f32 $0, $1, $2;", 2)


def _mma(shape: str, kind: str) -> Any:
    text = (f"mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32 "
            "{$0,$1,$2,$3},{$4,$5,$6,$7},{$8,$9},{$10,$11,$12,$13};")

    def generate(context, builder, sig, args):
        values = _assembly(builder, text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f",
                           ir.LiteralStructType([_FLOAT] * 4), list(args))
        return _unpacked(context, builder, sig.return_type, values)
    return _four(*[types.uint32] * 6, *[types.float32] * 4), generate


@intrinsic
def mma_tf32(typing, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
    """(16, 8) by (8, 8), in TF32."""
    return _mma("m16n8k8", "tf32")


@intrinsic
def mma_bf16(typing, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
    """(16, 16) by (16, 8), in bfloat16."""
    return _mma("m16n8k16", "bf16")


@intrinsic
def mma_f16(typing, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
    """(16, 16) by (16, 8), in float16."""
    return _mma("m16n8k16", "f16")
