"""Frameworks limited to the CPU level of NBMOD_CPU_LEVEL, each by a switch of its own.

A processor with AVX-512 measures so what one with AVX2 alone would show: all compute with vectors
of equal width, and shares are those of the peak of such vectors.  Caches, memory and clock remain
those of the host.  onnxruntime has no such switch.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbmod.base import ArgumentError
from nbmod.ops.build.levels import chosen
from nbmod.ops.simd.host import registers

__all__ = ["limits", "reason_to_leave_out"]

LIMITS: dict[str, dict[str, str]] = {
    "x86-64-v3": {
        # oneDNN under its present and its former name: MXNet, PyTorch, OpenVINO
        "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2",
        "OV_CPU_MAX_ISA": "AVX2",       # OpenVINO's own kernels
        "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",     # PyTorch
        "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3",     # torch.compile
        "OPENBLAS_CORETYPE": "Haswell",     # NumPy, MXNet
    },
}
"""Environment variables by level."""


def limits() -> Mapping[str, str]:
    """Variables of the level that this process computes at; none for that of the host.

    Raises
    ------
    ArgumentError
        At a level that the frameworks have no switches for.
    """
    if not chosen():
        return {}
    if chosen() not in LIMITS:
        raise ArgumentError(f"NBMOD_CPU_LEVEL is {chosen()!r}, but other frameworks can only be "
                            f"limited to {', '.join(LIMITS)}")
    return LIMITS[chosen()]


def reason_to_leave_out(vector_bits: int | None) -> str:
    """Why a framework that computes with vectors of so many bits cannot be compared at the level;
    "" if it can.  None means that it does not tell."""
    allowed = 8 * registers().nbytes
    if not chosen() or vector_bits == allowed:
        return ""
    has = f"computes with vectors of {vector_bits} bits" if vector_bits else "has no such switch"
    return f"it {has}, {chosen()} asks for {allowed}"
