"""Non-maximum suppression: of sorted boxes, keep those that overlap no earlier box that is kept.

Boxes are processed in strips of their order.  Each box of a strip is compared with the boxes kept
in earlier strips, then all pairs of the strip with each other, which gives a bit mask of overlaps
for each box (as in the kernel of py-faster-rcnn).  A block per image scans the
strip, 32 boxes at a time: it decides these sequentially, in registers, then removes what the masks
of the kept ones cover from the rest, a word per thread.

Overlaps are rounded as on the CPU, so the same boxes are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ...detection import boxes
from ...detection.boxes import AREA, GROUP, KEPT_ROWS
from ...op import Spec
from ..lib.block_reduce import BLOCK_SIZE, block_stride, each_block
from ..lib.fill import fill
from ..lib.kernel_math import SIMULATED, cuda, minimum, real_of
from ..lib.merge_sort import Sorted
from ..runtime.device_memory import Array
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

__all__ = ["Boxes", "Rule", "NmsResult", "area", "corners_function", "iou", "share", "suppress",
           "suppress_scratch"]

WORD = 32
STRIP = 4 * WORD if SIMULATED else 64 * WORD
"""Boxes of an image that are processed together, a multiple of WORD."""
STRIP_WORDS = STRIP // WORD
MOST_BITS = 1 << 29
"""Limit of the overlap masks of all images, in bits."""

INT32, UINT32 = np.dtype(np.int32), np.dtype(np.uint32)


class Boxes(NamedTuple):
    """Boxes in the rows of `data`: four coordinates from column `start` on."""

    data: Array
    """(images, rows, width)."""
    start: int
    group: int = -1
    """The column of the class; boxes suppress those of the same class only.  -1: all."""
    center: bool = False
    """The format is center and size, not corners."""


class Rule(NamedTuple):
    """Parameters of suppression."""

    size: int
    """Boxes of an image to process, from the start of the order."""
    threshold: float
    """A box is suppressed if its IoU with a kept one is larger."""
    pixel: int = 0
    """Added to differences of corners to get sizes."""
    most: int | None = None
    """The maximal number of boxes kept per image."""
    all_keys: bool = False
    """Whether boxes with NaN as sort key take part."""


class NmsResult(NamedTuple):
    """The result of suppression, and its scratch."""

    positions: Array
    """(images, size): positions of the kept boxes in the order, ascending."""
    counts: Array
    """(images,): the number of kept boxes."""
    boxes: Array
    """(images, 6, size): sorted corners, areas and classes."""
    eligible: Array
    """(images,): the number of boxes that take part."""
    suppressed: Array
    """(images, strip): 1 for boxes that overlap a kept one of an earlier strip."""
    masks: Array
    """(images, strip, strip / 32): mask of the later boxes of the strip that each overlaps."""


def _strip(images: int, size: int) -> int:
    return min(STRIP, -(-size // WORD) * WORD,
               max(isqrt(MOST_BITS // images) // WORD, 1) * WORD)


def suppress_scratch(images: int, size: int, dtype: np.dtype) -> list[Spec]:
    """The scratch of `suppress`, the fields of its result, for boxes of `dtype`."""
    strip = _strip(images, size)
    return [Spec((images, size), INT32), Spec((images,), INT32),
            Spec((images, KEPT_ROWS, size), np.dtype(real_of(dtype))), Spec((images,), INT32),
            Spec((images, strip), INT32), Spec((images, strip, strip // WORD), UINT32)]


# -- boxes --------------------------------------------------------------------------------------


@device_function
def _lower(a, b):
    return b if b < a else a  # NaN as in Python's min, and on the CPU


@device_function
def _higher(a, b):
    return b if b > a else a


def _for_kernels(function: Any, **names: Any) -> Any:
    written = getattr(function, "py_func", None) or function.function  # compiled already, or not
    return device_function(FunctionType(written.__code__, {"min": _lower, "max": _higher, **names},
                                        written.__name__))


common_area, area = _for_kernels(boxes.common_area), _for_kernels(boxes.area)
iou, share = (_for_kernels(boxes.iou, common_area=common_area),
              _for_kernels(boxes.share, common_area=common_area))


@cache
def corners_function(real: type[np.floating], center: bool) -> Callable:
    """corners(x, at): of the box whose four coordinates begin at `at`."""
    half = real(0.5)

    @device_function
    def corners(x, at):
        a, b, c, d = real(x[at]), real(x[at + 1]), real(x[at + 2]), real(x[at + 3])
        if center:
            return a - c * half, b - d * half, a + c * half, b + d * half
        return a, b, c, d
    return corners


@cache
def _arrange_kernel(real: type[np.floating], center: bool, all_keys: bool, pixel: int
                    ) -> CudaKernel:
    """Gather boxes in sorted order, and count those that take part: NaN keys are last."""
    plain, corners = corners_function(real, False), corners_function(real, center)
    extra = real(pixel)

    @grid_stride(exact=True)
    def arrange(e, x, keys, where, boxes, eligible, rows, width, start, group, size):
        image, k = e // size, e % size
        position = image * rows + k
        row, to = (image * rows + where[position]) * width, image * KEPT_ROWS * size + k
        left, top, right, bottom = corners(x, row + start)
        boxes[to], boxes[to + size] = left, top
        boxes[to + 2 * size], boxes[to + 3 * size] = right, bottom
        boxes[to + AREA * size] = area(plain(x, row + start), center, extra)
        boxes[to + GROUP * size] = real(x[row + group]) if group >= 0 else real(0)
        takes = all_keys or keys[position] == keys[position]
        if takes and (k + 1 == size or not (all_keys or keys[position + 1] == keys[position + 1])):
            eligible[image] = k + 1
        elif k == 0 and not takes:
            eligible[image] = 0
    return arrange


# -- overlaps -----------------------------------------------------------------------------------


@device_function
def _bit(b):
    """A word with bit b."""
    return np.uint32(np.uint64(1) << np.uint64(b))  # numba shifts 64 bits only


@device_function
def _box(boxes, at, size):
    return boxes[at], boxes[at + size], boxes[at + 2 * size], boxes[at + 3 * size]


@device_function
def _suppresses(boxes, best, at, size, threshold, pixel):
    """Whether a box that stays suppresses a later one."""
    common = common_area(_box(boxes, best, size), _box(boxes, at, size), pixel)
    areas = boxes[best + AREA * size] + boxes[at + AREA * size]
    return (boxes[best + GROUP * size] == boxes[at + GROUP * size]
            and common / (areas - common) > threshold)


@device_function
def _length(eligible, counts, image, first, strip, most):
    """The number of boxes to process in the strip that begins at `first`."""
    return minimum(eligible[image] - first, strip) if counts[image] < most else 0


@grid_stride(exact=True)
def _suppress_by_kept(e, boxes, eligible, positions, counts, suppressed, threshold, pixel, size,
                      first, strip, most):
    """suppressed = whether boxes of a strip are suppressed by a kept one of earlier strips."""
    image, i = e // strip, e % strip
    hit = 0
    if i < _length(eligible, counts, image, first, strip, most):
        start = image * KEPT_ROWS * size
        for j in range(counts[image]):
            best = start + positions[image * size + j]
            if _suppresses(boxes, best, start + first + i, size, threshold, pixel):
                hit = 1
                break
    suppressed[e] = hit


@grid_stride(exact=True)
def _overlap_masks(e, boxes, eligible, counts, suppressed, masks, threshold, pixel, size, first,
                   strip, most):
    """The masks of the later boxes of the strip that each overlaps, for boxes not yet
    suppressed."""
    words = strip // WORD
    i, column, image = e % strip, e // strip % words, e // (strip * words)
    length = _length(eligible, counts, image, first, strip, most)
    if i < length and i // WORD <= column and suppressed[image * strip + i] == 0:
        start = image * KEPT_ROWS * size + first
        mask = np.uint32(0)
        for b in range(WORD):
            j = column * WORD + b
            if i < j < length and _suppresses(boxes, start + i, start + j, size, threshold, pixel):
                mask |= _bit(b)
        masks[(image * strip + i) * words + column] = mask


# -- decisions ----------------------------------------------------------------------------------


@device_function
def _suppressed_mask(suppressed, start, left):
    """A mask of 32 boxes: those suppressed, or beyond the `left` remaining ones."""
    mask = np.uint32(0)
    for b in range(WORD):
        if b >= left or suppressed[start + b] != 0:
            mask |= _bit(b)
    return mask


@device_function
def _kept_mask(mask, own, start, limit, positions, at, first):
    """A mask of those of 32 boxes that are kept, and their number, at most `limit`; thread 0
    appends them to `positions`."""
    none = alive = np.uint32(0)
    count = 0
    for b in range(WORD):
        if mask & _bit(b) == none and count < limit:
            alive |= _bit(b)
            mask |= own[start + b]
            if cuda.threadIdx.x == 0:
                positions[at + count] = first + b
            count += 1
    return alive, count


@device_function
def _union(mask, alive, masks, at, step):
    """The union of a mask and the rows of `masks` of the boxes that are alive."""
    none = np.uint32(0)
    for b in range(WORD):  # all rows are read, so that loads are independent
        row = masks[at + b * step]
        mask |= row if alive & _bit(b) != none else none
    return mask


@block_stride
def _decide(image, eligible, suppressed, masks, positions, counts, size, first, strip, most):
    """Append the kept boxes of a strip to `positions`, and count them."""
    dead = cuda.shared.array(STRIP_WORDS, np.uint32)
    own = cuda.shared.array(STRIP, np.uint32)
    tid, words = cuda.threadIdx.x, strip // WORD
    length, here = _length(eligible, counts, image, first, strip, most), image * strip
    count = counts[image]
    for w in range(tid, words, BLOCK_SIZE):
        dead[w] = _suppressed_mask(suppressed, here + w * WORD, length - w * WORD)
    for i in range(tid, strip, BLOCK_SIZE):
        own[i] = masks[(here + i) * words + i // WORD]
    cuda.syncthreads()
    for w in range((length + WORD - 1) // WORD):
        alive, more = _kept_mask(dead[w], own, w * WORD, most - count, positions,
                                 image * size + count, first + w * WORD)
        count += more
        for other in range(w + 1 + tid, words, BLOCK_SIZE):
            dead[other] = _union(dead[other], alive, masks,
                                  (here + w * WORD) * words + other, words)
        cuda.syncthreads()
    if tid == 0:
        counts[image] = count


def suppress(boxes: Boxes, order: Sorted, rule: Rule, scratch: Sequence[Array]
             ) -> tuple[list[Launch], NmsResult]:
    """Launches that apply suppression to boxes in the given order, and their result.

    `scratch` begins with that of `suppress_scratch`; the result is part of it.
    """
    nms = NmsResult(*scratch[:6])
    (images, rows, width), size = boxes.data.shape, rule.size
    real, strip = real_of(boxes.data.dtype), _strip(images, size)
    limits = real(rule.threshold), real(rule.pixel)
    most = size if rule.most is None else rule.most
    launches = [
        *each(_arrange_kernel(real, boxes.center, rule.all_keys, rule.pixel), images * size,
              boxes.data, *order, nms.boxes, nms.eligible, rows, width, boxes.start,
              boxes.group, size),
        *fill(nms.counts, 0)]
    for first in range(0, size, strip):
        where = (size, first, strip, most)
        launches += each(_suppress_by_kept, nms.suppressed.size, nms.boxes, nms.eligible,
                         nms.positions, nms.counts, nms.suppressed, *limits, *where)
        launches += each(_overlap_masks, nms.masks.size, nms.boxes, nms.eligible,
                         nms.counts, nms.suppressed, nms.masks, *limits, *where)
        launches += each_block(_decide, images, nms.eligible, nms.suppressed, nms.masks,
                               nms.positions, nms.counts, *where)
    return launches, nms
