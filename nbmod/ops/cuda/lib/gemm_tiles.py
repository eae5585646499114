"""Slices of the factors of a product on their way to shared memory: what `gemm` and `tensor` share.

A slice of A is (depth, rows), one of B (depth, columns).  Its elements are dealt out to the threads
of a block by number; the functions here say which element has which number, and what stands beyond
the edges.
"""

from __future__ import annotations

from typing import Any

from ..runtime.launch import device_function
from .kernel_math import minimum

__all__ = ["dealt", "guarded", "stretch"]


@device_function
def stretch(k, s, parts):
    """Where part s of some parts of k terms begins and ends."""
    span = (k + parts - 1) // parts
    return s * span, minimum(k, (s + 1) * span)


def dealt(inner: bool, extent: int, depth: int) -> Any:
    """split(number) -> (t, i): neighbours are neighbours along t if `inner`, else along i."""
    @device_function
    def split(number):
        if inner:
            return number % depth, number // depth
        return number // extent, number % extent
    return split


def guarded(product: Any, real: Any) -> tuple[Any, Any]:
    """The loading functions of a `gemm.Product` with one more argument, the end of the sums: from
    there on, and beyond the last row or column, there are zeros."""
    load_a, load_b = product.load_a, product.load_b

    @device_function
    def seen_a(a, g, i, t, m, step, last):
        return real(load_a(a, g, i, t, m, step)) if i < m and t < last else real(0)

    @device_function
    def seen_b(b, g, t, j, step, n, last):
        return real(load_b(b, g, t, j, step, n)) if j < n and t < last else real(0)

    return seen_a, seen_b
