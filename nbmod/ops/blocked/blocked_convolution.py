"""Convolution in the blocked layout, and its gradients.

`Kernels` holds the tables of one convolution, which the operator on (N, C, H, W), with reorders,
and the blocked operator share.  Both compute the same sums in the same order, bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from ..nn.sliding_window import Geometry
from ..op import Run, Spec
from ..simd.conv_strip import ADD, BIAS
from .address_tables import (
    Sliding,
    StripTask,
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
FLAT = LANES // 2
"""Images with fewer channels stay planar, such as RGB images."""


def sliding_of(geo: Geometry) -> Sliding:
    """The last two axes of a geometry."""
    win = geo.window
    kernel, stride, pad, dilate = ((axes[1], axes[2]) for axes in (
        win.kernel, win.stride, win.pad, win.dilate))
    return Sliding(kernel, stride, pad, dilate, geo.groups)


def is_planar(geo: Geometry) -> bool:
    """Whether the host has vectors, and images have at most two axes."""
    win = geo.window
    return bool(LANES > 1 and win.image[0] == win.kernel[0] == 1 and geo.images
                and min(win.out) > 0)


@dataclass(frozen=True)
class Kernels:
    """One convolution from images of layout `x` to layout `y`, `batch` of them."""

    slide: Sliding
    x: BlockedLayout
    y: BlockedLayout
    batch: int

    kind: ClassVar[int] = BLOCK
    """Kind of the taps (see `conv_driver`)."""
    zeros: ClassVar[int] = 2 * LANES * LANES
    """Zeros at the end of `packed_data`."""

    @property
    def strip_kind(self) -> int:
        """Kind of the taps of the forward pass."""
        return neighbours(self.slide, self.x) if self.x.lanes == 1 else self.kind

    @property
    def back(self) -> Kernels:
        """The same with the halo of the output's gradient that the data gradient reads."""
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

    def forward_task(self) -> StripTask:
        return forward_strips(self.slide, self.x, self.y, self.batch)

    def data_task(self) -> StripTask:
        return data_strips(self.slide, self.y, self.x, self.batch)

    @property
    def filters(self) -> Spec:
        """What the forward pass reads as filters."""
        return self.packed

    @property
    def data_filters(self) -> Spec:
        """What the data gradient reads as filters."""
        return self.packed_data

    def workspace(self, back: bool) -> Spec:
        """Workspace of the forward pass or of the data gradient."""
        return Spec((0,), FLOAT)

    @property
    def weight_workspace(self) -> Spec:
        """Workspace of the weight gradient."""
        return Spec((0,), FLOAT)

    def pack(self, w: Any, filters: Any, workspace: Any = None) -> None:
        """Pack a weight for the forward pass."""
        pack(self.packing, w, filters)

    def pack_data(self, w: Any, filters: Any, workspace: Any = None) -> None:
        """Pack a weight for the data gradient."""
        filters[-self.zeros:] = 0
        pack(self.data_packing, w, filters)

    def forward(self, x: Any, filters: Any, bias: Any, y: Any, add: Any = None,
                limits: int = 0, workspace: Any = None) -> Run:
        """A function that computes y from x, plus bias (padded to vectors) and `add`, if any, with
        the flags `limits`."""
        flags = BIAS * (bias is not None) + ADD * (add is not None) + limits
        bias, add = (filters if bias is None else bias), (y if add is None else add)
        compute = self.sums(x, filters, bias, add, y, flags, workspace)

        def run() -> None:
            compute()
            zero_halo(y, self.y.halo)

        return run

    def data(self, g: Any, w: Any, filters: Any, gx: Any, bias: Any = None, adds: bool = False,
             workspace: Any = None) -> Run:
        """A function that packs w and computes gx (+)= data gradient."""
        flags = BIAS * (bias is not None) + ADD * adds
        bias = filters if bias is None else bias
        compute = self.data_sums(g, filters, bias, gx, flags, workspace)

        def run() -> None:
            self.pack_data(w, filters, workspace)
            compute()
            if not adds:
                zero_halo(gx, self.x.halo)

        return run

    def sums(self, x: Any, filters: Any, bias: Any, r: Any, y: Any, flags: int, workspace: Any
             ) -> Run:
        """A function that computes y within its halo."""
        flags |= stream_flag(r, y, flags)
        return partial(run_strips, self.forward_task(), x, filters, bias, r, y, self.strip_kind,
                       flags)

    def data_sums(self, g: Any, filters: Any, bias: Any, gx: Any, flags: int, workspace: Any
                  ) -> Run:
        """A function that computes gx within its halo."""
        task = self.data_task()
        if flags & ADD and not flags & BIAS:  # pixels that no filter reads stay as they are
            seen = task.blocks[:, 1] < self.packed_data.size - self.zeros
            task = task._replace(blocks=task.blocks[seen]) if seen.any() else task
        flags |= stream_flag(gx, gx, flags)
        return partial(run_strips, task, g, filters, bias, gx, gx, self.kind, flags)

    def weight(self, x: Any, g: Any, packed: Any, gw: Any, adds: bool = False, workspace: Any = None
               ) -> Run:
        """A function that computes gw (+)= weight gradient, by way of `packed`, which is
        `summed`."""
        compute, plan = self.weight_sums(x, g, packed, workspace), self.packing

        def run() -> None:
            compute()
            unpack(plan, packed, gw, adds)

        return run

    def weight_sums(self, x: Any, g: Any, packed: Any, workspace: Any) -> Run:
        """A function that computes the packed weight gradient."""
        task = weight_outers(self.slide, self.x, self.y, self.batch)
        return partial(run_outer_products, task, x, g, packed)
