"""numba-cuda-mlir, the successor of numba-cuda, as the compiler of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba_cuda_mlir import cuda, tools, types
from numba_cuda_mlir.cuda import libdevice
from numba_cuda_mlir.descriptor import mlir_target
from numba_cuda_mlir.numba_cuda.typing.templates import signature

from .int32_typing import int32_arithmetic
from .lowering_mlir import own_lowering
from .ptx_mlir import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS", "SOURCES", "cuda", "device_function", "libdevice", "lto_code", "types"]

SOURCES = ("compiler_mlir", "int32_typing", "lowering_mlir", "ptx_mlir", "ptx_instructions")


def device_function(function: Callable) -> Any:
    """A function that kernels call, inlined: numba-cuda-mlir 0.6 does not link the shared memory of
    functions that it calls."""
    return cuda.jit(device=True, inline="always")(function)


def lto_code(function: Callable, kinds: tuple[Any, ...], capability: tuple[int, int],
             bounds: tuple[int, int]) -> list[bytes]:
    """LTO IR of the kernel, with the functions that it calls."""
    # It asks the driver for a capability even if it is told one.
    original = tools._cached_cc
    tools._cached_cc = capability
    try:
        mlir_target.ensure_initialized()
        with own_lowering(capability), int32_arithmetic(mlir_target.typing_context, types,
                                                        signature):
            code, _ = cuda.compile(function, kinds, cc=capability, output="ltoir", device=False,
                                   abi="numba", launch_bounds=bounds)
    finally:
        tools._cached_cc = original
    return [code]
