"""How kernels are compiled: the only module that uses `numba.njit`.

    @inlined                      a helper function for kernels of the same file
    @kernel                       a serial kernel, called from Python
    @kernel(parallel=True)        the same with `prange` over its outermost independent axis

Compilation is lazy: numba is imported and a function compiled at the first call.  Compiled code is
cached on disk in a folder named after the package version, the sources of the kernels, the host CPU
and the vector width, so edits and other machines that share the home directory never load stale
code.  Processes that need the same kernel at the same time compile it once: the others wait.

Kernels release the GIL.  numba's `workqueue` layer aborts the process when two threads are inside
parallel kernels, so every parallel kernel is entered through one lock (`_gate`); a kernel uses all
cores anyway.  Idle threads spin for about 0.1 ms and then sleep.  Waking one takes 30 us; but if
they spin for long, as libgomp's do by default, every switch between a parallel kernel and a
threaded BLAS call costs some 8 ms, because both libraries compete for the cores.

Kernels flush denormal numbers to 0, unless exactness is asked for (see `denormals`).
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import pathlib
import platform
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from operator import index
from typing import Any

import numpy as np

from ..base import ArgumentError, MXNetError, warn_user
from ..config import CONFIG, is_exact
from .build.linkage import compiler
from .build.locks import locked
from .build.progress import Progress

__all__ = ["kernel", "inlined", "prange", "Kernel", "cache_folder", "call_before_compiling",
           "compile_ahead", "denormals", "keeps_code", "kept_files", "num_threads", "dry_run",
           "set_num_threads"]

FASTMATH = {"contract", "nsz", "arcp", "afn", "reassoc"}
"""Relaxations kernels may opt into: no assumption that NaN or infinity cannot occur."""

LOCK_TIMEOUT = 120
"""Seconds to wait for another process that compiles the same."""
SPINS = 10_000
"""Spins of an idle libgomp thread before it sleeps: 10 to 45 ns each.  Steps of a network are 2 to
50 us apart; with threads awake, a kernel starts in 3 us instead of 33."""

prange = range
"""Placeholder until numba is imported; `_numba` puts numba's own into the kernels' modules."""

class _Thread(threading.local):
    """The state of a Python thread: the mode (thread, denormals' bits) that its kernels run in."""

    def __init__(self) -> None:
        self.identity = object()
        self.mode: tuple | None = None
        self.threads: int | None = None


_gate = threading.RLock()
_thread = _Thread()
_threads: int | None = None
"""The argument of `set_num_threads`; numba has a number for every Python thread."""
_pool: tuple | None = None
"""The current mode of the pool.  libgomp has a pool for every thread that has used it."""
_compiling = threading.RLock()
_before_compiling: Callable[[], None] | None = None
_recorded: dict[tuple[Kernel, tuple], None] | None = None
"""In a dry run: kernels with their argument types, in the order of first calls."""


@cache
def cache_folder() -> pathlib.Path:
    """Where compiled code and generated kernels of this version, on this CPU, are kept.

    Sources of GPU kernels do not matter: their binaries are cached under keys of their own.
    """
    import numba

    from .. import __version__

    sources = hashlib.sha256()
    package = pathlib.Path(__file__).parent
    files = (path for path in package.rglob("*.py")
             if path.relative_to(package).parts[0] != "cuda")
    for path in sorted(files):
        stat = path.stat()
        sources.update(f"{path.relative_to(package)} {stat.st_size} {stat.st_mtime_ns}".encode())
    host = f"{platform.machine()} {platform.processor()} {CONFIG.simd_lanes}"
    host = hashlib.sha256(host.encode()).hexdigest()[:8]
    tag = f"{__version__}-numba{numba.__version__}-{host}-{sources.hexdigest()[:12]}"
    folder = CONFIG.cache_dir / tag
    return _writable(folder) if CONFIG.cache else folder


def _writable(folder: pathlib.Path) -> pathlib.Path:
    """`folder`, or if it is read-only, a temporary copy of it for this process.

    If that is impossible, too, code is kept in memory only.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return folder
    except OSError as error:
        why = error.strerror or error
    try:
        other = pathlib.Path(tempfile.mkdtemp(prefix="nbmod-"))
        atexit.register(shutil.rmtree, other, ignore_errors=True)
        with suppress(OSError, shutil.Error):
            shutil.copytree(folder, other, dirs_exist_ok=True)
    except OSError:
        CONFIG.cache, other = False, folder
    warn_user(f"compiled kernels cannot be kept in {folder} ({why}), so the next process compiles "
              "again; set NBMOD_CACHE_DIR to a folder that can be written")
    return other


def keeps_code() -> bool:
    """Whether compiled code is kept on disk."""
    if CONFIG.cache:
        cache_folder()  # clears CONFIG.cache if no folder is writable
    return CONFIG.cache


def kept_files() -> int:
    """How many compiled functions the cache folder holds; each is in a file of its own."""
    return sum(1 for _ in cache_folder().rglob("*.nbc"))


@contextmanager
def _private_cache():
    """Let numba use our cache folder while it decorates a kernel; users' functions keep theirs."""
    import numba

    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _synchronize_cache(compiled: Any) -> None:
    """Let only one process at a time compile a kernel for given types, and one at a time write.

    numba's cache is not safe against concurrent writers: it finds a free file name, then writes.
    """
    kept, compile = compiled._cache, compiled.compile
    load, save, claims = kept.load_overload, kept.save_overload, ExitStack()

    def load_or_claim(types: Any, target: Any) -> Any:
        found = load(types, target)
        if found is None:
            if _before_compiling is not None:
                _before_compiling()
            claims.enter_context(locked(_claim(compiled, types), timeout=LOCK_TIMEOUT))
            found = load(types, target)
        return found

    def save_locked(*args: Any) -> None:
        with locked(cache_folder() / "lock", timeout=LOCK_TIMEOUT):
            save(*args)

    def compile_and_release(types: Any) -> Any:
        with _compiling, claims:
            return compile(types)

    kept.load_overload, kept.save_overload = load_or_claim, save_locked
    compiled.compile = compile_and_release


def _claim(compiled: Any, types: Sequence[Any]) -> pathlib.Path:
    """The lock file of the process that compiles a kernel for these types."""
    function = compiled.py_func
    text = f"{function.__module__} {function.__qualname__} {types}"
    return cache_folder() / "claims" / hashlib.sha256(text.encode()).hexdigest()[:16]


def call_before_compiling(function: Callable[[], None]) -> None:
    """Call `function` whenever a kernel that is not on disk is about to be compiled."""
    global _before_compiling
    _before_compiling = function


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


def compile_ahead(kernel: Kernel, types: tuple) -> None:
    """Compile for types found in a dry run, unless another process does so already."""
    compiled = kernel.compile()
    with locked(_claim(compiled, types), timeout=0) as free:
        pass
    if free:
        compiled.compile(types)


def _link(namespace: dict[str, Any]) -> None:
    """Replace the placeholders in the module of a kernel by numba's own functions."""
    import numba

    for name, value in list(namespace.items()):
        if isinstance(value, Inlined):
            namespace[name] = value.compile()
        elif value is range and name == "prange":
            namespace[name] = numba.prange


class Inlined:
    """A helper of kernels; compiled when the first kernel that calls it is."""

    def __init__(self, function: Callable, fastmath: bool = False, always: bool = False):
        self.function = function
        self.fastmath = FASTMATH if fastmath else False
        self.always = always
        self._compiled: Any = None

    def compile(self) -> Any:
        import numba

        if self._compiled is None:
            self._compiled = numba.njit(self.function, fastmath=self.fastmath, nogil=True,
                                        error_model="numpy", inline="never",
                                        forceinline=self.always)
            _link(self.function.__globals__)
        return self._compiled

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


class Kernel:
    """A function compiled at its first call; `parallel` ones run one at a time (see `_gate`)."""

    def __init__(self, function: Callable, parallel: bool = False, fastmath: bool = False):
        self.function = function
        self.parallel = parallel
        self.fastmath = FASTMATH if fastmath else False
        self._compiled: Any = None
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def compile(self) -> Any:
        """The numba dispatcher, created on demand (specialised per argument types by numba).

        With NUMBA_DISABLE_JIT=1, the Python function itself.
        """
        with _compiling:
            if self._compiled is None:
                import numba

                if numba.config.DISABLE_JIT:
                    self._compiled = self.function
                    return self._compiled
                _configure_libgomp()
                _silence_compiler_log()
                _show_progress()
                _link(self.function.__globals__)
                # numba caches by source file: code from a prompt has none.
                in_file = os.path.isfile(self.function.__code__.co_filename)
                with _private_cache():
                    self._compiled = numba.njit(
                        self.function, parallel=self.parallel, fastmath=self.fastmath,
                        nogil=True, error_model="numpy", cache=keeps_code() and in_file,
                        pipeline_class=compiler())
                if self._compiled._cache.cache_path:
                    _synchronize_cache(self._compiled)
        return self._compiled

    def __call__(self, *args: Any) -> None:
        compiled = self._compiled or self.compile()
        if _recorded is not None:
            _recorded[self, tuple(map(compiled.typeof_pyval, args))] = None
            return
        try:
            if self.parallel:
                _enter(compiled, args)
            else:
                compiled(*args)
        except Exception as error:
            raise self._explained(error, args) from error

    def _explained(self, error: Exception, args: Sequence[Any]) -> Exception:
        """`error`, or an MXNetError with the argument types if it is a typing error of numba."""
        import numba

        if not isinstance(error, (numba.core.errors.NumbaError, TypeError, NotImplementedError)):
            return error
        code = self.function.__code__
        names = code.co_varnames[:code.co_argcount]
        given = ", ".join(f"{name}: {getattr(arg, 'dtype', type(arg).__name__)}" for name, arg
                          in zip(names, args, strict=False))
        return MXNetError(f"kernel {self.__name__} ({code.co_filename}, line "
                          f"{code.co_firstlineno}) takes {len(names)} arguments and cannot be "
                          f"compiled for {len(args)}: {given}. {error}")


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
            _switches().switch_pool.compile()(before, _thread.mode[1])
            _pool = _thread.mode
        compiled(*args)


def _forget_pool() -> None:
    """The pool has new threads now: after a fork, or a change of their number."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


class denormals:
    """A block in which this thread, and the pool when this thread uses it, keeps denormal numbers
    or flushes them to 0, as operands and as results (FTZ, DAZ), in kernels and in NumPy.

    The threads of NumPy's BLAS are not affected.
    """

    __slots__ = ("_bits", "_before", "_mode")

    def __init__(self, keep: bool):
        self._bits = 0 if keep else _switches().FLUSH
        self._before = np.empty(1, np.int64)

    def __enter__(self) -> None:
        _switches().switch_here(self._before, self._bits)
        self._mode, _thread.mode = _thread.mode, (_thread.identity, self._bits)

    def __exit__(self, *_: Any) -> None:
        _thread.mode, bits = self._mode, self._before[0]
        _switches().switch_here(self._before, bits)


@cache
def _switches() -> Any:
    """The module of the kernels that set the bits; it imports this one."""
    from .simd import denormals

    for kind in "efd":
        np.finfo(kind)  # NumPy computes the smallest numbers now, before they are flushed
    return denormals


def kernel(function: Callable | None = None, *, parallel: bool = False, fastmath: bool = False
           ) -> Any:
    """Decorator of kernels: `@kernel` or `@kernel(parallel=True, fastmath=True)`."""
    if function is None:
        return lambda f: Kernel(f, parallel, fastmath)
    return Kernel(function, parallel, fastmath)


def inlined(function: Callable | None = None, *, fastmath: bool = False, always: bool = False
            ) -> Any:
    """Decorator of helpers that kernels in the same file call.

    always: even where LLVM finds them too large; a call also counts references to its arrays.
    """
    if function is None:
        return lambda f: Inlined(f, fastmath, always)
    return Inlined(function, fastmath, always)


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
def _show_progress() -> None:
    """At a terminal, or with NBMOD_DEBUG=1, report long compilations."""
    from numba.core import event

    if CONFIG.debug or (sys.stderr is not None and sys.stderr.isatty()):
        event.Listener.register(Progress)
        event.register("numba:compile", Progress())


def num_threads() -> int:
    """Number of threads of parallel kernels; by default, one for every core of this process."""
    import numba

    _configure_libgomp()
    return _threads or numba.get_num_threads()


def set_num_threads(count: int) -> None:
    """Use `count` threads in parallel kernels from now on, in all Python threads.

    `count` is at most the number of cores, or NUMBA_NUM_THREADS if that is set; more raises
    ArgumentError.  Results are bitwise the same with any number.  NumPy's BLAS has threads of its
    own, which OPENBLAS_NUM_THREADS and the like control.
    """
    global _threads
    import numba

    most, count = numba.config.NUMBA_NUM_THREADS, index(count)
    if not 1 <= count <= most:
        raise ArgumentError(f"set_num_threads: count is {count}, expected 1 to {most}; for more, "
                            "set NUMBA_NUM_THREADS before the first kernel runs")
    with _gate:
        _threads = count
        _set_numba_threads()
        _forget_pool()


def _set_numba_threads() -> None:
    """Set numba's number of threads for this Python thread."""
    import numba

    _configure_libgomp()
    numba.set_num_threads(_threads)
    _thread.threads = _threads
