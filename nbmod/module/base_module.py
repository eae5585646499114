"""The training loop, and what every kind of module promises it.

`fit`, `score` and `predict` are written once, against a few methods that subclasses provide:
`bind`, `init_params`, `init_optimizer`, `forward`, `backward`, `update`, `get_outputs`,
`update_metric`, `get_params`, `prepare`.  Four flags say how far a module has come: `binded`,
`params_initialized`, `optimizer_initialized`, and `for_training`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import metric as _metric
from .. import ndarray as nd
from ..base import ArgumentError, MXNetError, _as_list, did_you_mean
from ..initializer import Uniform
from ..io import DataBatch, DataDesc
from ..model import BatchEndParam, join_params, split_params

__all__ = ["BaseModule"]

STATE_SUFFIXES = ("_weight", "_bias", "_gamma", "_beta")


def _check_input_names(symbol: Any, names: Sequence[str], typename: str, throw: bool) -> None:
    """Every name in `names` must be an argument of `symbol`: ArgumentError, or a warning."""
    args = symbol.list_arguments()
    for name in names:
        if name in args:
            continue
        candidates = [arg for arg in args if not arg.endswith(STATE_SUFFIXES)]
        message = (f"You created Module with Module(..., {typename}_names={list(names)}) but input "
                   f"with name {name!r} is not found in symbol.list_arguments()"
                   f"{did_you_mean(name, candidates)} Inputs that are no parameters: {candidates}")
        if throw:
            raise ArgumentError(message)
        logging.warning(message)


def _check_names_match(data_names: Sequence[str], data_shapes: Sequence[DataDesc], name: str,
                       throw: bool) -> None:
    given = [desc[0] for desc in data_shapes]
    if sorted(data_names) != sorted(given):
        message = (f"Data provided by {name}_shapes don't match names specified by {name}_names: "
                   f"{list(data_shapes)} given, {list(data_names)} expected")
        if throw:
            raise ArgumentError(message)
        logging.warning(message)


def _parse_data_desc(data_names: Sequence[str], label_names: Sequence[str], data_shapes: Any,
                     label_shapes: Any) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Shapes given as DataDesc or (name, shape) pairs, normalised and checked against names."""
    data = [desc if isinstance(desc, DataDesc) else DataDesc(*desc) for desc in data_shapes]
    _check_names_match(data_names, data, "data", True)
    if not label_shapes:
        _check_names_match(label_names, [], "label", False)
        return data, None
    labels = [desc if isinstance(desc, DataDesc) else DataDesc(*desc) for desc in label_shapes]
    _check_names_match(label_names, labels, "label", False)
    return data, labels


def _without_padding(outputs: Sequence[Any], pad: int | None) -> list[Any]:
    return [out[0:out.shape[0] - (pad or 0)] for out in outputs]


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

    def _require(self, *states: str) -> None:
        """MXNetError naming the method to call first, unless every state has been reached."""
        calls = {"binded": "bind", "params_initialized": "init_params",
                 "optimizer_initialized": "init_optimizer"}
        for state in states:
            if not getattr(self, state):
                raise MXNetError(f"{type(self).__name__}: call {calls[state]}() first")

    # -- training and evaluation ------------------------------------------------------------

    def forward_backward(self, data_batch: DataBatch) -> None:
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
        if reset:
            eval_data.reset()
        eval_metric = _metric.create(eval_metric)
        eval_metric.reset()
        count = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            self.update_metric(eval_metric, eval_batch.label)
            _call(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            count += 1
        _call(score_end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        return eval_metric.get_name_value()

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
            yield _without_padding(self.get_outputs(), batch.pad), nbatch, batch

    def predict(self, eval_data: Any, num_batch: int | None = None, merge_batches: bool = True,
                reset: bool = True, always_output_list: bool = False,
                sparse_row_id_fn: Any = None) -> Any:
        """Outputs for all samples of an iterator, or of one array.

        With `merge_batches` the batches are joined along the first axis: one NDArray, or a list if
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
        merged = [nd.concatenate(list(column)) for column in zip(*batches, strict=True)]
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
        callbacks, score on `eval_data`.  Callbacks may be one function or a list.
        """
        if num_epoch is None:
            raise MXNetError("fit: please specify number of epochs (num_epoch)")
        self.bind(train_data.provide_data, train_data.provide_label, for_training=True,
                  force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer, arg_params, aux_params, allow_missing, force_init)
        self.init_optimizer(kvstore, optimizer, optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = _metric.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            self._train_epoch(epoch, train_data, eval_metric, batch_end_callback, monitor,
                              sparse_row_id_fn)
            params = self.get_params()
            self.set_params(*params)
            for callback in _as_list(epoch_end_callback) if epoch_end_callback else ():
                callback(epoch, self.symbol, *params)
            if eval_data is not None:
                for name, value in self.score(eval_data, validation_metric, epoch=epoch,
                                              score_end_callback=eval_end_callback,
                                              batch_end_callback=eval_batch_end_callback):
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _train_epoch(self, epoch: int, train_data: Any, eval_metric: Any, batch_end_callback: Any,
                     monitor: Any, sparse_row_id_fn: Any) -> None:
        """One pass over `train_data`.  Callbacks read its local variables under MXNet's names."""
        started = time.time()
        eval_metric.reset()
        batches = iter(train_data)
        values: list[tuple[str, float]] = []
        nbatch, data_batch = 0, next(batches, None)
        if data_batch is None:
            raise MXNetError(f"fit: train_data yields no batch in epoch {epoch}")
        while data_batch is not None:
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            self.update()
            self.update_metric(eval_metric, data_batch.label)
            next_data_batch = next(batches, None)
            if next_data_batch is not None:
                self.prepare(next_data_batch, sparse_row_id_fn=sparse_row_id_fn)
            if monitor is not None:
                monitor.toc_print()
            if next_data_batch is None:  # callbacks may reset the metric, so read it before them
                values = _global_values(eval_metric)
            _call(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            nbatch, data_batch = nbatch + 1, next_data_batch
        for name, value in values:
            self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
        self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - started)

    # -- parameters -------------------------------------------------------------------------

    def set_params(self, arg_params: Any, aux_params: Any, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Assign parameters and auxiliary states by name."""
        self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)

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
             grad_req: Any = "write") -> None:
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


def _global_values(eval_metric: Any) -> list[tuple[str, float]]:
    """Values over the whole epoch; a metric written before those existed has only one kind."""
    read = getattr(eval_metric, "get_global_name_value", eval_metric.get_name_value)
    return read()


def _call(callbacks: Any, param: BatchEndParam) -> None:
    """Call one callback or every callback of a list."""
    for callback in _as_list(callbacks) if callbacks is not None else ():
        callback(param)

