"""How kernels are compiled: no code that they do not need, linked with helpers and optimized once.

numba compiles the helpers of a kernel and the bodies of its parallel loops separately first: it
links copies of their own helpers into them, optimizes, and generates machine code.  Then it links
copies of the results into the kernel and does all of it again, so that code is optimized once for
every level of calls above it.  Only the copies in the kernel run.  Here, what is linked has its
variables moved to registers, function by function; nothing is inlined, vectorized or translated
before all of it is in the kernel's module.  Helpers get no entry points for Python and C.

The copies are weak symbols, and of several definitions of a symbol a process uses the one that it
loaded first, such as that of another kernel with helpers of the same names.  They may have been
vectorized differently, so that where sums may be reassociated, results would differ in the last
digits.  Hence the copies get internal linkage after optimization: a kernel runs the code of its own
object file only, in every process.

Kernels work on arrays of their callers, so their code counts no references to them, which would be
a fifth of it.  A kernel that makes arrays, for which numba then refuses to compile it, is compiled
again with reference counts, and so are its helpers, apart from those of other kernels.

A function's environment holds the Python objects that it needs, for `print` and for arguments of
exceptions; a pointer to it is a global variable of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache, partial
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef, TargetData
    from llvmlite.ir import Type as IRType
    from numba.core.codegen import CodeLibrary, CPUCodegen
    from numba.core.compiler import CompilerBase, CompileResult, PassManager, StateDict
    from numba.core.compiler_machinery import CompilerPass
    from numba.core.cpu import CPUContext
    from numba.core.registry import CPUDispatcher
    from numba.core.types import Type
    from numba.core.typing import Signature

__all__ = ["kernel_compiler", "linked"]

MERGED = ("linkonce_any", "linkonce_odr", "weak_any", "weak_odr")
"""Linkages with which a process uses the definition that it loaded first."""
LINKED_LEVEL = 1
"""The optimization level of functions before they are linked; that of the kernel is numba's."""
MAKES_ARRAYS = ("NRT required", "Only accept returning of array")
"""How numba says that code needs reference counts."""
ENVIRONMENT = "_ZN08NumbaEnv"
"""How the names of variables begin that point to environments."""


@cache
def kernel_compiler(parallel: bool) -> type[CompilerBase]:
    """The `pipeline_class` of kernels: numba's, with `KernelLibrary` as its code library, and with
    `parallel_loops` where there are some."""
    from numba.core.untyped_passes import IRProcessing

    from .parallel_loops import OutlineParallelLoops

    class KernelCompiler(_helper_compiler()):  # type: ignore[misc]
        of_bodies = _helper_compiler()
        """Compiles the bodies of parallel loops."""

        def define_pipelines(self) -> list[PassManager]:
            [passes] = super().define_pipelines()
            if parallel:
                passes.add_pass_after(OutlineParallelLoops, IRProcessing)
                passes.finalize()
            return [passes]

        def compile_extra(self, func: Callable) -> CompileResult:
            target = self.state.targetctx
            self.state.library = _kernel_library()(target.codegen(), func.__qualname__)
            self.state.library.enable_object_caching()
            try:
                return super().compile_extra(func)
            except Exception as error:
                if self.state.flags.nrt or not any(words in str(error) for words in MAKES_ARRAYS):
                    raise
            return self._counting(target).compile_extra(func)

        def _counting(self, target: CPUContext) -> CompilerBase:
            """A copy of this compiler, for code that counts references."""
            state, flags = self.state, self.state.flags.copy()
            flags.nrt = True
            return type(self)(state.typingctx, target, None, state.args, state.return_type, flags,
                              state.locals)

    return KernelCompiler


def linked(function: Callable, **options: object) -> CPUDispatcher:
    """A numba function that kernels call: no code but theirs runs it, and Python code that calls it
    gets the Python function.

    options: those of `numba.njit`.
    """
    return _helper_class()(function, targetoptions={
        "nopython": True, "boundscheck": None, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
        "_nrt": False, **options}, pipeline_class=_helper_compiler())


