"""A convolution by tiles, in all directions: `winograd` for the sums and the data's gradient,
`weighing` for the weight's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..op import Spec
from .blocked_convolution import FLOAT, Kernels
from .winograd import Tiling
from .winograd_weight_grad import Weighing

__all__ = ["Tiled"]


@dataclass(frozen=True)
class Tiled(Kernels):
    """A convolution whose sums and gradients are computed by tiles of `out` x `out` pixels;
    `fresh`: filters change with every run."""

    out: int = 4
    fresh: bool = False

    @cached_property
    def tiling(self) -> Tiling:
        return Tiling(self.x, self.y, self.slide.pad, self.batch, self.out, self.fresh)

    @cached_property
    def tiling_back(self) -> Tiling:
        top, left = self.slide.pad
        return Tiling(self.y, self.x, (2 - top, 2 - left), self.batch, self.out, True, True)

    @property
    def filters(self) -> Spec:
        return self._kept(self.tiling, self.packed)

    @property
    def filters_back(self) -> Spec:
        return self._kept(self.tiling_back, self.packed_back)

    def _kept(self, tiling: Tiling, packed: Spec) -> Spec:
        """Room for transformed filters, or for those that workers transform themselves."""
        alone = tiling.apart or not tiling.fresh
        return Spec((tiling.filters,), FLOAT) if alone else packed

    def room(self, back: bool) -> Spec:
        """Also that to pack filters in."""
        tiling, packed = ((self.tiling_back, self.packed_back) if back else
                          (self.tiling, self.packed))
        return Spec((max(tiling.room, packed.size),), FLOAT)

    def pack(self, w: Any, filters: Any, room: Any = None) -> None:
        if self.filters == self.packed:
            super().pack(w, filters)
        else:
            super().pack(w, packed := room[:self.packed.size])
            self.tiling.transform(packed, filters)

    def pack_back(self, w: Any, filters: Any, room: Any = None) -> None:
        if self.filters_back == self.packed_back:
            super().pack_back(w, filters)
        else:
            super().pack_back(w, packed := room[:self.packed_back.size])
            self.tiling_back.transform(packed, filters)

    def sums(self, x: Any, filters: Any, bias: Any, r: Any, y: Any, flags: int, room: Any
             ) -> Callable[[], None]:
        return self.tiling.compute(x, filters, bias, r, y, flags, room)

    def sums_back(self, g: Any, filters: Any, bias: Any, gx: Any, flags: int, room: Any
                  ) -> Callable[[], None]:
        return self.tiling_back.compute(g, filters, bias, gx, gx, flags, room)

    @cached_property
    def weighing(self) -> Weighing:
        return Weighing(self.tiling)

    @property
    def weight_room(self) -> Spec:
        return Spec((self.weighing.room,), FLOAT)

    def weight_sums(self, x: Any, g: Any, packed: Any, room: Any) -> Callable[[], None]:
        return self.weighing.compute(x, g, packed, room)
