"""Deformable convolutions with NumPy: an im2col of sampled points, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..detection.deformable import (
    DeformableConvolution,
    DeformableOp,
    ModulatedDeformableConvolution,
    named,
)
from ..dispatch import REFERENCE, implements
from ..op import Call
from .spatial_transformer import SamplePoints, Taps, weigh

__all__: list[str] = []


class _SampledColumns(NamedTuple):
    """The samples of one image; arrays are (D, C / D, taps positions) for D groups of channels that
    share their points."""

    points: SamplePoints
    corners: list[list[Any]]
    samples: Any
    mask: Any
    """(D, 1, taps positions), or 1."""

    @classmethod
    def of(cls, op: DeformableOp, image: np.ndarray, offset: np.ndarray, mask: np.ndarray | None
          ) -> _SampledColumns:
        """Sample an image (C, H, W) at offset (2 D taps, ...), with mask (D taps, ...) or None."""
        window, groups = op.im2col(image[None]).geo.window, op.num_deformable_group
        moved = offset.reshape(groups, window.taps, 2, window.positions)
        taps = []
        for axis, of_axis in enumerate(window.axes[1:]):
            at = np.expand_dims(of_axis.pixels[0].T, (1 - axis, 3 - axis))
            whole = np.broadcast_to(at, (*window.kernel[1:], *window.out[1:]))
            places = whole.reshape(window.taps, -1).astype(image.dtype) + moved[:, :, axis]
            taps.append(Taps.at(places.reshape(groups, -1), of_axis.image, op.clamped))
        points = SamplePoints(taps[0], taps[1], window.image[2])
        corners = points.corners(image.reshape(groups, -1, window.pixels))
        samples = weigh(corners, points.y.weights, points.x.weights)
        return cls(points, corners, samples, 1 if mask is None else mask.reshape(groups, 1, -1))

    def matrices(self, groups: int, positions: int) -> Any:
        """The columns of each group of filters, (G, C / G taps, positions)."""
        return (self.samples * self.mask).reshape(groups, -1, positions)

    def place_gradients(self, g: np.ndarray) -> Any:
        """From that of the columns, (D, 2, taps positions): along y, and along x."""
        y, x = self.points.y, self.points.x
        slopes = ((y.slopes, x.weights), (y.weights, x.slopes))
        return np.stack([(g * weigh(self.corners, *each) * self.mask).sum(axis=1)
                         for each in slopes], axis=1)


def _deformable_convolution(op: DeformableOp, ins: Sequence[Any], outs: Sequence[Any], call: Call
                           ) -> None:
    x, offset, mask, w, bias = named(op.list_inputs(), ins)
    geo, y = op.im2col(x).geo, outs[0]
    filters = w.reshape(geo.groups, geo.group_filters, -1)
    for n, image in enumerate(x):
        columns = _SampledColumns.of(op, image, offset[n], None if mask is None else mask[n])
        sums = filters @ columns.matrices(geo.groups, geo.window.positions)
        y[n] = sums.reshape(y[n].shape)
    if bias is not None:
        y += bias[:, None, None]


def _deformable_convolution_gradient(op: DeformableOp, ins: Sequence[Any], outs: Sequence[Any],
                                     call: Call) -> None:
    gy, (x, offset, mask, w, _) = ins[0], named(op.needs[1:], ins[1:])
    gx, goffset, gmask, gw, gbias = named(op.list_inputs(), outs)
    geo = op.im2col(x).geo
    filters = w.reshape(geo.groups, geo.group_filters, -1)
    for array in (gx, gw):
        if array is not None:
            array.fill(0)
    for n, image in enumerate(x):
        columns = _SampledColumns.of(op, image, offset[n], None if mask is None else mask[n])
        heads = gy[n].reshape(geo.groups, geo.group_filters, -1)
        g = (filters.transpose(0, 2, 1) @ heads).reshape(columns.samples.shape)
        if gx is not None:
            columns.points.scatter(g * columns.mask, gx[n].reshape(len(g), -1, geo.window.pixels))
        if goffset is not None:
            gradient = columns.place_gradients(g).reshape(len(g), 2, geo.window.taps, -1)
            goffset[n] = gradient.swapaxes(1, 2).reshape(goffset[n].shape)
        if gmask is not None:
            gmask[n] = (g * columns.samples).sum(axis=1).reshape(gmask[n].shape)
        if gw is not None:
            right = columns.matrices(geo.groups, geo.window.positions).transpose(0, 2, 1)
            gw += (heads @ right).reshape(gw.shape)
    if gbias is not None:
        np.sum(gy, axis=(0, 2, 3), out=gbias)


implements((DeformableConvolution, ModulatedDeformableConvolution), REFERENCE,
           _deformable_convolution, _deformable_convolution_gradient)
