"""`Module`: one symbol, its parameters and its optimizer.

Parameters are stored twice.  `_arg_params` and `_aux_params` are the host copies that users get and
set; training changes the argument arrays of the executors.  `_params_dirty` is set when the host
copies are out of date; `get_params` then updates them (to the mean over devices).  Row-sparse
parameters, which may be large, are stored once: host, store and executors share them.

On one device the updater changes each parameter, with integer keys.  With several, a key-value
store sums the gradients and either updates its parameters, which every device pulls
(`_update_on_kvstore`, keys are names), or every device updates its own (`index * devices + k`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from ..base import CheckError, Forwarded, MXNetError, warn_user
from ..callback.monitor import Monitor
from ..checkpoint import load_checkpoint  # noqa: F401 - programs import it from here
from ..core.config import tuning
from ..initializer import InitDesc, Uniform
from ..io import DataDesc
from ..kvstore import KVStoreBase
from ..metric import EvalMetric
from ..ndarray import NDArray
from ..optimizer import Optimizer, Updater, get_updater
from ..symbol import Symbol
from . import params, store_updates
from .arguments import (
    Batch,
    ContextGroups,
    Contexts,
    GradReq,
    Grads,
    InitFunction,
    KVStoreLike,
    Labels,
    OptimizerLike,
    OptimizerParams,
    Outputs,
    Params,
    RowFunction,
    Shapes,
    StateValues,
    checked_inputs,
    context_list,
    groups_by_context,
    name_list,
)
from .batch_shapes import _parse_data_desc
from .executor_group import DataParallelExecutorGroup, _update_params
from .optimizer_setup import attributes, make_optimizer
from .reindexed_updater import reindexed
from .saved_module import SavedModule
from .store_updates import _create_kvstore, _initialize_kvstore
from .turns import Turns
from .workers import announce_forward, beside_others, finish_exchange

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ..core.log import Logger
    from ..executor import Executor
    from .json_codec import Plain
    from .module_interface import ModuleInterface
    from .training_position import TrainingPosition

__all__ = ["Module"]


class Module(SavedModule):
    """A network given by a symbol, with its parameters and optimizer, on one or several contexts.

    Arguments of the symbol that are not named below are parameters. With several contexts each
    batch is split along its batch axis, and gradients are summed.

    Parameters
    ----------
    symbol : Symbol
        The network, with losses as outputs (such as `SoftmaxOutput`) if it is to be trained.
    data_names : list of str, default ('data',)
        Names of the data inputs, in the order in which batches contain them.
    label_names : list of str, default ('softmax_label',)
        Names of the label inputs; None for a network without labels. A name that is not an
        argument of the symbol is a warning.
    logger : logging.Logger, optional
        Where progress and warnings are logged; the root logger by default.
    context : Context or list of Context, default cpu()
        Where to compute.
    work_load_list : list of float, optional
        Relative share of each batch that each context computes; equal by default.
    fixed_param_names : list of str, optional
        Parameters that are not trained.
    state_names : list of str, optional
        Inputs that are not part of batches and keep their values between them; see `set_states`.
    group2ctxs : dict or list of dict, optional
        Model parallelism: context by value of the symbol's attribute ``ctx_group``. A value may be
        a list with one context for each context of the module; so may the whole be a list of
        dicts.
    compression_params : dict, optional
        Gradient compression between several devices, such as
        ``{"type": "2bit", "threshold": 0.5}``; needs a 'device' key-value store.

    Raises
    ------
    ArgumentError
        If a data, state or fixed parameter name is not an argument of the symbol, or a name is
        used twice. It is a ValueError, too.
    TypeError
        If `symbol` is not a Symbol, or `context` does not consist of contexts.

    Examples
    --------
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    >>> module = mx.mod.Module(net, label_names=None)
    >>> module.bind([("data", (2, 4))], for_training=False)
    >>> module.init_params(mx.init.One())
    >>> module.forward(mx.io.DataBatch([mx.nd.ones((2, 4))]))
    >>> module.get_outputs()[0].asnumpy().tolist()
    [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]

    `fit` shows how to train.
    """

    def __init__(self, symbol: Symbol, data_names: Sequence[str] | None = ("data",),
                 label_names: Sequence[str] | None = ("softmax_label",), logger: Logger = logging,
                 context: Contexts = None, work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None, group2ctxs: ContextGroups = None,
                 compression_params: Mapping[str, object] | None = None):
        super().__init__(logger)
        if not hasattr(symbol, "list_arguments"):
            raise TypeError(f"Module: symbol is a {type(symbol).__name__}, expected a Symbol (read "
                            "one from a file with mx.sym.load)")
        self._context = context_list(context)
        self._work_load_list = list(work_load_list or [1] * len(self._context))
        if len(self._work_load_list) != len(self._context):
            raise CheckError(f"Module: {len(self._work_load_list)} work loads for "
                             f"{len(self._context)} contexts")
        self._group2ctxs = groups_by_context(group2ctxs, len(self._context))
        self._symbol = symbol
        self._data_names = name_list("data_names", data_names)
        self._label_names = name_list("label_names", label_names)
        self._state_names = name_list("state_names", state_names)
        self._fixed_param_names = name_list("fixed_param_names", fixed_param_names)
        inputs = checked_inputs(symbol, self._data_names, self._label_names, self._state_names,
                                self._fixed_param_names)
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._arg_params: dict[str, NDArray] | None = None
        self._aux_params: dict[str, NDArray] | None = None
        self._params_dirty = False
        self._compression_params = compression_params
        self._optimizer: Optimizer | None = None
        self._kvstore: KVStoreBase | None = None
        self._update_on_kvstore = False
        self._row_params: set[str] = set()
        self._updater: Updater | None = None
        self._preload_opt_states: str | None = None
        self._resume_from: str | None = None
        self._optimizer_begun: dict[str, Plain] = {}
        self._reset_bind()

    def _reset_bind(self) -> None:
        """Forget the executors; `_exec_group` is None until the module is bound."""
        self.binded = False
        self._exec_group: DataParallelExecutorGroup = None  # type: ignore[assignment]  # None
        self._turns = Turns()
        self._data_shapes: list[DataDesc] | None = None
        self._label_shapes: list[DataDesc] | None = None

    # -- checkpoints ------------------------------------------------------------------------

    @staticmethod
    def load(prefix: str, epoch: int | None, load_optimizer_states: bool = False,
             verify: bool = False, **kwargs: Forwarded) -> Module:
        return Module._from_checkpoint(prefix, epoch, load_optimizer_states, verify, kwargs)

    # -- description ------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._require("binded")
        assert self._data_shapes is not None
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        self._require("binded")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._require("binded")
        return self._exec_group.get_output_shapes()

    # -- parameters -------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        self._require("params_initialized")
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None and self._aux_params is not None
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self) -> None:
        assert self._arg_params is not None and self._aux_params is not None
        finish_exchange(self._kvstore)
        self._exec_group.get_params(self._arg_params, self._aux_params)
        store_updates.pull_sparse(self._kvstore if self._update_on_kvstore else None,
                                  self._arg_params)
        self._params_dirty = False

    def init_params(self, initializer: InitFunction = Uniform(0.01),  # noqa: B008
                    arg_params: Params = None, aux_params: Params = None,
                    allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        if self.params_initialized and not force_init:
            if not self._fit_warnings.is_preparing or arg_params or aux_params:
                warn_user("Parameters already initialized and force_init=False. init_params call "
                          "ignored.")
            return
        self._require("binded")
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None and self._aux_params is not None
        attrs = {} if initializer is None else self._symbol.attr_dict()
        for own, values in ((self._arg_params, arg_params), (self._aux_params, aux_params)):
            for name in sorted(own):
                if values is not None and name in values:
                    if values[name] is not own[name]:
                        params.assign(name, values[name], own[name])
                elif values is not None and not allow_missing:
                    advice = params.advice(name, values, own)
                    raise MXNetError(f"{name} is not presented{advice}")
                elif initializer is not None:
                    params.initialize(InitDesc(name, attrs.get(name)), own[name], initializer)
        self.params_initialized = True
        self._assign_on_devices(self._arg_params, self._aux_params)

    def _executors(self) -> list[Executor]:
        return self._exec_group.execs

    def _param_gradients(self) -> list[list[NDArray]]:
        return [copies for copies in self._exec_group.grad_arrays if copies[0] is not None]

    def _averages_params(self) -> bool:
        """Also where executors have only some rows, and in subclasses, which may override both."""
        return len(self._context) > 1 or bool(self._row_params) or type(self) is not Module

    def set_params(self, arg_params: Params, aux_params: Params, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warn_user("Parameters already initialized and force_init=False. set_params call "
                      "ignored.")
            return
        self._require("binded")
        self._assign_on_devices(arg_params or {}, aux_params, allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    # -- binding ----------------------------------------------------------------------------

    def bind(self, data_shapes: Shapes, label_shapes: Shapes = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: ModuleInterface | None = None, grad_req: GradReq = "write",
             tune: bool = False) -> None:
        if force_rebind:
            if self.binded and self._params_dirty:
                self._sync_params_from_devices()
            self._reset_bind()
        if self.binded:
            self._ignore("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise CheckError("bind: inputs_need_grad=True needs for_training=True")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req = grad_req
        self._data_shapes, self._label_shapes = _parse_data_desc(
            self._data_names, self._label_names, data_shapes, label_shapes)
        with tuning(tune):
            self._exec_group = DataParallelExecutorGroup(
                self._symbol, self._context, self._work_load_list, self._data_shapes,
                self._label_shapes, self._param_names, for_training, inputs_need_grad,
                self._group_of(shared_module), logger=self.logger,
                fixed_param_names=self._fixed_param_names, grad_req=grad_req,
                state_names=self._state_names, group2ctxs=self._group2ctxs)
        self.binded = True
        self._provide_params(shared_module)

    def _provide_params(self, shared_module: ModuleInterface | None) -> None:
        """Assign parameters to new executors: shared ones, existing ones, or none yet."""
        group = self._exec_group
        if isinstance(shared_module, Module):
            self.params_initialized = True
            self._turns, self._params_dirty = shared_module._turns, shared_module._params_dirty
            self._arg_params = shared_module._arg_params
            self._aux_params = shared_module._aux_params
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self.params_initialized:
            params.share_sparse(self._arg_params, group.arrays_by_param,
                                self._update_on_kvstore)
            group.set_params(self._arg_params, self._aux_params)
        else:
            self._arg_params = params.host_arrays(group.param_names, group.param_arrays)
            self._aux_params = params.host_arrays(group.aux_names, group.aux_arrays)

    def _group_of(self, shared_module: ModuleInterface | None) -> DataParallelExecutorGroup | None:
        """The executors whose parameters are shared; None if there is no such module."""
        if shared_module is None:
            return None
        if not isinstance(shared_module, Module):
            raise CheckError(f"bind: shared_module is a {type(shared_module).__name__}, expected a "
                             "Module")
        shared_module._require("binded", "params_initialized")
        group = shared_module._exec_group
        if len(group.execs) < len(self._context):
            raise MXNetError(f"bind: shared_module runs on {len(group.execs)} context(s), this "
                             f"module on {len(self._context)}")
        return group

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes = None) -> None:
        """Change the input shapes; parameters and optimizer are kept.

        Parameters
        ----------
        data_shapes, label_shapes : list of DataDesc or (str, tuple of int)
            As for `bind`.
        """
        self._require("binded")
        data, labels = _parse_data_desc(self._data_names, self._label_names,
                                                     data_shapes, label_shapes)
        self._exec_group.reshape(data, labels)
        self._data_shapes, self._label_shapes = data, labels

    # -- computing --------------------------------------------------------------------------

    def forward(self, data_batch: Batch, is_train: bool | None = None) -> None:
        self._require("binded", "params_initialized")
        group = self._exec_group
        with self._turns.lock:
            self._turns.begin_forward(group)
            if not group.fits(data_batch):
                group.reshape_for(data_batch)
                self._data_shapes, self._label_shapes = group.data_shapes, group.label_shapes
            if self._kvstore is not None:
                announce_forward(self._kvstore, group, is_train)
            group.forward(data_batch, is_train)

    def backward(self, out_grads: Grads = None) -> None:
        self._require("binded", "params_initialized")
        with self._turns.lock:
            self._turns.require_last("backward")
            self._exec_group.backward(out_grads=out_grads)

    def get_outputs(self, merge_multi_context: bool = True) -> Outputs:
        self._require("binded", "params_initialized")
        return self._turns.get_outputs(self._exec_group, merge_multi_context)

    def _output_axes(self, count: int) -> list[int]:
        return self._exec_group.output_layouts

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        self._require("binded", "params_initialized")
        self._turns.require_last("get_input_grads")
        return self._exec_group.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> Outputs:
        self._require("binded", "params_initialized")
        return self._exec_group.get_states(merge_multi_context)

    def set_states(self, states: StateValues | None = None, value: float | None = None) -> None:
        self._require("binded", "params_initialized")
        self._exec_group.set_states(states, value)

    def update_metric(self, eval_metric: EvalMetric, labels: Labels,
                      pre_sliced: bool = False) -> None:
        with self._turns.lock:
            self._turns.require_last("update_metric")
            self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Monitor) -> None:
        self._require("binded")
        self._exec_group.install_monitor(mon)

    # -- optimizer --------------------------------------------------------------------------

    def init_optimizer(self, kvstore: KVStoreLike = "local", optimizer: OptimizerLike = "sgd",
                       optimizer_params: OptimizerParams = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self._ignore_optimizer([self], optimizer, optimizer_params)
            return
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None
        group, devices = self._exec_group, len(self._context)
        store, update_on_kvstore = _create_kvstore(kvstore, devices, self._arg_params)
        copies = 1 if update_on_kvstore else devices
        names = {i * copies + k: name for i, name in enumerate(group.param_names)
                 for k in range(copies)}
        self._optimizer = make_optimizer(
            optimizer, optimizer_params, self._symbol, names,
            1.0 / ((group.batch_size or 1) * store_updates.workers_in_step(store)))
        self._kvstore, self._update_on_kvstore = store, update_on_kvstore
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if update_on_kvstore:
                store.set_optimizer(self._optimizer)
            self._params_dirty = _initialize_kvstore(
                store, group.param_arrays, self._arg_params, group.param_names,
                update_on_kvstore)
        self._updater = None if update_on_kvstore else get_updater(self._optimizer)
        self.optimizer_initialized = True
        self._optimizer_begun = attributes(self._optimizer)
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._resume_from, self._preload_opt_states = self._preload_opt_states, None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Use the optimizer, store and updater of another module.

        Parameters
        ----------
        shared_module : Module
            A module with an optimizer.
        """
        shared_module._require("optimizer_initialized")
        self._optimizer, self._updater = shared_module._optimizer, shared_module._updater
        self._optimizer_begun = shared_module._optimizer_begun
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self.optimizer_initialized = True

    def _borrow_by_name(self, owner: Module) -> None:
        """Borrow the optimizer of a module that may have parameters at other positions."""
        self.borrow_optimizer(owner)
        if self._updater is not None and self._param_names != owner._param_names:
            positions = [owner._param_names.index(name) for name in self._param_names]
            self._updater = reindexed(self._updater, positions, len(self._context))

    def prepare(self, data_batch: Batch, sparse_row_id_fn: RowFunction = None) -> None:
        self._require("binded")
        if sparse_row_id_fn is not None:
            self._row_params |= store_updates.pull_rows(
                self._kvstore if self._update_on_kvstore else None,
                self._exec_group.arrays_by_param, partial(sparse_row_id_fn, data_batch))

    def update(self) -> None:
        self._require("binded", "params_initialized", "optimizer_initialized", "for_training")
        self._turns.require_last("update")
        self._params_dirty = True
        group = self._exec_group
        if self._update_on_kvstore:
            store_updates.update_on_store(group, self._kvstore, self._row_params)
        else:
            assert self._updater is not None
            _update_params(group.param_arrays, group.grad_arrays, self._updater,
                           len(self._context), self._kvstore, group.param_names)

    def _begin_fit(self, progress: TrainingPosition, overlaps: bool
                   ) -> AbstractContextManager[None]:
        if self._resume_from is not None:
            states, self._resume_from = self._resume_from, None
            self._continue_fit(states, progress)
        return nullcontext() if self._kvstore is None else beside_others(
            self._kvstore, self._exec_group, self._updater is not None, progress, overlaps)

    def _assign_on_devices(self, arg_params: Mapping[str, NDArray], aux_params: Params,
                           allow_extra: bool = False) -> None:
        finish_exchange(self._kvstore)      # or what arrives later would replace them
        arrays = self._exec_group.arrays_by_param
        if arg_params is self._arg_params:
            params.share_sparse(arg_params, arrays, self._update_on_kvstore)
        self._exec_group.set_params(arg_params, aux_params, allow_extra=allow_extra)
        assigned = {name: arrays[name] for name in arrays if name in arg_params}
        params.tell_of_assigned(assigned, self._updater, self._kvstore)
