"""`Module`: one symbol, its parameters, and what trains them.

Parameters live twice.  `_arg_params` and `_aux_params` are the host copies that users get and set;
the executors' argument arrays are what training changes.  `_params_dirty` says that the executors
are ahead; `get_params` then brings the host copies up to date (the mean over devices).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from .. import optimizer as opt
from ..base import MXNetError, did_you_mean
from ..context import Context, cpu
from ..initializer import InitDesc, Uniform
from ..io import DataDesc
from ..model import (
    _create_kvstore,
    _initialize_kvstore,
    _update_params,
    _update_params_on_kvstore,
    load_checkpoint,
    save_checkpoint,
)
from ..ndarray import zeros
from ..serialization import atomic_write
from .base_module import BaseModule, _check_input_names, _parse_data_desc
from .executor_group import DataParallelExecutorGroup

__all__ = ["Module"]


class Module(BaseModule):
    """A network given by `symbol`, computed on one or several contexts.

    `data_names` and `label_names` are the inputs a batch brings; `fixed_param_names` are not
    trained; `state_names` are inputs that keep their values from batch to batch.  All other
    arguments of the symbol are parameters.
    """

    def __init__(self, symbol: Any, data_names: Sequence[str] | None = ("data",),
                 label_names: Sequence[str] | None = ("softmax_label",), logger: Any = logging,
                 context: Context | Sequence[Context] | None = None,
                 work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None, group2ctxs: Any = None,
                 compression_params: Any = None):
        super().__init__(logger=logger)
        context = cpu() if context is None else context
        self._context = [context] if isinstance(context, Context) else list(context)
        if not self._context or not all(isinstance(one, Context) for one in self._context):
            raise TypeError(f"Module: context is {context!r}, expected mx.cpu(), mx.gpu(i) or a "
                            "list of them")
        self._work_load_list = list(work_load_list or [1] * len(self._context))
        if len(self._work_load_list) != len(self._context):
            raise MXNetError(f"Module: {len(self._work_load_list)} work loads for "
                             f"{len(self._context)} contexts")
        if group2ctxs or compression_params:
            raise MXNetError("Module: group2ctxs and compression_params are not available; leave "
                             "them unset")
        self._symbol = symbol
        self._data_names, self._label_names = list(data_names or []), list(label_names or [])
        self._state_names = list(state_names or [])
        self._fixed_param_names = list(fixed_param_names or [])
        for names, kind, throw in ((self._data_names, "data", True),
                                   (self._label_names, "label", False),
                                   (self._state_names, "state", True),
                                   (self._fixed_param_names, "fixed_param", True)):
            _check_input_names(symbol, names, kind, throw)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._arg_params: dict[str, Any] | None = None
        self._aux_params: dict[str, Any] | None = None
        self._params_dirty = False
        self._optimizer: Any = None
        self._kvstore: Any = None
        self._update_on_kvstore = False
        self._updater: Any = None
        self._preload_opt_states: str | None = None
        self._reset_bind()

    def _reset_bind(self) -> None:
        """Forget the executors."""
        self.binded = False
        self._exec_group: Any = None
        self._data_shapes: list[DataDesc] | None = None
        self._label_shapes: list[DataDesc] | None = None

    # -- checkpoints ------------------------------------------------------------------------

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """A Module from a checkpoint; `kwargs` go to the constructor."""
        symbol, args, auxs = load_checkpoint(prefix, epoch)
        module = Module(symbol=symbol, **kwargs)
        module._arg_params, module._aux_params = args, auxs
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = True) -> None:
        """Write `<prefix>-symbol.json`, `<prefix>-<epoch>.params` and, on demand, `.states`."""
        arg_params, aux_params = self.get_params()
        save_checkpoint(prefix, epoch, self.symbol, arg_params, aux_params, remove_amp_cast)
        if save_optimizer_states:
            name = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(name)
            self.logger.info('Saved optimizer state to "%s"', name)

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

    def get_params(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(arg_params, aux_params) as NDArrays on the CPU."""
        self._require("params_initialized")
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None and self._aux_params is not None
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self) -> None:
        self._exec_group.get_params(self._arg_params, self._aux_params)
        self._params_dirty = False

    def init_params(self, initializer: Any = Uniform(0.01), arg_params: Any = None,  # noqa: B008
                    aux_params: Any = None, allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        """Fill parameters: from `arg_params`/`aux_params` where given, else by `initializer`.

        A parameter missing from given dicts is an error unless `allow_missing`.  Names the symbol
        does not have are ignored, whatever `allow_extra` says, as in MXNet: checkpoints of whole
        networks are given to parts of them.
        """
        if self.params_initialized and not force_init:
            if arg_params or aux_params:
                self.logger.warning("init_params: already initialised, so the given parameters are "
                                    "ignored; pass force_init=True to use them")
            return
        self._require("binded")
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None and self._aux_params is not None
        attrs = self._symbol.attr_dict()
        for own, given in ((self._arg_params, arg_params), (self._aux_params, aux_params)):
            for name in sorted(own):
                self._init_one(InitDesc(name, attrs.get(name)), own[name], given, initializer,
                               allow_missing)
        self.params_initialized = True
        self._exec_group.set_params(self._arg_params, self._aux_params)

    @staticmethod
    def _init_one(desc: Any, array: Any, given: Any, initializer: Any, allow_missing: bool) -> None:
        """Fill one host array."""
        if given is not None and desc in given:
            value = given[desc]
            if value is not array:
                if value.shape != array.shape:
                    raise MXNetError(f"init_params: {desc} has shape {value.shape}, the symbol "
                                     f"expects {array.shape}")
                value.astype(array.dtype).copyto(array)
        elif given is not None and not allow_missing:
            raise MXNetError(f"{desc} is not presented{did_you_mean(desc, given)}; pass "
                             "allow_missing=True to initialise it")
        elif initializer is not None:
            initializer(desc, array)

    def set_params(self, arg_params: Any, aux_params: Any, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Assign parameters by name; with `allow_missing` the others keep their values.

        With `allow_missing`, names the symbol does not have are a ValueError unless `allow_extra`;
        without it they are ignored (so MXNet has it).
        """
        if not allow_missing:
            self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            return
        self._require("binded")
        self._exec_group.set_params(arg_params, aux_params, allow_extra=allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    # -- binding ----------------------------------------------------------------------------

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: Any = None,
             grad_req: Any = "write") -> None:
        """Allocate executors for inputs of these shapes; parameters keep their values."""
        if force_rebind:
            if self.binded and self._params_dirty:
                self._sync_params_from_devices()
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise MXNetError("bind: inputs_need_grad=True needs for_training=True")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req = grad_req
        self._data_shapes, self._label_shapes = _parse_data_desc(
            self._data_names, self._label_names, data_shapes, label_shapes)
        shared_group = None
        if shared_module is not None:
            shared_module._require("binded", "params_initialized")
            shared_group = shared_module._exec_group
        self._exec_group = DataParallelExecutorGroup(
            self._symbol, self._context, self._work_load_list, self._data_shapes,
            self._label_shapes, self._param_names, for_training, inputs_need_grad, shared_group,
            logger=self.logger, fixed_param_names=self._fixed_param_names, grad_req=grad_req,
            state_names=self._state_names)
        self.binded = True
        if shared_module is not None:
            self.params_initialized = True
            self._arg_params = shared_module._arg_params
            self._aux_params = shared_module._aux_params
            self._params_dirty = shared_module._params_dirty
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self.params_initialized:
            self._exec_group.set_params(self._arg_params, self._aux_params)
        else:
            group = self._exec_group
            self._arg_params = _host_arrays(group.param_names, group.param_arrays)
            self._aux_params = _host_arrays(group.aux_names, group.aux_arrays)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Change the input shapes, keeping parameters and optimizer."""
        self._require("binded")
        data, labels = _parse_data_desc(self._data_names, self._label_names, data_shapes,
                                        label_shapes)
        self._exec_group.reshape(data, labels)
        self._data_shapes, self._label_shapes = data, labels

    # -- optimizer --------------------------------------------------------------------------

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Create the optimizer and connect it to the key-value store.

        Gradients are scaled by 1/batch size unless `rescale_grad` is among `optimizer_params`.
        """
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None
        store, update_on_kvstore = _create_kvstore(kvstore, len(self._context), self._arg_params)
        self._optimizer = self._make_optimizer(optimizer, optimizer_params, update_on_kvstore)
        self._kvstore, self._update_on_kvstore = store, update_on_kvstore
        self._updater = None
        if store is not None:
            if update_on_kvstore:
                store.set_optimizer(self._optimizer)
            _initialize_kvstore(store, self._exec_group.param_arrays, self._arg_params,
                                self._exec_group.param_names, update_on_kvstore)
        if not update_on_kvstore:
            self._updater = opt.get_updater(self._optimizer)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def _make_optimizer(self, optimizer: Any, params: Any, update_on_kvstore: bool) -> Any:
        """The optimizer, from its name and parameters or as given."""
        rescale = 1.0 / (self._exec_group.batch_size or 1)
        idx2name = self._index_names(update_on_kvstore)
        if isinstance(optimizer, str):
            params = {"rescale_grad": rescale, **dict(params)}
            return opt.create(optimizer, sym=self.symbol, param_idx2name=idx2name, **params)
        if not isinstance(optimizer, opt.Optimizer):
            raise TypeError(f"init_optimizer: optimizer is a {type(optimizer).__name__}, expected "
                            "a name or an mx.optimizer.Optimizer")
        if optimizer.rescale_grad != rescale:
            self.logger.warning("Optimizer created manually outside Module but rescale_grad is "
                                "not normalized to 1.0/batch_size/num_workers (%s vs. %s). Is "
                                "this intended?", optimizer.rescale_grad, rescale)
        if not optimizer.idx2name:
            optimizer.idx2name = idx2name.copy()
        return optimizer

    def _index_names(self, update_on_kvstore: bool) -> dict[Any, str]:
        """Updater key -> parameter name."""
        names = self._exec_group.param_names
        if update_on_kvstore:  # where the keys are the names themselves
            return dict(enumerate(names))
        count = len(self._context)
        return {i * count + k: name for i, name in enumerate(names) for k in range(count)}

    def borrow_optimizer(self, shared_module: Any) -> None:
        """Use the optimizer, store and updater of another module."""
        shared_module._require("optimizer_initialized")
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self.optimizer_initialized = True

    # -- computing --------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run forward; a batch of other shapes than the last one rebinds first."""
        self._require("binded", "params_initialized")
        shapes = tuple(tuple(array.shape) for array in data_batch.data)
        if shapes != tuple(tuple(desc.shape) for desc in self._exec_group.data_shapes):
            self.reshape(*self._shapes_of(data_batch, shapes))
        self._exec_group.forward(data_batch, is_train)

    def _shapes_of(self, batch: Any, shapes: Sequence[tuple[int, ...]]
                   ) -> tuple[list[DataDesc], list[DataDesc] | None]:
        """Descriptions of a batch: its own, or the bound ones with its shapes."""
        data = getattr(batch, "provide_data", None) or _with_shapes(self.data_shapes, shapes)
        labels = getattr(batch, "provide_label", None)
        if not labels and self._label_shapes:
            given = getattr(batch, "label", None)
            labels = (_with_shapes(self._label_shapes, [array.shape for array in given]) if given
                      else _with_batch_size(self._label_shapes, self._batch_size(shapes[0])))
        return data, labels

    def _batch_size(self, shape: Sequence[int]) -> int:
        """Number of samples in a first input of this shape."""
        return shape[max(DataDesc.get_batch_axis(self.data_shapes[0].layout), 0)]

    def backward(self, out_grads: Any = None) -> None:
        """Run backward."""
        self._require("binded", "params_initialized")
        self._exec_group.backward(out_grads=out_grads)

    def update(self) -> None:
        """Let the optimizer use the gradients of the last backward."""
        self._require("binded", "params_initialized", "optimizer_initialized")
        self._params_dirty = True
        group = self._exec_group
        if self._update_on_kvstore:
            _update_params_on_kvstore(group.param_arrays, group.grad_arrays, self._kvstore,
                                      group.param_names)
        else:
            _update_params(group.param_arrays, group.grad_arrays, self._updater,
                           len(self._context), self._kvstore, group.param_names)

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last forward; overwritten by the next one."""
        self._require("binded", "params_initialized")
        return self._exec_group.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the data inputs after backward (needs `inputs_need_grad`)."""
        self._require("binded", "params_initialized")
        return self._exec_group.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Values of the state inputs."""
        self._require("binded", "params_initialized")
        return self._exec_group.get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the state inputs."""
        self._require("binded", "params_initialized")
        self._exec_group.set_states(states, value)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update `eval_metric` with the outputs of the last forward."""
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Let `mon` watch the executors."""
        self._require("binded")
        self._exec_group.install_monitor(mon)

    # -- optimizer states -------------------------------------------------------------------

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states."""
        self._require("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
        else:
            with atomic_write(fname) as file:
                file.write(self._updater.get_states())

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states."""
        self._require("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
        else:
            with open(fname, "rb") as file:
                self._updater.set_states(file.read())


def _host_arrays(names: Sequence[str], arrays: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Zeros on the CPU like the first device's array of every name."""
    return {name: zeros(copies[0].shape, dtype=copies[0].dtype)
            for name, copies in zip(names, arrays, strict=True)}


def _with_shapes(descs: Sequence[DataDesc], shapes: Sequence[Any]) -> list[DataDesc]:
    if len(descs) != len(shapes):
        raise MXNetError(f"the batch has {len(shapes)} arrays, the module was bound with "
                         f"{len(descs)}: {[desc.name for desc in descs]}")
    return [DataDesc(desc.name, shape, desc.dtype, desc.layout)
            for desc, shape in zip(descs, shapes, strict=True)]


def _with_batch_size(descs: Sequence[DataDesc], size: int) -> list[DataDesc]:
    """Labels of a batch that brings none, at the batch's size."""
    resized = []
    for desc in descs:
        axis = DataDesc.get_batch_axis(desc.layout)
        shape = list(desc.shape)
        if axis >= 0:
            shape[axis] = size
        resized.append(DataDesc(desc.name, tuple(shape), desc.dtype, desc.layout))
    return resized
