"""Optimizers that scale the step of each coordinate by its past gradients."""

from __future__ import annotations

import math

from ..base import Forwarded, checks_numbers
from ..ndarray import NDArray
from ..ops.op import Op
from ..ops.optimizer.adaptive_update import (
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
from .base_optimizer import RuleOptimizer, register
from .update_step import Index, StepInfo, state_like, states_like

__all__ = ["AdaDelta", "AdaGrad", "Adam", "Adamax", "FTML", "Ftrl", "Nadam", "RMSProp"]


@register
class Adam(RuleOptimizer):
    """Adam: steps by running means of the gradient and of its square.

    Parameters
    ----------
    learning_rate : float, default 0.001
        Global learning rate.
    beta1, beta2 : float, default 0.9 and 0.999
        Decay of the running mean of the gradient, and of its square.
    epsilon : float, default 1e-8
        Added to the denominator.
    lazy_update : bool, default True
        Whether a row-sparse gradient updates only the rows that it has.
    **kwargs
        Further arguments of `Optimizer`.

    Notes
    -----
    With x = clip(rescale_grad * g + wd * w, -clip_gradient, clip_gradient), in the parameter's
    update number t = 1, 2, ... ::

        mean = beta1 * mean + (1 - beta1) * x
        var = beta2 * var + (1 - beta2) * x^2
        w = w - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * mean / (sqrt(var) + epsilon)

    Weight decay is part of the gradient that is clipped, bias correction part of the learning
    rate.  The state is (mean, var), of the weight's shape each.  `clip_gradient=0` does not clip.

    References
    ----------
    Kingma and Ba, "Adam: A method for stochastic optimization", 2015.

    Examples
    --------
    >>> optimizer = mx.optimizer.Adam(learning_rate=0.1)
    >>> weight, grad = mx.nd.array([1.0, 1.0]), mx.nd.array([0.5, -20.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> [round(x, 4) for x in weight.asnumpy().tolist()]
    [0.9, 1.1]
    """

    num_states = 2

    @checks_numbers
    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, lazy_update: bool = True, **kwargs: Forwarded):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.lazy_update = lazy_update

    def _keeps_stype(self) -> bool:
        return self.lazy_update

    def rule(self, info: StepInfo) -> Op:
        correction = math.sqrt(1 - self.beta2 ** info.t) / (1 - self.beta1 ** info.t)
        params = {**self._common(info), "lr": info.lr * correction}
        return AdamUpdate(beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                          lazy_update=self.lazy_update, **params)


@register
class AdaGrad(RuleOptimizer):
    """AdaGrad: divides the gradient by the root of the sum of its squares.

    Parameters
    ----------
    eps : float, default 1e-7
        Added to the sum of squares, under the root.
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.

    Notes
    -----
    With x = clip(rescale_grad * g, -clip_gradient, clip_gradient) ::

        history = history + x^2
        w = w - lr * (x / sqrt(history + eps) + wd * w)

    The state is history, of the weight's shape.  `clip_gradient=0` sets gradients to 0.

    References
    ----------
    Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic
    optimization", 2011.

    Examples
    --------
    >>> optimizer = mx.optimizer.AdaGrad(learning_rate=0.1)
    >>> weight, grad = mx.nd.array([1.0]), mx.nd.array([3.0])
    >>> state = optimizer.create_state(0, weight)
    >>> for _ in range(2):
    ...     optimizer.update(0, weight, grad, state)
    ...     print(round(weight.asscalar().item(), 4))
    0.9
    0.8293
    """

    clips_to_zero = True

    @checks_numbers
    def __init__(self, eps: float = 1e-7, **kwargs: Forwarded):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Index, weight: NDArray) -> NDArray:
        return state_like(weight, sparse=True)

    def rule(self, info: StepInfo) -> Op:
        return AdaGradUpdate(epsilon=self.float_stable_eps, **self._common(info))


@register
class AdaDelta(RuleOptimizer):
    """AdaDelta: an adaptive step that needs no learning rate.

    Parameters
    ----------
    rho : float, default 0.90
        Decay of both running means.
    epsilon : float, default 1e-5
        Added to both means under the roots.
    **kwargs
        Arguments of `Optimizer`: `wd`, `rescale_grad`, `clip_gradient`, `multi_precision`,
        `param_idx2name`, `param_dict`, `sym` and `begin_num_update`.  `learning_rate` and
        `lr_scheduler` are accepted and have no effect.

    Notes
    -----
    With x = clip(rescale_grad * g, -clip_gradient, clip_gradient) ::

        n = rho * n + (1 - rho) * x^2
        y = sqrt(delta + epsilon) / sqrt(n + epsilon) * x
        delta = rho * delta + (1 - rho) * y^2
        w = w - y - wd * w

    The state is (n, delta), both of the weight's shape.  `clip_gradient=0` sets gradients to 0.

    References
    ----------
    Zeiler, "ADADELTA: An adaptive learning rate method", 2012.

    Examples
    --------
    >>> optimizer = mx.optimizer.AdaDelta()
    >>> weight, grad = mx.nd.array([1.0]), mx.nd.array([1.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> round(weight.asscalar().item(), 4)
    0.99
    """

    clips_to_zero = True
    num_states = 2

    @checks_numbers
    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Forwarded):
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def rule(self, info: StepInfo) -> Op:
        params = self._common(info)
        del params["lr"]
        return AdaDeltaUpdate(self.rho, self.epsilon, **params)


