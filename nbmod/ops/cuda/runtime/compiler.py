"""Compiler of kernels, from Python functions to cubins; needs no GPU.

numba-cuda, or its successor numba-cuda-mlir, compiles the kernel and the functions that it calls
to LTO IR, which NVIDIA's linker compiles to a cubin for one compute capability.  The linker's log
tells registers, shared memory and spills.  `compiler()` is the module of the chosen one: this file
alone knows that there are two.
The pipeline is the same with a GPU, so the tests compile on any machine what a GPU would run.
Cubins are cached on disk, by a digest of the code of the kernel, of the functions that it calls
and of the constants that they close over.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import sys
import threading
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from numbers import Number
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....base import MXNetError
from ....core.config import CONFIG
from ....core.interrupts import deferred, from_handler
from .device_memory import Argument, Array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Cubin", "choice", "compile_kernel", "compiler", "compiler_name", "fingerprint",
           "kinds_of", "linked"]

_compiling = threading.Lock()
PACKAGES = {
    "mlir": ("numba-cuda-mlir", "nvidia-nvvm", "nvidia-nvjitlink"),
    "numba-cuda": ("numba-cuda", "numba", "llvmlite", "nvidia-nvvm", "nvidia-nvjitlink")}
"""Distributions whose versions matter, by NBMOD_CUDA_COMPILER; the compiler is the first."""
INSTALL_HINT = (
    "NVIDIA's compilers come with pip install 'nbmod[cuda]' (CUDA 13, for cards from 7.5 on; "
    "-U gets the newest) or 'nbmod[cu12]' (from 5.0); mx.cpu() needs none")


class Cubin(NamedTuple):
    """A kernel compiled for one compute capability, and its resources."""

    name: str
    registers: int
    """32-bit registers per thread."""
    spilled: int
    """Bytes per thread of registers spilled to memory."""
    stack: int
    """Bytes per thread of local arrays that are not in registers."""
    shared: int
    """Bytes of shared memory per block."""
    cubin: bytes


@cache
def compiler() -> Any:
    """The module that compiles; raises ImportError where its package is not installed.

    It has `cuda`, `libdevice` and `types`, as kernels use them; `device_function`, a decorator;
    `FUNCTIONS`, those of `ptx` by name; `lto_code(function, kinds, capability, bounds)`; and
    `SOURCES`, the files of this folder that decide what it makes of the same kernel.
    """
    return import_module(f".compiler_{choice().replace('-', '_')}", __package__)


def choice() -> str:
    """NBMOD_CUDA_COMPILER, or numba-cuda unless only its successor is installed.

    The successor's 0.6 makes wrong code of what `lowering_mlir` corrects, and kernels of users may
    have more of it; on compute capability 10.0 its code of pooling is longer."""
    alone = find_spec("numba_cuda_mlir") and not find_spec("numba_cuda")
    return CONFIG.cuda_compiler or ("mlir" if alone else "numba-cuda")


def kinds_of(args: tuple[Argument, ...]) -> tuple[str, ...]:
    """The types of a launch's arguments: "*float32" for an array, "int32" for a scalar."""
    return tuple(_kind(arg) for arg in args)


def _kind(arg: Argument) -> str:
    if isinstance(arg, Array):
        return f"*{arg.dtype}"
    if isinstance(arg, np.generic):
        return arg.dtype.name
    return {bool: "bool", int: "int32", float: "float64"}[type(arg)]


def compile_kernel(function: Callable, kinds: tuple[str, ...], capability: tuple[int, int],
                   bounds: tuple[int, int], exact: bool = False) -> Cubin:
    """The binary of a kernel for arguments of these types.

    `bounds` are its launch bounds: threads of a block, and blocks that must fit on a
    multiprocessor; an `exact` kernel has no fused multiply-adds.
    """
    options = ("-fma=0",) if exact else ()
    key = hashlib.sha256(repr((fingerprint(function), kinds, capability, bounds, *options,
                               _versions())).encode()).hexdigest()[:32]
    path = CONFIG.cache_dir / "cubins" / f"{function.__name__}_{key}"
    cubin = _read(path)
    if cubin is None:
        try:
            with _compiling, deferred():
                cubin = _link(_lto_code(function, kinds, capability, bounds), capability, options)
        except Exception as error:
            if from_handler(error):
                raise
            raise MXNetError(
                f"GPU kernel {function.__name__} was not compiled for compute capability "
                f"{capability[0]}.{capability[1]}: {type(error).__name__}: {error}; {INSTALL_HINT}"
            ) from error
        _write(path, cubin)
    return cubin


