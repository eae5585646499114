"""Learning rates as a function of the number of updates.

A scheduler is called with the update count (1, 2, ...) and returns the rate; it is stateful, as in
MXNet: counts must not decrease, and `base_lr` is the current rate of the stepwise schedulers.  All
begin with an optional warm-up of `warmup_steps` updates from `warmup_begin_lr` to `base_lr`, linear
or constant (`warmup_mode`).

Examples
--------
>>> scheduler = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=1.0)
>>> optimizer = mx.optimizer.SGD(lr_scheduler=scheduler)
>>> weight = mx.nd.zeros(1)
>>> for _ in range(5):
...     optimizer.update(0, weight, mx.nd.ones(1), None)
>>> optimizer.learning_rate
0.25
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from .base import ArgumentError, CheckError, MXNetError, checks_numbers, integer_types

__all__ = ["LRScheduler", "FactorScheduler", "MultiFactorScheduler", "PolyScheduler",
           "CosineScheduler"]
__dir__ = __all__.copy


def _check(condition: bool, message: str, error: type[MXNetError] = ArgumentError) -> None:
    if not condition:
        raise error(message)


class LRScheduler:
    """Base class of learning rate schedulers: subclasses define `__call__(num_update)`.

    Parameters
    ----------
    base_lr : float, default 0.01
        The rate after the warm-up.
    warmup_steps : int, default 0
        Number of updates of the warm-up.
    warmup_begin_lr : float, default 0
        The rate at the beginning of the warm-up; at most `base_lr`.
    warmup_mode : {'linear', 'constant'}, default 'linear'
        Whether the rate grows linearly during the warm-up or is `warmup_begin_lr` throughout.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Notes
    -----
    The rate of update t < warmup_steps is, with 'linear' ::

        warmup_begin_lr + (base_lr - warmup_begin_lr) * t / warmup_steps

    Examples
    --------
    >>> class InverseRoot(mx.lr_scheduler.LRScheduler):
    ...     def __call__(self, num_update):
    ...         return self.base_lr / num_update ** 0.5
    >>> scheduler = InverseRoot(base_lr=1.0)
    >>> [scheduler(t) for t in (1, 4, 16)]
    [1.0, 0.5, 0.25]
    """

    @checks_numbers
    def __init__(self, base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear"):
        _check(isinstance(warmup_steps, integer_types),
               f"warmup_steps is {warmup_steps!r}, expected an integer", CheckError)
        _check(warmup_steps >= 0, f"warmup_steps is {warmup_steps}, expected at least 0")
        _check(warmup_begin_lr <= base_lr,
               f"warmup_begin_lr is {warmup_begin_lr}, expected at most base_lr = {base_lr}")
        _check(warmup_mode in ("linear", "constant"),
               f"warmup_mode is {warmup_mode!r}, expected 'linear' or 'constant'")
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_final_lr = base_lr
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """The rate of an update of the warm-up.

        Parameters
        ----------
        num_update : int
            Number of the update, less than `warmup_steps`.

        Examples
        --------
        >>> scheduler = mx.lr_scheduler.LRScheduler(base_lr=1.0, warmup_steps=4)
        >>> [scheduler.get_warmup_lr(t) for t in range(4)]
        [0.0, 0.25, 0.5, 0.75]
        """
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = (self.warmup_final_lr - self.warmup_begin_lr) * num_update / self.warmup_steps
        return self.warmup_begin_lr + rise

    def __call__(self, num_update: int) -> float:
        raise NotImplementedError("a scheduler must define __call__(num_update)")


class FactorScheduler(LRScheduler):
    """Multiplies the rate by a factor after every `step` updates.

    Parameters
    ----------
    step : int
        Number of updates between changes, at least 1.
    factor : float, default 1
        What the rate is multiplied by, at most 1.
    stop_factor_lr : float, default 1e-8
        The smallest rate.
    base_lr, warmup_steps, warmup_begin_lr, warmup_mode
        As for `LRScheduler`.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Notes
    -----
    The rate of update t is base_lr * factor^((t - 1) // step), but at least `stop_factor_lr`.

    Examples
    --------
    >>> scheduler = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=1.0)
    >>> [scheduler(t) for t in range(1, 7)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    """

    @checks_numbers
    def __init__(self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8,
                 base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        _check(step >= 1, f"step is {step}, expected at least 1 update")
        _check(factor <= 1, f"factor is {factor}, expected at most 1: the rate must not grow")
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        # A loop, because training may resume many steps later.
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                logging.info("Update[%d]: now learning rate arrived at %0.5e, will not change in "
                             "the future", num_update, self.base_lr)
            else:
                logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiplies the rate by a factor after each of several update counts.

    Parameters
    ----------
    step : list of int
        The update counts, in ascending order.
    factor : float, default 1
        What the rate is multiplied by, at most 1.
    base_lr, warmup_steps, warmup_begin_lr, warmup_mode
        As for `LRScheduler`.

    Raises
    ------
    ArgumentError
        If an argument is out of range, or `step` is not an ascending list.

    Notes
    -----
    The rate of update t is base_lr * factor^n, where n is the number of counts in `step` below t.

    Examples
    --------
    >>> scheduler = mx.lr_scheduler.MultiFactorScheduler(step=[2, 3], factor=0.5, base_lr=1.0)
    >>> [scheduler(t) for t in range(1, 6)]
    [1.0, 1.0, 0.5, 0.25, 0.25]
    """

    @checks_numbers
    def __init__(self, step: Sequence[int], factor: float = 1, base_lr: float = 0.01,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        _check(isinstance(step, list) and len(step) >= 1,
               f"step is {step!r}, expected a list of update counts", CheckError)
        _check(all(count >= 1 for count in step), f"step is {step}, expected counts of at least 1")
        _check(all(a < b for a, b in zip(step, step[1:], strict=False)),
               f"step is {step}, expected ascending counts")
        _check(factor <= 1, f"factor is {factor}, expected at most 1: the rate must not grow")
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class _Decay(LRScheduler):
    """From `base_lr` after the warm-up to `final_lr` at update `max_update`, then constant."""

    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        _check(isinstance(max_update, integer_types),
               f"max_update is {max_update!r}, expected an integer", CheckError)
        _check(max_update >= 1, f"max_update is {max_update}, expected at least 1")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _share(self, progress: float) -> float:
        """Remaining share of the distance to `final_lr`, for progress from 0 to 1."""
        raise NotImplementedError

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            progress = (num_update - self.warmup_steps) / max(self.max_steps, 1)
            distance = self.base_lr_orig - self.final_lr
            self.base_lr = self.final_lr + distance * self._share(progress)
        return self.base_lr


class PolyScheduler(_Decay):
    """Decreases the rate to `final_lr` by a power of the remaining updates.

    Parameters
    ----------
    max_update : int
        The update at which the rate is `final_lr`; it is constant afterwards.
    base_lr, warmup_steps, warmup_begin_lr, warmup_mode
        As for `LRScheduler`.
    pwr : float, default 2
        The power.
    final_lr : float, default 0
        The last rate.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Notes
    -----
    The rate of update t is, until `max_update` ::

        final_lr + (base_lr - final_lr) * (1 - (t - warmup_steps) / (max_update - warmup_steps))^pwr

    Examples
    --------
    >>> scheduler = mx.lr_scheduler.PolyScheduler(max_update=4, base_lr=1.0)
    >>> [scheduler(t) for t in range(1, 6)]
    [0.5625, 0.25, 0.0625, 0.0, 0.0]
    """

    def __init__(self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear"):
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _share(self, progress: float) -> float:
        return math.pow(1 - progress, self.power)


class CosineScheduler(_Decay):
    """Decreases the rate to `final_lr` along half a cosine.

    Parameters
    ----------
    max_update, final_lr
        As for `PolyScheduler`.
    base_lr, warmup_steps, warmup_begin_lr, warmup_mode
        As for `LRScheduler`.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Notes
    -----
    The rate of update t is, until `max_update` ::

        progress = (t - warmup_steps) / (max_update - warmup_steps)
        final_lr + (base_lr - final_lr) * (1 + cos(pi * progress)) / 2

    References
    ----------
    Loshchilov and Hutter, "SGDR: Stochastic gradient descent with warm restarts", 2017 (without
    restarts).

    Examples
    --------
    >>> scheduler = mx.lr_scheduler.CosineScheduler(max_update=6, base_lr=1.0, warmup_steps=2)
    >>> [round(scheduler(t), 4) for t in range(1, 8)]
    [0.5, 1.0, 0.8536, 0.5, 0.1464, 0.0, 0.0]
    """

    def _share(self, progress: float) -> float:
        return (1 + math.cos(math.pi * progress)) / 2
