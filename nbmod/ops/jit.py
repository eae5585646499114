"""numba policy, all of it: the only file of the package that says `numba.njit`.

    @inlined                      a helper that kernels of the same file call
    @kernel                       a serial kernel, called from Python
    @kernel(parallel=True)        the same with `prange` over its outermost independent axis

Decorating costs nothing: numba is imported and the function compiled at the first call, so
`import nbmod` compiles nothing.  Compiled code is kept on disk under a folder named after the
package version, the sources of the kernels, the host CPU and the width of vectors, so an edit in a
helper file or another machine sharing the home directory never meets stale code.  Processes that
need the same kernel at the same time compile it once: the others wait and load it.

Kernels release the GIL.  numba's `workqueue` layer aborts the process when two threads are inside
parallel kernels, so every parallel kernel is entered through one lock (`_gate`); a kernel uses all
cores anyway, so nothing is lost.  Threads that wait for the next kernel spin for about 0.1 ms and
then sleep.  To wake one takes 30 us; but where they spin for long, as libgomp's do by default,
every change between a parallel kernel and a threaded BLAS call costs some 8 ms, the two libraries
being in each other's way.

Denormal numbers are 0 in kernels, unless exactness is asked for (see `denormals`).
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
           "compile_ahead", "denormals", "keeps_code", "kept_files", "num_threads", "rehearsal",
           "set_num_threads"]

FASTMATH = {"contract", "nsz", "arcp", "afn", "reassoc"}
"""Relaxations kernels may opt into: no assumption that NaN or infinity cannot occur."""

PATIENCE = 120
"""Seconds to wait for another process that compiles the same."""
SPINS = 10_000
"""Times that a thread of libgomp looks for work before it sleeps: 10 ns each, or up to 45.  Between
two steps of a network pass 2 to 50 us.  To enter a kernel then takes 3 us, not 33."""

prange = range
"""Placeholder until numba is imported; `_numba` puts numba's own into the kernels' modules."""

class _Thread(threading.local):
    """What a Python thread wants of the pool while it runs kernels: (itself, denormals' bits)."""

    def __init__(self) -> None:
        self.identity = object()
        self.mode: tuple | None = None
        self.threads: int | None = None


_gate = threading.RLock()
_thread = _Thread()
_threads: int | None = None
"""What `set_num_threads` was told; numba itself keeps a number for every Python thread."""
_pool: tuple | None = None
"""The mode that the pool is in.  libgomp keeps one pool for every thread that has ever used it."""
_compiling = threading.RLock()
_before_compiling: Callable[[], None] | None = None
_rehearsed: dict[tuple[Kernel, tuple], None] | None = None
"""In a rehearsal: kernels with types of their arguments, in the order of their first calls."""


@cache
def cache_folder() -> pathlib.Path:
    """Where compiled code and generated kernels of this version, on this CPU, are kept.

    Kernels of GPUs, whose binaries have keys of their own, do not count.
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
    """`folder`, or one that ends with this process and begins with what is there.

    Where there is no such place either, code is kept in memory only.
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
        cache_folder()  # may find that there is no place for it
    return CONFIG.cache


def kept_files() -> int:
    """How many compiled functions the cache folder holds; each is in a file of its own."""
    return sum(1 for _ in cache_folder().rglob("*.nbc"))


@contextmanager
def _private_cache():
    """Point numba at our folder while a kernel is decorated; users' functions keep theirs."""
    import numba

    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _keep(compiled: Any) -> None:
    """Let one process at a time compile a kernel for given types, and one at a time write.

    numba finds a free name for compiled code and then writes it.
    """
    kept, compile = compiled._cache, compiled.compile
    load, save, claims = kept.load_overload, kept.save_overload, ExitStack()

    def load_or_claim(types: Any, target: Any) -> Any:
        found = load(types, target)
        if found is None:
            if _before_compiling is not None:
                _before_compiling()
            claims.enter_context(locked(_claim(compiled, types), patience=PATIENCE))
            found = load(types, target)
        return found

    def save_alone(*args: Any) -> None:
        with locked(cache_folder() / "lock", patience=PATIENCE):
            save(*args)

    def compile_and_let_go(types: Any) -> Any:
        with _compiling, claims:
            return compile(types)

    kept.load_overload, kept.save_overload = load_or_claim, save_alone
    compiled.compile = compile_and_let_go


def _claim(compiled: Any, types: Sequence[Any]) -> pathlib.Path:
    """The file that who compiles a kernel for these types has locked."""
    function = compiled.py_func
    text = f"{function.__module__} {function.__qualname__} {types}"
    return cache_folder() / "claims" / hashlib.sha256(text.encode()).hexdigest()[:16]


def call_before_compiling(function: Callable[[], None]) -> None:
    """Call `function` whenever a kernel that is not on disk is about to be compiled."""
    global _before_compiling
    _before_compiling = function


@contextmanager
def rehearsal() -> Iterator[dict[tuple[Kernel, tuple], None]]:
    """A block in which kernels of the whole process do not run, but are written down: what they
    would be compiled for.  For processes that do nothing else."""
    global _rehearsed
    _rehearsed = {}
    try:
        yield _rehearsed
    finally:
        _rehearsed = None


def compile_ahead(kernel: Kernel, types: tuple) -> None:
    """Compile for types found in a rehearsal, unless another process is at it."""
    compiled = kernel.compile()
    with locked(_claim(compiled, types), patience=0) as free:
        pass
    if free:
        compiled.compile(types)


def _link(namespace: dict[str, Any]) -> None:
    """Replace the placeholders of a kernels' module by what numba can see through."""
    import numba

    for name, value in list(namespace.items()):
        if isinstance(value, Inlined):
            namespace[name] = value.compile()
        elif value is range and name == "prange":
            namespace[name] = numba.prange


class Inlined:
    """A function kernels call; becomes a numba function when the first of them is compiled."""

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
                _let_threads_sleep()
                _hush_the_compiler()
                _show_progress()
                _link(self.function.__globals__)
                # numba keeps compiled code for the file it came from: not for typed-in lines.
                in_file = os.path.isfile(self.function.__code__.co_filename)
                with _private_cache():
                    self._compiled = numba.njit(
                        self.function, parallel=self.parallel, fastmath=self.fastmath,
                        nogil=True, error_model="numpy", cache=keeps_code() and in_file,
                        pipeline_class=compiler())
                if self._compiled._cache.cache_path:
                    _keep(self._compiled)
        return self._compiled

    def __call__(self, *args: Any) -> None:
        compiled = self._compiled or self.compile()
        if _rehearsed is not None:
            _rehearsed[self, tuple(map(compiled.typeof_pyval, args))] = None
            return
        try:
            if self.parallel:
                _enter(compiled, args)
            else:
                compiled(*args)
        except Exception as error:
            raise self._explained(error, args) from error

    def _explained(self, error: Exception, args: Sequence[Any]) -> Exception:
        """`error`, or what it means if it is numba's about types."""
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
            _set_here()
        if _pool != _thread.mode:
            assert _thread.mode is not None
            before = np.empty(num_threads(), np.int64)
            _switches().switch_pool.compile()(before, _thread.mode[1])
            _pool = _thread.mode
        compiled(*args)


def _forget_pool() -> None:
    """Its threads are others now: those of a forked process, or more."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


class denormals:
    """A block in which this thread, and the pool when this thread enters it, keeps denormals or
    takes them for 0, as operands and as results, in kernels and in NumPy alike.

    Threads that NumPy's BLAS has of its own are out of reach.
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
    """The kernels that set the bits; they are made of what stands here."""
    from .simd import denormals

    for kind in "efd":
        np.finfo(kind)  # found out while NumPy still sees the smallest numbers
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


def _let_threads_sleep() -> None:
    """Before libgomp, which numba loads with its first parallel kernel, reads its environment; what
    users say there stands."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def _hush_the_compiler() -> None:
    """Scripts that log at DEBUG want their own words, not a page per bytecode instruction."""
    logger = logging.getLogger("numba")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)


@cache
def _show_progress() -> None:
    """At a terminal, or with NBMOD_DEBUG=1, say when compilation takes long."""
    from numba.core import event

    if CONFIG.debug or (sys.stderr is not None and sys.stderr.isatty()):
        event.Listener.register(Progress)
        event.register("numba:compile", Progress())


def num_threads() -> int:
    """How many threads a parallel kernel runs on; at first one for every core this process has."""
    import numba

    _let_threads_sleep()
    return _threads or numba.get_num_threads()


def set_num_threads(count: int) -> None:
    """Use `count` threads in parallel kernels from now on, whichever Python thread calls them.

    1 to the number of cores, or NUMBA_NUM_THREADS if the environment says so: more than that raises
    ArgumentError.  Results are the same bits with any number.  NumPy's BLAS has threads of its own,
    which OPENBLAS_NUM_THREADS and the like govern.
    """
    global _threads
    import numba

    most, count = numba.config.NUMBA_NUM_THREADS, index(count)
    if not 1 <= count <= most:
        raise ArgumentError(f"set_num_threads: count is {count}, expected 1 to {most}; for more, "
                            "set NUMBA_NUM_THREADS before the first kernel runs")
    with _gate:
        _threads = count
        _set_here()
        _forget_pool()


def _set_here() -> None:
    """Tell numba in this Python thread."""
    import numba

    _let_threads_sleep()
    numba.set_num_threads(_threads)
    _thread.threads = _threads
