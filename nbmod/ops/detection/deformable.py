"""Deformable convolution: every tap of every window samples the image at a point of its own.

Sources: Dai et al., Deformable Convolutional Networks, 2017; Zhu et al., Deformable ConvNets v2,
2018.

Points are fractional and interpolated bilinearly.  With an im2col of sampled points,

    output               y     = w cols          cols: the sample of each tap at each position
    gradient of weight   gw    = gy cols^T
    gradient of columns  gcols = w^T gy

cols (channels x taps, positions) is sampled into workspace, a chunk of positions at a time, so that
it has at most COLUMNS bytes for any image size; products are those of `linalg.gemm`.  gcols is then
scattered to the pixels, and yields the gradients of offsets and masks.

A point is the same for all channels of its group.  So kernels process blocks: for one tap and as
many positions as a panel has columns, `_locate` writes a table of four corners and of weights along
both axes, which serves all these channels.  Workers divide columns by positions and taps, gradients
of pixels by channels: no two of them write the same element, and no sum depends on their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..linalg.gemm import max_gemm_workspace, packed_b_spec, prepare_gemm
from ..nn.convolution import FilterOp, bias_gradient
from ..nn.sliding_window import Geometry, Window, expect, sliding_size, span_of
from ..op import Call, Run, Spec, Tensor, all_of
from ..param import Shape
from ..shape import ShapeMismatch, Shapes, size_of, unify
from .roi import flat

__all__ = ["DeformableConvolution", "DeformableOp", "ModulatedDeformableConvolution", "named"]

COLUMNS = 8 << 20
"""Bytes of cols at a time; weights are read once for each chunk."""
CHANNELS = 16
"""Channels of a task that scatters gradients: they share the tables."""
LayoutName = Literal["NCDHW", "NCHW", "NCW"]


# ------------------------------------------------------------------------------------------ kernels

@inlined
def _axis_weights(at, size, clamped, table, j):
    """The two pixels around a point along an axis; table[:, j]: their weights, and derivatives of
    these.

    Outside of the image there are zeros.  If `clamped` the image begins at the first pixel and ends
    one pixel after the last, which is repeated; else it fades to zero within a pixel on either
    side.
    """
    kind = table.dtype.type
    for k in range(4):
        table[k, j] = 0
    if not (at > -1 and at < size) or (clamped and at < 0):
        return 0, 0
    low = int(np.floor(at))
    after = at - kind(low)
    if low >= 0:
        table[0, j], table[2, j] = kind(1) - after, kind(-1)
    if clamped or low + 1 < size:
        table[1, j], table[3, j] = after, kind(1)
    return max(low, 0), min(low + 1, size - 1)


@inlined
def _locate(offset, mask, window, t, first, count, clamped, corner, weight):
    """The table of a tap's points at `count` positions from `first` on: corner (4, n), weight
    (12, n).

    offset (2, positions), y first; mask (positions), or empty; window: see `sliding_window.Window`.
    Rows of weight: 4 along y, 4 along x, the mask; 3 are for sums.
    """
    kind, height, width = weight.dtype.type, window[0, 1], window[0, 2]
    for j in range(corner.shape[1]):
        if j >= count:
            corner[:, j] = 0
            weight[:, j] = 0
            continue
        q = first + j
        row, column = q // window[0, 5], q % window[0, 5]
        y = kind(row * window[0, 7] + window[1 + t, 1]) + offset[0, q]
        x = kind(column * window[0, 8] + window[1 + t, 2]) + offset[1, q]
        top, bottom = _axis_weights(y, height, clamped, weight[:4], j)
        left, right = _axis_weights(x, width, clamped, weight[4:8], j)
        corner[0, j], corner[1, j] = top * width + left, top * width + right
        corner[2, j], corner[3, j] = bottom * width + left, bottom * width + right
        weight[8, j] = mask[q] if mask.size else kind(1)


@inlined
def _sample(plane, corner, weight, out):
    """out[j] = the sample of a plane (flat) at point j."""
    for j in range(out.size):
        upper = weight[4, j] * plane[corner[0, j]] + weight[5, j] * plane[corner[1, j]]
        lower = weight[4, j] * plane[corner[2, j]] + weight[5, j] * plane[corner[3, j]]
        out[j] = weight[8, j] * (weight[0, j] * upper + weight[1, j] * lower)


@inlined
def _add_derivatives(plane, corner, weight, g):
    """Accumulate g times the derivatives of a sample with respect to y, x and the mask."""
    for j in range(g.size):
        a, b = plane[corner[0, j]], plane[corner[1, j]]
        c, d = plane[corner[2, j]], plane[corner[3, j]]
        upper, lower = weight[4, j] * a + weight[5, j] * b, weight[4, j] * c + weight[5, j] * d
        weight[9, j] += g[j] * (weight[2, j] * upper + weight[3, j] * lower)
        weight[10, j] += g[j] * (weight[0, j] * (weight[6, j] * a + weight[7, j] * b)
                                 + weight[1, j] * (weight[6, j] * c + weight[7, j] * d))
        weight[11, j] += g[j] * (weight[0, j] * upper + weight[1, j] * lower)


@inlined
def _scatter(plane, corner, weight, g):
    """Scatter-add g[j] to the pixels around point j."""
    for j in range(g.size):
        upper, lower = g[j] * weight[8, j] * weight[0, j], g[j] * weight[8, j] * weight[1, j]
        plane[corner[0, j]] += upper * weight[4, j]
        plane[corner[1, j]] += upper * weight[5, j]
        plane[corner[2, j]] += lower * weight[4, j]
        plane[corner[3, j]] += lower * weight[5, j]


class ColumnsLayout(NamedTuple):
    """Channels of a group; strides of groups, blocks and rows of cols."""

    channels: int
    group: int
    block: int
    row: int


@inlined
def _row(layout, c, t, taps):
    """Offset of the row of channel c and tap t in cols."""
    return (c // layout.channels * layout.group
            + (c % layout.channels * taps + t) * layout.row)


@kernel(parallel=True)
def _sample_columns(image, points, part, tables, cols, layout):
    """cols (flat) = samples of image (C, pixels).

    points  offset (D, taps, 2, positions), mask (D, taps, positions or 0), window, clamped
    part    first position and number of positions
    tables  corner and weight of each worker
    """
    (offset, mask, window, clamped), layout = points, ColumnsLayout(*layout)
    (corners, weights), (start, positions) = tables, part
    (workers, _, size), (deformed, taps) = corners.shape, offset.shape[:2]
    each, blocks = len(image) // deformed, (positions + size - 1) // size
    for worker in prange(workers):
        corner, weight = corners[worker], weights[worker]
        for job in range(np.int64(worker), blocks * taps * deformed, workers):
            d, t, p = job // (blocks * taps), job // blocks % taps, job % blocks
            _locate(offset[d, t], mask[d, t], window, t, start + p * size, positions - p * size,
                    clamped, corner, weight)
            for c in range(d * each, (d + 1) * each):
                at = _row(layout, c, t, taps) + p * layout.block
                _sample(image[c], corner, weight, cols[at:at + size])


@kernel(parallel=True)
def _offset_gradients(image, points, part, tables, cols, layout, goffset, gmask):
    """Gradients of offset and mask, where these are not empty, from that of the columns."""
    (offset, mask, window, clamped), layout = points, ColumnsLayout(*layout)
    (corners, weights), (start, positions) = tables, part
    (workers, _, size), (deformed, taps) = corners.shape, offset.shape[:2]
    each, blocks = len(image) // deformed, (positions + size - 1) // size
    for worker in prange(workers):
        corner, weight = corners[worker], weights[worker]
        for job in range(np.int64(worker), blocks * taps * deformed, workers):
            d, t, p = job // (blocks * taps), job // blocks % taps, job % blocks
            first, count = start + p * size, min(size, positions - p * size)
            _locate(offset[d, t], mask[d, t], window, t, first, count, clamped, corner, weight)
            weight[9:] = 0
            for c in range(d * each, (d + 1) * each):
                at = _row(layout, c, t, taps) + p * layout.block
                _add_derivatives(image[c], corner, weight, cols[at:at + count])
            for j in range(count if goffset.size else 0):
                goffset[d, t, 0, first + j] = weight[8, j] * weight[9, j]
                goffset[d, t, 1, first + j] = weight[8, j] * weight[10, j]
            for j in range(count if gmask.size else 0):
                gmask[d, t, first + j] = weight[11, j]


@kernel(parallel=True)
def _scatter_columns(points, part, tables, cols, layout, gimage):
    """Add the gradient of the columns to gimage (C, pixels)."""
    (offset, mask, window, clamped), layout = points, ColumnsLayout(*layout)
    (corners, weights), (start, positions) = tables, part
    (workers, _, size), (deformed, taps) = corners.shape, offset.shape[:2]
    each, blocks = len(gimage) // deformed, (positions + size - 1) // size
    shares = (each + CHANNELS - 1) // CHANNELS
    for worker in prange(workers):
        corner, weight = corners[worker], weights[worker]
        for job in range(np.int64(worker), deformed * shares, workers):
            d, first = job // shares, job % shares * CHANNELS
            for k in range(blocks * taps):
                p, t = k // taps, k % taps
                count = min(size, positions - p * size)
                _locate(offset[d, t], mask[d, t], window, t, start + p * size, count, clamped,
                        corner, weight)
                for c in range(d * each + first, d * each + min(first + CHANNELS, each)):
                    at = _row(layout, c, t, taps) + p * layout.block
                    _scatter(gimage[c], corner, weight, cols[at:at + count])


# --------------------------------------------------------------------------------- matrix products

@dataclass(frozen=True)
class DeformableIm2col:
    """Deformable convolution of one image: its workspace, and the functions that run it.

    A chunk's columns are stored in panels (groups, blocks, depth, width), if y is computed from
    them, or in rows (groups, depth, chunk); see `ColumnsLayout`.
    """

    geo: Geometry
    deformed: int
    clamped: bool
    dtype: np.dtype

    @property
    def width(self) -> int:
        """Columns of a block."""
        return packed_b_spec(1, 1, self.dtype).shape[2]

    @property
    def chunk(self) -> int:
        """Positions at a time, in whole blocks."""
        blocks = -(-self.geo.window.positions // self.width)
        depth = self.geo.channels * self.geo.window.taps
        most = max(1, COLUMNS // (depth * self.width * self.dtype.itemsize))
        return -(-blocks // -(-blocks // most)) * self.width

    def workspace(self) -> list[Spec]:
        """cols, tables, workspace of products."""
        workers, sizes = num_threads(), (self.geo.group_filters, self.geo.depth, self.chunk)
        work = max(max_gemm_workspace(m, k, n, self.dtype) for m, k, n in permutations(sizes))
        return [Spec((self.geo.groups * self.geo.depth * self.chunk,), self.dtype),
                Spec((workers, 4, self.width), np.dtype(np.uintp)),
                Spec((workers, 12, self.width), self.dtype), Spec((workers, work), self.dtype)]

    def backward_workspace(self) -> list[Spec]:
        """The arrays of `workspace`, and gw transposed."""
        geo = self.geo
        return [*self.workspace(),
                Spec((geo.groups, geo.depth, geo.group_filters), self.dtype)]

    def parts(self) -> list[tuple[int, int]]:
        """First position and number of positions of each chunk."""
        count = self.geo.window.positions
        return [(first, min(self.chunk, count - first)) for first in range(0, count, self.chunk)]

    def points(self, offset: np.ndarray, mask: np.ndarray | None) -> tuple[Any, ...]:
        """The kernels' description of the points of an image."""
        taps, count = self.geo.window.taps, self.geo.window.positions
        if mask is None:
            mask = np.empty((self.deformed, taps, 0), self.dtype)
        return (offset.reshape(self.deformed, taps, 2, count),
                mask.reshape(self.deformed, taps, -1), self.geo.window.table, self.clamped)

    def forward(self, image: np.ndarray, points: tuple[Any, ...], w: np.ndarray, y: np.ndarray,
                scratch: Sequence[Any]) -> Iterator[Run]:
        """Adds to y (filters, positions)."""
        geo, (cols, corner, weight, work) = self.geo, scratch[:4]
        for part in self.parts():
            blocks, (first, count) = -(-part[1] // self.width), part
            shape = (geo.groups, *packed_b_spec(geo.depth, count, self.dtype).shape)
            packed = cols[:size_of(shape)].reshape(shape)
            layout = (geo.group_channels, blocks * geo.depth * self.width, geo.depth * self.width,
                   self.width)
            yield partial(_sample_columns, image, points, part, (corner, weight), cols, layout)
            for filters, target, right in zip(self.split(w), self.split(y), packed, strict=True):
                yield prepare_gemm(filters, right, target[:, first:first + count], work, add=True,
                              packed=True)

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], scratch: Sequence[Any]
                 ) -> Iterator[Run]:
        """Adds to gradients of image and, in workspace, of weight; writes those of the points.

        ins: gy, image, points, w; outs: of image, offset, mask, whether weight.
        """
        (gy, image, points, w), (gimage, goffset, gmask, needs_gw) = ins, outs
        cols, corner, weight, work, gw = scratch[:5]
        layout = (self.geo.group_channels, self.geo.depth * self.chunk, self.width, self.chunk)
        rows, tables = cols.reshape(self.geo.groups, self.geo.depth, self.chunk), (corner, weight)
        for part in self.parts():
            heads = [g[:, part[0]:sum(part)] for g in self.split(gy)]
            here = rows[:, :, :part[1]]
            if gimage is not None or goffset.size or gmask.size:
                for filters, g, target in zip(self.split(w), heads, here, strict=True):
                    yield prepare_gemm(filters.T, g, target, work)
            if goffset.size or gmask.size:
                yield partial(_offset_gradients, image, points, part, tables, cols, layout, goffset,
                              gmask)
            if gimage is not None:
                yield partial(_scatter_columns, points, part, tables, cols, layout, gimage)
            if needs_gw:
                yield partial(_sample_columns, image, points, part, tables, cols, layout)
                for g, source, target in zip(heads, here, gw, strict=True):
                    yield prepare_gemm(source, g.T, target, work, add=True)

    def split(self, matrix: np.ndarray) -> Any:
        """Rows of every group of filters."""
        return matrix.reshape(self.geo.groups, self.geo.group_filters, -1)


