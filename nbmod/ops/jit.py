"""How kernels are compiled: the only module that uses `numba.njit`.

    @inlined                      a helper function for kernels
    @kernel                       a serial kernel, called from Python
    @kernel(parallel=True)        the same with `prange` over its outermost independent axis

Compilation is lazy: numba is imported and a function compiled at the first call.  Compiled code is
kept on disk under names that tell its content (`build.store`), so that an edit recompiles what it
changes, and nothing else does.  Processes that need the same kernel at the same time compile it
once: the others wait.

Kernels release the GIL.  numba's `workqueue` layer aborts the process when two threads are inside
parallel kernels, so every parallel kernel is entered through one lock (`_gate`); a kernel uses all
cores anyway.  Idle threads spin for about 0.1 ms and then sleep.  Waking one takes 30 us; but if
they spin for long, as libgomp's do by default, every switch between a parallel kernel and a
threaded BLAS call costs some 8 ms, because both libraries compete for the cores.

Kernels flush denormal numbers to 0, unless exactness is asked for (see `denormals`).
"""

from __future__ import annotations

import logging
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from operator import index
from typing import Any

import numpy as np

from ..base import ArgumentError, MXNetError
from ..core.collector import without_collector
from ..core.config import is_exact
from ..core.fork import fresh, in_child
from ..core.interrupts import deferred, from_handler
from .build.compiler import (
    compiler_trouble,
    has_compiler,
    lacks_compiler,
    numba_package,
    pays_off,
    require_compiler,
)
from .build.forks import survive_forks
from .build.inlining import FASTMATH, inlined, link, prange
from .build.levels import restrict_numba
from .build.linkage import kernel_compiler
from .build.progress import CompileListener, patience
from .build.store import (
    cache_folder,
    call_before_compiling,
    claimed,
    keep_compiled,
    keeps_code,
    kept_files,
    loads_code,
)
from .simd.denormals import FLUSH, switch

__all__ = ["kernel", "inlined", "prange", "Kernel", "cache_folder", "call_before_compiling",
           "compile_ahead", "compiler_trouble", "denormals", "dry_run", "has_compiler",
           "keeps_code", "kept_files", "kernel_file", "lacks_compiler", "num_threads", "pays_off",
           "require_compiler", "set_num_threads", "threading_layer"]

LOG = logging.getLogger("nbmod")

SPINS = 10_000
"""Spins of an idle libgomp thread before it sleeps: 10 to 45 ns each.  Steps of a network are 2 to
50 us apart; with threads awake, a kernel starts in 3 us instead of 33."""

class _ThreadMode(threading.local):
    """The state of a Python thread: the mode (thread, denormals' bits) that its kernels run in.

    `switch_here` writes the former bits to `bits`.
    """

    def __init__(self) -> None:
        self.identity = object()
        self.mode: tuple | None = None
        self.threads: int | None = None
        self.bits = np.zeros(1, np.int64)


_gate = fresh(threading.RLock())
_thread = _ThreadMode()
_threads: int | None = None
"""The argument of `set_num_threads`; numba has a number for every Python thread."""
_pool: tuple | None = None
"""The current mode of the pool.  libgomp has a pool for every thread that has used it."""
_compiling = fresh(threading.RLock())
_recorded: dict[tuple[Kernel, tuple], None] | None = None
"""In a dry run: kernels with their argument types, in the order of first calls."""


@contextmanager
def dry_run() -> Iterator[dict[tuple[Kernel, tuple], None]]:
    """A block in which kernels of the whole process do not run; it collects them with the argument
    types they would be compiled for.  For processes that do nothing else."""
    global _recorded
    _recorded = {}
    try:
        yield _recorded
    finally:
        _recorded = None


def kernel_file(kernel: Kernel, types: tuple) -> pathlib.Path:
    """Where the compiled code of a kernel for these types is installed, kept, or will be kept."""
    compiled = kernel.compile()
    file: pathlib.Path = compiled._cache.file(types, compiled.targetctx)
    return file


def compile_ahead(kernel: Kernel, types: tuple) -> None:
    """Compile for types found in a dry run, unless another process does so already."""
    compiled = kernel.compile()
    with claimed(compiled, types, timeout=0) as free:
        pass
    if free:
        compiled.compile(types)


