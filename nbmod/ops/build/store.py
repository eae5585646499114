"""The compile cache: machine code of kernels in files named after their content.

The file of a kernel is named after a digest of all that its machine code depends on: the
`fingerprint` of its sources, the types of its arguments, the versions of Python, NumPy, numba and
llvmlite, the settings of the compiler, and the instruction sets of the host.  An edit recompiles
the kernels that it changes; a reinstalled package, a container built from it, or another machine
with the same instruction sets recompiles none.  Nothing is ever out of date, so that there is no
index and nothing to lock but what is being compiled: a file is complete, or it is absent.

Compiled code is code.  A file is loaded only if neither it nor its folder could have been written
by another user, and if its digest is right; else its kernel is compiled again.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import copy
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ...base import warn_user
from ...core.config import CONFIG
from ...core.interrupts import deferred
from ...core.locks import locked
from ...core.scope import scoped
from . import shipped
from .fingerprint import fingerprint
from .levels import LEVELS, instruction_sets
from .trust import is_private, is_private_folder

if TYPE_CHECKING:
    from numba.core.codegen import CPUCodegen
    from numba.core.compiler import CompileResult
    from numba.core.cpu import CPUContext
    from numba.core.types import Type

__all__ = ["KernelStore", "cache_folder", "call_after_loading_shipped",
           "call_before_compiling", "claimed", "compiler_of", "is_enabled",
           "keep_compiled", "keeps_code", "kept_bytes", "kept_files", "loaded_kernels",
           "loads_code", "packed", "read_kernel", "unpacked", "write_kernel"]

MAGIC = b"nbmod compiled kernel, format 4\n"
SUFFIX = ".kernel"
LOCK_TIMEOUT = 120
"""Seconds to wait for another process that compiles the same."""
DAY = 24 * 3600
MAX_AGE = 180 * DAY
"""Seconds after which a file that no process has used is deleted."""
COMPILER_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT",
                     "CPU_NAME", "LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS")
"""Environment variables of numba on which machine code depends."""


class LoadedKernel(NamedTuple):
    """A kernel that was loaded."""

    compiling: float
    """Processor seconds of its compilation, with those of what it calls; 0 if they are unknown."""
    loading: float
    """Seconds."""
    is_new: bool
    """It was compiled before that, and is loaded to know how long that takes."""


_loaded: ContextVar[list[LoadedKernel] | None] = ContextVar("loaded", default=None)
_before_compiling: Callable[[], None] | None = None
_after_loading_shipped: Callable[[], None] | None = None


@contextmanager
def loaded_kernels() -> Iterator[list[LoadedKernel]]:
    """A block whose kernels are listed: those on disk, and new ones that are kept there."""
    loaded: list[LoadedKernel] = []
    with scoped(_loaded, loaded):
        yield loaded


def call_before_compiling(function: Callable[[], None]) -> None:
    """Call `function` whenever a kernel that is not on disk is about to be compiled."""
    global _before_compiling
    _before_compiling = function


def call_after_loading_shipped(function: Callable[[], None] | None) -> None:
    """Call `function` whenever an installed kernel has been loaded."""
    global _after_loading_shipped
    _after_loading_shipped = function


# -- the folder -----------------------------------------------------------------------------------


@cache
def cache_folder() -> pathlib.Path:
    """The folder of compiled kernels; made if it is absent."""
    folder = CONFIG.cache_dir / "kernels"
    if CONFIG.cache:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            _warn(folder, error.strerror or str(error))
    return folder


def is_enabled() -> bool:
    """Whether compiled code is loaded from the user's folder: it is private to the user."""
    return CONFIG.cache and is_private_folder(cache_folder())


def loads_code() -> bool:
    """Whether compiled code is loaded from disk, from the user's folder or an installed one."""
    return CONFIG.cache and (is_enabled() or _shipped_folder() is not None)


def _shipped_folder() -> pathlib.Path | None:
    """The installed kernels for this host; None if there are none, or others may write there."""
    folder = shipped.folders().get(shipped.level())
    return folder if folder is not None and is_private_folder(folder, installed=True) else None


def keeps_code() -> bool:
    """Whether compiled code is kept on disk: the folder can be written, too."""
    return is_enabled() and os.access(cache_folder(), os.W_OK)


def kept_files() -> int:
    """How many compiled functions the folder holds; each is in a file of its own."""
    return sum(1 for _ in cache_folder().glob(f"*{SUFFIX}"))


def kept_bytes() -> int:
    """The size of these files."""
    return sum(path.stat().st_size for path in cache_folder().glob(f"*{SUFFIX}"))


@cache
def _warn(folder: pathlib.Path, reason: str) -> None:
    warn_user(f"compiled kernels cannot be kept in {folder} ({reason}), so the next process "
              "compiles again; set NBMOD_CACHE_DIR to a folder that can be written")