# ---------------------------------------------------------------------------------------------- ops

class DeformableOp(FilterOp):
    """Base of both operators, each of which lists its parameters in the order of its arguments."""

    inputs: ClassVar[tuple[str, ...]] = ("data", "offset", "weight", "bias")
    needs: ClassVar[tuple[str, ...]] = ("ograd", "data", "offset", "weight")
    clamped: ClassVar = True
    algorithms: ClassVar = ()
    num_deformable_group: int

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data, axes, (kernel, stride, pad, dilate) = ins[0], self.axes, self.params
        if axes.rank != 2:
            raise ShapeMismatch(f"kernel is {self.kernel}, expected two entries")
        if data is None:
            return list(ins), list(outs)
        batch, channels, image = axes.split(data)
        self.check_groups(data, channels)
        deformed, taps = self.num_deformable_group, size_of(kernel)
        if deformed < 1 or channels % deformed:
            raise ShapeMismatch(f"num_deformable_group is {deformed}, which does not divide the "
                                f"{channels} channels of data {data}")
        size = sliding_size(image, span_of(kernel, dilate), stride, pad)
        out = unify((batch, self.num_filter, *size), outs[0], "computed and wanted output")
        expected = {"data": data, "offset": (batch, 2 * deformed * taps, *size),
                    "mask": (batch, deformed * taps, *size),
                    "weight": (self.num_filter, channels // self.num_group, *kernel),
                    "bias": (self.num_filter,)}
        return [expect(name, shape, expected[name], data)
                for name, shape in zip(self.list_inputs(), ins, strict=True)], [out]

    def im2col(self, data: Tensor) -> DeformableIm2col:
        """For data (N, C, H, W), an array or a Spec."""
        kernel, stride, pad, dilate = self.params
        _, channels, *image = data.shape
        out = sliding_size(image, span_of(kernel, dilate), stride, pad)
        window = Window.over(image, out, kernel, stride, pad, dilate)
        return DeformableIm2col(Geometry(window, 1, channels, self.num_filter, self.num_group),
                                self.num_deformable_group, self.clamped, data.dtype)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self.im2col(ins[0]).workspace()

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self.im2col(ins[1]).backward_workspace()

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        x, offset, mask, w, bias = named(self.list_inputs(), ins)
        im2col, (y,) = self.im2col(x), outs
        runs: list[Run] = [partial(np.copyto, y, 0 if bias is None else bias[:, None, None])]
        for n, image in enumerate(flat(x)):
            points = im2col.points(offset[n], None if mask is None else mask[n])
            runs += im2col.forward(image, points, w.reshape(len(w), -1), flat(y)[n],
                                   call.scratch)
        return all_of(runs)

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        gy, (x, offset, mask, w, _) = ins[0], named(self.needs[1:], ins[1:])
        gx, goffset, gmask, gw, gbias = named(self.list_inputs(), outs)
        im2col, none = self.im2col(x), np.empty(0, x.dtype)
        runs: list[Run] = [partial(array.fill, 0) for array in (gx, call.scratch[4])
                           if array is not None]
        for n, image in enumerate(flat(x)):
            points = im2col.points(offset[n], None if mask is None else mask[n])
            gpoints = [none.reshape(*like.shape[:-1], 0) if g is None else g[n].reshape(like.shape)
                       for g, like in zip((goffset, gmask), points[:2], strict=True)]
            runs += im2col.backward(
                (flat(gy)[n], image, points, w.reshape(len(w), -1)),
                (None if gx is None else flat(gx)[n], *gpoints, gw is not None), call.scratch)
        if gw is not None:
            runs.append(partial(np.copyto, im2col.split(gw), call.scratch[4].transpose(0, 2, 1)))
        if gbias is not None:
            runs.append(bias_gradient(gy, gbias))
        return all_of(runs)


@dataclass(frozen=True, kw_only=True)
class DeformableConvolution(DeformableOp, name="_contrib_DeformableConvolution"):
    """Convolution of 2-D images whose taps move by `offset`.

        y[n, f, o] = bias[f] + sum over c, k of w[f, c, k] x[n, c](o stride - pad + k dilate + d)

    with d = (offset[n, j, o], offset[n, j + 1, o]) along y and x, j = 2 ((c D // C) taps + k), and
    x[...](p) interpolated between the four pixels around p.  data (N, C, H, W), weight
    (F, C / G, *kernel), bias (F,), offset (N, 2 D taps, H', W') -> (N, F, H', W'), where
    D = `num_deformable_group` and G = `num_group`.  A sample at a point outside of [0, H) x [0, W)
    is 0; the last row and column are replicated.  `workspace` is accepted and has no effect.
    """

    kernel: Shape
    stride: Shape = ()
    dilate: Shape = ()
    pad: Shape = ()
    num_filter: int
    num_group: int = 1
    num_deformable_group: int = 1
    workspace: int = 1024
    no_bias: bool = False
    layout: LayoutName | None = None


@dataclass(frozen=True, kw_only=True)
class ModulatedDeformableConvolution(DeformableOp,
                                     name="_contrib_ModulatedDeformableConvolution"):
    """DeformableConvolution whose samples are multiplied by `mask`, (N, D taps, H', W').

    Beyond the border samples decrease to 0 within a pixel; in DeformableConvolution they are 0.
    `im2col_step` is accepted and has no effect; MXNet requires the batch to be a multiple of it.
    (MXNet has no gradient on the CPU.)
    """

    kernel: Shape
    stride: Shape = ()
    dilate: Shape = ()
    pad: Shape = ()
    num_filter: int
    num_group: int = 1
    num_deformable_group: int = 1
    workspace: int = 1024
    no_bias: bool = False
    im2col_step: int = 64
    layout: LayoutName | None = None

    inputs: ClassVar = ("data", "offset", "mask", "weight", "bias")
    needs: ClassVar = ("ograd", "data", "offset", "mask", "weight")
    clamped: ClassVar = False


def named(names: Sequence[str], tensors: Sequence[Any]) -> tuple[Any, ...]:
    """data, offset, mask, weight and bias; None for missing ones."""
    by_name = dict(zip(names, tensors, strict=True))
    return tuple(by_name.get(name) for name in ("data", "offset", "mask", "weight", "bias"))