@cache
def _helper_class() -> type[CPUDispatcher]:
    """The dispatcher of helpers, which has one function for constants and for other integers."""
    from numba import types
    from numba.core.registry import CPUDispatcher
    from numba.core.targetconfig import ConfigStack

    class HelperDispatcher(CPUDispatcher):
        counting: CPUDispatcher | None = None
        """This helper in kernels that count references."""

        def get_call_template(self, args: Sequence[Type], kws: dict[str, Type]) -> tuple:
            return super(HelperDispatcher, self._of_caller()).get_call_template(
                tuple(map(types.unliteral, args)),
                {name: types.unliteral(kind) for name, kind in kws.items()})

        def get_overload(self, sig: Signature) -> Callable:
            return super(HelperDispatcher, self._of_caller()).get_overload(sig)

        def _of_caller(self) -> CPUDispatcher:
            flags = ConfigStack.top_or_none()
            if flags is None or not flags.nrt:
                return self
            if self.counting is None:
                self.counting = HelperDispatcher(
                    self.py_func, targetoptions=self.targetoptions | {"_nrt": True},
                    pipeline_class=_helper_compiler())
            return self.counting

        def __call__(self, *args: object) -> object:
            return self.py_func(*args)

    return HelperDispatcher


@cache
def _helper_compiler() -> type[CompilerBase]:
    """The `pipeline_class` of helpers, and of the bodies of parallel loops."""
    from numba.core.compiler import Compiler
    from numba.core.typed_passes import NopythonRewrites, NopythonTypeInference
    from numba.core.untyped_passes import InlineClosureLikes

    class HelperCompiler(Compiler):
        def define_pipelines(self) -> list[PassManager]:
            """Without passes that look for what code has not: expressions of whole arrays, which
            make arrays, and functions in functions."""
            [passes] = super().define_pipelines()
            instead: dict[type, type | None] = {}
            if not self.state.flags.nrt:
                instead = {NopythonRewrites: None, NopythonTypeInference: _borrowing_inference()}
            if not any(isinstance(each, CodeType) for each in self.state.func_id.code.co_consts):
                instead[InlineClosureLikes] = None
            passes.passes = [(chosen, text) for kind, text in passes.passes
                             if (chosen := instead.get(kind, kind)) is not None]
            passes.finalize()
            return [passes]

        def compile_extra(self, func: Callable) -> CompileResult:
            self.state.targetctx = _linked_target(self.state.targetctx)
            return super().compile_extra(func)

    return HelperCompiler


@cache
def _borrowing_inference() -> type[CompilerPass]:
    """numba's pass that infers types, which lets functions without reference counts return arrays
    only if they are arguments; parts of those are as valid."""
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NopythonTypeInference

    @register_pass(mutates_CFG=True, analysis_only=False)
    class BorrowingInference(NopythonTypeInference):
        _name = "borrowing_type_inference"

        def run_pass(self, state: StateDict) -> bool:
            target = state.targetctx
            state.targetctx = target.subtarget(enable_nrt=True)
            try:
                return super().run_pass(state)
            finally:
                state.targetctx = target

    return BorrowingInference


def _linked_target(target: CPUContext) -> CPUContext:
    """numba's context of the CPU, with a code generator that makes `LinkedLibrary`s."""
    return target.subtarget(_internal_codegen=_linked_codegen(target.codegen()),
                            get_abi_sizeof=partial(_size_of, target.target_data))


@cache
def _linked_codegen(codegen: CPUCodegen) -> CPUCodegen:
    """numba's code generator, for `LinkedLibrary`s."""
    codegen = copy(codegen)
    codegen._library_class = _linked_library()
    codegen.set_env = lambda name, environment: None    # the kernel's module has the variable
    return codegen


@cache
def _size_of(layout: TargetData, kind: IRType) -> int:
    """Bytes of a type; LLVM tells them by compiling a module that has one."""
    return int(kind.get_abi_size(layout))


def _simplify_functions(library: CodeLibrary, module: ModuleRef) -> None:
    """Move variables to registers and the like, in each function of a module that is linked."""
    from numba.core.codegen import JITCodeLibrary

    codegen = library._codegen
    library._codegen = _with_light_passes(codegen)
    try:
        JITCodeLibrary._optimize_functions(library, module)
    finally:
        library._codegen = codegen


@cache
def _with_light_passes(codegen: CPUCodegen) -> CPUCodegen:
    """numba's code generator, whose passes over functions do little."""
    light = copy(codegen)
    light._function_pass_manager = partial(codegen._function_pass_manager, opt=LINKED_LEVEL)
    return light


@cache
def _linked_library() -> type[CodeLibrary]:
    """The code library of what is only linked into kernels, which optimize and translate it."""
    from numba.core.codegen import JITCodeLibrary

    class LinkedLibrary(JITCodeLibrary):
        _optimize_functions = _simplify_functions

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
def _kernel_library() -> type[CodeLibrary]:
    """The code library of a kernel, which makes merged functions internal."""
    from llvmlite.binding import Linkage
    from numba.core.codegen import JITCodeLibrary
    from numba.core.environment import lookup_environment

    merged = {Linkage[name] for name in MERGED}

    class KernelLibrary(JITCodeLibrary):
        _optimize_functions = _simplify_functions

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
