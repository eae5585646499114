"""Optimizers for large batches: rates that are chosen for each layer, and warm-up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base import CONFIG
from ..ndarray import NDArray, array, multi_lars, multi_sum_sq
from ..ops.op import Op
from ..ops.update import SGDMomUpdate, SGDUpdate
from ..ops.update_lamb import LambUpdate, MPLambUpdate
from .base import RuleOptimizer, Turn, register, state_like, states_like, step
from .sgd import Momentum

__all__ = ["LAMB", "LARS", "LBSGD"]


@register
class LARS(Momentum):
    """Layer-wise adaptive rate scaling, You et al. (2017): SGD whose rate is, for every weight, a
    share `eta` of the ratio of its length to its gradient's.

    Parameters whose names end in gamma, beta or bias have the plain rate, and only names that end
    in `_weight` decay.  With `momentum_correction` the momentum is scaled where the rate changes,
    for all parameters of that step.
    """

    _rated = -1
    """The step whose rate is `cur_lr`."""

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, eta: float = 0.001,
                 eps: float = 0, momentum_correction: bool = True, **kwargs: Any):
        super().__init__(momentum, **kwargs)
        self.momentum_correction = momentum_correction
        self.lazy_update = lazy_update
        self.aggregate_num = CONFIG.aggregation_size(4)
        self.eta = eta
        self.eps = eps
        self.skip = 0
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Multipliers of weight decay by name or index, over those of the symbol."""
        undecayed = {name: 0.0 for name in self.idx2name.values() if not name.endswith("_weight")}
        self.wd_mult = {**undecayed, **self._symbol_multipliers("__wd_mult__"), **args_wd_mult}

    def _rates(self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray]
               ) -> tuple[Sequence[float], Sequence[float]]:
        self._note_rate()
        lrs, wds = self._get_lrs(indices), self._get_wds(indices)
        chosen = [i for i, index in enumerate(indices) if self._adapts(index)]
        if not chosen:
            return lrs, wds
        lengths = [multi_sum_sq(*(arrays[i] for i in chosen), num_arrays=len(chosen))
                   for arrays in (weights, grads)]
        given = [array([rates[i] for i in chosen], ctx=weights[0].context) for rates in (lrs, wds)]
        found = multi_lars(given[0], *lengths, given[1], eta=self.eta, eps=self.eps,
                           rescale_grad=self.rescale_grad).asnumpy()
        adapted = dict(zip(chosen, found.tolist(), strict=True))
        return [adapted.get(i, lr) for i, lr in enumerate(lrs)], wds

    def _adapts(self, index: Any) -> bool:
        name = self.idx2name.get(index, str(index))
        return not name.endswith(("gamma", "beta", "bias"))

    def _note_rate(self) -> None:
        """Remember the global rate of this step and of the one before."""
        if self._rated != self.num_update:
            rate = self.learning_rate
            self.last_lr = rate if self.cur_lr is None else self.cur_lr
            self.cur_lr, self._rated = rate, self.num_update

    def _momentum(self) -> float:
        if not self.momentum_correction or not self.last_lr or self.cur_lr is None:
            return self.momentum
        return self.momentum * (self.cur_lr / self.last_lr)


@register
class LBSGD(RuleOptimizer):
    """SGD for large batches: gradients of `batch_scale` updates are averaged before a step, whose
    rate is multiplied by a warm-up.

    `warmup_strategy` 'linear', 'power2' or 'sqrt' lets the multiplier grow from 1 to `batch_scale`
    in `warmup_epochs` epochs of `updates_per_epoch` updates; with 'lars' it is the root of the
    ratio of the weight's square to the gradient's (kept within 0.01 and 100); with any other there
    is none.  State: the momentum.
    """

    def __init__(self, momentum: float = 0.0, multi_precision: bool = False,
                 warmup_strategy: str = "linear", warmup_epochs: int = 5, batch_scale: float = 1,
                 updates_per_epoch: int = 32, begin_epoch: int = 0, num_epochs: int = 60,
                 **kwargs: Any):
        super().__init__(multi_precision=multi_precision, **kwargs)
        self.momentum = momentum
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.lbmult = 1
        self.cumgrads: dict[Any, dict[str, Any]] = {}
        self.adaptive = warmup_strategy == "lars"
        self.admult = 1

    def create_state(self, index: Any, weight: NDArray) -> NDArray | None:
        return state_like(weight) if self.momentum else None

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        # The rate is that of the counts before this update, as in MXNet.
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        saved = self.cumgrads.setdefault(index, {"cum_grad": 0, "num_cums": self.init_updates})
        total = grad + saved["cum_grad"] if saved["num_cums"] > self.init_updates else grad.copy()
        saved.update(cum_grad=total, num_cums=saved["num_cums"] + 1)
        if saved["num_cums"] % self.batch_scale == 0:
            mean: Any = total / self.batch_scale
            lr *= self._warm_up(saved["num_cums"], weight, mean, wd)
            turn = Turn(index, lr, wd, self._index_update_count[index], state, False)
            step(self.rule(turn), weight, mean, *([] if state is None else [state]))
            saved["cum_grad"] = 0

    def rule(self, turn: Turn) -> Op:
        if turn.state is None:
            return SGDUpdate(**self._common(turn))
        return SGDMomUpdate(momentum=self.momentum, **self._common(turn))

    def _warm_up(self, updates: int, weight: NDArray, grad: NDArray, wd: float) -> float:
        """What the rate is multiplied by."""
        if self.warmup_strategy == "lars":
            return self._ratio(weight, grad, wd)
        last = self.warmup_epochs * self.updates_per_epoch
        if updates >= last:
            return float(self.batch_scale)
        powers = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}
        if last <= 1 or self.warmup_strategy not in powers:
            return 1.0
        return 1 + (self.batch_scale - 1) * (updates / last) ** powers[self.warmup_strategy]

    def _ratio(self, weight: NDArray, grad: NDArray, wd: float) -> float:
        weight2, grad2 = (float(multi_sum_sq(x, num_arrays=1).asscalar()) for x in (weight, grad))
        return min(max(math.sqrt(weight2 / (grad2 + wd * weight2 + 1e-18)), 0.01), 100.0)


@register
class LAMB(RuleOptimizer):
    """Adam whose step has, for every weight, a length in proportion to the weight's.

    The weight's length counts within `lower_bound` and `upper_bound`, where these are given.
    State: (mean, variance); under `multi_precision` (master weight, (mean, variance)).
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, lower_bound: float | None = None,
                 upper_bound: float | None = None, bias_correction: bool = True, **kwargs: Any):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction
        self.aggregate_num = max(1, min(45, CONFIG.aggregation_size(45)))

    def create_state(self, index: Any, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 2)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        first = weight[0] if isinstance(weight, (list, tuple)) else weight
        if not (self.multi_precision and first.dtype == np.float16):
            self.update(index, weight, grad, state)
        else:
            states = state if isinstance(index, (list, tuple)) else [state]
            turned = [(*inner, master) for master, inner in states]
            self._step_all(index, weight, grad,
                           turned if isinstance(index, (list, tuple)) else turned[0], master=True)

    def rule(self, turn: Turn) -> Op:
        kind = MPLambUpdate if turn.master else LambUpdate
        return kind(t=turn.t, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                    bias_correction=self.bias_correction, lower_bound=self.lower_bound or -1.0,
                    upper_bound=self.upper_bound or -1.0, **self._common(turn))