def _lto_code(function: Callable, kinds: tuple[str, ...], capability: tuple[int, int],
              bounds: tuple[int, int]) -> list[bytes]:
    types = compiler().types

    def type_of(kind: str) -> Any:
        if not kind.startswith("*"):
            return types.boolean if kind == "bool" else getattr(types, kind)
        # A boolean cannot be stored through a pointer; in memory it is a byte, 0 or 1.
        return types.CPointer(types.uint8 if kind == "*bool" else getattr(types, kind[1:]))

    return compiler().lto_code(function, tuple(map(type_of, kinds)), capability, bounds)


@contextmanager
def linked(codes: list[bytes], capability: tuple[int, int], more: tuple[str, ...]) -> Iterator[Any]:
    """NVIDIA's linker and its handle, when it has linked LTO code for a compute capability."""
    from cuda.bindings import nvjitlink

    major, minor = capability
    options = [f"-arch=sm_{major}{minor}", "-lto", "-O3", *more]
    handle = nvjitlink.create(len(options), options)
    try:
        for number, data in enumerate(codes):
            nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, data, len(data), f"part{number}")
        try:
            nvjitlink.complete(handle)
        except Exception as error:
            said = bytearray(nvjitlink.get_error_log_size(handle))
            nvjitlink.get_error_log(handle, said)
            raise RuntimeError(f"{error}: {said.decode(errors='replace')}") from error
        yield nvjitlink, handle
    finally:
        nvjitlink.destroy(handle)


def _link(codes: list[bytes], capability: tuple[int, int], more: tuple[str, ...]) -> Cubin:
    with linked(codes, capability, ("-verbose", "-Xptxas=-v", *more)) as (nvjitlink, handle):
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
    return _described(log.decode(errors="replace"), bytes(cubin))


def _described(log: str, cubin: bytes) -> Cubin:
    def number(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, log)))

    names = re.findall(r"Compiling entry function '(\S+)'", log)
    if len(names) != 1:
        raise RuntimeError(f"expected one kernel in the binary, found {names}: {log}")
    return Cubin(names[0], number(r"Used (\d+) registers"), number(r"(\d+) bytes spill"),
                 number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes smem"), cubin)


# -- the cache ----------------------------------------------------------------------------------


def fingerprint(function: Callable, numbers: bool = True) -> str:
    """A digest of a function's code, of all functions it calls, and of the values it closes over.

    numbers: whether functions that differ in the values of numbers have different digests."""
    digest = hashlib.sha256()
    seen: set[int] = set()
    todo: list[Any] = [function]
    while todo:
        value = todo.pop()
        value = getattr(value, "py_func", getattr(value, "_defn", value))
        if isinstance(value, FunctionType):
            if id(value) in seen:
                continue
            seen.add(id(value))
            names = _all_names(value.__code__)
            todo += [cell.cell_contents for cell in value.__closure__ or ()]
            todo += [value.__globals__[name] for name in names if name in value.__globals__]
            value = value.__code__
        if isinstance(value, CodeType):
            digest.update(repr((value.co_code, value.co_names, value.co_varnames)).encode())
            todo += value.co_consts
        elif isinstance(value, (tuple, list)):
            digest.update(f"{type(value).__name__} {len(value)}".encode())
            todo += value
        elif isinstance(value, ModuleType):
            digest.update(value.__name__.encode())
        elif not numbers and type(value) is not bool and isinstance(value, (Number, np.number)):
            digest.update(f"{type(value).__name__};".encode())
        elif isinstance(value, (type, np.generic, int, float, str, bytes, type(None))):
            digest.update(f"{type(value).__name__} {value!r};".encode())
        else:
            digest.update(f"{getattr(value, '__qualname__', type(value))};".encode())
    return digest.hexdigest()


def _all_names(code: CodeType) -> list[str]:
    """The names that a code object and its nested functions look up."""
    inner = [name for const in code.co_consts if isinstance(const, CodeType)
             for name in _all_names(const)]
    return sorted({*code.co_names, *inner})


@cache
def _versions() -> tuple[str, ...]:
    versions = []
    for package in PACKAGES[choice()]:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"no {package}")
    return *versions, *(hashlib.sha256(inspect.getsource(sys.modules[f"{__package__}.{name}"])
                                       .encode()).hexdigest() for name in compiler().SOURCES)


def compiler_name() -> str:
    """The compiler and its version, such as "numba-cuda-mlir 0.6.0", or "the simulator"."""
    if CONFIG.cuda_simulator:
        return "the simulator"
    package = PACKAGES[choice()][0]
    return f"{package} {version(package)}"


def _read(path: Path) -> Cubin | None:
    if not CONFIG.cache:
        return None
    try:
        head, _, cubin = path.read_bytes().partition(b"\n")
        name, registers, spilled, stack, shared = json.loads(head)
        return Cubin(name, registers, spilled, stack, shared, cubin)
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, binary: Cubin) -> None:
    """Cache a binary; a cache that cannot be written is no error."""
    if not CONFIG.cache:
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(json.dumps(binary[:-1]).encode() + b"\n" + binary.cubin)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
