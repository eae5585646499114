"""Convolutions and dense layers of 8-bit numbers on the blocked form, and the ops around them.

Images of bytes have the form of others, with numbers of a byte: so the channels of a block are
LANES / 4 words of four channels each, which the strip kernel multiplies as it multiplies numbers,
and the bytes that it makes of a vector of sums are a block again.  Pictures of few channels stand
in blocks of four.  A dense layer is a convolution of images of one pixel.

The instructions multiply unsigned bytes with signed ones.  Hence int8 images are kept 128 above
what they are (`zero`), their halo included, and 128 times all weights of a filter is taken from its
sums: they begin with that number (`PackedBytes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..jit import kernel, prange
from ..nn.sliding_window import Geometry, Window
from ..op import Call, Op, PartialType, Run, Spec
from ..param import Shape
from ..quantization.quantize import Requantize, sums_step
from ..quantization.quantized_layers import QuantizedConvolution, QuantizedFullyConnected
from ..quantization.ranges import INT8, INT32, UINT8, limits, set_range
from ..shape import PartialShape
from ..simd.conv_strip import BIAS
from ..simd.int8_dot import ROUND_MAGIC
from .address_tables import Pack, Sliding, StripTask, forward_pack, forward_strips, neighbours
from .blocked_convolution import FLAT, FLOAT, is_planar, sliding_of
from .conv_driver import BLOCK, pack, run_strips
from .layout import LANES, Form, clear_halo, enter_channels
from .reorder import from_blocks, into_blocks

__all__ = ["ByteLayer", "Bytes", "FromBytes", "IntoBytes", "PackedBytes", "layer_of"]

WORD = 4
"""Bytes of a word."""


@dataclass(frozen=True)
class Bytes:
    """One layer: filters that slide over `batch` images of form `x` and make those of form `y`.

    `zero` is the byte that stands for 0 in x.
    """

    slide: Sliding
    x: Form
    y: Form
    batch: int
    zero: int

    @property
    def filters(self) -> Bytes:
        """The same with images of one pixel: how filters are packed depends on nothing else."""
        x, y = (Form(form.channels, 1, 1, 0, form.lanes) for form in (self.x, self.y))
        return replace(self, x=x, y=y, batch=1)

    @property
    def words(self) -> Form:
        """The form of x in words."""
        lanes = self.x.lanes // WORD
        return replace(self.x, channels=self.x.blocks * lanes, lanes=lanes)

    @property
    def packing(self) -> Pack:
        words = self.words
        return forward_pack(self.slide, self.y.channels, words.channels, words.lanes)

    @property
    def task(self) -> StripTask:
        return forward_strips(self.slide, self.words, self.y, self.batch)

    @property
    def kind(self) -> int:
        """Of the taps (see `strips`)."""
        words = self.words
        return BLOCK if words.lanes > 1 else neighbours(self.slide, words)

    def prepare(self, x: Any, w: Any, start: Any, numbers: Any, y: Any) -> Run:
        """A function that computes y within its halo: the sums, int32, or bytes of them by
        `numbers` (see `simd.quads`)."""
        return partial(run_strips, self.task, x.view(INT32), w, start, numbers, y, self.kind, BIAS)


def zero_of(dtype: np.dtype) -> int:
    """The byte that stands for 0."""
    return 128 if dtype == INT8 else 0


@kernel(parallel=True)
def _flip(data):
    """int8 numbers, as bytes, 128 above what they are, and back."""
    for i in prange(data.size):
        data[i] ^= np.uint8(128)


def layer_of(op: QuantizedConvolution | QuantizedFullyConnected, data: Spec, out: Spec
             ) -> Bytes | None:
    """The layer on data that gives `out`; None if this is not the place for it: images have three
    axes, or groups of channels are no whole words, groups of filters no whole vectors."""
    if LANES == 1 or not data.size or not out.size:
        return None
    if isinstance(op, QuantizedFullyConnected):
        rows = out.size // op.num_hidden
        geo = Geometry(Window.pixelwise(1), rows, data.size // rows, op.num_hidden)
    else:
        geo = op.layer.directions(Spec(data.shape, FLOAT)).geo
    channels, filters, slide = geo.channels, geo.filters, sliding_of(geo)
    if not is_planar(geo):
        return None
    if slide.groups > 1 and (channels // slide.groups % WORD or filters // slide.groups % LANES):
        return None
    flat = slide.groups > 1 or channels < FLAT
    x = Form(channels, *geo.window.image[1:], max(slide.pad), WORD if flat else LANES)
    return Bytes(slide, x, Form(filters, *geo.window.out[1:]), geo.images, zero_of(data.dtype))


# ----------------------------------------------------------------------------------------- reorders

class _Static(Op):
    """Ops that a pass makes for tensors it knows: the specs of the outputs are given."""

    @property
    def specs(self) -> list[Spec]:
        raise NotImplementedError

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        return ins, [spec.shape for spec in self.specs]

    def infer_type(self, ins: list[PartialType], outs: list[PartialType]
                   ) -> tuple[list[PartialType], list[PartialType]]:
        return ins, [spec.dtype for spec in self.specs]


@dataclass(frozen=True)
class IntoBytes(_Static):
    """Blocked images of `form`, `batch` of them, from data of uint8 or int8, of any shape that has
    as many numbers in the order (N, C, H, W)."""

    form: Form
    batch: int

    name: ClassVar = "_into_bytes"

    @property
    def specs(self) -> list[Spec]:
        return [Spec(self.form.shape(self.batch), UINT8)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        form, data, blocks = self.form, ins[0], outs[0]
        images = data.view(UINT8).reshape(self.batch, form.channels, form.height, form.width)

        def run() -> None:
            into_blocks(form, images, blocks)
            if data.dtype == INT8:
                _flip(blocks.reshape(-1))

        return run


@dataclass(frozen=True)
class FromBytes(_Static):
    """What stands in blocked images of `form`, as a tensor of this shape and type."""

    form: Form
    batch: int
    shape: Shape
    dtype: np.dtype

    name: ClassVar = "_from_bytes"

    @property
    def specs(self) -> list[Spec]:
        return [Spec(self.shape, self.dtype)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        form, blocks = self.form, ins[0]
        data = outs[0].view(blocks.dtype)
        images = data.reshape(self.batch, form.channels, form.height, form.width)

        def run() -> None:
            from_blocks(form, blocks, images)
            if self.dtype == INT8:
                _flip(data.reshape(-1))

        return run


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
class PackedBytes(_Static):
    """A weight, int8, in the order in which `ByteLayer` reads it, and what sums begin with."""

    bytes: Bytes

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
class ByteLayer(_Static):
    """A quantised layer on blocked bytes, with what `PackedBytes` made of its weight.

    The output are its sums, int32, or with `requantize` bytes of them in the calibrated range,
    those of int8 numbers 128 above what they are; with `relu` no number is below 0.  Results are
    those of the ops that it stands for, bit by bit.
    """

    bytes: Bytes
    layer: QuantizedConvolution | QuantizedFullyConnected
    dtype: np.dtype
    """Of the data."""
    requantize: Requantize | None = None
    relu: bool = False

    name: ClassVar = "_byte_layer"
    outputs: ClassVar = ("output", "min_output", "max_output")

    def list_inputs(self) -> tuple[str, ...]:
        rest = self.layer.list_inputs()[2:]
        return ("data", "packed", "start", *rest)

    @property
    def target(self) -> np.dtype:
        """The type of the numbers that the output stands for."""
        return self.requantize.target if self.requantize else INT32

    @property
    def specs(self) -> list[Spec]:
        dtype = UINT8 if self.requantize else INT32
        return [Spec(self.bytes.y.shape(self.bytes.batch), dtype), *[Spec((1,), FLOAT)] * 2]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        y = self.bytes.y
        return [Spec((y.blocks * y.lanes,), INT32), Spec((4,), FLOAT)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        (begin, numbers), zero = call.scratch, zero_of(self.target)
        given = dict(zip(self.list_inputs(), ins, strict=True))
        ends = ins[-6 if "bias" in given else -4:]
        compute = self.bytes.prepare(ins[0], given["packed"], begin, numbers, outs[0])

        def run() -> None:
            start, end = given["start"], self.layer.sums_end(self.dtype, ends)
            if "bias" in given:
                start = start + self.layer.in_sums(given["bias"], self.dtype, ends)
            enter_channels(start, begin)
            set_range(outs, -end, end)
            if self.requantize:
                low, high = limits(self.target)
                scale = self.requantize.enter_range(outs, sums_step(-end, end))
                numbers[:] = scale, max(low, 0 if self.relu else low), high, ROUND_MAGIC + zero
            compute()
            clear_halo(outs[0], self.bytes.y.halo, zero)

        return run
