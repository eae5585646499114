"""BatchNorm on the blocked form, with what often follows it: an addition, and ReLU.

    y = (x - mean) gamma / sqrt(var + eps) + beta (+ add), then what is above zero of it

Training reads x twice and writes once: a pass for the sums, one for the results.  Backward likewise
reads each of its tensors twice.  Sums are float32 along a row of pixels, relative to the channel's
first number, and float64 over rows and images, in an order that threads do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..batch_norm import BatchNormOp, inverse_deviation
from ..jit import kernel, prange
from ..op import Call, Spec
from ..shape import PartialShape
from .form import LANES, Form, clear_halo, enter_channels

__all__ = ["BlockedBatchNorm"]

Run = Callable[[], None]
DOUBLE = np.dtype(np.float64)


@kernel(parallel=True, fastmath=True)
def _sums(x, size, halo, sums):
    """sums (N, blocks, 2, LANES): of differences to the first image's first pixel, and squares."""
    images, blocks, _, _, _ = x.shape
    for job in prange(images * blocks):
        n, b = np.int64(job) // blocks, np.int64(job) % blocks
        first, plane = x[0, b, halo, halo], x[n, b]
        out, row = sums[n, b], np.empty((2, LANES), np.float32)
        out[:] = 0
        for i in range(halo, halo + size[0]):
            row[:] = 0
            for j in range(halo, halo + size[1]):
                pixel = plane[i, j]
                for c in range(LANES):
                    d = pixel[c] - first[c]
                    row[0, c] += d
                    row[1, c] += d * d
            for c in range(LANES):
                out[0, c] += np.float64(row[0, c])
                out[1, c] += np.float64(row[1, c])


@kernel(parallel=True, fastmath=True)
def _normalize(x, add, y, norm, size, halos, flags):
    """y from x and norm (3, C): mean, scale, shift."""
    images, blocks, _, _, _ = x.shape
    has_add, relu = flags
    for job in prange(images * blocks):
        n, b = np.int64(job) // blocks, np.int64(job) % blocks
        mean, scale, shift = norm[0, b], norm[1, b], norm[2, b]
        for i in range(size[0]):
            source = x[n, b, halos[0] + i, halos[0]:halos[0] + size[1]].reshape(-1)
            other = add[n, b, halos[1] + i, halos[1]:halos[1] + size[1]].reshape(-1)
            target = y[n, b, halos[1] + i, halos[1]:halos[1] + size[1]].reshape(-1)
            for j in range(size[1]):
                at = j * LANES
                for c in range(LANES):
                    value = (source[at + c] - mean[c]) * scale[c] + shift[c]
                    if has_add:
                        value += other[at + c]
                    if relu:
                        value = np.float32(0) if value <= 0 else value
                    target[at + c] = value


@kernel(parallel=True, fastmath=True)
def _backward_sums(g, x, y, norm, size, halos, relu, sums):
    """sums (N, blocks, 2, LANES) of g and of g (x - mean), g being 0 where y is."""
    images, blocks, _, _, _ = x.shape
    for job in prange(images * blocks):
        n, b = np.int64(job) // blocks, np.int64(job) % blocks
        out, row, mean = sums[n, b], np.empty((2, LANES), np.float32), norm[0, b]
        out[:] = 0
        for i in range(size[0]):
            grads = g[n, b, halos[1] + i, halos[1]:halos[1] + size[1]].reshape(-1)
            source = x[n, b, halos[0] + i, halos[0]:halos[0] + size[1]].reshape(-1)
            values = y[n, b, halos[1] + i, halos[1]:halos[1] + size[1]].reshape(-1)
            row[:] = 0
            for j in range(size[1]):
                at = j * LANES
                for c in range(LANES):
                    grad = grads[at + c]
                    if relu:
                        grad = grad if values[at + c] > 0 else np.float32(0)
                    row[0, c] += grad
                    row[1, c] += grad * (source[at + c] - mean[c])
            for c in range(LANES):
                out[0, c] += np.float64(row[0, c])
                out[1, c] += np.float64(row[1, c])


@kernel(parallel=True, fastmath=True)
def _backward(g, x, y, gx, gadd, norm, size, halos, flags):
    """gx, and the gradient of what was added; norm: mean, scale, flat part, slope."""
    images, blocks, _, _, _ = x.shape
    has_add, relu, write = flags
    for job in prange(images * blocks):
        n, b = np.int64(job) // blocks, np.int64(job) % blocks
        mean, scale, flat, slope = norm[0, b], norm[1, b], norm[2, b], norm[3, b]
        for i in range(size[0]):
            grads = g[n, b, halos[1] + i, halos[1]:halos[1] + size[1]].reshape(-1)
            source = x[n, b, halos[0] + i, halos[0]:halos[0] + size[1]].reshape(-1)
            values = y[n, b, halos[1] + i, halos[1]:halos[1] + size[1]].reshape(-1)
            into = gx[n, b, halos[0] + i, halos[0]:halos[0] + size[1]].reshape(-1)
            other = gadd[n, b, halos[1] + i, halos[1]:halos[1] + size[1]].reshape(-1)
            for j in range(size[1]):
                at = j * LANES
                for c in range(LANES):
                    grad = grads[at + c]
                    if relu:
                        grad = grad if values[at + c] > 0 else np.float32(0)
                    if has_add:
                        other[at + c] = grad
                    if write:
                        into[at + c] = (grad - flat[c] - (source[at + c] - mean[c]) * slope[c]
                                        ) * scale[c]


