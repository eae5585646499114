"""Correlation with NumPy: a displacement at a time, on shifted views of both images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..dispatch import REFERENCE, implements
from ..image.correlation import Correlation
from ..op import Call

__all__: list[str] = []


def _padded(op: Correlation, images: np.ndarray) -> Any:
    """Images (N, C, H, W) with zeros around."""
    return np.pad(images, ((0, 0), (0, 0), *[(op.pad_size, op.pad_size)] * 2))


def _inner(op: Correlation, padded: np.ndarray) -> Any:
    height, width = padded.shape[2:]
    return padded[:, :, op.pad_size:height - op.pad_size, op.pad_size:width - op.pad_size]


def _displacements(op: Correlation) -> Iterator[tuple[int, int]]:
    """(down, across) of each channel of the output."""
    most = op.max_displacement // op.stride2
    for at in np.ndindex(2 * most + 1, 2 * most + 1):
        yield (at[0] - most) * op.stride2, (at[1] - most) * op.stride2


def _taps(op: Correlation, images: Any, out: Sequence[int], moved: tuple[int, int] = (0, 0)
         ) -> Iterator[Any]:
    """For each pixel of a patch, what it is in all patches: views (..., OH, OW) of padded images
    (..., PH, PW)."""
    for tap in np.ndindex(op.kernel_size, op.kernel_size):
        starts = [op.max_displacement + t + by for t, by in zip(tap, moved, strict=True)]
        yield images[(..., *(slice(start, start + (count - 1) * op.stride1 + 1, op.stride1)
                             for start, count in zip(starts, out, strict=True)))]


def _scale(op: Correlation, images: np.ndarray) -> Any:
    return images.dtype.type(1 / (op.kernel_size ** 2 * images.shape[1]))


def _correlation(op: Correlation, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    a, b = (_padded(op, images) for images in ins)
    size = outs[0].shape[2:]
    for d, moved in enumerate(_displacements(op)):
        pairs = zip(_taps(op, a, size), _taps(op, b, size, moved), strict=True)
        outs[0][:, d] = sum((p * q if op.is_multiply else abs(p - q)).sum(axis=1)
                            for p, q in pairs) * _scale(op, a)


def _correlation_gradient(op: Correlation, ins: Sequence[Any], outs: Sequence[Any], call: Call
                         ) -> None:
    g, (a, b) = ins[0], (_padded(op, images) for images in ins[1:])
    ga, gb = np.zeros_like(a), np.zeros_like(b)
    for d, moved in enumerate(_displacements(op)):
        weight = np.zeros((len(a), 1, *a.shape[2:]), a.dtype)
        for seen in _taps(op, weight[:, 0], g.shape[2:]):
            seen += g[:, d]
        weight *= _scale(op, a)
        first, second = ((..., *axes) for axes in zip(*map(_overlap, moved, a.shape[2:]),
                                                      strict=True))
        w, p, q = weight[first], a[first], b[second]
        if op.is_multiply:
            of_p, of_q = w * q, w * p
        else:
            of_p, of_q = np.where(p >= q, w, -w), np.where(q > p, w, -w)
        ga[first] += np.where(w != 0, of_p, 0)
        gb[second] += np.where(w != 0, of_q, 0)
    for out, grad in zip(outs, (ga, gb), strict=True):
        if out is not None:
            out[...] = _inner(op, grad)


def _overlap(moved: int, size: int) -> tuple[slice, slice]:
    """Pixels along an axis that have a partner when moved, and these partners."""
    return slice(max(-moved, 0), size - max(moved, 0)), slice(max(moved, 0), size + min(moved, 0))


implements(Correlation, REFERENCE, _correlation, _correlation_gradient)
