"""NumPy forms of the operators here that call kernels: see `ops.numpy_forms`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ops.dispatch import REFERENCE, implements
from ...ops.elementwise.float_op import as_float32
from ...ops.numpy_forms.boxes import shared_sides
from ...ops.op import Call
from ...ops.rules import fill_zero
from .layers import GroupNorm
from .losses import FocalLoss, SigmoidCrossEntropy, divisor
from .proposals import RankedProposals
from .roi_align_v2 import ROIAlign_v2

__all__: list[str] = []


def _store(outs: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    for out, value in zip(outs, values, strict=True):
        if out is not None:
            out[...] = value.reshape(out.shape)


# -- layers and losses ----------------------------------------------------------------------------

def _group_norm(op: GroupNorm, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    x, (gamma, beta) = op.by_group(ins[0]), (each.reshape(op.num_group, -1, 1) for each in ins[1:])
    mean = x.mean(axis=(2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=(2, 3), keepdims=True)
    rate = 1 / np.sqrt(variance + x.dtype.type(as_float32(op.eps)))
    _store(outs, [(x - mean) * rate * gamma + beta, mean, rate])


def _group_norm_gradient(op: GroupNorm, ins: Sequence[Any], outs: Sequence[Any], call: Call
                         ) -> None:
    g, x = map(op.by_group, ins[:2])
    gamma = ins[2].reshape(op.num_group, -1, 1)
    mean, rate = (each[..., None, None] for each in ins[3:])
    normal, v = (x - mean) * rate, g * gamma
    shared = (v.mean(axis=(2, 3), keepdims=True)
              + normal * (v * normal).mean(axis=(2, 3), keepdims=True))
    _store(outs, [rate * (v - shared), (g * normal).sum(axis=(0, 3)), g.sum(axis=(0, 3))])


def _focal_loss(op: FocalLoss, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    outs[0][...] = 1 / (1 + np.exp(-ins[0]))


def _focal_loss_gradient(op: FocalLoss, ins: Sequence[Any], outs: Sequence[Any], call: Call
                         ) -> None:
    p, label, *ograd = ins
    fill_zero(outs[1:])
    if outs[0] is None:
        return
    kind, tiny = p.dtype.type, p.dtype.type(1e-14)
    alpha, gamma = kind(as_float32(op.alpha)), kind(as_float32(op.gamma))
    scale = kind(as_float32(op.grad_scale) / divisor(op.normalization, label))
    label, q = label[..., None], 1 - p
    of_object = scale * alpha * q ** gamma * (gamma * p * np.log(p + tiny) - q)
    of_others = scale * (alpha - 1) * p ** gamma * (gamma * q * np.log(q + tiny) - p)
    is_object = np.trunc(label) == np.arange(1, p.shape[2] + 1)
    grad = np.where(label == -1, 0, np.where(is_object, of_object, of_others))
    outs[0][...] = grad * ograd[0] if ograd else grad


def _cross_entropy(op: SigmoidCrossEntropy, ins: Sequence[Any], outs: Sequence[Any], call: Call
                   ) -> None:
    x, label = (array.reshape(len(array), -1) for array in ins)
    terms = np.maximum(x, 0) - x * label + np.log1p(np.exp(-abs(x)))
    outs[0][...] = np.where(label == -1, 0, terms).sum(axis=1) / _counted(label)[:, 0]


def _counted(label: np.ndarray) -> Any:
    """The number of labels (N, K) of each sample that are not ignored, and 1e-5: (N, 1)."""
    return (label != -1).sum(axis=1, keepdims=True) + label.dtype.type(1e-5)


def _cross_entropy_gradient(op: SigmoidCrossEntropy, ins: Sequence[Any], outs: Sequence[Any],
                            call: Call) -> None:
    fill_zero(outs[1:])
    if outs[0] is None:
        return
    x, label, gx = (array.reshape(len(array), -1) for array in (*ins, outs[0]))
    factor = x.dtype.type(as_float32(op.grad_scale)) / (
        _counted(label) if op.normalization == "valid" else 1)
    gx[...] = np.where(label == -1, 0, factor * (1 / (1 + np.exp(-x)) - label))


# -- proposals ------------------------------------------------------------------------------------

def _proposals(op: RankedProposals, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    op.propose(ins, outs, _suppress)


def _suppress(boxes: np.ndarray, order: np.ndarray, keep: np.ndarray, threshold: float,
              equal_too: bool) -> None:
    """NumPy form of the kernel `proposals._suppress`."""
    keep.fill(-1)
    for k in range(keep.size):
        if not order.size:
            break
        keep[k], order = order[0], order[1:]
        a, b = boxes[order], boxes[keep[k]]
        common = np.prod(np.maximum(shared_sides(a, b) + 1, 0), axis=-1)
        with np.errstate(all="ignore"):
            overlap = common / (_area(a) + _area(b) - common)
        order = order[~((overlap > threshold) | (equal_too & (overlap == threshold)))]


def _area(boxes: np.ndarray) -> Any:
    return np.prod(boxes[..., 2:4] - boxes[..., :2] + 1, axis=-1)


# -- regions --------------------------------------------------------------------------------------

class _Taps(NamedTuple):
    """The pixels around points along an axis, and the shares of these pixels."""

    first: np.ndarray
    second: np.ndarray
    share: np.ndarray
    """The share of the second pixel."""

    @classmethod
    def of(cls, at: np.ndarray, size: int) -> _Taps:
        low, high = (np.clip(side(at).astype(np.int64), 0, size - 1)
                     for side in (np.floor, np.ceil))
        return cls(low, high, np.where(low == high, at.dtype.type(0.5), at - low.astype(at.dtype)))

    def pairs(self) -> Iterator[tuple[np.ndarray, Any]]:
        """(pixels, shares) of both sides."""
        yield self.first, 1 - self.share
        yield self.second, self.share


def _points(start: np.floating, step: np.floating, index: int, size: int) -> np.ndarray:
    """The points of a bin along an axis; none of an empty one."""
    kind = type(step)
    low, high = np.clip(start + np.array([index, index + 1], kind) * step, 0, kind(size - 1))
    gap, least, points = (high - low) / kind(3), kind(0.01), []
    at = low + gap
    while high > low and at <= high - gap + least:
        points.append(at)
        at += max(gap, least)
    return np.array(points, kind)


def _roi_align(op: ROIAlign_v2, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    (data, rois), (height, width) = ins, ins[0].shape[2:]
    for out, nothing in zip(outs, (0, -1, -1), strict=True):
        if out is not None:
            out.fill(nothing)
    ends = rois * data.dtype.type(as_float32(op.spatial_scale))
    steps = (ends[..., 2:] - ends[..., :2]) / np.array(outs[0].shape[:2:-1], data.dtype)
    for n, r, i, j in np.ndindex(*rois.shape[:2], *outs[0].shape[3:]):
        v = _points(ends[n, r, 1], steps[n, r, 1], i, height)
        u = _points(ends[n, r, 0], steps[n, r, 0], j, width)
        if v.size and u.size:
            values = sum(down[:, None] * across * data[n][:, rows[:, None], columns]
                         for rows, down in _Taps.of(v, height).pairs()
                         for columns, across in _Taps.of(u, width).pairs())
            values = values.reshape(len(values), -1)
            ranked = np.where(np.isnan(values), -np.inf, values)
            ranked[np.isnan(values[:, 0]), 0] = np.inf      # nothing is larger than a NaN
            best = ranked.argmax(axis=1)
            maxima = values[range(len(values)), best], u[best % u.size], v[best // u.size]
            _store([out if out is None else out[n, r, :, i, j] for out in outs], maxima)


def _roi_align_gradient(op: ROIAlign_v2, ins: Sequence[Any], outs: Sequence[Any], call: Call
                        ) -> None:
    fill_zero(outs)
    gx = outs[0]
    if gx is None:
        return
    g, _, at_x, at_y = ins
    where = np.nonzero((at_x >= 0) & (at_y >= 0))
    for rows, down in _Taps.of(at_y[where], gx.shape[2]).pairs():
        for columns, across in _Taps.of(at_x[where], gx.shape[3]).pairs():
            np.add.at(gx, (where[0], where[2], rows, columns), g[where] * down * across)


implements(FocalLoss, REFERENCE, _focal_loss, _focal_loss_gradient)
implements(GroupNorm, REFERENCE, _group_norm, _group_norm_gradient)
implements(RankedProposals, REFERENCE, _proposals)
implements(ROIAlign_v2, REFERENCE, _roi_align, _roi_align_gradient)
implements(SigmoidCrossEntropy, REFERENCE, _cross_entropy, _cross_entropy_gradient)
