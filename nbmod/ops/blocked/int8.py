"""int8 convolutions and dense layers in the blocked layout, and the operators around them.

Images of bytes have the usual blocked layout, with elements of one byte: a block of channels is
LANES / 4 words of four channels each, which the strip kernel multiplies as in `simd.int8_dot`; the
bytes to which it requantizes a vector of sums are a block again.  Input images of few channels have
blocks of four.  A dense layer is a convolution of images of one pixel.

The instructions multiply unsigned bytes with signed ones.  Hence int8 images are stored with an
offset of 128 (`zero`), their halo included, and 128 times the sum of the weights of each filter is
subtracted: it is the initial value of the sums (`PackedInt8Filters`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..jit import kernel, prange
from ..nn.sliding_window import Geometry, Window
from ..op import Call, Op, Run, Spec, Types, all_of
from ..param import Shape
from ..quantization.quantize import Requantize, sums_step
from ..quantization.quantized_layers import QuantizedConvolution, QuantizedFullyConnected
from ..quantization.ranges import INT8, INT32, UINT8, limits, set_range
from ..shape import Shapes
from ..simd.conv_strip import BIAS
from ..simd.int8_dot import ROUND_MAGIC
from .address_tables import PackPlan, Sliding, StripTask, forward_pack, forward_strips, neighbours
from .blocked_convolution import FLAT, FLOAT, is_planar, sliding_of
from .conv_driver import BLOCK, pack, run_strips
from .layout import LANES, BlockedLayout, pad_channels, zero_halo
from .reorder import from_blocks, into_blocks

__all__ = ["BlockedInt8Layer", "Int8Layer", "Int8FromBlocks", "Int8IntoBlocks", "PackedInt8Filters",
           "layer_of"]

WORD = 4
"""Bytes of a word."""


@dataclass(frozen=True)
class Int8Layer:
    """One convolution of `batch` images of layout `x` to layout `y`.

    `zero` is the byte that represents 0 in x.
    """

    slide: Sliding
    x: BlockedLayout
    y: BlockedLayout
    batch: int
    zero: int

    @property
    def filters(self) -> Int8Layer:
        """The layer with images of one pixel, on which packed filters depend."""
        x, y = (BlockedLayout(own.channels, 1, 1, 0, own.lanes) for own in (self.x, self.y))
        return replace(self, x=x, y=y, batch=1)

    @property
    def words(self) -> BlockedLayout:
        """The layout of x in words."""
        lanes = self.x.lanes // WORD
        return replace(self.x, channels=self.x.blocks * lanes, lanes=lanes)

    @property
    def packing(self) -> PackPlan:
        words = self.words
        return forward_pack(self.slide, self.y.channels, words.channels, words.lanes)

    @property
    def task(self) -> StripTask:
        return forward_strips(self.slide, self.words, self.y, self.batch)

    @property
    def kind(self) -> int:
        """Kind of the taps (see `conv_driver`)."""
        words = self.words
        return BLOCK if words.lanes > 1 else neighbours(self.slide, words)

    def prepare(self, x: np.ndarray, w: np.ndarray, start: np.ndarray, scale: np.ndarray,
                y: np.ndarray) -> Run:
        """A function that computes y within its halo: the int32 sums, or bytes requantized by the
        parameters `scale` (see `simd.int8_dot`)."""
        return partial(run_strips, self.task, x.view(INT32), w, start, scale, y, self.kind, BIAS)


def zero_of(dtype: np.dtype) -> int:
    """The byte that represents 0."""
    return 128 if dtype == INT8 else 0


@kernel(parallel=True)
def _flip(data):
    """Convert int8 to bytes with an offset of 128, and back."""
    for i in prange(data.size):
        data[i] ^= np.uint8(128)


def layer_of(op: QuantizedConvolution | QuantizedFullyConnected, data: Spec, out: Spec
             ) -> Int8Layer | None:
    """The convolution of data to `out`; None where this does not apply: images have three axes, or
    groups of channels are not whole words, groups of filters not whole vectors."""
    if LANES == 1 or not data.size or not out.size:
        return None
    if isinstance(op, QuantizedFullyConnected):
        rows = out.size // op.num_hidden
        geo = Geometry(Window.pixelwise(1), rows, data.size // rows, op.num_hidden)
    else:
        geo = op.layer.geometry(Spec(data.shape, FLOAT))
    channels, filters, slide = geo.channels, geo.filters, sliding_of(geo)
    if not is_planar(geo):
        return None
    if slide.groups > 1 and (channels // slide.groups % WORD or filters // slide.groups % LANES):
        return None
    flat = slide.groups > 1 or channels < FLAT
    x = BlockedLayout(channels, *geo.window.image[1:], max(slide.pad), WORD if flat else LANES)
    y = BlockedLayout(filters, *geo.window.out[1:])
    return Int8Layer(slide, x, y, geo.images, zero_of(data.dtype))


# ----------------------------------------------------------------------------------------- reorders

class _Static(Op):
    """Base of operators inserted by a pass: the specs of the outputs are known."""

    @property
    def specs(self) -> list[Spec]:
        raise NotImplementedError

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        return ins, [spec.shape for spec in self.specs]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return ins, [spec.dtype for spec in self.specs]


@dataclass(frozen=True)
class Int8IntoBlocks(_Static):
    """Blocked images with this layout, `batch` of them, from data of uint8 or int8, of any shape
    with as many elements in the order (N, C, H, W)."""

    layout: BlockedLayout
    batch: int

    name: ClassVar = "_into_bytes"

    @property
    def specs(self) -> list[Spec]:
        return [Spec(self.layout.shape(self.batch), UINT8)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        layout, data, blocks = self.layout, ins[0], outs[0]
        images = data.view(UINT8).reshape(self.batch, layout.channels, layout.height, layout.width)
        flip = [partial(_flip, blocks.reshape(-1))] if data.dtype == INT8 else []
        return all_of([partial(into_blocks, layout, images, blocks), *flip])


@dataclass(frozen=True)
class Int8FromBlocks(_Static):
    """Blocked images with this layout as a tensor of this shape and type."""

    layout: BlockedLayout
    batch: int
    shape: Shape
    dtype: np.dtype

    name: ClassVar = "_from_bytes"

    @property
    def specs(self) -> list[Spec]:
        return [Spec(self.shape, self.dtype)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        layout, blocks = self.layout, ins[0]
        data = outs[0].view(blocks.dtype)
        images = data.reshape(self.batch, layout.channels, layout.height, layout.width)
        flip = [partial(_flip, data.reshape(-1))] if self.dtype == INT8 else []
        return all_of([partial(from_blocks, layout, blocks, images), *flip])


# ------------------------------------------------------------------------------------------- layers

@kernel(parallel=True)
def _into_words(w, zero, words, start):
    """words (F, C / 4, taps, 4) from w (F, C, taps), and -zero times the sum of each filter."""
    filters, channels, taps = w.shape
    for f in prange(filters):
        total = 0
        for c in range(words.shape[1] * words.shape[3]):
            for t in range(taps):
                value = w[f, c, t] if c < channels else 0
                words[f, c // 4, t, c % 4] = value
                total += value
        start[f] = -zero * total


@dataclass(frozen=True)
class PackedInt8Filters(_Static):
    """An int8 weight packed for `BlockedInt8Layer`, and the initial values of sums."""

    bytes: Int8Layer

    name: ClassVar = "_packed_bytes"
    inputs: ClassVar = ("weight",)
    outputs: ClassVar = ("output", "start")
    derived: ClassVar = True

    @property
    def specs(self) -> list[Spec]:
        return [Spec((self.bytes.packing.size,), INT32), Spec((self.bytes.y.channels,), INT32)]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        plan, taps = self.bytes.packing, len(self.bytes.slide.taps)
        filters, inner = self.bytes.y.channels, self.bytes.words.channels // self.bytes.slide.groups
        words = np.empty((filters, inner, taps, WORD), np.int8)
        _into_words(ins[0].reshape(filters, -1, taps), self.bytes.zero, words, outs[1])
        pack(plan, words.view(INT32), outs[0])


@dataclass(frozen=True)
class BlockedInt8Layer(_Static):
    """A quantized layer on blocked bytes, with a weight from `PackedInt8Filters`.

    The outputs are its sums, int32, or with `requantize` bytes in the calibrated range, those of
    int8 with an offset of 128; with `relu` results are not negative.  Results are bit-identical to
    those of the operators that it replaces.
    """

    bytes: Int8Layer
    layer: QuantizedConvolution | QuantizedFullyConnected
    dtype: np.dtype
    """The type of the data."""
    requantize: Requantize | None = None
    relu: bool = False

    name: ClassVar = "_byte_layer"
    outputs: ClassVar = ("output", "min_output", "max_output")

    def list_inputs(self) -> tuple[str, ...]:
        rest = self.layer.list_inputs()[2:]
        return ("data", "packed", "start", *rest)

    @property
    def target(self) -> np.dtype:
        """The type of the elements that the output represents."""
        return self.requantize.target if self.requantize else INT32

    @property
    def specs(self) -> list[Spec]:
        dtype = UINT8 if self.requantize else INT32
        return [Spec(self.bytes.y.shape(self.bytes.batch), dtype), *[Spec((1,), FLOAT)] * 2]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        y = self.bytes.y
        return [Spec((y.blocks * y.lanes,), INT32), Spec((4,), FLOAT)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        (start, scale), zero = call.scratch, zero_of(self.target)
        inputs = dict(zip(self.list_inputs(), ins, strict=True))
        ends = ins[-6 if "bias" in inputs else -4:]
        compute = self.bytes.prepare(ins[0], inputs["packed"], start, scale, outs[0])

        def run() -> None:
            sums, end = inputs["start"], self.layer.sums_end(self.dtype, ends)
            if "bias" in inputs:
                sums = sums + self.layer.in_sums(inputs["bias"], self.dtype, ends)
            pad_channels(sums, start)
            set_range(outs, -end, end)
            if self.requantize:
                low, high = limits(self.target)
                step = self.requantize.enter_range(outs, sums_step(-end, end))
                scale[:] = step, max(low, 0 if self.relu else low), high, ROUND_MAGIC + zero
            compute()
            zero_halo(outs[0], self.bytes.y.halo, zero)

        return run
