"""Operators of the blocked layout: reorders, convolution, concatenation, packed filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from ..nn.batch_tiles import divisors_up_to
from ..nn.sliding_window import sliding_size, span_of
from ..op import Call, Op, Run, Spec, Tensor, all_of
from ..param import Shape
from ..regions import RowSlices
from ..shape import Shapes
from ..simd.conv_strip import ADD, BIAS, RELU, clip_flag
from ..tensor.slicing import Concat
from ..tensor.strided_copy import prepare_moves
from .address_tables import Sliding
from .blocked_convolution import FLOAT, Kernels
from .blocked_depthwise import is_depthwise, kernels_of
from .layout import LANES, BlockedLayout, pad_channels, zero_halo, zero_tail
from .reorder import from_blocks, into_blocks, pad_halo
from .winograd_convolution import WinogradConvolution

__all__ = ["BlockedConcat", "BlockedConvolution", "FromBlocks", "IntoBlocks", "ZeroPadding"]


NEAR = 2 ** 19
"""Elements of images that are copied into a wider halo at a time, where filters are few."""
SMALL = 2 ** 16
"""Elements of filters that may be packed again each time."""


class BlockedOp(Op):
    """Base of operators with one output, whose shape follows from that of data."""

    def out_shape(self, data: Shape) -> Shape:
        raise NotImplementedError

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = ins[0]
        return ins, outs if data is None or 0 in data else [self.out_shape(data)]


@dataclass(frozen=True)
class Reorder(BlockedOp):
    """Base of the two reorders: images of `channels` channels with a halo, in blocks of `lanes`."""

    channels: int
    halo: int = 0
    lanes: int = LANES

    needs: ClassVar = ("ograd",)

    def layout(self, images: Shape) -> BlockedLayout:
        """The blocked layout of images (N, C, H, W)."""
        return BlockedLayout(self.channels, images[2], images[3], self.halo, self.lanes)

    def prepare_into(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(into_blocks, self.layout(ins[0].shape), ins[0], outs[0])

    def prepare_from(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(from_blocks, self.layout(outs[0].shape), ins[0], outs[0])


class IntoBlocks(Reorder):
    """Blocked images from data (N, C, H, W)."""

    name = "_into_blocks"

    def out_shape(self, data: Shape) -> Shape:
        return self.layout(data).shape(data[0])

    prepare, prepare_backward = Reorder.prepare_into, Reorder.prepare_from


class FromBlocks(Reorder):
    """Images (N, C, H, W) from blocked ones."""

    name = "_from_blocks"

    def out_shape(self, data: Shape) -> Shape:
        return data[0], self.channels, data[2] - 2 * self.halo, data[3] - 2 * self.halo

    prepare, prepare_backward = Reorder.prepare_from, Reorder.prepare_into


@dataclass(frozen=True)
class ZeroPadding(Op):
    """Blocked images with the halo and padding channels set to zero, after an elementwise function
    f with f(0) != 0."""

    channels: int
    halo: int

    name: ClassVar = "_clear_edges"
    needs: ClassVar = ("ograd",)
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        (source,), (target,) = ins, outs
        copy = [partial(np.copyto, target, source)] if target is not source else []
        return all_of([*copy, partial(zero_halo, target, self.halo),
                       partial(zero_tail, target, self.channels)])

    prepare_backward = prepare


@dataclass(frozen=True)
class BlockedConvolution(BlockedOp):
    """Convolution of blocked images with weight (F, C / groups, *kernel), and bias (F,) if any.

    The halo of the output is `out_halo`; that of data is at least `slide.pad`.  Where the data
    gradient reads a wider halo of the output's gradient, that is copied first, some images at a
    time; it is not computed unless `needs_data_grad`.  With `packed` the weight is a
    `PackedFilters`.  In inference `add`, blocked images like the output, are added to the sums,
    with `relu` negative results become 0, and results are clipped at `most`.  `winograd_tile` is 0
    or the tile size of Winograd's algorithm.
    """

    slide: Sliding
    channels: int
    filters: int
    halo: int
    out_halo: int
    bias: bool = False
    packed: bool = False
    add: bool = False
    relu: bool = False
    most: float = np.inf
    needs_data_grad: bool = True
    winograd_tile: int = 0

    name: ClassVar = "_blocked_convolution"
    needs: ClassVar = ("ograd", "data", "weight")
    inplace: ClassVar = (("add", "output"),)
    accumulates_backward: ClassVar = True

    def list_inputs(self) -> tuple[str, ...]:
        return ("data", "weight", *["bias"] * self.bias, *["add"] * self.add)

    def out_shape(self, data: Shape) -> Shape:
        return self.kernels(Spec(data, FLOAT)).y.shape(data[0])

    @property
    def flags(self) -> int:
        """Flags of the strip kernel."""
        return BIAS * self.bias + ADD * self.add + RELU * self.relu + clip_flag(self.most)

    def strided(self) -> tuple[str, ...]:
        if is_depthwise(self.slide, self.channels, self.filters):
            return ()
        return ("data",) if self.add else ("data", "output")

    def kernels(self, data: Tensor, output: np.ndarray | None = None) -> Kernels:
        """Kernels for blocked data, an array or a Spec, and the output if its images may be
        strided."""
        slide = self.slide
        x = BlockedLayout.of(data.shape, self.channels, self.halo).with_stride_of(data)
        height, width = sliding_size((x.height, x.width), span_of(slide.kernel, slide.dilate),
                                     slide.stride, slide.pad)
        y = BlockedLayout(self.filters, height, width, self.out_halo).with_stride_of(output)
        if self.winograd_tile:
            return WinogradConvolution(slide, x, y, data.shape[0], self.winograd_tile,
                                       not self.packed)
        return kernels_of(slide, x, y, data.shape[0])

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        kernels = self.kernels(ins[0])
        return [Spec((0,), FLOAT) if self.packed else kernels.filters,
                Spec((kernels.y.blocks * LANES,), FLOAT), kernels.workspace(False)]

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        kernels, empty = self.kernels(ins[1]), Spec((0,), FLOAT)
        if not self.needs_data_grad:
            return [kernels.summed, empty, kernels.weight_workspace, empty]
        back = kernels.back
        workspace = max(kernels.weight_workspace, back.workspace(True), key=attrgetter("size"))
        # images that get a wider halo at a time: filters are packed for each of these parts
        few = divisors_up_to(back.batch, NEAR // back.y.image)
        batch = max(few) if few and back.data_filters.size <= SMALL else back.batch
        wide = Spec(back.y.shape(batch), FLOAT) if back.y != kernels.y else empty
        return [kernels.summed, back.data_filters, workspace, wide]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        kernels = self.kernels(ins[0], outs[0])
        inputs = dict(zip(self.list_inputs(), ins, strict=True))
        weight, bias = inputs["weight"], inputs.get("bias")
        filters, padded, workspace = call.scratch
        filters = weight if self.packed else filters
        runs = [] if self.packed else [partial(kernels.pack, weight, filters, workspace)]
        runs += [partial(pad_channels, bias, padded)] if bias is not None else []
        return all_of([*runs, kernels.forward(
            ins[0], filters, padded if self.bias else None, outs[0], inputs.get("add"),
            RELU * self.relu + clip_flag(self.most), workspace)])

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        (g, x, w), (packed, filters, workspace, wide) = ins, call.scratch
        kernels, runs = self.kernels(x), list[Run]()
        adds = (*call.add, *[False] * (3 - len(call.add)))
        if outs[0] is not None:
            each = len(wide) if wide.size else len(g)
            back = replace(kernels.back, batch=each)
            for first in range(0, len(g), each):
                part = slice(first, first + each)
                if wide.size:
                    runs.append(partial(pad_halo, g[part], wide))
                runs.append(back.data(wide if wide.size else g, w, filters, outs[0][part],
                                      adds=adds[0], workspace=workspace))
        if outs[1] is not None:
            runs.append(kernels.weight(x, g, packed, outs[1], adds[1], workspace))
        if self.bias and outs[2] is not None:
            runs.append(partial(_sum_pixels, g, outs[2], adds[2]))
        return all_of(runs)


def _sum_pixels(g: np.ndarray, total: np.ndarray, adds: bool) -> None:
    """total (+)= sums of the blocked g over all axes but channels."""
    sums = g.sum(axis=(2, 3)).sum(axis=0).reshape(-1)[:len(total)]
    np.copyto(total, total + sums if adds else sums)


@dataclass(frozen=True)
class BlockedConcat(Op):
    """Concatenation of blocked images along channels; all but the last fill their blocks.

    The memory planner makes producers write in place if possible.
    """

    num_args: int

    name: ClassVar = "_joined_blocks"
    variadic: ClassVar = "num_args"
    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        return self.plain.infer_shape(ins, outs)

    @property
    def plain(self) -> Concat:
        """The unblocked operator."""
        return Concat(num_args=self.num_args, dim=1)

    def strided(self) -> tuple[str, ...]:
        return (*self.list_inputs(), *self.list_outputs())

    def concat_offsets(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> RowSlices | None:
        return self.plain.concat_offsets(ins, outs)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        ends = np.cumsum([array.shape[1] for array in ins])
        pairs = zip(ins, np.split(outs[0], ends[:-1], axis=1), strict=True)
        return prepare_moves([(array, part) for array, part in pairs
                              if part.ctypes.data != array.ctypes.data])

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return self.plain.prepare_backward(ins, outs, call)


@dataclass(frozen=True)
class PackedFilters(Op):
    """A weight packed for `BlockedConvolution`, computed when the weight changes."""

    slide: Sliding
    channels: int
    filters: int
    lanes: int
    winograd_tile: int = 0

    name: ClassVar = "_packed_filters"
    inputs: ClassVar = ("weight",)
    derived: ClassVar = True

    def kernels(self) -> Kernels:
        """Kernels of any image: the packing does not depend on it."""
        x, y = BlockedLayout(self.channels, 1, 1, 0, self.lanes), BlockedLayout(self.filters, 1, 1)
        if self.winograd_tile:
            return WinogradConvolution(self.slide, x, y, 1, self.winograd_tile)
        return kernels_of(self.slide, x, y, 1)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        return ins, [self.kernels().filters.shape]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        kernels = self.kernels()
        kernels.pack(ins[0], outs[0], np.empty(kernels.packed.shape, FLOAT))
