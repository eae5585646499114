"""Evaluation on labelled data, by itself and between the epochs of `fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import metric as _metric
from ..callback.epoch_bars import Progress
from ..io import DataIter
from ..metric import EvalMetric
from ..metric.eval_metric import as_text, numbers
from ..ops.random import rng
from .arguments import Batch, Callback, RowFunction, require_iterator
from .prediction import PredictingModule
from .training_position import BatchEndParam, TrainingPosition, call_all

if TYPE_CHECKING:
    from ..metric.eval_metric import MetricLike

__all__ = ["EvaluatingModule"]


class EvaluatingModule(PredictingModule):
    """Evaluation of all kinds of modules."""

    def score(self, eval_data: DataIter, eval_metric: MetricLike, num_batch: int | None = None,
              batch_end_callback: Callback = None, score_end_callback: Callback = None,
              reset: bool = True, epoch: int = 0,
              sparse_row_id_fn: RowFunction = None) -> list[tuple[str, float]]:
        """Evaluate the network on labelled data.

        Samples that pad the last batch are counted, as in MXNet; choose a batch size that divides
        the number of samples, or an iterator with ``last_batch_handle="discard"``, for exact
        values.

        Parameters
        ----------
        eval_data : DataIter
            Batches of data and labels.
        eval_metric : str, EvalMetric, callable or list
            What is computed, in any form that `mx.metric.create` takes.
        num_batch : int, optional
            Evaluate on at most this many batches; on all by default.
        batch_end_callback : callable or list, optional
            Called after each batch with a `BatchEndParam`.
        score_end_callback : callable or list, optional
            Called once at the end with a `BatchEndParam` whose `nbatch` is the number of batches.
        reset : bool, default True
            Reset `eval_data` first.
        epoch : int, default 0
            Epoch number that callbacks are given.
        sparse_row_id_fn : callable, optional
            As for `prepare`.

        Returns
        -------
        list of (str, float)
            Name and value of each metric.

        Raises
        ------
        MXNetError
            If the module is not bound or has no parameters yet.

        Examples
        --------
        >>> import nbmod as mx
        >>> data = mx.io.NDArrayIter(mx.nd.array([[1, 0], [0, 1]]), mx.nd.array([0, 0]), 2)
        >>> module = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax"))
        >>> module.bind(data.provide_data, data.provide_label, for_training=False)
        >>> module.init_params()
        >>> module.score(data, "acc")
        [('accuracy', 0.5)]
        """
        self._require("binded", "params_initialized")
        require_iterator("score: eval_data", eval_data, "reset")
        if reset:
            eval_data.reset()
        eval_metric = _metric.create(eval_metric)
        eval_metric.reset()
        actual_num_batch = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            with self._turns.lock:
                self.forward(eval_batch, is_train=False)
                self._update_metric_of(eval_batch, eval_metric)
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            actual_num_batch += 1
        call_all(score_end_callback, BatchEndParam(epoch, actual_num_batch, eval_metric, locals()))
        return [*eval_metric.get_name_value()]

    def _update_metric_of(self, batch: Batch, eval_metric: EvalMetric) -> None:
        """`update_metric` with the labels of a batch, or of a list with one for every device."""
        if isinstance(batch, list):
            self.update_metric(eval_metric, [part.label for part in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def _validate(self, epoch: int, progress: TrainingPosition, display: Progress | None,
                  metric: MetricLike, end_callback: Callback, batch_end_callback: Callback,
                  arguments: dict[str, object]) -> None:
        """Evaluate on the validation data of `fit`; log and record the results.

        Callbacks see the `arguments`, `fit`'s variables, too.
        """
        def at_end(param: BatchEndParam) -> None:
            progress.call(end_callback, param._replace(locals={**param.locals, **arguments}))

        if display:
            batch_end_callback = display.with_validation(batch_end_callback)
        with rng.aside():
            scores = self.score(progress.eval_data,  # type: ignore[arg-type]  # not None
                                metric, epoch=epoch, score_end_callback=at_end,
                                batch_end_callback=batch_end_callback)
        self.history[-1]["validation"] = numbers(scores)
        progress.amend(self.history)
        for name, value in scores:
            self.logger.info("Epoch[%d] Validation-%s=%s", epoch, name, as_text(value))
        if display:
            display.end_epoch(self.history[-1], self.logger)
