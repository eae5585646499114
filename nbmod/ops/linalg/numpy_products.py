"""Matrix products by NumPy's matmul: those of eager calls, and small ones."""

from __future__ import annotations

import numpy as np

__all__ = ["TINY", "multiply", "multiply_biased"]

TINY = 1 << 10
"""Multiplications up to which NumPy, which needs neither kernels nor a workspace, is as fast."""


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, alpha: float = 1.0,
             add: bool = False) -> None:
    """out = alpha a b, or out += alpha a b, for matrices or stacks of them, any strides."""
    is_float16 = out.dtype == np.float16
    if is_float16:
        a, b = a.astype(np.float32), b.astype(np.float32)
    total = np.matmul(a, b, out=None if add or is_float16 else out)
    if alpha != 1:
        total *= total.dtype.type(alpha)
    if add:
        np.add(out, total, out=out, casting="same_kind")
    elif is_float16:
        np.copyto(out, total, casting="same_kind")


def multiply_biased(a: np.ndarray, b: np.ndarray, out: np.ndarray, alpha: float,
                    bias: np.ndarray | None, add: bool, relu: bool) -> None:
    """out = alpha a b + bias, or out += it; `relu` then replaces negative results by 0."""
    multiply(a, b, out, alpha, add)
    if bias is not None:
        out += bias
    if relu:
        np.maximum(out, 0, out=out)
