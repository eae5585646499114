"""Internal linkage for the helpers of a kernel, so that all processes run the same machine code.

numba compiles the helpers of a kernel and the bodies of its parallel loops separately first, then
links copies of them into the kernel and optimizes again.  The copies are weak symbols, and of
several definitions of a symbol a process uses the one that it loaded first.  The process that
compiles a kernel has loaded the separate ones by then; a process that loads the kernel from the
cache would use the copies, or those of another kernel with helpers of the same names.  The two are
vectorized differently, so where sums may be reassociated, results differ in the last digits.

Hence the copies get internal linkage after optimization: a kernel runs the code of its own object
file only, in every process.
"""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["compiler"]

MERGED = ("linkonce_any", "linkonce_odr", "weak_any", "weak_odr")
"""Linkages with which a process uses the definition that it loaded first."""


@cache
def compiler() -> Any:
    """The `pipeline_class` of kernels: numba's, with `KernelLibrary` as its code library."""
    from numba.core.compiler import Compiler

    class KernelCompiler(Compiler):
        def compile_extra(self, func: Any) -> Any:
            codegen = self.state.targetctx.codegen()
            self.state.library = _library_class()(codegen, func.__qualname__)
            self.state.library.enable_object_caching()
            return super().compile_extra(func)

    return KernelCompiler


@cache
def _library_class() -> Any:
    """The code library of a kernel, which makes merged functions internal."""
    from llvmlite.binding import Linkage
    from numba.core.codegen import JITCodeLibrary

    merged = {Linkage[name] for name in MERGED}

    class KernelLibrary(JITCodeLibrary):
        def _finalize_final_module(self) -> None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage in merged:
                    function.linkage = Linkage.internal
            super()._finalize_final_module()

    return KernelLibrary
