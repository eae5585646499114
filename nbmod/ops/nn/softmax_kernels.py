"""Kernels of softmax along one axis.

The axis splits a tensor in three, (R, K, L): R x L softmaxes of K elements.  With L = 1 these are
contiguous and a task processes a row; otherwise it processes a strip of L, so that vectors run
along L.  `AxisView` is that view with its kernels; the loss layers use it too.

The maximum is subtracted first, so nothing overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..elementwise.float_op import accumulator
from ..elementwise.kernel_cache import COMPILED_FROM
from ..elementwise.kernel_math import exp32
from ..jit import inlined, kernel, prange
from ..op import Run, Spec, all_of
from ..shape import size_of
from ..simd.softmax_rows import LOG, softmax_row

__all__ = ["NO_LENGTH", "PARALLEL_FROM", "ROWS_FROM", "AxisView", "exponential", "strip_of"]

NO_LENGTH = np.empty(0, np.int32)

ROWS_FROM = 64
"""Elements from which on rows use a kernel, one for all shapes; NumPy takes 15 us."""
PARALLEL_FROM = 8192
"""Elements from which on all cores are used: these take 10 us, as does waking the threads."""


@inlined
def exponential(x, single):
    """e**x; `single`, a compile-time constant, says that x is float32."""
    return exp32(x) if single else np.exp(x)


@inlined
def _row(x, y, scale, flags, length, r):
    """Softmax of the valid elements of row r."""
    size = y.shape[1]
    stop = size if length.size == 0 else min(max(np.int64(length[r]), 0), size)
    if stop:
        softmax_row(x, y, scale, (r * size, r * size), (stop, flags))
    for k in range(stop, size):
        y[r, k] = 0


@kernel(parallel=True)
def _rows(x, y, scale, flags, length):
    """y = softmax(scale x), or its logarithm, along K of (R, K); length (R,) or empty."""
    for r in prange(len(y)):
        _row(x, y, scale, flags, length, np.int64(r))


@inlined(fastmath=True)
def _below_largest(x, y, scale):
    """y = scale x minus the maximum of each row."""
    for r in range(x.shape[0]):
        top = y.dtype.type(-np.inf)
        for k in range(x.shape[1]):
            top = max(top, x[r, k] * scale)
        for k in range(x.shape[1]):
            y[r, k] = x[r, k] * scale - top


@kernel(fastmath=True)
def _few_rows(x, y, scale, log):
    """y = softmax(scale x), or its logarithm, on the calling thread, all rows in each pass, since
    rows may be shorter than a vector."""
    rows, size = x.shape
    kind = y.dtype.type
    _below_largest(x, y, scale)
    if log:
        for r in range(rows):
            total = kind(0)
            for k in range(size):
                total += exponential(y[r, k], y.itemsize == 4)
            total = np.log(total)
            for k in range(size):
                y[r, k] -= total
        return
    flat = y.reshape(-1)
    for i in range(flat.size):
        flat[i] = exponential(flat[i], y.itemsize == 4)
    for r in range(rows):
        total = kind(0)
        for k in range(size):
            total += y[r, k]
        share = kind(1) / total
        for k in range(size):
            y[r, k] *= share


@inlined
def strip_of(rows, lanes):
    """Lanes per task: few enough for many tasks, enough for contiguous memory accesses.

    Kernels index them with uint64: the test for negative signed indices prevents vectorization.
    """
    return min(max(rows * lanes // 32, 64), 1024)


@kernel(parallel=True, fastmath=True)
def _strips(x, y, scale, log, top, total):
    """Softmax along K of x (R, K, L); top and total (R, L)."""
    rows, size, lanes = x.shape
    kind = y.dtype.type
    strip = strip_of(rows, lanes)
    strips = (lanes + strip - 1) // strip
    for task in prange(rows * strips):
        r, first = task // strips, task % strips * strip
        start, stop = np.uint64(first), np.uint64(min(first + strip, lanes))
        for j in range(start, stop):
            top[r, j] = -np.inf
            total[r, j] = 0
        for k in range(size):
            for j in range(start, stop):
                top[r, j] = max(top[r, j], x[r, k, j] * scale)
        for k in range(size):
            for j in range(start, stop):
                below = x[r, k, j] * scale - top[r, j]
                share = exponential(below, y.itemsize == 4)
                y[r, k, j] = below if log else share
                total[r, j] += share
        for j in range(start, stop):
            total[r, j] = np.log(total[r, j]) if log else kind(1) / total[r, j]
        for k in range(size):
            for j in range(start, stop):
                y[r, k, j] = y[r, k, j] - total[r, j] if log else y[r, k, j] * total[r, j]


@inlined(fastmath=True)
def _row_backward(g, y, gx, scale, log, r):
    """Row r of `_rows_backward`."""
    total = y.dtype.type(0)
    for k in range(y.shape[1]):
        total += g[r, k] if log else g[r, k] * y[r, k]
    for k in range(y.shape[1]):
        gx[r, k] = scale * (g[r, k] - exponential(y[r, k], y.itemsize == 4) * total
                            if log else y[r, k] * (g[r, k] - total))


@kernel(parallel=True, fastmath=True)
def _rows_backward(g, y, gx, scale, log):
    """gx = scale y (g - sum of g y), with log scale (g - exp(y) sum of g); all (R, K)."""
    for r in prange(len(y)):
        _row_backward(g, y, gx, scale, log, np.int64(r))


@kernel(fastmath=True)
def _few_rows_backward(g, y, gx, scale, log):
    """`_rows_backward` on the calling thread."""
    for r in range(len(y)):
        _row_backward(g, y, gx, scale, log, r)


@kernel(parallel=True, fastmath=True)
def _strips_backward(g, y, gx, scale, log, total):
    """`_rows_backward` along K of (R, K, L); total is (R, L)."""
    rows, size, lanes = y.shape
    strip = strip_of(rows, lanes)
    strips = (lanes + strip - 1) // strip
    for task in prange(rows * strips):
        r, first = task // strips, task % strips * strip
        start, stop = np.uint64(first), np.uint64(min(first + strip, lanes))
        for j in range(start, stop):
            total[r, j] = 0
        for k in range(size):
            for j in range(start, stop):
                total[r, j] += g[r, k, j] if log else g[r, k, j] * y[r, k, j]
        for k in range(size):
            for j in range(start, stop):
                own = exponential(y[r, k, j], y.itemsize == 4) if log else y[r, k, j]
                gx[r, k, j] = scale * (g[r, k, j] - own * total[r, j] if log
                                       else own * (g[r, k, j] - total[r, j]))


@dataclass(frozen=True)
class AxisView:
    """The view (rows, size, lanes) of a tensor along one axis, and softmax over `size`."""

    rows: int
    size: int
    lanes: int

    @classmethod
    def along(cls, shape: tuple[int, ...], axis: int) -> AxisView:
        """Along `axis` of a tensor of `shape`."""
        axis = axis % len(shape)
        return cls(size_of(shape[:axis]), shape[axis], size_of(shape[axis + 1:]))

    def __call__(self, tensor: np.ndarray) -> Any:
        """`tensor` in this view: (R, K), or (R, K, L) where L > 1."""
        flat = self.lanes == 1
        return tensor.reshape((self.rows, self.size) if flat else
                              (self.rows, self.size, self.lanes))

    def work(self, dtype: np.dtype) -> list[Spec]:
        """Workspace of both directions."""
        return [] if self.lanes == 1 else [Spec((self.rows, self.lanes), accumulator(dtype))] * 2

    def softmax(self, x: np.ndarray, y: np.ndarray, spare: Sequence[np.ndarray], scale: float = 1.0,
                log: bool = False, length: np.ndarray = NO_LENGTH) -> Run:
        """A function that writes softmax(scale x), or its logarithm, to y; `spare` from `work`."""
        least = ROWS_FROM if self.lanes == 1 else COMPILED_FROM
        if y.size < least or self.lanes > 1 and length is not NO_LENGTH:
            return lambda: self.eager_softmax(x, y, scale, log, length)
        source, target, factor = self(x), self(y), y.dtype.type(scale)
        if self.lanes > 1:
            return partial(_strips, source, target, factor, log, *spare)
        if y.size < PARALLEL_FROM and length is NO_LENGTH:
            return partial(_few_rows, source, target, factor, log)
        if x.dtype != y.dtype:
            return all_of([partial(np.copyto, target, source),
                           self.softmax(y, y, spare, scale, log, length)])
        return partial(_rows, source, target, np.full(1, factor), LOG * log, length.reshape(-1))

    def gradient(self, g: np.ndarray, y: np.ndarray, gx: np.ndarray, spare: Sequence[np.ndarray],
                 scale: float = 1.0, log: bool = False) -> Run:
        """A function that writes the gradient of x to gx, from the gradient g of y and from y."""
        if y.size < (ROWS_FROM if self.lanes == 1 else COMPILED_FROM):
            return lambda: self.eager_gradient(g, y, gx, scale, log)
        g, y, gx, factor = self(g), self(y), self(gx), y.dtype.type(scale)
        if self.lanes == 1:
            rows = _few_rows_backward if y.size < PARALLEL_FROM else _rows_backward
            return partial(rows, g, y, gx, factor, log)
        return partial(_strips_backward, g, y, gx, factor, log, spare[0])

    def eager_softmax(self, x: np.ndarray, y: np.ndarray, scale: float = 1.0, log: bool = False,
                    length: np.ndarray = NO_LENGTH) -> None:
        """`softmax` in NumPy; callers ignore floating-point events."""
        shape = (self.rows, self.size, self.lanes)
        x, y = x.reshape(shape), y.reshape(shape)
        z = np.multiply(x, y.dtype.type(scale), dtype=y.dtype, casting="same_kind")
        outside = None
        if length is not NO_LENGTH:
            stop = length.reshape(self.rows, 1, self.lanes)
            outside = np.arange(self.size)[:, None] >= stop
            z[outside] = -np.inf
        z -= np.maximum.reduce(z, axis=1, keepdims=True, initial=-np.inf)
        np.exp(z, out=y)
        total = np.add.reduce(y, axis=1, keepdims=True)
        if log:
            np.subtract(z, np.log(total), out=y)
        else:
            y /= total
        if outside is not None:
            y[outside] = 0

    def eager_gradient(self, g: np.ndarray, y: np.ndarray, gx: np.ndarray, scale: float = 1.0,
                       log: bool = False) -> None:
        """`gradient` in NumPy; callers ignore floating-point events."""
        shape = (self.rows, self.size, self.lanes)
        g, y, gx = g.reshape(shape), y.reshape(shape), gx.reshape(shape)
        if log:
            grad = g - np.exp(y) * np.add.reduce(g, axis=1, keepdims=True)
        else:
            grad = y * (g - np.add.reduce(g * y, axis=1, keepdims=True))
        np.multiply(grad, gx.dtype.type(scale), out=gx)
