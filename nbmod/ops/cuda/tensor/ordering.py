"""sort, argsort and topk: rows of keys are sorted, then each output gathers by rank."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...dispatch import implements
from ...op import Call, Spec
from ...tensor.ordering import _Ordering
from ..lib.fill import fill
from ..lib.kernel_math import value_type
from ..lib.merge_sort import key_type, sort_rows, sort_scratch
from ..runtime.device_memory import Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride


@cache
def _load(dtype: np.dtype, descending: bool) -> Callable:
    """Element k of a row of (A, size, lanes) as a key that sorts ascending."""
    kind, real = key_type(dtype), dtype.kind == "f"

    @device_function
    def load(x, row, k, size, inner):
        value = kind(x[(row // inner * size + k) * inner + row % inner])
        if descending:
            return -value if real else -value - kind(1)
        return value
    return load


@cache
def _pick_kernel(kind: str, real: type[np.number]) -> CudaKernel:
    """Write an output: the selected elements, their indices, or a mask."""
    @grid_stride
    def pick(i, x, where, y, length, size, inner):
        a, k, b = i // (length * inner), i // inner % length, i % inner
        at = where[(a * inner + b) * size + k]
        if kind == "value":
            y[i] = x[(a * size + at) * inner + b]
        elif kind == "mask":
            y[(a * size + at) * inner + b] = real(1)
        else:
            y[i] = real(at)
    return pick


def _threefold(op: _Ordering, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The data as (outer, axis, inner)."""
    if op.axis is None:
        return 1, prod(shape), 1
    axis = op.axis % len(shape)
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1:])


def _scratch(op: _Ordering, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    outer, size, inner = _threefold(op, ins[0].shape)
    return sort_scratch(outer * inner, size, key_type(ins[0].dtype))


def _order(op: _Ordering, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    x = ins[0]
    outer, size, inner = _threefold(op, x.shape)
    launches, (_, where) = sort_rows(_load(x.dtype, not op.is_ascend), x, (outer * inner, size),
                                     (size, inner), call.scratch)
    length = op.count(size)
    for kind, out in zip(op.kinds(), outs, strict=True):
        if out is None:
            continue
        if kind == "mask":
            launches += fill(out, 0)
        launches += each(_pick_kernel(kind, value_type(out.dtype)), outer * length * inner, x,
                         where, out, length, size, inner)
    return launches


@grid_stride
def _put(i, g, where, gx, length, size, inner):
    at = np.int32(where[i])
    gx[(i // (length * inner) * size + at) * inner + i % inner] = g[i]


def _order_backward(op: _Ordering, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (g, where), gx = ins, outs[0]
    _, size, inner = _threefold(op, gx.shape)
    return fill(gx, 0) + each(_put, g.size, g, where, gx, op.count(size), size, inner)


implements(_Ordering, "cuda", _order, _order_backward, scratch=_scratch)