# -- files ----------------------------------------------------------------------------------------


def packed(content: bytes) -> bytes:
    """The bytes of a file: format, digest, content."""
    return MAGIC + hashlib.sha256(content).digest() + content


def unpacked(data: bytes) -> bytes | None:
    """The content of a file, None if it is damaged."""
    content = data[len(MAGIC) + hashlib.sha256().digest_size:]
    return content if packed(content) == data else None


def read_kernel(path: pathlib.Path, installed: bool = False) -> bytes | None:
    """The content of a file; None if it is absent, damaged, or not this user's (see `trust`)."""
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
                          | getattr(os, "O_BINARY", 0)), "rb") as file:
            status, content = os.fstat(file.fileno()), unpacked(file.read())
    except OSError:
        return None
    if content is None:
        return None
    if not is_private(status, installed):
        warn_user(f"{path} is not loaded but compiled again, because another user may have "
                  "written it")
        return None
    if time.time() - status.st_mtime > DAY and not installed:
        with suppress(OSError):
            os.utime(path)  # as used today: the least recently used files are deleted first
    return content


def write_kernel(path: pathlib.Path, content: bytes) -> None:
    """Store a file that is complete or absent; a folder that cannot be written is a warning."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                          | getattr(os, "O_BINARY", 0), 0o600), "wb") as file:
            file.write(packed(content))
        os.replace(draft, path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        _warn(path.parent, error.strerror or str(error))
    _delete_old(path.parent)


@cache
def _delete_old(folder: pathlib.Path) -> None:
    """Once in a process: delete the least recently used files beyond NBMOD_CACHE_SIZE, those that
    have not been used for MAX_AGE, and what processes that were killed have left."""
    now, total, files = time.time(), 0, []
    for path in [*folder.glob("*"), *(folder / "claims").glob("*")]:
        with suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                files.append((status.st_mtime, status.st_size, path))
    for used, size, path in sorted(files, reverse=True):
        total += size
        limit = MAX_AGE if path.suffix == SUFFIX else DAY
        if total > CONFIG.cache_size or now - used > limit:
            with suppress(OSError):
                path.unlink()


# -- keys -----------------------------------------------------------------------------------------


def _type_text(kind: Type) -> str:
    """The name of a type of numba; of a named tuple, with its fields, by which code reads it."""
    inner = list(getattr(kind, "types", ()))
    fields = getattr(kind, "fields", ()) if inner else ()
    return f"{kind} {fields} {[_type_text(each) for each in inner]}"


@cache
@deferred()
def compiler_of(codegen: CPUCodegen | None = None, level: str = "") -> dict[str, str]:
    """Versions and settings of the compiler, and the instruction sets that it may use; not the name
    of the CPU, which only changes the order of instructions.

    codegen: numba's code generator; by default, that of the CPU.
    level: a CPU level; the answer is that of a process with NBMOD_CPU_LEVEL.
    """
    import llvmlite
    import numba
    from numba.core.registry import cpu_target

    triple, _, features = (codegen or cpu_target.target_context.codegen()).magic_tuple()
    settings = {name: getattr(numba.config, name, None) for name in COMPILER_SETTINGS}
    if level:
        features, settings["CPU_NAME"] = instruction_sets(level), LEVELS[level].cpu
    used = sorted(each for each in features.split(",") if each.startswith("+"))
    return {"Python": sys.implementation.cache_tag or "",
            "NumPy": ".".join(np.__version__.split(".")[:2]), "numba": numba.__version__,
            "llvmlite": llvmlite.__version__, "machine": triple.rstrip("0123456789."),
            "instruction sets": " ".join(used), "NBMOD_SIMD_LANES": str(CONFIG.simd_lanes),
            "settings": " ".join(f"{name}={value}" for name, value in settings.items())}


class CompiledKernel(Protocol):
    """A kernel's dispatcher (`numba.core.dispatcher.Dispatcher`)."""

    _cache: KernelStore
    py_func: FunctionType
    targetctx: CPUContext
    compile: Callable[[Sequence[Type]], Callable]


def claimed(compiled: CompiledKernel, types: Sequence[Type], timeout: float
            ) -> AbstractContextManager[bool]:
    """A block that holds the lock of a process that compiles a kernel for these types."""
    store = compiled._cache
    if not is_enabled():
        return nullcontext(True)
    with suppress(OSError):     # it may have been deleted since this process began
        cache_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return locked(cache_folder() / "claims" / store.path(types, compiled.targetctx).stem, timeout)


