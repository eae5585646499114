"""Optimizers for large batches: learning rates that depend on the layer, and warm-up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..base import Forwarded, checks_numbers
from ..core.config import CONFIG
from ..ndarray import NDArray, array, multi_lars, multi_sum_sq
from ..ops.op import Op
from ..ops.optimizer.lamb_update import LambUpdate, MPLambUpdate
from ..ops.optimizer.sgd_update import SGDMomUpdate, SGDUpdate
from .base_optimizer import Multipliers, RuleOptimizer, register
from .sgd import Momentum
from .update_step import Index, OneOrMany, State, StepInfo, state_like, step

__all__ = ["LAMB", "LARS", "LBSGD"]


@register
class LARS(Momentum):
    """Layer-wise adaptive rate scaling: SGD with a learning rate for every parameter.

    Parameters
    ----------
    momentum : float, default 0.0
        Decay of the velocity; 0 means no velocity and no state.
    lazy_update : bool, default True
        Accepted for compatibility; it has no effect.
    eta : float, default 0.001
        The trust coefficient: which fraction of the weight's norm a step may have.
    eps : float, default 0
        Added to the denominator of the trust ratio.
    momentum_correction : bool, default True
        Whether to multiply the momentum by (rate of this step) / (rate of the last step).
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.

    Notes
    -----
    With the L2 norms |w| and |g| of a parameter's weight and gradient, its learning rate is ::

        lr * eta * |w| / (rescale_grad * |g| + wd * |w| + eps)

    or lr itself where either norm is 0.  Then the step is that of `SGD`.  Parameters whose names
    end in gamma, beta or bias have the rate lr, and only those whose names end in `_weight` have
    weight decay, unless `set_wd_mult` says otherwise.

    References
    ----------
    You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017.

    Examples
    --------
    >>> optimizer = mx.optimizer.LARS(learning_rate=1.0, eta=0.5, param_idx2name={0: "fc_weight"})
    >>> weight, grad = mx.nd.array([3.0, 4.0]), mx.nd.array([0.0, 10.0])
    >>> optimizer.update(0, weight, grad, None)
    >>> [round(x, 4) for x in weight.asnumpy().tolist()]
    [3.0, 1.5]
    """

    is_separable = False

    _rated = -1
    """The step whose rate is `cur_lr`."""

    @checks_numbers
    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, eta: float = 0.001,
                 eps: float = 0, momentum_correction: bool = True, **kwargs: Forwarded):
        super().__init__(momentum, **kwargs)
        self.momentum_correction, self.lazy_update = momentum_correction, lazy_update
        self.aggregate_num = CONFIG.aggregation_size(4)
        self.eta, self.eps = eta, eps
        self.skip = 0
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def set_wd_mult(self, args_wd_mult: Multipliers) -> None:
        """Set multipliers of weight decay; 0 by default for names that do not end in `_weight`."""
        undecayed = {name: 0.0 for name in self.idx2name.values() if not name.endswith("_weight")}
        self.wd_mult = {**undecayed, **self._symbol_multipliers("__wd_mult__"), **args_wd_mult}

    def _rates(self, indices: Sequence[Index], weights: Sequence[NDArray], grads: Sequence[NDArray]
               ) -> tuple[Sequence[float], Sequence[float]]:
        self._note_rate()
        lrs, wds = self._get_lrs(indices), self._get_wds(indices)
        chosen = [i for i, index in enumerate(indices) if not
                  self.idx2name.get(index, str(index))  # type: ignore[arg-type]  # str: none
                  .endswith(("gamma", "beta", "bias"))]
        if not chosen:
            return lrs, wds
        squares, grad_squares = (multi_sum_sq(*(arrays[i] for i in chosen), num_arrays=len(chosen))
                                 for arrays in (weights, grads))
        rate, decay = (array([values[i] for i in chosen], ctx=weights[0].context)
                       for values in (lrs, wds))
        new_lrs = multi_lars(rate, squares, grad_squares, decay, eta=self.eta, eps=self.eps,
                             rescale_grad=self.rescale_grad).asnumpy()
        adapted = dict(zip(chosen, new_lrs.tolist(), strict=True))
        return [adapted.get(i, lr) for i, lr in enumerate(lrs)], wds

    def _note_rate(self) -> None:
        """Record the global rate of this step and of the one before."""
        if self._rated != self.num_update:
            rate = self.learning_rate
            self.last_lr = rate if self.cur_lr is None else self.cur_lr
            self.cur_lr, self._rated = rate, self.num_update

    def _momentum(self) -> float:
        if not self.momentum_correction or not self.last_lr or self.cur_lr is None:
            return super()._momentum()
        return super()._momentum() * (self.cur_lr / self.last_lr)


@register
class LBSGD(RuleOptimizer):
    """SGD for large batches: averages gradients of several updates, and warms up the learning rate.

    Parameters
    ----------
    momentum : float, default 0.0
        Decay of the velocity; 0 means no velocity and no state.
    multi_precision : bool, default False
        Whether to keep float32 master copies of float16 weights.
    warmup_strategy : str, default 'linear'
        'linear', 'power2' or 'sqrt': see Notes.  'lars': the rate is multiplied by a trust ratio of
        the parameter instead.  With any other string the rate is multiplied by 1 during the
        warm-up.
    warmup_epochs : int, default 5
        Epochs of the warm-up.
    batch_scale : int, default 1
        Number of updates whose gradients are averaged for a step; the target of the warm-up.
    updates_per_epoch : int, default 32
        Number of updates in an epoch.
    begin_epoch : int, default 0
        The epoch from which the updates are counted, when training resumes.
    num_epochs : int, default 60
        Accepted for compatibility; it has no effect.
    **kwargs
        Further arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `param_idx2name`, `param_dict`, `sym` and
        `begin_num_update`.

    Notes
    -----
    A step is that of `SGD` with the averaged gradient and the learning rate lr * m.  In update
    number n, with N = warmup_epochs * updates_per_epoch ::

        m = 1 + (batch_scale - 1) * (n / N)^p  for n < N, else batch_scale

    where p is 1 for 'linear', 2 for 'power2' and 0.5 for 'sqrt'.  For 'lars' ::

        m = sqrt(|w|^2 / (|g|^2 + wd * |w|^2)), limited to the range from 0.01 to 100

    The state is the velocity, of the weight's shape, or None.

    References
    ----------
    Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017.
    You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017.

    Examples
    --------
    >>> optimizer = mx.optimizer.LBSGD(learning_rate=1.0, batch_scale=2, warmup_epochs=0)
    >>> weight = mx.nd.zeros(1)
    >>> for grad in (1.0, 3.0):
    ...     optimizer.update(0, weight, mx.nd.array([grad]), None)
    ...     print(weight.asscalar().item())
    0.0
    -4.0
    """

    is_separable = False

    @checks_numbers
    def __init__(self, momentum: float = 0.0, multi_precision: bool = False,
                 warmup_strategy: str = "linear", warmup_epochs: int = 5, batch_scale: float = 1,
                 updates_per_epoch: int = 32, begin_epoch: int = 0, num_epochs: int = 60,
                 **kwargs: Forwarded):
        super().__init__(multi_precision=multi_precision, **kwargs)
        self.momentum, self.warmup_strategy = momentum, warmup_strategy
        self.warmup_epochs, self.batch_scale = warmup_epochs, batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.lbmult = 1
        self.cumgrads: dict[Index, dict[str, State]] = {}
        self.adaptive = warmup_strategy == "lars"
        self.admult = 1

    def create_state(self, index: Index, weight: NDArray) -> NDArray | None:
        return state_like(weight) if self.momentum else None

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Add a gradient, and step `weight` in place after every `batch_scale` of them."""
        # The rate is that of the counts before this update, as in MXNet.
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        saved = self.cumgrads.setdefault(index, {"cum_grad": 0, "num_cums": self.init_updates})
        total = grad + saved["cum_grad"] if saved["num_cums"] > self.init_updates else grad.copy()
        saved.update(cum_grad=total, num_cums=saved["num_cums"] + 1)
        if saved["num_cums"] % self.batch_scale == 0:
            mean = total / self.batch_scale
            lr *= self._warm_up(saved["num_cums"], weight, mean, wd)
            info = StepInfo(index, lr, wd, self._index_update_count[index], state, False)
            step(self.rule(info), weight, mean, *([] if state is None else [state]))
            saved["cum_grad"] = 0

    def rule(self, info: StepInfo) -> Op:
        if info.state is None:
            return SGDUpdate(**self._common(info))
        return SGDMomUpdate(momentum=max(self.momentum, 0.0), **self._common(info))

    def _warm_up(self, updates: int, weight: NDArray, grad: NDArray, wd: float) -> float:
        """The factor of the rate."""
        if self.warmup_strategy == "lars":
            weight2, grad2 = (float(multi_sum_sq(x, num_arrays=1).asscalar())
                              for x in (weight, grad))
            return min(max(math.sqrt(weight2 / (grad2 + wd * weight2 + 1e-18)), 0.01), 100.0)
        last = self.warmup_epochs * self.updates_per_epoch
        if updates >= last:
            return float(self.batch_scale)
        powers = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}
        if last <= 1 or self.warmup_strategy not in powers:
            return 1.0
        return 1 + (self.batch_scale - 1) * (updates / last) ** powers[self.warmup_strategy]


