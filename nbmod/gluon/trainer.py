"""`Trainer`: steps the parameters of blocks with an optimizer, on one or more contexts.

Where there are several contexts, or an object as `kvstore`, a store sums the gradients; it also
updates the parameters unless `update_on_kvstore` is False.  Otherwise each context has an updater,
which steps all parameters there by one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple

from .. import optimizer as opt
from ..base import ArgumentError, ArgumentTypeError, CheckError, MXNetError, wrong_type
from ..context import Context
from ..kvstore import KVStore, KVStoreBase, create, takes_lists
from ..module.store_updates import _create_kvstore
from ..ndarray import NDArray
from ..ndarray.tape import fresh_gradient, set_fresh_gradient
from ..optimizer import Optimizer
from ..optimizer.state_files import load_states_file, save_states_file
from ..optimizer.update_step import Index
from .base_block import Block
from .parameter import Parameter, ParameterDict
from .step_errors import StepError, require_samples, stale

__all__ = ["Trainer"]
__dir__ = __all__.copy


class _Update(NamedTuple):
    """The arguments of an updater."""

    indices: list[Index]
    gradients: list[NDArray]
    weights: list[NDArray]


class Trainer:
    """Steps parameters by their gradients.

    Parameters
    ----------
    params : ParameterDict, dict of str to Parameter, or list of Parameter
        Parameters, such as `net.collect_params()`; those of a dict in order of their names.
    optimizer : str or Optimizer
        Optimizer, or its name.
    optimizer_params : dict, optional
        Options of an optimizer that is given by name.
    kvstore : str, KVStore or None, default 'device'
        Store, or its kind, that sums the gradients of several contexts.  One context needs none
        unless it is an object or distributed; with None each context is stepped by itself.
    compression_params : dict, optional
        Compression of the gradients that a store sums, as for `KVStore.set_gradient_compression`.
    update_on_kvstore : bool, optional
        Whether the store updates the parameters, too; None leaves that to the environment
        variable `MXNET_UPDATE_ON_KVSTORE` and to what the store can do.  It has no effect without
        a store.

    Raises
    ------
    ValueError
        If `params` has anything but parameters.
    TypeError
        If there are none.
    RuntimeError
        If a parameter is not initialized.
    AssertionError
        If parameters are on different contexts, or `optimizer_params` come with an object.

    Examples
    --------
    >>> net = mx.gluon.nn.Dense(1, in_units=2)
    >>> net.initialize(mx.init.One())
    >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    >>> with mx.autograd.record():
    ...     loss = net(mx.nd.array([[1, 2]]))
    >>> loss.backward()
    >>> trainer.step(batch_size=1)
    >>> net.weight.data().asnumpy().tolist()
    [[0.5, 0.0]]
    """

    def __init__(self, params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
                 optimizer: str | Optimizer,
                 optimizer_params: Mapping[str, Any] | None = None,
                 kvstore: str | KVStoreBase | None = "device",
                 compression_params: Mapping[str, Any] | None = None,
                 update_on_kvstore: bool | None = None):
        self._params = _parameter_list(params)
        self._param2idx = {id(each): index for index, each in enumerate(self._params)}
        for each in self._params:
            each._set_trainer(self)
        self._contains_sparse_weight = any(each._stype != "default" for each in self._params)
        self._contains_sparse_grad = any(each._grad_stype != "default" for each in self._params)
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        self._init_optimizer(optimizer, optimizer_params)
        self._scale: float = self._optimizer.rescale_grad
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._reset_kvstore()

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for each in self._params:
            own = each.list_ctx()
            if contexts is not None and own != contexts:
                raise CheckError("All Parameters must be initialized on the same set of contexts, "
                                 f"but Parameter {each.name} is initialized on {own} while "
                                 f"previous Parameters are initialized on {contexts}.")
            contexts = own
        return contexts or []

    def _init_optimizer(self, optimizer: str | Optimizer, options: Mapping[str, Any] | None
                        ) -> None:
        if not isinstance(options, (Mapping, NoneType)):
            raise wrong_type("Trainer: optimizer_params", options, "a dict such as "
                             "{'learning_rate': 0.1}")
        parameters: dict[int | str, Any] = {**dict(enumerate(self._params))}
        if not isinstance(optimizer, Optimizer):
            self._optimizer = opt.create(optimizer, param_dict=parameters, **(options or {}))
        elif options:
            raise CheckError("optimizer_params must be None if optimizer is an instance of "
                             f"Optimizer instead of str; they are {sorted(options)}")
        else:
            self._optimizer, optimizer.param_dict = optimizer, parameters
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._contexts]
        self._changed = set[int]()

    # -- the store ----------------------------------------------------------------------------

    def _reset_kvstore(self) -> None:
        """Make a new store at the next step: the weights of the present one are no longer right."""
        store: KVStoreBase | None = getattr(self, "_kvstore", None)
        if store is not None and "dist" in store.type:
            raise MXNetError("Cannot reset distributed KVStore.")
        if isinstance(store, KVStore) and self._update_on_kvstore:     # its states are
            self._updaters[0].set_states(store._require_updater().get_states())
        self._kvstore: KVStoreBase | None = None
        self._kv_initialized = self._distributed = False
        self._update_on_kvstore: bool | None = None
        self._params_to_init = [*self._params]

    def _init_kvstore(self) -> None:
        """Make the store, and decide what it does."""
        store, updates, refusal = self._choose_store()
        chosen: bool | None = self._kvstore_params["update_on_kvstore"]  # type: ignore[assignment]
        if store is not None and chosen is not None:
            if refusal and not chosen:
                raise ArgumentError(refusal)
            if chosen and not store.is_capable(KVStoreBase.OPTIMIZER):
                raise ArgumentError("Please set update_on_kvstore=False when training with "
                                    f"{type(store).__name__}, which cannot update parameters")
            updates = chosen
        self._kvstore, self._update_on_kvstore = store, None if store is None else updates
        self._distributed = store is not None and "dist" in store.type
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if updates:
                store.set_optimizer(self._optimizer)
                if self._updaters[0].states and isinstance(store, KVStore):
                    store._require_updater().set_states(self._updaters[0].get_states())
        self._kv_initialized = True

    def _choose_store(self) -> tuple[KVStoreBase | None, bool, str]:
        """(store, whether it updates parameters, why it has to; '' if it need not)."""
        kind: Any = self._kvstore_params["kvstore"]
        if self._contains_sparse_weight:
            if not isinstance(kind, (str, KVStoreBase)):
                raise ArgumentTypeError(f"Cannot create '{kind}' KVStore with row_sparse "
                                        "parameters. The type must be KVStore or str.")
            return (create(kind) if isinstance(kind, str) else kind, True,
                    "Cannot set update_on_kvstore=False when sparse weights are present.")
        arrays = {each.name: each.list_data()[0] for each in self._params}
        store, updates = _create_kvstore(kind, len(self._contexts), arrays)
        distributed = store is not None and "dist" in store.type
        if self._contains_sparse_grad:  # summed gradients have fewer rows than weights
            return store, distributed, (
                "Cannot set update_on_kvstore=False on dist kvstore when sparse gradients are "
                "present." if distributed else "")
        if store is not None and distributed and "async" in store.type:
            return store, True, "Please set update_on_kvstore=True when training in async mode."
        return store, updates, ""

    def _init_params(self) -> None:
        """Put parameters into the store, but for those whose shapes are not known yet."""
        assert self._kv_initialized
        store: Any = self._kvstore
        for each in self._params_to_init:
            if store is not None and not each._deferred_init:
                index, arrays = self._param2idx[id(each)], _arrays(each)
                if each._stype == "default":
                    store.broadcast(index, arrays[0].copy(), arrays)
                else:
                    store.init(index, arrays[0])
        self._params_to_init = [each for each in self._params_to_init if each._deferred_init]

    def _replace(self, parameter: Parameter) -> None:
        """Go on from other values of a parameter, which are about to be set."""
        if (self._kv_initialized and self._update_on_kvstore
                and parameter not in self._params_to_init):
            self._reset_kvstore()   # it holds the weights
        self._cast(parameter)

    def _cast(self, parameter: Parameter) -> None:
        """Bring the states of a parameter, and copies of its values in them, up to date."""
        self._changed.add(self._param2idx[id(parameter)])

    def _follow(self) -> None:
        """Go on with the present arrays of the parameters, which may be on other contexts."""
        if self._params and self._params[0].list_ctx() != self._contexts:
            contexts = self._check_contexts()
            self._reset_kvstore()
            states = self._updaters[0].get_states()
            counts = self._optimizer._all_index_update_counts
            latest = max(counts.values(), key=lambda each: max(each.values(), default=0))
            self._contexts = contexts
            self._updaters = [opt.get_updater(self._optimizer) for _ in contexts]
            for ctx, updater in zip(contexts, self._updaters, strict=True):
                updater.set_states(states)
                counts[ctx.device_id] = {**latest}
        for index in self._changed:
            for updater, weight in zip(self._updaters, _arrays(self._params[index]), strict=True):
                updater.weight_was_set(index, weight)
        self._changed.clear()

    def _ensure_store(self) -> KVStoreBase | None:
        """The store, made at the first call, with all parameters whose shapes are known."""
        self._follow()
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()
        return self._kvstore

    def _row_sparse_pull(self, parameter: Parameter, out: Any, row_id: NDArray,
                         full_idx: bool = False) -> None:
        """Fetch rows of a sparse parameter from the store; `full_idx`: all of them, in order."""
        store = self._ensure_store()
        index = self._param2idx[id(parameter)]
        if full_idx and not self._distributed:
            store.pull(index, out, -index, ignore_sparse=False)  # type: ignore[union-attr]
        else:
            store.row_sparse_pull(index, out, -index, row_id)  # type: ignore[union-attr]

    # -- rates --------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The learning rate; with a scheduler, its rate at the present number of updates."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer."""
        return self._optimizer

    def set_learning_rate(self, lr: float) -> None:
        """Change the learning rate.

        Parameters
        ----------
        lr : float
            The new rate.

        Raises
        ------
        UserWarning
            If a scheduler decides the rate.
        """
        self._optimizer.set_learning_rate(lr)

    # -- steps --------------------------------------------------------------------------------

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Sum the gradients of all contexts, and step all parameters by the mean over the batch.

        Parameters
        ----------
        batch_size : int
            Number of samples of all contexts together.
        ignore_stale_grad : bool, default False
            Whether parameters whose gradients no backward has written since the last step are left
            alone, instead of being an error.

        Raises
        ------
        UserWarning
            If there is such a parameter, or if a distributed store that updates parameters has
            another batch size.
        """
        self._check_and_rescale_grad(batch_size)
        self._ensure_store()
        self._allreduce_grads()
        self._update(ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Sum the gradients of all contexts, for a call of `update` after changing the sums.

        Raises
        ------
        AssertionError
            If the store updates the parameters.
        """
        self._ensure_store()
        self._check_updated_here("allreduce_grads()")
        self._allreduce_grads()

    def update(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Step all parameters by the gradients of their own contexts, after `allreduce_grads`.

        Parameters
        ----------
        batch_size, ignore_stale_grad
            As for `step`.

        Raises
        ------
        AssertionError
            If the store updates the parameters.
        UserWarning
            As for `step`.
        """
        self._ensure_store()
        self._check_updated_here("update()")
        self._check_and_rescale_grad(batch_size)
        self._update(ignore_stale_grad)

    def _check_updated_here(self, method: str) -> None:
        if self._update_on_kvstore:
            raise CheckError(f"{method} when parameters are updated on kvstore is not supported. "
                             "Try setting `update_on_kvstore` to False when creating trainer.")

    def _check_and_rescale_grad(self, batch_size: float) -> None:
        """Set the factor of gradients, which a distributed store has read already."""
        require_samples(batch_size)
        scale = self._scale / batch_size
        if self._update_on_kvstore and self._distributed and self._optimizer.rescale_grad != scale:
            raise StepError(
                "Possible change in the `batch_size` from previous `step` detected. Optimizer "
                "gradient normalizing factor will not change w.r.t new batch_size when "
                "update_on_kvstore=True and when distributed kvstore is used.")
        self._optimizer.rescale_grad = scale

    def _trained(self) -> list[tuple[int, Parameter]]:
        """Index and parameter of those with gradients."""
        return [(index, each) for index, each in enumerate(self._params)
                if each._grad_req != "null"]

    def _allreduce_grads(self) -> None:
        """Let the store sum the gradients of each parameter, or update it by their sum."""
        store = self._kvstore
        if store is None:
            return
        dense, sparse = list[tuple[int, Parameter]](), list[tuple[int, Parameter]]()
        for index, each in self._trained():
            (dense if each._grad_stype == "default" else sparse).append((index, each))
        on_store = self._update_on_kvstore
        if takes_lists(store) and dense:
            store.pushpull([index for index, _ in dense], [each.list_grad() for _, each in dense],
                           out=[each.list_data() for _, each in dense] if on_store else None)
        else:
            for index, each in dense:
                store.pushpull(index, each.list_grad(), each.list_data() if on_store else None,
                               priority=-index)
        for index, each in sparse:
            self._reduce_sparse(store, index, each)

    def _reduce_sparse(self, store: Any, index: int, parameter: Parameter) -> None:
        """Sum row-sparse gradients; sparse weights stay in the store, and rows are pulled."""
        gradients = parameter.list_grad()
        store.push(index, gradients, priority=-index)
        if parameter._stype == "default":
            out = parameter.list_data() if self._update_on_kvstore else gradients
            store.pull(index, out, priority=-index, ignore_sparse=self._distributed)

    def _update(self, ignore_stale_grad: bool = False) -> None:
        """Step the parameters of each context by its updater, unless a gradient overflowed."""
        scaler: Any = getattr(self, "_amp_loss_scaler", None)
        if scaler is not None and scaler.has_overflow(self._params):
            return
        updates = [_Update([], [], []) for _ in self._updaters]
        for index, each in self._trained():
            for update, weight, gradient in zip(updates, _arrays(each), each.list_grad(),
                                                strict=True):
                if fresh_gradient(weight):
                    update.indices.append(index)
                    update.gradients.append(gradient)
                    update.weights.append(weight)
                elif not ignore_stale_grad:
                    raise stale(each, weight)
        if self._update_on_kvstore:
            return
        for updater, update in zip(self._updaters, updates, strict=True):
            for weight in update.weights:
                set_fresh_gradient(weight, False)
            if update.indices:
                updater(*update)

    # -- states -------------------------------------------------------------------------------

    def save_states(self, fname: str) -> None:
        """Write the optimizer and its states, momentum for example, to a file.

        Parameters
        ----------
        fname : str
            File; it is not that of the parameters.

        Raises
        ------
        AssertionError
            If the store updates parameters whose shapes are not known yet.
        """
        store = self._ensure_store()
        if not self._update_on_kvstore:
            save_states_file(self._updaters[0], fname, dump_optimizer=True)
            return
        if self._params_to_init:
            raise CheckError("Cannot save trainer states when some parameters are not yet "
                             "initialized in kvstore.")
        assert store is not None
        store.save_optimizer_states(fname, dump_optimizer=True)

    def load_states(self, fname: str) -> None:
        """Read the optimizer and its states from a file of `save_states`.

        Parameters
        ----------
        fname : str
            File that nbmod or MXNet wrote.

        Raises
        ------
        MXNetError
            If it is damaged, or of another optimizer.
        """
        store = self._ensure_store()
        if self._update_on_kvstore:
            assert isinstance(store, KVStore)
            store.load_optimizer_states(fname)
            self._optimizer = store._require_updater().optimizer
        else:
            for updater in self._updaters:
                load_states_file(updater, fname)
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


def _arrays(parameter: Parameter) -> list[NDArray]:
    """The values of a parameter on all contexts, sparse ones, too."""
    return parameter._data or parameter._check_and_get(None, list)


def _parameter_list(params: Any) -> list[Parameter]:
    """The parameters that a trainer is given; those of a dict in order of their names."""
    if hasattr(params, "keys"):
        params = [params[name] for name in sorted(params.keys())]
    if not isinstance(params, (list, tuple)):
        raise ArgumentError("First argument must be a list or dict of Parameters, got "
                            f"{type(params)}.{_hint(params)}")
    for each in params:
        if not isinstance(each, Parameter):
            raise ArgumentError("First argument must be a list or dict of Parameters, got list of "
                                f"{type(each)}.{_hint(each)}")
    if not params:
        raise ArgumentTypeError("Trainer: there are no parameters to step; those of a block and of "
                                "all within it are block.collect_params(), not block.params")
    return [*params]


def _hint(value: object) -> str:
    return " Its collect_params() returns them." if isinstance(value, Block) else ""
