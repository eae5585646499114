"""CPU levels: the sets of instruction sets that kernels are shipped for.

Of x86-64 the levels are those of the System V ABI supplement, x86-64-v3 (AVX2) and x86-64-v4
(AVX-512), each also with the dot products of bytes (VNNI), which are the only further instructions
that kernels ask for.  Of ARM they are Armv8.2 with half precision, and Apple's M1.
NBMOD_CPU_LEVEL compiles for a level instead of the host.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import NamedTuple

from ...base import ArgumentError
from ...core.config import CONFIG
from ...core.interrupts import deferred

__all__ = ["LEVELS", "Level", "chosen", "features_of", "instruction_sets", "is_supported",
           "machine", "restrict_numba", "supported"]


class Level(NamedTuple):
    """A CPU as LLVM names it, and its instruction sets; `machine` is one of `platform.machine`."""

    machine: str
    cpu: str
    features: tuple[str, ...]


_V3 = ("avx", "avx2", "bmi", "bmi2", "cmov", "cx16", "f16c", "fma", "fxsr", "lzcnt", "mmx", "movbe",
       "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")

LEVELS = {
    "x86-64-v4-vnni": Level("x86_64", "x86-64-v4", (*_V4, "avx512vnni")),
    "x86-64-v4": Level("x86_64", "x86-64-v4", _V4),
    "x86-64-v3-vnni": Level("x86_64", "x86-64-v3", (*_V3, "avxvnni")),
    "x86-64-v3": Level("x86_64", "x86-64-v3", _V3),
    "armv8.2": Level("aarch64", "neoverse-n1",
                     ("crc", "dotprod", "fp-armv8", "fullfp16", "lse", "neon", "rdm")),
    "apple-m1": Level("arm64", "apple-m1", ("dotprod", "fp-armv8", "fullfp16", "neon")),
}
"""By name; of those that a host supports, the first is the best."""


def chosen() -> str:
    """The level of NBMOD_CPU_LEVEL, ArgumentError if there is none such; "" for the host."""
    name = CONFIG.cpu_level
    if name and name not in LEVELS:
        raise ArgumentError(f"NBMOD_CPU_LEVEL is {name!r}, expected one of {', '.join(LEVELS)}, or "
                            "nothing for this host's CPU")
    return name


@cache
@deferred()
def features_of(name: str) -> dict[str, bool]:
    """Instruction sets of a level, or of the host where `name` is "", by LLVM's names."""
    if name:
        return dict.fromkeys(LEVELS[name].features, True)
    try:
        import llvmlite.binding as llvm

        return dict(llvm.get_host_cpu_features())
    # LLVM cannot tell on some systems, such as Apple's; without it there are no kernels either.
    except (RuntimeError, ImportError, OSError):
        return dict.fromkeys(LEVELS["apple-m1"].features if machine() == "arm64" else (), True)


def instruction_sets(name: str) -> str:
    """The instruction sets of a level as a setting of numba."""
    return ",".join(f"+{each}" for each in LEVELS[name].features)


def is_supported(name: str) -> bool:
    """Whether this host has all instruction sets of a level."""
    level, host = LEVELS[name], features_of("")
    return machine() == level.machine and all(host.get(each) for each in level.features)


def machine() -> str:
    """The architecture of this host, by the names of `Level.machine`."""
    return platform.machine().lower().replace("amd64", "x86_64")


def supported() -> list[str]:
    """Names of the levels whose kernels may be used, the best first."""
    if chosen():
        return [chosen()]
    return [name for name in LEVELS if is_supported(name)]


def restrict_numba() -> None:
    """Make numba compile for the level of NBMOD_CPU_LEVEL, which holds for the whole process."""
    if not chosen():
        return
    from numba import config
    from numba.core.registry import cpu_target

    config.CPU_NAME, config.CPU_FEATURES = LEVELS[chosen()].cpu, instruction_sets(chosen())
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    if features != config.CPU_FEATURES:
        raise ArgumentError(f"NBMOD_CPU_LEVEL is {chosen()!r}, but numba has already compiled for "
                            "this host in this process; run nbmod's first network before other "
                            "functions that are compiled by numba")
