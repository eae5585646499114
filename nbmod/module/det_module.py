"""`DetModule`: the Module of detection networks, as SimpleDet's scripts use it.

It differs from `Module` in two respects.  Parameters that are not trained are given by parts of
their names, because a backbone has hundreds.  And images of one step have different sizes, so a
step is a list with one batch for each device; every `Module` takes such lists.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..base import _as_list
from ..io import DataIter
from ..symbol import Symbol
from .arguments import Callback, Contexts, name_list
from .module import Module

if TYPE_CHECKING:
    from ..base import Forwarded
    from ..core.log import Logger
    from ..metric.eval_metric import MetricLike
    from .base_module import BatchEndParam

__all__ = ["DetModule"]

PROFILED = 10
"""Batches that `fit(profile=True)` records."""


class DetModule(Module):
    """A `Module` whose fixed parameters are chosen by parts of their names.

    Parameters
    ----------
    symbol : Symbol
        The network.
    data_names : list of str, optional
        Names of the data inputs; none by default.
    label_names : list of str, optional
        Names of the label inputs; none by default.
    logger : logging.Logger, optional
        Where progress and warnings are logged; the root logger by default.
    context : Context or list of Context, default cpu()
        Where to compute.
    fixed_param : list of str, optional
        A parameter is not trained if its name contains one of these ...
    excluded_param : list of str, optional
        ... and none of these.
    **options
        Further arguments of `Module`, except `fixed_param_names`.

    Examples
    --------
    >>> import logging
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="stage1_fc")
    >>> net = mx.sym.FullyConnected(net, num_hidden=2, name="stage2_fc")
    >>> module = mx.mod.DetModule(net, ["data"], logger=logging.getLogger("quiet"),
    ...                           fixed_param=["stage1"], excluded_param=["bias"])
    >>> module.bind([("data", (1, 2))])
    >>> module.init_params(mx.init.One())
    >>> module.init_optimizer()
    >>> module.forward(mx.io.DataBatch([mx.nd.ones((1, 2))]))
    >>> module.backward([mx.nd.ones((1, 2))])
    >>> module.update()
    >>> params, _ = module.get_params()
    >>> sorted(name for name in params if float(params[name].sum().asscalar()) == params[name].size)
    ['stage1_fc_weight']
    """

    def __init__(self, symbol: Symbol, data_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None, logger: Logger = logging,
                 context: Contexts = None, fixed_param: Sequence[str] | None = None,
                 excluded_param: Sequence[str] | None = None, **options: Forwarded):
        inputs = {*(data_names or ()), *(label_names or ())}
        chosen = name_list("fixed_param", fixed_param)
        excluded = name_list("excluded_param", excluded_param)
        fixed = [name for name in symbol.list_arguments() if name not in inputs
                 and any(part in name for part in chosen)
                 and not any(part in name for part in excluded)]
        logger.info("fixed parameters: %s", fixed)
        super().__init__(symbol, data_names, label_names, logger, context,
                         fixed_param_names=fixed, **options)

    @staticmethod
    def load(prefix: str, epoch: int | None, load_optimizer_states: bool = False,
             verify: bool = False, **kwargs: Forwarded) -> DetModule:
        return DetModule._from_checkpoint(prefix, epoch, load_optimizer_states, verify, kwargs)

    def fit(self, train_data: DataIter, eval_data: DataIter | None = None,
            eval_metric: MetricLike = "acc", epoch_end_callback: Callback = None,
            batch_end_callback: Callback = None, *args: Forwarded, profile: bool = False,
            **kwargs: Forwarded) -> None:
        """Train, and profile the beginning on request.

        Parameters
        ----------
        *args, **kwargs
            Further arguments of `BaseModule.fit`.
        profile : bool, default False
            Record the first 10 batches by the profiler and write its file, whose name is set by
            `mx.profiler.set_config`.
        """
        callbacks = [] if batch_end_callback is None else _as_list(batch_end_callback)
        recording = _Recording(self.logger) if profile else None
        try:
            super().fit(train_data, eval_data, eval_metric, epoch_end_callback,
                        [*callbacks, recording] if recording else callbacks, *args, **kwargs)
        finally:
            if recording:
                recording.end()


class _Recording:
    """The profiler, running until `PROFILED` batches ended; also the callback that counts them."""

    def __init__(self, logger: Logger):
        from .. import profiler

        self.profiler, self.logger, self.left = profiler, logger, PROFILED
        profiler.set_state("run")

    def __call__(self, param: BatchEndParam) -> None:
        self.left -= 1
        if self.left == 0:
            self._write()

    def end(self) -> None:
        """Write the file, if training ended earlier."""
        if self.left > 0:
            self.left = 0
            self._write()

    def _write(self) -> None:
        self.profiler.set_state("stop")
        self.profiler.dump()
        self.logger.info("Profiling ends")
