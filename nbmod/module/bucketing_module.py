"""`BucketingModule`: one network per bucket of input lengths, one set of parameters.

`sym_gen` creates the network for a bucket key.  `_buckets` maps every key so far to a `Module`;
`_curr_module` is the one that ran last.  The default bucket's module is bound first and owns what
all others borrow when their key first occurs: parameters (the same arrays on every device), the
optimizer with its states, and one arena for intermediates, as large as the largest bucket needs.
So every parameter of every bucket must be a parameter of the default bucket, and through its
module all of them are read and written, whichever bucket trained last.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from .. import symbol as sym
from ..base import ArgumentError, CheckError, MXNetError
from ..callback.monitor import Monitor
from ..checkpoint import load_params
from ..context import cpu
from ..core.atomic import finish_sets
from ..core.integrity import verify_checkpoint
from ..initializer import Uniform
from ..io import DataDesc
from ..metric import EvalMetric
from ..ndarray import NDArray
from ..optimizer import Optimizer
from ..symbol import Symbol
from ..symbol.name import NameManager
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
)
from .bucket_keys import _read_keys
from .module import Module
from .resume import states_of_one_step
from .saved_buckets import SavedBuckets, SymbolFunction

if TYPE_CHECKING:

    from ..base import Forwarded
    from ..core.log import Logger
    from ..executor import Executor
    from .module_interface import ModuleInterface

__all__ = ["BucketingModule"]

class BucketingModule(SavedBuckets):
    """Several networks that share their parameters, such as unrolled RNNs of several lengths.

    A batch names its network in `bucket_key`, and its shapes in `provide_data` and
    `provide_label`; without a key it belongs to the default bucket. Networks are created when
    their keys first occur. Outputs of a bucket stay until the same bucket runs again.

    Parameters
    ----------
    sym_gen : callable
        Function of a bucket key that returns ``(symbol, data_names, label_names)``.
    default_bucket_key : hashable
        Bucket that is bound first; required. Its network has all parameters. Best the largest, so
        that memory is allocated once.
    logger : logging.Logger, optional
        Where progress and warnings are logged; the root logger by default.
    context : Context or list of Context, default cpu()
        Where to compute.
    work_load_list : list of float, optional
        Relative share of each batch that each context computes; equal by default.
    fixed_param_names : list of str, optional
        Parameters that are not trained.
    state_names : list of str, optional
        Inputs that are not part of batches and keep their values between them, also across buckets
        if their shapes agree.
    group2ctxs : dict or list of dict, optional
        Context by ``ctx_group``, as for `Module`.
    compression_params : dict, optional
        Gradient compression, as for `Module`.

    Raises
    ------
    MXNetError
        If `default_bucket_key` is missing or `sym_gen` fails for it.

    Examples
    --------
    >>> def sym_gen(length):
    ...     net = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
    ...     net = mx.sym.FullyConnected(net, num_hidden=1, no_bias=True, name="fc")
    ...     return net, ["data"], None
    >>> module = mx.mod.BucketingModule(sym_gen, default_bucket_key=4)
    >>> module.bind([("data", (1, 4))], for_training=False)
    >>> module.init_params(mx.init.One())
    >>> for length in (4, 2):
    ...     module.forward(mx.io.DataBatch([mx.nd.ones((1, length))], bucket_key=length,
    ...                                    provide_data=[("data", (1, length))]))
    ...     print(length, module.get_outputs()[0].asscalar())
    4 4.0
    2 2.0
    """

    def __init__(self, sym_gen: SymbolFunction, default_bucket_key: Hashable = None,
                 logger: Logger = logging, context: Contexts = None,
                 work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None, group2ctxs: ContextGroups = None,
                 compression_params: Mapping[str, object] | None = None):
        super().__init__(logger=logger)
        if default_bucket_key is None:
            raise CheckError("BucketingModule: give default_bucket_key, the key of the bucket to "
                             "bind first (one with all parameters, best the largest)")
        if not callable(sym_gen):
            raise MXNetError(f"BucketingModule: sym_gen is a {type(sym_gen).__name__}, expected a "
                             "function of the bucket key")
        self._sym_gen, self._default_bucket_key = sym_gen, default_bucket_key
        self._context = cpu() if context is None else context
        self._work_load_list = work_load_list
        self._fixed_param_names = list(fixed_param_names or [])
        self._state_names = list(state_names or [])
        self._group2ctxs, self._compression_params = group2ctxs, compression_params
        self._buckets: dict[Hashable, Module] = {}
        self._curr_module: Module = None  # type: ignore[assignment]  # until it is bound
        self._curr_bucket_key: Hashable = None
        self._monitor: Monitor | None = None
        self._grad_req: GradReq = None  # type: ignore[assignment]  # until it is bound
        self._tune = False
        self._create_module(default_bucket_key)  # mistakes in names should show here, not at bind

    def with_sym_gen(self, sym_gen: SymbolFunction) -> BucketingModule:
        """Return an unbound module with the same contexts and settings for other networks.

        Parameters
        ----------
        sym_gen : callable
            As in the constructor.
        """
        return BucketingModule(sym_gen, self._default_bucket_key, self.logger, self._context,
                               self._work_load_list, self._fixed_param_names, self._state_names,
                               self._group2ctxs, self._compression_params)

    # -- buckets ----------------------------------------------------------------------------

    def _create_module(self, key: Hashable, symbol: Symbol | None = None) -> Module:
        """Create the module of a bucket, unbound, from `symbol` or else from `sym_gen`."""
        try:
            with NameManager():  # layers without a name have the same names in every bucket
                network = self._sym_gen(key)
        except Exception as error:
            if hasattr(error, "add_note"):  # Python 3.11
                error.add_note(f"BucketingModule: raised by sym_gen for bucket_key {key!r}; "
                               "batches must carry keys that sym_gen knows")
            raise
        if not isinstance(network, (tuple, list)) or len(network) != 3:
            raise ArgumentError(f"BucketingModule: sym_gen({key!r}) gave a "
                                f"{type(network).__name__}, expected (symbol, data_names, "
                                "label_names)")
        return Module(network[0] if symbol is None else symbol, network[1], network[2],
                      logger=self.logger, context=self._context,
                      work_load_list=self._work_load_list,
                      fixed_param_names=self._fixed_param_names, state_names=self._state_names,
                      group2ctxs=self._group2ctxs, compression_params=self._compression_params)

    def _bucket_of(self, batch: Batch) -> tuple[Hashable, Shapes, Shapes]:
        """The key of a batch's bucket, and the batch's provide_data and provide_label (or None)."""
        key, data, label = (getattr(batch, name, None)
                            for name in ("bucket_key", "provide_data", "provide_label"))
        return self._default_bucket_key if key is None else key, data, label

    def _bound(self, key: Hashable, data_shapes: Shapes, label_shapes: Shapes) -> Module:
        """The module of a bucket, bound to these shapes if it has not been bound before."""
        module = self._buckets[key] if key in self._buckets else self._create_module(key)
        if module.binded:
            return module
        self._require("params_initialized")
        if data_shapes is None:
            raise MXNetError(f"BucketingModule: bucket_key {key!r} comes for the first time, but "
                             "its batch has no provide_data; give DataBatch bucket_key, "
                             "provide_data and provide_label")
        default = self._default()
        missing = sorted({*module._param_names} - {*default._param_names})
        if missing:
            raise MXNetError(f"BucketingModule: bucket {key!r} has {missing}, which the default "
                             f"bucket {self._default_bucket_key!r} lacks; make the bucket with "
                             "all parameters the default one, and name inputs in data_names, "
                             "label_names or state_names")
        module.bind(data_shapes, label_shapes, default.for_training, default.inputs_need_grad,
                    shared_module=default, grad_req=self._grad_req, tune=self._tune)
        if self.optimizer_initialized:
            module._borrow_by_name(default)
        if self._monitor is not None:
            module.install_monitor(self._monitor)
        self._buckets[key] = module
        return module

    def _default(self) -> Module:
        """The module through which parameters are read and written."""
        module = self._buckets[self._default_bucket_key]
        module._params_dirty = self._params_dirty
        return module

    @property
    def _params_dirty(self) -> bool:
        """Whether a bucket has changed the parameters since they were last read."""
        return any(module._params_dirty for module in self._buckets.values())

    def _reset_bind(self) -> None:
        """Discard all executors; parameters and optimizer stay."""
        if self.binded and self.params_initialized:
            self.get_params()
        for module in self._buckets.values():
            module._reset_bind()
        self.binded = False
        self._curr_module = self._curr_bucket_key = None  # type: ignore[assignment]

    def bind(self, data_shapes: Shapes, label_shapes: Shapes = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: ModuleInterface | None = None, grad_req: GradReq = "write",
             tune: bool = False) -> None:
        """Bind the default bucket; others are bound when their keys first occur.

        `shared_module` is not supported: buckets share parameters among themselves.
        """
        if shared_module is not None:
            raise CheckError("BucketingModule: bind takes no shared_module; buckets share "
                             "parameters among themselves")
        if force_rebind:
            self._reset_bind()
        if self.binded:
            self._ignore("Already bound, ignoring bind()")
            return
        key = self._default_bucket_key
        module = self._buckets[key] if key in self._buckets else self._create_module(key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req,
                    tune=tune)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req, self._tune = grad_req, tune
        self._buckets[key] = self._curr_module = module
        self._turns, self._curr_bucket_key = module._turns, key
        self.binded = True
        if self._monitor is not None:
            module.install_monitor(self._monitor)

    def switch_bucket(self, bucket_key: Hashable, data_shapes: Shapes,
                      label_shapes: Shapes = None) -> None:
        """Make a bucket the current one, after binding it if its key is new.

        States (`state_names`) keep their values if they have the same shapes in both buckets.

        Parameters
        ----------
        bucket_key : hashable
            Key of the bucket.
        data_shapes, label_shapes : list of DataDesc or (str, tuple of int)
            Shapes to bind a new bucket to.
        """
        self._require("binded")
        module = self._bound(bucket_key, data_shapes, label_shapes)
        if self._state_names and module is not self._curr_module:
            states = self._curr_module.get_states(False), module.get_states(False)
            for ours, theirs in zip(*states, strict=True):
                for one, other in zip(ours, theirs, strict=True):
                    if one.shape == other.shape:
                        one.copyto(other)
        self._curr_module, self._curr_bucket_key = module, bucket_key

    def prepare(self, data_batch: Batch, sparse_row_id_fn: RowFunction = None) -> None:
        """Bind the bucket of the next batch, and prepare it; the current bucket stays."""
        self._require("binded", "params_initialized")
        module = self._bound(*self._bucket_of(data_batch))
        module.prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)

    # -- description ------------------------------------------------------------------------

    def _described(self) -> Module:
        """The current bucket's module, or one for the default bucket before bind."""
        return self._curr_module if self.binded else self._create_module(self._default_bucket_key)

    @property
    def data_names(self) -> list[str]:
        return self._described().data_names

    @property
    def output_names(self) -> list[str]:
        return self._described().output_names

    @property
    def symbol(self) -> Symbol:
        """The network of the current bucket."""
        self._require("binded")
        return self._curr_module.symbol

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._require("binded")
        return self._curr_module.data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        self._require("binded")
        return self._curr_module.label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._require("binded")
        return self._curr_module.output_shapes

    # -- parameters and optimizer -----------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        self._require("params_initialized")
        params = self._default().get_params()
        for module in self._buckets.values():
            module._params_dirty = False
        return params

    def init_params(self, initializer: InitFunction = Uniform(0.01),  # noqa: B008
                    arg_params: Params = None, aux_params: Params = None,
                    allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        """Initialize the parameters of all buckets; if they have been, nothing is done."""
        if self.params_initialized and not force_init:
            return
        self._require("binded")
        self._default().init_params(initializer, arg_params, aux_params, allow_missing, force_init,
                                    allow_extra)
        self.params_initialized = True

    def set_params(self, arg_params: Params, aux_params: Params, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        self._require("binded")
        self._default().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        self.params_initialized = True

    def init_optimizer(self, kvstore: KVStoreLike = "local", optimizer: OptimizerLike = "sgd",
                       optimizer_params: OptimizerParams = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Create one optimizer for all buckets, including those that are bound later.

        ``rescale_grad`` defaults to 1 / batch size of the current bucket.
        """
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self._ignore_optimizer([self._default()], optimizer, optimizer_params)
            return
        default, current = self._default(), self._curr_module
        # The current bucket's batch size scales gradients, as in MXNet.
        owner = current if current._param_names == default._param_names else default
        owner._preload_opt_states = default._preload_opt_states
        owner.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        default._preload_opt_states, default._resume_from = None, owner._resume_from
        for module in self._buckets.values():
            if module is not owner:
                module._borrow_by_name(owner)
        self.optimizer_initialized = True

    # -- computing --------------------------------------------------------------------------

    def forward(self, data_batch: Batch, is_train: bool | None = None) -> None:
        """Switch to the bucket of a batch and compute its outputs.

        The first batch of a bucket needs `provide_data`, and `provide_label` if it has labels.
        """
        self._require("binded", "params_initialized")
        with self._turns.lock:
            self.switch_bucket(*self._bucket_of(data_batch))
            self._curr_module.forward(data_batch, is_train=is_train)

    def backward(self, out_grads: Grads = None) -> None:
        self._require("binded", "params_initialized")
        self._curr_module.backward(out_grads=out_grads)

    def update(self) -> None:
        self._require("binded", "params_initialized", "optimizer_initialized")
        self._curr_module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Outputs:
        self._require("binded", "params_initialized")
        return self._curr_module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        self._require("binded", "params_initialized")
        return self._curr_module.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> Outputs:
        self._require("binded", "params_initialized")
        return self._curr_module.get_states(merge_multi_context)

    def set_states(self, states: StateValues | None = None, value: float | None = None) -> None:
        self._require("binded", "params_initialized")
        self._curr_module.set_states(states, value)

    def update_metric(self, eval_metric: EvalMetric, labels: Labels, pre_sliced: bool = False
                      ) -> None:
        self._require("binded", "params_initialized")
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    def _executors(self) -> list[Executor]:
        return self._curr_module._executors()

    def _optimizers(self) -> list[Optimizer]:
        return self._curr_module._optimizers()

    def _param_gradients(self) -> list[list[NDArray]]:
        return self._curr_module._param_gradients()

    def install_monitor(self, mon: Monitor) -> None:
        """Observe all buckets, including those that are bound later."""
        self._require("binded")
        self._monitor = mon
        for module in self._buckets.values():
            if module.binded:
                module.install_monitor(mon)

    # -- checkpoints ------------------------------------------------------------------------

    @staticmethod
    def load(prefix: str, epoch: int, sym_gen: SymbolFunction | None = None,
             default_bucket_key: Hashable = None, load_optimizer_states: bool = False,
             verify: bool = False, **kwargs: Forwarded) -> BucketingModule:
        finish_sets(os.path.dirname(prefix))
        if verify:
            verify_checkpoint(prefix, epoch)
        symbols: dict[Hashable, Symbol] = {
            key: sym.load(f"{prefix}-{key}-symbol.json")
            for key in _read_keys(f"{prefix}.buckets")}
        loaded = BucketingModule.load_dict(symbols, sym_gen, default_bucket_key,
                                           *load_params(prefix, epoch), **kwargs)
        if load_optimizer_states:
            loaded._default()._preload_opt_states = states_of_one_step(prefix, epoch)
        return loaded

    @staticmethod
    def load_dict(sym_dict: Mapping[Hashable, Symbol] | None = None,
                  sym_gen: SymbolFunction | None = None, default_bucket_key: Hashable = None,
                  arg_params: Params = None, aux_params: Params = None, **kwargs: Forwarded
                  ) -> BucketingModule:
        for name, value in (("sym_dict", sym_dict), ("sym_gen", sym_gen),
                            ("default_bucket_key", default_bucket_key),
                            ("arg_params", arg_params), ("aux_params", aux_params)):
            if value is None:
                raise MXNetError(f"BucketingModule: loading needs {name}")
        assert sym_dict and arg_params is not None and aux_params is not None
        if default_bucket_key not in sym_dict:
            raise ArgumentError(f"BucketingModule: default_bucket_key {default_bucket_key!r} is "
                                f"not among the loaded buckets {list(sym_dict)}")
        loaded = BucketingModule(sym_gen, default_bucket_key,  # type: ignore[arg-type]  # not None
                                 **kwargs)
        loaded._buckets = {key: loaded._create_module(key, symbol)
                           for key, symbol in sym_dict.items()}
        args, auxs = ({name: value.copy() for name, value in params.items()}
                      for params in (arg_params, aux_params))
        loaded._buckets[default_bucket_key]._hold(args, auxs)
        loaded.params_initialized = True
        return loaded
