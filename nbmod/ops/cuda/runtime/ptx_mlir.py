"""The functions of `ptx` for numba-cuda-mlir."""

from __future__ import annotations

from typing import Any

from numba_cuda_mlir import cuda, types
from numba_cuda_mlir._mlir import ir
from numba_cuda_mlir._mlir.dialects import llvm
from numba_cuda_mlir.extending import lower_builtin, refresh_registries, type_callable

from .ptx_instructions import INSTRUCTIONS, Instruction

__all__ = ["FUNCTIONS"]

_KINDS = {"r": types.uint32, "f": types.float32}


def _plain(letter: str) -> Any:
    return ir.IntegerType.get_signless(32) if letter == "r" else ir.F32Type.get()


def _function(name: str, instruction: Instruction) -> Any:
    results, operands = instruction.results, instruction.operands

    def run(*args):
        raise TypeError(f"{name} ({instruction.text}) runs on GPUs only")

    @type_callable(run)
    def type_run(context):
        kinds = [_KINDS[letter] for letter in results]

        def typer(*args):
            return types.UniTuple(kinds[0], len(kinds)) if len(kinds) > 1 else kinds[0]
        return typer

    @lower_builtin(run, types.VarArg(types.Any))
    def lower_run(builder, target, args, kwargs):
        values = [builder.mlir_convert(builder.load_var(arg), _plain(letter))
                  for arg, letter in zip(args, operands, strict=True)]
        kinds = list(map(_plain, results))
        kind = kinds[0] if len(kinds) == 1 else llvm.StructType.get_literal(kinds)
        value = llvm.inline_asm(kind, values, instruction.text, instruction.constraints,
                                has_side_effects=instruction.effect)
        builder.store_var(target, value if len(kinds) == 1 else tuple(
            llvm.extractvalue(each, value, [i]) for i, each in enumerate(kinds)))
    return run


def _global_pointer(address, kind):
    """A pointer to global memory at this address."""
    raise TypeError("a pointer exists on GPUs only")


@type_callable(_global_pointer)
def _type_global_pointer(context):
    return lambda address, kind: types.CPointer(kind.dtype)


@lower_builtin(_global_pointer, types.Integer, types.Any)
def _lower_global_pointer(builder, target, args, kwargs):
    address = builder.load_var(args[0])
    there = llvm.inttoptr(llvm.PointerType.get(1), address)     # space 1 is global memory
    builder.store_var(target, llvm.addrspacecast(llvm.PointerType.get(), there))


@cuda.jit(device=True)
def _elements_at(p, i, n, kind):
    return _global_pointer(p[i], kind)


FUNCTIONS = {"elements_at": _elements_at,
             **{name: _function(name, each) for name, each in INSTRUCTIONS.items()}}
refresh_registries()