@register
class LAMB(RuleOptimizer):
    """Adam with a step that is scaled, for every parameter, to the norm of its weight.

    Parameters
    ----------
    learning_rate : float, default 0.001
        Global learning rate.
    beta1, beta2 : float, default 0.9 and 0.999
        Decay of the running mean of the gradient, and of its square.
    epsilon : float, default 1e-6
        Added to the denominator.
    lower_bound, upper_bound : float, optional
        Limits of the weight's norm in the trust ratio; None or 0 for no limit.
    bias_correction : bool, default True
        Whether running means are divided by 1 - beta^t.
    **kwargs
        Further arguments of `Optimizer`.

    Notes
    -----
    With x = clip(rescale_grad * g, -clip_gradient, clip_gradient), in the parameter's update number
    t ::

        mean = beta1 * mean + (1 - beta1) * x
        var = beta2 * var + (1 - beta2) * x^2
        step = mean / (1 - beta1^t) / (sqrt(var / (1 - beta2^t)) + epsilon) + wd * w
        w = w - lr * r1 / r2 * step

    where r1 is the L2 norm of w, limited to the range from lower_bound to upper_bound, r2 is the
    norm of step, and r1 / r2 is 1 where either is 0.  The state is (mean, var), both of the
    weight's shape; with `multi_precision`, for a float16 weight, it is (master weight, (mean,
    var)).  `clip_gradient=0` does not clip.

    References
    ----------
    You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020.

    Examples
    --------
    >>> optimizer = mx.optimizer.LAMB(learning_rate=0.1)
    >>> weight, grad = mx.nd.array([10.0]), mx.nd.array([2.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> round(weight.asscalar().item(), 4)
    9.0
    """

    is_separable = False

    num_states = 2

    @checks_numbers
    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, lower_bound: float | None = None,
                 upper_bound: float | None = None, bias_correction: bool = True,
                 **kwargs: Forwarded):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        self.bias_correction = bias_correction
        self.aggregate_num = max(1, min(45, CONFIG.aggregation_size(45)))

    def _keeps_stype(self) -> bool:
        return True

    def update_multi_precision(self, index: OneOrMany, weight: OneOrMany, grad: OneOrMany,
                               state: OneOrMany) -> None:
        """Step one parameter, or each of a list, on the master copy where there is one."""
        first = weight[0] if isinstance(weight, (list, tuple)) else weight
        if not (self.multi_precision and first.dtype == np.float16):
            self.update(index, weight, grad, state)
        else:
            states = state if isinstance(index, (list, tuple)) else [state]
            master_last = [(*inner, master) for master, inner in states]
            self._step_all(index, weight, grad,
                           master_last if isinstance(index, (list, tuple)) else master_last[0],
                           master=True)

    def rule(self, info: StepInfo) -> Op:
        kind = MPLambUpdate if info.master else LambUpdate
        return kind(t=info.t, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                    bias_correction=self.bias_correction, lower_bound=self.lower_bound or -1.0,
                    upper_bound=self.upper_bound or -1.0, **self._common(info))
