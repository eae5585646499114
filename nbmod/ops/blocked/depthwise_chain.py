"""Convolutions one after the other, a band of rows at a time.

What MobileNets have between two narrow images is wide, six times as many channels:

    expand       any direct convolution: image -> wide         (or the image is wide already)
    middle       depthwise, of filters that have kernels of rows: wide -> deep
    project      of single pixels: deep -> image               (or deep is the result)

For a batch, wide and deep are more than caches hold, and going through memory takes longer than all
the arithmetic.  A chain computes a few rows of all three, and then the next, and writes neither
there: a worker has room for a band of each, which stays in its L2.  Rows of wide that the next band
sees as well move up, the others are computed.  Each number is the same sum in the same order as by
steps of their own, so results are the same bit for bit, for any bands and workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Call, Op, Run, Spec
from ..shape import PartialShape
from ..simd.conv_strip import PIXELS
from .address_tables import StripTask, forward_strips
from .blocked_convolution import FLOAT, Kernels
from .blocked_depthwise import has_lines, is_depthwise, line_of
from .conv_driver import strips_of
from .layout import LANES, Form, clear_halo, enter_channels
from .ops import BlockedConvolution

__all__ = ["NEAR", "BlockedChain", "follows"]

NEAR = 2 ** 18
"""Numbers of wide and deep that a worker has at a time: about an L2.  Where those of a whole batch
are no more, convolutions stay apart."""
FEW = 4
"""Rows that a part of an image has at least: some that it expands belong to its neighbours."""
MANY = 4
"""Units of work for each thread that make it no matter how many there are."""


def _can_expand(op: BlockedConvolution) -> bool:
    return op.packed and not op.tiled and not op.add and op.slide.groups == 1


def _can_be_middle(op: BlockedConvolution) -> bool:
    return (op.packed and not op.add and has_lines(op.slide)
            and is_depthwise(op.slide, op.channels, op.filters))


def _can_project(op: BlockedConvolution) -> bool:
    slide = op.slide
    return (op.packed and not op.tiled and slide.groups == 1 and slide.pad == (0, 0)
            and slide.kernel == slide.stride == (1, 1))


def follows(links: Sequence[BlockedConvolution], op: BlockedConvolution) -> bool:
    """Whether a convolution may be the next in a chain."""
    if not links:
        return False
    before = _can_be_middle(links[-1]) and _can_project(op)
    return before or (len(links) == 1 and _can_expand(links[0]) and _can_be_middle(op))


# -- the kernel -----------------------------------------------------------------------------------

@inlined
def _rows_of(x, w, bias, y, at, planes, rows, how):
    """Rows of the depthwise convolution; `planes`: blocks, numbers of a plane and of a row of x
    and of y; `how`: size and stride of filters, pixels of a row, flags."""
    (blocks, x_plane, x_row, y_plane, y_row), (size, stride, pixels, flags) = planes, how
    for b in range(blocks):
        for k in range(rows):
            line_of(x, w, bias, y, y, (at[0] + b * x_plane + k * stride * x_row,
                                       b * size * size * LANES, b * LANES,
                                       at[1] + b * y_plane + k * y_row),
                    (pixels, size, x_row, size * LANES, flags), size, stride)


@inlined
def _begin(wide, start, planes, moved, new):
    """The first rows of all planes: zeros in a `new` image, or else those that are seen again."""
    count, distance, zeros = moved
    for b in range(planes[0]):
        at = start + b * planes[1]
        if new:
            wide[at:at + zeros] = 0
        else:
            for i in range(at, at + count):
                wide[i] = wide[i + distance]


@kernel(parallel=True)
def _chain(tensors, filters, biases, room, first, last, bands, ends, work, planes, moved, how):
    """The last of `tensors` (x, r, y).  A job is a worker, who takes parts of images through all of
    their bands.

    Tuples are in the order of the convolutions: `filters` and `biases`, tables of `first` and
    `last`.  `work`: images, workers, numbers of an image in x and y, of wide, of wide and deep.
    """
    images, workers, x_image, y_image, wide_size, own = work
    (x, r, y), (expand, middle, project) = tensors, how
    parts, expands, projects = len(ends) - 1, len(first[2]) > 0, len(last[2]) > 0
    wide, deep = room if expands else x, room if projects else y
    for job in prange(workers):
        worker = np.int64(job)
        here = worker * own
        room[here:here + own] = 0
        for unit in range(worker * images * parts // workers,
                          (worker + 1) * images * parts // workers):
            n, part = unit // parts, unit % parts
            for k in range(ends[part], ends[part + 1]):
                height, into, below, zeros, rows, seen, lower, out = bands[k]
                source, target = n * x_image + seen, n * y_image + out
                if expands:
                    _begin(room, here, planes, moved, k == ends[part])
                    if height >= 0:
                        strips_of(x, filters[0], biases[0], x, room, first[0], first[1],
                                  first[2][height], (source, here + into), expand)
                    for b in range(planes[0]):
                        at = here + b * planes[1] + below
                        room[at:at + zeros] = 0
                _rows_of(wide, filters[1], biases[1], deep,
                         (here if expands else source, here + wide_size if projects else target),
                         planes, rows, middle)
                if projects:
                    strips_of(room, filters[2], biases[2], r, y, last[0], last[1],
                              last[2][lower], (here + wide_size, target), project)


# -- its tables -----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Band(Form):
    """Some rows of an image, in planes that are `room` numbers apart."""

    room: int = 0

    @property
    def plane(self) -> int:
        return self.room


class Strips(NamedTuple):
    """Tables of strips for bands of some heights: `blocks` (heights, spans, ...)."""

    taps: np.ndarray
    places: np.ndarray
    blocks: np.ndarray


def _strips(tasks: Sequence[StripTask]) -> Strips:
    """Of a task for each height."""
    none = np.zeros(0, np.int64)
    if not tasks:
        return Strips(none, none, none.reshape(0, 0, 0))
    before = np.cumsum([0, *(len(task.places) // (2 * PIXELS) for task in tasks)])
    blocks = np.stack([task.blocks for task in tasks])
    blocks[:, :, 6] += before[:-1, None]
    return Strips(tasks[0].taps, np.concatenate([task.places for task in tasks]), blocks)


@dataclass(frozen=True)
class Bands:
    """How the bands of a chain lie: kernels of its convolutions, None for one that there is not."""

    expand: Kernels | None
    middle: Kernels
    project: Kernels | None

    @property
    def size(self) -> int:
        return self.middle.slide.kernel[0]

    @property
    def stride(self) -> int:
        return self.middle.slide.stride[0]

    @cached_property
    def rows(self) -> int:
        """Rows of deep in a band, as many as there is room for near by."""
        x, y = self.middle.x, self.middle.y
        wide = x.blocks * self.stride * (x.width + self.size) * (self.expand is not None)
        deep = y.blocks * y.width * (self.project is not None)
        return -(-y.height // -(-y.height * (wide + deep) * LANES // NEAR))

    @cached_property
    def wide(self) -> Form:
        """Of all rows that a band sees; its halo is those around the first and the last."""
        x, rows = self.middle.x, (self.rows - 1) * self.stride + 1
        return Form(x.channels, rows, x.width, self.size // 2) if self.expand else x

    @cached_property
    def deep(self) -> Form:
        y = self.middle.y
        return Form(y.channels, self.rows, y.width) if self.project else y

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of a worker's wide, and of both."""
        wide = self.wide.image if self.expand else 0
        return wide, wide + (self.deep.image if self.project else 0)

    def parts(self, threads: int) -> int:
        """Parts of an image, so that threads have as much to do as each other."""
        images, most = self.middle.batch, self.middle.y.height // FEW
        parts = 1
        while parts < most and images * parts % threads and images * parts < MANY * threads:
            parts += 1
        return parts

    def table(self, parts: int) -> tuple[Strips, Strips, np.ndarray, np.ndarray]:
        """Strips of the first and of the last, bands, and where those of each part end.

        A band is: the height of what is expanded (an index), where that begins in wide, where
        zeros follow and how many; rows of deep; where x begins; the height of what is projected;
        where y begins.
        """
        lines, ends, out = [], [0], self.middle.y.height
        tall: dict[int, int] = {}
        short: dict[int, int] = {}
        y, halo = (self.project or self.middle).y, self.project is None
        for begin, end in pairwise(k * out // parts for k in range(parts + 1)):
            for first in range(begin, end, self.rows):
                rows = min(self.rows, end - first)
                low, high, *zeros = self._expanded(first, rows, first == begin)
                height = tall.setdefault(high - low, len(tall)) if high > low else -1
                lines.append((height, *zeros, rows, self._source(first, low),
                              short.setdefault(rows, len(short)),
                              y.at(first, 0) if halo else first * y.row))
            ends.append(len(lines))
        return (self._strips(self.expand, tall), self._strips(self.project, short),
                np.array(lines), np.array(ends))

    def _expanded(self, first: int, rows: int, new: bool) -> tuple[int, int, int, int, int]:
        """Rows of the image that become wide for a band; where those begin there; where zeros
        follow and how many."""
        top, pad = first * self.stride - self.size // 2, self.size // 2
        end = top + (rows - 1) * self.stride + self.size
        have = top + (0 if new else max(0, self.size - self.stride))
        low, high = max(have, 0), min(end, self.middle.x.height)
        last, row = max(high, have), self.wide.row
        return low, high, (low - top - pad) * row, (last - top) * row, (end - last) * row

    def _source(self, first: int, low: int) -> int:
        if self.expand:
            return low * self.expand.slide.stride[0] * self.expand.x.row
        pad = self.size // 2
        return self.middle.x.at(first * self.stride - pad, -pad)

    def _strips(self, kernels: Kernels | None, heights: Sequence[int] | dict[int, int]) -> Strips:
        """Strips to wide, or from deep, for bands of these heights."""
        if kernels is None:
            return _strips([])
        x, y = (kernels.x, self.wide) if kernels is self.expand else (self.deep, kernels.y)
        return _strips([forward_strips(kernels.slide, x, Band(
            y.channels, height, y.width, y.halo, y.lanes, room=y.plane), 1) for height in heights])

    def compute(self, tensors: Sequence[Any], filters: tuple, biases: tuple, room: Any,
                flags: Sequence[int]) -> Run:
        """What computes y of `tensors` (x, r, y), within its halo."""
        images, source = self.middle.batch, self.expand or self.middle
        target, size, stride = self.project or self.middle, self.size, self.stride
        parts = self.parts(num_threads())
        wide, own = self.sizes
        workers = min(num_threads(), images * parts, len(room) // own if own else images * parts)
        work = (images, workers, source.x.image, target.y.image, wide, own)
        planes = (self.wide.blocks, self.wide.plane, self.wide.row, self.deep.plane, self.deep.row)
        row = self.wide.row
        moved = (max(0, size - stride) * row, self.rows * stride * row, size // 2 * row)
        how = ((self.wide.plane, flags[0], source.strip_kind),
               (size, stride, self.middle.y.width, flags[1]), (target.y.plane, flags[2], 0))
        flat = tuple(tensor.reshape(-1) for tensor in tensors)
        return partial(_chain, flat, filters, biases, room, *self.table(parts), work, planes,
                       moved, how)


# -- the op ---------------------------------------------------------------------------------------

@dataclass(frozen=True)
class BlockedChain(Op):
    """Convolutions one after the other, of data with the weight, and bias if any, of each; the
    last may have images to add."""

    links: tuple[BlockedConvolution, ...]

    name: ClassVar = "_blocked_chain"

    def list_inputs(self) -> tuple[str, ...]:
        names = [[f"weight{i}", *[f"bias{i}"] * link.bias] for i, link in enumerate(self.links)]
        return ("data", *sum(names, []), *["add"] * self.links[-1].add)

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        if ins[0] is None or 0 in ins[0]:
            return ins, outs
        return ins, [self.kernels(Spec(ins[0], FLOAT))[-1].y.shape(ins[0][0])]

    def kernels(self, data: Any) -> list[Kernels]:
        """Of every convolution, for blocked data, an array or a Spec."""
        found, spec = list[Kernels](), Spec(data.shape, FLOAT)
        for link in self.links:
            found.append(link.kernels(spec))
            spec = Spec(found[-1].y.shape(data.shape[0]), FLOAT)
        return found

    @property
    def middle(self) -> int:
        """Which of the links is depthwise."""
        return next(i for i, link in enumerate(self.links) if _can_be_middle(link))

    def three(self, found: Sequence[Any]) -> list[Any]:
        """`found` of each link as those of three, None for one that there is not."""
        three = [*[None] * (1 - self.middle), *found]
        return [*three, *[None] * (3 - len(three))]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        kernels = self.kernels(ins[0])
        bands = Bands(*self.three(kernels))
        workers = min(num_threads(), ins[0].shape[0] * bands.parts(num_threads()))
        return [Spec((workers * bands.sizes[1],), FLOAT),
                *(Spec((k.y.blocks * LANES,), FLOAT) for k in kernels)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        given, (room, *padded) = dict(zip(self.list_inputs(), ins, strict=True)), call.scratch
        kernels, y = self.kernels(ins[0]), outs[0]
        entered = [partial(enter_channels, given[f"bias{i}"], padded[i])
                   for i, link in enumerate(self.links) if link.bias]
        filters = self.three([given[f"weight{i}"] for i in range(len(self.links))])
        flags = self.three([link.flags for link in self.links])
        compute = Bands(*self.three(kernels)).compute(
            (ins[0], given.get("add", y), y), tuple(room if f is None else f for f in filters),
            tuple(room if b is None else b for b in self.three(padded)), room,
            [flag or 0 for flag in flags])
        halo = kernels[-1].y.halo

        def run() -> None:
            for enter in entered:
                enter()
            compute()
            clear_halo(y, halo)

        return run
