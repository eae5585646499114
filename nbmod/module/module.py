"""`Module`: one symbol, its parameters and its optimizer.

Parameters are stored twice.  `_arg_params` and `_aux_params` are the host copies that users get and
set; training changes the argument arrays of the executors.  `_params_dirty` is set when the host
copies are out of date; `get_params` then updates them (to the mean over devices).  Row-sparse
parameters, which may be large, are stored once: host, store and executors share them.

On one device the updater changes each parameter, with integer keys.  With several devices gradients
are pushed to a key-value store, which sums them and either updates its own copy of the parameter,
which every device then pulls (`_update_on_kvstore`, keys are names), or returns the sum, and every
device updates its copy (key `index * devices + device`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from ..base import CheckError, Forwarded, MXNetError, warn_user
from ..checkpoint import load_checkpoint
from ..config import tuning
from ..initializer import InitDesc, Uniform
from ..integrity import saving_together
from ..io import DataDesc, DataIter
from ..kvstore import KVStoreBase
from ..metric import EvalMetric
from ..monitor import Monitor
from ..ndarray import NDArray
from ..optimizer import Optimizer, Updater, get_updater
from ..optimizer.updater import load_states_file, save_states_file
from ..symbol import Symbol
from . import batch_shapes, params, resume, store_updates, training_state
from .arguments import (
    Batch,
    ContextGroups,
    Contexts,
    Executors,
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
    _check_input_names,
    context_list,
    groups_by_context,
    name_list,
    require_distinct,
)
from .base_module import BaseModule
from .executor_group import DataParallelExecutorGroup, _update_params
from .optimizer_setup import attributes, make_optimizer
from .training_position import TrainingPosition
from .turns import Turns
from .workers import announce_forward, beside_others, finish_exchange, save_part, writes_files

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..log import Logger

__all__ = ["Module"]


class Module(BaseModule):
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
    >>> import nbmod as mx
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
                 context: Contexts = None,
                 work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None,
                 group2ctxs: ContextGroups = None,
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
        for names, kind, throw in ((self._data_names, "data", True),
                                   (self._label_names, "label", False),
                                   (self._state_names, "state", True),
                                   (self._fixed_param_names, "fixed_param", True)):
            _check_input_names(symbol, names, kind, throw)
        inputs = [*self._data_names, *self._label_names, *self._state_names]
        require_distinct(inputs)
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
        self._optimizer_begun: dict[str, resume.Plain] = {}
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
        """Create a module from a checkpoint.

        The module has parameters, which `init_params` keeps; it has to be bound.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, as given to `save_checkpoint`; or an archive, as for
            `mx.model.load_checkpoint`.
        epoch : int or None
            Number of the checkpoint; None for the newest.
        load_optimizer_states : bool, default False
            Load ``<prefix>-<epoch>.states``, too, when the optimizer is created. If `fit` is then
            called with ``begin_epoch=epoch`` and ``<prefix>-<epoch>.resume`` exists, training
            continues exactly as if it had not been interrupted.
        verify : bool, default False
            Compare all files of the checkpoint with the checksums that ``integrity=True`` wrote,
            so that every damaged bit is an error.
        **kwargs
            Further arguments of `Module`, such as `context` and `label_names`.

        Returns
        -------
        Module
            The module, not bound yet.

        Raises
        ------
        MXNetError
            If a file is damaged; with `load_optimizer_states`, if the files are not of one step,
            because a save of the same epoch was interrupted.

        Examples
        --------
        >>> import os, tempfile
        >>> import nbmod as mx
        >>> module = mx.mod.Module(mx.sym.Dropout(mx.sym.Variable("data")), label_names=None)
        >>> module.bind([("data", (2, 4))])
        >>> module.init_params()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     module.save_checkpoint(os.path.join(folder, "net"), 3)
        ...     sorted(os.listdir(folder))
        ...     again = mx.mod.Module.load(os.path.join(folder, "net"), 3, label_names=None)
        ['net-0003.params', 'net-symbol.json']
        >>> again.data_names, again.binded
        (['data'], False)
        """
        return Module._from_checkpoint(prefix, epoch, load_optimizer_states, verify, kwargs)

    @classmethod
    def _from_checkpoint(cls, prefix: str, epoch: int | None, load_optimizer_states: bool,
                         verify: bool, options: dict[str, Forwarded]) -> Self:
        symbol, args, auxs = load_checkpoint(prefix, epoch, verify)
        module = cls(symbol=symbol, **options)
        params.warn_of_absent([*module._param_names, *module._aux_names], {*args, *auxs},
                             prefix if epoch is None else f"{prefix}-{epoch:04d}.params")
        module._arg_params, module._aux_params, module.params_initialized = args, auxs, True
        if load_optimizer_states:
            module._preload_opt_states = resume.states_of_one_step(prefix, epoch)
        return module

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = True, integrity: bool = False) -> None:
        """Save the network and its parameters in MXNet's format.

        Writes ``<prefix>-symbol.json`` and ``<prefix>-<epoch>.params``, `epoch` with four digits.
        The files replace older ones when all are complete. With a distributed key-value store rank
        0 writes them; if `save_optimizer_states` is set, all workers must call the method, as each
        has a part of the states.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, with a directory if wanted.
        epoch : int
            Number of the checkpoint: the number of epochs that are finished.
        save_optimizer_states : bool, default False
            Write ``<prefix>-<epoch>.states``, too, and ``<prefix>-<epoch>.resume``, which contains
            what else is needed to resume training exactly: random states, update counts and the
            positions of iterators.
        remove_amp_cast : bool, default True
            Omit casts that mixed precision inserted from the saved symbol.
        integrity : bool, default False
            Write ``<prefix>-<epoch>.sha256``, too, from which `load` with ``verify=True`` finds
            every damaged bit.
        """
        symbol, stem = f"{prefix}-symbol.json", f"{prefix}-{epoch:04d}"
        if not writes_files(self._kvstore):
            return save_part(self, stem, epoch, save_optimizer_states)
        with saving_together(stem, [symbol], integrity):
            self.save_params(f"{stem}.params")
            self._symbol.save(symbol, remove_amp_cast=remove_amp_cast)
            logging.info('Saved checkpoint to "%s"', f"{stem}.params")
            if save_optimizer_states:
                self._save_states(stem, epoch)

    def _save_states(self, stem: str, epoch: int) -> None:
        """Write the part of a checkpoint that is needed to resume training."""
        if self._update_on_kvstore or writes_files(self._kvstore):  # of each worker's part
            self.save_optimizer_states(f"{stem}.states")
            self.logger.info('Saved optimizer state to "%s"', f"{stem}.states")
        self.save_training_state(f"{stem}.resume", epoch=epoch)

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
        """Get the parameters, on the CPU.

        Returns
        -------
        arg_params, aux_params : dict of str to NDArray
            Parameters and auxiliary states by name. With several contexts each is the mean over
            them. The arrays are the module's own: copy those that are to be kept or changed.

        Raises
        ------
        MXNetError
            If parameters have not been initialized.
        """
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
        """Initialize parameters from given values where there are any, else by the initializer.

        If parameters have been initialized, that is a warning and nothing else is done, unless
        `force_init`.

        Parameters
        ----------
        initializer : Initializer or None, default Uniform(0.01)
            Initializes parameters that are not given. With None they keep their values.
        arg_params, aux_params : dict of str to NDArray, optional
            Values by name, from `load_checkpoint` for example; cast to the types bound.
        allow_missing : bool, default False
            Whether the dicts that are given may lack names.
        force_init : bool, default False
            Initialize even if parameters have been initialized.
        allow_extra : bool, default False
            Accepted for compatibility: names that the symbol does not have are always ignored, as
            in MXNet, so that checkpoints of whole networks can be given to parts of them.

        Raises
        ------
        MXNetError
            If the module is not bound, a name is missing or a shape differs.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
        >>> module = mx.mod.Module(net, label_names=None)
        >>> module.bind([("data", (1, 2))])
        >>> module.init_params(mx.init.Zero(), {"fc_weight": mx.nd.array([[2, 3]])},
        ...                    allow_missing=True)
        >>> {name: array.asnumpy().tolist() for name, array in module.get_params()[0].items()}
        {'fc_weight': [[2.0, 3.0]], 'fc_bias': [0.0]}
        """
        if self.params_initialized and not force_init:
            if not self._fitting or arg_params or aux_params:
                warn_user("Parameters already initialized and force_init=False. init_params call "
                          "ignored.")
            return
        self._require("binded")
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None and self._aux_params is not None
        attrs = {} if initializer is None else self._symbol.attr_dict()
        for own, given in ((self._arg_params, arg_params), (self._aux_params, aux_params)):
            for name in sorted(own):
                if given is not None and name in given:
                    if given[name] is not own[name]:
                        params.assign(name, given[name], own[name])
                elif given is not None and not allow_missing:
                    advice = params.advice(name, given, own)
                    raise MXNetError(f"{name} is not presented{advice}")
                elif initializer is not None:
                    params.initialize(InitDesc(name, attrs.get(name)), own[name], initializer)
        self.params_initialized = True
        self._assign_on_devices(self._arg_params, self._aux_params)

    def _executors(self) -> Executors:
        return self._exec_group.execs

    def _optimizers(self) -> list[Optimizer]:
        return [training_state.optimizer_of(self)] if self.optimizer_initialized else []

    def _param_gradients(self) -> list[list[NDArray]]:
        return [copies for copies in self._exec_group.grad_arrays if copies[0] is not None]

    def _averages_params(self) -> bool:
        """Executors may have fetched some rows only, and classes of users override the two."""
        return len(self._context) > 1 or bool(self._row_params) or type(self) is not Module

    def set_params(self, arg_params: Params, aux_params: Params, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Assign parameters and auxiliary states by name.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Values by name.
        allow_missing : bool, default False
            Whether names may be missing; these parameters keep their values.
        force_init : bool, default True
            Assign even if parameters have been initialized; otherwise that is a warning.
        allow_extra : bool, default False
            With `allow_missing`, whether names that the symbol does not have are ignored instead
            of a ValueError. Without `allow_missing` they are always ignored, as in MXNet.

        Raises
        ------
        MXNetError
            If the module is not bound, a name is missing or a shape differs.
        """
        if not allow_missing:
            self.init_params(initializer=None, arg_params=arg_params, aux_params=aux_params,
                             allow_missing=allow_missing, force_init=force_init,
                             allow_extra=allow_extra)
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
             shared_module: BaseModule | None = None, grad_req: GradReq = "write",
             tune: bool = False) -> None:
        """Create executors for inputs of given shapes. Parameters keep their values.

        Shapes may change later: `forward` adapts to each batch.

        Parameters
        ----------
        data_shapes : list of DataDesc or (str, tuple of int)
            Names and shapes of the data inputs, batch axis included; `provide_data` of an
            iterator.
        label_shapes : list of DataDesc or (str, tuple of int), optional
            Names and shapes of the label inputs; `provide_label` of an iterator. Not needed for
            inference.
        for_training : bool, default True
            Whether gradients are to be computed. Without them less memory is used, and the
            network is simplified.
        inputs_need_grad : bool, default False
            Whether gradients of the data inputs are to be computed, too; see `get_input_grads`.
        force_rebind : bool, default False
            Bind again if the module is bound; otherwise that is a warning and nothing is done.
        shared_module : Module, optional
            A bound module with initialized parameters. Parameters, memory and, if there is one,
            the optimizer are shared with it.
        grad_req : {'write', 'add', 'null'}, list or dict, default 'write'
            Whether gradients overwrite those of the last `backward`, are added to them, or are
            not computed: for all trained parameters, for all arguments in their order, or by name.
        tune : bool, default False
            Measure which algorithm is fastest for each convolution, where that has not been done
            on this machine.

        Raises
        ------
        ArgumentError
            If names of the data inputs differ from `data_names`.
        MXNetError
            If shapes do not fit the network.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=8)
        >>> module = mx.mod.Module(net, label_names=None)
        >>> module.bind(data_shapes=[("data", (1, 3, 32, 32))], for_training=False)
        >>> [shape for name, shape in module.output_shapes]
        [(1, 8, 30, 30)]
        """
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
        self._data_shapes, self._label_shapes = batch_shapes._parse_data_desc(
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

    def _provide_params(self, shared_module: BaseModule | None) -> None:
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

    def _group_of(self, shared_module: BaseModule | None) -> DataParallelExecutorGroup | None:
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
        data_shapes : list of DataDesc or (str, tuple of int)
            As for `bind`.
        label_shapes : list of DataDesc or (str, tuple of int), optional
            As for `bind`.
        """
        self._require("binded")
        data, labels = batch_shapes._parse_data_desc(self._data_names, self._label_names,
                                                     data_shapes, label_shapes)
        self._exec_group.reshape(data, labels)
        self._data_shapes, self._label_shapes = data, labels

    # -- computing --------------------------------------------------------------------------

    def forward(self, data_batch: Batch, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; `get_outputs` returns them.

        If the shapes of the batch differ from those bound, the module is reshaped first.

        Parameters
        ----------
        data_batch : DataBatch or list of DataBatch
            Its `data` is a list of NDArrays in the order of `data_names`, its `label`, which may
            be missing in inference, in the order of `label_names`. A list has one batch for each
            context; their shapes may differ.
        is_train : bool, optional
            Whether ops such as Dropout and BatchNorm work as in training; `for_training` by
            default.

        Raises
        ------
        MXNetError
            If the module is not bound or has no parameters, or the batch has too few or too many
            arrays.
        """
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
        """Compute the gradients of the last `forward`.

        Parameters
        ----------
        out_grads : NDArray or list of NDArray, optional
            Gradients of a loss with respect to each output. Not needed for outputs that are
            losses themselves, such as `SoftmaxOutput`.

        Raises
        ------
        MXNetError
            If `forward` has not been called, the module was bound with ``for_training=False``, or
            a gradient is missing.

        Examples
        --------
        >>> import nbmod as mx
        >>> module = mx.mod.Module(mx.sym.square(mx.sym.Variable("data")), label_names=None)
        >>> module.bind([("data", (1, 2))], inputs_need_grad=True)
        >>> module.init_params()
        >>> module.forward(mx.io.DataBatch([mx.nd.array([[3, 4]])]))
        >>> module.backward([mx.nd.ones((1, 2))])
        >>> module.get_input_grads()[0].asnumpy().tolist()
        [[6.0, 8.0]]
        """
        self._require("binded", "params_initialized")
        with self._turns.lock:
            self._turns.require_last("backward")
            self._exec_group.backward(out_grads=out_grads)

    def get_outputs(self, merge_multi_context: bool = True) -> Outputs:
        """Get the outputs of the last `forward`.

        On a single context these are buffers that the next `forward` overwrites; copy those to be
        kept. Where several threads share the module, each gets the outputs of its own `forward`,
        which other threads do not overwrite (docs/threads.md).

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the arrays of several contexts along the batch axis; otherwise each item is a
            list with one NDArray per context.

        Returns
        -------
        list of NDArray, or list of lists
            One item for each output of the symbol.
        """
        self._require("binded", "params_initialized")
        return self._turns.get_outputs(self._exec_group, merge_multi_context)

    def _output_axes(self, count: int) -> list[int]:
        return self._exec_group.output_layouts

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        """Get the gradients of the data inputs after `backward`.

        The module must have been bound with ``inputs_need_grad=True``.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the arrays of several contexts along the batch axis; otherwise each item is a
            list with one NDArray per context.

        Returns
        -------
        list of NDArray, or list of lists
            One item for each of `data_names`.
        """
        self._require("binded", "params_initialized")
        self._turns.require_last("get_input_grads")
        return self._exec_group.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> Outputs:
        """Get the values of the state inputs.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the arrays of several contexts along the batch axis; otherwise each item is a
            list with one NDArray per context.

        Returns
        -------
        list of NDArray, or list of lists
            One item for each of `state_names`.
        """
        self._require("binded", "params_initialized")
        return self._exec_group.get_states(merge_multi_context)

    def set_states(self, states: StateValues | None = None, value: float | None = None) -> None:
        """Set the state inputs; give either `states` or `value`.

        Parameters
        ----------
        states : list, optional
            For each of `state_names` an NDArray for the whole batch, or a list with one NDArray
            per context, as `get_states` returns them.
        value : float, optional
            One value for all elements of all states.
        """
        self._require("binded", "params_initialized")
        self._exec_group.set_states(states, value)

    def update_metric(self, eval_metric: EvalMetric, labels: Labels,
                      pre_sliced: bool = False) -> None:
        """Update a metric by the outputs of the last `forward`.

        Parameters
        ----------
        eval_metric : EvalMetric
            The metric.
        labels : list of NDArray
            Labels of the batch, in the order of `label_names`.
        pre_sliced : bool, default False
            Whether `labels` is a list with such a list for each context.
        """
        with self._turns.lock:
            self._turns.require_last("update_metric")
            self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Monitor) -> None:
        """Observe the executors by a monitor.

        Parameters
        ----------
        mon : Monitor
            The monitor; call its `tic` before a batch and its `toc` after it.
        """
        self._require("binded")
        self._exec_group.install_monitor(mon)

    # -- optimizer --------------------------------------------------------------------------

    def init_optimizer(self, kvstore: KVStoreLike = "local", optimizer: OptimizerLike = "sgd",
                       optimizer_params: OptimizerParams = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Create the optimizer and connect it to the key-value store.

        Parameters
        ----------
        kvstore : str, KVStore or None, default 'local'
            Where gradients of several contexts are summed: 'local' (on the CPU), 'device' (on the
            devices), 'nccl', a registered name or a store. On one context a name has no effect.
        optimizer : str or Optimizer, default 'sgd'
            The optimizer, or the name of one. It is a warning if the `rescale_grad` of an object
            is not 1 / batch size.
        optimizer_params : dict or sequence of pairs, default learning_rate=0.01
            Options of an optimizer that is given by name. ``rescale_grad`` defaults to 1 / batch
            size.
        force_init : bool, default False
            Replace the optimizer if there is one; otherwise that is a warning and nothing is done.

        Raises
        ------
        MXNetError
            If the module is not bound or has no parameters.
        TypeError
            If `optimizer` is neither a name nor an Optimizer.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True,
        ...                             name="fc")
        >>> module = mx.mod.Module(mx.sym.make_loss(net), label_names=None)
        >>> module.bind([("data", (1, 2))])
        >>> module.init_params(mx.init.One())
        >>> module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5})
        >>> module.forward_backward(mx.io.DataBatch([mx.nd.array([[1, 4]])]))
        >>> module.update()
        >>> module.get_params()[0]["fc_weight"].asnumpy().tolist()
        [[0.5, -1.0]]
        """
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self._ignore_optimizer([self], optimizer, optimizer_params)
            return
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None
        group, devices = self._exec_group, len(self._context)
        store, update_on_kvstore = store_updates._create_kvstore(kvstore, devices, self._arg_params)
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
            self._params_dirty = store_updates._initialize_kvstore(
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
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self._optimizer_begun = shared_module._optimizer_begun
        self.optimizer_initialized = True

    def prepare(self, data_batch: Batch, sparse_row_id_fn: RowFunction = None) -> None:
        """Fetch the rows of row-sparse parameters that the next batch needs from the store.

        Parameters
        ----------
        data_batch : DataBatch
            The next batch.
        sparse_row_id_fn : callable, optional
            Function of the batch that returns a dict of parameter name to NDArray of row indices.
            Without it nothing is done.
        """
        self._require("binded")
        if sparse_row_id_fn is not None:
            self._row_params |= store_updates.pull_rows(
                self._kvstore if self._update_on_kvstore else None,
                self._exec_group.arrays_by_param, partial(sparse_row_id_fn, data_batch))

    def update(self) -> None:
        """Update the parameters by the optimizer and the gradients of the last `backward`."""
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

    def save_optimizer_states(self, fname: str) -> None:
        """Save the states of the optimizer, such as momentum.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        if self._updater is not None:
            save_states_file(self._updater, fname)
        elif self._kvstore is not None:
            self._kvstore.save_optimizer_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Load states that `save_optimizer_states` saved.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        if self._updater is not None:
            load_states_file(self._updater, fname)
        elif self._kvstore is not None:
            self._kvstore.load_optimizer_states(fname)

    def save_training_state(self, fname: str, train_data: DataIter | None = None,
                            eval_data: DataIter | None = None, epoch: int = 0,
                            batch: int = 0) -> None:
        """Save what a checkpoint omits and an exact resume needs (see `module.resume`).

        `save_checkpoint` with ``save_optimizer_states=True`` calls it. During and after `fit` only
        `fname` is needed.

        Parameters
        ----------
        fname : str
            Path of the file, usually ``<prefix>-<epoch>.resume``.
        train_data, eval_data : DataIter, optional
            Iterators whose positions are saved.
        epoch : int, default 0
            Epoch in which training is to be resumed.
        batch : int, default 0
            Batches of that epoch that are finished.
        """
        self._require("optimizer_initialized")
        progress = self._progress
        if progress is None or train_data is not None:
            progress = TrainingPosition(train_data, eval_data, epoch, batch)
        training_state.save(self, fname, progress)

    def load_training_state(self, fname: str, train_data: DataIter | None = None,
                            eval_data: DataIter | None = None ) -> tuple[int, int]:
        """Load what `save_training_state` saved.

        Iterators are moved to where they were; one that was at the end of an epoch has to be
        reset.

        Parameters
        ----------
        fname : str
            Path of the file.
        train_data, eval_data : DataIter, optional
            Iterators of the same kind and data as before.

        Returns
        -------
        (int, int)
            Epoch in which to resume, and the batches of it that are finished.

        Raises
        ------
        MXNetError
            If the file is damaged or the iterators differ from those saved.
        """
        self._require("optimizer_initialized")
        progress = TrainingPosition(train_data, eval_data)
        training_state.restore(self, fname, resume.read(fname), progress)
        return progress.epoch, progress.batch

    def _begin_fit(self, progress: TrainingPosition, overlaps: bool
                   ) -> AbstractContextManager[None]:
        if self._resume_from is not None:
            states, self._resume_from = self._resume_from, None
            training_state.continue_fit(self, states, progress)
        return nullcontext() if self._kvstore is None else beside_others(self, progress, overlaps)

    def _assign_on_devices(self, arg_params: Mapping[str, NDArray], aux_params: Params,
                           allow_extra: bool = False) -> None:
        finish_exchange(self._kvstore)      # or what arrives later would replace them
        arrays = self._exec_group.arrays_by_param
        if arg_params is self._arg_params:
            params.share_sparse(arg_params, arrays, self._update_on_kvstore)
        self._exec_group.set_params(arg_params, aux_params, allow_extra=allow_extra)
        assigned = {name: arrays[name] for name in arrays if name in arg_params}
        params.tell_of_assigned(assigned, self._updater, self._kvstore)
