"""Direct convolution as sums of shifted planes.

Planes of an image are copied to a padded polyphase layout (`window_planes`), or read in place where
the stride is 1 and no window meets padding.  In it every tap is a constant offset, and

    output             y[f]  = sum over c, t of w[f, c, t] x[c] shifted by t
    gradient of data   x[c]  = sum over f, t of w[f, c, t] gy[f] shifted back by t
    gradient of weight gw[f, c, t] = product of gy[f] and x[c] shifted by t

process contiguous runs that are long even where rows of positions are short.  STEP accumulators
stay in registers over all terms.  Nothing is copied per tap (no im2col), which suits few channels
or filters: thin layers, depthwise layers, 3-D images.  Taps that only see padding are skipped;
small images are laid out side by side.

Every sum is formed by one worker in an order that depends on shapes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import inf
from typing import Any

import numpy as np

from ..jit import num_threads
from ..op import Run, Spec
from ..shape import size_of
from ..simd.host import lanes
from ..simd.raw_arrays import STEP
from .conv_shifted_kernels import (
    ShiftedForm,
    ShiftedPlan,
    ShiftedSizes,
    correlate,
    shifted_sums,
    transposed_sums,
)
from .sliding_window import Direction, Geometry, Window
from .window_planes import PlaneTables, WindowPlanes, flat

__all__ = ["cost", "prepare", "workspace"]

SIDE = 8 * STEP
"""Elements from which on a plane is processed alone."""
NEAR = 1 << 12
"""Elements of images that stay in the L1 cache while all filters are applied."""
MOST = 1 << 19
"""Elements of the copied layout at most: they fit the L2 cache."""


# ------------------------------------------------------------------------------------------- layout

@dataclass(frozen=True)
class ShiftedLayout:
    """Memory layout of a convolution in each direction."""

    geo: Geometry

    @cached_property
    def window(self) -> Window:
        return self.geo.window.trimmed

    @cached_property
    def is_bare(self) -> bool:
        """Whether images can be read in place: stride 1, and no window meets padding."""
        w = self.window
        ends = ((o - 1) + (k - 1) * d - p for o, k, d, p in zip(
            w.out, w.kernel, w.dilate, w.pad, strict=True))
        return (w.stride == (1, 1, 1) and max(w.pad) <= 0
                and all(end < i for end, i in zip(ends, w.image, strict=True))
                and flat([out - 1 for out in w.out], w.image) + 1 >= STEP)

    @cached_property
    def fits(self) -> bool:
        """Whether the copied layout of an image equals the image itself."""
        w = self.window
        return self.is_bare and WindowPlanes(w).size == w.image and not any(w.pad)

    @cached_property
    def planes(self) -> WindowPlanes:
        whole = size_of(WindowPlanes(self.window).size)
        alone = self.is_bare or whole >= SIDE
        return WindowPlanes(self.window, 1 if alone else min(self.geo.images, -(-SIDE // whole)))

    def form(self, direction: Direction) -> ShiftedForm:
        geo, planes = self.geo, self.planes
        step, area, columns, run, ahead = planes.form
        in_place = self.is_bare if direction != "data" else self.fits and self.window.taps == 1
        if direction != "data" and in_place:
            run = flat([out - 1 for out in self.window.out], self.window.image) + 1
        dense = run == geo.window.positions and planes.together == 1
        direct = {"forward": dense and run >= STEP, "data": self.fits, "weight": dense}[direction]
        deep = geo.group_filters if direction == "data" else geo.group_channels
        block = max(NEAR // deep // STEP, 1) * STEP if direct else planes.together * (run + ahead)
        pitch = run + (planes.together - 1) * (run + ahead)
        return ShiftedForm(area, step, columns, run + ahead, run, planes.elements, in_place, direct,
                           block, (planes.elements if direction == "data" else pitch) + STEP)

    def taps(self, direction: Direction) -> np.ndarray:
        """(taps, 2): index of the weight and offset of each tap; for the gradient of the data in
        the order of phases, with negated offsets."""
        planes, window = self.planes, self.window
        first = [taps.start for taps in self.geo.window.live]
        index = np.indices(window.kernel).reshape(3, -1)
        which = flat([one + start for one, start in zip(index, first, strict=True)],
                     self.geo.window.kernel)
        phase, number, order = planes.taps.T
        if direction == "data":
            return np.stack([which, -number], 1)[order]
        offset = phase * planes.together * size_of(planes.size) + number
        if self.is_bare:
            offset = flat([one * d - p for one, d, p in zip(
                index, window.dilate, window.pad, strict=True)], window.image)
        return np.stack([which, offset], 1)

    def tables(self, direction: Direction) -> PlaneTables:
        """Tables of `planes`; where images are read in place, rows of positions have the pitch of
        the image."""
        if self.is_bare and direction != "data":
            z, y = np.indices(self.window.out[:2]).reshape(2, -1)
            return self.planes.tables._replace(starts=flat((z, y, 0), self.window.image))
        return self.planes.tables

    def work(self, direction: Direction) -> int:
        """Workspace elements of a worker."""
        form, geo, together = self.form(direction), self.geo, self.planes.together
        if direction == "data":
            far = form.whole - form.run + together * form.whole + STEP
            return (geo.group_filters * far * (not form.in_place)
                    + 4 * form.pitch * (not form.direct) + STEP)
        results = {"forward": 4, "weight": 1}[direction] * (not form.direct)
        return ((geo.group_channels * form.elements + STEP) * (not form.in_place)
                + results * form.pitch + STEP)

    def plan(self, direction: Direction, workers: int) -> tuple[ShiftedPlan, int]:
        """The plan, and its number of jobs."""
        geo, together = self.geo, self.planes.together
        each = geo.group_channels if direction == "data" else geo.group_filters
        images = 1 if direction == "weight" else -(-geo.images // together)
        parts = min(each, -(-workers // (images * geo.groups)))
        plan = ShiftedPlan(geo.images, together, geo.groups, parts, each)
        return plan, images * geo.groups * parts


@lru_cache(maxsize=256)
def _layout(geo: Geometry) -> ShiftedLayout:
    return ShiftedLayout(geo)


# ------------------------------------------------------------------------------- cost and functions

CALL, JOB, PRODUCT, ALONE, DOTS, SUMS, DIRECT, DOT = 4000, 300, 0.32, 0.55, 0.32, 8, 5, 30
MOVE, PLANE, ROW, STORE = 0.25, 20, 5, 1
"""Nanoseconds (see `convolution`) of a call; of a job, a group of images laid out together; of a
vector multiply-add where four results are accumulated together, where one is, and in a dot product;
to start STEP accumulators, and those of results in place; to start a dot product; to copy a strided
pixel; to start a plane, or a row of pixels; to load or store a vector."""
LARGE, FAR, STREAM, WEIGHT, CACHED = 1 << 17, 2.2, 1.2, 0.4, 1 << 11
"""Elements, read again for every four results (weight gradient: for every filter), beyond which
they come from the L3 cache; the factor by which sums then take longer; nanoseconds more for a
vector of a dot product.  Nanoseconds to load a weight.  Elements of both operands of a dot product
beyond which they do not stay in the L1 cache, and it takes twice its time."""


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds of a direction, inf where planes are too large."""
    if not geo.images or not geo.positions:
        return inf
    layout, width = _layout(geo), lanes(dtype)
    if layout.work(direction) > MOST:
        return inf
    form, planes, window = layout.form(direction), layout.planes, layout.window
    groups = -(-geo.images // planes.together)
    each = planes.together * (form.whole if direction == "data" else form.run)
    total = CALL + JOB * groups * geo.groups + _moved(geo, direction, width)
    if direction == "weight":
        dots = groups * geo.filters * geo.group_channels
        far = STREAM * (geo.group_channels * each > LARGE)
        near = DOTS * (2 if each > CACHED else 1)
        return total + dots * (window.taps * (DOT + near * each / width) + far * each / width)
    inner, outer, phases = geo.group_channels, geo.group_filters, 1
    if direction == "data":
        inner, outer, phases = outer, inner, size_of(planes.phases)
    steps, terms, rest = groups * geo.groups * -(-each // STEP), inner * window.taps, outer % 4
    product = (PRODUCT * (outer - rest) + ALONE * rest) * STEP / width
    if inner * each > LARGE and not form.direct:
        product *= FAR
    return (total + steps * (terms * product + outer * phases * (DIRECT if form.direct else SUMS))
            + WEIGHT * geo.filters * geo.group_channels * window.taps)


def _moved(geo: Geometry, direction: Direction, width: int) -> float:
    """Nanoseconds to read, write and lay out images."""
    layout = _layout(geo)
    form, window = layout.form(direction), layout.window
    pixels, positions = geo.images * geo.channels, geo.images * geo.filters
    in_place, there = form.in_place, form.direct
    if direction == "data":
        in_place, there = form.direct, form.in_place
    total = STORE * (pixels * form.area + positions * geo.window.positions) / width
    if not in_place:
        each = ROW * len(layout.planes.runs) + (window.image[2] * MOVE if form.step > 1 else 0)
        total += pixels * (PLANE + window.image[0] * window.image[1] * each)
    return total + (0 if there else positions * window.out[0] * window.out[1] * ROW)


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """Workspace of a direction."""
    return [Spec((num_threads(), _layout(geo).work(direction)), np.dtype(dtype))]


def prepare(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
            scratch: Sequence[Any]) -> Run:
    """A function that computes a direction; see `convolution.convolve`."""
    layout, work = _layout(geo), scratch[0]
    plan, jobs = layout.plan(direction, len(work))
    count: Any = jobs
    arrays: tuple[Any, ...]
    if direction == "weight":
        pieces = min(geo.group_channels, -(-len(work) // jobs))
        kernel, arrays, count = correlate, (x, y, w), (jobs * pieces, pieces)
    elif direction == "forward":
        base = np.zeros(geo.filters, y.dtype) if bias is None else bias
        kernel, arrays = shifted_sums, (x, w, y, base)
    else:
        base = np.zeros(geo.channels, x.dtype) if bias is None else bias
        kernel, arrays = transposed_sums, (y, w, x, base)
    sizes = ShiftedSizes(geo.group_channels, geo.group_filters, geo.window.taps,
                         geo.window.positions)
    form, tables, taps = _tables(geo, direction)
    return partial(kernel, *(array.reshape(-1) for array in arrays), tuple(sizes), form,
                   tuple(plan), tables, taps, count, work)


@lru_cache(maxsize=256)
def _tables(geo: Geometry, direction: Direction) -> tuple[Any, Any, np.ndarray]:
    """The form and the tables of a layout, and the taps."""
    layout = _layout(geo)
    return tuple(layout.form(direction)), tuple(layout.tables(direction)), layout.taps(direction)
