"""Evaluation between the epochs of `fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..metric.eval_metric import as_text, numbers
from ..ops.random import rng
from .arguments import Callback
from .training_position import TrainingPosition

if TYPE_CHECKING:
    from ..metric.eval_metric import MetricLike
    from .base_module import BaseModule, BatchEndParam

__all__ = ["validate"]


def validate(module: BaseModule, epoch: int, progress: TrainingPosition, metric: MetricLike,
             end_callback: Callback, batch_end_callback: Callback, arguments: dict[str, object]
             ) -> None:
    """Evaluate on the validation data of `fit`; log and record the results.

    Callbacks see the `arguments`, `fit`'s variables, too.
    """
    def at_end(param: BatchEndParam) -> None:
        progress.call(end_callback, param._replace(locals={**param.locals, **arguments}))

    display = progress.display
    if display:
        batch_end_callback = display.with_validation(batch_end_callback)
    with rng.aside():
        scores = module.score(progress.eval_data,  # type: ignore[arg-type]  # not None
                              metric, epoch=epoch, score_end_callback=at_end,
                              batch_end_callback=batch_end_callback)
    module.history[-1]["validation"] = numbers(scores)
    progress.amend(module.history)
    for name, value in scores:
        module.logger.info("Epoch[%d] Validation-%s=%s", epoch, name, as_text(value))
    if display:
        display.end_epoch(module.history[-1], module.logger)
