"""BatchNorm (Ioffe and Szegedy 2015): channels normalised to zero mean and unit variance.

The channel axis splits a tensor in three: x is (N, C, S).  With S > 1 (NCHW) a channel is N runs of
contiguous elements and a task processes a whole channel, whose elements are in cache for the second
pass.  With S = 1 (dense layers, NHWC) adjacent elements are different channels, and a task
processes a block of samples; the number of blocks depends on the shape alone.  Either way results
do not depend on the number of threads.

Mean and variance are computed in one pass, from float64 sums of differences to the channel's first
element (shifted data: Chan, Golub and LeVeque 1983), so nothing cancels for a mean far from zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ..elementwise.float_op import FloatOp, accumulator, as_float32, require_float
from ..jit import kernel, prange
from ..op import Spec, all_of
from ..shape import normalize_axis, size_of, unify, unify_all

__all__ = ["BatchNorm", "BatchNormOp", "FusedBatchNorm", "SyncBatchNorm", "inverse_deviation"]

EPS = 1.0000000474974513e-3
"""MXNet's default, which is a float32 although eps is a float64."""


@kernel(parallel=True, fastmath=True)
def _forward_runs(x, gamma, beta, mean, invstd, y, eps):
    """Compute the statistics of each channel of x (N, C, S), then y."""
    samples, channels, size = x.shape
    for c in prange(channels):
        first = np.float64(x[0, c, 0])
        total, squares = 0.0, 0.0
        for n in range(samples):
            for s in range(size):
                d = np.float64(x[n, c, s]) - first
                total += d
                squares += d * d
        off = total / (samples * size)
        mean[c] = first + off
        invstd[c] = 1 / np.sqrt(max(squares / (samples * size) - off * off, 0.0) + eps)
        m, scale, shift = mean[c], gamma[c] * invstd[c], beta[c]
        for n in range(samples):
            for s in range(size):
                y[n, c, s] = (x[n, c, s] - m) * scale + shift


