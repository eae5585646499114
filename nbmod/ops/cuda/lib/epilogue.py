"""How a layer ends: what is done to its sums while they are in registers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..runtime.device_memory import Array
from ..runtime.launch import device_function

__all__ = ["AS_IT_IS", "Ending", "Tail"]


class Tail(NamedTuple):
    """What kernels are made for: sums get a bias, and the numbers of another tensor; then what is
    not above 0 becomes 0, with `relu`, and what is above `most` becomes `most`."""

    biased: bool = False
    added: bool = False
    relu: bool = False
    most: float = np.inf

    def function(self, real: Any) -> Any:
        """finish(total, bias, channel, other, at) -> what is stored at `at`."""
        biased, added, relu, most = self
        zero, clipped = real(0), most < np.inf
        high = real(most) if clipped else zero  # integers have no infinity

        @device_function
        def finish(total, bias, channel, other, at):
            if biased:
                total += real(bias[channel])
            if added:
                total += real(other[at])
            if relu and total <= zero:
                total = zero
            if clipped and total > high:
                total = high
            return total
        return finish


class Ending(NamedTuple):
    """What a twin asks for: the arrays, None where there are none, and the limits of `Tail`."""

    bias: Array | None = None
    other: Array | None = None
    relu: bool = False
    most: float = np.inf

    @property
    def tail(self) -> Tail:
        return Tail(self.bias is not None, self.other is not None, self.relu, self.most)

    def arrays(self, target: Array) -> tuple[Array, Array]:
        """Bias and what is added; `target` stands for those that are not there."""
        return (target if self.bias is None else self.bias,
                target if self.other is None else self.other)


AS_IT_IS = Ending()
"""The sums are the results."""
