"""L2Normalization, and LRN (Krizhevsky et al. 2012), which normalises over adjacent channels.

L2Normalization normalises rows of a view (R, K), one task per row; over channels, which are
strided, the view is (R, K, L) and a task processes a strip of L.  LRN views data as (N, C, S); a
task is one channel of one sample, which reads the adjacent channels while they are in cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..elementwise.float_op import FloatOp, accumulator, as_float32
from ..elementwise.kernel_math import exp32, log32
from ..jit import kernel, prange
from ..op import Spec, all_of
from ..shape import ShapeMismatch, require_rank, size_of, unify
from .softmax_kernels import strip_of

__all__ = ["L2Normalization", "LRN"]


@kernel(parallel=True, fastmath=True)
def _l2_rows(x, norm, y, eps):
    """y = x / |x| for rows of x (R, K)."""
    rows, size = x.shape
    one = x.dtype.type(1)
    for r in prange(rows):
        squares = 0.0
        for k in range(size):
            squares += np.float64(x[r, k] * x[r, k])
        norm[r] = np.sqrt(squares + eps)
        inv = one / norm[r]
        for k in range(size):
            y[r, k] = x[r, k] * inv


@kernel(parallel=True, fastmath=True)
def _l2_rows_backward(g, y, norm, gx):
    rows, size = y.shape
    one = y.dtype.type(1)
    for r in prange(rows):
        along = 0.0
        for k in range(size):
            along += np.float64(g[r, k] * y[r, k])
        inv, slope = one / norm[r], y.dtype.type(along)
        for k in range(size):
            gx[r, k] = (g[r, k] - y[r, k] * slope) * inv


@kernel(parallel=True, fastmath=True)
def _l2_strips(x, norm, y, eps):
    """y = x / norm along axis 1 of x (R, K, L); norm is (R, L)."""
    rows, size, lanes = x.shape
    one = x.dtype.type(1)
    strip = strip_of(rows, lanes)
    strips = (lanes + strip - 1) // strip
    for task in prange(rows * strips):
        r, first = task // strips, task % strips * strip
        start, stop = np.uint64(first), np.uint64(min(first + strip, lanes))
        for j in range(start, stop):
            norm[r, j] = eps
        for k in range(size):
            for j in range(start, stop):
                norm[r, j] += x[r, k, j] * x[r, k, j]
        for j in range(start, stop):
            norm[r, j] = np.sqrt(norm[r, j])
        for k in range(size):
            for j in range(start, stop):
                y[r, k, j] = x[r, k, j] * (one / norm[r, j])


@kernel(parallel=True, fastmath=True)
def _l2_strips_backward(g, y, norm, gx, along):
    """Gradient of the above; along is (R, L)."""
    rows, size, lanes = y.shape
    strip = strip_of(rows, lanes)
    strips = (lanes + strip - 1) // strip
    for task in prange(rows * strips):
        r, first = task // strips, task % strips * strip
        start, stop = np.uint64(first), np.uint64(min(first + strip, lanes))
        for j in range(start, stop):
            along[r, j] = 0
        for k in range(size):
            for j in range(start, stop):
                along[r, j] += g[r, k, j] * y[r, k, j]
        for k in range(size):
            for j in range(start, stop):
                gx[r, k, j] = (g[r, k, j] - y[r, k, j] * along[r, j]) / norm[r, j]


@dataclass(frozen=True)
class L2Normalization(FloatOp, name="L2Normalization"):
    """y = x / sqrt(sum of x^2 + eps), the sum over

    instance  everything but the first axis
    channel   axis 1 of data (N, C, L, ...), for each position
    spatial   everything but the first two axes of data (N, C, L, ...)
    """

    eps: float = 1e-10
    mode: Literal["channel", "instance", "spatial"] = "instance"

    outputs: ClassVar = ("output", "norm")
    num_visible: ClassVar = 1
    needs: ClassVar = ("ograd", "output", "norm")
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, outs
        require_rank(data, 1 if self.mode == "instance" else 3,
                     f"at least 3 dimensions for mode {self.mode!r}")
        norm = {"instance": data[:1], "channel": (data[0], *data[2:]), "spatial": data[:2]}
        return [data], [data, norm[self.mode]]

    def _view(self, tensor: np.ndarray) -> Any:
        shape = tensor.shape
        if self.mode == "channel":
            return tensor.reshape(shape[0], shape[1], -1)
        return tensor.reshape(size_of(shape[:1 if self.mode == "instance" else 2]), -1)

    def scratch(self, ins, outs):
        return [outs[1]]

    def backward_scratch(self, ins, outs):
        return [ins[2]]

    def prepare(self, ins, outs, call):
        norm = call.scratch[0] if outs[1] is None else outs[1]
        x, y, eps = self._view(ins[0]), self._view(outs[0]), as_float32(self.eps)
        if self.mode == "channel":
            return partial(_l2_strips, x, norm.reshape(len(x), -1), y, eps)
        return partial(_l2_rows, x, norm.reshape(-1), y, eps)

    def prepare_backward(self, ins, outs, call):
        g, y, gx = (self._view(tensor) for tensor in (ins[0], ins[1], outs[0]))
        if self.mode == "channel":
            norm, along = (array.reshape(len(y), -1) for array in (ins[2], call.scratch[0]))
            return partial(_l2_strips_backward, g, y, norm, gx, along)
        return partial(_l2_rows_backward, g, y, ins[2].reshape(-1), gx)


@kernel(parallel=True, fastmath=True)
def _lrn_scale(x, scale, radius, weight, knorm):
    """scale = knorm + weight * sum of x^2 over 2 radius + 1 channels of x (N, C, S)."""
    samples, channels, size = x.shape
    for row in prange(samples * channels):
        n, c = row // channels, row % channels
        for s in range(size):
            scale[n, c, s] = knorm
        for other in range(max(c - radius, 0), min(c + radius + 1, channels)):
            for s in range(size):
                scale[n, c, s] += weight * x[n, other, s] * x[n, other, s]


@kernel(parallel=True, fastmath=True)
def _lrn_apply(x, scale, y, beta):
    """y = x scale^-beta, all (R, S)."""
    rows, size = x.shape
    single = x.itemsize == 4
    for r in prange(rows):
        for s in range(size):
            y[r, s] = -beta * (log32(scale[r, s]) if single else np.log(scale[r, s]))
        for s in range(size):
            y[r, s] = x[r, s] * (exp32(y[r, s]) if single else np.exp(y[r, s]))


@kernel(parallel=True, fastmath=True)
def _lrn_backward(g, x, y, scale, gx, radius, factor):
    """gx -= factor x * sum of g y / scale over the channels of `_lrn_scale`."""
    samples, channels, size = x.shape
    for row in prange(samples * channels):
        n, c = row // channels, row % channels
        for other in range(max(c - radius, 0), min(c + radius + 1, channels)):
            for s in range(size):
                share = g[n, other, s] * y[n, other, s] / scale[n, other, s]
                gx[n, c, s] -= factor * x[n, c, s] * share


@dataclass(frozen=True)
class LRN(FloatOp, name="LRN"):
    """y = x (knorm + alpha / nsize * sum of x^2)^-beta, the sum over neighbouring channels.

    data (N, C, ...).  The window is `nsize` channels centred on each; for an even `nsize` it is one
    less, still divided by `nsize`, as in MXNet.
    """

    alpha: float = 1e-4
    beta: float = 0.75
    knorm: float = 2.0
    nsize: int = field(kw_only=True)

    outputs: ClassVar = ("output", "tmp_norm")
    num_visible: ClassVar = 1
    needs: ClassVar = ("ograd", "data", "output", "tmp_norm")

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        require_rank(data, 2, "at least (N, C)")
        if self.nsize < 1:
            raise ShapeMismatch(f"nsize is {self.nsize}, expected at least 1 channel")
        return [data], [data, data]

    def infer_type(self, ins, outs):
        (data,), (_, _) = super().infer_type(ins, outs[:1] * 2)
        return [data], [data, None if data is None else accumulator(data)]

    def scratch(self, ins, outs):
        return [Spec(ins[0].shape, outs[1].dtype)]

    def radius(self, data):
        """Channels on each side in a window, of those that there are."""
        return min((self.nsize - 1) // 2, data.shape[1])

    def prepare(self, ins, outs, call):
        scale = call.scratch[0] if outs[1] is None else outs[1]
        tensors, rows = _views(ins[0], scale, outs[0])
        kind, radius = ins[0].dtype.type, self.radius(ins[0])
        weight, knorm, beta = kind(self.alpha / self.nsize), kind(self.knorm), kind(self.beta)
        return all_of([partial(_lrn_scale, tensors[0], tensors[1], radius, weight, knorm),
                       partial(_lrn_apply, *rows, beta)])

    def prepare_backward(self, ins, outs, call):
        (g, x, y, scale, gx), rows = _views(*ins, outs[0])
        kind, radius = x.dtype.type, self.radius(x)
        factor, beta = kind(2 * self.beta * self.alpha / self.nsize), kind(self.beta)
        return all_of([partial(_lrn_apply, rows[0], rows[3], rows[4], beta),
                       partial(_lrn_backward, g, x, y, scale, gx, radius, factor)])


def _views(*tensors: np.ndarray) -> tuple[list[Any], list[Any]]:
    """Tensors (N, C, ...) as (N, C, S) and as (N * C, S)."""
    views = [tensor.reshape(*tensor.shape[:2], -1) for tensor in tensors]
    return views, [view.reshape(-1, view.shape[2]) for view in views]
