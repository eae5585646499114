"""Elements permuted or repeated: transpositions, Tile, Repeat, Pad and Diag."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...dispatch import implements
from ...op import Call
from ...rules import to_type
from ...tensor.rearrange import Diag, Pad, Permutation, Repeat, Tile, _diagonal
from ..elementwise.formula_op import COPY, run_program
from ..lib.fill import fill
from ..lib.kernel_math import maximum, minimum, value_type
from ..lib.strided_copy import View, copy_view, int32s, view_of
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride


def _permute(turn: Callable[[np.ndarray], np.ndarray], x: Array, y: Array) -> list[Launch]:
    source = view_of(x, turn)
    return copy_view(source, view_of(y.reshape(source.shape)))


def _copy(x: Array, y: Array) -> list[Launch]:
    return run_program(COPY, [x], [y])


# -- Pad ----------------------------------------------------------------------------------------


def _steps(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Row-major strides in elements."""
    return int32s(prod(shape[d + 1:]) for d in range(len(shape)))


@cache
def _pad_kernel(mode: str, shape: tuple[int, ...], before: tuple[int, ...],
                padded: tuple[int, ...]) -> CudaKernel:
    rank = len(shape)
    inner, steps = _steps(padded), _steps(shape)
    shape, before, padded = map(int32s, (shape, before, padded))

    @grid_stride
    def pad(i, x, y, value):
        at, inside = 0, True
        for d in range(rank):
            index = i // inner[d] % padded[d] - before[d]
            if mode == "constant":
                inside = inside and 0 <= index < shape[d]
            elif mode == "edge":
                index = minimum(maximum(index, 0), shape[d] - 1)
            else:
                index = abs(index)
                index = minimum(index, 2 * (shape[d] - 1) - index)
            at += index * steps[d]
        y[i] = x[at] if inside else value
    return pad


def _seen_functions(mode: str) -> tuple[Callable, Callable]:
    """seen(index, size, before, after): how many copies of an element a padded axis has, and
    place(index, size, before, turn): the position of copy `turn`."""
    @device_function
    def seen_edge(index, size, before, after):
        return 1 + (before if index == 0 else 0) + (after if index == size - 1 else 0)

    @device_function
    def place_edge(index, size, before, turn):
        return (before + index if index > 0 else 0) + turn

    @device_function
    def seen_mirror(index, size, before, after):
        return 1 + (1 if 0 < index <= before else 0) + (
            1 if size - 1 - after <= index < size - 1 else 0)

    @device_function
    def place_mirror(index, size, before, turn):
        if turn == 0:
            return before + index
        if turn == 1 and 0 < index <= before:
            return before - index
        return before + 2 * (size - 1) - index

    return (seen_edge, place_edge) if mode == "edge" else (seen_mirror, place_mirror)


@cache
def _fold_kernel(mode: str, shape: tuple[int, ...], before: tuple[int, ...],
                 after: tuple[int, ...], total: type[np.number]) -> CudaKernel:
    """gx = the sum of the gradients of all copies of each element."""
    rank = len(shape)
    padded = tuple(sum(sizes) for sizes in zip(shape, before, after, strict=True))
    inner, steps = _steps(shape), _steps(padded)
    shape, before, after = map(int32s, (shape, before, after))
    seen, place = _seen_functions(mode)

    @grid_stride
    def fold(i, g, gx):
        copies = 1
        for d in range(rank):
            copies *= seen(i // inner[d] % shape[d], shape[d], before[d], after[d])
        gradient = total(0)
        for number in range(copies):
            at, rest = 0, number
            for d in range(rank):
                index = i // inner[d] % shape[d]
                choices = seen(index, shape[d], before[d], after[d])
                at += place(index, shape[d], before[d], rest % choices) * steps[d]
                rest //= choices
            gradient += total(g[at])
        gx[i] = gradient
    return fold


def _pad(op: Pad, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y = ins[0], outs[0]
    return each(_pad_kernel(op.mode, x.shape, op.pad_width[::2], y.shape), y.size, x, y,
                to_type(op.constant_value, y.dtype))


def _pad_backward(op: Pad, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    g, gx = ins[0], outs[0]
    if op.mode == "constant":
        return copy_view(view_of(g, op._inside), view_of(gx))
    return each(_fold_kernel(op.mode, gx.shape, op.pad_width[::2], op.pad_width[1::2],
                             value_type(g.dtype)), gx.size, g, gx)


# -- Diag ---------------------------------------------------------------------------------------


def _diagonal_view(op: Diag, matrix: Array, data: Array) -> View:
    """The diagonal of a tensor, along the axes of the diagonal of `data`."""
    axes = (0, 1) if data.ndim == 1 else (op.axis1, op.axis2)
    return view_of(matrix, lambda model: _diagonal(model, op.k, *axes))


def _diag(op: Diag, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y = ins[0], outs[0]
    if x.ndim == 1:
        return fill(y, 0) + copy_view(view_of(x), _diagonal_view(op, y, x))
    return copy_view(_diagonal_view(op, x, x), view_of(y))


def _diag_backward(op: Diag, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    g, gx = ins[0], outs[0]
    if gx.ndim == 1:
        return copy_view(_diagonal_view(op, g, gx), view_of(gx))
    return fill(gx, 0) + copy_view(view_of(g), _diagonal_view(op, gx, gx))


implements(Pad, "cuda", _pad, _pad_backward)
implements(Diag, "cuda", _diag, _diag_backward)
implements(Permutation, "cuda", lambda op, ins, outs, call: _permute(op.permuted, ins[0], outs[0]),
           lambda op, ins, outs, call: _permute(op.unpermuted, ins[0], outs[0]))
implements(Tile, "cuda", lambda op, ins, outs, call: _copy(*op._interleaved(ins[0], outs[0])),
           lambda op, ins, outs, call: _copy(*op._interleaved(outs[0], ins[0])[::-1]))
implements(Repeat, "cuda", lambda op, ins, outs, call: _copy(*op._folded(ins[0], outs[0])),
           lambda op, ins, outs, call: _copy(*op._folded(outs[0], ins[0])[::-1]))
