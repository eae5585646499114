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
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from .. import ndarray as nd
from .. import symbol as sym
from ..atomic import finish_sets
from ..base import ArgumentError, CheckError, MXNetError, _as_list
from ..checkpoint import load_params
from ..context import cpu
from ..initializer import Uniform
from ..integrity import saving_together, verify_checkpoint
from ..io import DataDesc
from ..metric import EvalMetric
from ..monitor import Monitor
from ..name import NameManager
from ..ndarray import NDArray
from ..optimizer import Optimizer, Updater
from ..symbol import Symbol
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
from .base_module import BaseModule
from .module import Module
from .resume import states_of_one_step
from .training_position import TrainingPosition
from .workers import save_part, writes_files

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ..base import Forwarded
    from ..executor import Executor
    from ..kvstore.base import PerDevice
    from ..log import Logger

__all__ = ["BucketingModule"]

SymbolFunction = Callable[[Hashable], tuple[Symbol, Sequence[str] | None, Sequence[str] | None]]
"""A function of a bucket key that returns (symbol, data_names, label_names)."""


class BucketingModule(BaseModule):
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
    >>> import nbmod as mx
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
        """Return a module with the same contexts and settings for other networks.

        Parameters
        ----------
        sym_gen : callable
            As in the constructor.

        Returns
        -------
        BucketingModule
            A module that is not bound.
        """
        return BucketingModule(sym_gen, self._default_bucket_key, self.logger, self._context,
                               self._work_load_list, self._fixed_param_names, self._state_names,
                               self._group2ctxs, self._compression_params)

    # -- buckets ----------------------------------------------------------------------------

    def _create_module(self, key: Hashable, symbol: Symbol | None = None) -> Module:
        """A module for a bucket, not bound yet; of `symbol` if given, else of sym_gen's."""
        try:
            with NameManager():  # layers without a name have the same names in every bucket
                made = self._sym_gen(key)
        except Exception as error:
            if hasattr(error, "add_note"):  # Python 3.11
                error.add_note(f"BucketingModule: raised by sym_gen for bucket_key {key!r}; "
                               "batches must carry keys that sym_gen knows")
            raise
        if not isinstance(made, (tuple, list)) or len(made) != 3:
            raise ArgumentError(f"BucketingModule: sym_gen({key!r}) gave a {type(made).__name__}, "
                                "expected (symbol, data_names, label_names)")
        return Module(made[0] if symbol is None else symbol, made[1], made[2],
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
            self._borrow(module, default)
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
             shared_module: BaseModule | None = None, grad_req: GradReq = "write",
             tune: bool = False) -> None:
        """Bind the default bucket; others are bound when their keys first occur.

        Parameters
        ----------
        data_shapes, label_shapes : list of DataDesc or (str, tuple of int)
            Shapes of the default bucket, as for `Module.bind`.
        for_training : bool, default True
            Whether gradients are to be computed.
        inputs_need_grad : bool, default False
            Whether gradients of the data inputs are to be computed, too.
        force_rebind : bool, default False
            Bind again if the module is bound; otherwise that is a warning and nothing is done.
        shared_module : None
            Not supported: MXNetError for anything else.
        grad_req : {'write', 'add', 'null'}, list or dict, default 'write'
            How gradients are stored, as for `Module.bind`, in all buckets.
        tune : bool, default False
            Measure which algorithm is fastest for each convolution, in all buckets.
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
        """Bind the bucket of the next batch; the current bucket stays.

        Parameters
        ----------
        data_batch : DataBatch
            The next batch.
        sparse_row_id_fn : callable, optional
            As for `Module.prepare`.
        """
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
        """Get the parameters of all buckets, on the CPU.

        Returns
        -------
        arg_params, aux_params : dict of str to NDArray
            Parameters and auxiliary states by name.
        """
        self._require("params_initialized")
        params = self._default().get_params()
        for module in self._buckets.values():
            module._params_dirty = False
        return params

    def init_params(self, initializer: InitFunction = Uniform(0.01),  # noqa: B008
                    arg_params: Params = None, aux_params: Params = None,
                    allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        """Initialize the parameters of all buckets, as `Module.init_params` does.

        Parameters
        ----------
        initializer : Initializer or None, default Uniform(0.01)
            Initializes parameters that are not given.
        arg_params, aux_params : dict of str to NDArray, optional
            Values by name.
        allow_missing : bool, default False
            Whether these dicts may lack names.
        force_init : bool, default False
            Initialize even if parameters have been initialized; otherwise nothing is done.
        allow_extra : bool, default False
            Accepted for compatibility: unknown names are always ignored.
        """
        if self.params_initialized and not force_init:
            return
        self._require("binded")
        self._default().init_params(initializer, arg_params, aux_params, allow_missing, force_init,
                                    allow_extra)
        self.params_initialized = True

    def set_params(self, arg_params: Params, aux_params: Params, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Assign parameters of all buckets by name, as `Module.set_params` does.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Values by name.
        allow_missing : bool, default False
            Whether names may be missing; these parameters keep their values.
        force_init : bool, default True
            Assign even if parameters have been initialized.
        allow_extra : bool, default False
            With `allow_missing`, whether unknown names are ignored instead of an error.
        """
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

        Parameters
        ----------
        kvstore : str, KVStore or None, default 'local'
            Where gradients of several contexts are summed, as for `Module.init_optimizer`.
        optimizer : str or Optimizer, default 'sgd'
            The optimizer, or the name of one.
        optimizer_params : dict or sequence of pairs, default learning_rate=0.01
            Options of an optimizer that is given by name. ``rescale_grad`` defaults to 1 / batch
            size of the current bucket.
        force_init : bool, default False
            Replace the optimizer if there is one; otherwise that is a warning and nothing is done.
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
                self._borrow(module, owner)
        self.optimizer_initialized = True

    @staticmethod
    def _borrow(module: Module, owner: Module) -> None:
        """Let `module` update with the optimizer of `owner`."""
        module.borrow_optimizer(owner)
        if module._updater is not None and module._param_names != owner._param_names:
            positions = [owner._param_names.index(name) for name in module._param_names]
            module._updater = cast(Updater, _ReindexedUpdater(
                owner._updater,  # type: ignore[arg-type]  # as `module` has one
                positions, len(owner._context)))

    # -- computing --------------------------------------------------------------------------

    def forward(self, data_batch: Batch, is_train: bool | None = None) -> None:
        """Switch to the bucket of a batch and compute its outputs.

        Parameters
        ----------
        data_batch : DataBatch
            The batch, with `bucket_key`, and `provide_data` and `provide_label` if its bucket is
            new.
        is_train : bool, optional
            Whether ops work as in training; `for_training` by default.

        Raises
        ------
        MXNetError
            If the bucket is new and the batch has no `provide_data`, or its network has
            parameters that the default bucket lacks.
        """
        self._require("binded", "params_initialized")
        with self._turns.lock:
            self.switch_bucket(*self._bucket_of(data_batch))
            self._curr_module.forward(data_batch, is_train=is_train)

    def backward(self, out_grads: Grads = None) -> None:
        """Compute the gradients of the last `forward` in the current bucket.

        Parameters
        ----------
        out_grads : NDArray or list of NDArray, optional
            Gradients of a loss with respect to the outputs, as for `Module.backward`.
        """
        self._require("binded", "params_initialized")
        self._curr_module.backward(out_grads=out_grads)

    def update(self) -> None:
        """Update the parameters by the optimizer and the gradients of the last `backward`."""
        self._require("binded", "params_initialized", "optimizer_initialized")
        self._curr_module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Outputs:
        """Get the outputs of the current bucket's last `forward`.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the outputs of several contexts along the batch axis.

        Returns
        -------
        list of NDArray, or list of lists
            One item for each output.
        """
        self._require("binded", "params_initialized")
        return self._curr_module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        """Get the gradients of the current bucket's data inputs.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the gradients of several contexts along the batch axis.

        Returns
        -------
        list of NDArray, or list of lists
            One item for each data input.
        """
        self._require("binded", "params_initialized")
        return self._curr_module.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> Outputs:
        """Get the values of the state inputs, as `Module.get_states` does.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the states of several contexts along the batch axis.

        Returns
        -------
        list of NDArray, or list of lists
            One item for each of `state_names`.
        """
        self._require("binded", "params_initialized")
        return self._curr_module.get_states(merge_multi_context)

    def set_states(self, states: StateValues | None = None, value: float | None = None) -> None:
        """Set the state inputs; give either `states` or `value`.

        Parameters
        ----------
        states : list, optional
            Values, as for `Module.set_states`.
        value : float, optional
            One value for all elements of all states.
        """
        self._require("binded", "params_initialized")
        self._curr_module.set_states(states, value)

    def update_metric(self, eval_metric: EvalMetric, labels: Labels, pre_sliced: bool = False
                      ) -> None:
        """Update a metric by the outputs of the last `forward`.

        Parameters
        ----------
        eval_metric : EvalMetric
            The metric.
        labels : list of NDArray
            Labels of the batch.
        pre_sliced : bool, default False
            Whether `labels` is a list with such a list for each context.
        """
        self._require("binded", "params_initialized")
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    def _executors(self) -> list[Executor]:
        return self._curr_module._executors()

    def _optimizers(self) -> list[Optimizer]:
        return self._curr_module._optimizers()

    def _param_gradients(self) -> list[list[NDArray]]:
        return self._curr_module._param_gradients()

    def install_monitor(self, mon: Monitor) -> None:
        """Observe all buckets, including those that are bound later.

        Parameters
        ----------
        mon : Monitor
            The monitor.
        """
        self._require("binded")
        self._monitor = mon
        for module in self._buckets.values():
            if module.binded:
                module.install_monitor(mon)

    # -- checkpoints ------------------------------------------------------------------------

    def save_optimizer_states(self, fname: str) -> None:
        """Save the states of the optimizer, which all buckets share.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        self._default().save_optimizer_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Load the states of the optimizer, which all buckets share.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        self._default().load_optimizer_states(fname)

    def _begin_fit(self, progress: TrainingPosition, overlaps: bool
                   ) -> AbstractContextManager[None]:
        """As for the module of the default bucket, which has the parameters and the optimizer."""
        default = self._default()
        default.history = self.history
        found = default._begin_fit(progress, overlaps)
        self.history = default.history
        return found

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = False, integrity: bool = False) -> None:
        """Save the networks of all buckets so far, their keys and the parameters.

        Writes ``<prefix>-<key>-symbol.json`` for each bucket, ``<prefix>.buckets`` and
        ``<prefix>-<epoch>.params``, `epoch` with four digits.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, with a directory if wanted.
        epoch : int
            Number of the checkpoint.
        save_optimizer_states : bool, default False
            Write ``.states`` and ``.resume``, too, as `Module.save_checkpoint` does.
        remove_amp_cast : bool, default False
            Omit casts that mixed precision inserted from the saved symbols.
        integrity : bool, default False
            Write ``<prefix>-<epoch>.sha256``, too, as `Module.save_checkpoint` does.

        Raises
        ------
        ArgumentError
            If a bucket key is neither an int nor a tuple of ints, or these have several lengths.
        """
        if not self._buckets:
            raise MXNetError("BucketingModule: there is no bucket to save; call bind() first")
        modules = {_plain_key(key): module for key, module in self._buckets.items()}
        if len({np.shape(key) for key in modules}) > 1:
            raise ArgumentError(f"BucketingModule: bucket keys {list(modules)} cannot be saved "
                                "together; use ints, or tuples of one length")
        keys = nd.array(np.array(list(modules), np.int32), dtype=np.int32)
        stem, networks = f"{prefix}-{epoch:04d}", [f"{prefix}-{key}-symbol.json" for key in modules]
        if not writes_files(self._default()._kvstore):
            return save_part(self, stem, epoch, save_optimizer_states)
        with saving_together(stem, [*networks, f"{prefix}.buckets"], integrity):
            self.save_params(f"{stem}.params")
            nd.save(f"{prefix}.buckets", keys)
            for name, module in zip(networks, modules.values(), strict=True):
                module.symbol.save(name, remove_amp_cast=remove_amp_cast)
            if save_optimizer_states:
                self._save_states(stem, epoch)

    def _save_states(self, stem: str, epoch: int) -> None:
        """Write the part of a checkpoint that is needed to resume training."""
        default = self._default()
        default._progress, default.history = self._progress, self.history
        default._save_states(stem, epoch)

    @staticmethod
    def load(prefix: str, epoch: int, sym_gen: SymbolFunction | None = None,
             default_bucket_key: Hashable = None, load_optimizer_states: bool = False,
             verify: bool = False, **kwargs: Forwarded) -> BucketingModule:
        """Create a module from a checkpoint.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, as given to `save_checkpoint`.
        epoch : int
            Number of the checkpoint.
        sym_gen : callable
            As for the constructor; required. Networks are read from the checkpoint where it
            contains them; names of data and labels come from `sym_gen`.
        default_bucket_key : hashable
            As for the constructor; required.
        load_optimizer_states : bool, default False
            Load optimizer states, too, when the optimizer is created.
        verify : bool, default False
            As for `Module.load`.
        **kwargs
            Further arguments of the constructor.

        Returns
        -------
        BucketingModule
            The module, not bound yet.
        """
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
        """Create a module from networks and parameters in memory; all arguments are required.

        Parameters
        ----------
        sym_dict : dict of hashable to Symbol
            Networks by bucket key.
        sym_gen : callable
            As for the constructor.
        default_bucket_key : hashable
            As for the constructor.
        arg_params, aux_params : dict of str to NDArray
            Values by name.
        **kwargs
            Further arguments of the constructor.

        Returns
        -------
        BucketingModule
            The module, not bound yet.
        """
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
        default = loaded._buckets[default_bucket_key]
        default._arg_params = {name: value.copy() for name, value in arg_params.items()}
        default._aux_params = {name: value.copy() for name, value in aux_params.items()}
        loaded.params_initialized = default.params_initialized = True
        return loaded


class _ReindexedUpdater:
    """An updater for a bucket whose parameters have other indices than in the bucket it is from.

    Updaters identify parameters by index (times devices, plus device).  A bucket that lacks a
    parameter or lists them in another order must not touch the state of the wrong one.
    """

    def __init__(self, updater: Updater, positions: Sequence[int], devices: int):
        self._updater = updater
        self._keys = [position * devices + k for position in positions for k in range(devices)]

    def __call__(self, index: int | Sequence[int], grad: PerDevice, weight: PerDevice) -> None:
        keys = [self._keys[i] for i in _as_list(index)]
        self._updater(keys if isinstance(index, (list, tuple)) else keys[0], grad, weight)

    def __getattr__(self, name: str) -> Forwarded:
        return getattr(self._updater, name)


def _plain_key(key: Hashable) -> int | tuple[int, ...]:
    """A bucket key in a form for files: an int or a tuple of ints."""
    parts = key if isinstance(key, tuple) else (key,)
    found = [int(part) for part in parts if isinstance(part, (int, np.integer))]
    if not parts or len(found) < len(parts):
        raise ArgumentError(f"BucketingModule: bucket key {key!r} cannot be saved, only ints and "
                            "tuples of ints can; save the parameters alone with save_params")
    return tuple(found) if isinstance(key, tuple) else found[0]


def _read_keys(fname: str) -> list[int | tuple[int, ...]]:
    """The bucket keys in a `.buckets` file."""
    arrays = nd.load(fname)
    if not isinstance(arrays, list) or len(arrays) != 1 or arrays[0].ndim not in (1, 2):
        raise MXNetError(f"{fname}: expected one array of bucket keys")
    keys = arrays[0].asnumpy().tolist()
    return [tuple(map(int, key)) if isinstance(key, list) else int(key) for key in keys]
