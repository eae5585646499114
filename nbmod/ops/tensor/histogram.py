"""Histograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..op import Op
from ..param import Floats
from ..rules import common_type
from ..shape import ShapeMismatch, unify

__all__ = ["Histogram"]


@dataclass(frozen=True)
class Histogram(Op, name="_histogram"):
    """How many elements of data fall into each bin, (B,) int64, and the edges of the bins (B + 1,).

    Edges are given as `bins` (B + 1,), ascending, or by `bin_cnt` = B and `range` = (from, to) as
    evenly spaced.  Bins hold their lower edge, the last one both.  There is no gradient.
    """

    bin_cnt: int | None = None
    range: Floats | None = None

    inputs: ClassVar = ("data", "bins")
    outputs: ClassVar = ("output0", "output1")

    def list_inputs(self):
        return self.inputs if self.bin_cnt is None else self.inputs[:1]

    def infer_shape(self, ins, outs):
        if (self.bin_cnt is None) != (self.range is None):
            raise ShapeMismatch("expected both bin_cnt and range, or neither and bins")
        if self.bin_cnt is None:
            edges = unify(ins[1], outs[1], "bins and edges")
            if edges is not None and (len(edges) != 1 or edges[0] == 1):
                raise ShapeMismatch(f"bins has shape {edges}, expected (B + 1,)")
            count = (max(edges[0] - 1, 0),) if edges else None
            return [ins[0], edges], [count, edges]
        if self.bin_cnt < 1 or self.range is None or len(self.range) != 2 \
                or not self.range[0] < self.range[1]:
            raise ShapeMismatch(f"bin_cnt is {self.bin_cnt} and range {self.range}, expected at "
                                "least 1 and (from, to) with from < to")
        return ins, [(self.bin_cnt,), (self.bin_cnt + 1,)]

    def infer_type(self, ins, outs):
        dtype = common_type([*ins, outs[1]])
        return [dtype] * len(ins), [np.dtype(np.int64), dtype]

    def forward(self, ins, outs, call):
        bins = ins[1] if self.bin_cnt is None else self.bin_cnt
        data = ins[0].ravel()
        span = None if self.range is None else (self.range[0], self.range[1])
        counts, edges = np.histogram(data[~np.isnan(data)] if data.dtype.kind == "f" else data,
                                     bins, span)
        outs[0][...] = counts
        if outs[1] is not None:
            outs[1][...] = edges
