"""numba policy, all of it: the only file of the package that says `numba.njit`.

    @inlined                      a helper that kernels of the same file call
    @kernel                       a serial kernel, called from Python
    @kernel(parallel=True)        the same with `prange` over its outermost independent axis

Decorating costs nothing: numba is imported and the function compiled at the first call, so
`import nbmod` compiles nothing.  Compiled code is kept on disk under a folder named after the
package version, the sources of the kernels and the host CPU, so an edit in a helper file or another
machine sharing the home directory never meets stale code.

Kernels release the GIL.  numba's `workqueue` layer aborts the process when two threads are inside
parallel kernels, so every parallel kernel is entered through one lock (`_gate`); a kernel uses all
cores anyway, so nothing is lost.  Threads that wait must sleep: libgomp's spin by default, and then
every change between a parallel kernel and a threaded BLAS call costs some 8 ms, the two libraries
being in each other's way.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pathlib
import platform
import threading
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..base import CONFIG

__all__ = ["kernel", "inlined", "prange", "Kernel", "cache_folder", "num_threads",
           "set_num_threads"]

FASTMATH = {"contract", "nsz", "arcp", "afn", "reassoc"}
"""Relaxations kernels may opt into: no assumption that NaN or infinity cannot occur."""

prange = range
"""Placeholder until numba is imported; `_numba` puts numba's own into the kernels' modules."""

_gate = threading.RLock()
_compiling = threading.RLock()


@cache
def cache_folder() -> pathlib.Path:
    """Where compiled code and generated kernels of this version, on this CPU, are kept."""
    import numba

    from .. import __version__

    sources = hashlib.sha256()
    package = pathlib.Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        stat = path.stat()
        sources.update(f"{path.relative_to(package)} {stat.st_size} {stat.st_mtime_ns}".encode())
    host = hashlib.sha256(f"{platform.machine()} {platform.processor()}".encode()).hexdigest()[:8]
    tag = f"{__version__}-numba{numba.__version__}-{host}-{sources.hexdigest()[:12]}"
    return CONFIG.cache_dir / tag


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

    def __init__(self, function: Callable, fastmath: bool = False):
        self.function = function
        self.fastmath = FASTMATH if fastmath else False
        self._compiled: Any = None

    def compile(self) -> Any:
        import numba

        if self._compiled is None:
            self._compiled = numba.njit(self.function, fastmath=self.fastmath, nogil=True,
                                        error_model="numpy", inline="never")
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
        """The numba dispatcher, created on demand (specialised per argument types by numba)."""
        with _compiling:
            if self._compiled is None:
                import numba

                _let_threads_sleep()
                _hush_the_compiler()
                _link(self.function.__globals__)
                with _private_cache():
                    self._compiled = numba.njit(
                        self.function, parallel=self.parallel, fastmath=self.fastmath,
                        nogil=True, error_model="numpy", cache=CONFIG.cache)
        return self._compiled

    def __call__(self, *args: Any) -> None:
        compiled = self._compiled or self.compile()
        if self.parallel:
            with _gate:
                compiled(*args)
        else:
            compiled(*args)


def kernel(function: Callable | None = None, *, parallel: bool = False, fastmath: bool = False
           ) -> Any:
    """Decorator of kernels: `@kernel` or `@kernel(parallel=True, fastmath=True)`."""
    if function is None:
        return lambda f: Kernel(f, parallel, fastmath)
    return Kernel(function, parallel, fastmath)


def inlined(function: Callable | None = None, *, fastmath: bool = False) -> Any:
    """Decorator of helpers that kernels in the same file call."""
    if function is None:
        return lambda f: Inlined(f, fastmath)
    return Inlined(function, fastmath)


def _let_threads_sleep() -> None:
    """Before libgomp, which numba loads with its first parallel kernel, reads its environment."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _hush_the_compiler() -> None:
    """Scripts that log at DEBUG want their own words, not a page per bytecode instruction."""
    logger = logging.getLogger("numba")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)


def num_threads() -> int:
    """How many threads a parallel kernel runs on: the number of workers worth planning for."""
    import numba

    _let_threads_sleep()
    return numba.get_num_threads()


def set_num_threads(count: int) -> None:
    """Use `count` threads in parallel kernels from now on."""
    import numba

    _let_threads_sleep()
    numba.set_num_threads(count)
