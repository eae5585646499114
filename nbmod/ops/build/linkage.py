"""How kernels are linked with their helpers: optimized once, one machine code.

numba compiles the helpers of a kernel and the bodies of its parallel loops separately first: it
links copies of their own helpers into them, optimizes, and generates machine code.  Then it links
copies of the results into the kernel and does all of it again, so that code is optimized once for
every level of calls above it.  Only the copies in the kernel run.  Here, what is linked has its
variables moved to registers and its reference counts removed, function by function; nothing is
inlined, vectorized or translated before all of it is in the kernel's module.  Helpers get no entry
points for Python and C.

The copies are weak symbols, and of several definitions of a symbol a process uses the one that it
loaded first, such as that of another kernel with helpers of the same names.  They may have been
vectorized differently, so that where sums may be reassociated, results would differ in the last
digits.  Hence the copies get internal linkage after optimization: a kernel runs the code of its own
object file only, in every process.

A function's environment holds the Python objects that it needs, for `print` and for arguments of
exceptions; a pointer to it is a global variable of the module.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache, partial
from typing import Any

__all__ = ["kernel_compiler", "linked"]

MERGED = ("linkonce_any", "linkonce_odr", "weak_any", "weak_odr")
"""Linkages with which a process uses the definition that it loaded first."""
LINKED_LEVEL = 1
"""The optimization level of functions before they are linked; that of the kernel is numba's."""
ENVIRONMENT = "_ZN08NumbaEnv"
"""How the names of variables begin that point to environments."""


@cache
def kernel_compiler(parallel: bool) -> Any:
    """The `pipeline_class` of kernels: numba's, with `KernelLibrary` as its code library, and with
    `parallel_loops` where there are some."""
    from numba.core.compiler import Compiler
    from numba.core.untyped_passes import IRProcessing

    from .parallel_loops import OutlineParallelLoops

    class KernelCompiler(Compiler):
        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            if parallel:
                for each in pipelines:
                    each.add_pass_after(OutlineParallelLoops, IRProcessing)
                    each.finalize()
            return pipelines

        def compile_extra(self, func: Any) -> Any:
            target = self.state.targetctx
            self.state.library = _kernel_library()(target.codegen(), func.__qualname__)
            self.state.library.enable_object_caching()
            self.state.targetctx = _linked_target(target)   # for the bodies of parallel loops
            return super().compile_extra(func)

    return KernelCompiler


def linked(function: Callable[..., Any], **options: Any) -> Any:
    """A numba function that kernels call: no code but theirs runs it, and Python code that calls it
    gets the Python function.

    options: those of `numba.njit`.
    """
    return _helper_class()(function, targetoptions={
        "nopython": True, "boundscheck": None, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
        **options}, pipeline_class=_helper_compiler())


@cache
def _helper_class() -> Any:
    """The dispatcher of helpers."""
    from numba.core.registry import CPUDispatcher

    class HelperDispatcher(CPUDispatcher):
        def __call__(self, *args: Any) -> Any:
            return self.py_func(*args)

    return HelperDispatcher


@cache
def _helper_compiler() -> Any:
    """The `pipeline_class` of helpers."""
    from numba.core.compiler import Compiler

    class HelperCompiler(Compiler):
        def compile_extra(self, func: Any) -> Any:
            self.state.targetctx = _linked_target(self.state.targetctx)
            return super().compile_extra(func)

    return HelperCompiler


@cache
def _linked_target(target: Any) -> Any:
    """numba's context of the CPU, with a code generator that makes `LinkedLibrary`s."""
    codegen = copy(target.codegen())
    codegen._library_class = _linked_library()
    codegen._function_pass_manager = partial(codegen._function_pass_manager, opt=LINKED_LEVEL)
    codegen.set_env = lambda name, environment: None    # the kernel's module has the variable
    return target.subtarget(_internal_codegen=codegen)


@cache
def _linked_library() -> Any:
    """The code library of what is only linked into kernels, which optimize and translate it."""
    from numba.core.codegen import JITCodeLibrary

    class LinkedLibrary(JITCodeLibrary):
        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._verify_declare_only_symbols()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

    return LinkedLibrary


@cache
def _kernel_library() -> Any:
    """The code library of a kernel, which makes merged functions internal."""
    from llvmlite.binding import Linkage
    from numba.core.codegen import JITCodeLibrary
    from numba.core.environment import lookup_environment

    merged = {Linkage[name] for name in MERGED}

    class KernelLibrary(JITCodeLibrary):
        def _finalize_final_module(self) -> None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage in merged:
                    function.linkage = Linkage.internal
            super()._finalize_final_module()
            for variable in self._final_module.global_variables:
                environment = lookup_environment(variable.name)
                if variable.name.startswith(ENVIRONMENT) and environment is not None:
                    self.codegen.set_env(variable.name, environment)

    return KernelLibrary
