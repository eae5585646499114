"""Gradient descent: plain, with momentum, with noise, and by the signs of gradients only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from ..base import Forwarded, checks_numbers
from ..core.config import CONFIG
from ..ndarray import NDArray, random
from ..ops.op import Op
from ..ops.optimizer.sgd_update import (
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
from .base_optimizer import RuleOptimizer, register
from .update_step import Index, OneOrMany, State, StepInfo, state_like

__all__ = ["SGD", "ccSGD", "NAG", "Signum", "SGLD", "DCASGD", "Momentum"]


class Momentum(RuleOptimizer):
    """Base of SGD, NAG and LARS: their states, and the choice of the update operator.

    Parameters
    ----------
    momentum : float, default 0.0
        Decay of the velocity; 0 means no velocity and no state. A negative one counts as 0.
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.

    Notes
    -----
    The state is the velocity, of the weight's shape (None without momentum).  For a float16 weight
    with `multi_precision` it is the pair (velocity, master weight), in this order, unlike that of
    other optimizers.
    """

    # Ops with the field `momentum`, of which type checkers know nothing.
    _with_momentum: tuple[Callable[..., Op], ...] = (  # type: ignore[explicit-any]
        SGDMomUpdate, MPSGDMomUpdate)
    _skips_velocity: ClassVar[bool] = True
    """Whether a step without momentum leaves a velocity that it is given as it is."""

    @checks_numbers
    def __init__(self, momentum: float = 0.0, **kwargs: Forwarded):
        super().__init__(**kwargs)
        self.momentum = momentum

    def create_state(self, index: Index, weight: NDArray) -> NDArray | None:
        return state_like(weight, self._keeps_stype()) if self.momentum else None

    def create_state_multi_precision(self, index: Index, weight: NDArray) -> State:
        if not self._keeps_master(weight):
            return self.create_state(index, weight)
        master = weight.astype(np.float32)
        return self.create_state(index, master), master

    def _master(self, state: State) -> NDArray | None:
        ours = type(self).create_state_multi_precision is Momentum.create_state_multi_precision
        return state[1] if ours else super()._master(state)

    def update_multi_precision(self, index: OneOrMany, weight: OneOrMany, grad: OneOrMany,
                               state: OneOrMany) -> None:
        """Step one parameter, or each of a list, on the master copy where there is one."""
        first = weight[0] if isinstance(weight, (list, tuple)) else weight
        master = self.multi_precision and first.dtype == np.float16
        self._step_all(index, weight, grad, state, master)

    def rule(self, info: StepInfo) -> Op:
        velocity = info.state[0] if info.master else info.state
        if velocity is None or (self._skips_velocity and self.momentum <= 0):
            return (SGDUpdate, MPSGDUpdate)[info.master](**self._common(info))
        kind = self._with_momentum[info.master]
        return kind(momentum=self._momentum(), **self._common(info))

    def _momentum(self) -> float:
        return max(self.momentum, 0.0)


@register
class SGD(Momentum):
    """Stochastic gradient descent with momentum and weight decay.

    Parameters
    ----------
    momentum : float, default 0.0
        Decay of the velocity; 0 means plain gradient descent and no state.
    lazy_update : bool, default True
        Whether a row-sparse gradient updates only the rows that it has.
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.

    Notes
    -----
    With gradient g, weight w and x = clip(rescale_grad * g, -clip_gradient, clip_gradient), an
    update without momentum is ::

        w = w - lr * (x + wd * w)

    and with momentum ::

        mom = momentum * mom - lr * (x + wd * w)
        w = w + mom

    lr and wd are the rate and the weight decay of the parameter, that is, multiplied by its
    `lr_mult` and `wd_mult`.  Weight decay is added after clipping.  `clip_gradient=0` does not
    clip.

    An `Updater` passes `aggregate_num` parameters at a time, which is 4 unless the environment
    variable `MXNET_OPTIMIZER_AGGREGATION_SIZE` says otherwise.

    References
    ----------
    Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.

    Examples
    --------
    >>> optimizer = mx.optimizer.SGD(momentum=0.5, learning_rate=0.1)
    >>> weight, grad = mx.nd.array([1.0, 2.0]), mx.nd.array([1.0, -1.0])
    >>> state = optimizer.create_state(0, weight)
    >>> optimizer.update(0, weight, grad, state)
    >>> [round(x, 4) for x in weight.asnumpy().tolist()]
    [0.9, 2.1]
    >>> optimizer.update(0, weight, grad, state)
    >>> [round(x, 4) for x in weight.asnumpy().tolist()]
    [0.75, 2.25]
    """

    @checks_numbers
    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Forwarded):
        super().__init__(momentum, **kwargs)
        self.lazy_update = lazy_update
        self.aggregate_num = CONFIG.aggregation_size(4)

    def _keeps_stype(self) -> bool:
        return self.lazy_update

    def _common(self, info: StepInfo) -> dict[str, Forwarded]:
        return {**super()._common(info), "lazy_update": self.lazy_update}

    def _rates(self, indices: Sequence[Index], weights: Sequence[NDArray], grads: Sequence[NDArray]
               ) -> tuple[Sequence[float], Sequence[float]]:
        return self._get_lrs(indices), self._get_wds(indices)


@register
class ccSGD(SGD):  # noqa: N801 - the name scripts use
    """`SGD`, under the name of its former C++ version.

    Parameters
    ----------
    momentum, lazy_update, **kwargs
        As for `SGD`.
    """


@register
class NAG(Momentum):
    """Nesterov's accelerated gradient.

    Parameters
    ----------
    momentum : float, default 0.0
        Decay of the velocity; 0 means plain SGD and no state.
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.

    Notes
    -----
    With gradient g, weight w and x = clip(rescale_grad * g, -clip_gradient, clip_gradient) ::

        y = lr * (x + wd * w)
        w = w + momentum * (momentum * mom - y) - y
        mom = momentum * mom - lr * (x + wd * w)

    where the last line has the new w.  The state is mom, of the weight's shape.  `clip_gradient=0`
    does not clip.

    References
    ----------
    Nesterov, "A method of solving a convex programming problem with convergence rate O(1/k^2)",
    1983.  Sutskever et al., "On the importance of initialization and momentum in deep learning",
    2013.

    Examples
    --------
    >>> optimizer = mx.optimizer.NAG(momentum=0.5, learning_rate=0.1)
    >>> weight, grad = mx.nd.array([1.0]), mx.nd.array([1.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> round(weight.asscalar().item(), 4)
    0.85
    """

    _with_momentum = (NAGMomUpdate, MPNAGMomUpdate)
    _skips_velocity = False


@register
class Signum(RuleOptimizer):
    """Steps of equal size in the direction of the sign of the momentum, or of the gradient.

    Parameters
    ----------
    learning_rate : float, default 0.01
        The size of every step.
    momentum : float, default 0.9
        Decay of the running mean of gradients; 0 means to take the sign of the gradient (SignSGD).
    wd_lh : float, default 0.0
        Weight decay that is applied to the weight and not to the gradient, after Loshchilov and
        Hutter.  It has an effect with momentum only.
    **kwargs
        Further arguments of `Optimizer`.

    Notes
    -----
    With momentum and x = clip(rescale_grad * g, -clip_gradient, clip_gradient) ::

        mom = momentum * mom - (1 - momentum) * (x + wd * w)
        w = (1 - lr * wd_lh) * w + lr * sign(mom)

    and without, where `rescale_grad` and `clip_gradient` do not matter ::

        w = (1 - lr * wd) * w - lr * sign(g)

    The state is mom, of the weight's shape, or None.  `clip_gradient=0` does not clip.

    References
    ----------
    Bernstein et al., "signSGD: Compressed optimisation for non-convex problems", 2018.

    Examples
    --------
    >>> optimizer = mx.optimizer.Signum(learning_rate=0.25)
    >>> weight, grad = mx.nd.array([1.0, 1.0, 1.0]), mx.nd.array([30.0, -0.1, 0.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> weight.asnumpy().tolist()
    [0.75, 1.25, 1.0]
    """

    @checks_numbers
    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0,
                 **kwargs: Forwarded):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum, self.wd_lh = momentum, wd_lh

    def create_state(self, index: Index, weight: NDArray) -> NDArray | None:
        return state_like(weight, sparse=True) if self.momentum else None

    def rule(self, info: StepInfo) -> Op:
        if info.state is None:
            return SignSGDUpdate(**self._common(info))
        return SignumUpdate(momentum=max(self.momentum, 0.0), wd_lh=self.wd_lh,
                            **self._common(info))


@register
class SGLD(RuleOptimizer):
    """Stochastic gradient Langevin dynamics: half a gradient step and Gaussian noise.

    Parameters
    ----------
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.

    Notes
    -----
    With x = clip(rescale_grad * g, -clip_gradient, clip_gradient) ::

        w = w - lr / 2 * (x + wd * w) + sqrt(lr) * noise

    where the elements of noise are drawn from the standard normal distribution; `mx.random.seed`
    makes them repeatable.  There is no state.  `clip_gradient=0` sets gradients to 0.

    References
    ----------
    Welling and Teh, "Bayesian learning via stochastic gradient Langevin dynamics", 2011.

    Examples
    --------
    >>> mx.random.seed(1)
    >>> optimizer = mx.optimizer.SGLD(learning_rate=0.01)
    >>> weight = mx.nd.zeros(1000)
    >>> optimizer.update(0, weight, mx.nd.zeros(1000), None)
    >>> 0.09 < float(weight.asnumpy().std()) < 0.11
    True
    """

    is_separable = False

    clips_to_zero = True

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        noise = random.normal(0, 1, weight.shape, dtype=weight.dtype, ctx=weight.context)
        super().update(index, weight, grad, noise)

    def rule(self, info: StepInfo) -> Op:
        return SGLDUpdate(**self._common(info))


@register
class DCASGD(RuleOptimizer):
    """Asynchronous SGD with delay compensation: a first-order correction of late gradients.

    Parameters
    ----------
    momentum : float, default 0.0
        Decay of the velocity; 0 means none.
    lamda : float, default 0.04
        Weight of the correction.
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.

    Notes
    -----
    With x = clip(rescale_grad * g, -clip_gradient, clip_gradient) and the weight w' before the last
    step ::

        mom = momentum * mom - lr * (x + wd * w + lamda * x^2 * (w - w'))
        w' = w
        w = w + mom

    The state is (mom, w'), both of the weight's shape, with None for mom without momentum.
    `clip_gradient=0` sets gradients to 0.

    References
    ----------
    Zheng et al., "Asynchronous stochastic gradient descent with delay compensation", 2017.

    Examples
    --------
    >>> optimizer = mx.optimizer.DCASGD(learning_rate=0.5, lamda=1.0)
    >>> weight, grad = mx.nd.array([2.0]), mx.nd.array([1.0])
    >>> state = optimizer.create_state(0, weight)
    >>> optimizer.update(0, weight, grad, state)
    >>> weight.asscalar().item()
    1.5
    >>> optimizer.update(0, weight, grad, state)
    >>> weight.asscalar().item()
    1.25
    """

    clips_to_zero = True

    @checks_numbers
    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Forwarded):
        super().__init__(**kwargs)
        self.momentum = momentum
        self.weight_previous: dict[Index, NDArray] = {}
        self.lamda = lamda

    def create_state(self, index: Index, weight: NDArray) -> tuple[NDArray | None, NDArray]:
        return state_like(weight) if self.momentum else None, weight.copy()

    def rule(self, info: StepInfo) -> Op:
        if info.state[0] is None:
            return DCASGDUpdate(lamda=self.lamda, **self._common(info))
        return DCASGDMomUpdate(lamda=self.lamda, momentum=self.momentum, **self._common(info))