@kernel(parallel=True, fastmath=True)
def _forward_columns(x, gamma, beta, mean, invstd, y, eps, sums):
    """Compute the statistics of channels of x (N, C), then y; sums is float64 (blocks, 2, C)."""
    samples, channels = x.shape
    blocks = len(sums)
    for b in prange(blocks):
        for c in range(channels):
            sums[b, 0, c] = 0.0
            sums[b, 1, c] = 0.0
        for n in range(b * samples // blocks, (b + 1) * samples // blocks):
            for c in range(channels):
                d = np.float64(x[n, c]) - np.float64(x[0, c])
                sums[b, 0, c] += d
                sums[b, 1, c] += d * d
    for c in range(channels):
        for b in range(1, blocks):
            sums[0, 0, c] += sums[b, 0, c]
            sums[0, 1, c] += sums[b, 1, c]
        off = sums[0, 0, c] / samples
        mean[c] = np.float64(x[0, c]) + off
        invstd[c] = 1 / np.sqrt(max(sums[0, 1, c] / samples - off * off, 0.0) + eps)
    for n in prange(samples):
        for c in range(channels):
            y[n, c] = (x[n, c] - mean[c]) * (gamma[c] * invstd[c]) + beta[c]


@kernel(parallel=True, fastmath=True)
def _apply_runs(x, gamma, beta, mean, invstd, y):
    """Compute y from given statistics, x (N, C, S)."""
    samples, channels, size = x.shape
    for row in prange(samples * channels):
        n, c = row // channels, row % channels
        m, scale, shift = mean[c], gamma[c] * invstd[c], beta[c]
        for s in range(size):
            y[n, c, s] = (x[n, c, s] - m) * scale + shift


@kernel(parallel=True, fastmath=True)
def _apply_columns(x, gamma, beta, mean, invstd, y):
    """Compute y from given statistics, x (N, C)."""
    samples, channels = x.shape
    for n in prange(samples):
        for c in range(channels):
            y[n, c] = (x[n, c] - mean[c]) * (gamma[c] * invstd[c]) + beta[c]


@kernel(parallel=True, fastmath=True)
def _backward_runs(g, x, gamma, mean, invstd, gx, ggamma, gbeta, constant, write):
    """Gradients for x (N, C, S), gx only with `write`; `constant`: statistics independent of x."""
    samples, channels, size = x.shape
    for c in prange(channels):
        m, inv = mean[c], invstd[c]
        total, along = 0.0, 0.0
        for n in range(samples):
            for s in range(size):
                total += np.float64(g[n, c, s])
                along += np.float64(g[n, c, s] * (x[n, c, s] - m))
        gbeta[c] = total
        ggamma[c] = along * inv
        if not write:
            continue
        share = 0.0 if constant else 1 / (samples * size)
        scale = gamma[c] * inv
        flat, slope = x.dtype.type(total * share), x.dtype.type(along * share * inv * inv)
        for n in range(samples):
            for s in range(size):
                gx[n, c, s] = (g[n, c, s] - flat - (x[n, c, s] - m) * slope) * scale


@kernel(parallel=True, fastmath=True)
def _backward_columns(g, x, gamma, mean, invstd, gx, ggamma, gbeta, constant, write, sums):
    """Gradients for x (N, C), see `_backward_runs`; sums is float64 (blocks, 2, C)."""
    samples, channels = x.shape
    blocks, kind = len(sums), x.dtype.type
    share = 0.0 if constant else 1 / samples
    for b in prange(blocks):
        for c in range(channels):
            sums[b, 0, c] = 0.0
            sums[b, 1, c] = 0.0
        for n in range(b * samples // blocks, (b + 1) * samples // blocks):
            for c in range(channels):
                sums[b, 0, c] += np.float64(g[n, c])
                sums[b, 1, c] += np.float64(g[n, c] * (x[n, c] - mean[c]))
    for c in range(channels):
        for b in range(1, blocks):
            sums[0, 0, c] += sums[b, 0, c]
            sums[0, 1, c] += sums[b, 1, c]
        gbeta[c] = sums[0, 0, c]
        ggamma[c] = sums[0, 1, c] * invstd[c]
        sums[0, 0, c] *= share
        sums[0, 1, c] *= share * invstd[c] * invstd[c]
    written = samples if write else 0
    for n in prange(written):
        for c in range(channels):
            slope = kind(sums[0, 1, c])
            centred = g[n, c] - kind(sums[0, 0, c]) - (x[n, c] - mean[c]) * slope
            gx[n, c] = centred * (gamma[c] * invstd[c])


def blocks_of(rows: int) -> int:
    """Number of partial sums over `rows`; it depends on `rows` alone, so that rounding is the same
    for any number of threads."""
    return max(1, min(rows // 64, 32))


class BatchNormOp(FloatOp):
    """Base of all forms of BatchNorm."""

    inputs: ClassVar = ("data", "gamma", "beta", "moving_mean", "moving_var")
    outputs: ClassVar = ("output", "mean", "var")
    aux: ClassVar = ("moving_mean", "moving_var")
    needs: ClassVar[tuple[str, ...]] = ("ograd", "data", "gamma", "mean", "var", "moving_mean",
                                        "moving_var")
    inplace: ClassVar[tuple[tuple[str, str], ...]] = (("data", "output"),)
    inplace_backward: ClassVar[tuple[tuple[str, str], ...]] = (("ograd", "data"),)
    init: ClassVar = {"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'}
    # Epilogue in the same op: see `FusedBatchNorm`.
    add: ClassVar = False
    relu: ClassVar = False
    most: ClassVar = np.inf
    shows_variance: ClassVar = False
    """Whether output 2 is the variance instead of the inverse deviation."""

    eps: float
    momentum: float
    fix_gamma: bool
    use_global_stats: bool
    output_mean_var: bool
    axis: int

    @property
    def num_visible(self) -> int:
        return 3 if self.output_mean_var else 1

    @property
    def is_pure(self) -> bool:
        """The forward pass only reads the moving statistics, and does not in training."""
        return not self.use_global_stats

    def writes_aux(self, is_train):
        return is_train or self.fix_gamma

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, outs
        channels = (data[normalize_axis(self.axis, len(data))],)
        return [data] + [channels] * 4, [data] + [channels] * 2

    def infer_type(self, ins, outs):
        data = ins[0] or outs[0]
        require_float(self, [data])
        if data is None:
            return ins, outs
        statistics = accumulator(data)
        return [data] + [statistics] * 4, [data] + [statistics] * 2

    def _split(self, tensor: np.ndarray) -> Any:
        """`tensor` as (N, C, S), or (N, C) where S is 1."""
        axis = self.axis % tensor.ndim
        before, after = size_of(tensor.shape[:axis]), size_of(tensor.shape[axis + 1:])
        channels = tensor.shape[axis]
        return tensor.reshape((before, channels) if after == 1 else (before, channels, after))

    def scratch(self, ins, outs):
        return self._channel_scratch(ins[0], outs[1])

    def backward_scratch(self, ins, outs):
        return self._channel_scratch(ins[1], ins[2])

    def _channel_scratch(self, data: Spec, statistics: Spec) -> list[Spec]:
        """Sums of blocks, then four arrays like gamma: ones, and temporaries."""
        axis, shape = self.axis % len(data.shape), data.shape
        blocks = blocks_of(size_of(shape[:axis])) if size_of(shape[axis + 1:]) == 1 else 0
        return [Spec((blocks, 2, *statistics.shape), np.dtype(np.float64)), *[statistics] * 4]

    def prepare(self, ins, outs, call):
        data, gamma, beta, moving_mean, moving_var = ins
        sums, ones, *spare = call.scratch
        mean, invstd = (spare if out is None else out
                        for spare, out in zip(spare, outs[1:], strict=False))
        x, y = self._split(data), self._split(outs[0])
        tensors, runs = (x, ones if self.fix_gamma else gamma, beta, mean, invstd, y), x.ndim == 3
        # MXNet does this in every eager call, but in executors only if they can train.
        trains = not call.specs or outs[1] is not None

        def run() -> None:
            if self.fix_gamma:
                ones.fill(1)
                if trains:
                    gamma.fill(1)
            if call.is_train and not self.use_global_stats:
                if runs:
                    _forward_runs(*tensors, self.eps)
                else:
                    _forward_columns(*tensors, self.eps, sums)
                return
            np.copyto(mean, moving_mean)
            inverse_deviation(moving_var, self.eps, invstd)
            (_apply_runs if runs else _apply_columns)(*tensors)

        return run

    def prepare_backward(self, ins, outs, call):
        ograd, data, gamma, mean, invstd, moving_mean, moving_var = ins
        sums, ones, fixed, *spare = call.scratch
        g, x, write = self._split(ograd), self._split(data), outs[0] is not None
        gx = self._split(outs[0]) if write else g
        ggamma, gbeta = (spare if out is None else out
                         for spare, out in zip(spare, outs[1:3], strict=False))
        scale = ones if self.fix_gamma else gamma

        def run() -> None:
            constant = self.use_global_stats or not call.is_train
            ones.fill(1)
            if constant:
                inverse_deviation(moving_var, self.eps, fixed)
            statistics = (moving_mean, fixed) if constant else (mean, invstd)
            tensors = (g, x, scale, *statistics, gx, ggamma, gbeta, constant, write)
            if x.ndim == 3:
                _backward_runs(*tensors)
            else:
                _backward_columns(*tensors, sums)
            if self.fix_gamma:
                ggamma.fill(0)
            if not constant:
                self.update_moving(moving_mean, moving_var, mean, invstd)

        return run

    def update_moving(self, moving_mean: np.ndarray, moving_var: np.ndarray, mean: np.ndarray,
                      invstd: np.ndarray) -> None:
        """Update the moving statistics from those of a batch."""
        momentum = as_float32(self.momentum)
        variance = 1 / np.square(invstd) - invstd.dtype.type(self.eps)
        for moving, batch in ((moving_mean, mean), (moving_var, variance)):
            moving *= momentum
            moving += batch * moving.dtype.type(1 - momentum)


def inverse_deviation(variance: np.ndarray, eps: float, out: np.ndarray) -> None:
    """out = 1 / sqrt(variance + eps)."""
    np.add(variance, variance.dtype.type(eps), out=out)
    np.sqrt(out, out=out)
    np.reciprocal(out, out=out)


@dataclass(frozen=True)
class BatchNormParameters:
    """Parameters of BatchNorm, of floats and of 8-bit integers."""

    eps: float = EPS
    momentum: float = 0.9
    fix_gamma: bool = True
    use_global_stats: bool = False
    output_mean_var: bool = False
    axis: int = 1
    cudnn_off: bool = False
    min_calib_range: float | None = None
    max_calib_range: float | None = None


@dataclass(frozen=True)
class BatchNorm(BatchNormParameters, BatchNormOp, name="BatchNorm",
                aliases=("BatchNorm_v1", "CuDNNBatchNorm")):
    """y = gamma (x - mean) / sqrt(var + eps) + beta, per channel along `axis`.

    In training mean and (biased) variance are the batch's, in inference and with `use_global_stats`
    the moving ones.  Data of any rank; gamma, beta and the moving statistics are (C,), and float32
    where the data is float16.  Outputs 1 and 2 are the mean and 1 / sqrt(var + eps) that were used;
    `output_mean_var` makes them visible.

    As in MXNet, `fix_gamma` (the default) means gamma = 1, and a forward pass of an executor that
    can train writes these ones into the array; moving statistics are updated in the backward pass,
    to momentum moving + (1 - momentum) batch; gradients of outputs 1 and 2 are ignored.
    """


@dataclass(frozen=True)
class SyncBatchNorm(BatchNormOp, name="_contrib_SyncBatchNorm"):
    """BatchNorm over axis 1 with statistics meant to span the `ndev` devices that share `key`.

    The statistics are those of each device's own batch, which is what MXNet computes for one.
    With `output_mean_var` outputs 1 and 2 are the mean and the variance that were used.  (MXNet
    leaves them unset where these are the moving ones.)
    """

    shapes: ClassVar = "data and output (N, C, ...), all others (C,)"
    eps: float = EPS
    momentum: float = 0.9
    fix_gamma: bool = True
    use_global_stats: bool = False
    output_mean_var: bool = False
    ndev: int = 1
    key: str = field(kw_only=True)
    axis: ClassVar = 1  # type: ignore[misc]
    shows_variance = property(lambda self: self.output_mean_var)

    def prepare(self, ins, outs, call):
        variance = outs[2] if self.shows_variance else None
        if variance is None:
            return super().prepare(ins, outs, call)
        data, moving_var = ins[0], ins[4]
        normalize = super().prepare(ins, [*outs[:2], None], call)
        others = tuple(axis for axis in range(data.ndim) if axis != self.axis)

        def run() -> None:
            if call.is_train and not self.use_global_stats:
                np.copyto(variance, np.var(data, axis=others, dtype=np.float64))
            else:
                np.copyto(variance, moving_var)
            normalize()

        return run

    def prepare_backward(self, ins, outs, call):
        if not self.shows_variance:
            return super().prepare_backward(ins, outs, call)
        *tensors, variance, moving_mean, moving_var = ins
        invstd = np.empty_like(variance)
        return all_of([partial(inverse_deviation, variance, self.eps, invstd),
                       super().prepare_backward([*tensors, invstd, moving_mean, moving_var], outs,
                                                 call)])


@dataclass(frozen=True)
class FusedBatchNorm(BatchNormOp):
    """BatchNorm `norm` with an epilogue: `add` adds a tensor like data, `relu` clips to [0, most].

    Made by `passes.optimize.fuse_epilogue`.  This op is for GPUs; `ops.blocked` has one for CPUs.
    """

    norm: BatchNormOp
    add: bool = field(default=False, kw_only=True)  # type: ignore[misc]
    relu: bool = field(default=False, kw_only=True)  # type: ignore[misc]
    most: float = field(default=np.inf, kw_only=True)  # type: ignore[misc]

    name: ClassVar = "_fused_batch_norm"
    inplace: ClassVar = (("data", "output"), ("add", "output"))
    inplace_backward: ClassVar = (("ograd", "add"), ("data", "data"), ("ograd", "data"))
    num_visible: ClassVar = 1

    eps = property(lambda self: self.norm.eps)
    momentum = property(lambda self: self.norm.momentum)
    fix_gamma = property(lambda self: self.norm.fix_gamma)
    use_global_stats = property(lambda self: self.norm.use_global_stats)
    axis = property(lambda self: self.norm.axis)

    def list_inputs(self) -> tuple[str, ...]:
        data, *rest = self.inputs
        return (data, *["add"] * self.add, *rest)

    def list_needs(self) -> tuple[str, ...]:
        """The mask of the clip is recomputed from data or, after an addition, read from the output.
        """
        return (*self.needs, *["output" if self.add else "beta"] * self.relu)

    def infer_shape(self, ins, outs):
        added = ins[1:1 + self.add]
        data = unify_all([ins[0], *added, outs[0]], "data, what is added and output")
        (_, *parameters), outs = super().infer_shape([data, *ins[1 + self.add:]], [data, *outs[1:]])
        return [data] * (1 + self.add) + parameters, outs

    def infer_type(self, ins, outs):
        (data, *parameters), outs = super().infer_type([ins[0], *ins[1 + self.add:]], outs)
        return [data] * (1 + self.add) + parameters, outs

    def prepare(self, ins, outs, call):
        raise MXNetError(f"{self.name} cannot be executed on the CPU")

    prepare_backward = prepare
