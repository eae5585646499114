"""Fused inverted residuals (MobileNetV2, Sandler et al. 2018): convolutions in bands of rows.

What MobileNets have between two narrow images is wide, with six times as many channels:

    expand       any direct convolution: image -> wide         (or the image is wide already)
    depthwise    with row kernels: wide -> deep
    project      1 x 1: deep -> image                          (or deep is the result)

For a batch, wide and deep exceed the caches, and memory traffic takes longer than the arithmetic.
A chain computes a few rows of all three, then the next ones, and never stores wide and deep as a
whole: each worker has a band of each in its L2 cache.  Rows of wide that the next band reads as
well are moved up, the others are computed.  Each element is the same sum in the same order as by
separate steps, so results are bit-identical for any bands and workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Call, Run, Spec, Tensor, all_of
from ..param import Shape
from ..simd.conv_strip import PIXELS
from ..simd.depthwise_rows import RowStart, RowSteps
from .address_tables import StripTask, forward_strips
from .blocked_convolution import FLOAT, Kernels
from .blocked_depthwise import depthwise_row, has_row_kernels, is_depthwise
from .conv_driver import StripImages, image_strips
from .layout import LANES, BlockedLayout, pad_channels, zero_halo
from .ops import BlockedConvolution, BlockedOp

__all__ = ["L2_ELEMENTS", "BlockedChain", "can_extend"]

L2_ELEMENTS = 2 ** 18
"""Elements of wide and deep that a worker has at a time: about an L2 cache.  Where a whole batch
has no more, convolutions are not fused."""
MIN_ROWS = 4
"""Least rows of a part of an image: some expanded rows are computed by both neighbours."""
BALANCED_UNITS = 4
"""Units of work for each thread from which on imbalance does not matter."""


def _can_be_depthwise(op: BlockedConvolution) -> bool:
    return (op.packed and not op.add and has_row_kernels(op.slide)
            and is_depthwise(op.slide, op.channels, op.filters))


def can_extend(links: Sequence[BlockedConvolution], op: BlockedConvolution) -> bool:
    """Whether a convolution may be the next in a chain."""
    if not links:
        return False
    if _can_be_depthwise(links[-1]):  # op projects
        slide = op.slide
        return (op.packed and not op.winograd_tile and slide.groups == 1 and slide.pad == (0, 0)
                and slide.kernel == slide.stride == (1, 1))
    first = links[0]
    expands = (first.packed and not first.winograd_tile and not first.add
               and first.slide.groups == 1)
    return len(links) == 1 and expands and _can_be_depthwise(op)


# -- the kernel -----------------------------------------------------------------------------------

class BandStrips(NamedTuple):
    """Tables of strips for bands of some heights: `spans` (heights, spans, ...)."""

    taps: np.ndarray
    offsets: np.ndarray
    spans: np.ndarray


class ChainPlanes(NamedTuple):
    """Blocks of channels; strides of planes and rows of wide, and of deep."""

    blocks: int
    wide: int
    wide_row: int
    deep: int
    deep_row: int


@inlined
def _depthwise_rows(x, w, bias, y, x_at, y_at, planes, rows, options):
    """Rows of the depthwise convolution; `options`: size and stride of filters, pixels of a row,
    flags."""
    size, stride, pixels, flags = options
    for b in range(planes.blocks):
        for k in range(rows):
            row = RowStart(x_at + b * planes.wide + k * stride * planes.wide_row,
                           b * size * size * LANES, b * LANES,
                           y_at + b * planes.deep + k * planes.deep_row)
            steps = RowSteps(pixels, size, planes.wide_row, size * LANES, flags)
            depthwise_row(x, w, bias, y, y, row, steps, size, stride)


@inlined
def _move_rows(wide, start, planes, moved, new):
    """The first rows of all planes: zeros in a `new` image, or else the rows that are read
    again."""
    count, distance, zeros = moved
    for b in range(planes.blocks):
        at = start + b * planes.wide
        if new:
            wide[at:at + zeros] = 0
        else:
            for i in range(at, at + count):
                wide[i] = wide[i + distance]


@kernel(parallel=True)
def _chain(tensors, filters, biases, workspace, first, last, bands, ends, work, planes, moved,
           options):
    """The last of `tensors` (x, r, y).  A job is a worker, which computes all bands of some parts
    of images.

    Tuples are in the order of the convolutions: `filters` and `biases`, tables of `first` and
    `last`. `work`: images, workers, image strides of x and y, sizes of wide, and of wide and deep.
    """
    images, workers, x_image, y_image, wide_size, own = work
    planes = ChainPlanes(*planes)
    (x, r, y), (expand, middle, project) = tensors, options
    (w0, w1, w2), (bias0, bias1, bias2) = filters, biases
    (wide_plane, wide_flags, kind), (out_plane, out_flags, out_kind) = expand, project
    parts, expands, projects = len(ends) - 1, len(first.spans) > 0, len(last.spans) > 0
    wide, deep = workspace if expands else x, workspace if projects else y
    for job in prange(workers):
        worker = np.int64(job)
        here = worker * own
        workspace[here:here + own] = 0
        for unit in range(worker * images * parts // workers,
                          (worker + 1) * images * parts // workers):
            n, part = unit // parts, unit % parts
            for k in range(ends[part], ends[part + 1]):
                height, into, below, zeros, rows, seen, lower, out = bands[k]
                source, target = n * x_image + seen, n * y_image + out
                # expand: move rows shared with the previous band, compute others, zero the halo
                if expands:
                    _move_rows(workspace, here, planes, moved, k == ends[part])
                    if height >= 0:
                        image_strips(x, w0, bias0, x, workspace, first.taps, first.offsets,
                                     first.spans[height],
                                     StripImages(source, here + into, 0, wide_plane, wide_flags,
                                                 kind))
                    for b in range(planes.blocks):
                        at = here + b * planes.wide + below
                        workspace[at:at + zeros] = 0
                # depthwise
                _depthwise_rows(wide, w1, bias1, deep, here if expands else source,
                                here + wide_size if projects else target, planes, rows, middle)
                # project
                if projects:
                    image_strips(workspace, w2, bias2, r, y, last.taps, last.offsets,
                                 last.spans[lower],
                                 StripImages(here + wide_size, target, 0, out_plane, out_flags,
                                             out_kind))


# -- its tables -----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Band(BlockedLayout):
    """Some rows of an image, in planes that are `plane_size` elements apart."""

    plane_size: int = 0

    @property
    def plane(self) -> int:
        return self.plane_size


def _strips(tasks: Sequence[StripTask]) -> BandStrips:
    """The tables of a task for each height."""
    none = np.zeros(0, np.int64)
    if not tasks:
        return BandStrips(none, none, none.reshape(0, 0, 0))
    before = np.cumsum([0, *(len(task.offsets) // (2 * PIXELS) for task in tasks)])
    spans = np.stack([task.spans for task in tasks])
    spans[:, :, 6] += before[:-1, None]
    return BandStrips(tasks[0].taps, np.concatenate([task.offsets for task in tasks]), spans)


@dataclass(frozen=True)
class Bands:
    """The bands of a chain; kernels are None for a missing convolution."""

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
        """Rows of deep in a band, as many as fit L2_ELEMENTS."""
        x, y = self.middle.x, self.middle.y
        wide = x.blocks * self.stride * (x.width + self.size) * (self.expand is not None)
        deep = y.blocks * y.width * (self.project is not None)
        return -(-y.height // -(-y.height * (wide + deep) * LANES // L2_ELEMENTS))

    @cached_property
    def wide(self) -> BlockedLayout:
        """Layout of all rows that a band reads; its halo is above the first and below the last."""
        x, rows = self.middle.x, (self.rows - 1) * self.stride + 1
        return BlockedLayout(x.channels, rows, x.width, self.size // 2) if self.expand else x

    @cached_property
    def deep(self) -> BlockedLayout:
        y = self.middle.y
        return BlockedLayout(y.channels, self.rows, y.width) if self.project else y

    @property
    def sizes(self) -> tuple[int, int]:
        """Elements of a worker's wide, and of both."""
        wide = self.wide.image if self.expand else 0
        return wide, wide + (self.deep.image if self.project else 0)

    def parts(self, threads: int) -> int:
        """Parts of an image, for load balance of the threads."""
        images, most = self.middle.batch, self.middle.y.height // MIN_ROWS
        parts = 1
        while (parts < most and images * parts % threads
               and images * parts < BALANCED_UNITS * threads):
            parts += 1
        return parts

    def table(self, parts: int) -> tuple[BandStrips, BandStrips, np.ndarray, np.ndarray]:
        """Strips of the first and of the last convolution, bands, and the end of the bands of each
        part.

        A band is: the height of what is expanded (an index), its offset in wide, offset and number
        of the zeros that follow; rows of deep; offset in x; the height of what is projected; offset
        in y.
        """
        lines, ends, out = [], [0], self.middle.y.height
        expanded: dict[int, int] = {}
        projected: dict[int, int] = {}
        y, halo = (self.project or self.middle).y, self.project is None
        for begin, end in pairwise(k * out // parts for k in range(parts + 1)):
            for first in range(begin, end, self.rows):
                rows = min(self.rows, end - first)
                low, high, *zeros = self._expanded(first, rows, first == begin)
                height = expanded.setdefault(high - low, len(expanded)) if high > low else -1
                lines.append((height, *zeros, rows, self._source(first, low),
                              projected.setdefault(rows, len(projected)),
                              y.at(first, 0) if halo else first * y.row))
            ends.append(len(lines))
        return (self._strips(self.expand, expanded), self._strips(self.project, projected),
                np.array(lines), np.array(ends))

    def _expanded(self, first: int, rows: int, new: bool) -> tuple[int, int, int, int, int]:
        """Rows of the image that become wide for a band; their offset there; offset and number of
        the zeros that follow."""
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

    def _strips(self, kernels: Kernels | None, heights: Sequence[int] | dict[int, int]
                ) -> BandStrips:
        """Strips to wide, or from deep, for bands of these heights."""
        if kernels is None:
            return _strips([])
        x, y = (kernels.x, self.wide) if kernels is self.expand else (self.deep, kernels.y)
        return _strips([forward_strips(kernels.slide, x, Band(
            y.channels, height, y.width, y.halo, y.lanes, plane_size=y.plane), 1)
            for height in heights])

    def compute(self, tensors: Sequence[Any], filters: tuple, biases: tuple, workspace: np.ndarray,
                flags: Sequence[int]) -> Run:
        """A function that computes y of `tensors` (x, r, y), within its halo."""
        images, source = self.middle.batch, self.expand or self.middle
        target, size, stride = self.project or self.middle, self.size, self.stride
        parts = self.parts(num_threads())
        wide, own = self.sizes
        workers = min(num_threads(), images * parts)
        workers = min(workers, len(workspace) // own) if own else workers
        work = (images, workers, source.x.image, target.y.image, wide, own)
        planes = (self.wide.blocks, self.wide.plane, self.wide.row, self.deep.plane, self.deep.row)
        row = self.wide.row
        moved = (max(0, size - stride) * row, self.rows * stride * row, size // 2 * row)
        options = ((self.wide.plane, flags[0], source.strip_kind),
               (size, stride, self.middle.y.width, flags[1]), (target.y.plane, flags[2], 0))
        flat = tuple(tensor.reshape(-1) for tensor in tensors)
        return partial(_chain, flat, filters, biases, workspace, *self.table(parts), work, planes,
                       moved, options)


# -- the op ---------------------------------------------------------------------------------------

@dataclass(frozen=True)
class BlockedChain(BlockedOp):
    """A chain of convolutions, of data with the weight, and bias if any, of each; the last may add
    a residual."""

    links: tuple[BlockedConvolution, ...]

    name: ClassVar = "_blocked_chain"

    def list_inputs(self) -> tuple[str, ...]:
        names = [[f"weight{i}", *[f"bias{i}"] * link.bias] for i, link in enumerate(self.links)]
        return ("data", *sum(names, []), *["add"] * self.links[-1].add)

    def out_shape(self, data: Shape) -> Shape:
        return self.kernels(Spec(data, FLOAT))[-1].y.shape(data[0])

    def kernels(self, data: Tensor) -> list[Kernels]:
        """Kernels of every convolution, for blocked data, an array or a Spec."""
        kernels, spec = list[Kernels](), Spec(data.shape, FLOAT)
        for link in self.links:
            kernels.append(link.kernels(spec))
            spec = Spec(kernels[-1].y.shape(data.shape[0]), FLOAT)
        return kernels

    @property
    def middle(self) -> int:
        """Index of the depthwise convolution."""
        return next(i for i, link in enumerate(self.links) if _can_be_depthwise(link))

    def three(self, values: Sequence[Any]) -> list[Any]:
        """A value for each link as one for each of three, None for a missing one."""
        three = [*[None] * (1 - self.middle), *values]
        return [*three, *[None] * (3 - len(three))]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        kernels = self.kernels(ins[0])
        bands = Bands(*self.three(kernels))
        workers = min(num_threads(), ins[0].shape[0] * bands.parts(num_threads()))
        return [Spec((workers * bands.sizes[1],), FLOAT),
                *(Spec((k.y.blocks * LANES,), FLOAT) for k in kernels)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        inputs, (workspace, *padded) = dict(zip(self.list_inputs(), ins, strict=True)), call.scratch
        kernels, y = self.kernels(ins[0]), outs[0]
        padding = [partial(pad_channels, inputs[f"bias{i}"], padded[i])
                   for i, link in enumerate(self.links) if link.bias]
        filters = self.three([inputs[f"weight{i}"] for i in range(len(self.links))])
        flags = [flag or 0 for flag in self.three([link.flags for link in self.links])]
        compute = Bands(*self.three(kernels)).compute(
            (ins[0], inputs.get("add", y), y),
            tuple(workspace if f is None else f for f in filters),
            tuple(workspace if b is None else b for b in self.three(padded)), workspace, flags)
        return all_of([*padding, compute, partial(zero_halo, y, kernels[-1].y.halo)])