def _compile_alone(dispatcher: Any) -> None:
    """Let one thread at a time compile, without the collector, while signals wait."""
    for name in ("compile", "_compile_for_args"):   # called by `compile_ahead`, by machine code
        setattr(dispatcher, name, partial(_undisturbed, getattr(dispatcher, name)))


def _undisturbed(compile: Callable[..., Any], *args: Any) -> Any:
    with _compiling, deferred(), without_collector():
        return compile(*args)


class Kernel:
    """A function compiled at its first call; `parallel` ones run one at a time (see `_gate`)."""

    def __init__(self, function: Callable, parallel: bool = False, fastmath: bool = False,
                 plain: Callable | None = None):
        self.function = function
        self.plain = plain
        self.parallel = parallel
        self.fastmath = FASTMATH if fastmath else False
        self._compiled: Any = None
        self._original = self
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    @cached_property
    def alone(self) -> Kernel:
        """This kernel for calls in which no parallel loop has more than one iteration: the calling
        thread runs it, and does not wait for parallel kernels of other threads."""
        return _Alone(self)

    def compile(self) -> Any:
        """The numba dispatcher, created on demand (specialised per argument types by numba).

        With NUMBA_DISABLE_JIT=1 the Python function itself; without a compiler that in NumPy, if
        there is one.
        """
        if self._compiled is None:
            with _compiling, deferred():
                if self._compiled is None:
                    self._compiled = self._dispatcher()
        return self._compiled

    def _dispatcher(self) -> Any:
        # Compiled code does not warn of overflow and the like.
        if not has_compiler():
            return np.errstate(all="ignore")(self.plain or self.function)
        if numba_package().config.DISABLE_JIT:
            return np.errstate(all="ignore")(self.function)
        _configure_libgomp()
        _silence_compiler_log()
        _show_progress()
        restrict_numba()
        survive_forks(self.parallel)
        link(self.function.__globals__)
        dispatcher = numba_package().njit(
            self.function, fastmath=self.fastmath, nogil=True, error_model="numpy",
            no_cfunc_wrapper=True, _nrt=False, pipeline_class=kernel_compiler(self.parallel))
        if loads_code():
            options = f"parallel={self.parallel} fastmath={bool(self.fastmath)}"
            keep_compiled(dispatcher, options)
        _compile_alone(dispatcher)
        return dispatcher

    def __call__(self, *args: Any) -> None:
        compiled = self._compiled or self.compile()
        if _recorded is not None:
            _recorded[self._original, tuple(map(compiled.typeof_pyval, args))] = None
            return
        try:
            if self.parallel:
                _enter(compiled, args)
            else:
                compiled(*args)
        except Exception as error:
            if from_handler(error):
                raise
            raise self._explained(error, args) from error

    def _explained(self, error: Exception, args: Sequence[Any]) -> Exception:
        """`error`, or an MXNetError with the argument types if it is a typing error of numba."""
        if not has_compiler() or not isinstance(
                error, (numba_package().core.errors.NumbaError, TypeError, NotImplementedError)):
            return error
        code = self.function.__code__
        names = code.co_varnames[:code.co_argcount]
        types = ", ".join(f"{name}: {getattr(arg, 'dtype', type(arg).__name__)}" for name, arg
                          in zip(names, args, strict=False))
        hint = ("" if "Untyped global name" not in str(error) else
                "Functions that a kernel calls need @inlined, of nbmod.ops.jit. ")
        return MXNetError(f"kernel {self.__name__} ({code.co_filename}, line "
                          f"{code.co_firstlineno}) takes {len(names)} arguments and cannot be "
                          f"compiled for {len(args)}: {types}. {hint}{error}")


class _Alone(Kernel):
    """A parallel kernel that enters no pool of threads."""

    def __init__(self, original: Kernel):
        super().__init__(original.function)
        self._original = original

    def _dispatcher(self) -> Any:
        return self._original.compile()


def _enter(compiled: Any, args: Sequence[Any]) -> None:
    """Call a parallel kernel in the mode of a `denormals` block: one around, or its own."""
    if _thread.mode is None:
        with denormals(is_exact()):
            _enter_pool(compiled, args)
    else:
        _enter_pool(compiled, args)


def _enter_pool(compiled: Any, args: Sequence[Any]) -> None:
    global _pool
    with _gate:
        if _thread.threads != _threads:
            _set_numba_threads()
        if _pool != _thread.mode:
            assert _thread.mode is not None
            before = np.empty(num_threads(), np.int64)
            switch_pool.compile()(before, _thread.mode[1])
            _pool = _thread.mode
        compiled(*args)


