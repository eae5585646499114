"""IndexCopy, BooleanMask, IndexArray and KhatriRao."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...dispatch import implements
from ...op import Call, Spec
from ...tensor.rows import BooleanMask, IndexArray, IndexCopy, KhatriRao
from ..elementwise.formula_op import COPY, TIMES, run_program
from ..lib.fill import fill_zero
from ..lib.kernel_math import value_type
from ..lib.strided_copy import int32s
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride
from .indexing import (
    INT32,
    RowIndices,
    copied_rows,
    gather_rows,
    lookup_rows,
    put_rows,
    put_scratch,
)

# -- IndexCopy ----------------------------------------------------------------------------------


def _width(array: Array) -> int:
    return prod(array.shape[1:])


def _replace(op: IndexCopy, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    old, index, new = ins
    y = outs[0]

    def check() -> None:
        op._rows(index.device.to_numpy(index), len(y))

    return [check, *run_program(COPY, [old], [y]),
            *put_rows(new, lookup_rows(index, len(y)), y, _width(y), call.scratch)]


@cache
def _clear_kernel(find: Callable) -> CudaKernel:
    """Zero rows; duplicate indices write the same value."""
    @grid_stride
    def clear_rows(i, index, y, zero, width, size, span):
        y[find(index, 0, i // width, size, span) * width + i % width] = zero
    return clear_rows


def _replace_backward(op: IndexCopy, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    (g, index), (old, _, new) = ins, outs
    launches, rows, width = fill_zero(outs[1:2]), lookup_rows(index, len(g)), _width(g)
    if old is not None:
        launches += run_program(COPY, [g], [old]) + each(
            _clear_kernel(rows.find), rows.number * width, index, old, old.dtype.type(0), width,
            rows.size, rows.span)
    return launches + (gather_rows(g, rows, new, width) if new is not None else [])


implements(IndexCopy, "cuda", _replace, _replace_backward,
           scratch=lambda op, ins, outs: put_scratch(ins[1].size))


# -- BooleanMask --------------------------------------------------------------------------------


def _selected(index: Array, chosen: Array, count: int) -> tuple[Callable[[], None], RowIndices]:
    """A step in which the host finds the `count` selected rows, and these rows."""
    selected = chosen.part(0, (count,))

    def find() -> None:
        rows = np.flatnonzero(index.device.to_numpy(index))
        chosen.device.copy(rows.astype(np.int32), selected)

    return find, lookup_rows(selected, len(index))


def _mask(op: BooleanMask, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    find, rows = _selected(ins[1], call.scratch[0], len(outs[0]))
    return [find, *gather_rows(ins[0], rows, outs[0], _width(ins[0]))]


def _mask_backward(op: BooleanMask, ins: Arrays, outs: Outputs, call: Call) -> list[Any]:
    (g, index), gx = ins, outs[0]
    if gx is None:
        return fill_zero(outs)
    find, rows = _selected(index, call.scratch[0], len(g))
    return [*fill_zero(outs), find, *copied_rows(g, rows, gx, _width(gx))]


def _mask_scratch(op: BooleanMask, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    return [Spec(ins[1].shape, INT32)]


implements(BooleanMask, "cuda", _mask, _mask_backward, _mask_scratch, _mask_scratch)


# -- IndexArray ---------------------------------------------------------------------------------


@cache
def _positions_kernel(inner: tuple[int, ...], extents: tuple[int, ...]) -> CudaKernel:
    rank = len(inner)
    inner, extents = int32s(inner), int32s(extents)

    @grid_stride
    def positions(i, y):
        for d in range(rank):
            y[i * rank + d] = i // inner[d] % extents[d]
    return positions


def _index_array(op: IndexArray, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    shape = ins[0].shape
    axes = op._axes(len(shape))
    kernel = _positions_kernel(tuple(prod(shape[axis + 1:]) for axis in axes),
                               tuple(shape[axis] for axis in axes))
    return each(kernel, prod(shape), outs[0])


implements(IndexArray, "cuda", _index_array)


# -- KhatriRao ----------------------------------------------------------------------------------


def _among(tensor: Array, factors: Sequence[Any], i: int) -> Array:
    """Rows of the result as (rows of the factors before, of factor i, of the factors after, N)."""
    before, after = (prod(x.shape[0] for x in part) for part in (factors[:i], factors[i + 1:]))
    return tensor.reshape(before, -1, after, tensor.shape[-1])


def _times(x: Array, factors: Sequence[Array], y: Array, skipped: int) -> list[Launch]:
    """y = x times all factors but number `skipped`."""
    launches: list[Launch] = []
    for i in range(len(factors)):
        if i != skipped:
            source, target = (_among(tensor, factors, i) for tensor in (y if launches else x, y))
            part = factors[i].reshape(1, -1, 1, y.shape[-1])
            launches += run_program(TIMES, [source, part], [target])
    return launches


def _khatri_rao(op: KhatriRao, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    y = outs[0]
    first = _among(y, ins, 0)
    launches = run_program(COPY, [ins[0].reshape(1, -1, 1, y.shape[-1])], [first])
    return launches + _times(y, ins, y, 0)


def _khatri_rao_backward(op: KhatriRao, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    g, *factors = ins
    launches, (partial,) = [], call.scratch
    for i, out in enumerate(outs):
        if out is not None:
            products = _times(g, factors, partial, i)
            whole = _among(partial if products else g, factors, i)
            launches += products + run_program(COPY, [whole], [out.reshape(1, -1, 1, g.shape[-1])])
    return launches


implements(KhatriRao, "cuda", _khatri_rao, _khatri_rao_backward,
           backward_scratch=lambda op, ins, outs: [
               Spec(ins[0].shape, np.dtype(value_type(ins[0].dtype)))])
