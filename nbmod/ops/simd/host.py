"""Vector registers and features of the host, or of the level of NBMOD_CPU_LEVEL; NBMOD_SIMD_LANES
overrides the width.

LLVM splits vectors that are wider than the host's and pads narrower ones, so code for any width is
correct everywhere: tests run narrow code on a machine with wide registers.
"""

from __future__ import annotations

import pathlib
import platform
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ...core.config import CONFIG
from ...core.interrupts import deferred
from ..build.compiler import has_compiler
from ..build.levels import chosen, features_of

__all__ = ["Registers", "cache_bytes", "cpu_name", "has_features", "l2_cache_bytes", "lanes",
           "registers"]


class Registers(NamedTuple):
    """`number` vector registers of `nbytes` bytes."""

    nbytes: int
    number: int


@cache
def registers() -> Registers:
    """The registers that kernels are generated for."""
    features = features_of(chosen())
    nbytes, count = 16, 32 if "neon" in features else 16
    if features.get("avx512f"):
        nbytes, count = 64, 32
    elif features.get("avx"):
        nbytes = 32
    if CONFIG.simd_lanes:
        nbytes, count = 4 * CONFIG.simd_lanes, max(count, 32 if CONFIG.simd_lanes == 16 else 0)
    return Registers(nbytes, count)


@cache
@deferred()
def cpu_name() -> str:
    """LLVM's name for the CPU; without a compiler the system's."""
    if not has_compiler():
        return platform.processor() or platform.machine()
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name())


CACHES = "/sys/devices/system/cpu/cpu0/cache"
"""Linux's folder of the caches of a core."""


def cache_bytes(folder: str = CACHES) -> dict[int, int]:
    """Bytes of the data caches of a core by level, as far as Linux's `folder` tells."""
    sizes = {}
    for index in pathlib.Path(folder).glob("index*"):
        with suppress(OSError, ValueError):
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
            kind = index / "type"
            if size.endswith("K") and not (
                    kind.exists() and kind.read_text().strip() == "Instruction"):
                sizes[int(level)] = int(size[:-1]) * 1024
    return sizes


def l2_cache_bytes(folder: str = CACHES) -> int:
    """Bytes of a core's L2 cache from Linux's `folder`; 2 ** 20 where that is unknown."""
    return cache_bytes(folder).get(2, 2 ** 20)


def lanes(dtype: DTypeLike) -> int:
    """Elements of `dtype` in a vector."""
    return max(registers().nbytes // np.dtype(dtype).itemsize, 1)


@cache
def has_features(*features: str) -> bool:
    """Whether code compiled by numba may use these instruction sets (LLVM's names)."""
    from numba import config
    from numba.core.codegen import get_host_cpu_features

    setting = config.CPU_FEATURES
    known = (get_host_cpu_features() if setting is None else setting).split(",")
    return all(f"+{feature}" in known for feature in features)
