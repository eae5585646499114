"""`DetModule`: the Module of detection networks, as SimpleDet's scripts use it.

Two things differ from `Module`.  Parameters that are not trained are told by parts of their names,
because a backbone has hundreds.  And images of one step have different sizes, so a step is a list
with one batch for each device; every `Module` takes such lists, `DetModule` is made for them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..base import _as_list
from .arguments import name_list
from .module import Module

__all__ = ["DetModule"]

PROFILED = 10
"""Batches that `fit(profile=True)` records."""


class DetModule(Module):
    """A `Module` whose fixed parameters are chosen by fragments of names.

    A parameter is fixed if its name contains one of `fixed_param` and none of `excluded_param`.
    The remaining arguments are `Module`'s; there are no inputs but those that are named.
    """

    def __init__(self, symbol: Any, data_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None, logger: Any = logging,
                 context: Any = None, fixed_param: Sequence[str] | None = None,
                 excluded_param: Sequence[str] | None = None, **options: Any):
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
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any
             ) -> DetModule:
        """A DetModule from a checkpoint; `kwargs` go to the constructor."""
        return DetModule._from_checkpoint(prefix, epoch, load_optimizer_states, kwargs)

    def fit(self, train_data: Any, eval_data: Any = None, eval_metric: Any = "acc",
            epoch_end_callback: Any = None, batch_end_callback: Any = None, *args: Any,
            profile: bool = False, **kwargs: Any) -> None:
        """`BaseModule.fit`; with `profile` the profiler records the first `PROFILED` batches.

        It writes its file then; `mx.profiler.set_config` says where to.
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

    def __init__(self, logger: Any):
        from .. import profiler

        self.profiler, self.logger, self.left = profiler, logger, PROFILED
        profiler.set_state("run")

    def __call__(self, param: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self._write()

    def end(self) -> None:
        """Write the file, if training was over before."""
        if self.left > 0:
            self.left = 0
            self._write()

    def _write(self) -> None:
        self.profiler.set_state("stop")
        self.profiler.dump()
        self.logger.info("Profiling ends")
