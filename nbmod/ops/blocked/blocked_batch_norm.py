"""BatchNorm in the blocked layout, with a fused addition and activation.

    y = (x - mean) gamma / sqrt(var + eps) + beta (+ add), then ReLU, or a clip from 0 on

Training reads x twice and writes once: a pass for the sums, one for the results.  The backward pass
also reads each of its tensors twice.  A thread does both passes of a block of channels, the second
one from the last image to the first, so that it begins with what the caches still hold; where there
are fewer blocks than threads, they share the planes of each pass.  While a plane is
read, the next one is prefetched.  Sums are float32 along a row of pixels, relative to the channel's
first element, and float64 over rows and images, in an order that does not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..nn.batch_norm import FusedBatchNorm, inverse_deviation
from ..op import Call, Run, Spec, Tensor
from ..param import Shape
from ..shape import Shapes
from ..simd.batch_norm_planes import (
    ADD,
    BACKWARD,
    FORWARD,
    GADD,
    GX,
    PASSED,
    STREAM,
    STREAM_GADD,
    WITHIN,
    PlaneStart,
    PlaneSteps,
    grad_plane,
    grad_sums,
    norm_plane,
    norm_sums,
)
from ..simd.halo import zero_halo
from ..simd.nontemporal import bypasses_cache
from .layout import LANES, BlockedLayout, pad_channels

__all__ = ["BlockedBatchNorm"]

DOUBLE = np.dtype(np.float64)
NEAR = 2 ** 15
"""Elements of a plane up to which the next one is prefetched while one is read."""
SOON = 1024
"""Prefetch distance in elements: the page after the next, which hardware prefetchers do not
reach."""
SHARE = 4
"""Least blocks of channels for each thread, unless all threads get equally many."""
TINY = float(np.finfo(np.float32).tiny)


class BatchNormGeometry(NamedTuple):
    """Blocks of channels, size of a plane; strides of planes, first pixels and strides of rows in x
    and y; halo of y."""

    blocks: int
    height: int
    width: int
    x_plane: int
    y_plane: int
    x_start: int
    y_start: int
    x_row: int
    y_row: int
    y_halo: int


@inlined
def _total(sums, b, i, c):
    total = 0.0
    for n in range(len(sums)):
        total += sums[n, b, i, c]
    return total


@inlined
def _at(plane, step, geo):
    """Where a plane starts; the plane `step` further on is prefetched or, where planes are large,
    what is SOON elements ahead."""
    x, y = plane * geo.x_plane + geo.x_start, plane * geo.y_plane + geo.y_start
    ahead, along = (step * geo.x_plane, step * geo.y_plane) if geo.x_plane <= NEAR else (SOON, SOON)
    return PlaneStart(x, y, plane % geo.blocks * LANES, plane * 2 * LANES, x + ahead, y + along)


@inlined
def _accumulate_sums(x, sums, plane, step, geo, steps):
    """The sums of a plane, of differences from the first pixel of its block."""
    at = _at(plane, step, geo)
    origin = plane % geo.blocks * geo.x_plane + geo.x_start
    norm_sums(x, x, sums, PlaneStart(at.x, at.y, origin, at.sums, at.x_soon, at.y_soon), steps)


@inlined
def _set_parameters(x, sums, norm, channels, b, geo, options):
    """Parameters per channel of block b, from its sums if `options` requests batch statistics."""
    finds, eps = options
    origin, count = b * geo.x_plane + geo.x_start, len(sums) * geo.height * geo.width
    for c in range(min(LANES, channels.shape[1] - b * LANES)):
        channel = b * LANES + c
        if finds:
            off = _total(sums, b, 0, c) / count
            channels[0, channel] = x[origin + c] + off
            channels[1, channel] = 1 / np.sqrt(
                max(_total(sums, b, 1, c) / count - off * off, 0.0) + eps)
        mean, inverse, gamma, beta = channels[:, channel]
        norm[0, b, c] = mean
        norm[1, b, c] = inverse * gamma
        norm[2, b, c] = beta


@inlined
def _normalise(x, add, y, norm, plane, step, geo, steps):
    at = _at(plane, step, geo)
    norm_plane(x, add, y, norm, at, steps)
    zero_halo(y, at.y - geo.y_start, geo.height, geo.width, geo.y_halo)


@kernel(parallel=True)
def _forward(x, add, y, sums, norm, channels, geo, options):
    """y from x, flat; channels (4, C): mean, invstd, gamma, beta.  Batch statistics are computed
    first if `options` requests them."""
    by_block, flags, finds, eps = options
    geo = BatchNormGeometry(*geo)
    blocks, images, flat, totals = geo.blocks, len(sums), norm.reshape(-1), sums.reshape(-1)
    steps = PlaneSteps(geo.height, geo.width, geo.x_row, geo.y_row, norm.shape[1] * LANES, flags)
    planes = images * blocks
    alone = blocks if by_block else 0  # a condition inside prange() would keep it on one thread
    shared = 0 if by_block else planes
    summed = shared if finds else 0
    for job in prange(alone):
        b = np.int64(job)
        for plane in range(b, planes if finds else 0, blocks):
            _accumulate_sums(x, totals, plane, blocks, geo, steps)
        _set_parameters(x, sums, norm, channels, b, geo, (finds, eps))
        for plane in range(planes - blocks + b, -1, -blocks):
            _normalise(x, add, y, flat, plane, -blocks, geo, steps)
    for job in prange(summed):
        _accumulate_sums(x, totals, np.int64(job), 1, geo, steps)
    for block in range(0 if by_block else blocks):
        _set_parameters(x, sums, norm, channels, block, geo, (finds, eps))
    for job in prange(shared):
        _normalise(x, add, y, flat, np.int64(job), 1, geo, steps)


@inlined
def _set_gradients(sums, norm, channels, b, share, limited):
    """Gradients of gamma and beta of block b, and its parameters per channel, from its sums.

    `limited`: the activation is ReLU.  Its gradient at NaN is NaN, so are those of beta and gamma.
    """
    for c in range(min(LANES, channels.shape[1] - b * LANES)):
        channel, total, along = b * LANES + c, _total(sums, b, 0, c), _total(sums, b, 1, c)
        _, invstd, gamma, is_fixed, _, _ = channels[:, channel]
        inverse = np.float64(invstd)
        channels[4, channel] = 0 if is_fixed else along * inverse
        channels[5, channel] = along if limited and along != along else total
        norm[FORWARD + 1, b, c] = total * share
        norm[FORWARD + 2, b, c] = along * share * inverse * inverse
        norm[FORWARD + 3, b, c] = invstd * gamma


@inlined
def _differentiate(x, g, y, gx, gadd, norm, at, geo, options):
    steps, x_halo = options
    grad_plane(x, g, y, gx, gadd, norm, at, steps)
    if steps.flags & GX:
        zero_halo(gx, at.x - geo.x_start, geo.height, geo.width, x_halo)
    if steps.flags & GADD:
        zero_halo(gadd, at.y - geo.y_start, geo.height, geo.width, geo.y_halo)


@kernel(parallel=True)
def _backward(g, x, y, gx, gadd, sums, norm, channels, geo, options):
    """gx and gadd, flat, and in channels (6, C) the gradients of gamma and beta after centre,
    inverse deviation, gamma and whether it is fixed."""
    by_block, flags, share, x_halo = options
    geo = BatchNormGeometry(*geo)
    blocks, images, flat, totals = geo.blocks, len(sums), norm.reshape(-1), sums.reshape(-1)
    steps = PlaneSteps(geo.height, geo.width, geo.x_row, geo.y_row, norm.shape[1] * LANES, flags)
    planes, gives = images * blocks, flags & (GX | GADD) != 0
    limited = flags & WITHIN != 0 and norm[4, 0, 0] == np.inf
    alone = blocks if by_block else 0
    shared = 0 if by_block else planes
    jobs = shared if gives else 0
    for job in prange(alone):
        b = np.int64(job)
        for plane in range(b, planes, blocks):
            grad_sums(x, g, y, flat, totals, _at(plane, blocks, geo), steps)
        _set_gradients(sums, norm, channels, b, share, limited)
        for plane in range(planes - blocks + b, -1 if gives else planes, -blocks):
            _differentiate(x, g, y, gx, gadd, flat, _at(plane, -blocks, geo), geo,
                           (steps, x_halo))
    for job in prange(shared):
        grad_sums(x, g, y, flat, totals, _at(np.int64(job), 1, geo), steps)
    for block in range(0 if by_block else blocks):
        _set_gradients(sums, norm, channels, block, share, limited)
    for job in prange(jobs):
        _differentiate(x, g, y, gx, gadd, flat, _at(np.int64(job), 1, geo), geo, (steps, x_halo))


@dataclass(frozen=True)
class BlockedBatchNorm(FusedBatchNorm):
    """A `FusedBatchNorm` on blocked images of `channels` channels.

    `halos` are those of data, and of the output and `add`.  The memory planner computes in place
    only where they are equal, as it shares memory of equal size only.
    """

    channels: int
    halos: tuple[int, int]

    name: ClassVar = "_blocked_batch_norm"

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        if ins[0] is None or 0 in ins[0]:
            return ins, outs
        x = self.layout(ins[0])
        out = BlockedLayout(x.channels, x.height, x.width, self.halos[1]).shape(ins[0][0])
        channels = (self.channels,)
        return [ins[0], *[out] * self.add, *[channels] * 4], [out, channels, channels]

    def infer_type(self, ins: list, outs: list) -> tuple[list, list]:
        known = ins[0] or outs[0]
        return [known] * len(ins), [known] * len(outs)

    def layout(self, data: Shape) -> BlockedLayout:
        return BlockedLayout.of(data, self.channels, self.halos[0])

    def _buffers(self, data: Tensor) -> list[Spec]:
        """Sums, parameters per channel in vectors and in arrays."""
        blocks, single = data.shape[1], np.dtype(np.float32)
        return [Spec((data.shape[0], blocks, 2, LANES), DOUBLE),
                Spec((FORWARD + BACKWARD, blocks, LANES), single), Spec((6, self.channels), single)]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._buffers(ins[0])

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._buffers(ins[1])

    def _geometry(self, x: Tensor) -> tuple[BatchNormGeometry, bool]:
        """Sizes and strides of both layouts for the kernels, and whether threads process whole
        blocks."""
        a, threads = self.layout(x.shape), num_threads()
        b = BlockedLayout(a.channels, a.height, a.width, self.halos[1])
        by_block = a.blocks % threads == 0 or a.blocks >= SHARE * threads
        return BatchNormGeometry(a.blocks, a.height, a.width, a.plane, b.plane, a.at(0, 0),
                                 b.at(0, 0), a.row, b.row, b.halo), by_block

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        inputs = dict(zip(self.list_inputs(), ins, strict=True))
        x, y, gamma, beta = inputs["data"], outs[0], inputs["gamma"], inputs["beta"]
        sums, norm, channels = call.scratch
        statistics, (mean, invstd) = outs[1:3], channels[:2]
        arrays = [array.reshape(-1) for array in (x, inputs.get("add", y), y)]
        geo, by_block = self._geometry(x)
        trains = not call.specs or outs[1] is not None
        flags = ADD * self.add | STREAM * bypasses_cache(y, *ins[:1 + self.add])

        def run() -> None:
            if self.fix_gamma and trains:
                gamma.fill(1)
            finds = call.is_train and not self.use_global_stats
            if not finds:
                np.copyto(mean, inputs["moving_mean"])
                inverse_deviation(inputs["moving_var"], self.eps, invstd)
            channels[2], channels[3] = (1 if self.fix_gamma else gamma), beta
            norm[:3, -1] = 0
            norm[3], norm[4] = (0 if self.relu else -np.inf), self.most
            _forward(*arrays, sums, norm, channels[:4], tuple(geo),
                     (by_block, flags, finds, self.eps))
            for out, statistic in zip(statistics, channels, strict=False):
                if out is not None:
                    np.copyto(out, statistic)

        return run

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        g, x, gamma, mean, invstd, moving_mean, moving_var = ins[:7]
        sums, norm, channels = call.scratch
        gx, gadd = outs[0], outs[1] if self.add else None
        targets = list(zip(outs[1 + self.add:3 + self.add], channels[4:], strict=True))
        y = ins[7] if self.relu and self.add else g
        arrays = [array.reshape(-1) for array in (
            g, x, y, x if gx is None else gx, g if gadd is None else gadd)]
        geo, by_block = self._geometry(x)
        flags = GX * (gx is not None) + GADD * (gadd is not None) + (
            (PASSED if self.add else WITHIN) * self.relu)
        for bit, out in ((STREAM, gx), (STREAM_GADD, gadd)):
            flags |= bit * (out is not None and bypasses_cache(out, g, x, y))
        count = x.shape[0] * geo.height * geo.width

        def run() -> None:
            constant = self.use_global_stats or not call.is_train
            channels[0], channels[1] = (moving_mean if constant else mean), invstd
            if constant:
                inverse_deviation(moving_var, self.eps, channels[1])
            channels[2], channels[3] = (1 if self.fix_gamma else gamma), self.fix_gamma
            if flags & WITHIN:
                scale = invstd if self.fix_gamma else invstd * gamma
                for row, values in zip(norm, (mean, scale, ins[7]), strict=False):
                    pad_channels(values, row)
                norm[3], norm[4] = (TINY if self.most == np.inf else 0), self.most
            norm[FORWARD:] = 0
            pad_channels(channels[0], norm[FORWARD])
            share = 0 if constant else 1 / count
            _backward(*arrays, sums, norm, channels, tuple(geo),
                      (by_block, flags, share, self.halos[0]))
            for out, gradient in targets:
                if out is not None:
                    np.copyto(out, gradient)
            if not constant:
                self.update_moving(moving_mean, moving_var, mean, invstd)

        return run

