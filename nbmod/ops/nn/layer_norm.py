"""LayerNorm, GroupNorm and InstanceNorm: statistics per sample.

Tensors are viewed as rows to be normalised.  Long rows are computed by micro-kernels
(`simd.layer_norm_rows`), several per task; for short rows a compiler-generated loop has less
prologue and epilogue.  A row of GroupNorm and InstanceNorm is a channel of BatchNorm in a batch of
one, so for short rows and for gradients they use its kernels, with gamma and beta repeated per
sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp, as_float32
from ..jit import kernel, prange
from ..op import Run, Spec, all_of
from ..shape import ShapeMismatch, normalize_axis, require_rank, unify
from ..simd.layer_norm_rows import (
    SCALAR_AFFINE,
    STREAM,
    row_grad,
    row_grad_sums,
    row_normalize,
    row_sums,
)
from ..simd.nontemporal import bypasses_cache, store_fence
from ..simd.raw_arrays import stack_buffer
from .batch_norm import _backward_runs, _forward_runs

__all__ = ["LayerNorm", "GroupNorm", "InstanceNorm"]

LONG = 128
"""Elements from which on rows are long."""
TASK = 1 << 14
"""Elements of a task, which ends with a store fence."""
FEW = 64
"""Rows accumulated in single precision before their sum is added in double precision."""
TILE = 1 << 10
"""Columns whose partial sums a task adds."""


@kernel(parallel=True, fastmath=True)
def _short_rows(x, gamma, beta, mean, std, y, eps):
    """LayerNorm of x (R, K); sums are computed as in `batch_norm`."""
    rows, size = x.shape
    one = x.dtype.type(1)
    for r in prange(rows):
        first = np.float64(x[r, 0])
        total, squares = 0.0, 0.0
        for k in range(size):
            d = np.float64(x[r, k]) - first
            total += d
            squares += d * d
        off = total / size
        mean[r] = first + off
        std[r] = np.sqrt(max(squares / size - off * off, 0.0) + eps)
        m, inv = mean[r], one / std[r]
        for k in range(size):
            y[r, k] = (x[r, k] - m) * inv * gamma[k] + beta[k]


@kernel(parallel=True)
def _long_rows(x, gamma, beta, mean, std, y, eps, flags):
    """LayerNorm of x (R, K); with SCALAR_AFFINE row r has one gamma and beta, those at
    r % gamma.size.

    Two passes: the variance is computed around the mean, which keeps precision in float32.
    """
    rows, size = x.shape
    many = max(1, TASK // size)
    for task in prange((rows + many - 1) // many):
        start, sums = np.int64(task) * many, stack_buffer(np.float64)
        for r in range(start, min(rows, start + many)):
            begin, own = r * size, r % gamma.size if flags & SCALAR_AFFINE else 0
            row_sums(x, x, sums, (begin, begin), size)
            mean[r] = np.float64(x[r, 0]) + sums[0] / size
            row_sums(x, mean, sums, (begin, r), size)
            total, squares = sums[:2]
            off = total / size
            std[r] = np.sqrt(max(squares / size - off * off, 0.0) + eps)
            row_normalize(x, gamma, beta, mean, std, y, (begin, r, r, own), (size, flags))
        store_fence(y)


@kernel(parallel=True)
def _layer_backward(g, x, gamma, mean, std, gx, sums, recent, write, flags):
    """Gradients of LayerNorm, x (R, K): gx if `write`; sums (blocks, 2 K), float64, whose row 0
    receives those of gamma and beta.  Every row is read from memory once.

    recent, like sums but of x's type, accumulates FEW rows.
    """
    rows, size = x.shape
    blocks = len(sums)
    for block in prange(blocks):
        b = np.int64(block)
        own, near = sums[b], recent[b]
        slopes, shifts = near[:size], near[size:]
        totals, shares = stack_buffer(np.float64), stack_buffer(x.dtype)
        first, stop = b * rows // blocks, (b + 1) * rows // blocks
        for some in range(first, stop, FEW):
            for k in range(2 * size):
                near[k] = 0
            for r in range(some, min(some + FEW, stop)):
                at, steps = (r * size, r, r, 0), (size, flags)
                row_grad_sums(g, x, gamma, mean, std, slopes, shifts, totals, at, steps)
                if write:
                    total, along = totals[:2]
                    shares[0], shares[1] = total / size, along / size
                    row_grad(g, x, gamma, mean, std, shares, gx, at, steps)
            for k in range(2 * size):
                own[k] = near[k] + (own[k] if some > first else 0.0)
        store_fence(gx)
    for tile in prange((2 * size + TILE - 1) // TILE):
        left = np.uint64(np.int64(tile) * TILE)
        right = min(left + np.uint64(TILE), np.uint64(2 * size))
        for part in range(1, blocks):
            for column in range(left, right):
                sums[0, column] += sums[part, column]


@dataclass(frozen=True)
class LayerNorm(FloatOp, name="LayerNorm"):
    """y = gamma (x - mean) / sqrt(var + eps) + beta along `axis`, for each position elsewhere.

    gamma and beta are (K,), K the length of `axis`.  Outputs 1 and 2 (visible with
    `output_mean_var`) are mean and sqrt(var + eps), shaped like data with 1 for `axis`; their
    gradients are ignored.
    """

    axis: int = -1
    eps: float = 1e-5
    output_mean_var: bool = False

    inputs: ClassVar = ("data", "gamma", "beta")
    outputs: ClassVar = ("output", "mean", "std")
    needs: ClassVar = ("ograd", "data", "gamma", "mean", "std")
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = ()

    @property
    def num_visible(self) -> int:
        return 3 if self.output_mean_var else 1

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, outs
        axis = normalize_axis(self.axis, len(data))
        rest = (*data[:axis], 1, *data[axis + 1:])
        return [data] + [(data[axis],)] * 2, [data, rest, rest]

    def scratch(self, ins, outs):
        return [outs[1], outs[2], *self._row_specs(ins[0], 2)]

    def backward_scratch(self, ins, outs):
        size, = ins[2].shape
        # The number of partial sums depends on the rows only, so rounding is equal on any machine.
        blocks = max(1, min(ins[1].size // size // 16, 32))
        sums = [Spec((blocks, 2 * size), dtype) for dtype in (np.dtype(np.float64), ins[1].dtype)]
        return [*sums, *self._row_specs(ins[0], 3)]

    def _row_specs(self, data: Spec, count: int) -> list[Spec]:
        """Workspace for `count` tensors like data with `axis` moved last, unless it is last."""
        if self.axis in (-1, len(data.shape) - 1):
            return []
        return [Spec((data.size // data.shape[self.axis], data.shape[self.axis]), data.dtype)
                ] * count

    def _rows(self, tensor: np.ndarray, spare: np.ndarray | None
              ) -> tuple[Any, list[Run], list[Run]]:
        """(`tensor` as rows, functions that fill them, functions that write them back)."""
        if self.axis in (-1, tensor.ndim - 1):
            return tensor.reshape(-1, tensor.shape[-1]), [], []
        moved = np.moveaxis(tensor, self.axis, -1)
        assert spare is not None
        rows = spare.reshape(moved.shape)
        return spare, [partial(np.copyto, rows, moved)], [partial(np.copyto, moved, rows)]

    def prepare(self, ins, outs, call):
        data, gamma, beta = ins
        mean, std = (spare if out is None else out
                     for spare, out in zip(call.scratch, outs[1:], strict=False))
        spare_x, spare_y = [*call.scratch[2:4], None, None][:2]
        x, load, _ = self._rows(data, spare_x)
        y, _, store = self._rows(outs[0], spare_y)
        tensors = (x, gamma, beta, mean.reshape(-1), std.reshape(-1), y, as_float32(self.eps))
        normalize = (partial(_short_rows, *tensors) if x.shape[1] < LONG else
                     partial(_long_rows, *tensors, STREAM * bypasses_cache(y, x)))
        return all_of([*load, normalize, *store])

    def prepare_backward(self, ins, outs, call):
        ograd, data, gamma, mean, std = ins
        (sums, recent), spare = call.scratch[:2], [*call.scratch[2:5], None, None, None]
        g, load_g, _ = self._rows(ograd, spare[0])
        x, load_x, _ = self._rows(data, spare[1])
        write = outs[0] is not None
        gx, _, store = self._rows(outs[0], spare[2]) if write else (g, [], [])
        flags = STREAM * (write and bypasses_cache(gx, g, x))
        differentiate = partial(_layer_backward, g, x, gamma, mean.reshape(-1), std.reshape(-1), gx,
                                sums, recent, write, flags)
        totals = [partial(np.copyto, out, total)
                  for out, total in zip(outs[1:], np.split(sums[0], 2), strict=True)
                  if out is not None]
        return all_of([*load_g, *load_x, differentiate, *store, *totals])


class _SampleNorm(FloatOp):
    """Base of norms over rows (N, G, K) of each sample, with one gamma and beta per row.

    Output 2 is sqrt(var + eps).
    """

    inputs: ClassVar = ("data", "gamma", "beta")
    outputs: ClassVar = ("output", "mean", "std")
    needs: ClassVar = ("ograd", "data", "gamma", "mean", "std")
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)
    eps: float

    def groups(self, data: tuple[int, ...]) -> int:
        """Rows per sample, 0 if unknown; ShapeMismatch for unsuitable data."""
        raise NotImplementedError

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, outs
        groups = self.groups(data)
        rows = (data[0], groups)
        return [data, (groups,), (groups,)], [data, rows, rows]

    def scratch(self, ins, outs):
        return [outs[1]] * 4

    def backward_scratch(self, ins, outs):
        return [ins[3]] * 5

    def prepare(self, ins, outs, call):
        data, gamma, beta = ins
        gammas, betas, mean, invstd = call.scratch[:4]
        mean = mean if outs[1] is None else outs[1]
        x, y = (tensor.reshape(1, gammas.size, -1) for tensor in (data, outs[0]))
        if x.shape[2] >= LONG:
            std = invstd if outs[2] is None else outs[2]
            return partial(_long_rows, x[0], gamma, beta, mean.reshape(-1), std.reshape(-1), y[0],
                           as_float32(self.eps), SCALAR_AFFINE | STREAM * bypasses_cache(y, x))
        flat = [array.reshape(-1) for array in (gammas, betas, mean, invstd)]

        def run() -> None:
            gammas[...] = gamma
            betas[...] = beta
            _forward_runs(x, *flat, y, as_float32(self.eps))
            if outs[2] is not None:
                np.reciprocal(invstd, out=outs[2])

        return run

    def prepare_backward(self, ins, outs, call):
        ograd, data, gamma, mean, std = ins
        gammas, invstd, ggamma, gbeta = call.scratch[:4]
        g, x = (tensor.reshape(1, std.size, -1) for tensor in (ograd, data))
        write = outs[0] is not None
        gx = outs[0].reshape(x.shape) if write else g
        flat = [array.reshape(-1) for array in (gammas, mean, invstd)]
        grads = [array.reshape(-1) for array in (ggamma, gbeta)]

        def run() -> None:
            gammas[...] = gamma
            np.reciprocal(std, out=invstd)
            _backward_runs(g, x, *flat, gx, *grads, False, write)
            for out, rows in zip(outs[1:], (ggamma, gbeta), strict=True):
                if out is not None:
                    np.sum(rows, axis=0, out=out)

        return run


@dataclass(frozen=True)
class InstanceNorm(_SampleNorm, name="InstanceNorm"):
    """y = gamma (x - mean) / sqrt(var + eps) + beta over the pixels of each channel of each sample.

    data (N, C, ...), gamma and beta (C,).
    """

    eps: float = 1e-3

    num_visible: ClassVar = 1

    def groups(self, data):
        require_rank(data, 2, "at least (N, C)")
        return data[1]


@dataclass(frozen=True)
class GroupNorm(_SampleNorm, name="GroupNorm"):
    """y = gamma (x - mean) / sqrt(var + eps) + beta over groups of channels of each sample.

    data (N, C, ...) with C a multiple of `num_groups` = G.  gamma and beta are (G,): one per group,
    as in MXNet 1.9, not one per channel.  Outputs 1 and 2 (visible with `output_mean_var`) are mean
    and sqrt(var + eps), (N, G); their gradients are ignored.
    """

    num_groups: int = 1
    eps: float = 1e-5
    output_mean_var: bool = False

    @property
    def num_visible(self) -> int:
        return 3 if self.output_mean_var else 1

    def groups(self, data):
        require_rank(data, 3, "at least 3 dimensions: (N, C, L)")
        if self.num_groups < 1 or data[1] % self.num_groups:
            raise ShapeMismatch(f"num_groups is {self.num_groups}, expected a divisor of the "
                                f"{data[1]} channels of data {data}")
        return self.num_groups
