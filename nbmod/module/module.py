"""`Module`: one symbol, its parameters, and what trains them.

Parameters live twice.  `_arg_params` and `_aux_params` are the host copies that users get and set;
the executors' argument arrays are what training changes.  `_params_dirty` says that the executors
are ahead; `get_params` then brings the host copies up to date (the mean over devices).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..base import ArgumentError, MXNetError, did_you_mean, tuning, warn_user
from ..context import Context, cpu
from ..initializer import InitDesc, Uniform
from ..io import DataDesc
from ..model import load_checkpoint
from ..ndarray import NDArray, zeros
from .arguments import (
    _check_input_names,
    _parse_data_desc,
    as_descs,
    groups_by_context,
    name_list,
)
from .batches import samples_in, with_samples, with_shapes
from .executor_group import DataParallelExecutorGroup
from .optimization import OptimizedModule

__all__ = ["Module"]


class Module(OptimizedModule):
    """A network given by `symbol`, computed on one or several contexts.

    `data_names` and `label_names` are the inputs a batch brings; `fixed_param_names` are not
    trained; `state_names` are inputs that keep their values from batch to batch.  All other
    arguments of the symbol are parameters.  `group2ctxs` puts parts of the network on contexts of
    their own: a context by `ctx_group`, or a list with one for every context of the module, or a
    list of such dicts.
    """

    def __init__(self, symbol: Any, data_names: Sequence[str] | None = ("data",),
                 label_names: Sequence[str] | None = ("softmax_label",), logger: Any = logging,
                 context: Context | Sequence[Context] | None = None,
                 work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None, group2ctxs: Any = None,
                 compression_params: Any = None):
        super().__init__(logger, compression_params)
        if not hasattr(symbol, "list_arguments"):
            raise TypeError(f"Module: symbol is a {type(symbol).__name__}, expected a Symbol (read "
                            "one from a file with mx.sym.load)")
        context = cpu() if context is None else context
        self._context = [context] if isinstance(context, Context) else list(context)
        if not self._context or not all(isinstance(one, Context) for one in self._context):
            raise TypeError(f"Module: context is {context!r}, expected mx.cpu(), mx.gpu(i) or a "
                            "list of them")
        self._work_load_list = list(work_load_list or [1] * len(self._context))
        if len(self._work_load_list) != len(self._context):
            raise MXNetError(f"Module: {len(self._work_load_list)} work loads for "
                             f"{len(self._context)} contexts")
        self._group2ctxs = groups_by_context(group2ctxs, len(self._context))
        self._symbol = symbol
        self._data_names = name_list("data_names", data_names)
        self._label_names = name_list("label_names", label_names)
        self._state_names = name_list("state_names", state_names)
        self._fixed_param_names = name_list("fixed_param_names", fixed_param_names)
        for names, kind, throw in ((self._data_names, "data", True),
                                   (self._label_names, "label", False),
                                   (self._state_names, "state", True),
                                   (self._fixed_param_names, "fixed_param", True)):
            _check_input_names(symbol, names, kind, throw)
        inputs = [*self._data_names, *self._label_names, *self._state_names]
        twice = sorted({name for name in inputs if inputs.count(name) > 1})
        if twice:
            raise ArgumentError(f"Module: {twice} stand twice among data_names, label_names and "
                                f"state_names: {inputs}")
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._arg_params: dict[str, Any] | None = None
        self._aux_params: dict[str, Any] | None = None
        self._params_dirty = False
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
        return Module._from_checkpoint(prefix, epoch, load_optimizer_states, kwargs)

    @classmethod
    def _from_checkpoint(cls, prefix: str, epoch: int, load_optimizer_states: bool,
                         options: dict[str, Any]) -> Any:
        symbol, args, auxs = load_checkpoint(prefix, epoch)
        module = cls(symbol=symbol, **options)
        module._arg_params, module._aux_params = args, auxs
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = True) -> None:
        """Write `<prefix>-symbol.json`, `<prefix>-<epoch>.params` and, on demand, `.states`.

        Beside optimizer states stands `.resume`, for training to go on exactly (`module.resume`).
        """
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        name = f"{prefix}-{epoch:04d}.params"
        self.save_params(name)
        logging.info('Saved checkpoint to "%s"', name)
        if save_optimizer_states:
            self._save_states(f"{prefix}-{epoch:04d}", epoch)

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
            warn_user("Parameters already initialized and force_init=False. init_params call "
                      "ignored.")
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
        self._params_were_set(self._arg_params)

    @staticmethod
    def _init_one(desc: Any, array: Any, given: Any, initializer: Any, allow_missing: bool) -> None:
        """Fill one host array."""
        if given is not None and desc in given:
            value = given[desc]
            if value is not array:
                if not isinstance(value, NDArray):
                    raise TypeError(f"init_params: {desc} is a {type(value).__name__}, expected an "
                                    "NDArray; make one with mx.nd.array")
                if value.shape != array.shape:
                    raise MXNetError(f"init_params: {desc} has shape {value.shape}, the symbol "
                                     f"expects {array.shape}")
                value.astype(array.dtype).copyto(array)
        elif given is not None and not allow_missing:
            raise MXNetError(f"{desc} is not presented{did_you_mean(desc, given)}; {_advice(desc)}")
        elif initializer is not None:
            if not callable(initializer):
                raise TypeError(f"init_params: initializer is {initializer!r}, expected one such "
                                "as mx.init.Xavier()")
            try:
                initializer(desc, array)
            except MXNetError as error:
                label = f"; {_advice(desc)}" if desc.endswith("label") else ""
                raise ArgumentError(f"init_params: {desc}: {error}{label}") from None

    def set_params(self, arg_params: Any, aux_params: Any, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Assign parameters by name; with `allow_missing` the others keep their values.

        With `allow_missing`, names the symbol does not have are a ValueError unless `allow_extra`;
        without it they are ignored (so MXNet has it).
        """
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warn_user("Parameters already initialized and force_init=False. set_params call "
                      "ignored.")
            return
        self._require("binded")
        self._exec_group.set_params(arg_params, aux_params, allow_extra=allow_extra)
        self._params_were_set(arg_params or {})
        self._params_dirty = True
        self.params_initialized = True

    # -- binding ----------------------------------------------------------------------------

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: Any = None,
             grad_req: Any = "write", tune: bool = False) -> None:
        """Allocate executors for inputs of these shapes; parameters keep their values.

        With `tune` algorithms of convolutions are measured, as in `Symbol.simple_bind`.
        """
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
        with tuning(tune):
            self._exec_group = DataParallelExecutorGroup(
                self._symbol, self._context, self._work_load_list, self._data_shapes,
                self._label_shapes, self._param_names, for_training, inputs_need_grad,
                self._group_of(shared_module), logger=self.logger,
                fixed_param_names=self._fixed_param_names, grad_req=grad_req,
                state_names=self._state_names, group2ctxs=self._group2ctxs)
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

    def _group_of(self, shared_module: Any) -> Any:
        """The executors whose parameters are shared; None if there is no such module."""
        if shared_module is None:
            return None
        if not isinstance(shared_module, Module):
            raise TypeError(f"bind: shared_module is a {type(shared_module).__name__}, expected a "
                            "Module")
        shared_module._require("binded", "params_initialized")
        group = shared_module._exec_group
        if len(group.execs) < len(self._context):
            raise MXNetError(f"bind: shared_module runs on {len(group.execs)} context(s), this "
                             f"module on {len(self._context)}")
        return group

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Change the input shapes, keeping parameters and optimizer."""
        self._require("binded")
        data, labels = _parse_data_desc(self._data_names, self._label_names, data_shapes,
                                        label_shapes)
        self._exec_group.reshape(data, labels)
        self._data_shapes, self._label_shapes = data, labels

    # -- computing --------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run forward; a batch of other shapes than the last one rebinds first.

        A list of batches gives one to each device; their shapes may differ.
        """
        self._require("binded", "params_initialized")
        group = self._exec_group
        if not group.fits(data_batch):
            if isinstance(data_batch, list):
                group.reshape_each([self._descriptions(part) for part in data_batch])
            else:
                data, labels = self._descriptions(data_batch)
                group.reshape(as_descs(getattr(data_batch, "provide_data", None)) or data,
                              as_descs(getattr(data_batch, "provide_label", None)) or labels)
            self._data_shapes, self._label_shapes = group.data_shapes, group.label_shapes
        group.forward(data_batch, is_train)

    def _descriptions(self, batch: Any) -> tuple[list[DataDesc], list[DataDesc] | None]:
        """The (data, label) descriptions of the last batch, with the shapes of this one."""
        shapes = [array.shape for array in batch.data]
        data, given = with_shapes(self.data_shapes, shapes), getattr(batch, "label", None)
        if not self._label_shapes:
            return data, None
        if given:
            return data, with_shapes(self._label_shapes, [array.shape for array in given])
        return data, with_samples(self._label_shapes, samples_in(data))

    def backward(self, out_grads: Any = None) -> None:
        """Run backward."""
        self._require("binded", "params_initialized")
        self._exec_group.backward(out_grads=out_grads)

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last forward; overwritten by the next one."""
        self._require("binded", "params_initialized")
        return self._exec_group.get_outputs(merge_multi_context)

    def _output_axes(self, count: int) -> list[int]:
        return self._exec_group.output_layouts

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


def _advice(name: str) -> str:
    """What to do about a parameter without a value."""
    if name.endswith("label"):
        return "if it is a label, name it in Module's label_names, and the iterator's label_name"
    return "pass allow_missing=True to initialise it"


def _host_arrays(names: Sequence[str], arrays: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Zeros on the CPU like the first device's array of every name."""
    return {name: zeros(copies[0].shape, dtype=copies[0].dtype)
            for name, copies in zip(names, arrays, strict=True)}
