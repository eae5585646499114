"""Instructions that numba does not expose, as functions that kernels call.

On a device each is inline PTX (`ptx_device`); in the simulator it is the Python function below.
Pointers are to global memory (an argument of the kernel) or to shared memory (`cuda.shared`).

    elements_at(p, i, n, kind)               the n elements whose address is p[i], like an argument
    to_tf32(x), to_bf16x2(x, y)              bits of rounded floats; two of 16 bits in a word
    mma_tf32, mma_bf16, mma_f16              warp-level (16, k) by (k, 8), added to (16, 8)

Each lane holds a fragment of the operands of `mma_*`: with g = lane // 4 and q = lane % 4, C is
(g, 2q), (g, 2q+1), (g+8, 2q), (g+8, 2q+1).  In TF32 A is (g, q), (g+8, q), (g, q+4), (g+8, q+4), B
is (q, g), (q+4, g).  With 16 bits every word has two elements adjacent along k: A is (g, 2q),
(g+8, 2q), (g, 2q+8), (g+8, 2q+8) and those to the right, B is (2q, g), (2q+8, g) and those below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...simd.raw_arrays import array_at
from .compiler import compiler
from .launch import SIMULATED, cuda

if TYPE_CHECKING:
    from .simulator import Pointer

__all__ = ["elements_at", "mma_bf16", "mma_f16", "mma_tf32", "to_bf16x2", "to_f16x2", "to_tf32"]

ALL = 0xFFFFFFFF


# -- semantics ----------------------------------------------------------------------------------


def elements_at(p: Pointer, i: int, n: int, kind: type[np.generic]) -> Any:
    """A pointer to the n elements whose address is p[i]."""
    from .simulator import Pointer

    return Pointer(array_at(p[i], n, kind))


def to_tf32(x: np.floating) -> Any:
    """The bits of a float rounded to TF32."""
    bits = int(np.float32(x).view(np.uint32))
    return np.uint32((bits + 0x1000) & 0xFFFFE000)


def _bf16_bits(x: np.floating) -> int:
    bits = int(np.float32(x).view(np.uint32))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF


def to_bf16x2(low: np.floating, high: np.floating) -> Any:
    """Two floats rounded to bfloat16, in a word."""
    return np.uint32(_bf16_bits(low) | _bf16_bits(high) << 16)


def to_f16x2(low: np.floating, high: np.floating) -> Any:
    """Two floats rounded to float16, in a word."""
    return np.array([low, high], np.float16).view(np.uint32)[0]


def _from_tf32(word: np.uint32) -> tuple[Any, ...]:
    return (np.uint32(word).view(np.float32),)


def _from_bf16x2(word: np.uint32) -> tuple[Any, ...]:
    return tuple(np.uint32(bits).view(np.float32)
                 for bits in (int(word) << 16 & ALL, int(word) & 0xFFFF0000))


def _from_f16x2(word: np.uint32) -> tuple[Any, ...]:
    return tuple(np.float32(x) for x in np.array([word], np.uint32).view(np.float16))


def _mma(unpack: Callable[[Any], tuple[Any, ...]]) -> Callable[..., Any]:
    """A warp-level matrix product; `unpack` unpacks the words of its operands."""
    def multiply(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
        met = cuda.exchange((a0, a1, a2, a3, b0, b1), "mma", ALL)
        if "product" not in met:
            met["product"] = _product(met, unpack)
        product, (g, q) = met["product"], divmod(cuda.laneid, 4)
        return (c0 + product[g, 2 * q], c1 + product[g, 2 * q + 1],
                c2 + product[g + 8, 2 * q], c3 + product[g + 8, 2 * q + 1])
    return multiply


def _product(met: dict[Any, Any], unpack: Callable[[Any], tuple[Any, ...]]) -> np.ndarray:
    width = len(unpack(np.uint32(0)))
    half = 4 * width
    a, b = np.zeros((16, 2 * half), np.float32), np.zeros((2 * half, 8), np.float32)
    for lane, words in met.items():
        g, q = divmod(lane, 4)
        a0, a1, a2, a3, b0, b1 = map(unpack, words)
        for k in range(width):
            left = width * q + k
            a[g, left], a[g + 8, left] = a0[k], a1[k]
            a[g, left + half], a[g + 8, left + half] = a2[k], a3[k]
            b[left, g], b[left + half, g] = b0[k], b1[k]
    return a @ b


mma_tf32: Any = _mma(_from_tf32)
mma_bf16: Any = _mma(_from_bf16x2)
mma_f16: Any = _mma(_from_f16x2)

if not SIMULATED:
    globals().update(compiler().FUNCTIONS)
