"""numba-cuda as the compiler of kernels, which its vendor has only maintained since June 2026."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from .int32_typing import int32_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable

# numba-cuda uses it, to its last release 0.30.4; NumPy 2.5 has none.  To be removed with this file.
if "row_stack" not in vars(np):
    np.row_stack = np.vstack

from numba import cuda
from numba.cuda import libdevice, types

from .ptx_numba_cuda import FUNCTIONS

__all__ = ["FUNCTIONS", "SOURCES", "cuda", "device_function", "libdevice", "lto_code", "types"]

SOURCES = ("compiler_numba_cuda", "int32_typing", "ptx_numba_cuda", "ptx_instructions")

device_function = cuda.jit(device=True)


def lto_code(function: Callable, kinds: tuple[Any, ...], capability: tuple[int, int],
             bounds: tuple[int, int]) -> list[bytes]:
    """LTO IR of the kernel and of the functions that numba links to it."""
    # Not there without numba-cuda, where numba's own remains of it are imported.
    from numba.cuda import dispatcher
    from numba.cuda.descriptor import cuda_target
    from numba.cuda.typing.templates import signature

    # Device functions query the current device; substitute the one that is compiled for.
    original = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        with int32_arithmetic(cuda_target.typing_context, types, signature):
            codes, _ = cuda.compile_all(
                function, kinds, cc=capability, output="ltoir", device=False, abi="numba",
                launch_bounds=bounds)
    finally:
        dispatcher.get_current_device = original
    return [code if isinstance(code, bytes) else code.code for code in codes]
