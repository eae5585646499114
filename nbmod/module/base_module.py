"""The training loop, and what every kind of module promises it.

`fit`, `score` and `predict` are written once, against a few methods that subclasses provide:
`bind`, `init_params`, `init_optimizer`, `forward`, `backward`, `update`, `get_outputs`,
`update_metric`, `get_params`, `prepare`.  Four flags say how far a module has come: `binded`,
`params_initialized`, `optimizer_initialized`, and `for_training`.

`history` is plain data: for every epoch of `fit` a dict of its number `epoch`, the metrics `train`
and `validation` (name -> value) and the `seconds` that training took.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from .. import metric as _metric
from .. import ndarray as nd
from ..base import ArgumentError, MXNetError, _as_list
from ..initializer import Uniform
from ..io import DataBatch, DataDesc
from ..model import BatchEndParam, join_params, split_params
from ..ops import rng
from .arguments import _check_input_names, _check_names_match, _parse_data_desc  # noqa: F401
from .batches import cut
from .resume import Progress

__all__ = ["BaseModule"]

def _without_padding(outputs: Sequence[Any], pad: int | None, axes: Sequence[int]) -> list[Any]:
    return [cut(out, axis, slice(0, out.shape[axis] - (pad or 0)))
            for out, axis in zip(outputs, axes, strict=True)]


class BaseModule:
    """Base of all modules; see the module docstring."""

    def __init__(self, logger: Any = logging):
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Any = None
        self._total_exec_bytes = 0
        self.history: list[dict[str, Any]] = []
        self._progress: Progress | None = None

    def _require(self, *states: str) -> None:
        """MXNetError naming the method to call first, unless every state has been reached."""
        calls = {"binded": "bind", "params_initialized": "init_params",
                 "optimizer_initialized": "init_optimizer"}
        for state in states:
            if not getattr(self, state):
                raise MXNetError(f"{type(self).__name__}: call {calls[state]}() first")

    # -- training and evaluation ------------------------------------------------------------

    def forward_backward(self, data_batch: Any) -> None:
        """One forward pass in training mode, and the backward pass."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def score(self, eval_data: Any, eval_metric: Any, num_batch: int | None = None,
              batch_end_callback: Any = None, score_end_callback: Any = None, reset: bool = True,
              epoch: int = 0, sparse_row_id_fn: Any = None) -> list[tuple[str, float]]:
        """Evaluate on `eval_data` (at most `num_batch` batches): (metric name, value) pairs.

        Filling samples of the last batch count, as in MXNet.
        """
        self._require("binded", "params_initialized")
        _require_iterator("score: eval_data", eval_data, "reset")
        if reset:
            eval_data.reset()
        eval_metric = _metric.create(eval_metric)
        eval_metric.reset()
        actual_num_batch = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            self._update_metric_of(eval_batch, eval_metric)
            _call(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            actual_num_batch += 1
        _call(score_end_callback, BatchEndParam(epoch, actual_num_batch, eval_metric, locals()))
        return eval_metric.get_name_value()

    def _update_metric_of(self, batch: Any, eval_metric: Any) -> None:
        """`update_metric` with the labels of a batch, or of a list with one for every device."""
        if isinstance(batch, list):
            self.update_metric(eval_metric, [part.label for part in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def iter_predict(self, eval_data: Any, num_batch: int | None = None, reset: bool = True,
                     sparse_row_id_fn: Any = None) -> Iterator[tuple[list[Any], int, Any]]:
        """Yield (outputs without filling samples, batch number, batch)."""
        self._require("binded", "params_initialized")
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            last = batch[-1] if isinstance(batch, list) else batch
            outputs = self.get_outputs()
            yield (_without_padding(outputs, last.pad, self._output_axes(len(outputs))), nbatch,
                   batch)

    def _output_axes(self, count: int) -> list[int]:
        """Batch axis of each output, -1 for none: the first, in modules that do not say."""
        return [0] * count

    def predict(self, eval_data: Any, num_batch: int | None = None, merge_batches: bool = True,
                reset: bool = True, always_output_list: bool = False,
                sparse_row_id_fn: Any = None) -> Any:
        """Outputs for all samples of an iterator, or of one array.

        With `merge_batches` the batches are joined along the batch axis: one NDArray, or a list if
        there are several outputs or `always_output_list`.  Otherwise a list of lists, per batch.
        """
        self._require("binded", "params_initialized")
        if isinstance(eval_data, (nd.NDArray, np.ndarray)):
            data = nd.array(eval_data) if isinstance(eval_data, np.ndarray) else eval_data
            self.forward(DataBatch([data]))
            return self.get_outputs()[0]
        if not hasattr(eval_data, "provide_data"):
            raise ArgumentError(f"predict: eval_data is a {type(eval_data).__name__}, expected a "
                                "DataIter, NDArray or numpy.ndarray")
        batches = [[out.copy() for out in outputs] for outputs, _, _ in
                   self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)]
        if not batches or not merge_batches:
            return batches
        if any(len(outputs) != len(batches[0]) for outputs in batches):
            raise MXNetError("predict: cannot merge batches, as the number of outputs differs "
                             "between batches (bucketing?); set merge_batches=False")
        merged = [nd.concatenate(list(column), axis=max(axis, 0)) for column, axis in
                  zip(zip(*batches, strict=True), self._output_axes(len(batches[0])), strict=True)]
        return merged if len(merged) > 1 or always_output_list else merged[0]

    def fit(self, train_data: Any, eval_data: Any = None, eval_metric: Any = "acc",
            epoch_end_callback: Any = None, batch_end_callback: Any = None, kvstore: Any = "local",
            optimizer: Any = "sgd", optimizer_params: Any = (("learning_rate", 0.01),),
            eval_end_callback: Any = None, eval_batch_end_callback: Any = None,
            initializer: Any = Uniform(0.01), arg_params: Any = None,  # noqa: B008
            aux_params: Any = None, allow_missing: bool = False, force_rebind: bool = False,
            force_init: bool = False, begin_epoch: int = 0, num_epoch: int | None = None,
            validation_metric: Any = None, monitor: Any = None, sparse_row_id_fn: Any = None
            ) -> None:
        """Train for epochs `begin_epoch` .. `num_epoch - 1`.

        Binds, initialises parameters and optimizer as far as that has not been done.  Per batch:
        forward_backward, update, metric, batch callbacks; per epoch: log, sync parameters, epoch
        callbacks, score on `eval_data`.  Callbacks may be one function or a list.  `history` keeps
        what came out of each epoch.
        """
        if num_epoch is None:
            raise MXNetError("fit: please specify number of epochs (num_epoch)")
        _require_iterator("fit: train_data", train_data, "provide_data")
        if eval_data is not None:
            _require_iterator("fit: eval_data", eval_data, "reset")
        self.bind(data_shapes=train_data.provide_data, label_shapes=train_data.provide_label,
                  for_training=True, force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer=initializer, arg_params=arg_params, aux_params=aux_params,
                         allow_missing=allow_missing, force_init=force_init)
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer,
                            optimizer_params=optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = _metric.create(eval_metric)
        self.history = [past for past in self.history if past["epoch"] < begin_epoch]
        progress = self._progress = Progress(train_data, eval_data, begin_epoch)
        self._begin(progress)
        arguments = locals()
        for epoch in range(begin_epoch, num_epoch):
            self._train_epoch(epoch, arguments)
            progress.end_epoch()
            arg_params, aux_params = self.get_params()
            self.set_params(arg_params, aux_params)
            _call(epoch_end_callback, epoch, self.symbol, arg_params, aux_params)
            if eval_data is not None:
                with rng.aside():
                    found = self.score(eval_data, validation_metric, epoch=epoch,
                                       score_end_callback=eval_end_callback,
                                       batch_end_callback=eval_batch_end_callback)
                self.history[-1]["validation"] = _numbers(found)
                progress.amend(self.history)
                for name, value in found:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()
            progress.begin_epoch()
        progress.finish()

    def _train_epoch(self, epoch: int, arguments: dict[str, Any]) -> None:
        """One pass over the training data.

        Batch callbacks read, as `locals`, `fit`'s arguments and the variables of this loop, under
        the names they have in MXNet.
        """
        train_data, eval_metric = arguments["train_data"], arguments["eval_metric"]
        monitor, progress = arguments["monitor"], arguments["progress"]
        tic, nbatch = time.time(), progress.batch
        eval_name_vals: list[tuple[str, float]] = []
        eval_metric.reset()
        data_iter = iter(train_data)
        next_data_batch = progress.fetch(data_iter)
        end_of_batch = next_data_batch is None
        if end_of_batch and nbatch == 0:
            raise MXNetError(f"fit: train_data yields no batch in epoch {epoch}")
        while not end_of_batch:
            data_batch = next_data_batch
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            self.update()
            self._update_metric_of(data_batch, eval_metric)
            next_data_batch = progress.fetch(data_iter)
            end_of_batch = next_data_batch is None
            if not end_of_batch:
                self.prepare(next_data_batch, sparse_row_id_fn=arguments["sparse_row_id_fn"])
            if monitor is not None:
                monitor.toc_print()
            progress.batch = nbatch + 1
            if end_of_batch:  # callbacks may reset the metric, so read it before them
                eval_name_vals = _global_values(eval_metric)
            _call(arguments["batch_end_callback"],
                  BatchEndParam(epoch, nbatch, eval_metric, {**arguments, **locals()}))
            nbatch += 1
        seconds = time.time() - tic
        for name, value in eval_name_vals:
            self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
        self.logger.info("Epoch[%d] Time cost=%.3f", epoch, seconds)
        self.history.append({"epoch": epoch, "train": _numbers(eval_name_vals),
                             "validation": {}, "seconds": seconds})

    # -- parameters -------------------------------------------------------------------------

    def set_params(self, arg_params: Any, aux_params: Any, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Assign parameters and auxiliary states by name."""
        self.init_params(initializer=None, arg_params=arg_params, aux_params=aux_params,
                         allow_missing=allow_missing, force_init=force_init,
                         allow_extra=allow_extra)

    def save_params(self, fname: str) -> None:
        """Write parameters and auxiliary states to one `.params` file."""
        nd.save(fname, join_params(*self.get_params()))

    def load_params(self, fname: str) -> None:
        """Read what `save_params` wrote."""
        loaded = nd.load(fname)
        if not isinstance(loaded, dict):
            raise MXNetError(f"{fname}: the arrays have no names, so these are no parameters")
        self.set_params(*split_params(loaded, fname))

    @property
    def symbol(self) -> Any:
        """The network."""
        return self._symbol

    # -- what some modules have nothing to do for -------------------------------------------

    def _begin(self, progress: Progress) -> None:
        """Before the first epoch of `fit`: go on from a checkpoint, if one was loaded for it."""

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Get ready for a batch that will come next."""

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """States carried from batch to batch: none here."""
        self._require("binded", "params_initialized")
        return []

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set states carried from batch to batch: there are none here."""
        self._require("binded", "params_initialized")
        if states or value is not None:
            raise MXNetError(f"{type(self).__name__} has no states to set")

    # -- what a subclass provides -----------------------------------------------------------

    def _abstract(self, method: str) -> MXNetError:
        return MXNetError(f"{type(self).__name__} does not define {method}")

    @property
    def data_names(self) -> list[str]:
        raise self._abstract("data_names")

    @property
    def output_names(self) -> list[str]:
        raise self._abstract("output_names")

    @property
    def data_shapes(self) -> list[DataDesc]:
        raise self._abstract("data_shapes")

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        raise self._abstract("label_shapes")

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        raise self._abstract("output_shapes")

    def get_params(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise self._abstract("get_params")

    def init_params(self, initializer: Any = Uniform(0.01), arg_params: Any = None,  # noqa: B008
                    aux_params: Any = None, allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        raise self._abstract("init_params")

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: Any = None,
             grad_req: Any = "write", tune: bool = False) -> None:
        raise self._abstract("bind")

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        raise self._abstract("init_optimizer")

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        raise self._abstract("forward")

    def backward(self, out_grads: Any = None) -> None:
        raise self._abstract("backward")

    def update(self) -> None:
        raise self._abstract("update")

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        raise self._abstract("get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        raise self._abstract("get_input_grads")

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        raise self._abstract("update_metric")

    def install_monitor(self, mon: Any) -> None:
        raise self._abstract("install_monitor")


def _require_iterator(what: str, data: Any, attribute: str) -> None:
    """TypeError unless the argument looks like an iterator: it has what every one of them has."""
    if not hasattr(data, attribute):
        raise TypeError(f"{what} is a {type(data).__name__}, expected a DataIter, such as "
                        "mx.io.NDArrayIter")


def _global_values(eval_metric: Any) -> list[tuple[str, float]]:
    """Values over the whole epoch; a metric written before those existed has only one kind."""
    read = getattr(eval_metric, "get_global_name_value", eval_metric.get_name_value)
    return read()


def _numbers(pairs: Sequence[tuple[str, Any]]) -> dict[str, float]:
    """Metrics by name; some scripts' metrics give more than numbers, which is left out."""
    found = {}
    for name, value in pairs:
        with suppress(TypeError, ValueError):
            found[name] = float(value)
    return found


def _call(callbacks: Any, *args: Any) -> None:
    """Call one callback or every callback of a list."""
    for callback in _as_list(callbacks) if callbacks is not None else ():
        callback(*args)
