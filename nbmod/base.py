"""Ground floor: the public error, the configuration, and the element types.

Every environment variable nbmod reads is a field of `Config`, read once, here; the rest of the
package asks `CONFIG`.  Element types are plain `numpy.dtype` objects everywhere; the integer flags
that MXNet's files and graphs use for them are converted at the edge with the two tables below.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["CONFIG", "ArgumentError", "MXNetError", "NotImplementedForSymbol", "did_you_mean"]


class MXNetError(RuntimeError):
    """Base of every error nbmod raises on purpose (MXNet's own name, so old handlers catch it)."""


class ArgumentError(MXNetError, ValueError):
    """A wrong argument where MXNet raises ValueError: handlers of either catch it."""


class NotImplementedForSymbol(MXNetError):
    """An NDArray operation that has no meaning on a Symbol, such as `bool(symbol)`."""

    def __init__(self, function: Any, alias: str | None = None, *args: Any):
        name = getattr(function, "__name__", str(function))
        hint = f"; use {alias} instead" if alias else ""
        super().__init__(f"Function {name} is not implemented for Symbol{hint}")


def _flag(name: str, default: bool) -> bool:
    text = os.environ.get(name)
    return default if text is None else text.strip().lower() not in ("", "0", "false", "no", "off")


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


@dataclass
class Config:
    """Everything the environment decides."""

    cache_dir: pathlib.Path = field(default_factory=_cache_dir)
    """NBMOD_CACHE_DIR: where generated kernels and compiled code are kept."""
    cache: bool = field(default_factory=lambda: _flag("NBMOD_CACHE", True))
    """NBMOD_CACHE=0: compile afresh in every process and write nothing."""
    check: bool = field(default_factory=lambda: _flag("NBMOD_CHECK", False))
    """NBMOD_CHECK=1: verify every graph and memory plan at bind."""
    gpu_to_cpu: bool = field(default_factory=lambda: _flag("NBMOD_GPU_TO_CPU", False))
    """NBMOD_GPU_TO_CPU=1: `gpu(i)` means `cpu(i)` where there is no GPU, with one warning."""
    virtual_gpus: int = field(
        default_factory=lambda: int(os.environ.get("NBMOD_VIRTUAL_GPUS", "0") or 0))
    """NBMOD_VIRTUAL_GPUS: how many gpu(i) share the CUDA devices there are; 0: one each, and 4 in
    numba's CUDA simulator."""
    debug: int = field(default_factory=lambda: int(os.environ.get("NBMOD_DEBUG", "0") or 0))
    """NBMOD_DEBUG=1: one line per bind on the memory plan."""


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


def _as_list(obj: Any) -> list:
    """`obj` itself if it is a list or tuple, else a list that holds it."""
    return list(obj) if isinstance(obj, (list, tuple)) else [obj]
