"""Cross-compilation: kernels for a processor of another architecture.

numba compiles for the machine that it runs on.  `imitate` makes this process look like another one
before numba is used; LLVM has code generators for all.  Object code is emitted and not loaded:
kernels must not run then, and in a dry run none does.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from nbmod.ops.build.levels import LEVELS, instruction_sets, machine

__all__ = ["TRIPLES", "imitate"]

TRIPLES = {"armv8.2": "aarch64-unknown-linux-gnu", "apple-m1": "arm64-apple-darwin"}
"""What LLVM calls the systems of levels for other architectures than x86-64."""


def imitate(level: str) -> None:
    """Let numba and nbmod take this machine for one of `level`, if that is of another kind."""
    if LEVELS[level].machine == machine():
        return
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.get_process_triple = llvm.targets.get_default_triple = lambda: TRIPLES[level]
    platform.machine = lambda: LEVELS[level].machine
    os.environ |= {"NUMBA_CPU_NAME": LEVELS[level].cpu,
                   "NUMBA_CPU_FEATURES": instruction_sets(level)}
    _emit_only()


def _emit_only() -> None:
    """Replace numba's execution engine, which links code into this process."""
    from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen

    def emit(codegen: Any, module: Any) -> None:
        CPUCodeLibrary._object_compiled_hook(module, codegen._tm.emit_object(module))

    JITCPUCodegen._add_module = emit
    JITCPUCodegen.set_env = lambda codegen, name, environment: None
    JITCPUCodegen._scan_and_fix_unresolved_refs = lambda codegen, module: None
