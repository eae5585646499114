"""Convolution in the blocked layout, and its gradients.

`Kernels` holds the tables of one convolution.  The operator on (N, C, H, W), with reorders, and the
blocked operator share them: both compute the same sums in the same order, bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from ..nn.sliding_window import Geometry
from ..op import Run, Spec, all_of
from ..simd.conv_strip import ADD, BIAS
from .address_tables import (
    Sliding,
    data_pack,
    data_strips,
    forward_pack,
    forward_strips,
    neighbours,
    weight_outers,
)
from .conv_driver import BLOCK, pack, run_outer_products, run_strips, stream_flag, unpack
from .layout import LANES, BlockedLayout, zero_halo

__all__ = ["Kernels", "is_planar", "sliding_of"]

FLOAT = np.dtype(np.float32)
NO_WORKSPACE = np.empty(0, FLOAT)
FLAT = LANES // 2
"""Images with fewer channels stay planar, such as RGB images."""


def sliding_of(geo: Geometry) -> Sliding:
    """The last two axes of a geometry."""
    win = geo.window
    kernel, stride, pad, dilate = ((axes[1], axes[2]) for axes in (
        win.kernel, win.stride, win.pad, win.dilate))
    return Sliding(kernel, stride, pad, dilate, geo.groups)


LONGEST_STRIDE = 64
"""There are tables for each remainder of rows and of columns by the stride."""


def is_planar(geo: Geometry) -> bool:
    """Whether the host has vectors, and images have at most two axes and strides of usual size."""
    win = geo.window
    first = win.axes[0]
    return bool(LANES > 1 and first.is_spanned and first.kernel == 1 and geo.images
                and min(win.out) > 0 and max(win.stride) <= LONGEST_STRIDE)


@dataclass(frozen=True)
class Kernels:
    """One convolution from images of layout `x` to layout `y`, `batch` of them."""

    slide: Sliding
    x: BlockedLayout
    y: BlockedLayout
    batch: int

    kind: ClassVar[int] = BLOCK
    """Kind of the taps (see `conv_driver`)."""
    depth: ClassVar[int] = 0
    """Channels of the filters of a tap; 0: those of a block."""
    zeros: ClassVar[int] = 2 * LANES * LANES
    """Zeros at the end of `packed_data`."""

    @property
    def strip_kind(self) -> int:
        """Kind of the taps of the forward pass."""
        return neighbours(self.slide, self.x) if self.x.lanes == 1 else self.kind

    @property
    def strip_slide(self) -> Sliding:
        """The geometry of the strips."""
        return self.slide

    @property
    def back(self) -> Kernels:
        """These kernels with the halo of the output's gradient that the data gradient reads."""
        halo = self.slide.data_halo((self.x.height, self.x.width), (self.y.height, self.y.width))
        return replace(self, y=replace(self.y, halo=max(halo, self.y.halo)))

    @cached_property
    def packing(self) -> Any:
        return forward_pack(self.slide, self.y.channels, self.x.channels, self.x.lanes)

    @cached_property
    def data_packing(self) -> Any:
        return data_pack(self.slide, self.y.channels, self.x.channels)

    @property
    def packed(self) -> Spec:
        """Filters packed for the forward pass."""
        return Spec((self.packing.size,), FLOAT)

    @property
    def packed_data(self) -> Spec:
        """Filters packed for the data gradient."""
        return Spec((self.data_packing.size,), FLOAT)

    @property
    def summed(self) -> Spec:
        """The packed weight gradient."""
        return self.packed

    @property
    def filters(self) -> Spec:
        """The filters that the forward pass reads."""
        return self.packed

    @property
    def data_filters(self) -> Spec:
        """The filters that the data gradient reads."""
        return self.packed_data

    def workspace(self, back: bool) -> Spec:
        """Workspace of the forward pass or of the data gradient."""
        return Spec((0,), FLOAT)

    @property
    def weight_workspace(self) -> Spec:
        """Workspace of the weight gradient."""
        return Spec((0,), FLOAT)

    def pack(self, w: np.ndarray, filters: np.ndarray, workspace: np.ndarray = NO_WORKSPACE
             ) -> None:
        """Pack a weight for the forward pass."""
        pack(self.packing, w, filters)

    def pack_data(self, w: np.ndarray, filters: np.ndarray, workspace: np.ndarray = NO_WORKSPACE
                  ) -> None:
        """Pack a weight for the data gradient."""
        filters[-self.zeros:] = 0
        pack(self.data_packing, w, filters)

    def forward(self, x: np.ndarray, filters: np.ndarray, bias: np.ndarray | None, y: np.ndarray,
                add: np.ndarray | None = None, limits: int = 0, workspace: np.ndarray = NO_WORKSPACE
                ) -> Run:
        """A function that computes y from x, plus bias (padded to vectors) and `add`, if any, with
        the flags `limits`."""
        flags = BIAS * (bias is not None) + ADD * (add is not None) + limits
        bias, add = (filters if bias is None else bias), (y if add is None else add)
        return all_of([self.sums(x, filters, bias, add, y, flags, workspace),
                       partial(zero_halo, y, self.y.halo)])

    def data(self, g: np.ndarray, w: np.ndarray, filters: np.ndarray, gx: np.ndarray,
             bias: np.ndarray | None = None, adds: bool = False,
             workspace: np.ndarray = NO_WORKSPACE) -> Run:
        """A function that packs w and computes gx (+)= data gradient."""
        flags = BIAS * (bias is not None) + ADD * adds
        bias = filters if bias is None else bias
        return all_of([partial(self.pack_data, w, filters, workspace),
                       self.data_sums(g, filters, bias, gx, flags, workspace),
                       *[partial(zero_halo, gx, self.x.halo)] * (not adds)])

    def sums(self, x: np.ndarray, filters: np.ndarray, bias: np.ndarray, r: np.ndarray,
             y: np.ndarray, flags: int, workspace: np.ndarray) -> Run:
        """A function that computes y within its halo."""
        flags |= stream_flag(r, y, flags)
        task = forward_strips(self.strip_slide, self.x, self.y, self.batch, self.depth)
        return partial(run_strips, task, x, filters, bias, r, y, self.strip_kind, flags)

    def data_sums(self, g: np.ndarray, filters: np.ndarray, bias: np.ndarray, gx: np.ndarray,
                  flags: int, workspace: np.ndarray) -> Run:
        """A function that computes gx within its halo."""
        task = data_strips(self.strip_slide, self.y, self.x, self.batch, self.depth or LANES)
        if flags & ADD and not flags & BIAS:  # pixels that no filter reads are not changed
            seen = task.spans[:, 1] < self.packed_data.size - self.zeros
            task = task._replace(spans=task.spans[seen]) if seen.any() else task
        flags |= stream_flag(gx, gx, flags)
        return partial(run_strips, task, g, filters, bias, gx, gx, self.kind, flags)

    def weight(self, x: np.ndarray, g: np.ndarray, packed: np.ndarray, gw: np.ndarray,
               adds: bool = False, workspace: np.ndarray = NO_WORKSPACE) -> Run:
        """A function that computes gw (+)= weight gradient, by way of `packed`, which is
        `summed`."""
        return all_of([self.weight_sums(x, g, packed, workspace),
                       partial(unpack, self.packing, packed, gw, adds)])

    def weight_sums(self, x: np.ndarray, g: np.ndarray, packed: np.ndarray,
                    workspace: np.ndarray) -> Run:
        """A function that computes the packed weight gradient."""
        task = weight_outers(self.slide, self.x, self.y, self.batch)
        return partial(run_outer_products, task, x, g, packed)
