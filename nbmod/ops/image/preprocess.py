"""Image preprocessing: (H, W, C) tensors converted, normalised, cropped, flipped, resized, padded.

`_image_X` is `mx.nd.image.X`; the two operators that MXNet names after OpenCV serve `mx.image`.
Color augmentation is in `color`, resampling in `resample`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...base import MXNetError
from ..op import Op, PartialType
from ..param import Floats, Shape
from ..random.rng import generator
from ..shape import PartialShape, ShapeMismatch, unify
from . import resample

__all__ = ["ImageOp", "saturate"]

MEAN, STD = (0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0)


def saturate(values: np.ndarray, out: np.ndarray) -> None:
    """out = values; integers are saturated and truncated."""
    if out.dtype.kind in "iu":
        limits = np.iinfo(out.dtype)
        values = np.clip(values, limits.min, limits.max)
    np.copyto(out, values, casting="unsafe")


def require_numbers(types: Sequence[PartialType]) -> None:
    """Raise MXNetError for boolean images."""
    if np.dtype(np.bool_) in types:
        raise MXNetError("data has type bool, expected numbers; insert a Cast")


class ImageOp(Op):
    """Base: images to images of the same type; `batches` allows (N, H, W, C) as well."""

    batches: ClassVar[bool] = False

    def infer_type(self, ins, outs):
        require_numbers([*ins, *outs])
        return super().infer_type(ins, outs)

    def infer_shape(self, ins, outs):
        data = ins[0]
        if data is None:
            return ins, outs
        ranks = (3, 4) if self.batches else (3,)
        if len(data) not in ranks:
            batch = ", or a batch of 4 of such" if self.batches else ""
            raise ShapeMismatch(f"{self.list_inputs()[0]} has shape {data}, expected 3 dimensions: "
                                f"an image (height, width, channels){batch}")
        return [data], [unify(self.result(data), outs[0], "computed and wanted output")]

    def result(self, data: Shape) -> PartialShape:
        """The shape of the output."""
        return data


# -- type and normalisation ---------------------------------------------------------------------


@dataclass(frozen=True)
class ToTensor(ImageOp, name="_image_to_tensor"):
    """y[c, h, w] = x[h, w, c] / 255, as float32; gx[h, w, c] = gy[c, h, w] / 255."""

    shapes: ClassVar = "(H, W, C) -> (C, H, W), (N, H, W, C) -> (N, C, H, W)"
    batches: ClassVar = True
    needs: ClassVar = ("ograd",)

    def infer_type(self, ins, outs):
        require_numbers([*ins, *outs])
        return ins, [np.dtype(np.float32)]

    def result(self, data):
        return *data[:-3], data[-1], *data[-3:-1]

    def forward(self, ins, outs, call):
        np.divide(np.moveaxis(ins[0], -1, -3), 255, out=outs[0], dtype=np.float32,
                  casting="unsafe")

    def backward(self, ins, outs, call):
        np.divide(np.moveaxis(ins[0], -3, -1), 255, out=outs[0], casting="unsafe")


@dataclass(frozen=True)
class Normalize(Op, name="_image_normalize"):
    """y[c] = (x[c] - mean[c]) / std[c]; gx[c] = gy[c] / std[c].

    A single value of `mean` or `std` is for all channels.  Integers are computed in float32,
    truncated, and wrap around.
    """

    mean: Floats = MEAN
    std: Floats = STD

    shapes: ClassVar = "(C, H, W) or (N, C, H, W), the same for the output"
    needs: ClassVar = ("ograd",)
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)

    def infer_type(self, ins, outs):
        require_numbers([*ins, *outs])
        return super().infer_type(ins, outs)

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is not None:
            if len(data) not in (3, 4):
                raise ShapeMismatch(f"data has shape {data}, expected (channels, height, width) or "
                                    "(N, channels, height, width)")
            if data[-3] not in (0, 1, 3) and data[-1] in (1, 3):
                raise ShapeMismatch(f"data has shape {data}, with channels at the end, expected "
                                    "(channels, height, width), such as ToTensor makes of it")
            if data[-3]:
                self._per_channel(data[-3])
        return [data], [data]

    def _per_channel(self, channels: int) -> list[np.ndarray]:
        """mean and std as (C, 1, 1), or (1, 1, 1) where all channels have the same."""
        statistics = []
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(set(values)) == 1:
                values = values[:1]
            if len(values) not in (1, channels):
                raise ShapeMismatch(f"{name} is {values}, expected 1 number or {channels}, one for "
                                    "each channel")
            statistics.append(np.array(values, np.float32).reshape(-1, 1, 1))
        return statistics

    def forward(self, ins, outs, call):
        x, y = ins[0], outs[0]
        mean, std = self._per_channel(x.shape[-3])
        scaled = (x - mean) / std
        np.copyto(y, scaled.astype(np.int64) if y.dtype.kind in "iu" else scaled,
                  casting="unsafe")

    def backward(self, ins, outs, call):
        np.divide(ins[0], self._per_channel(ins[0].shape[-3])[1], out=outs[0], casting="unsafe")


# -- crop, flip, resize -------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageCrop(ImageOp, name="_image_crop"):
    """y[h, w] = data[y + h, x + w]: the part `width` wide and `height` high from (`x`, `y`) on.

    The gradient is 0 outside of it.
    """

    x: int
    y: int
    width: int
    height: int

    shapes: ClassVar = "(H, W, C) -> (height, width, C), (N, H, W, C) -> (N, height, width, C)"
    batches: ClassVar = True
    needs: ClassVar = ("ograd",)

    def result(self, data):
        height, width = data[-3:-1]
        for name, start, length, size in (("x", self.x, self.width, width),
                                          ("y", self.y, self.height, height)):
            if start < 0 or length < 1 or (size and start + length > size):
                raise ShapeMismatch(f"a crop from {name} = {start}, {length} pixels long, does not "
                                    f"lie within the {size} pixels of the image")
        return *data[:-3], self.height, self.width, data[-1]

    def _part(self, image: np.ndarray) -> np.ndarray:
        return image[..., self.y:self.y + self.height, self.x:self.x + self.width, :]

    def forward(self, ins, outs, call):
        np.copyto(outs[0], self._part(ins[0]))

    def backward(self, ins, outs, call):
        outs[0].fill(0)
        np.copyto(self._part(outs[0]), ins[0])


class _Flip(ImageOp):
    """Base of flips along one axis, deterministic or random."""

    shapes: ClassVar = "(H, W, C), the same for the output"
    needs: ClassVar[tuple[str, ...]] = ("ograd",)
    axis: ClassVar[int]

    def forward(self, ins, outs, call):
        np.copyto(outs[0], np.flip(ins[0], self.axis))

    def backward(self, ins, outs, call):
        np.copyto(outs[0], np.flip(ins[0], self.axis))


class _RandomFlip(_Flip):
    """Base: a flip with probability 0.5; hidden output 1 is whether it was flipped."""

    random: ClassVar = True
    outputs: ClassVar = ("output", "flipped")
    needs: ClassVar = ("ograd", "flipped")
    num_visible: ClassVar = 1

    def infer_shape(self, ins, outs):
        ins, outs = super().infer_shape(ins, outs[:1])
        return ins, [*outs, (1,)]

    def infer_type(self, ins, outs):
        ins, outs = super().infer_type(ins, outs[:1])
        return ins, [*outs, np.dtype(np.float32)]

    def forward(self, ins, outs, call):
        flipped = generator().random() < 0.5
        np.copyto(outs[0], np.flip(ins[0], self.axis) if flipped else ins[0])
        if outs[1] is not None:
            outs[1][0] = flipped

    def backward(self, ins, outs, call):
        grad, flipped = ins
        np.copyto(outs[0], np.flip(grad, self.axis) if flipped[0] else grad)


@dataclass(frozen=True)
class FlipLeftRight(_Flip, name="_image_flip_left_right"):
    """y[h, w] = x[h, W - 1 - w], and so is the gradient."""

    axis: ClassVar = 1


@dataclass(frozen=True)
class FlipTopBottom(_Flip, name="_image_flip_top_bottom"):
    """y[h, w] = x[H - 1 - h, w], and so is the gradient."""

    axis: ClassVar = 0


@dataclass(frozen=True)
class RandomFlipLeftRight(_RandomFlip, name="_image_random_flip_left_right"):
    """y[h, w] = x[h, W - 1 - w] with probability 0.5, else x; the gradient is flipped back."""

    axis: ClassVar = 1


@dataclass(frozen=True)
class RandomFlipTopBottom(_RandomFlip, name="_image_random_flip_top_bottom"):
    """y[h, w] = x[H - 1 - h, w] with probability 0.5, else x; the gradient is flipped back."""

    axis: ClassVar = 0


@dataclass(frozen=True)
class ImageResize(ImageOp, name="_image_resize"):
    """The image resized to (width, height) = `size`.

    A single value is for both; with `keep_ratio` it is the length of the shorter side, and the
    other is rounded down.  `interp`: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, all as in
    OpenCV (`image.resample`).  No gradient.
    """

    size: Shape = ()
    keep_ratio: bool = False
    interp: int = 1

    shapes: ClassVar = "(H, W, C) -> (height, width, C), (N, H, W, C) -> (N, height, width, C)"
    batches: ClassVar = True

    def result(self, data):
        if len(self.size) not in (1, 2) or min(self.size) < 1:
            raise ShapeMismatch(f"size is {self.size}, expected 1 or 2 positive numbers")
        width, height = self.size[0], self.size[-1]
        if len(self.size) == 1 and self.keep_ratio:
            rows, columns = data[-3:-1]
            if not rows or not columns:
                return *data[:-3], 0, 0, data[-1]
            if rows > columns:
                height = rows * width // columns
            else:
                width = columns * height // rows
        return *data[:-3], height, width, data[-1]

    def forward(self, ins, outs, call):
        images, results = (tensor.reshape(-1, *tensor.shape[-3:]) for tensor in (ins[0], outs[0]))
        for image, result in zip(images, results, strict=True):
            resample.resize(image, result, self.interp)


# -- named after OpenCV -------------------------------------------------------------------------


@dataclass(frozen=True)
class CvResize(ImageOp, name="_cvimresize"):
    """src (H, W, C) -> (h, w, C); `interp` as for `_image_resize`.  No gradient."""

    w: int
    h: int
    interp: int = 1

    inputs: ClassVar = ("src",)

    def result(self, data):
        if self.w < 1 or self.h < 1:
            raise ShapeMismatch(f"w is {self.w} and h is {self.h}, expected positive numbers")
        return self.h, self.w, data[2]

    def forward(self, ins, outs, call):
        resample.resize(ins[0], outs[0], self.interp)


_PADS = ("constant", "edge", "symmetric", "wrap", "reflect")


@dataclass(frozen=True)
class CvCopyMakeBorder(ImageOp, name="_cvcopyMakeBorder"):
    """src (H, W, C) -> (top + H + bot, left + W + right, C): an image with pixels around it.

    By `type` they are 0: `values`, one per channel and 0 where they are fewer, or else `value`; 1:
    the nearest pixel; 2: mirrored (ba|abc); 3: repeated (bc|abc); 4: mirrored at the border pixel
    (cb|abc).  No gradient.
    """

    top: int
    bot: int
    left: int
    right: int
    type: int = 0
    value: float = 0.0
    values: Floats = ()

    inputs: ClassVar = ("src",)

    def result(self, data):
        if min(self.top, self.bot, self.left, self.right) < 0:
            raise ShapeMismatch(f"top, bot, left, right are {self.top}, {self.bot}, {self.left}, "
                                f"{self.right}, expected no negative numbers")
        if not 0 <= self.type < len(_PADS):
            raise ShapeMismatch(f"type is {self.type}, expected 0 (constant), 1 (nearest pixel), 2 "
                                "(mirrored), 3 (repeated) or 4 (mirrored at the border pixel)")
        height, width, channels = data
        return (height and self.top + height + self.bot, width and self.left + width + self.right,
                channels)

    def sources(self, shape: Shape) -> list[np.ndarray]:
        """Source rows and columns of the result."""
        widths = (self.top, self.bot), (self.left, self.right)
        return [np.pad(np.arange(size), width, _PADS[self.type])  # type: ignore[call-overload]
                for size, width in zip(shape, widths, strict=False)]

    def edge(self, channels: int, dtype: np.dtype) -> np.ndarray:
        """The pixel around an image, for type 0."""
        values = np.zeros(channels)
        values[:] = self.value if not self.values else 0
        values[:len(self.values)] = self.values[:len(values)]
        saturate(np.rint(values) if dtype.kind in "iu" else values,
                 edge := np.empty(values.shape, dtype))
        return edge

    def inside(self, result: np.ndarray, shape: Shape) -> np.ndarray:
        """The part of a result that is the image."""
        return result[self.top:self.top + shape[0], self.left:self.left + shape[1]]

    def forward(self, ins, outs, call):
        x, y = ins[0], outs[0]
        if self.type:
            rows, columns = self.sources(x.shape)
            np.take(x[rows], columns, axis=1, out=y)
            return
        y[...] = self.edge(x.shape[2], y.dtype)
        self.inside(y, x.shape)[...] = x