def _enter(norm: Any, *rows: Any) -> None:
    """Numbers per channel into the first rows of norm."""
    for target, row in zip(norm, rows, strict=False):
        enter_channels(row, target)


@dataclass(frozen=True)
class BlockedBatchNorm(BatchNormOp):
    """What `norm` computes, on blocked images of `channels` channels, then `add` and `relu`.

    `halos` are those of data, and of the output and what is added.
    """

    norm: BatchNormOp
    channels: int
    halos: tuple[int, int]
    add: bool = False
    relu: bool = False

    name: ClassVar = "_blocked_batch_norm"
    # The planner shares memory of equal size only: where both halos are the same.
    inplace: ClassVar = (("data", "output"), ("add", "output"))  # type: ignore[assignment]
    num_visible: ClassVar = 1

    eps = property(lambda self: self.norm.eps)
    momentum = property(lambda self: self.norm.momentum)
    fix_gamma = property(lambda self: self.norm.fix_gamma)
    use_global_stats = property(lambda self: self.norm.use_global_stats)

    def list_inputs(self) -> tuple[str, ...]:
        data, *rest = self.inputs
        return (data, *["add"] * self.add, *rest)

    def list_needs(self) -> tuple[str, ...]:
        return (*self.needs, *["output"] * self.relu)

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
        """Sums, numbers per channel in vectors, two arrays of channels."""
        blocks, single = data.shape[1], np.dtype(np.float32)
        return [Spec((data.shape[0], blocks, 2, LANES), DOUBLE),
                Spec((4, blocks, LANES), single), *[Spec((self.channels,), single)] * 2]

    def work(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._room(ins[0])

    def work_backward(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self._room(ins[1])

    def compiled(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        given = dict(zip(self.list_inputs(), ins, strict=True))
        x, y, gamma, beta = given["data"], outs[0], given["gamma"], given["beta"]
        add, form = given.get("add", y), self.form(x)
        sums, norm, *spare = call.scratch
        mean, invstd = (room if out is None else out
                        for room, out in zip(spare, outs[1:], strict=False))
        size = (form.height, form.width)
        trains = not call.specs or outs[1] is not None
        count = x.shape[0] * form.height * form.width

        def statistics() -> None:
            if call.is_train and not self.use_global_stats:
                _sums(x, size, self.halos[0], sums)
                first = form.inside(x)[0, :, 0, 0].reshape(-1)[:self.channels]
                off, squares = (part.reshape(-1)[:self.channels] / count
                                for part in sums.sum(axis=0).transpose(1, 0, 2))
                mean[:] = first + off
                invstd[:] = 1 / np.sqrt(np.maximum(squares - off * off, 0) + self.eps)
            else:
                np.copyto(mean, given["moving_mean"])
                inverse_deviation(given["moving_var"], self.eps, invstd)

        def run() -> None:
            if self.fix_gamma and trains:
                gamma.fill(1)
            statistics()
            scale = invstd if self.fix_gamma else invstd * gamma
            _enter(norm, mean, scale, beta)
            _normalize(x, add, y, norm, size, self.halos, (self.add, self.relu))
            clear_halo(y, self.halos[1])

        return run

    def compiled_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        g, x, gamma, mean, invstd, moving_mean, moving_var = ins[:7]
        y, form = ins[7] if self.relu else g, self.form(x)
        sums, norm, fixed, _ = call.scratch
        gx, gadd = outs[0], outs[1] if self.add else None
        ggamma, gbeta = outs[1 + self.add:3 + self.add]
        size, count = (form.height, form.width), x.shape[0] * form.height * form.width
        halos = self.halos
        flags = (gadd is not None, self.relu, gx is not None)
        into, other = (x if gx is None else gx), (g if gadd is None else gadd)

        def run() -> None:
            constant = self.use_global_stats or not call.is_train
            if constant:
                inverse_deviation(moving_var, self.eps, fixed)
            centre, inverse = (moving_mean, fixed) if constant else (mean, invstd)
            _enter(norm, centre)
            _backward_sums(g, x, y, norm, size, halos, self.relu, sums)
            total, along = (part.reshape(-1)[:self.channels]
                            for part in sums.sum(axis=0).transpose(1, 0, 2))
            if gbeta is not None:
                gbeta[:] = total
            if ggamma is not None:
                ggamma[:] = 0 if self.fix_gamma else along * inverse
            share = 0 if constant else 1 / count
            _enter(norm, centre, inverse if self.fix_gamma else inverse * gamma,
                   total * share, along * share * np.square(inverse.astype(np.float64)))
            if flags[0] or flags[2]:
                _backward(g, x, y, into, other, norm, size, halos, flags)
            for out, halo in ((gx, halos[0]), (gadd, halos[1])):
                if out is not None:
                    clear_halo(out, halo)
            if not constant:
                self._follow(moving_mean, mean)
                self._follow(moving_var, 1 / np.square(invstd) - invstd.dtype.type(self.eps))

        return run
