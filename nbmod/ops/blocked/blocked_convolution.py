"""Convolution on the blocked form, and its gradients.

`Kernels` holds the tables of one convolution: what the op on (N, C, H, W), which reorders around
it, and the blocked op, which does not, have in common.  Both compute the same sums in the same
order: their results agree bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from ..nn.sliding_window import Geometry
from ..op import Spec
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
from .conv_driver import BLOCK, pack, run_outer, run_strips, streamed, unpack
from .layout import LANES, Form, clear_halo

__all__ = ["Kernels", "is_planar", "sliding_of"]

FLOAT = np.dtype(np.float32)
FLAT = LANES // 2
"""Up to fewer channels than this, images stay flat: a picture has three."""


def sliding_of(geo: Geometry) -> Sliding:
    """The last two axes of a geometry."""
    win = geo.window
    kernel, stride, pad, dilate = ((axes[1], axes[2]) for axes in (
        win.kernel, win.stride, win.pad, win.dilate))
    return Sliding(kernel, stride, pad, dilate, geo.groups)


def is_planar(geo: Geometry) -> bool:
    """Whether there are vectors, and images with two axes at most."""
    win = geo.window
    return bool(LANES > 1 and win.image[0] == win.kernel[0] == 1 and geo.images
                and min(win.out) > 0)


@dataclass(frozen=True)
class Kernels:
    """One convolution from images of form `x` to form `y`, `batch` of them."""

    slide: Sliding
    x: Form
    y: Form
    batch: int

    kind: ClassVar[int] = BLOCK
    """Of taps (see `strips`)."""
    zeros: ClassVar[int] = 2 * LANES * LANES
    """Zeros at the end of `packed_back`."""

    @property
    def strip_kind(self) -> int:
        """Of the taps of forward."""
        return neighbours(self.slide, self.x) if self.x.lanes == 1 else self.kind

    @property
    def back(self) -> Kernels:
        """The same with the halo that the data's gradient reads of the output's."""
        halo = self.slide.data_halo((self.x.height, self.x.width), (self.y.height, self.y.width))
        return replace(self, y=replace(self.y, halo=max(halo, self.y.halo)))

    @cached_property
    def packing(self) -> Any:
        return forward_pack(self.slide, self.y.channels, self.x.channels, self.x.lanes)

    @cached_property
    def packing_back(self) -> Any:
        return data_pack(self.slide, self.y.channels, self.x.channels)

    @property
    def packed(self) -> Spec:
        """Room for filters in the order of forward."""
        return Spec((self.packing.size,), FLOAT)

    @property
    def packed_back(self) -> Spec:
        """Room for filters in the order of the data's gradient."""
        return Spec((self.packing_back.size,), FLOAT)

    @property
    def summed(self) -> Spec:
        """Room for the weight's gradient."""
        return self.packed

    def forward_task(self) -> StripTask:
        return forward_strips(self.slide, self.x, self.y, self.batch)

    def data_task(self) -> StripTask:
        return data_strips(self.slide, self.y, self.x, self.batch)

    @property
    def filters(self) -> Spec:
        """Room for what forward reads as filters."""
        return self.packed

    @property
    def filters_back(self) -> Spec:
        """Room for what the data's gradient reads as filters."""
        return self.packed_back

    def room(self, back: bool) -> Spec:
        """Room to work in, of forward or of the data's gradient."""
        return Spec((0,), FLOAT)

    @property
    def weight_room(self) -> Spec:
        """Room to work in, of the weight's gradient."""
        return Spec((0,), FLOAT)

    def pack(self, w: Any, filters: Any, room: Any = None) -> None:
        """Bring a weight into the order of forward."""
        pack(self.packing, w, filters)

    def pack_back(self, w: Any, filters: Any, room: Any = None) -> None:
        """Bring a weight into the order of the data's gradient."""
        filters[-self.zeros:] = 0
        pack(self.packing_back, w, filters)

    def forward(self, x: Any, filters: Any, bias: Any, y: Any, add: Any = None,
                limits: int = 0, room: Any = None) -> Callable[[], None]:
        """y from x: plus bias (padded to vectors) and `add`, if any, then the flags `limits`."""
        flags = BIAS * (bias is not None) + ADD * (add is not None) + limits
        bias, add = (filters if bias is None else bias), (y if add is None else add)
        compute = self.sums(x, filters, bias, add, y, flags, room)

        def run() -> None:
            compute()
            clear_halo(y, self.y.halo)

        return run

    def data(self, g: Any, w: Any, filters: Any, gx: Any, bias: Any = None, adds: bool = False,
             room: Any = None) -> Callable[[], None]:
        """gx (+)= gradient of the data; w is packed first."""
        flags = BIAS * (bias is not None) + ADD * adds
        bias = filters if bias is None else bias
        compute = self.sums_back(g, filters, bias, gx, flags, room)

        def run() -> None:
            self.pack_back(w, filters, room)
            compute()
            if not adds:
                clear_halo(gx, self.x.halo)

        return run

    def sums(self, x: Any, filters: Any, bias: Any, r: Any, y: Any, flags: int, room: Any
             ) -> Callable[[], None]:
        """What computes y within its halo."""
        flags |= streamed(r, y, flags)
        return partial(run_strips, self.forward_task(), x, filters, bias, r, y, self.strip_kind,
                       flags)

    def sums_back(self, g: Any, filters: Any, bias: Any, gx: Any, flags: int, room: Any
                  ) -> Callable[[], None]:
        """What computes gx within its halo."""
        task = self.data_task()
        if flags & ADD and not flags & BIAS:  # pixels that no filter has seen stay as they are
            seen = task.blocks[:, 1] < self.packed_back.size - self.zeros
            task = task._replace(blocks=task.blocks[seen]) if seen.any() else task
        flags |= streamed(gx, gx, flags)
        return partial(run_strips, task, g, filters, bias, gx, gx, self.kind, flags)

    def weight(self, x: Any, g: Any, packed: Any, gw: Any, adds: bool = False, room: Any = None
               ) -> Callable[[], None]:
        """gw (+)= gradient of the weight, by way of `packed`, which is `summed`."""
        compute, plan = self.weight_sums(x, g, packed, room), self.packing

        def run() -> None:
            compute()
            unpack(plan, packed, gw, adds)

        return run

    def weight_sums(self, x: Any, g: Any, packed: Any, room: Any) -> Callable[[], None]:
        """What computes the gradient of the packed weight."""
        task = weight_outers(self.slide, self.x, self.y, self.batch)
        return partial(run_outer, task, x, g, packed)
