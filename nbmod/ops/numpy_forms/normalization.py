"""Normalization layers with NumPy, and their gradients.

The gradient of y = gamma (x - mean) / std + beta over n elements that share mean and std is, with
h the normalized x and v = gamma g,  (v - sum(v) / n - h sum(v h) / n) / std.  Gradients may lie in
the memory of what they are computed from, so they are written last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import REFERENCE, implements
from ..elementwise.float_op import as_float32
from ..nn.batch_norm import BatchNorm, BatchNormOp, SyncBatchNorm, inverse_deviation
from ..nn.batch_norm_relu import BatchNormWithReLU
from ..nn.layer_norm import GroupNorm, InstanceNorm, LayerNorm
from ..nn.lrn_l2 import LRN, L2Normalization
from ..op import Call

__all__ = ["batch_norm", "batch_norm_gradient"]


def batch_norm(op: BatchNormOp, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """BatchNorm and its variants."""
    data, gamma, beta, mean, variance = ins
    if op.fix_gamma and (not call.specs or outs[1] is not None):
        gamma.fill(1)       # as `BatchNorm.compiled` does
    channels, others = _along(data, op.axis)
    if call.is_train and not op.use_global_stats:
        mean, variance = (statistic(data, axis=others, dtype=np.float64).astype(mean.dtype)
                          for statistic in (np.mean, np.var))
    invstd = np.empty_like(variance)
    inverse_deviation(variance, op.eps, invstd)
    scale = invstd if op.fix_gamma else gamma * invstd
    y = np.subtract(data, mean.reshape(channels), out=outs[0])
    y *= scale.reshape(channels)
    y += beta.reshape(channels)
    if op.relu:
        np.maximum(y, 0, out=y)
    _store(outs, mean, variance if op.shows_variance else invstd)


def _along(data: np.ndarray, axis: int) -> tuple[list[int], tuple[int, ...]]:
    """The shape of a vector along an axis of data, and the other axes."""
    shape = [1] * data.ndim
    shape[axis] = -1
    return shape, tuple(other for other in range(data.ndim) if other != axis % data.ndim)


def batch_norm_gradient(op: BatchNormOp, ins: Sequence[Any], outs: Sequence[Any], call: Call
                        ) -> None:
    """Gradients of BatchNorm and its variants; updates the moving statistics, as their op does."""
    g, data, gamma, mean, spread, moving_mean, moving_var, *y = ins
    if op.relu:
        g = np.where(y[0] > 0, g, y[0])     # 0 or NaN
    channels, others = _along(data, op.axis)
    constant = op.use_global_stats or not call.is_train
    batch_mean, mean = mean, moving_mean if constant else mean
    invstd = spread
    if constant or op.shows_variance:
        invstd = np.empty_like(spread)
        inverse_deviation(moving_var if constant else spread, op.eps, invstd)
    normalized = (data - mean.reshape(channels)) * invstd.reshape(channels)
    gbeta, ggamma = (np.sum(terms, axis=others, dtype=np.float64).astype(gamma.dtype)
                     for terms in (g, g * normalized))
    if outs[0] is not None:
        scale = (invstd if op.fix_gamma else gamma * invstd).reshape(channels)
        count = data.dtype.type(data.size / gamma.size)
        shared = 0 if constant else (
            gbeta.reshape(channels) + normalized * ggamma.reshape(channels)) / count
        np.multiply(g - shared, scale, out=outs[0])
    _store(outs, np.zeros_like(gamma) if op.fix_gamma else ggamma, gbeta)
    if not constant:
        op.update_moving(moving_mean, moving_var, batch_mean, invstd)


def _layer_norm(op: LayerNorm, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    data, gamma, beta = ins
    along, _ = _along(data, op.axis)
    y = outs[0]
    mean, std = _standardize(data, op.axis, op.eps, y)
    y *= gamma.reshape(along)
    y += beta.reshape(along)
    _store(outs, mean, std)


def _layer_norm_gradient(op: LayerNorm, ins: Sequence[Any], outs: Sequence[Any], call: Call
                        ) -> None:
    g, data, gamma, mean, std = ins
    along, others = _along(data, op.axis)
    normalized = (data - mean) / std
    sums = [np.sum(terms, axis=others) for terms in (g * normalized, g)]
    if outs[0] is not None:
        outs[0][...] = _gradient(g * gamma.reshape(along), normalized, std, op.axis)
    _store(outs, *sums)


def _sample_norm_gradient(op: GroupNorm | InstanceNorm, ins: Sequence[Any], outs: Sequence[Any],
                          call: Call) -> None:
    gamma, mean, std = ins[2], ins[3][..., None], ins[4][..., None]
    g, data = (array.reshape(*ins[3].shape, -1) for array in ins[:2])
    normalized = (data - mean) / std
    sums = [np.sum(terms, axis=(0, 2)) for terms in (g * normalized, g)]
    if outs[0] is not None:
        outs[0][...] = _gradient(g * gamma[:, None], normalized, std, 2).reshape(outs[0].shape)
    _store(outs, *sums)


def _gradient(v: np.ndarray, normalized: np.ndarray, std: np.ndarray, axis: int) -> Any:
    """(v - mean(v) - h mean(v h)) / std along an axis."""
    along = np.mean(v * normalized, axis=axis, keepdims=True)
    return (v - np.mean(v, axis=axis, keepdims=True) - normalized * along) / std


def _sample_norm(op: GroupNorm | InstanceNorm, ins: Sequence[Any], outs: Sequence[Any], call: Call
                ) -> None:
    data, gamma, beta = ins
    rows, y = (array.reshape(len(data), gamma.size, -1) for array in (data, outs[0]))
    mean, std = _standardize(rows, 2, op.eps, y)
    y *= gamma[:, None]
    y += beta[:, None]
    _store(outs, mean, std)


def _standardize(x: np.ndarray, axis: int, eps: float, y: np.ndarray) -> tuple[Any, Any]:
    """y = (x - mean) / std along an axis; mean and std, with 1 for it."""
    mean = x.mean(axis=axis, keepdims=True, dtype=np.float64).astype(x.dtype)
    np.subtract(x, mean, out=y)
    variance = np.mean(y * y, axis=axis, keepdims=True, dtype=np.float64)
    std = np.sqrt(variance + as_float32(eps)).astype(x.dtype)
    y /= std
    return mean, std


def _store(outs: Sequence[Any], *statistics: np.ndarray) -> None:
    """Write the hidden outputs that are wanted."""
    for out, values in zip(outs[1:], statistics, strict=False):
        if out is not None:
            out[...] = values.reshape(out.shape)


def _l2_normalization(op: L2Normalization, ins: Sequence[Any], outs: Sequence[Any], call: Call
                     ) -> None:
    x = op._view(ins[0])
    norm = np.sqrt((x * x).sum(axis=1, keepdims=True) + as_float32(op.eps))
    np.divide(x, norm, out=op._view(outs[0]))
    _store(outs, norm)


def _l2_normalization_gradient(op: L2Normalization, ins: Sequence[Any], outs: Sequence[Any],
                               call: Call) -> None:
    g, y, gx = (op._view(array) for array in (ins[0], ins[1], outs[0]))
    along = (g * y).sum(axis=1, keepdims=True)
    gx[...] = (g - y * along) / ins[2].reshape(along.shape)


def _window_sums(op: LRN, terms: np.ndarray) -> Any:
    """Sums of terms (N, C, ...) over neighbouring channels."""
    channels, sums = terms.shape[1], np.zeros(terms.shape, terms.dtype)
    radius = min((op.nsize - 1) // 2, channels - 1)
    for offset in range(-radius, radius + 1):
        here = slice(max(-offset, 0), channels - max(offset, 0))
        there = slice(max(offset, 0), channels - max(-offset, 0))
        sums[:, here] += terms[:, there]
    return sums


def _lrn_gradient(op: LRN, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    g, x, y, scale = ins
    kind = x.dtype.type
    shared = kind(2 * op.beta * op.alpha / op.nsize) * x * _window_sums(op, g * y / scale)
    outs[0][...] = g * scale ** kind(-op.beta) - shared


def _lrn(op: LRN, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    x = ins[0]
    scale = _window_sums(op, x * x)
    scale *= x.dtype.type(op.alpha / op.nsize)
    scale += x.dtype.type(op.knorm)
    np.multiply(x, scale ** x.dtype.type(-op.beta), out=outs[0])
    _store(outs, scale)


implements((BatchNorm, BatchNormWithReLU, SyncBatchNorm), REFERENCE, batch_norm,
           batch_norm_gradient)
implements((GroupNorm, InstanceNorm), REFERENCE, _sample_norm, _sample_norm_gradient)
implements(L2Normalization, REFERENCE, _l2_normalization, _l2_normalization_gradient)
implements(LRN, REFERENCE, _lrn, _lrn_gradient)
implements(LayerNorm, REFERENCE, _layer_norm, _layer_norm_gradient)
