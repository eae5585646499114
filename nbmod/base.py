"""Ground floor: the public error, the configuration, and the element types.

Every environment variable nbmod reads is a field of `Config`, read once, here; the rest of the
package asks `CONFIG`.  Element types are plain `numpy.dtype` objects everywhere; the integer flags
that MXNet's files and graphs use for them are converted at the edge with the two tables below.
"""

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["CONFIG", "ArgumentError", "MXNetError", "NotImplementedForSymbol", "OutOfMemory",
           "did_you_mean", "exact", "is_exact", "is_tuning", "tuning", "warn_user"]


class MXNetError(RuntimeError):
    """Base of every error nbmod raises on purpose (MXNet's own name, so old handlers catch it)."""


class ArgumentError(MXNetError, ValueError):
    """A wrong argument where MXNet raises ValueError: handlers of either catch it."""


class OutOfMemory(MXNetError, MemoryError):
    """There is no memory for what the text names; handlers of either base catch it."""


class NotImplementedForSymbol(MXNetError):
    """An NDArray operation that has no meaning on a Symbol, such as `bool(symbol)`."""

    def __init__(self, function: Any, alias: str | None = None, *args: Any):
        name = getattr(function, "__name__", str(function))
        hint = f"; use {alias} instead" if alias else ""
        super().__init__(f"Function {name} is not implemented for Symbol{hint}")


def _flag(name: str, default: bool) -> bool:
    text = os.environ.get(name)
    return default if text is None else text.strip().lower() not in ("", "0", "false", "no", "off")


def _level(name: str) -> int:
    text = os.environ.get(name, "").strip()
    return int(text) if text.isdigit() else int(_flag(name, False))


def _tiles(name: str) -> int:
    return 2 if os.environ.get(name, "").strip() == "2" else 4 * _flag(name, True)


def _cache_dir() -> pathlib.Path:
    chosen = os.environ.get("NBMOD_CACHE_DIR")
    if chosen:
        return pathlib.Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or pathlib.Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = pathlib.Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "nbmod"


_exact: ContextVar[bool] = ContextVar("exact", default=False)


@contextmanager
def exact() -> Iterator[None]:
    """A block in which networks are bound to compute what their symbols say, number by number.

    Elsewhere a network may do the same in fewer operations, whose results differ in the last
    digits: unrolled recurrent cells become layers and, in inference, batch norm is folded into the
    weights of the layer before it.
    Denormal numbers are kept in the block, and 0 elsewhere.
    NBMOD_EXACT=1 says so for a whole process.
    """
    token = _exact.set(True)
    try:
        yield
    finally:
        _exact.reset(token)


def is_exact() -> bool:
    """Whether what is bound now shall compute exactly what its symbol says."""
    return CONFIG.exact or _exact.get()


_tuning: ContextVar[bool] = ContextVar("tuning", default=False)


@contextmanager
def tuning(wanted: bool = True) -> Iterator[None]:
    """A block in which networks that are bound measure what they would estimate otherwise."""
    token = _tuning.set(wanted or _tuning.get())
    try:
        yield
    finally:
        _tuning.reset(token)


def is_tuning() -> bool:
    """Whether algorithms of what is bound now shall be measured."""
    return CONFIG.tune or _tuning.get()


