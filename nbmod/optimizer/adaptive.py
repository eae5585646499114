"""Optimizers that scale each coordinate by the gradients it has seen."""

from __future__ import annotations

import math
from typing import Any

from ..ndarray import NDArray
from ..ops.update import AdaGradUpdate, AdamUpdate, RMSPropAlexUpdate, RMSPropUpdate
from .base import Optimizer, register, state_like, step

__all__ = ["Adam", "AdaGrad", "RMSProp"]


@register
class Adam(Optimizer):
    """Adam; the bias correction is in the learning rate.  State: (mean, variance).

    `lazy_update` concerns row-sparse gradients only.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, lazy_update: bool = True, **kwargs: Any):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, NDArray]:
        return state_like(weight), state_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_count(index)
        count = self._index_update_count[index]
        correction = math.sqrt(1 - self.beta2 ** count) / (1 - self.beta1 ** count)
        op = AdamUpdate(self._get_lr(index) * correction, self.beta1, self.beta2, self.epsilon,
                        self._get_wd(index), self.rescale_grad, self.clip_gradient or -1.0)
        step(op, weight, grad, *state)


@register
class AdaGrad(Optimizer):
    """AdaGrad with the denominator sqrt(history + eps).  State: the sum of squares."""

    def __init__(self, eps: float = 1e-7, **kwargs: Any):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        return state_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_count(index)
        clip = -1.0 if self.clip_gradient is None else self.clip_gradient
        op = AdaGradUpdate(self._get_lr(index), self.float_stable_eps, self._get_wd(index),
                           self.rescale_grad, clip)
        step(op, weight, grad, state)


@register
class RMSProp(Optimizer):
    """RMSProp; `centered` subtracts the squared mean gradient and uses `gamma2` as momentum.

    State: (mean square,), or (mean square, mean, delta) when centred.
    """

    def __init__(self, learning_rate: float = 0.001, gamma1: float = 0.9, gamma2: float = 0.9,
                 epsilon: float = 1e-8, centered: bool = False, clip_weights: float | None = None,
                 **kwargs: Any):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.epsilon = epsilon
        self.centered = centered
        self.clip_weights = clip_weights

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return tuple(state_like(weight) for _ in range(3 if self.centered else 1))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_count(index)
        params: dict[str, Any] = {
            "lr": self._get_lr(index), "gamma1": self.gamma1, "epsilon": self.epsilon,
            "wd": self._get_wd(index), "rescale_grad": self.rescale_grad,
            "clip_gradient": self.clip_gradient or -1.0, "clip_weights": self.clip_weights or -1.0,
        }
        op = (RMSPropAlexUpdate(gamma2=self.gamma2, **params) if self.centered
              else RMSPropUpdate(**params))
        step(op, weight, grad, *state)