@register
class RMSProp(RuleOptimizer):
    """RMSProp: divides the gradient by the root of a running mean of its squares.

    Parameters
    ----------
    learning_rate : float, default 0.001
        Global learning rate.
    gamma1 : float, default 0.9
        Decay of the running means of the gradient and of its square.
    gamma2 : float, default 0.9
        Momentum of the centered form; without effect otherwise.
    epsilon : float, default 1e-8
        Added under the root.
    centered : bool, default False
        Whether to subtract the square of the mean gradient from the mean square, and use momentum.
    clip_weights : float, optional
        Limit of the magnitude of weights; None or 0 for no limit.
    **kwargs
        Further arguments of `Optimizer`.

    Notes
    -----
    With x = clip(rescale_grad * g + wd * w, -clip_gradient, clip_gradient) ::

        n = gamma1 * n + (1 - gamma1) * x^2
        w = w - lr * x / sqrt(n + epsilon)

    or, with `centered` and n as before ::

        m = gamma1 * m + (1 - gamma1) * x
        delta = gamma2 * delta - lr * x / sqrt(n - m^2 + epsilon)
        w = w + delta

    The state is (n,), or (n, m, delta) with `centered`, each of the weight's shape.
    `clip_gradient=0` does not clip.

    References
    ----------
    Tieleman and Hinton, "Lecture 6.5: RMSProp", 2012.
    Graves, "Generating sequences with recurrent neural networks", 2013, for the centered form.

    Examples
    --------
    >>> optimizer = mx.optimizer.RMSProp(learning_rate=0.1, gamma1=0.75)
    >>> weight, grad = mx.nd.array([1.0]), mx.nd.array([4.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> round(weight.asscalar().item(), 4)
    0.8
    """

    @checks_numbers
    def __init__(self, learning_rate: float = 0.001, gamma1: float = 0.9, gamma2: float = 0.9,
                 epsilon: float = 1e-8, centered: bool = False, clip_weights: float | None = None,
                 **kwargs: Forwarded):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1, self.gamma2, self.centered = gamma1, gamma2, centered
        self.epsilon, self.clip_weights = epsilon, clip_weights

    def create_state(self, index: Index, weight: NDArray) -> tuple[NDArray, ...]:
        return states_like(weight, 3 if self.centered else 1, sparse=True)

    def rule(self, info: StepInfo) -> Op:
        params = {**self._common(info), "gamma1": self.gamma1, "epsilon": self.epsilon,
                  "clip_weights": self.clip_weights or -1.0}
        if self.centered:
            return RMSPropAlexUpdate(gamma2=self.gamma2, **params)
        return RMSPropUpdate(**params)


@register
class Ftrl(RuleOptimizer):
    """Follow the regularized leader: an online method with L1 regularization, for sparse weights.

    Parameters
    ----------
    lamda1 : float, default 0.01
        Weight of the L1 norm; larger values set more weights to exactly 0.
    learning_rate : float, default 0.1
        Global learning rate.  With a scheduler it has no effect, as in MXNet, while other
        optimizers pass it on to the scheduler.
    beta : float, default 1
        Added to the root of the sum of squares.
    **kwargs
        Further arguments of `Optimizer`.

    Notes
    -----
    With x = clip(rescale_grad * g, -clip_gradient, clip_gradient) ::

        z = z + x - (sqrt(n + x^2) - sqrt(n)) * w / lr
        n = n + x^2
        w = (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd)  where |z| > lamda1, else 0

    The state is (z, n), both of the weight's shape.  `clip_gradient=0` does not clip.

    References
    ----------
    McMahan et al., "Ad click prediction: a view from the trenches", 2013.

    Examples
    --------
    >>> optimizer = mx.optimizer.Ftrl(learning_rate=1.0)
    >>> weight, grad = mx.nd.zeros(2), mx.nd.array([1.0, 0.005])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> [round(x, 4) for x in weight.asnumpy().tolist()]
    [-0.495, 0.0]
    """

    num_states = 2

    @checks_numbers
    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1,
                 **kwargs: Forwarded):
        super().__init__(**kwargs)
        self.lr = learning_rate
        self.lamda1, self.beta = lamda1, beta

    def _keeps_stype(self) -> bool:
        return True

    def rule(self, info: StepInfo) -> Op:
        return FtrlUpdate(lamda1=self.lamda1, beta=self.beta, **self._common(info))


