"""The range of 8-bit integers that loses least information about a tensor, from its histogram.

Cutting outliers off makes the steps of the integers smaller, but loses the outliers.  For each
symmetric range of whole bins the distribution P of the tensor, with the counts outside added to the
outermost bins, is compared with the distribution Q that remains after quantization: the bins are
merged into as many as there are integers, and spread again over those that were not empty.  The
range with the least Kullback-Leibler divergence

    D(P || Q) = sum P log(P / Q)

wins (S. Migacz, "8-bit inference with TensorRT", 2017).  Sums over bins are differences of prefix
sums, so that a candidate costs a few passes over its bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..op import Call, Op, Types
from ..shape import ShapeMismatch, Shapes, unify
from .ranges import FLOAT, merge_types

__all__ = ["CalibrateEntropy", "smooth_distribution"]


@dataclass(frozen=True)
class CalibrateEntropy(Op, name="_contrib_calibrate_entropy"):
    """The end t of the range [-t, t] with the least divergence, and that divergence, (1,) each.

    hist (B,), hist_edges (B + 1,): a histogram over a range that is symmetric about 0, B odd and
    at least `num_quantized_bins`, the number of integers (255; 511 for half of the range).
    """

    num_quantized_bins: int = 255

    inputs: ClassVar = ("hist", "hist_edges")
    outputs: ClassVar = ("threshold", "divergence")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        hist, edges = ins
        if hist is not None:
            if len(hist) != 1 or hist[0] % 2 == 0 or hist[0] < self.num_quantized_bins:
                raise ShapeMismatch(f"hist has shape {hist}, expected an odd number of bins, at "
                                    f"least num_quantized_bins = {self.num_quantized_bins}")
            edges = unify(edges, (hist[0] + 1,), "hist_edges and hist")
        return [hist, edges], [(1,), (1,)]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return [merge_types(name, dtype, FLOAT)
                for name, dtype in zip(self.inputs, ins, strict=True)], [FLOAT, FLOAT]

    def forward(self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
                call: Call) -> None:
        hist, edges = ins
        scores = divergences(hist.astype(np.float64), self.num_quantized_bins)
        best = int(np.argmin(scores))
        values = edges[hist.size // 2 + self.num_quantized_bins // 2 + best + 1], scores[best]
        for out, value in zip(outs, values, strict=True):
            if out is not None:
                out[...] = value


def divergences(hist: np.ndarray, levels: int) -> np.ndarray:
    """The divergence for each range about the middle, from `levels` bins to all."""
    middle = hist.size // 2
    totals = np.concatenate([[0.0], np.cumsum(hist)])
    filled = np.concatenate([[0], np.cumsum(hist != 0)])
    return np.array([_divergence(hist, totals, filled, middle - half, levels)
                     for half in range(levels // 2, middle + 1)])


def _divergence(hist: np.ndarray, totals: np.ndarray, filled: np.ndarray, start: int,
                levels: int) -> float:
    """D(P || Q) of the bins from `start` to its mirror image."""
    stop = hist.size - start
    size = stop - start
    p = hist[start:stop].copy()
    p[0], p[-1] = totals[start + 1], totals[-1] - totals[stop - 1]
    # The last of the merged bins takes what is left over.
    merged = np.append(start + size // levels * np.arange(levels), stop)
    sums, counts = np.diff(totals[merged]), np.diff(filled[merged])
    # The first bin counts as outside, as in MXNet.
    sums[0], counts[0] = sums[0] - hist[start], counts[0] - (hist[start] != 0)
    means = np.divide(sums, counts, out=np.zeros(levels), where=counts > 0)
    q = np.where(p != 0, np.repeat(means, np.diff(merged)), 0)
    smooth_p, smooth_q = smooth_distribution(p), smooth_distribution(q)
    if smooth_p is None or smooth_q is None:
        return float("inf")
    ratio = smooth_p / smooth_q * (smooth_q.sum() / smooth_p.sum())
    return float(smooth_p @ np.log(ratio) / smooth_p.sum())


def smooth_distribution(p: np.ndarray, eps: float = 0.0001) -> np.ndarray | None:
    """`p` with `eps` in place of zeros, taken in equal parts from all others; None where these
    do not have as much."""
    zeros = int(np.count_nonzero(p == 0))
    if zeros == p.size or (taken := eps * zeros / (p.size - zeros)) >= 1:
        return None
    return np.where(p == 0, eps, p - taken)