class KernelStore:
    """The compile cache of one kernel, in place of numba's."""

    def __init__(self, compiled: CompiledKernel, options: str):
        self._compiled, self._options = compiled, options
        self._function = compiled.py_func
        self._sources = ""
        self._claims, self._began = ExitStack(), 0.0

    @property
    def cache_path(self) -> str:
        """The folder; numba shows it among a function's statistics."""
        return str(cache_folder())

    def path(self, types: Sequence[Type], target: CPUContext) -> pathlib.Path:
        """The file of the kernel for these types in the user's folder."""
        return cache_folder() / self._name(types, compiler_of(target.codegen()))

    def file(self, types: Sequence[Type], target: CPUContext) -> pathlib.Path:
        """Where the kernel for these types is installed, or else will be kept."""
        installed = self._installed(types, target)
        return installed if installed and installed.exists() else self.path(types, target)

    def _installed(self, types: Sequence[Type], target: CPUContext) -> pathlib.Path | None:
        """The file among installed kernels, if there are any."""
        folder = _shipped_folder()
        if folder is None:
            return None
        return folder / self._name(types, compiler_of(target.codegen(), shipped.level()))

    def _name(self, types: Sequence[Type], compiler: dict[str, str]) -> str:
        self._sources = self._sources or fingerprint(self._function)
        text = [MAGIC.decode(), self._sources, self._options, *map(_type_text, types),
                *compiler.values()]
        key = hashlib.sha256("\n".join(text).encode()).hexdigest()
        return f"{self._function.__name__}-{key[:40]}{SUFFIX}"

    def load_overload(self, types: Sequence[Type], target: CPUContext) -> CompileResult | None:
        """The compiled function, or None; this process is the only one to compile it then."""
        target.refresh()
        kernel = self._loaded(types, target, False)
        if kernel is None:
            if _before_compiling is not None:
                _before_compiling()
            self._claims.enter_context(claimed(self._compiled, types, LOCK_TIMEOUT))
            kernel = self._loaded(types, target, False)
            self._began = time.process_time()
        return kernel

    def _loaded(self, types: Sequence[Type], target: CPUContext, is_new: bool
                ) -> CompileResult | None:
        """The kernel on disk, which is listed."""
        began, loaded = time.perf_counter(), _loaded.get()
        kernel = self._load(types, target)
        if kernel is not None and loaded is not None:
            loaded.append(LoadedKernel(float(kernel.type_annotation or 0),
                                       time.perf_counter() - began, is_new))
        return kernel

    def _load(self, types: Sequence[Type], target: CPUContext) -> CompileResult | None:
        """The kernel that the user has compiled for this very host, or else the installed one."""
        kernel = None
        if is_enabled():
            kernel = _rebuilt(read_kernel(self.path(types, target)), target)
        if kernel is None and (installed := self._installed(types, target)) is not None:
            kernel = _rebuilt(read_kernel(installed, installed=True), target)
            if kernel is not None and _after_loading_shipped is not None:
                _after_loading_shipped()
        return kernel

    def save_overload(self, types: Sequence[Type], result: CompileResult) -> None:
        """Store a compiled function, unless it has addresses of this process in it."""
        from numba.core.serialize import dumps

        if is_enabled() and not (result.library.has_dynamic_globals
                                 or any(not each.can_cache for each in result.lifted)):
            parts = list(result._reduce())
            parts[0] = _unlinkable(parts[0], result.fndesc.llvm_cpython_wrapper_name)
            # A function of `exec` or doctest brings all its globals, which nothing reads, either.
            parts[1] = copy(result.fndesc)
            parts[1].global_dict = None
            # Instead of the annotated source, which nothing reads, the time of the compilation.
            parts[6] = f"{time.process_time() - self._began:.4f}"
            write_kernel(self.path(types, result.target_context), dumps(tuple(parts)))
            if _loaded.get() is not None:
                self._loaded(types, result.target_context, True)

    def release(self) -> None:
        """Let other processes compile."""
        self._claims.close()


def _unlinkable(library: tuple, entry: str) -> tuple:
    """A serialized code library without the bitcode, which serves to link the code into other
    functions and is two thirds of a file; numba reads from it only that `entry` exists."""
    from llvmlite.binding import parse_assembly

    name, kind, (code, _) = library
    return name, kind, (code, parse_assembly(f'@"{entry}" = global i8 0').as_bitcode())


def _rebuilt(content: bytes | None, target: CPUContext) -> CompileResult | None:
    """The compiled function in a file; None if there is none that can be used."""
    import pickle

    from numba.core.compiler import CompileResult

    if content is None:
        return None
    try:
        return CompileResult._rebuild(target, *pickle.loads(content))
    except Exception:  # such as a class that has been renamed: as if the file were absent
        return None


def keep_compiled(compiled: CompiledKernel, options: str) -> None:
    """Give a numba function the compile cache, and let one process at a time compile it."""
    compiled._cache, compile = KernelStore(compiled, options), compiled.compile

    def compile_and_release(types: Sequence[Type]) -> Callable:
        try:
            return compile(types)
        finally:
            compiled._cache.release()

    compiled.compile = compile_and_release
