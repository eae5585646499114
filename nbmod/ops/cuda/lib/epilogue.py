"""The epilogue of a GEMM or convolution: what is applied to its sums while they are in registers.

Bias, addition of a tensor, ReLU and an upper bound then cost no extra pass over memory.  The term
is that of CUTLASS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..runtime.device_memory import Array
from ..runtime.launch import device_function

__all__ = ["NO_EPILOGUE", "Epilogue", "EpilogueOp"]


class EpilogueOp(NamedTuple):
    """Constants of kernels with an epilogue: sum + bias + addend, then max(0, .) with `relu`, then
    min(., upper)."""

    biased: bool = False
    added: bool = False
    relu: bool = False
    upper: float = np.inf

    def function(self, real: type[np.number]) -> Callable:
        """epilogue(total, bias, channel, addend, at) -> what is stored at `at`."""
        biased, added, relu, upper = self
        zero, bounded = real(0), upper < np.inf
        bound = np.dtype(real).type(upper) if bounded else zero  # integers have no infinity

        @device_function
        def epilogue(total, bias, channel, addend, at):
            if biased:
                total += real(bias[channel])
            if added:
                total += real(addend[at])
            if relu and total <= zero:
                total = zero
            if bounded and total > bound:
                total = bound
            return total
        return epilogue


class Epilogue(NamedTuple):
    """The operands and bounds of an epilogue; operands are None where there are none."""

    bias: Array | None = None
    addend: Array | None = None
    relu: bool = False
    upper: float = np.inf

    @property
    def op(self) -> EpilogueOp:
        return EpilogueOp(self.bias is not None, self.addend is not None, self.relu, self.upper)

    def arrays(self, target: Array) -> tuple[Array, Array]:
        """Bias and addend as kernel arguments; `target` is passed, unread, for a missing one."""
        return (target if self.bias is None else self.bias,
                target if self.addend is None else self.addend)


NO_EPILOGUE = Epilogue()
