"""AdaptiveAvgPooling2D: means over a grid of windows that covers an image of any size.

Windows are separable, so kernels read one table of bounds per axis.  Adjacent windows overlap where
the sizes do not divide.  A task is one plane, (n, c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..elementwise.float_op import FloatOp
from ..jit import inlined, kernel, prange
from ..op import Call, Run
from ..param import Shape
from ..shape import ShapeMismatch, Shapes, unify

__all__ = ["AdaptiveAvgPooling2D"]


def _bounds(size: int, count: int) -> np.ndarray:
    """First pixel and end of each of `count` windows over `size` pixels, (count, 2)."""
    index = np.arange(count, dtype=np.int64)
    return np.stack([index * size // count, -(-(index + 1) * size // count)], axis=1)


@inlined(fastmath=True)
def _line_sum(line):
    total = line.dtype.type(0)
    for i in range(line.size):
        total += line[i]
    return total


@kernel(parallel=True)
def _forward(x, y, rows, columns):
    """y (P, OH, OW) = means of x (P, H, W) over the windows."""
    for plane in prange(x.shape[0]):
        image = x[plane]
        for i in range(rows.shape[0]):
            for j in range(columns.shape[0]):
                left, right = columns[j]
                total = y.dtype.type(0)
                for h in range(rows[i, 0], rows[i, 1]):
                    total += _line_sum(image[h, left:right])
                pixels = (rows[i, 1] - rows[i, 0]) * (right - left)
                y[plane, i, j] = total / y.dtype.type(pixels)


@kernel(parallel=True)
def _backward(gy, gx, rows, columns):
    """gx (P, H, W): each pixel of a window gets an equal share of its gradient gy (P, OH, OW)."""
    for plane in prange(gx.shape[0]):
        image = gx[plane]
        image[:] = 0
        for i in range(rows.shape[0]):
            for j in range(columns.shape[0]):
                left, right = columns[j]
                pixels = (rows[i, 1] - rows[i, 0]) * (right - left)
                share = gy[plane, i, j] / gx.dtype.type(pixels)
                for h in range(rows[i, 0], rows[i, 1]):
                    for w in range(left, right):
                        image[h, w] += share


@dataclass(frozen=True)
class AdaptiveAvgPooling2D(FloatOp, name="_contrib_AdaptiveAvgPooling2D"):
    """The mean of each of OH x OW windows that together cover the image.

    data (N, C, H, W) -> (N, C, OH, OW).  Window i of an axis of `size` pixels with `count` windows
    is [floor(i size / count), ceil((i + 1) size / count)).  `output_size` is (OH, OW), or one
    number for both; () is (1, 1), the mean of the whole image.
    """

    output_size: Shape = ()

    needs = ("ograd",)

    @property
    def grid(self) -> tuple[int, int]:
        """(OH, OW)."""
        size = self.output_size or (1,)
        return size[0], size[-1]

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = ins[0]
        if len(self.output_size) > 2 or min(self.grid) < 1:
            raise ShapeMismatch(f"output_size is {self.output_size}, expected one or two positive "
                                "sizes: (height, width)")
        if data is None:
            return ins, outs
        if len(data) != 4:
            raise ShapeMismatch(f"data has shape {data}, expected 4 dimensions: (N, C, H, W)")
        return ins, [unify((*data[:2], *self.grid), outs[0], "computed and wanted output")]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(_forward, _planes(ins[0]), _planes(outs[0]), *_windows(ins[0], outs[0]))

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(_backward, _planes(ins[0]), _planes(outs[0]), *_windows(outs[0], ins[0]))


def _planes(array: np.ndarray) -> Any:
    return array.reshape(-1, *array.shape[2:])


def _windows(image: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the windows along the height and along the width."""
    return _bounds(image.shape[2], grid.shape[2]), _bounds(image.shape[3], grid.shape[3])
