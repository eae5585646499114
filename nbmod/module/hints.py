"""What `fit` says once, as it is most often a mistake: it costs no step any time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..symbol import Symbol
    from .arguments import Batch, Params
    from .base_module import BaseModule

__all__ = ["say_of_epoch", "say_of_parameters"]

SHOWN = 10


def say_of_parameters(module: BaseModule, *given: Params) -> None:
    """Say which given parameters the network does not have.

    Parameters
    ----------
    module : BaseModule
        The module; one without a symbol of its own is not looked at.
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


def say_of_epoch(module: BaseModule, batches: int, last: Batch) -> None:
    """Say what the first epoch of a module has shown.

    Parameters
    ----------
    module : BaseModule
        The module that was trained.
    batches : int
        Number of batches.
    last : DataBatch
        The last one.
    """
    pad = getattr(last, "pad", 0)
    if batches == 1 and pad:
        module.logger.warning("fit: train_data has fewer samples than one batch, which repeats "
                              "some of them %d times more in all", pad)
    still = [name for executor in module._executors() for name, gradient
             in executor.grad_dict.items() if gradient is not None and not gradient.asnumpy().any()]
    if still:
        module.logger.warning("fit: in the last batch of the first epoch all elements of the "
                              "gradients of these are 0, so that they do not learn: %s",
                              _listed(still))


def _listed(names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
