"""GPU twins of SimpleDet's losses and layers, of anchors, and of ROIAlign_v2.

Proposals and their targets have none: they sort and sample a few thousand boxes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...ops.cuda.detection.roi import Regions, RoiSpec, axis_function, gradient
from ...ops.cuda.elementwise.formula_op import COPY, run_program
from ...ops.cuda.lib.block_reduce import (
    BLOCK_SIZE,
    all_reduce_function,
    block_stride,
    each_block,
    sum_kernel,
)
from ...ops.cuda.lib.fill import first_gradient
from ...ops.cuda.lib.kernel_math import MATH, maximum, minimum, real_of
from ...ops.cuda.runtime.device_memory import Array
from ...ops.cuda.runtime.launch import Launch, cuda, device_function, each, grid_stride, on_gpu
from ...ops.elementwise.float_op import as_float32
from ...ops.elementwise.program import Program, Step
from ...ops.op import Spec
from .layers import GroupNorm
from .losses import BBoxNorm, FocalLoss, SigmoidCrossEntropy
from .proposals import DecodeBBox, GenAnchor, _base_anchors
from .roi_align_v2 import ROIAlign_v2

__all__: list[str] = []

exp, log, log1p, sqrt = (MATH[name] for name in ("exp", "log", "log1p", "sqrt"))
floor, ceil = MATH["floor"], MATH["ceil"]


# -- losses ---------------------------------------------------------------------------------------


@cache
def _objects_kernel(real: Any) -> Any:
    """Count the labels of objects, from 1 up."""
    @device_function
    def load(label, segment, term, segments):
        return 1.0 if real(label[term]) >= real(1) else 0.0

    return sum_kernel(load, np.float64)


class _Divisor(NamedTuple):
    """By what a gradient is divided: a count that is computed on the device, or known."""

    launches: list[Launch]
    found: Array
    counted: bool
    known: int

    @classmethod
    def of(cls, op: FocalLoss | BBoxNorm, label: Array, call: Any) -> _Divisor:
        if op.normalization != "valid":
            return cls([], label, False, len(label) if op.normalization == "batch" else 1)
        count = _objects_kernel(real_of(label.dtype))
        return cls(each_block(count, 1, label, call.scratch[0], label.size, False),
                   call.scratch[0], True, 1)


def _count(op: FocalLoss | BBoxNorm, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Scratch for a divisor that is computed on the device."""
    return [Spec((1,), np.dtype(np.float64))] if op.normalization == "valid" else []


def _divided_function(real: Any, counted: bool) -> Any:
    """divided(factor, found): `factor` over one more than the objects, if they are counted."""
    @device_function
    def divided(factor, found):
        return real(np.float64(factor) / (found[0] + 1.0)) if counted else factor
    return divided


SIGMOID = Program("sigmoid", (Step("y", "1 / (1 + exp(-x))"),), ("x",), ("y",))


