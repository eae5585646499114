"""Warnings of `fit` about likely mistakes, logged once and outside of the steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..callback.nan_guard import warn_not_finite
from ..graph import Graph
from ..ndarray.sparse_array import stored_parts
from .optimizer_setup import is_in_use

if TYPE_CHECKING:
    from ..core.log import Logger
    from ..executor import Executor
    from ..symbol import Symbol
    from .arguments import Batch, OptimizerLike, OptimizerParams, Params
    from .module_interface import ModuleInterface
    from .training_position import BatchEndParam

__all__ = ["FitWarnings", "warn_after_epoch", "warn_of_other_optimizer",
           "warn_of_unknown_parameters"]

SHOWN = 10


class FitWarnings:
    """A module's warnings of `fit`: those that are left out, and those that have been logged.

    Attributes
    ----------
    is_preparing : bool
        Whether `fit` is calling `bind`, `init_params` and `init_optimizer`, which may have been
        called before.
    first_optimizer : tuple, optional
        Optimizer and options of the first `fit`.
    has_examined_epoch : bool
        Whether the first epoch has been examined.
    has_told_of_nan : bool
        Whether this `fit` has warned of a metric that is not finite.
    """

    def __init__(self) -> None:
        self.is_preparing = self.has_examined_epoch = self.has_told_of_nan = False
        self.first_optimizer: tuple[OptimizerLike, OptimizerParams] | None = None


def warn_of_other_optimizer(logger: Logger, modules: Sequence[ModuleInterface],
                            optimizer: OptimizerLike, params: OptimizerParams) -> None:
    """Warn that `fit` does not use the optimizer of its arguments, if the modules have another.

    Parameters
    ----------
    logger : logging.Logger
        Where the warning is logged.
    modules : list of ModuleInterface
        Modules with optimizers.
    optimizer : str or Optimizer
        The optimizer in the arguments of `fit`.
    params : dict or sequence of pairs
        Its options.
    """
    if not all(is_in_use(module, optimizer, params) for module in modules):
        logger.warning(
            "optimizer already initialized, ignoring...: training goes on with the optimizer "
            "of the first fit, which differs from optimizer=%r, optimizer_params=%r; to "
            "replace it call init_optimizer with these arguments and force_init=True before "
            "fit", optimizer, params)


def warn_of_unknown_parameters(logger: Logger, symbol: Symbol | None, *params: Params) -> None:
    """Warn of parameters that the network, if there is one, does not have."""
    if symbol is None:
        return
    known = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
    unused = [name for values in params for name in values or () if name not in known]
    if unused:
        logger.warning("fit: the network has no parameters of these names, which are "
                              "ignored: %s", _listed(unused))


def warn_after_epoch(param: BatchEndParam, executors: Sequence[Executor]) -> None:
    """Warn of a metric that is not finite, and of mistakes that the first epoch reveals.

    `param` is of its last batch, with the variables of the loop; `executors` ran it.
    """
    warn_not_finite(param, param.locals["eval_name_vals"])
    warnings = param.locals["warnings"]
    if not warnings.has_examined_epoch:
        warnings.has_examined_epoch = True
        _warn_after_first_epoch(param.locals["self"].logger, param.nbatch + 1,
                                param.locals["data_batch"], executors)


def _warn_after_first_epoch(logger: Logger, batches: int, last: Batch,
                            executors: Sequence[Executor]) -> None:
    """Warn of data shorter than a batch, and of parameters whose gradients are zero."""
    pad = getattr(last, "pad", 0)
    if batches == 1 and pad:
        logger.warning("fit: train_data has fewer samples than one batch, which repeats "
                       "some of them %d times more in all", pad)
    constant = _constants(executors)
    still = [name for executor in executors for name, gradient in executor.grad_dict.items()
             if gradient is not None and name not in constant
             and not stored_parts(gradient)[0].any()]
    if still:
        logger.warning("fit: in the last batch of the first epoch all elements of the "
                              "gradients of these are 0, so that they do not learn: %s",
                              _listed(still))


def _constants(executors: Iterable[Executor]) -> set[str]:
    """Names of scales that batch normalization treats as 1."""
    return {node.inputs[1].node.name for executor in executors
            for node in Graph(executor._symbol.entries).nodes
            if getattr(node.op, "fix_gamma", False)}


def _listed(names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
