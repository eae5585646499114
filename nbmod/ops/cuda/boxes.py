"""Boxes: which to keep, how much they overlap, how they are written relative to anchors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..boxes import BoxNMS
from ..half import single
from ..op import Spec
from ..ordering import INT64
from .fill import fill
from .formula_op import COPY, run_program
from .kernel_math import real_of
from .launch import Launch, device_function, each, kernel, on_gpu, thread, threads
from .sorting import sort_rows, sort_scratch
from .suppression import Boxes, Rule, corners_function, suppress, suppress_scratch

# -- BoxNMS -------------------------------------------------------------------------------------


@cache
def _key_function(op: BoxNMS, real: Any) -> Any:
    """What rows are sorted by, ascending: their score times -1, NaN for those that are out."""
    score, group = op.score_index, op.id_index
    least, nothing, background = map(real, (single(op.valid_thresh), np.nan, op.background_id))

    @device_function
    def key(x, row, k, size, width):
        at = (row * size + k) * width
        value = real(x[at + score])
        if group >= 0 and real(x[at + group]) == background:
            return nothing
        return -value if value > least else nothing
    return key


@cache
def _take_kernel(real: Any, before: bool, after: bool) -> Any:
    """Rows that stay, and where they were; boxes are centers and sizes if `before`, or `after`."""
    corners, half = corners_function(real, before), real(0.5)

    @kernel(exact=True)
    def take_boxes(x, order, places, counts, where, y, rows, width, size, start, count):
        for e in range(thread(), count, threads()):
            image, k, source = e // rows, e % rows, -1
            if k < counts[image]:
                source = order[image * rows + places[image * size + k]]
            where[e] = source
            at = (image * rows + source) * width
            for c in range(width):
                y[e * width + c] = real(x[at + c]) if source >= 0 else real(-1)
            if source >= 0 and before != after:
                a, b, c, d = corners(x, at + start)
                if after:
                    a, b, c, d = (a + c) * half, (b + d) * half, c - a, d - b
                to = e * width + start
                y[to], y[to + 1], y[to + 2], y[to + 3] = a, b, c, d
    return take_boxes


@cache
def _number_kernel() -> Any:
    @kernel
    def number_rows(where, rows, count):
        for i in range(thread(), count, threads()):
            where[i] = i % rows
    return number_rows


def _nms(op: BoxNMS, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x, y = ins[0], outs[0]
    images, rows, size = op._counts(x.shape)
    spare, *scratch = call.scratch
    where = spare if outs[1] is None else outs[1]
    if op.topk == 0:
        return run_program(COPY, [x], [y]) + each(_number_kernel(), images * rows, where, rows)
    x, width, real = x.reshape(images, rows, -1), x.shape[-1], real_of(x.dtype)
    before, after = op.in_format == "center", op.out_format == "center"
    sorting, order = sort_rows(_key_function(op, real), x, (images, rows), (rows, width),
                               scratch[6:])
    boxes = Boxes(x, op.coord_start, -1 if op.force_suppress else op.id_index, before)
    finding, stays = suppress(boxes, order, Rule(size, single(op.overlap_thresh)), scratch)
    return sorting + finding + each(
        _take_kernel(real, before, after), images * rows, x, order.where, stays.places,
        stays.counts, where, y, rows, width, size, op.coord_start)


def _nms_scratch(op: BoxNMS, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    images, rows, size = op._counts(ins[0].shape)
    kind = ins[0].dtype
    return [Spec((images * rows,), INT64), *suppress_scratch(images, size, kind),
            *sort_scratch(images, rows, real_of(kind))]


@cache
def _put_kernel() -> Any:
    @kernel
    def put_rows(g, where, gx, rows, width, count):
        for i in range(thread(), count, threads()):
            row = i // width
            to = np.int32(where[row])
            if to >= 0:
                gx[(row // rows * rows + to) * width + i % width] = g[i]
    return put_rows


def _nms_backward(op: BoxNMS, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (g, where), gx = ins, outs[0]
    return fill(gx, 0) + each(_put_kernel(), g.size, g, where, gx, *g.shape[-2:])


on_gpu(BoxNMS, _nms, _nms_backward, scratch=_nms_scratch)
