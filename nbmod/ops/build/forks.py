"""Kernels and the compiler in forked processes.

GNU's OpenMP, numba's usual threading layer on Linux, does not survive a fork: numba ends the child
at its first parallel kernel.  Compiled kernels therefore call their threading layer through a
pointer, which a child sets to numba's `workqueue` layer.  That one starts its threads anew; it
cannot be entered by two threads at once, which the lock of parallel kernels prevents (`ops.jit`).

A fork waits while another thread is inside of LLVM, whose data must be whole in the child.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import import_module
from typing import Any

from ...core import fork

__all__ = ["survive_forks"]

_parallel_for = ctypes.c_uint64()
"""Address of the function of the threading layer that runs a parallel loop."""
_kept: list[Any] = []
"""Machine code that must not be freed."""


def survive_forks(parallel: bool) -> None:
    """Before a kernel is compiled or loaded: let children of this process run kernels."""
    _prepare()
    if parallel:
        _prepare_threads()


@cache
def _prepare() -> None:
    from llvmlite.binding import ffi
    from numba.core.compiler_lock import global_compiler_lock

    fork.held(ffi.lib._lock._lock)
    fork.fresh(global_compiler_lock._lock)
    fork.prepare()


@cache
def _prepare_threads() -> None:
    import numba

    numba.get_num_threads()    # starts the threads, which chooses the layer
    if sys.platform == "linux" and sys.maxsize > 1 << 32 and numba.threading_layer() == "omp":
        from llvmlite.binding import add_symbol

        _layer("workqueue")    # children have it imported: another thread may be importing then
        _parallel_for.value = _layer("omppool").parallel_for
        add_symbol("numba_parallel_for", _indirect_call(ctypes.addressof(_parallel_for)))
        fork.in_child(_use_workqueue)


def _indirect_call(pointer: int) -> int:
    """The address of a function that calls the one whose address is at `pointer`, with the
    arguments of `parallel_for`: seven pointers or sizes, and the number of threads."""
    from llvmlite import ir
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    word, name = ir.IntType(64), "nbmod_parallel_for"
    kind = ir.FunctionType(ir.VoidType(), [word] * 7 + [ir.IntType(32)])
    with global_compiler_lock:
        library = cpu_target.target_context.codegen().create_library(name)
        module = library.create_ir_module(name)
        function = ir.Function(module, kind, name)
        builder = ir.IRBuilder(function.append_basic_block())
        target = builder.load(builder.inttoptr(word(pointer), kind.as_pointer().as_pointer()))
        builder.call(target, function.args, tail=True)
        builder.ret_void()
        library.add_ir_module(module)
        library.finalize()
        _kept.append(library)
        address: int = library.get_pointer_to_function(name)
    return address


def _use_workqueue() -> None:
    """In a child: start threads, and call them from now on."""
    import numba

    layer = _layer("workqueue")
    _parallel_for.value = layer.parallel_for
    ctypes.CFUNCTYPE(None, ctypes.c_int)(layer.launch_threads)(numba.config.NUMBA_NUM_THREADS)


def _layer(name: str) -> Any:
    return import_module(f"numba.np.ufunc.{name}")
