"""BatchNorm and relu in one op, found in graphs that MXNet fused for oneDNN."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ..op import all_of
from .batch_norm import BatchNorm

__all__ = ["BatchNormWithReLU"]


@dataclass(frozen=True)
class BatchNormWithReLU(BatchNorm, name="_contrib_BatchNormWithReLU"):
    """y = max(BatchNorm(x), 0); see BatchNorm.

    The gradient is passed on where y > 0.  (MXNet has it in float32, for images with axis 1.)
    """

    relu: ClassVar = True
    shapes: ClassVar = "data and output (N, C, ...), all others (C,)"
    needs: ClassVar = (*BatchNorm.needs, "output")

    def prepare(self, ins, outs, call):
        return all_of([super().prepare(ins, outs, call),
                       partial(np.maximum, outs[0], 0, out=outs[0])])

    def prepare_backward(self, ins, outs, call):
        ograd, *rest, y = ins
        masked = np.empty_like(ograd) if outs[0] is None else outs[0]
        backward = super().prepare_backward([masked, *rest], outs, call)

        def run() -> None:
            np.copyto(masked, ograd)
            np.copyto(masked, y, where=~(y > 0))  # 0 or NaN
            backward()

        return run