@cache
def _focal_kernel(real: Any, counted: bool, times: bool) -> Any:
    """The gradient from probabilities (R, K) and labels (R,); `times` that of the output."""
    divided, one, tiny = _divided_function(real, counted), real(1), real(1e-14)

    @grid_stride
    def focal(i, y, label, ograd, gx, found, classes, alpha, gamma, factor):
        p, kind = real(y[i]), real(label[i // classes])
        q, scale = one - p, divided(factor, found)
        if kind == real(-1):
            scale = real(0)
        if np.int32(kind) == i % classes + 1:
            value = alpha * q ** gamma * (gamma * p * log(p + tiny) - q)
        else:
            value = (alpha - one) * p ** gamma * (gamma * q * log(q + tiny) - p)
        gx[i] = scale * value * real(ograd[i]) if times else scale * value
    return focal


@first_gradient
def _focal_backward(op: FocalLoss, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (y, label, *ograd), gx, real = ins, outs[0], real_of(ins[0].dtype)
    divisor = _Divisor.of(op, label, call)
    return divisor.launches + each(
        _focal_kernel(real, divisor.counted, op.out_grad), y.size, y, label, *(ograd or [y]), gx,
        divisor.found, y.shape[2], real(as_float32(op.alpha)), real(as_float32(op.gamma)),
        real(as_float32(op.grad_scale) / divisor.known))


@cache
def _scaled_kernel(real: Any, counted: bool) -> Any:
    divided = _divided_function(real, counted)

    @grid_stride
    def scaled(i, ograd, gx, found, factor):
        gx[i] = real(ograd[i]) * divided(factor, found)
    return scaled


@first_gradient
def _norm_backward(op: BBoxNorm, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (ograd, label), real = ins, real_of(ins[0].dtype)
    divisor = _Divisor.of(op, label, call)
    return divisor.launches + each(_scaled_kernel(real, divisor.counted), ograd.size, ograd,
                                   outs[0], divisor.found, real(1 / divisor.known))


@cache
def _cross_entropy_kernel(real: Any) -> Any:
    """y[n]: the mean of the losses in row n of x, (N, size); a block for every row."""
    all_sum, none, one, rest = all_reduce_function(real), real(0), real(1), real(1e-5)

    @block_stride
    def cross_entropy(n, x, label, y, size):
        total, count = none, none
        for i in range(n * size + cuda.threadIdx.x, (n + 1) * size, BLOCK_SIZE):
            value, wanted = real(x[i]), real(label[i])
            if wanted != real(-1):
                total += maximum(value, none) - value * wanted + log1p(exp(-abs(value)))
                count += one
        total, count = all_sum(total), all_sum(count)
        if cuda.threadIdx.x == 0:
            y[n] = total / (count + rest)
    return cross_entropy


@cache
def _cross_entropy_gradient_kernel(real: Any, is_mean: bool) -> Any:
    all_sum, none, one, rest = all_reduce_function(real), real(0), real(1), real(1e-5)

    @block_stride
    def cross_entropy_back(n, x, label, gx, size, scale):
        count = none
        for i in range(n * size + cuda.threadIdx.x, (n + 1) * size, BLOCK_SIZE):
            count += none if real(label[i]) == real(-1) else one
        count = all_sum(count)
        factor = scale / (count + rest) if is_mean else scale
        for i in range(n * size + cuda.threadIdx.x, (n + 1) * size, BLOCK_SIZE):
            wanted = real(label[i])
            error = one / (one + exp(-real(x[i]))) - wanted
            gx[i] = none if wanted == real(-1) else factor * error
    return cross_entropy_back


def _cross_entropy(op: SigmoidCrossEntropy, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (data, label), count = ins, len(ins[0])
    return each_block(_cross_entropy_kernel(real_of(data.dtype)), count, data, label, outs[0],
                      data.size // max(count, 1))


@first_gradient
def _cross_entropy_backward(op: SigmoidCrossEntropy, ins: Any, outs: Any, call: Any
                            ) -> list[Launch]:
    (data, label), count, real = ins, len(ins[0]), real_of(ins[0].dtype)
    return each_block(_cross_entropy_gradient_kernel(real, op.normalization == "valid"), count,
                      data, label, outs[0], data.size // max(count, 1),
                      real(as_float32(op.grad_scale)))


on_gpu(FocalLoss, lambda op, ins, outs, call: run_program(SIGMOID, ins[:1], outs),
       _focal_backward, backward_scratch=_count)
on_gpu(BBoxNorm, lambda op, ins, outs, call: run_program(COPY, ins[:1], outs), _norm_backward,
       backward_scratch=_count)
on_gpu(SigmoidCrossEntropy, _cross_entropy, _cross_entropy_backward)


# -- group normalization --------------------------------------------------------------------------


@cache
def _normalize_kernel(real: Any) -> Any:
    """y, mean and inverse deviation of groups of `width` channels of `inner` elements."""
    all_sum, one = all_reduce_function(real), real(1)

    @block_stride
    def normalize(group, x, gamma, beta, y, mean, rates, groups, width, inner, eps):
        first, size = group * width * inner, width * inner
        total, spread = real(0), real(0)
        for i in range(cuda.threadIdx.x, size, BLOCK_SIZE):
            total += real(x[first + i])
        center = all_sum(total) / real(size)
        for i in range(cuda.threadIdx.x, size, BLOCK_SIZE):
            spread += (real(x[first + i]) - center) ** 2
        rate = one / real(sqrt(all_sum(spread) / real(size) + eps))
        for i in range(cuda.threadIdx.x, size, BLOCK_SIZE):
            channel = group % groups * width + i // inner
            y[first + i] = ((real(x[first + i]) - center) * rate * real(gamma[channel])
                            + real(beta[channel]))
        if cuda.threadIdx.x == 0:
            mean[group], rates[group] = center, rate
    return normalize


@cache
def _normalize_gradient_kernel(real: Any) -> Any:
    """gx, and for every channel of every sample the sums of gy, and of gy times normalized x."""
    all_sum = all_reduce_function(real)

    @block_stride
    def normalize_back(group, gy, x, gamma, mean, rates, gx, of_beta, of_gamma, groups, width,
                       inner):
        center, rate = real(mean[group]), real(rates[group])
        total, along, count = real(0), real(0), real(width * inner)
        for d in range(width):
            first, weight = (group * width + d) * inner, real(gamma[group % groups * width + d])
            shift, scale = real(0), real(0)
            for i in range(first + cuda.threadIdx.x, first + inner, BLOCK_SIZE):
                shift += real(gy[i])
                scale += real(gy[i]) * (real(x[i]) - center) * rate
            shift, scale = all_sum(shift), all_sum(scale)
            total += weight * shift
            along += weight * scale
            if cuda.threadIdx.x == 0:
                of_beta[group * width + d], of_gamma[group * width + d] = shift, scale
        for k in range(cuda.threadIdx.x, width * inner, BLOCK_SIZE):
            i, weight = group * width * inner + k, real(gamma[group % groups * width + k // inner])
            normal = (real(x[i]) - center) * rate
            gx[i] = rate * (weight * real(gy[i]) - (total + normal * along) / count)
    return normalize_back


@cache
def _samples_kernel(real: Any) -> Any:
    """Sums over samples: x (N, C) to (C,)."""
    @device_function
    def load(x, segment, term, segments):
        return real(x[term * segments + segment])

    return sum_kernel(load, real)


def _sizes(op: GroupNorm, data: Array) -> tuple[int, int, int]:
    """Groups, channels of each, elements of a channel."""
    samples, channels = data.shape[:2]
    return (op.num_group, channels // op.num_group, data.size // max(samples * channels, 1))


def _normalize(op: GroupNorm, ins: Any, outs: Any, call: Any) -> list[Launch]:
    data, real = ins[0], real_of(ins[0].dtype)
    moments = [spare if out is None else out
               for out, spare in zip(outs[1:], call.scratch, strict=True)]
    return each_block(_normalize_kernel(real), len(data) * op.num_group, *ins, outs[0], *moments,
                      *_sizes(op, data), real(as_float32(op.eps)))


def _normalize_backward(op: GroupNorm, ins: Any, outs: Any, call: Any) -> list[Launch]:
    data, real, (spare, of_beta, of_gamma) = ins[1], real_of(ins[1].dtype), call.scratch
    launches = each_block(_normalize_gradient_kernel(real), len(data) * op.num_group, *ins,
                          spare if outs[0] is None else outs[0], of_beta, of_gamma,
                          *_sizes(op, data))
    for sums, out in ((of_gamma, outs[1]), (of_beta, outs[2])):
        if out is not None:
            launches += each_block(_samples_kernel(real), data.shape[1], sums, out, len(data),
                                   False)
    return launches


def _normalize_backward_scratch(op: GroupNorm, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    data = ins[1]
    sums = Spec(data.shape[:2], np.dtype(real_of(data.dtype)))
    return [data, sums, sums]


on_gpu(GroupNorm, _normalize, _normalize_backward,
       scratch=lambda op, ins, outs: list(outs[1:]),
       backward_scratch=_normalize_backward_scratch)


# -- boxes ----------------------------------------------------------------------------------------


@cache
def _anchor_kernel(base: tuple[float, ...], width: int, stride: int) -> Any:
    """The anchors (H W A, 4) from those of the first position."""
    count = len(base)

    @grid_stride
    def set_anchors(i, out):
        place = i // count
        shift = place // width if i % 2 else place % width
        out[i] = np.float32(base[i % count] + np.float64(shift * stride))
    return set_anchors


def _anchors(op: GenAnchor, ins: Any, outs: Any, call: Any) -> list[Launch]:
    base = _base_anchors(op.feature_stride, op.scales, op.ratios, False, True)
    kernel = _anchor_kernel(tuple(base.reshape(-1).tolist()), ins[0].shape[3], op.feature_stride)
    return each(kernel, outs[0].size, outs[0])


@cache
def _decode_kernel(real: Any, mean: tuple[Any, ...], std: tuple[Any, ...], by_center: bool) -> Any:
    """Ends of boxes along one axis: an element for each axis of each box of `kinds` a region."""
    half, one = real(0.5), real(1)

    @grid_stride
    def decode(i, rois, offsets, info, out, regions, kinds, columns, skipped):
        axis, r = i % 2, i // (2 * kinds)
        at = r * columns + (i // 2 % kinds + skipped) * 4 + axis
        last = real(info[r // regions * 3 + 1 - axis]) - one
        low, high = real(rois[r * 4 + axis]), real(rois[r * 4 + 2 + axis])
        first = real(offsets[at]) * std[axis] + mean[axis]
        second = real(offsets[at + 2]) * std[axis + 2] + mean[axis + 2]
        size = high - low + one
        if by_center:
            center = first * size + low + half * (size - one)
            reach = half * (real(exp(second)) * size - one)
            low, high = center - reach, center + reach
        else:
            low, high = low + first * size, high + second * size
        to = i // 2 * 4 + axis
        out[to] = maximum(minimum(low, last), real(0))
        out[to + 2] = maximum(minimum(high, last), real(0))
    return decode


def _decode(op: DecodeBBox, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (rois, offsets, info), real = ins, real_of(ins[0].dtype)
    regions, columns = offsets.shape[1:]
    kinds = 1 if op.class_agnostic else columns // 4
    mean, std = (tuple(map(real, each)) for each in (op.bbox_mean, op.bbox_std))
    kernel = _decode_kernel(real, mean, std, op.bbox_decode_type == "xywh")
    return each(kernel, outs[0].size // 2, rois, offsets, info, outs[0], regions, kinds, columns,
                int(op.class_agnostic))


on_gpu(GenAnchor, _anchors)
on_gpu(DecodeBBox, _decode)


# -- ROIAlign_v2 ----------------------------------------------------------------------------------


def _bin_function(real: Any) -> Any:
    """bin_of(start, step, index, size): where a bin begins and ends along an axis."""
    @device_function
    def bin_of(start, step, index, size):
        last = real(size - 1)
        low = minimum(maximum(start + real(index) * step, real(0)), last)
        high = minimum(maximum(start + real(index + 1) * step, real(0)), last)
        return low, high
    return bin_of


def _neighbors_function(real: Any) -> Any:
    """neighbors(at, size): the pixels on both sides of a point, and the weight of the second."""
    @device_function
    def neighbors(at, size):
        low = minimum(maximum(np.int32(floor(at)), 0), size - 1)
        high = minimum(maximum(np.int32(ceil(at)), 0), size - 1)
        return low, high, real(0.5) if low == high else at - real(low)
    return neighbors


@cache
def _largest_kernel(case: RoiSpec) -> Any:
    """The largest point of every bin, and where it is."""
    (_, _, height, width), (channels, rows, columns), real = case.data, case.out, case.real
    bin_of, neighbors, one = _bin_function(real), _neighbors_function(real), real(1)
    third, least, slack = real(3), real(0.01), 0.01

    @grid_stride(exact=True)
    def roi_largest(i, x, rois, y, at_x, at_y, regions, scale):
        a, b, r = i // columns % rows, i % columns, i // (rows * columns * channels)
        plane = (r // regions * channels + i // (rows * columns) % channels) * height * width
        left, top = real(rois[r * 4]) * scale, real(rois[r * 4 + 1]) * scale
        wide = (real(rois[r * 4 + 2]) * scale - left) / real(columns)
        tall = (real(rois[r * 4 + 3]) * scale - top) / real(rows)
        low_v, high_v = bin_of(top, tall, a, height)
        low_u, high_u = bin_of(left, wide, b, width)
        step_v, step_u = (high_v - low_v) / third, (high_u - low_u) / third
        best, best_u, best_v = real(0), real(-1), real(-1)
        if high_v > low_v and high_u > low_u:
            v = low_v + step_v
            while np.float64(v) <= np.float64(high_v - step_v) + slack:
                v0, v1, share_v = neighbors(v, height)
                u = low_u + step_u
                while np.float64(u) <= np.float64(high_u - step_u) + slack:
                    u0, u1, share_u = neighbors(u, width)
                    above, below = plane + v0 * width, plane + v1 * width
                    value = ((one - share_v) * ((one - share_u) * real(x[above + u0])
                                                + share_u * real(x[above + u1]))
                             + share_v * ((one - share_u) * real(x[below + u0])
                                          + share_u * real(x[below + u1])))
                    if best_u < real(0) or value > best:
                        best, best_u, best_v = value, u, v
                    u += maximum(step_u, least)
                v += maximum(step_v, least)
        y[i], at_x[i], at_y[i] = best, best_u, best_v
    return roi_largest


@cache
def _bin_span(case: RoiSpec) -> Any:
    """span(rois, r, k, scale): first pixel and end of a bin; rows of rois begin with the image."""
    real, of_axis, bin_of = case.real, axis_function(case), _bin_function(case.real)
    slack = real(0.02)  # points may be 0.01 beyond a bin

    @device_function
    def span(rois, r, k, scale):
        axis, index, bins, size = of_axis(k)
        start = real(rois[r * 5 + 2 - axis]) * scale
        step = (real(rois[r * 5 + 4 - axis]) * scale - start) / real(bins)
        low, high = bin_of(start, step, index, size)
        return np.int32(floor(low)), np.int32(ceil(high + slack)) + 1
    return span


@cache
def _largest_share(case: RoiSpec) -> Any:
    """A bin's contribution to a pixel, by where its maximum is: points holds x, then y of all."""
    (height, width), (channels, rows, columns), real = case.data[2:], case.out, case.real
    neighbors, one = _neighbors_function(real), real(1)

    @device_function
    def part(pixel, low, high, share):
        return (one - share if pixel == low else real(0)) + (share if pixel == high else real(0))

    @device_function
    def share(gy, points, spans, r, channel, a, b, v, u):
        at = ((r * channels + channel) * rows + a) * columns + b
        if points[2 * at] < real(0):
            return real(0)
        u0, u1, share_u = neighbors(points[2 * at], width)
        v0, v1, share_v = neighbors(points[2 * at + 1], height)
        return real(gy[at]) * part(v, v0, v1, share_v) * part(u, u0, u1, share_u)
    return share


@cache
def _points_kernel(real: Any) -> Any:
    @grid_stride
    def interleave(i, at_x, at_y, points):
        points[i] = real(at_y[i // 2] if i % 2 else at_x[i // 2])
    return interleave


@cache
def _rows_kernel(real: Any) -> Any:
    """Rows (image, left, top, right, bottom) of regions (N, R, 4)."""
    @grid_stride
    def number_rois(i, rois, rows, regions):
        column = i % 5
        rows[i] = real(i // 5 // regions) if column == 0 else real(rois[i // 5 * 4 + column - 1])
    return number_rois


def _align(op: ROIAlign_v2, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (data, rois), (y, *places) = ins, outs
    case = _case(data, y)
    at = [spare if out is None else out for out, spare in zip(places, call.scratch, strict=True)]
    return each(_largest_kernel(case), y.size, data, rois, y, *at, rois.shape[1],
                case.real(as_float32(op.spatial_scale)))


@first_gradient
def _align_backward(op: ROIAlign_v2, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (gy, rois, at_x, at_y), gx = ins, outs[0]
    case, (rows, points, *scratch) = _case(gx, gy), call.scratch
    found, scale = Regions(*scratch), case.real(as_float32(op.spatial_scale))
    return [*each(_rows_kernel(case.real), rows.size, rois, rows, rois.shape[1]),
            *each(_points_kernel(case.real), points.size, at_x, at_y, points),
            *found.outlined(case, _bin_span(case), rows, scale),
            *gradient(case, _largest_share(case), gy, points, gx, found)]


def _align_backward_scratch(op: ROIAlign_v2, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    gy, rois, case = ins[0], ins[1], _case(outs[0], ins[0])
    regions, real = rois.shape[0] * rois.shape[1], np.dtype(case.real)
    return [Spec((regions, 5), real), Spec((*gy.shape, 2), real),
            *Regions.specs(case, regions, True)]


def _case(data: Any, out: Any) -> RoiSpec:
    return RoiSpec(tuple(data.shape), tuple(out.shape[2:]), real_of(data.dtype))


on_gpu(ROIAlign_v2, _align, _align_backward, scratch=lambda op, ins, outs: list(outs[1:]),
       backward_scratch=_align_backward_scratch)
