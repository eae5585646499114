"""Deformable convolution (Dai et al., 2017): im2col with learned offsets, then a 1x1 convolution.

    columns (images, channels * taps, positions)

are an image with channels * taps channels, whose 1x1 convolution is the output; the twin of
Convolution computes it.  Columns are formed for some images at a time, in at most COLUMNS bytes.

All channels of a deformable group share their sampling points.  Gradients of offsets and masks sum
over these channels; those of pixels are gathered from adjacent points (`bilinear_points`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...detection.deformable import DeformableConvolution
from ...dispatch import CUDA, find, implements
from ...nn.convolution import Convolution
from ...nn.sliding_window import Geometry
from ...op import Call, Spec
from ...shape import size_of
from ..lib.kernel_math import SIMULATED, real_of
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .bilinear_points import Plane, Points, functions, gather, gather_scratch

COLUMNS = 1 << 12 if SIMULATED else 256 << 20


class DeformableSpec(NamedTuple):
    """Constants of the kernels."""

    geo: Geometry
    deformed: int
    masked: bool
    plane: Plane

    @classmethod
    def of(cls, op: DeformableConvolution, data: Array | Spec) -> DeformableSpec:
        """For data (N, C, H, W), an array or a Spec."""
        geo = op.im2col(data).geo
        _, height, width = geo.window.image
        plane = Plane(height, width, real_of(data.dtype), clamped=op.clamped)
        return cls(geo, op.num_deformable_group, "mask" in op.inputs, plane)

    @property
    def each(self) -> int:
        """Channels that share sampling points."""
        return self.geo.channels // self.deformed

    @property
    def points(self) -> int:
        """Points of a channel."""
        return self.geo.window.taps * self.geo.window.positions

    @property
    def area(self) -> int:
        """Pixels of a channel."""
        return self.plane.height * self.plane.width

    def at_once(self, images: int) -> int:
        """The number of images whose columns are formed at a time."""
        size = self.geo.channels * self.points * np.dtype(self.plane.real).itemsize
        return max(1, min(images, COLUMNS // size))

    def columns(self, images: int) -> Spec:
        """Columns as an image for the 1x1 convolution."""
        window = self.geo.window
        return Spec((images, self.geo.channels * window.taps, *window.out[1:]),
                    np.dtype(self.plane.real))


@cache
def _locate_function(case: DeformableSpec) -> Callable:
    """locate(offset, group, k): row and column of sampling point k = (tap, position) of a group."""
    window, real = case.geo.window, case.plane.real
    taps, positions = window.taps, window.positions
    out_width, kernel_width = window.out[2], window.kernel[2]
    (_, sy, sx), (_, py, px), (_, dy, dx) = window.stride, window.pad, window.dilate

    @device_function
    def locate(offset, group, k):
        tap, position = k // positions, k % positions
        at = (group * taps + tap) * 2 * positions + position
        v = position // out_width * sy - py + tap // kernel_width * dy
        u = position % out_width * sx - px + tap % kernel_width * dx
        return real(v) + real(offset[at]), real(u) + real(offset[at + positions])
    return locate


@cache
def _take_kernel(case: DeformableSpec) -> CudaKernel:
    points, each_, area, masked = case.points, case.each, case.area, case.masked
    locate, (spot, interpolate, _) = _locate_function(case), functions(case.plane)
    real = case.plane.real

    @grid_stride
    def take_points(i, x, offset, mask, columns):
        plane, k = i // points, i % points
        group = plane // each_
        v, u = locate(offset, group, k)
        value = interpolate(x, plane * area, spot(v, u))
        columns[i] = value * real(mask[group * points + k]) if masked else value
    return take_points


@cache
def _points_kernel(case: DeformableSpec, moved: bool, shaded: bool) -> CudaKernel:
    """Gradients of offsets, if `moved`, and of masks, if `shaded`."""
    points, each_, area, masked = case.points, case.each, case.area, case.masked
    locate, real, (spot, _, slopes) = _locate_function(case), case.plane.real, functions(case.plane)
    positions = case.geo.window.positions

    @grid_stride
    def give_points(i, gcolumns, x, offset, mask, goffset, gmask):
        group, k = i // points, i % points
        v, u = locate(offset, group, k)
        here, by_v, by_u, by_mask = spot(v, u), real(0), real(0), real(0)
        for plane in range(group * each_, (group + 1) * each_):
            g = real(gcolumns[plane * points + k])
            value, down, across = slopes(x, plane * area, here)
            by_v += g * down
            by_u += g * across
            by_mask += g * value
        if moved:
            at = i // positions * 2 * positions + k % positions
            share = real(mask[i]) if masked else real(1)
            goffset[at] = share * by_v
            goffset[at + positions] = share * by_u
        if shaded:
            gmask[i] = by_mask
    return give_points


@cache
def _give_function(case: DeformableSpec) -> Callable:
    points, each_, masked, real = case.points, case.each, case.masked, case.plane.real

    @device_function
    def give(gcolumns, mask, group, channel, k):
        g = real(gcolumns[(group * each_ + channel) * points + k])
        return g * real(mask[group * points + k]) if masked else g
    return give


class Tensors(NamedTuple):
    """Inputs, or their gradients; None for those that are missing."""

    data: Any
    offset: Any
    mask: Any
    weight: Any
    bias: Any

    @classmethod
    def of(cls, names: tuple[str, ...], tensors: Outputs | Sequence[Spec]) -> Tensors:
        by_name = dict(zip(names, tensors, strict=True))
        return cls(**{name: by_name.get(name) for name in cls._fields})

    def some(self, first: int, count: int) -> Tensors:
        """The tensors of some images."""
        data, offset, mask = (_some(array, first, count) for array in self[:3])
        return Tensors(data, offset, mask, self.weight, self.bias)

    @property
    def shades(self) -> Any:
        """The mask, or a placeholder for it."""
        return self.offset if self.mask is None else self.mask


def _some(array: Array | None, first: int, count: int) -> Any:
    """A slice of the images of an array; None if it is None."""
    if array is None:
        return None
    return array.part(first * size_of(array.shape[1:]), (count, *array.shape[1:]))


def _parts(case: DeformableSpec, images: int) -> Iterator[tuple[int, int]]:
    """First image and number of images of each chunk."""
    step = case.at_once(images)
    for first in range(0, images, step):
        yield first, min(step, images - first)


def _product(op: DeformableConvolution) -> tuple[Convolution, Any]:
    """The convolution of columns, and its implementation."""
    product = Convolution(kernel=(1, 1), num_filter=op.num_filter, num_group=op.num_group,
                          no_bias=op.no_bias)
    return product, find(Convolution, CUDA)


def _product_back(op: DeformableConvolution) -> tuple[Convolution, Any]:
    """The convolution of columns, and that of its gradient."""
    product, _ = _product(op)
    return product, find(Convolution, CUDA, True)


def _take(case: DeformableSpec, at: Tensors, columns: Array) -> list[Launch]:
    return each(_take_kernel(case), columns.size, at.data, at.offset, at.shades, columns)


def _forward(op: DeformableConvolution, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    tensors, launches = Tensors.of(op.list_inputs(), ins), []
    case, (product, twin) = DeformableSpec.of(op, tensors.data), _product(op)
    columns, *scratch = call.scratch
    for part in _parts(case, len(tensors.data)):
        here = _some(columns, 0, part[1])
        launches += _take(case, tensors.some(*part), here)
        launches += twin.prepare(product, [here, *tensors[3:5 - op.no_bias]],
                                 [_some(outs[0], *part)], Call(scratch=scratch))
    return launches


def _scratch(op: DeformableConvolution, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    tensors, (product, twin) = Tensors.of(op.list_inputs(), ins), _product(op)
    case, images = DeformableSpec.of(op, tensors.data), tensors.data.shape[0]
    columns = case.columns(case.at_once(images))
    y = Spec((columns.shape[0], *outs[0].shape[1:]), outs[0].dtype)
    return [columns, *twin.workspace(product, [columns, *tensors[3:5 - op.no_bias]], [y])]


def _gathered(case: DeformableSpec, images: int) -> list[Spec]:
    return gather_scratch(images * case.deformed, case.points, case.plane)


def _give(case: DeformableSpec, at: Tensors, grads: Tensors, columns: Array, scratch: Arrays
          ) -> list[Launch]:
    """Gradients of images and their points, from that of the columns."""
    launches, groups = [], len(at.data) * case.deformed
    moved, shaded = grads.offset is not None, grads.mask is not None
    if moved or shaded:
        launches += each(_points_kernel(case, moved, shaded), groups * case.points, columns,
                         at.data, at.offset, at.shades, grads.offset if moved else columns,
                         grads.mask if shaded else columns)
    if grads.data is not None:
        points = Points(_locate_function(case), at.offset, groups, case.points, case.plane)
        launches += gather(points, _give_function(case), columns, at.shades, grads.data, scratch)
    return launches


def _backward(op: DeformableConvolution, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    """The scratch for columns first holds their gradients, then the columns of the data."""
    tensors, grads = Tensors.of(op.needs[1:], ins[1:]), Tensors.of(op.list_inputs(), outs)
    case, (product, twin) = DeformableSpec.of(op, tensors.data), _product_back(op)
    held = 1 + len(_gathered(case, 1))
    columns, scratch, work = call.scratch[0], call.scratch[1:held], call.scratch[held:]
    launches = []
    for part in _parts(case, len(tensors.data)):
        here, at, part_grads = _some(columns, 0, part[1]), tensors.some(*part), grads.some(*part)
        multiply = partial(twin.prepare, product, [_some(ins[0], *part), here, at.weight],
                           call=Call(scratch=work, add=(False, part[0] > 0, part[0] > 0)))
        if any(array is not None for array in part_grads[:3]):
            launches += multiply([here, None, None])
            launches += _give(case, at, part_grads, here, scratch)
        if part_grads.weight is not None:
            launches += _take(case, at, here)
        if part_grads.weight is not None or part_grads.bias is not None:
            launches += multiply([None, part_grads.weight, part_grads.bias])
    return launches


def _backward_scratch(op: DeformableConvolution, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    (gy, *needed), (product, twin) = ins, _product_back(op)
    tensors = Tensors.of(op.needs[1:], needed)
    case = DeformableSpec.of(op, tensors.data)
    images = case.at_once(tensors.data.shape[0])
    columns, head = case.columns(images), Spec((images, *gy.shape[1:]), gy.dtype)
    return [columns, *_gathered(case, images),
            *twin.workspace(product, [head, columns, tensors.weight], [columns, tensors.weight])]


implements(DeformableConvolution, "cuda", _forward, _backward, _scratch, _backward_scratch)
