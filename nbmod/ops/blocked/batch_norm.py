"""BatchNorm on the blocked form, with what often follows it: an addition, and limits.

    y = (x - mean) gamma / sqrt(var + eps) + beta (+ add), then ReLU, or a clip from 0 on

Training reads x twice and writes once: a pass for the sums, one for the results.  Backward likewise
reads each of its tensors twice.  A few blocks of channels at a time take both passes, so that the
second finds in a cache what the first has read.  Sums are float32 along a row of pixels, relative
to the channel's first number, and float64 over rows and images, in an order that threads do not
change.

Where a limit let numbers pass is computed again from x, or, behind an addition, seen in y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..batch_norm import BatchNormOp, inverse_deviation
from ..jit import inlined, kernel, num_threads, prange
from ..op import Call, Spec
from ..shape import PartialShape
from ..simd.norm import (
    ADD,
    BACKWARD,
    FORWARD,
    GADD,
    GX,
    PASSED,
    WITHIN,
    grad_row,
    grad_sums,
    norm_row,
    norm_sums,
)
from .form import LANES, Form, clear_edge, enter_channels

__all__ = ["BlockedBatchNorm"]

Run = Callable[[], None]
DOUBLE = np.dtype(np.float64)
NEAR = 2 ** 19
"""Numbers of each tensor that should stay in a cache between the two passes."""
JOBS = 4
"""Planes for each thread, at least, in a pass."""
TINY = float(np.finfo(np.float32).tiny)


@inlined
def _places(job, first, count, form):
    """The plane of a job, image n and block b, and where it begins in x and in y."""
    n, b = job // count, first + job % count
    plane = n * form[0] + b
    return n, b, plane * form[3] + form[5], plane * form[4] + form[6]


@inlined
def _collect(row, sums):
    for i in range(2):
        for c in range(LANES):
            sums[i, c] += np.float64(row[i * LANES + c])


@inlined
def _total(sums, b, i, c):
    total = 0.0
    for n in range(len(sums)):
        total += sums[n, b, i, c]
    return total


@kernel(parallel=True)
def _forward(x, add, y, sums, norm, channels, form, how):
    """y from x, flat; channels (4, C): mean, invstd, then gamma, beta.  Statistics are found first
    where `how` wants some."""
    blocks, height, width, _, _, _, _, x_row, y_row, halo = form
    together, flags, finds, eps = how
    images, step, flat = len(sums), norm.shape[1] * LANES, norm.reshape(-1)
    for first in range(0, blocks, together):
        count = min(together, blocks - first)
        for job in prange(images * count if finds else 0):
            n, b, at, _ = _places(np.int64(job), first, count, form)
            row = np.empty(2 * LANES, np.float32)
            origin = b * form[3] + form[5]
            sums[n, b] = 0
            for i in range(height):
                norm_sums(x, x, row, (at + i * x_row, 0, origin, 0), (width, 0, 0))
                _collect(row, sums[n, b])
        for b in range(first, first + count):
            origin = b * form[3] + form[5]
            for c in range(min(LANES, channels.shape[1] - b * LANES)):
                values = channels[:, b * LANES + c]
                if finds:
                    off = _total(sums, b, 0, c) / (images * height * width)
                    squares = _total(sums, b, 1, c) / (images * height * width)
                    values[0] = x[origin + c] + off
                    values[1] = 1 / np.sqrt(max(squares - off * off, 0.0) + eps)
                norm[0, b, c] = values[0]
                norm[1, b, c] = values[1] * values[2]
                norm[2, b, c] = values[3]
        for job in prange(images * count):
            n, b, at, to = _places(np.int64(job), first, count, form)
            for i in range(height):
                norm_row(x, add, y, flat, (at + i * x_row, to + i * y_row, b * LANES, 0),
                         (width, step, flags))
            clear_edge(y, to - form[6], height, width, halo)


@kernel(parallel=True)
def _backward(g, x, y, gx, gadd, sums, norm, channels, form, how):
    """gx and gadd, flat, and in channels (6, C) the gradients of gamma and beta behind centre,
    inverse deviation, gamma and whether it is fixed."""
    blocks, height, width, _, _, _, _, x_row, y_row, halo = form
    together, flags, share, x_halo = how
    images, step, flat = len(sums), norm.shape[1] * LANES, norm.reshape(-1)
    for first in range(0, blocks, together):
        count = min(together, blocks - first)
        for job in prange(images * count):
            n, b, at, to = _places(np.int64(job), first, count, form)
            row = np.empty(2 * LANES, np.float32)
            sums[n, b] = 0
            for i in range(height):
                grad_sums(x, g, y, flat, row, (at + i * x_row, to + i * y_row, b * LANES, 0),
                          (width, step, flags))
                _collect(row, sums[n, b])
        for b in range(first, first + count):
            for c in range(min(LANES, channels.shape[1] - b * LANES)):
                values, total, along = (channels[:, b * LANES + c], _total(sums, b, 0, c),
                                        _total(sums, b, 1, c))
                inverse = np.float64(values[1])
                values[4], values[5] = along * inverse * (1 - values[3]), total
                norm[FORWARD + 1, b, c] = total * share
                norm[FORWARD + 2, b, c] = along * share * inverse * inverse
                norm[FORWARD + 3, b, c] = values[1] * values[2]
        for job in prange(images * count if flags & (GX | GADD) else 0):
            n, b, at, to = _places(np.int64(job), first, count, form)
            for i in range(height):
                grad_row(x, g, y, gx, gadd, flat, (at + i * x_row, to + i * y_row, b * LANES, 0),
                         (width, step, flags))
            if flags & GX:
                clear_edge(gx, at - form[5], height, width, x_halo)
            if flags & GADD:
                clear_edge(gadd, to - form[6], height, width, halo)


@dataclass(frozen=True)
class BlockedBatchNorm(BatchNormOp):
    """What `norm` computes, on blocked images of `channels` channels, then `add` and `relu`: what
    is not above 0 becomes 0, and what is above `most` becomes `most`.

    `halos` are those of data, and of the output and what is added.
    """

    norm: BatchNormOp
    channels: int
    halos: tuple[int, int]
    add: bool = False
    relu: bool = False
    most: float = np.inf

    name: ClassVar = "_blocked_batch_norm"
    # The planner shares memory of equal size only: where both halos are the same.
    inplace: ClassVar = (("data", "output"), ("add", "output"))  # type: ignore[assignment]
    inplace_backward: ClassVar = (  # type: ignore[assignment]
        ("ograd", "add"), ("data", "data"), ("ograd", "data"))
    num_visible: ClassVar = 1

    eps = property(lambda self: self.norm.eps)
    momentum = property(lambda self: self.norm.momentum)
    fix_gamma = property(lambda self: self.norm.fix_gamma)
    use_global_stats = property(lambda self: self.norm.use_global_stats)

    def list_inputs(self) -> tuple[str, ...]:
        data, *rest = self.inputs
        return (data, *["add"] * self.add, *rest)

    def list_needs(self) -> tuple[str, ...]:
        return (*self.needs, *["output" if self.add else "beta"] * self.relu)

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]
                    ) -> tuple[list[PartialShape], list[PartialShape]]:
        if ins[0] is None or 0 in ins[0]:
            return ins, outs
        x = self.form(Spec(ins[0], np.dtype(np.float32)))
        out = Form(x.channels, x.height, x.width, self.halos[1]).shape(ins[0][0])
        channels = (self.channels,)
        return [ins[0], *[out] * self.add, *[channels] * 4], [out, channels, channels]

    def infer_type(self, ins: list, outs: list) -> tuple[list, list]:
        known = ins[0] or outs[0]
        return [known] * len(ins), [known] * len(outs)

    def form(self, data: Any) -> Form:
        return Form.of(data.shape, self.channels, self.halos[0])

    def _room(self, data: Any) -> list[Spec]:
        """Sums, numbers per channel in vectors and in arrays."""
        blocks, single = data.shape[1], np.dtype(np.float32)
        return [Spec((data.shape[0], blocks, 2, LANES), DOUBLE),
                Spec((FORWARD + BACKWARD, blocks, LANES), single), Spec((6, self.channels), single)]

    def work(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._room(ins[0])

    def work_backward(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._room(ins[1])

    def _geometry(self, x: Any) -> tuple[tuple[int, ...], int]:
        """Numbers of both forms for the kernels, and how many blocks they take together."""
        a, images = self.form(x), x.shape[0]
        b = Form(a.channels, a.height, a.width, self.halos[1])
        together = max(1, NEAR // (images * a.plane), -(-JOBS * num_threads() // images))
        return (a.blocks, a.height, a.width, a.plane, b.plane, a.at(0, 0), b.at(0, 0), a.row,
                b.row, b.halo), min(together, a.blocks)

    def compiled(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        given = dict(zip(self.list_inputs(), ins, strict=True))
        x, y, gamma, beta = given["data"], outs[0], given["gamma"], given["beta"]
        sums, norm, channels = call.scratch
        statistics, (mean, invstd) = outs[1:3], channels[:2]
        arrays = [array.reshape(-1) for array in (x, given.get("add", y), y)]
        form, together = self._geometry(x)
        trains = not call.specs or outs[1] is not None

        def run() -> None:
            if self.fix_gamma and trains:
                gamma.fill(1)
            finds = call.is_train and not self.use_global_stats
            if not finds:
                np.copyto(mean, given["moving_mean"])
                inverse_deviation(given["moving_var"], self.eps, invstd)
            channels[2], channels[3] = (1 if self.fix_gamma else gamma), beta
            norm[:3, -1] = 0
            norm[3], norm[4] = (0 if self.relu else -np.inf), self.most
            _forward(*arrays, sums, norm, channels[:4], form,
                     (together, ADD * self.add, finds, self.eps))
            for out, found in zip(statistics, channels, strict=False):
                if out is not None:
                    np.copyto(out, found)

        return run

    def compiled_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        g, x, gamma, mean, invstd, moving_mean, moving_var = ins[:7]
        sums, norm, channels = call.scratch
        gx, gadd = outs[0], outs[1] if self.add else None
        targets = list(zip(outs[1 + self.add:3 + self.add], channels[4:], strict=True))
        y = ins[7] if self.relu and self.add else g
        arrays = [array.reshape(-1) for array in (
            g, x, y, x if gx is None else gx, g if gadd is None else gadd)]
        form, together = self._geometry(x)
        flags = GX * (gx is not None) + GADD * (gadd is not None) + (
            (PASSED if self.add else WITHIN) * self.relu)
        count = x.shape[0] * form[1] * form[2]

        def run() -> None:
            constant = self.use_global_stats or not call.is_train
            channels[0], channels[1] = (moving_mean if constant else mean), invstd
            if constant:
                inverse_deviation(moving_var, self.eps, channels[1])
            channels[2], channels[3] = (1 if self.fix_gamma else gamma), self.fix_gamma
            if flags & WITHIN:
                _enter(norm, mean, invstd if self.fix_gamma else invstd * gamma, ins[7])
                norm[3], norm[4] = (TINY if self.most == np.inf else 0), self.most
            norm[FORWARD:] = 0
            enter_channels(channels[0], norm[FORWARD])
            share = 0 if constant else 1 / count
            _backward(*arrays, sums, norm, channels, form, (together, flags, share, self.halos[0]))
            for out, found in targets:
                if out is not None:
                    np.copyto(out, found)
            if not constant:
                self._follow(moving_mean, mean)
                self._follow(moving_var, 1 / np.square(invstd) - invstd.dtype.type(self.eps))

        return run


def _enter(norm: Any, *rows: Any) -> None:
    """Numbers per channel into the first rows of norm."""
    for target, row in zip(norm, rows, strict=False):
        enter_channels(row, target)
