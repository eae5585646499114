"""`mx.optimizer.contrib`: optimizers in a separate module, as in MXNet."""

from __future__ import annotations

from ..base import Forwarded, MXNetError, checks_numbers
from ..ndarray import NDArray, zeros
from ..ops.op import Op
from ..ops.optimizer.adaptive_update import GroupAdaGradUpdate
from .base_optimizer import RuleOptimizer, register
from .update_step import Index, StepInfo

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(RuleOptimizer):
    """AdaGrad with one sum of squares for each row of a matrix, as for the vectors of an embedding.

    Parameters
    ----------
    eps : float, default 1e-5
        Added to the sum of squares, under the root.
    **kwargs
        Arguments of `Optimizer`: `learning_rate` (0.01 unless given), `rescale_grad`,
        `clip_gradient`, `lr_scheduler`, `multi_precision`, `param_idx2name`, `param_dict`, `sym`
        and `begin_num_update`.  `wd` has to be 0.

    Raises
    ------
    MXNetError
        From `create_state` if the weight is not a matrix; from `update` if there is weight decay.

    Notes
    -----
    With x = clip(rescale_grad * g, -clip_gradient, clip_gradient) ::

        history = history + mean of x^2 over each row
        w = w - lr * x / sqrt(history + eps)

    The state is history, of shape (rows, 1).  `clip_gradient=0` sets gradients to 0.

    Examples
    --------
    >>> optimizer = mx.optimizer.contrib.GroupAdaGrad(learning_rate=1.0)
    >>> weight, grad = mx.nd.zeros((2, 2)), mx.nd.array([[1.0, 7.0], [3.0, 3.0]])
    >>> optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    >>> [[round(x, 3) for x in row] for row in weight.asnumpy().tolist()]
    [[-0.2, -1.4], [-1.0, -1.0]]
    """

    clips_to_zero = True

    @checks_numbers
    def __init__(self, eps: float = 1e-5, **kwargs: Forwarded):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Index, weight: NDArray) -> NDArray:
        if len(weight.shape) != 2:
            raise MXNetError(f"GroupAdaGrad: parameter {index!r} has shape {weight.shape}, "
                             "expected a matrix")
        return zeros((weight.shape[0], 1), ctx=weight.context, dtype=weight.dtype,
                     stype=weight.stype)

    def rule(self, info: StepInfo) -> Op:
        if info.wd:
            raise MXNetError(f"GroupAdaGrad: weight decay of parameter {info.index!r} is "
                             f"{info.wd}, expected 0: it is not supported")
        return GroupAdaGradUpdate(info.lr, self.rescale_grad, self._clip(), self.float_stable_eps)
