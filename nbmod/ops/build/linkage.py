"""Compiled kernels that call nothing but their own code.

numba compiles a kernel in parts: the helpers that it calls and the bodies of its parallel loops are
optimised and made machine code on their own first.  Copies of them are then linked into the kernel
and optimised once more.  numba links the copies as weak symbols, and of several definitions of a
symbol a process uses the one that it loaded first.  The process that compiles a kernel has loaded
the parts by then, so it would call those; a process that loads the kernel from the cache would call
the copies, or those of another kernel whose helpers happen to have the same names.  The parts and
the copies are vectorised differently, so where sums may be reassociated, their results differ in
the last digits.

Hence the copies become internal to the kernel that they were linked into, after it was optimised: a
kernel runs the machine code of its own object file and nothing else, in every process.
"""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["compiler"]

MERGED = ("linkonce_any", "linkonce_odr", "weak_any", "weak_odr")
"""Linkages of functions of which a process uses the definition that it loaded first."""


@cache
def compiler() -> Any:
    """The `pipeline_class` of kernels: numba's own, with a library whose copies are internal."""
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
    """The class that holds the code of a kernel."""
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
