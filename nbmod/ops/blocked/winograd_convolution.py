"""A convolution by Winograd's algorithm: `winograd` for the forward pass and the data gradient,
`winograd_weight_grad` for the weight gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..op import Run, Spec
from .blocked_convolution import FLOAT, NO_WORKSPACE, Kernels
from .winograd import WinogradTiling
from .winograd_weight_grad import WinogradWeightGrad

__all__ = ["WinogradConvolution"]


@dataclass(frozen=True)
class WinogradConvolution(Kernels):
    """A convolution by F(out x out, 3 x 3); `fresh`: filters change with every run."""

    out: int = 4
    fresh: bool = False

    @cached_property
    def tiling(self) -> WinogradTiling:
        return WinogradTiling(self.x, self.y, self.slide.pad, self.batch, self.out, self.fresh)

    @cached_property
    def data_tiling(self) -> WinogradTiling:
        top, left = self.slide.pad
        return WinogradTiling(self.y, self.x, (2 - top, 2 - left), self.batch, self.out, True, True)

    @property
    def filters(self) -> Spec:
        return self._filter_spec(self.tiling, self.packed)

    @property
    def data_filters(self) -> Spec:
        return self._filter_spec(self.data_tiling, self.packed_data)

    def _filter_spec(self, tiling: WinogradTiling, packed: Spec) -> Spec:
        """Transformed filters, or packed ones where workers transform them."""
        alone = tiling.splits_tiles or not tiling.fresh
        return Spec((tiling.filters,), FLOAT) if alone else packed

    def workspace(self, back: bool) -> Spec:
        """Also holds packed filters."""
        tiling, packed = ((self.data_tiling, self.packed_data) if back else
                          (self.tiling, self.packed))
        return Spec((max(tiling.workspace, packed.size),), FLOAT)

    def pack(self, w: np.ndarray, filters: np.ndarray, workspace: np.ndarray = NO_WORKSPACE
             ) -> None:
        if self.filters == self.packed:
            super().pack(w, filters)
        else:
            super().pack(w, packed := workspace[:self.packed.size])
            self.tiling.transform(packed, filters)

    def pack_data(self, w: np.ndarray, filters: np.ndarray, workspace: np.ndarray = NO_WORKSPACE
                  ) -> None:
        if self.data_filters == self.packed_data:
            super().pack_data(w, filters)
        else:
            super().pack_data(w, packed := workspace[:self.packed_data.size])
            self.data_tiling.transform(packed, filters)

    def sums(self, x: np.ndarray, filters: np.ndarray, bias: np.ndarray, r: np.ndarray,
             y: np.ndarray, flags: int, workspace: np.ndarray) -> Run:
        return self.tiling.compute(x, filters, bias, r, y, flags, workspace)

    def data_sums(self, g: np.ndarray, filters: np.ndarray, bias: np.ndarray, gx: np.ndarray,
                  flags: int, workspace: np.ndarray) -> Run:
        return self.data_tiling.compute(g, filters, bias, gx, gx, flags, workspace)

    @cached_property
    def weight_grad(self) -> WinogradWeightGrad:
        return WinogradWeightGrad(self.tiling)

    @property
    def weight_workspace(self) -> Spec:
        return Spec((self.weight_grad.workspace,), FLOAT)

    def weight_sums(self, x: np.ndarray, g: np.ndarray, packed: np.ndarray,
                    workspace: np.ndarray) -> Run:
        return self.weight_grad.compute(x, g, packed, workspace)