@register
class FTML(RuleOptimizer):
    """Follow the moving leader.

    Parameters
    ----------
    beta1, beta2 : float, default 0.6 and 0.999
        Decay of the running means of the gradient, and of its square.
    epsilon : float, default 1e-8
        Added to the root of the mean square.
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `wd`, `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.

    Notes
    -----
    With x = clip(rescale_grad * g + wd * w, -clip_gradient, clip_gradient), in the parameter's
    update number t ::

        v = beta2 * v + (1 - beta2) * x^2
        d' = (1 - beta1^t) / lr * (sqrt(v / (1 - beta2^t)) + epsilon)
        z = beta1 * z + (1 - beta1) * x - (d' - beta1 * d) * w
        w = -z / d'
        d = d'

    The state is (d, v, z), each of the weight's shape.  `clip_gradient=0` does not clip.

    References
    ----------
    Zheng and Kwok, "Follow the moving leader in deep learning", 2017.

    Examples
    --------
    >>> optimizer = mx.optimizer.FTML(learning_rate=0.1)
    >>> weight, grad = mx.nd.array([1.0]), mx.nd.array([2.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> round(weight.asscalar().item(), 4)
    0.9
    """

    num_states = 3

    @checks_numbers
    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8,
                 **kwargs: Forwarded):
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def rule(self, info: StepInfo) -> Op:
        params = self._common(info)
        clip = params.pop("clip_gradient")
        return FTMLUpdate(beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, t=info.t,
                          clip_grad=clip, **params)


@register
class Adamax(RuleOptimizer):
    """Adam with a decaying maximum of gradients in the place of the mean square.

    Parameters
    ----------
    learning_rate : float, default 0.002
        Global learning rate.
    beta1, beta2 : float, default 0.9 and 0.999
        Decay of the running mean of the gradient, and of the maximum of its magnitude.
    **kwargs
        Further arguments of `Optimizer`.

    Notes
    -----
    With x = clip(rescale_grad * g + wd * w, -clip_gradient, clip_gradient), in the parameter's
    update number t ::

        mean = beta1 * mean + (1 - beta1) * x
        most = max(beta2 * most, |x|)
        w = w - lr / (1 - beta1^t) * mean / most

    The state is (mean, most), both of the weight's shape.  An element whose gradients have all been
    0, so that `most` is, stays.  `clip_gradient=0` sets gradients to 0.

    References
    ----------
    Kingma and Ba, "Adam: A method for stochastic optimization", 2015, section 7.1.

    Examples
    --------
    >>> optimizer = mx.optimizer.Adamax(learning_rate=0.1)
    >>> weight, grad = mx.nd.array([1.0]), mx.nd.array([2.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> round(weight.asscalar().item(), 4)
    0.9
    """

    clips_to_zero = True
    num_states = 2

    @checks_numbers
    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999,
                 **kwargs: Forwarded):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2 = beta1, beta2

    def rule(self, info: StepInfo) -> Op:
        params = {**self._common(info), "lr": info.lr / (1 - self.beta1 ** info.t)}
        return AdamaxUpdate(beta1=self.beta1, beta2=self.beta2, **params)


@register
class Nadam(RuleOptimizer):
    """Adam with Nesterov's momentum.

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon
        As for `Adam`.
    schedule_decay : float, default 0.004
        How fast the momentum grows with t.
    **kwargs
        Further arguments of `Optimizer`.

    Notes
    -----
    With x = clip(rescale_grad * g + wd * w, -clip_gradient, clip_gradient), in the parameter's
    update number t, with mu(t) = beta1 * (1 - 0.96^(t * schedule_decay) / 2) ::

        M = M * mu(t)
        mean = beta1 * mean + (1 - beta1) * x
        var = beta2 * var + (1 - beta2) * x^2
        y = (1 - mu(t)) * x / (1 - M) + mu(t+1) * mean / (1 - M * mu(t+1))
        w = w - lr * y / (sqrt(var / (1 - beta2^t)) + epsilon)

    The state is (mean, var), both of the weight's shape.  M, the attribute `m_schedule`, is shared
    by all parameters, as in MXNet: with n parameters it is multiplied n times in a training step.
    `clip_gradient=0` sets gradients to 0.

    References
    ----------
    Dozat, "Incorporating Nesterov momentum into Adam", 2016.

    Examples
    --------
    >>> optimizer = mx.optimizer.Nadam(learning_rate=0.1)
    >>> weight, grad = mx.nd.array([1.0]), mx.nd.array([2.0])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> round(weight.asscalar().item(), 2)
    0.89
    """

    is_separable = False

    clips_to_zero = True
    shares_rules = False

    num_states = 2

    @checks_numbers
    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, schedule_decay: float = 0.004, **kwargs: Forwarded):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def rule(self, info: StepInfo) -> Op:
        now, ahead = self._momentum(info.t), self._momentum(info.t + 1)
        self.m_schedule *= now
        return NadamUpdate(share=(1 - now) / (1 - self.m_schedule),
                           ahead=ahead / (1 - self.m_schedule * ahead), t=info.t,
                           beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                           **self._common(info))

    def _momentum(self, count: int) -> float:
        return self.beta1 * (1 - 0.5 * 0.96 ** (count * self.schedule_decay))
