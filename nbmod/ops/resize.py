"""UpSampling: images made larger by a whole factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from .deconvolution import Deconvolution
from .geometry import Layout
from .half import FloatOp
from .op import Call, Spec
from .shape import PartialShape, ShapeMismatch, is_known, unify

__all__ = ["UpSampling"]

IMAGES = Layout(2)


@dataclass(frozen=True, kw_only=True)
class UpSampling(FloatOp, name="UpSampling"):
    """`scale` times as high and wide; data (N, C, H, W).

    'nearest' repeats pixels.  All of its `num_args` inputs are brought to the size of the first
    times scale, then joined along channels ('concat') or added ('sum').  'bilinear' takes one input
    and a weight (C, 1, K, K), K = 2 scale - scale % 2, and is a depthwise deconvolution of stride
    scale; the weight is initialised to interpolate.  (`num_filter` is what MXNet wants to be told
    of C; here it may be left out.)
    """

    scale: int
    num_filter: int = 0
    sample_type: Literal["bilinear", "nearest"]
    multi_input_mode: Literal["concat", "sum"] = "concat"
    num_args: int
    workspace: int = 512

    variadic: ClassVar = "num_args"
    init: ClassVar = {"weight": '["bilinear", {}]', "arg1": '["bilinear", {}]'}
    """MXNet marks the second input, whatever it is."""

    def list_inputs(self) -> tuple[str, ...]:
        if self.sample_type == "bilinear":
            return ("data", "weight")
        return tuple(f"arg{i}" for i in range(self.num_args))

    def list_needs(self) -> tuple[str, ...]:
        return ("ograd", "data", "weight") if self.sample_type == "bilinear" else ("ograd",)

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        for name, value in (("scale", self.scale), ("num_args", self.num_args)):
            if value < 1:
                raise ShapeMismatch(f"{name} is {value}, expected at least 1")
        if ins[0] is None:
            return list(ins), list(outs)
        if self.sample_type == "bilinear":
            channels = IMAGES.split(ins[0])[1]
            return self._by(channels).infer_shape(ins, outs) if channels else (ins, outs)
        return ins, [unify(self._joined(ins), outs[0], "computed and wanted output")]

    def _by(self, channels: int) -> Deconvolution:
        """The deconvolution that interpolates."""
        size, pad = 2 * self.scale - self.scale % 2, self.scale // 2
        return Deconvolution(kernel=(size, size), stride=(self.scale,) * 2, pad=(pad, pad),
                             num_filter=channels, num_group=channels)

    def _joined(self, ins: list[PartialShape]) -> PartialShape:
        """Output shape of 'nearest'."""
        split = [IMAGES.split(shape, name) for name, shape in zip(self.list_inputs(), ins,
                                                                  strict=True) if shape is not None]
        batch = max(n for n, _, _ in split)
        height, width = (size * self.scale for size in split[0][2])
        known = all(is_known(shape) for shape in ins)
        for (n, c, (h, w)), name in zip(split, self.list_inputs(), strict=False):
            if known and (n != batch or height % h or height // h * w != width):
                raise ShapeMismatch(f"{name} has shape {(n, c, h, w)}, expected a whole fraction "
                                    f"of the output image {(height, width)} and batch {batch}")
            if known and self.multi_input_mode == "sum" and c != split[0][1]:
                raise ShapeMismatch(f"{name} has {c} channels, expected {split[0][1]} to add it "
                                    "to the first input")
        total = sum(c for _, c, _ in split) if known else 0
        return batch, split[0][1] if self.multi_input_mode == "sum" else total, height, width

    def work(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if self.sample_type == "nearest":
            return []
        return self._by(ins[0].shape[1]).work(ins, outs)

    def work_backward(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if self.sample_type == "nearest":
            return []
        return self._by(ins[1].shape[1]).work_backward(ins, outs)

    def compute(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.compiled(ins, outs, call)()

    def compute_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.compiled_backward(ins, outs, call)()

    def compiled(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Callable[[], None]:
        if self.sample_type == "bilinear":
            return self._by(ins[0].shape[1]).compiled(ins, outs, call)
        pairs = list(zip(ins, self._parts(ins, outs[0]), strict=True))

        def run() -> None:
            for i, (x, part) in enumerate(pairs):
                _enlarge(x, part, bool(i) and self.multi_input_mode == "sum")

        return run

    def compiled_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call
                          ) -> Callable[[], None]:
        if self.sample_type == "bilinear":
            return self._by(ins[1].shape[1]).compiled_backward(ins, outs, call)
        shapes = call.specs or outs
        pairs = list(zip(self._parts(shapes, ins[0]), outs, strict=True))

        def run() -> None:
            for grad, gx in pairs:
                if gx is not None:
                    _shrink(grad, gx)

        return run

    def _parts(self, ins: Sequence[Any], out: Any) -> list[Any]:
        """The channels of `out` that each input is responsible for."""
        if self.multi_input_mode == "sum":
            return [out] * len(ins)
        ends = np.cumsum([tensor.shape[1] for tensor in ins]).tolist()
        return [out[:, end - tensor.shape[1]:end] for tensor, end in zip(ins, ends, strict=True)]


def _blocks(large: Any, small: Any) -> list[Any]:
    """For every offset in a block of repeated pixels, the pixels of `large` at that offset."""
    step = large.shape[2] // small.shape[2]
    return [large[:, :, y::step, x::step] for y in range(step) for x in range(step)]


def _enlarge(x: Any, y: Any, add: bool) -> None:
    for pixels in _blocks(y, x):
        if add:
            np.add(pixels, x, out=pixels)
        else:
            np.copyto(pixels, x)


def _shrink(grad: Any, gx: Any) -> None:
    first, *rest = _blocks(grad, gx)
    np.copyto(gx, first)
    for pixels in rest:
        np.add(gx, pixels, out=gx)
