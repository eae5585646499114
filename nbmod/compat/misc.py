"""The learning-rate schedulers of MXNet 0.5, still imported by old scripts as `mx.misc`.

They have no warm-up and count from iteration 0; current schedulers are in `lr_scheduler`.
"""

from __future__ import annotations

import logging

from ..base import MXNetError

__all__ = ["LearningRateScheduler", "FactorScheduler"]
__dir__ = __all__.copy


class LearningRateScheduler:
    """Base class: `__call__(iteration) -> rate`; `base_lr` is set by the optimizer."""

    def __init__(self) -> None:
        self.base_lr = 0.01

    def __call__(self, iteration: int) -> float:
        raise NotImplementedError("a scheduler must define __call__(iteration)")


class FactorScheduler(LearningRateScheduler):
    """base_lr * factor^(iteration // step)."""

    def __init__(self, step: int, factor: float = 0.1):
        super().__init__()
        if step < 1:
            raise MXNetError(f"step is {step}, expected at least 1 iteration")
        if factor >= 1:
            raise MXNetError(f"factor is {factor}, expected less than 1: the rate must fall")
        self.step = step
        self.factor = factor
        self.old_lr: float | None = None

    def __call__(self, iteration: int) -> float:
        rate = self.base_lr * self.factor ** (iteration // self.step)
        if self.old_lr is not None and rate != self.old_lr:
            logging.info("At Iteration [%d]: Switch to new learning rate %.5f", iteration, rate)
        self.old_lr = rate
        return rate
