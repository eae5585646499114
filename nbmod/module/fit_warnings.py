"""Warnings of `fit` about what is most often a mistake: logged once, outside of the steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..callback.nan_guard import warn_not_finite
from ..graph import Graph
from ..ndarray.sparse_array import stored_parts

if TYPE_CHECKING:
    from ..executor import Executor
    from ..symbol import Symbol
    from .arguments import Batch, Params
    from .base_module import BaseModule, BatchEndParam

__all__ = ["warn_after_epoch", "warn_of_unknown_parameters"]

SHOWN = 10


def warn_of_unknown_parameters(module: BaseModule, *given: Params) -> None:
    """Warn of given parameters that the network does not have.

    Parameters
    ----------
    module : BaseModule
        The module; one without a symbol of its own is not examined.
    *given : dict of str to NDArray or None
        Parameters and auxiliary states by name.
    """
    symbol: Symbol | None = module._symbol
    if symbol is None:
        return
    known = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
    unused = [name for params in given for name in params or () if name not in known]
    if unused:
        module.logger.warning("fit: the network has no parameters of these names, which are "
                              "ignored: %s", _listed(unused))


def warn_after_epoch(param: BatchEndParam) -> None:
    """Warn of a metric that is not finite; after the first epoch, of what it has shown.

    Parameters
    ----------
    param : BatchEndParam
        The last batch of the epoch, with the variables of the loop.
    """
    module: BaseModule = param.locals["self"]
    warn_not_finite(param, param.locals["eval_name_vals"])
    if not module._has_warned:
        module._has_warned = True
        _warn_after_first_epoch(module, param.nbatch + 1, param.locals["data_batch"])


def _warn_after_first_epoch(module: BaseModule, batches: int, last: Batch) -> None:
    """Warn of data shorter than a batch, and of parameters whose gradients are zero."""
    pad = getattr(last, "pad", 0)
    if batches == 1 and pad:
        module.logger.warning("fit: train_data has fewer samples than one batch, which repeats "
                              "some of them %d times more in all", pad)
    executors = module._executors()
    constant = _constants(executors)
    still = [name for executor in executors for name, gradient in executor.grad_dict.items()
             if gradient is not None and name not in constant
             and not stored_parts(gradient)[0].any()]
    if still:
        module.logger.warning("fit: in the last batch of the first epoch all elements of the "
                              "gradients of these are 0, so that they do not learn: %s",
                              _listed(still))


def _constants(executors: Iterable[Executor]) -> set[str]:
    """The scales that batch normalization takes for 1."""
    return {node.inputs[1].node.name for executor in executors
            for node in Graph(executor._symbol.entries).nodes
            if getattr(node.op, "fix_gamma", False)}


def _listed(names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
