"""The functions of `ptx` for numba-cuda."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

from llvmlite import ir
from numba import cuda, types
from numba.cuda.extending import intrinsic

from .ptx_instructions import INSTRUCTIONS, Instruction

__all__ = ["FUNCTIONS"]

_KINDS = {"r": (types.uint32, ir.IntType(32)), "f": (types.float32, ir.FloatType())}


def _function(instruction: Instruction) -> Any:
    results, operands = ([_KINDS[letter] for letter in letters]
                         for letters in (instruction.results, instruction.operands))
    many = len(results) > 1
    kind = types.UniTuple(results[0][0], len(results)) if many else results[0][0]
    plain = ir.LiteralStructType([each for _, each in results]) if many else results[0][1]

    def generate(context, builder, sig, args):
        assembly = ir.InlineAsm(ir.FunctionType(plain, [each for _, each in operands]),
                                instruction.text, instruction.constraints,
                                side_effect=instruction.effect)
        value = builder.call(assembly, args)
        return context.make_tuple(builder, kind, [
            builder.extract_value(value, i) for i in range(len(results))]) if many else value

    def run(typing, *args):
        return kind(*[each for each, _ in operands]), generate

    # numba would make a tuple of star arguments.
    names = ["typing", *(f"x{i}" for i in range(len(operands)))]
    run.__signature__ = Signature([  # type: ignore[attr-defined]
        Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])
    return intrinsic(run)


@intrinsic
def _global_pointer(typing, address, kind):
    """A pointer to global memory at this address."""
    pointer = types.CPointer(kind.dtype)

    def generate(context, builder, sig, args):
        plain = context.get_value_type(pointer)
        there = builder.inttoptr(args[0], plain.pointee.as_pointer(1))  # space 1 is global memory
        return builder.addrspacecast(there, plain)
    return pointer(types.int64, kind), generate


@cuda.jit(device=True)
def _elements_at(p, i, n, kind):
    return _global_pointer(p[i], kind)


FUNCTIONS = {"elements_at": _elements_at,
             **{name: _function(each) for name, each in INSTRUCTIONS.items()}}