@in_child
def _forget_pool() -> None:
    """The pool has new threads now: after a fork, or a change of their number."""
    global _pool
    _pool = None


class denormals:
    """A block in which this thread, and the pool when this thread uses it, keeps denormal numbers
    or flushes them to 0, as operands and as results (FTZ, DAZ), in kernels and in NumPy.

    The threads of NumPy's BLAS are not affected.
    """

    __slots__ = ("_bits", "_before", "_mode")

    def __init__(self, keep: bool):
        self._bits = 0 if keep else _flush_bits()

    def __enter__(self) -> None:
        before = _thread.bits
        switch_here(before, self._bits)
        self._before = int(before[0])
        self._mode, _thread.mode = _thread.mode, (_thread.identity, self._bits)

    def __exit__(self, *_: Any) -> None:
        _thread.mode = self._mode
        switch_here(_thread.bits, self._before)


@cache
def _flush_bits() -> int:
    """The bits of the mode that flushes."""
    for kind in "efd":
        np.finfo(kind)  # NumPy computes the smallest numbers now, before they are flushed
    return FLUSH


def kernel(function: Callable | None = None, *, parallel: bool = False, fastmath: bool = False,
           plain: Callable | None = None) -> Any:
    """Decorator of kernels: `@kernel` or `@kernel(parallel=True, fastmath=True)`.

    plain: computes the same with NumPy; it runs where there is no compiler, in place of the Python
    function, which is slow.
    """
    if function is None:
        return lambda f: Kernel(f, parallel, fastmath, plain)
    return Kernel(function, parallel, fastmath, plain)


@kernel
def switch_here(before, bits):
    """Set bits of the mode in the calling thread; `before` gets the previous ones."""
    switch(before, 0, bits)


@kernel(parallel=True)
def switch_pool(before, bits):
    """Set them in as many threads as `before` has elements: this one, and those of the pool."""
    for thread in prange(len(before)):
        switch(before, np.int64(thread), bits)


def _configure_libgomp() -> None:
    """Set libgomp's environment variables before numba loads it with the first parallel kernel,
    unless the user has set them."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def _silence_compiler_log() -> None:
    """Scripts that log at level DEBUG must not get numba's log of its compiler."""
    logger = logging.getLogger("numba")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)


@cache
@deferred()
def _start_threads() -> Any:
    """The compiler, with the threads of its parallel loops."""
    _configure_libgomp()
    numba_package().get_num_threads()
    return numba_package()


@cache
def _show_progress() -> None:
    """Report compilations: at a terminal, and to the log."""
    from numba.core import event

    event.Listener.register(CompileListener)
    event.register("numba:compile", CompileListener(patience()))


def num_threads() -> int:
    """Number of threads of parallel kernels; by default, one for every core of this process."""
    if _threads is None:
        return _start_threads().get_num_threads() if has_compiler() else 1
    return _threads


def threading_layer() -> str:
    """The library that runs threads of kernels: tbb, omp or workqueue; '' before the first one."""
    try:
        return numba_package().threading_layer() if has_compiler() else ""
    except ValueError:
        return ""


def set_num_threads(count: int) -> None:
    """Use `count` threads in parallel kernels from now on, in all Python threads.

    `count` is at most the number of cores, or NUMBA_NUM_THREADS if that is set; more raises
    ArgumentError.  Results are bitwise the same with any number.  NumPy's BLAS has threads of its
    own, which OPENBLAS_NUM_THREADS and the like control.
    """
    global _threads
    most, count = _most_threads(), index(count)
    if not 1 <= count <= most:
        raise ArgumentError(f"set_num_threads: count is {count}, expected 1 to {most}; for more, "
                            "set NUMBA_NUM_THREADS before the first kernel runs")
    with _gate:
        _threads = count
        _set_numba_threads()
        _forget_pool()


def _most_threads() -> int:
    """The most threads of a parallel kernel; without a compiler as many as there are cores, though
    nothing uses them, so that scripts run."""
    if has_compiler():
        return int(numba_package().config.NUMBA_NUM_THREADS)
    return os.cpu_count() or 1


def _set_numba_threads() -> None:
    """Set numba's number of threads for this Python thread."""
    if has_compiler():
        _start_threads().set_num_threads(_threads)
    _thread.threads = _threads
