"""GPUs of this machine: how many can be used, and their memory.

They come from `nbmod.ops.cuda.device`, which is imported when one is first asked for.  It provides
`gpu_count()`, `gpu_trouble() -> why it is 0`, `gpu_memory(i) -> (free, total)` and what
`ops.device` needs.  Without it there are no GPUs.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ..base import MXNetError
from .config import CONFIG
from .interrupts import deferred

__all__ = ["cuda_module", "gpu_count", "gpu_memory", "gpus_offered"]


@cache
def cuda_module() -> Any:
    """The module `ops.cuda.device`, or None where it cannot be imported."""
    try:
        with deferred():
            return import_module("..ops.cuda.device", __package__)
    except ImportError:
        return None


def gpu_count() -> int:
    """Number of usable CUDA devices; 0 without a driver or without a compiler."""
    cuda = cuda_module()
    return 0 if cuda is None else cuda.gpu_count()


def gpus_offered() -> str:
    """How many CUDA devices there are, in words, and why there are none."""
    count = gpu_count()
    if count:
        return f"{count} usable CUDA device(s)"
    cuda = cuda_module()
    why = _missing() if cuda is None else cuda.gpu_trouble()
    return f"0 usable CUDA device(s) ({why})"


def _missing() -> str:
    extra = "cuda-mlir" if CONFIG.cuda_compiler == "mlir" else "cuda"
    chosen = f", as NBMOD_CUDA_COMPILER={CONFIG.cuda_compiler} asks" if CONFIG.cuda_compiler else ""
    return f"they take pip install 'nbmod[{extra}]'{chosen}"


def gpu_memory(device_id: int = 0) -> tuple[int, int]:
    """(free, total) bytes of a CUDA device."""
    if not 0 <= device_id < gpu_count():
        raise MXNetError(f"gpu({device_id}) does not exist: {gpus_offered()}")
    return cuda_module().gpu_memory(device_id)
