"""Micro-kernels as code for AArch64, generated on any host: `tests.ops.test_arm` runs this.

Prints JSON: names with their assembly.
"""

from __future__ import annotations

import json
import platform
from types import SimpleNamespace
from typing import Any

platform.machine = lambda: "aarch64"  # code for the host is then for that

import llvmlite.binding as llvm  # noqa: E402, TID251
import numpy as np  # noqa: E402
from llvmlite import ir  # noqa: E402, TID251

from nbmod.ops.simd import (  # noqa: E402
    conv_strip,
    denormals,
    depthwise_taps,
    gemm_microkernel,
    outer_product,
    transpose,
    winograd_transforms,
)
from nbmod.ops.simd.ir import MicroKernel, Vectors  # noqa: E402

FLOATS, WHOLE = ir.FloatType().as_pointer(), ir.IntType(64).as_pointer()
STRIP = [FLOATS] * 5 + [WHOLE] * 2 + [6, 4]
CASES: dict[str, tuple[MicroKernel, list[Any]]] = {
    "strip2": (conv_strip.strip2, STRIP),
    "plane1": (conv_strip.plane1, STRIP),
    "lanewise": (depthwise_taps.depthwise_strip, STRIP),
    "outer2": (outer_product.outer2, [FLOATS] * 3 + [WHOLE] * 2 + [6, 4]),
    "transpose": (transpose.transpose, [FLOATS] * 2 + [2, 4]),
    "input_tile": (winograd_transforms.FOUR.input_tile, [FLOATS] * 2 + [2, 5]),
    "product": (gemm_microkernel.tile_of(4), [FLOATS] * 5 + [5, 6]),
    "denormals": (denormals.switch, [WHOLE, 0, 0]),
}
"""Kinds of arguments: a pointer, an integer (0), or a tuple of so many."""


def module_of(micro: MicroKernel, kinds: list[Any]) -> str:
    """LLVM IR of a function that is the micro-kernel."""
    types = [kind for kind in kinds if not isinstance(kind, int)]
    whole = [ir.IntType(64)] * sum(max(kind, 1) for kind in kinds if isinstance(kind, int))
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*types, *whole]), "kernel")
    builder = ir.IRBuilder(function.append_basic_block())
    pointers, integers = iter(function.args[:len(types)]), iter(function.args[len(types):])
    found = {name: next(pointers) if not isinstance(kind, int) else next(integers) if not kind
             else [next(integers) for _ in range(kind)]
             for name, kind in zip(micro.arguments, kinds, strict=True)}
    micro.emit(Vectors(builder, np.dtype(np.float32), SimpleNamespace(**found)))
    builder.ret_void()
    return str(module)


def main() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(opt=3)
    found = {}
    for name, (micro, kinds) in CASES.items():
        module = llvm.parse_assembly(module_of(micro, kinds))
        module.verify()
        found[name] = machine.emit_assembly(module)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
