"""`mx.optimizer.contrib`: optimizers that MXNet keeps apart."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ..ndarray import NDArray, zeros
from ..ops.op import Op
from ..ops.update_adaptive import GroupAdaGradUpdate
from .base import RuleOptimizer, Turn, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(RuleOptimizer):
    """AdaGrad with one rate for every row of a matrix, as for the vectors of an embedding.

    Weight decay is not supported.  State: the sum of the rows' mean squares, of shape (rows, 1).
    """

    clips_to_zero = True

    def __init__(self, eps: float = 1e-5, **kwargs: Any):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        if len(weight.shape) != 2:
            raise MXNetError(f"GroupAdaGrad: parameter {index!r} has shape {weight.shape}, "
                             "expected a matrix")
        return zeros((weight.shape[0], 1), ctx=weight.context, dtype=weight.dtype)

    def rule(self, turn: Turn) -> Op:
        if turn.wd:
            raise MXNetError(f"GroupAdaGrad: weight decay of parameter {turn.index!r} is "
                             f"{turn.wd}, expected 0: it is not supported")
        return GroupAdaGradUpdate(turn.lr, self.rescale_grad, self._clip(), self.float_stable_eps)
