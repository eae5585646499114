"""Histograms: bin indices are sorted; the count of a bin is the length of its run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch import implements
from ...op import Call, Spec
from ...tensor.histogram import Histogram
from ..elementwise.formula_op import COPY, run_program
from ..lib.kernel_math import real_of
from ..lib.merge_sort import ascending, lower_bound, sort_rows, sort_scratch
from ..runtime.device_memory import Arrays
from ..runtime.launch import CudaKernel, cache, each, grid_stride
from .indexing import INT32


@cache
def _bin_kernel(dtype: np.dtype) -> CudaKernel:
    """The bin of every element, compared as `dtype`; `bins` for elements outside."""
    kind: Any = dtype.type

    @grid_stride
    def find_bins(i, x, edges, y, bins):
        value, low, high = kind(x[i]), 0, bins
        while low < high:
            middle = (low + high + 1) // 2
            if middle < bins and kind(edges[middle]) <= value:
                low = middle
            else:
                high = middle - 1
        inside = kind(edges[0]) <= value and value <= kind(edges[bins])
        y[i] = low if inside else bins
    return find_bins


@grid_stride
def _count_runs(i, keys, y, terms):
    y[i] = lower_bound(keys, 0, terms, i + 1) - lower_bound(keys, 0, terms, i)


def _compared(op: Histogram, dtype: np.dtype) -> np.dtype:
    """The type in which elements are compared with edges."""
    if dtype.kind == "f":
        return np.dtype(real_of(dtype))
    return np.dtype(np.int64 if op.bin_cnt is None else np.float64)


def _histogram(op: Histogram, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    x, counts = ins[0], outs[0]
    edges, bins, *scratch = call.scratch
    kind = _compared(op, x.dtype)
    launches: list[Any] = []
    if op.range is None:
        edges = ins[1]
    else:
        assert op.bin_cnt is not None
        host_edges = np.histogram_bin_edges(np.empty(0, kind), op.bin_cnt,
                                            (op.range[0], op.range[1])).astype(kind)
        launches.append(lambda: edges.device.copy(host_edges, edges))
    launches += each(_bin_kernel(kind), x.size, x, edges, bins, counts.size)
    sorting, (keys, _) = sort_rows(ascending, bins, (1, x.size), (x.size, 0), scratch)
    launches += sorting + each(_count_runs, counts.size, keys, counts, x.size)
    if outs[1] is not None:
        launches += run_program(COPY, [edges], [outs[1]])
    return launches


def _scratch(op: Histogram, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    size = ins[0].size
    return [Spec(outs[1].shape, _compared(op, ins[0].dtype)), Spec((size,), INT32),
            *sort_scratch(1, size, INT32)]


implements(Histogram, "cuda", _histogram, scratch=_scratch)
