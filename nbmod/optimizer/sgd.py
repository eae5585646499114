"""Gradient descent: plain, with momentum of several kinds, with noise, by signs only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import CONFIG
from ..ndarray import NDArray, random
from ..ops.op import Op
from ..ops.update import (
    DCASGDMomUpdate,
    DCASGDUpdate,
    MPNAGMomUpdate,
    MPSGDMomUpdate,
    MPSGDUpdate,
    NAGMomUpdate,
    SGDMomUpdate,
    SGDUpdate,
    SGLDUpdate,
    SignSGDUpdate,
    SignumUpdate,
)
from .base import RuleOptimizer, Turn, register, state_like

__all__ = ["SGD", "ccSGD", "NAG", "Signum", "SGLD", "DCASGD", "Momentum"]


class Momentum(RuleOptimizer):
    """What SGD and its like share: their states and how the op is chosen.

    State: the momentum (None without); for a float16 weight under `multi_precision` the pair
    (momentum, master weight), in this order unlike other optimizers.
    """

    _with_momentum: tuple[type[Op], type[Op]] = (SGDMomUpdate, MPSGDMomUpdate)

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

    def _master(self, state: Any) -> NDArray | None:
        ours = type(self).create_state_multi_precision is Momentum.create_state_multi_precision
        return state[1] if ours else super()._master(state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        first = weight[0] if isinstance(weight, (list, tuple)) else weight
        master = self.multi_precision and first.dtype == np.float16
        self._step_all(index, weight, grad, state, master)

    def rule(self, turn: Turn) -> Op:
        momentum = turn.state[0] if turn.master else turn.state
        if momentum is None:
            return (SGDUpdate, MPSGDUpdate)[turn.master](**self._common(turn))
        kind: Any = self._with_momentum[turn.master]
        return kind(momentum=self._momentum(), **self._common(turn))

    def _momentum(self) -> float:
        return self.momentum


@register
class SGD(Momentum):
    """Stochastic gradient descent with momentum and weight decay.

    `lazy_update` concerns row-sparse gradients only.  The updater hands it `aggregate_num`
    parameters at a time (MXNET_OPTIMIZER_AGGREGATION_SIZE, 4).
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any):
        super().__init__(momentum, **kwargs)
        self.lazy_update = lazy_update
        self.aggregate_num = CONFIG.aggregation_size(4)

    def _rates(self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray]
               ) -> tuple[Sequence[float], Sequence[float]]:
        return self._get_lrs(indices), self._get_wds(indices)


@register
class ccSGD(SGD):  # noqa: N801 - the name scripts use
    """SGD, under the name of its former C++ version."""


@register
class NAG(Momentum):
    """Nesterov's accelerated gradient; without momentum plain SGD."""

    _with_momentum = (NAGMomUpdate, MPNAGMomUpdate)


@register
class Signum(RuleOptimizer):
    """Steps of equal size in the direction of the momentum's sign, or the gradient's without.

    `wd_lh` is weight decay apart from the gradient; it counts with momentum only.  State: the
    momentum.
    """

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0,
                 **kwargs: Any):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def create_state(self, index: Any, weight: NDArray) -> NDArray | None:
        return state_like(weight) if self.momentum else None

    def rule(self, turn: Turn) -> Op:
        if turn.state is None:
            return SignSGDUpdate(**self._common(turn))
        return SignumUpdate(momentum=self.momentum, wd_lh=self.wd_lh, **self._common(turn))


@register
class SGLD(RuleOptimizer):
    """Stochastic gradient Langevin dynamics: half a gradient step, and noise of variance lr."""

    clips_to_zero = True

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        noise = random.normal(0, 1, weight.shape, dtype=weight.dtype, ctx=weight.context)
        super().update(index, weight, grad, noise)

    def rule(self, turn: Turn) -> Op:
        return SGLDUpdate(**self._common(turn))


@register
class DCASGD(RuleOptimizer):
    """Asynchronous SGD whose late gradients are corrected for the way the weight has gone.

    State: (momentum or None, the weight before the last step).
    """

    clips_to_zero = True

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any):
        super().__init__(**kwargs)
        self.momentum = momentum
        self.weight_previous: dict[Any, NDArray] = {}
        self.lamda = lamda

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray | None, NDArray]:
        return state_like(weight) if self.momentum else None, weight.copy()

    def rule(self, turn: Turn) -> Op:
        if turn.state[0] is None:
            return DCASGDUpdate(lamda=self.lamda, **self._common(turn))
        return DCASGDMomUpdate(lamda=self.lamda, momentum=self.momentum, **self._common(turn))
