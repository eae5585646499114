"""The interface of all kinds of modules.

Four flags are the state of a module: `binded`, `params_initialized`, `optimizer_initialized`, and
`for_training`.  Methods that a class does not override raise AbstractError, or have a meaning for
modules without parameters, states or executors.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from .. import ndarray as nd
from ..base import AbstractError, MXNetError
from ..callback.monitor import Monitor
from ..checkpoint import join_params, split_params
from ..initializer import Uniform
from ..io import DataDesc
from ..metric import EvalMetric
from ..ndarray import NDArray
from ..symbol import Symbol
from .arguments import (
    Batch,
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

if TYPE_CHECKING:
    from ..core.log import Logger
    from ..executor import Executor
    from ..optimizer import Optimizer
    from .json_codec import Plain
    from .training_position import TrainingPosition
    from .turns import Turns

__all__ = ["ModuleInterface"]


class ModuleInterface:
    """Methods of all kinds of modules, except the training loop, evaluation and prediction."""

    binded: bool
    params_initialized: bool
    optimizer_initialized: bool
    for_training: bool
    history: list[dict[str, Plain]]
    logger: Logger
    _symbol: Symbol
    _turns: Turns

    # -- parameters -------------------------------------------------------------------------

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
        self.init_params(initializer=None, arg_params=arg_params, aux_params=aux_params,
                         allow_missing=allow_missing, force_init=force_init,
                         allow_extra=allow_extra)

    def save_params(self, fname: str) -> None:
        """Save parameters and auxiliary states to a file in MXNet's format.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        nd.save(fname, join_params(*self.get_params()))

    def load_params(self, fname: str) -> None:
        """Load parameters and auxiliary states that `save_params` or MXNet saved.

        Parameters
        ----------
        fname : str
            Path of the file.

        Raises
        ------
        MXNetError
            If the file is damaged, or its arrays are not named ``arg:...`` or ``aux:...``.
        """
        loaded = nd.load(fname)
        if not isinstance(loaded, dict):
            raise MXNetError(f"{fname}: the arrays have no names, so these are no parameters")
        params = split_params(loaded, fname)
        try:
            self.set_params(*params)
        except MXNetError as error:
            if type(error) is not MXNetError:
                raise
            raise MXNetError(f"{fname}: {error}") from None

    @property
    def symbol(self) -> Symbol:
        """Symbol of the network."""
        return self._symbol

    # -- defaults for modules without this state --------------------------------------------

    def _executors(self) -> list[Executor]:
        """Executors that ran the last batch; none in modules that have none."""
        return []

    def _optimizers(self) -> list[Optimizer]:
        """Optimizers that `update` uses; none in modules that have none."""
        return []

    def _param_gradients(self) -> list[list[NDArray]]:
        """For each parameter that `update` changes, its gradient on every device."""
        return []

    def _averages_params(self) -> bool:
        """Whether an epoch ends with `get_params` and `set_params`, for the mean over devices."""
        return True

    def _begin_fit(self, progress: TrainingPosition, overlaps: bool
                   ) -> AbstractContextManager[None]:
        """Prepare the first epoch of `fit`: resume from a checkpoint, if one was loaded for it.

        `fit` trains within the returned context manager.  With `overlaps`, several workers may
        exchange gradients during the backward pass.
        """
        return nullcontext()

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

    def get_states(self, merge_multi_context: bool = True) -> Outputs:
        """Get the values of the state inputs, one item for each of `state_names`.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the arrays of several contexts along the batch axis; otherwise each item is a
            list with one NDArray per context.
        """
        raise self._abstract("get_states")

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
        raise self._abstract("set_states")

    # -- abstract methods -------------------------------------------------------------------

    def _require(self, *states: str) -> None:
        """MXNetError naming the method to call first, unless every state has been reached."""
        raise self._abstract("_require")

    def _abstract(self, method: str) -> AbstractError:
        return AbstractError(f"{type(self).__name__} does not define {method}")

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        raise self._abstract("data_names")

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        raise self._abstract("output_names")

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data inputs, as bound."""
        raise self._abstract("data_shapes")

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the label inputs, as bound; None or empty without labels."""
        raise self._abstract("label_shapes")

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Pairs of name and shape of the outputs."""
        raise self._abstract("output_shapes")

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
        raise self._abstract("get_params")

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
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
        >>> module = mx.mod.Module(net, label_names=None)
        >>> module.bind([("data", (1, 2))])
        >>> module.init_params(mx.init.Zero(), {"fc_weight": mx.nd.array([[2, 3]])},
        ...                    allow_missing=True)
        >>> {name: array.asnumpy().tolist() for name, array in module.get_params()[0].items()}
        {'fc_weight': [[2.0, 3.0]], 'fc_bias': [0.0]}
        """
        raise self._abstract("init_params")

    def bind(self, data_shapes: Shapes, label_shapes: Shapes = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: ModuleInterface | None = None, grad_req: GradReq = "write",
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
        >>> net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=8)
        >>> module = mx.mod.Module(net, label_names=None)
        >>> module.bind(data_shapes=[("data", (1, 3, 32, 32))], for_training=False)
        >>> [shape for name, shape in module.output_shapes]
        [(1, 8, 30, 30)]
        """
        raise self._abstract("bind")

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
        raise self._abstract("init_optimizer")

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
        raise self._abstract("forward")

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
        >>> module = mx.mod.Module(mx.sym.square(mx.sym.Variable("data")), label_names=None)
        >>> module.bind([("data", (1, 2))], inputs_need_grad=True)
        >>> module.init_params()
        >>> module.forward(mx.io.DataBatch([mx.nd.array([[3, 4]])]))
        >>> module.backward([mx.nd.ones((1, 2))])
        >>> module.get_input_grads()[0].asnumpy().tolist()
        [[6.0, 8.0]]
        """
        raise self._abstract("backward")

    def update(self) -> None:
        """Update the parameters by the optimizer and the gradients of the last `backward`."""
        raise self._abstract("update")

    def get_outputs(self, merge_multi_context: bool = True) -> Outputs:
        """Get the outputs of the last `forward`, one item for each output of the symbol.

        On a single context these are buffers that the next `forward` overwrites; copy those to be
        kept. Where several threads share the module, each gets the outputs of its own `forward`,
        which other threads do not overwrite (docs/threads.md).

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the arrays of several contexts along the batch axis; otherwise each item is a
            list with one NDArray per context.
        """
        raise self._abstract("get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        """Get the gradients of the data inputs after `backward`, one item for each.

        The module must have been bound with ``inputs_need_grad=True``.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the arrays of several contexts along the batch axis; otherwise each item is a
            list with one NDArray per context.
        """
        raise self._abstract("get_input_grads")

    def update_metric(self, eval_metric: EvalMetric, labels: Labels, pre_sliced: bool = False
                      ) -> None:
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
        raise self._abstract("update_metric")

    def install_monitor(self, mon: Monitor) -> None:
        """Observe the executors by a monitor.

        Parameters
        ----------
        mon : Monitor
            The monitor; call its `tic` before a batch and its `toc` after it.
        """
        raise self._abstract("install_monitor")
