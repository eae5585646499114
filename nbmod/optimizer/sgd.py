"""Gradient descent: plain, with momentum, and with Nesterov's momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ndarray import NDArray
from ..ops.op import Op
from ..ops.update import (
    MPNAGMomUpdate,
    MPSGDMomUpdate,
    MPSGDUpdate,
    NAGMomUpdate,
    SGDMomUpdate,
    SGDUpdate,
)
from .base import Optimizer, register, state_like, step

__all__ = ["SGD", "ccSGD", "NAG"]


_Pair = tuple[Callable[..., Op], Callable[..., Op]]
_PLAIN: _Pair = (SGDUpdate, MPSGDUpdate)


class _Momentum(Optimizer):
    """What SGD and NAG share: their states and how the op is chosen.

    State: the momentum (None without); for a float16 weight under `multi_precision` the pair
    (momentum, master weight), in this order unlike other optimizers.
    """

    _with_momentum: _Pair

    def __init__(self, momentum: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.momentum = momentum

    def create_state(self, index: Any, weight: NDArray) -> NDArray | None:
        return state_like(weight) if self.momentum else None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        if not self._keeps_master(weight):
            return self.create_state(index, weight)
        master = weight.astype(np.float32)
        return self.create_state(index, master), master

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._step(index, weight, grad, state, None)

    def update_multi_precision(self, index: Any, weight: NDArray, grad: NDArray, state: Any
                               ) -> None:
        if self.multi_precision and weight.dtype == np.float16:
            self._step(index, weight, grad, *state)
        else:
            self.update(index, weight, grad, state)

    def _step(self, index: Any, weight: NDArray, grad: NDArray, momentum: NDArray | None,
              master: NDArray | None) -> None:
        self._update_count(index)
        params: dict[str, Any] = {"lr": self._get_lr(index), "wd": self._get_wd(index),
                                  "rescale_grad": self.rescale_grad,
                                  "clip_gradient": self.clip_gradient or -1.0}
        ops = _PLAIN
        if momentum is not None:
            ops = self._with_momentum
            params["momentum"] = self.momentum
        op = ops[master is not None](**params)
        step(op, weight, grad, *(state for state in (momentum, master) if state is not None))


@register
class SGD(_Momentum):
    """Stochastic gradient descent with momentum and weight decay.

    `lazy_update` concerns row-sparse gradients only.
    """

    _with_momentum = (SGDMomUpdate, MPSGDMomUpdate)

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any):
        super().__init__(momentum, **kwargs)
        self.lazy_update = lazy_update


@register
class ccSGD(SGD):  # noqa: N801 - the name scripts use
    """SGD, under the name of its former C++ version."""


@register
class NAG(_Momentum):
    """Nesterov's accelerated gradient; without momentum plain SGD."""

    _with_momentum = (NAGMomUpdate, MPNAGMomUpdate)