@dataclass
class Config:
    """Everything the environment decides."""

    cache_dir: pathlib.Path = field(default_factory=_cache_dir)
    """NBMOD_CACHE_DIR: where generated kernels and compiled code are kept."""
    cache: bool = field(default_factory=lambda: _flag("NBMOD_CACHE", True))
    """NBMOD_CACHE=0: compile afresh in every process and write nothing."""
    check: int = field(default_factory=lambda: _level("NBMOD_CHECK"))
    """NBMOD_CHECK=1: verify every memory plan and its arrays at bind; memory of GPUs starts as NaN.
    2: also overwrite memory that holds no value before each step, and verify after it that it wrote
    nothing but its outputs (see `sanitizer`)."""
    disabled_passes: frozenset[str] = field(default_factory=lambda: frozenset(
        os.environ.get("NBMOD_DISABLE_PASSES", "").replace(",", " ").split()))
    """NBMOD_DISABLE_PASSES=cse,inplace,...: bind without these passes (see `passes.switches`)."""
    gpu_to_cpu: bool = field(default_factory=lambda: _flag("NBMOD_GPU_TO_CPU", False))
    """NBMOD_GPU_TO_CPU=1: `gpu(i)` means `cpu(i)` where there is no GPU, with one warning."""
    virtual_gpus: int = field(
        default_factory=lambda: int(os.environ.get("NBMOD_VIRTUAL_GPUS", "0") or 0))
    """NBMOD_VIRTUAL_GPUS: how many gpu(i) share the CUDA devices there are; 0: one each, and 4 in
    numba's CUDA simulator."""
    gpu_products: str = field(default_factory=lambda: os.environ.get("NBMOD_GPU_PRODUCTS", ""))
    """NBMOD_GPU_PRODUCTS=tf32 or bf16: products and convolutions of float32 tensors on GPUs go to
    tensor cores, which round their factors so."""
    tensor_cores: bool = field(
        default_factory=lambda: _flag("MXNET_CUDA_ALLOW_TENSOR_CORE", True))
    """MXNET_CUDA_ALLOW_TENSOR_CORE=0: those of float16 tensors do not."""
    cuda_graphs: bool = field(default_factory=lambda: _flag("NBMOD_CUDA_GRAPHS", False))
    """NBMOD_CUDA_GRAPHS=1: a GPU starts all kernels of forward, and of backward, by one call."""
    cuda_simulator: bool = field(default_factory=lambda: _flag("NUMBA_ENABLE_CUDASIM", False))
    """NUMBA_ENABLE_CUDASIM=1: every gpu(i) is simulated, to test kernels without one (numba's own
    name for it, so that its simulator and ours go together)."""
    exact: bool = field(default_factory=lambda: _flag("NBMOD_EXACT", False))
    """NBMOD_EXACT=1: inference computes what the symbol says, to the last digit (see `exact`)."""
    simd_lanes: int = field(
        default_factory=lambda: int(os.environ.get("NBMOD_SIMD_LANES", "0") or 0))
    """NBMOD_SIMD_LANES=16, 8, 4: write vector kernels for so many float32 numbers in a register;
    1: none at all; 0: for what the host has."""
    winograd: int = field(default_factory=lambda: _tiles("NBMOD_WINOGRAD"))
    """NBMOD_WINOGRAD=0: all convolutions are computed directly (see `ops.blocked.winograd`); 2: by
    tiles of 2 x 2 pixels at most, which keep more digits; else also 4 x 4."""
    tune: bool = field(default_factory=lambda: _flag("NBMOD_TUNE", False))
    """NBMOD_TUNE=1: every bind measures the algorithms of its convolutions that have not been, as
    with `tune=True`, and keeps the times in the cache folder."""
    compilers: int = field(
        default_factory=lambda: int(os.environ.get("NBMOD_COMPILERS", "64") or 64))
    """NBMOD_COMPILERS: how many processes may compile kernels of a network at once, this one
    included; 1: none but this one; at most one for each core."""
    profile: bool = field(default_factory=lambda: _flag("MXNET_PROFILER_AUTOSTART", False))
    """MXNET_PROFILER_AUTOSTART=1: profile from the start, and write the trace at the end."""
    debug: int = field(default_factory=lambda: int(os.environ.get("NBMOD_DEBUG", "0") or 0))
    """NBMOD_DEBUG=1: one line per bind on the memory plan."""

    @property
    def mirror(self) -> bool:
        """MXNET_BACKWARD_DO_MIRROR=1: training binds compute cheap nodes again in backward instead
        of keeping them.  Read at every bind: scripts set it in `os.environ` right before theirs."""
        return _flag("MXNET_BACKWARD_DO_MIRROR", False)

    @property
    def fusion(self) -> bool:
        """MXNET_USE_FUSION=0: every elementwise node runs by itself.  Read at every bind."""
        return _flag("MXNET_USE_FUSION", True)

    @property
    def update_on_kvstore(self) -> bool:
        """MXNET_UPDATE_ON_KVSTORE=0: optimizers run on every device, stores only sum.

        Read when asked, because scripts set it after they have imported the package.
        """
        return _flag("MXNET_UPDATE_ON_KVSTORE", True)

    @property
    def home(self) -> pathlib.Path:
        """MXNET_HOME: below it MXNet keeps data sets and models; read when asked."""
        return pathlib.Path(os.environ.get("MXNET_HOME") or pathlib.Path.home() / ".mxnet")

    def aggregation_size(self, default: int) -> int:
        """MXNET_OPTIMIZER_AGGREGATION_SIZE: how many parameters an updater steps in one call.

        Read when asked, for the same reason.
        """
        return int(os.environ.get("MXNET_OPTIMIZER_AGGREGATION_SIZE", default))


CONFIG = Config()

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)

DTYPE_FLAGS: dict[int, np.dtype] = {
    flag: np.dtype(name)
    for flag, name in enumerate(
        ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16"]
    )
}
DTYPE_FLAGS[9] = np.dtype("uint16")
FLAG_OF_DTYPE = {dtype: flag for flag, dtype in DTYPE_FLAGS.items()}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an error message: `; did you mean 'x'?` when something known is close."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def warn_user(message: str) -> None:
    """A UserWarning at the line of the script, however deep in this package it is found out."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back and frame.f_globals["__name__"].startswith(f"{__package__}."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _as_list(obj: Any) -> list:
    """`obj` itself if it is a list or tuple, else a list that holds it."""
    return list(obj) if isinstance(obj, (list, tuple)) else [obj]
