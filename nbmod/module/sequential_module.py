"""`SequentialModule`: a chain of modules; the outputs of each are the data of the next.

`_modules[i]` was added with the options `_metas[i]`: whether it gets the batch's labels, and
whether it takes its inputs by position instead of by name.  Forward runs from first to last with
outputs as data, backward from last to first with input gradients as head gradients; every module
has its own parameters and optimizer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..base import ArgumentError, CheckError, MXNetError, did_you_mean
from ..callback.monitor import Monitor
from ..core.config import numpy_first, tuning
from ..initializer import Uniform
from ..io import DataBatch, DataDesc
from ..metric import EvalMetric
from ..ndarray import NDArray
from .arguments import (
    GradReq,
    Grads,
    InitFunction,
    KVStoreLike,
    Labels,
    OptimizerLike,
    OptimizerParams,
    Outputs,
    Params,
    Shapes,
)
from .base_module import BaseModule
from .batch_shapes import as_descs

if TYPE_CHECKING:
    from ..core.log import Logger
    from ..executor import Executor
    from ..optimizer import Optimizer
    from .module_interface import ModuleInterface

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """A chain of modules: the outputs of each are the data of the next.

    Modules are appended by `add`. Each has its own parameters and optimizer; names of parameters
    must differ between modules.

    Parameters
    ----------
    logger : logging.Logger, optional
        Where progress and warnings are logged; the root logger by default.

    Examples
    --------
    >>> double = mx.mod.Module(mx.sym.Variable("data") * 2, label_names=None)
    >>> minus = mx.mod.Module(mx.sym.Variable("data") - 1, label_names=None)
    >>> chain = mx.mod.SequentialModule().add(double).add(minus, auto_wiring=True)
    >>> chain.bind([("data", (1, 2))], for_training=False)
    >>> chain.init_params()
    >>> chain.forward(mx.io.DataBatch([mx.nd.array([[3, 4]])]))
    >>> chain.get_outputs()[0].asnumpy().tolist()
    [[5.0, 7.0]]
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Logger = logging):
        super().__init__(logger=logger)
        self._modules: list[BaseModule] = []
        self._metas: list[dict[str, bool]] = []
        self._meta_keys = {self.META_TAKE_LABELS, self.META_AUTO_WIRING}
        self._label_shapes: Shapes = None

    def add(self, module: BaseModule, **kwargs: bool) -> SequentialModule:
        """Append a module and return the chain, which must be bound (again) afterwards.

        Parameters
        ----------
        module : BaseModule
            The module.
        **kwargs
            ``take_labels=True`` gives it the labels of the batch, for losses and metrics.
            ``auto_wiring=True`` connects the outputs of the previous module to its inputs in their
            order; without it they must have the same names.

        Raises
        ------
        ArgumentError
            If an option is unknown.
        """
        if not isinstance(module, BaseModule):
            raise TypeError(f"SequentialModule: add got a {type(module).__name__}, expected a "
                            "module")
        for key in kwargs:
            if key not in self._meta_keys:
                raise CheckError(f"SequentialModule: unknown option {key!r} of add"
                                 f"{did_you_mean(key, self._meta_keys)} There are "
                                 f"{sorted(self._meta_keys)}")
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    def _takes_labels(self, i: int) -> bool:
        return bool(self._metas[i].get(self.META_TAKE_LABELS))

    def _place(self, i: int) -> str:
        """The name of the i-th module in messages."""
        return f"module {i} ({type(self._modules[i]).__name__})"

    # -- description ------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """Names of the first module's inputs."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        """Names of the last module's outputs."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._require("binded")
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Shapes:  # type: ignore[override]  # may be None
        """Labels as given to `bind`, None if no module takes labels."""
        self._require("binded")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._require("binded")
        return self._modules[-1].output_shapes

    # -- binding ----------------------------------------------------------------------------

    def bind(self, data_shapes: Shapes, label_shapes: Shapes = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: ModuleInterface | None = None, grad_req: GradReq = "write",
             tune: bool = False) -> None:
        """Bind every module to the output shapes of the previous one.

        A module that is bound already is bound again; its parameters and optimizer stay.
        `shared_module` is not supported.
        """
        if self.binded and not force_rebind:
            self._ignore("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise MXNetError("SequentialModule: inputs_need_grad=True needs for_training=True")
        if shared_module is not None:
            raise MXNetError("SequentialModule: bind takes no shared_module; share the modules")
        if not self._modules:
            raise CheckError("SequentialModule: there is nothing to bind; add modules first")
        self.binded = False
        shapes = data_shapes
        for i, module in enumerate(self._modules):
            labels = label_shapes if self._takes_labels(i) else None
            with tuning(tune):
                module.bind(self._wired(i, shapes), labels, for_training,
                            bool(for_training and (inputs_need_grad or i > 0)),
                            force_rebind or module.binded, grad_req=grad_req)
            shapes = module.output_shapes
        takes = any(map(self._takes_labels, range(len(self._modules))))
        self._label_shapes = label_shapes if takes else None
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.binded = True

    def _wired(self, i: int, shapes: Shapes) -> list[DataDesc]:
        """Descriptions of the i-th module's inputs, from those of its data."""
        descs, names = as_descs(shapes), self._modules[i].data_names
        provided = [desc.name for desc in descs]
        if self._metas[i].get(self.META_AUTO_WIRING):
            if len(names) != len(provided):
                raise MXNetError(f"SequentialModule: {self._place(i)} has inputs {names}, but gets "
                                 f"{len(provided)}: {provided}")
            return [DataDesc(name, desc.shape, desc.dtype, desc.layout)
                    for name, desc in zip(names, descs, strict=True)]
        if i > 0 and sorted(names) != sorted(provided):
            raise ArgumentError(f"SequentialModule: {self._place(i)} has inputs {names}, but "
                                f"{self._place(i - 1)} gives {provided}; add it with "
                                "auto_wiring=True to connect them in their order")
        return descs

    # -- parameters and optimizer -----------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        self._require("params_initialized")
        args: dict[str, NDArray] = {}
        auxs: dict[str, NDArray] = {}
        for module in self._modules:
            for own, all_of_them in zip(module.get_params(), (args, auxs), strict=True):
                all_of_them.update(own)
        return args, auxs

    def init_params(self, initializer: InitFunction = Uniform(0.01),  # noqa: B008
                    arg_params: Params = None, aux_params: Params = None,
                    allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        """Initialize the parameters of every module; their names must differ."""
        if self.params_initialized and not force_init:
            return
        self._require("binded")
        for module in self._modules:
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init,
                               allow_extra)
        self._require_own_names()
        self.params_initialized = True

    def _require_own_names(self) -> None:
        owner: dict[tuple[str, str], int] = {}
        for i, module in enumerate(self._modules):
            for kind, params in zip(("arg", "aux"), module.get_params(), strict=True):
                for name in params:
                    first = owner.setdefault((kind, name), i)
                    if first != i:
                        raise MXNetError(
                            f"SequentialModule: Duplicated parameter names: {name!r} of "
                            f"{self._place(i)} is already used in {self._place(first)}; give each "
                            "a name of its own")

    def init_optimizer(self, kvstore: KVStoreLike = "local", optimizer: OptimizerLike = "sgd",
                       optimizer_params: OptimizerParams = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Create an optimizer for every module; an object is shared by all."""
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self._ignore_optimizer(self._modules, optimizer, optimizer_params)
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    # -- computing --------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch,  # type: ignore[override]  # not a list
                is_train: bool | None = None) -> None:
        """Compute the outputs of all modules, from first to last."""
        self._require("binded", "params_initialized")
        with self._turns.lock:
            self._forward_each(data_batch, is_train)

    def _forward_each(self, data_batch: DataBatch, is_train: bool | None) -> None:
        data, shapes = data_batch.data, getattr(data_batch, "provide_data", None)
        for i, module in enumerate(self._modules):
            labels = provided = None
            if self._takes_labels(i):
                labels = getattr(data_batch, "label", None)
                provided = getattr(data_batch, "provide_label", None)
            batch = DataBatch(
                data, labels, getattr(data_batch, "pad", None), getattr(data_batch, "index", None),
                getattr(data_batch, "bucket_key", None), shapes and self._wired(i, shapes),
                provided)
            with numpy_first(False):    # all modules compute a batch in one form
                module.forward(batch, is_train=is_train)
            if i + 1 < len(self._modules):
                data = module.get_outputs()
                shapes = [(name, array.shape) for name, array in
                          zip(module.output_names, data, strict=True)]

    def backward(self, out_grads: Grads = None) -> None:
        """Compute the gradients of all modules, from last to first."""
        self._require("binded", "params_initialized")
        for i in reversed(range(len(self._modules))):
            self._modules[i].backward(out_grads=out_grads)
            if i > 0:
                out_grads = self._modules[i].get_input_grads()

    def update(self) -> None:
        self._require("binded", "params_initialized", "optimizer_initialized")
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Outputs:
        """Get the outputs of the last module."""
        self._require("binded", "params_initialized")
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        """Get the gradients of the first module's data."""
        self._require("binded", "params_initialized")
        if not self.inputs_need_grad:
            raise MXNetError("get_input_grads: bind with inputs_need_grad=True first")
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: EvalMetric, labels: Labels, pre_sliced: bool = False
                      ) -> None:
        """Update a metric by the outputs of every module that takes labels."""
        self._require("binded", "params_initialized")
        for i, module in enumerate(self._modules):
            if self._takes_labels(i):
                module.update_metric(eval_metric, labels, pre_sliced)

    def _executors(self) -> list[Executor]:
        return [executor for module in self._modules for executor in module._executors()]

    def _optimizers(self) -> list[Optimizer]:
        return [one for module in self._modules for one in module._optimizers()]

    def _param_gradients(self) -> list[list[NDArray]]:
        return [copies for module in self._modules for copies in module._param_gradients()]

    def install_monitor(self, mon: Monitor) -> None:
        self._require("binded")
        for module in self._modules:
            module.install_monitor(mon)
