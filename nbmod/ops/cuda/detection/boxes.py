"""Box operators: NMS, IoU, encoding relative to anchors and decoding, bipartite matching."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...detection.boxes import BipartiteMatching, BoxDecode, BoxEncode, BoxIoU, BoxNMS
from ...dispatch import implements
from ...elementwise.float_op import as_float32
from ...op import Call, Spec
from ...tensor.ordering import INT64
from ..elementwise.formula_op import COPY, run_program
from ..lib.block_reduce import BLOCK_SIZE, block_stride, each_block
from ..lib.fill import fill
from ..lib.kernel_math import MATH, minimum, real_of
from ..lib.merge_sort import key_type, sort_rows, sort_scratch
from ..runtime.device_memory import Arrays, or_scratch
from ..runtime.launch import CudaKernel, Launch, cache, cuda, device_function, each, grid_stride
from .nms import Boxes, Rule, area, corners_function, share, suppress, suppress_scratch

exp, log = MATH["exp"], MATH["log"]

# -- BoxNMS -------------------------------------------------------------------------------------


@cache
def _key_function(op: BoxNMS, real: type[np.floating]) -> Callable:
    """The sort key of rows: the negative score, NaN for invalid rows."""
    score, group = op.score_index, op.id_index
    least, nothing, background = map(real, (as_float32(op.valid_thresh), np.nan, op.background_id))

    @device_function
    def key(x, row, k, size, width):
        at = (row * size + k) * width
        value = real(x[at + score])
        if group >= 0 and real(x[at + group]) == background:
            return nothing
        return -value if value > least else nothing
    return key


@cache
def _take_kernel(real: type[np.floating], before: bool, after: bool) -> CudaKernel:
    """Kept rows, and their indices; boxes are in center format in the input if `before`, in the
    output if `after`."""
    corners, half = corners_function(real, before), real(0.5)

    @grid_stride(exact=True)
    def take_boxes(e, x, order, positions, counts, where, y, rows, width, size, start):
        image, k, source = e // rows, e % rows, -1
        if k < counts[image]:
            source = order[image * rows + positions[image * size + k]]
        where[e] = source
        at = (image * rows + source) * width
        for c in range(width):
            y[e * width + c] = real(x[at + c]) if source >= 0 else real(-1)
        if source >= 0 and before != after and not real(x[at + start]) < real(0):
            a, b, c, d = corners(x, at + start)
            if after:
                a, b, c, d = (a + c) * half, (b + d) * half, c - a, d - b
            to = e * width + start
            y[to], y[to + 1], y[to + 2], y[to + 3] = a, b, c, d
    return take_boxes


@grid_stride
def _row_indices(i, where, rows):
    where[i] = i % rows


def _nms(op: BoxNMS, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y = ins[0], outs[0]
    images, rows, size = op._counts(x.shape)
    spare, *scratch = call.scratch
    where = spare if outs[1] is None else outs[1]
    if op.topk == 0:
        return run_program(COPY, [x], [y]) + each(_row_indices, images * rows, where, rows)
    x, width, real = x.reshape(images, rows, -1), x.shape[-1], real_of(x.dtype)
    before, after = op.in_format == "center", op.out_format == "center"
    sorting, order = sort_rows(_key_function(op, real), x, (images, rows), (rows, width),
                               scratch[6:])
    boxes = Boxes(x, op.coord_start, -1 if op.force_suppress else op.id_index, before)
    finding, nms = suppress(boxes, order, Rule(size, as_float32(op.overlap_thresh)), scratch)
    return sorting + finding + each(
        _take_kernel(real, before, after), images * rows, x, order.where, nms.positions,
        nms.counts, where, y, rows, width, size, op.coord_start)


def _nms_scratch(op: BoxNMS, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    images, rows, size = op._counts(ins[0].shape)
    kind = ins[0].dtype
    return [Spec((images * rows,), INT64), *suppress_scratch(images, size, kind),
            *sort_scratch(images, rows, real_of(kind))]


@grid_stride
def _put_rows(i, g, where, gx, rows, width):
    row = i // width
    to = np.int32(where[row])
    if to >= 0:
        gx[(row // rows * rows + to) * width + i % width] = g[i]


def _nms_backward(op: BoxNMS, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (g, where), gx = ins, outs[0]
    return fill(gx, 0) + each(_put_rows, g.size, g, where, gx, *g.shape[-2:])


implements(BoxNMS, "cuda", _nms, _nms_backward, scratch=_nms_scratch)


# -- BoxIoU -------------------------------------------------------------------------------------


@cache
def _iou_kernel(real: type[np.floating], center: bool) -> CudaKernel:
    plain, corners, zero = corners_function(real, False), corners_function(real, center), real(0)

    @grid_stride(exact=True)
    def iou_pairs(i, a, b, y, columns):
        k, j = i // columns * 4, i % columns * 4
        areas = area(plain(a, k), center, zero) + area(plain(b, j), center, zero)
        if center:
            y[i] = share(corners(a, k), corners(b, j), areas, zero)
        else:
            y[i] = share(corners(b, j), corners(a, k), areas, zero)
    return iou_pairs


def _iou(op: BoxIoU, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    a, b = ins
    return each(_iou_kernel(real_of(a.dtype), op.format == "center"), outs[0].size, a, b, outs[0],
                b.size // 4)


implements(BoxIoU, "cuda", _iou)


# -- BoxEncode, BoxDecode: a thread per axis of a box ---------------------------------------------


@cache
def _encode_kernel(real: type[np.floating]) -> CudaKernel:
    half = real(0.5)

    @grid_stride(exact=True)
    def encode(i, samples, matches, anchors, refs, means, stds, targets, masks, rows, ref_count):
        row, axis = i // 2, i % 2
        at, match = row * 4 + axis, real(matches[row])
        middle, growth, mask = real(0), real(0), real(0)
        if real(samples[row]) > half and match >= real(0) and match < real(ref_count):
            ref = (row // rows * ref_count + np.int32(match)) * 4 + axis
            first, start = real(anchors[at]), real(refs[ref])
            size, ref_size = real(anchors[at + 2]) - first, real(refs[ref + 2]) - start
            shift = (start + ref_size * half - first - size * half) / size
            middle = (shift - real(means[axis])) / real(stds[axis])
            growth = (log(ref_size / size) - real(means[axis + 2])) / real(stds[axis + 2])
            mask = real(1)
        targets[at], targets[at + 2] = middle, growth
        masks[at], masks[at + 2] = mask, mask
    return encode


def _encode(op: BoxEncode, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    outputs, refs = or_scratch(outs, call.scratch), ins[3]
    return each(_encode_kernel(real_of(refs.dtype)), ins[0].size * 2, *ins, *outputs,
                ins[0].shape[1], refs.shape[1])


@cache
def _decode_kernel(real: type[np.floating], corner: bool, clips: bool) -> CudaKernel:
    half = real(0.5)

    @grid_stride(exact=True)
    def decode(i, x, anchors, y, std0, std1, std2, std3, clip, rows):
        row, axis = i // 2, i % 2
        to, anchor = row * 4 + axis, row % rows * 4 + axis
        at, size = real(anchors[anchor]), real(anchors[anchor + 2])
        if corner:
            size = size - at
            at = at + size * half
        growth = real(x[to + 2]) * (std3 if axis else std2)
        if clips:
            growth = minimum(growth, clip)
        middle = real(x[to]) * (std1 if axis else std0) * size + at
        reach = exp(growth) * size * half
        y[to], y[to + 2] = middle - reach, middle + reach
    return decode


def _decode(op: BoxDecode, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (x, anchors), y = ins, outs[0]
    real = real_of(y.dtype)
    params = [real(as_float32(n)) for n in (op.std0, op.std1, op.std2, op.std3, op.clip)]
    kernel = _decode_kernel(real, op.format == "corner", bool(params[-1] > 0))
    return each(kernel, x.size // 2, x, anchors, y, *params, x.shape[1])


implements(BoxEncode, "cuda", _encode, scratch=lambda op, ins, outs: outs)
implements(BoxDecode, "cuda", _decode)


# -- BipartiteMatching --------------------------------------------------------------------------


@cache
def _score_function(real: type[np.floating], descending: bool) -> Callable:
    @device_function
    def score(x, row, k, size, b):
        value = real(x[row * size + k])
        return -value if descending else value
    return score


@cache
def _match_kernel(real: type[np.floating]) -> CudaKernel:
    """Greedy matching of pairs in their order, each row and column at most once.

    The threads of a block examine a pair each; the first free pair is matched, until none is free.
    """
    free = real(-1)

    @block_stride
    def match_pairs(image, keys, where, rows, columns, height, width, limit, most):
        first = cuda.shared.array(1, np.int32)
        tid, size = cuda.threadIdx.x, height * width
        count, start = 0, 0
        while start < size and count < most:
            at = image * size + start + tid
            waits = start + tid < size and keys[at] < limit
            pair = where[at] if waits else 0
            row, column = image * height + pair // width, image * width + pair % width
            taken = 0
            while taken < BLOCK_SIZE and count < most:
                if tid == 0:
                    first[0] = BLOCK_SIZE
                cuda.syncthreads()
                if waits and real(rows[row]) == free and real(columns[column]) == free:
                    cuda.atomic.min(first, 0, tid)
                cuda.syncthreads()
                taken = first[0]
                if taken == tid:
                    rows[row], columns[column] = real(pair % width), real(pair // width)
                count += 1 if taken < BLOCK_SIZE else 0
                cuda.syncthreads()
            # Keys ascend: if the last one is beyond the limit, so are all later ones.
            start = start + BLOCK_SIZE if cuda.syncthreads_and(np.int32(waits)) else size
    return match_pairs


def _match(op: BipartiteMatching, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x = ins[0]
    matches, scratch = or_scratch(outs, call.scratch), call.scratch[2:]
    (height, width), real = x.shape[-2:], real_of(x.dtype)
    images, limit = prod(x.shape[:-2]), real(as_float32(op.threshold))
    sorting, (keys, where) = sort_rows(_score_function(real, not op.is_ascend), x,
                                       (images, height * width), (height * width, 0), scratch)
    most = min(height, width)
    return [*sorting, *fill(matches[0], -1), *fill(matches[1], -1), *each_block(
        _match_kernel(real), images, keys, where, *matches, height, width,
        limit if op.is_ascend else -limit, min(most, op.topk + 1) if op.topk > 0 else most)]


def _match_scratch(op: BipartiteMatching, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    shape = ins[0].shape
    return [*outs, *sort_scratch(prod(shape[:-2]), prod(shape[-2:]), key_type(ins[0].dtype))]


implements(BipartiteMatching, "cuda", _match, scratch=_match_scratch)
