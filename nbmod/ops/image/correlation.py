"""Correlation (FlowNet, Dosovitskiy et al. 2015): patches of two images compared at every
displacement.

Both images are copied to NHWC with zero padding, so that a patch row is contiguous and a comparison
of two patches a few long inner products.  The backward pass gathers: under a displacement a pixel
is compared with one pixel of the other image, with the sum of the gradients of the patches that
contain both as its weight.  So rows of pixels are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp
from ..jit import inlined, kernel, prange
from ..op import Call, Run, Spec
from ..shape import ShapeMismatch, Shapes, unify_all

__all__ = ["Correlation"]


# ------------------------------------------------------------------------------------------ kernels

@inlined(fastmath=True)
def _compare(a, b, multiply):
    """Inner product of two vectors, or the sum of absolute differences."""
    total = a.dtype.type(0)
    if multiply:
        for k in range(a.size):
            total += a[k] * b[k]
    else:
        for k in range(a.size):
            total += abs(a[k] - b[k])
    return total


@kernel(parallel=True)
def _correlate(a, b, y, channels, size, reach, stride, multiply):
    """y (N, D D, OH, OW) of a and b (N, PH, PW C); stride (of patches, of displacements)."""
    patch, step = stride
    side, run = 2 * (reach // step) + 1, size * channels
    scale = y.dtype.type(1 / (size * run))
    for line in prange(y.shape[0] * y.shape[2]):
        n, i = line // y.shape[2], line % y.shape[2]
        top = reach + i * patch
        for j in range(y.shape[3]):
            left = reach + j * patch
            for d in range(side * side):
                down = (d // side - reach // step) * step
                across = (d % side - reach // step) * step
                at, other = left * channels, (left + across) * channels
                total = y.dtype.type(0)
                for k in range(size):
                    total += _compare(a[n, top + k, at:at + run],
                                      b[n, top + down + k, other:other + run], multiply)
                y[n, d, i, j] = total * scale


@inlined
def _weight(gy, v, u, size, reach, stride):
    """Sum of gy (OH, OW) over the patches of the first image that pixel (v, u) is in."""
    total = gy.dtype.type(0)
    for k in range(size):
        y = v - reach - k
        if y < 0 or y % stride or y // stride >= gy.shape[0]:
            continue
        for m in range(size):
            x = u - reach - m
            if x >= 0 and x % stride == 0 and x // stride < gy.shape[1]:
                total += gy[y // stride, x // stride]
    return total


@inlined(fastmath=True)
def _add_gradient(weight, own, other, grad, sign, multiply):
    """grad += weight * d comparison / d `own`; at a = b that of |a - b| is 1."""
    if multiply:
        for c in range(grad.size):
            grad[c] += weight * other[c]
    else:
        for c in range(grad.size):
            more = own[c] > other[c] or (own[c] == other[c] and sign > 0)
            grad[c] += weight if more else -weight


@kernel(parallel=True)
def _correlate_backward(gy, own, other, grad, size, reach, stride, multiply, sign):
    """grad (N, PH, PW, C) of `own`: the first image if sign is 1, the second if it is -1."""
    patch, step = stride
    side, channels = 2 * (reach // step) + 1, own.shape[3]
    scale = gy.dtype.type(1 / (size * size * channels))
    height, width = own.shape[1:3]
    for line in prange(own.shape[0] * height):
        n, v = line // height, line % height
        grad[n, v] = 0
        for d in range(side * side):
            down = sign * (d // side - reach // step) * step
            across = sign * (d % side - reach // step) * step
            if v + down < 0 or v + down >= height:
                continue
            for u in range(max(0, -across), width - max(0, across)):
                row, column = (v, u) if sign > 0 else (v + down, u + across)
                weight = _weight(gy[n, d], row, column, size, reach, patch)
                if weight != 0:
                    _add_gradient(weight * scale, own[n, v, u], other[n, v + down, u + across],
                                  grad[n, v, u], sign, multiply)


# ----------------------------------------------------------------------------------------------- op

@dataclass(frozen=True)
class Correlation(FloatOp, name="Correlation"):
    """Similarity of patches of data1 and data2 (N, C, H, W): output (N, D D, OH, OW).

    Patches are K = `kernel_size` (odd) pixels wide, in images with `pad_size` zeros around.  Those
    of data1 are centred at rows and columns M + r, M + r + `stride1`, ..., with M =
    `max_displacement` and r = (K - 1) / 2, as many as leave M + r pixels at the end: OH =
    ceil((H + 2 pad - 2 (M + r)) / stride1).  Channel d compares with the patch of data2 that is
    moved down by (d // D - D // 2) `stride2` and right by (d % D - D // 2) `stride2` pixels,
    D = 2 (M // stride2) + 1.  With p and q the pixels of both patches, it is

        sum p q / (K K C)      or, unless `is_multiply`,      sum |p - q| / (K K C).
    """

    kernel_size: int = 1
    max_displacement: int = 1
    stride1: int = 1
    stride2: int = 1
    pad_size: int = 0
    is_multiply: bool = True

    inputs: ClassVar = ("data1", "data2")
    needs: ClassVar = ("ograd", "data1", "data2")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        self._check()
        data = unify_all(ins, "data1 and data2")
        if data is None:
            return ins, outs
        if len(data) != 4:
            raise ShapeMismatch(f"data1 has shape {data}, expected 4 dimensions: (N, C, H, W)")
        side = 2 * (self.max_displacement // self.stride2) + 1
        image = tuple(self._count(size) if size else 0 for size in data[2:])
        out = unify_all([(data[0], side * side, *image), outs[0]], "computed and wanted output")
        return [data, data], [out]

    def _check(self) -> None:
        least = {"kernel_size": 1, "max_displacement": 0, "stride1": 1, "stride2": 1, "pad_size": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ShapeMismatch(f"{name} is {getattr(self, name)}, expected at least {low}")
        if self.kernel_size % 2 == 0:
            raise ShapeMismatch(f"kernel_size is {self.kernel_size}, expected an odd number")

    def _count(self, size: int) -> int:
        """Number of patches along an axis."""
        border = self.max_displacement + self.kernel_size // 2
        available = size + 2 * self.pad_size - 2 * border
        if available < 1:
            raise ShapeMismatch(
                f"an image axis of {size} pixels with pad_size {self.pad_size} is too short for "
                f"max_displacement {self.max_displacement} and kernel_size {self.kernel_size}: "
                f"expected more than {2 * border} pixels; enlarge pad_size")
        return -(-available // self.stride1)

    def _bordered(self, image: Spec) -> Spec:
        batch, channels, height, width = image.shape
        border = 2 * self.pad_size
        return Spec((batch, height + border, width + border, channels), image.dtype)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [self._bordered(ins[0])] * 2

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [self._bordered(ins[1])] * 3

    def _lay_out(self, images: Sequence[Any], bordered: Sequence[Any]) -> None:
        for image, wide in zip(images, bordered, strict=True):
            if self.pad_size:
                wide.fill(0)
            np.copyto(self._inner(wide), image)

    def _inner(self, wide: np.ndarray) -> Any:
        """The image (N, C, H, W) without its padding."""
        pad = self.pad_size
        height, width = wide.shape[1:3]
        return wide[:, pad:height - pad, pad:width - pad].transpose(0, 3, 1, 2)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        bordered = call.scratch[:2]
        channels = ins[0].shape[1]
        rows = [wide.reshape(*wide.shape[:2], -1) for wide in bordered]

        def run() -> None:
            self._lay_out(ins, bordered)
            _correlate(*rows, outs[0], channels, *self._how())

        return run

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        gy, a, b = ins
        first, second, grad = call.scratch[:3]

        def run() -> None:
            self._lay_out([a, b], [first, second])
            for gx, own, other, sign in ((outs[0], first, second, 1), (outs[1], second, first, -1)):
                if gx is not None:
                    _correlate_backward(gy, own, other, grad, *self._how(), sign)
                    np.copyto(gx, self._inner(grad))

        return run

    def _how(self) -> tuple[int, int, tuple[int, int], bool]:
        return (self.kernel_size, self.max_displacement, (self.stride1, self.stride2),
                self.is_multiply)
