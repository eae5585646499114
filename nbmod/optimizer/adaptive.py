"""Optimizers that scale each coordinate by the gradients it has seen."""

from __future__ import annotations

import math
from typing import Any

from ..ndarray import NDArray
from ..ops.op import Op
from ..ops.update_adaptive import (
    AdaDeltaUpdate,
    AdaGradUpdate,
    AdamaxUpdate,
    AdamUpdate,
    FTMLUpdate,
    FtrlUpdate,
    NadamUpdate,
    RMSPropAlexUpdate,
    RMSPropUpdate,
)
from .base import RuleOptimizer, Turn, register, state_like, states_like

__all__ = ["AdaDelta", "AdaGrad", "Adam", "Adamax", "FTML", "Ftrl", "Nadam", "RMSProp"]


@register
class Adam(RuleOptimizer):
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

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 2)

    def rule(self, turn: Turn) -> Op:
        correction = math.sqrt(1 - self.beta2 ** turn.t) / (1 - self.beta1 ** turn.t)
        params = {**self._common(turn), "lr": turn.lr * correction}
        return AdamUpdate(beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, **params)


@register
class AdaGrad(RuleOptimizer):
    """AdaGrad with the denominator sqrt(history + eps).  State: the sum of squares."""

    clips_to_zero = True

    def __init__(self, eps: float = 1e-7, **kwargs: Any):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        return state_like(weight)

    def rule(self, turn: Turn) -> Op:
        return AdaGradUpdate(epsilon=self.float_stable_eps, **self._common(turn))


@register
class AdaDelta(RuleOptimizer):
    """AdaDelta, which needs no learning rate (one that is given has no effect).

    State: (mean square of gradients, mean square of steps).
    """

    clips_to_zero = True

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Any):
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 2)

    def rule(self, turn: Turn) -> Op:
        params = self._common(turn)
        del params["lr"]
        return AdaDeltaUpdate(self.rho, self.epsilon, **params)


@register
class RMSProp(RuleOptimizer):
    """RMSProp; `centered` subtracts the squared mean gradient and uses `gamma2` as momentum.

    State: (mean square,), or (mean square, mean, delta) when centred.
    """

    def __init__(self, learning_rate: float = 0.001, gamma1: float = 0.9, gamma2: float = 0.9,
                 epsilon: float = 1e-8, centered: bool = False, clip_weights: float | None = None,
                 **kwargs: Any):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.centered = centered
        self.epsilon = epsilon
        self.clip_weights = clip_weights

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 3 if self.centered else 1)

    def rule(self, turn: Turn) -> Op:
        params = {**self._common(turn), "gamma1": self.gamma1, "epsilon": self.epsilon,
                  "clip_weights": self.clip_weights or -1.0}
        if self.centered:
            return RMSPropAlexUpdate(gamma2=self.gamma2, **params)
        return RMSPropUpdate(**params)


@register
class Ftrl(RuleOptimizer):
    """Follow the regularized leader, for sparse weights: `lamda1` is the weight of the L1 norm.

    Beside a scheduler `learning_rate` has no effect, as in MXNet; other optimizers give it to the
    scheduler.  State: (z, n), sums of corrected gradients and of their squares.
    """

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1,
                 **kwargs: Any):
        super().__init__(**kwargs)
        self.lr = learning_rate
        self.lamda1 = lamda1
        self.beta = beta

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 2)

    def rule(self, turn: Turn) -> Op:
        return FtrlUpdate(lamda1=self.lamda1, beta=self.beta, **self._common(turn))


@register
class FTML(RuleOptimizer):
    """Follow the moving leader.  State: (d, v, z) of its op."""

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8,
                 **kwargs: Any):
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 3)

    def rule(self, turn: Turn) -> Op:
        params = self._common(turn)
        clip = params.pop("clip_gradient")
        return FTMLUpdate(beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, t=turn.t,
                          clip_grad=clip, **params)


@register
class Adamax(RuleOptimizer):
    """Adam with the largest gradient in the place of the mean square.  State: (mean, largest)."""

    clips_to_zero = True

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999,
                 **kwargs: Any):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 2)

    def rule(self, turn: Turn) -> Op:
        params = {**self._common(turn), "lr": turn.lr / (1 - self.beta1 ** turn.t)}
        return AdamaxUpdate(beta1=self.beta1, beta2=self.beta2, **params)


@register
class Nadam(RuleOptimizer):
    """Adam with Nesterov's momentum, growing by `schedule_decay`.  State: (mean, variance).

    The product of all momenta so far, `m_schedule`, is one for all parameters, as in MXNet: it
    shrinks with every parameter, not with every step.
    """

    clips_to_zero = True
    shares_rules = False

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, schedule_decay: float = 0.004, **kwargs: Any):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 2)

    def rule(self, turn: Turn) -> Op:
        now, ahead = self._momentum(turn.t), self._momentum(turn.t + 1)
        self.m_schedule *= now
        return NadamUpdate(share=(1 - now) / (1 - self.m_schedule),
                           ahead=ahead / (1 - self.m_schedule * ahead), t=turn.t,
                           beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                           **self._common(turn))

    def _momentum(self, count: int) -> float:
        return self.beta1 * (1 - 0.5 * 0.96 ** (count * self.schedule_decay))
