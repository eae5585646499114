"""Normalization layers with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..elementwise.float_op import as_float32
from ..nn.batch_norm import BatchNormOp, inverse_deviation
from ..nn.layer_norm import GroupNorm, InstanceNorm, LayerNorm
from ..nn.lrn_l2 import LRN, L2Normalization
from ..op import Call

__all__ = ["batch_norm", "l2_normalization", "layer_norm", "lrn", "sample_norm"]


def batch_norm(op: BatchNormOp, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """BatchNorm with moving statistics, and its variants."""
    data, gamma, beta, mean, variance = ins
    if op.fix_gamma and (not call.specs or outs[1] is not None):
        gamma.fill(1)       # as `BatchNorm.compiled` does
    invstd = np.empty_like(variance)
    inverse_deviation(variance, op.eps, invstd)
    scale = invstd if op.fix_gamma else gamma * invstd
    channels = [1] * data.ndim
    channels[op.axis] = -1
    y = np.subtract(data, mean.reshape(channels), out=outs[0])
    y *= scale.reshape(channels)
    y += beta.reshape(channels)
    if op.relu:
        np.maximum(y, 0, out=y)
    _store(outs, mean, variance if op.shows_variance else invstd)


def layer_norm(op: LayerNorm, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """LayerNorm."""
    data, gamma, beta = ins
    along = [1] * data.ndim
    along[op.axis] = -1
    y = outs[0]
    mean, std = _standardize(data, op.axis, op.eps, y)
    y *= gamma.reshape(along)
    y += beta.reshape(along)
    _store(outs, mean, std)


def sample_norm(op: GroupNorm | InstanceNorm, ins: Sequence[Any], outs: Sequence[Any], call: Call
                ) -> None:
    """InstanceNorm and GroupNorm."""
    data, gamma, beta = ins
    rows, y = (array.reshape(len(data), gamma.size, -1) for array in (data, outs[0]))
    mean, std = _standardize(rows, 2, op.eps, y)
    y *= gamma[:, None]
    y += beta[:, None]
    _store(outs, mean, std)


def _standardize(x: Any, axis: int, eps: float, y: Any) -> tuple[Any, Any]:
    """y = (x - mean) / std along an axis; mean and std, with 1 for it."""
    mean = x.mean(axis=axis, keepdims=True, dtype=np.float64).astype(x.dtype)
    np.subtract(x, mean, out=y)
    variance = np.mean(y * y, axis=axis, keepdims=True, dtype=np.float64)
    std = np.sqrt(variance + as_float32(eps)).astype(x.dtype)
    y /= std
    return mean, std


def _store(outs: Sequence[Any], *statistics: Any) -> None:
    """Write the hidden outputs that are wanted."""
    for out, values in zip(outs[1:], statistics, strict=True):
        if out is not None:
            out[...] = values.reshape(out.shape)


def l2_normalization(op: L2Normalization, ins: Sequence[Any], outs: Sequence[Any], call: Call
                     ) -> None:
    """L2Normalization."""
    x = op._view(ins[0])
    norm = np.sqrt((x * x).sum(axis=1, keepdims=True) + as_float32(op.eps))
    np.divide(x, norm, out=op._view(outs[0]))
    _store(outs, norm)


def lrn(op: LRN, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """LRN."""
    x, radius, channels = ins[0], (op.nsize - 1) // 2, ins[0].shape[1]
    squares, scale = x * x, np.zeros(x.shape, x.dtype)
    for offset in range(-min(radius, channels - 1), min(radius, channels - 1) + 1):
        here = slice(max(-offset, 0), channels - max(offset, 0))
        there = slice(max(offset, 0), channels - max(-offset, 0))
        scale[:, here] += squares[:, there]
    scale *= x.dtype.type(op.alpha / op.nsize)
    scale += x.dtype.type(op.knorm)
    np.multiply(x, scale ** x.dtype.type(-op.beta), out=outs[0])
    _store(outs, scale)
