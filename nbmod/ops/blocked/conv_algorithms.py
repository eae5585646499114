"""The algorithms of convolution: implementations "numba" of a `ConvolutionDirection`.

Some are imported when the first network is bound, as they query LLVM for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, Protocol

import numpy as np

from ..dispatch import NUMBA, Choice, Estimate, Implementation, Specs, declare
from ..nn import (
    conv_exchanged,
    conv_gemm,
    conv_im2col,
    conv_interleaved,
    conv_lowered,
    conv_shifted,
    conv_squeezed,
    pointwise,
)
from ..nn.convolution import ConvolutionDirection
from ..nn.sliding_window import Direction, Geometry
from ..op import Call, Run, Spec
from . import direct

__all__ = ["AlgorithmKernels"]


class AlgorithmKernels(Protocol):
    """A module with the kernels of an algorithm."""

    __name__: str

    def cost(self, geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
        """Estimated single-thread nanoseconds; infinity where the algorithm does not apply."""

    def workspace(self, geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
        """Temporary arrays."""

    def prepare(self, geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
                scratch: Sequence[Any]) -> Run:
        """See `convolution.convolve`."""


def _declare(module: AlgorithmKernels, takes: str = "",
             parts: Callable[[Geometry, Direction, np.dtype], Sequence[Choice]] | None = None
             ) -> None:
    """Add a row for an algorithm that applies to what it `takes`, and consists of `parts`."""
    def prepare(op: ConvolutionDirection, ins: Sequence[Any], outs: Sequence[Any], call: Call
                ) -> Run:
        geo, window, (x, w, y, bias) = op.geo, op.geo.window, ins
        return module.prepare(geo, op.direction, x.reshape(geo.images, geo.channels, *window.image),
                              w.reshape(geo.filters, geo.group_channels, *window.kernel),
                              y.reshape(geo.images, geo.filters, *window.out), bias, call.scratch)

    def workspace(op: ConvolutionDirection, ins: Specs, outs: Specs) -> list[Spec]:
        return module.workspace(op.geo, op.direction, op.dtype)

    def estimate(op: ConvolutionDirection, ins: Specs, outs: Specs) -> Estimate:
        where = op.geo, op.direction, op.dtype
        cost = module.cost(*where)
        if not isfinite(cost):
            return Estimate(why_not=f"takes {takes}")
        return Estimate(cost, parts=parts(*where) if parts else ())

    name = module.__name__.rpartition(".")[2]
    declare(ConvolutionDirection, Implementation(NUMBA, f"{module.__name__}.prepare", prepare,
                                                 workspace, estimate, name))


_declare(conv_gemm)
_declare(pointwise, "windows of one pixel, for gradients of the weight on images of one pixel")
_declare(direct, "float32 images of one or two axes, in groups that fill vectors of channels")
_declare(conv_shifted, f"planes that take at most {conv_shifted.MOST:,} elements together")
_declare(conv_im2col, f"matrices of columns of at most {conv_im2col.MOST:,} elements")
_declare(conv_lowered, "windows over three axes, or two with many taps in the padding, that take "
         f"at most {conv_lowered.MOST:,} elements", conv_lowered.parts)
_declare(conv_interleaved, f"outputs and gradients of data of at least {conv_interleaved.LEAST} "
         "images, small ones")
_declare(conv_exchanged, "gradients of weights of several taps without strides, with "
         f"{conv_exchanged.FEWER} times as many channels as filters", conv_exchanged.parts)
_declare(conv_squeezed, "windows that slide along fewer axes than they have", conv_squeezed.parts)
