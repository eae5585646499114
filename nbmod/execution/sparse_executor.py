"""The executor of networks with sparse arguments or gradients.

What is stored of a sparse array differs from batch to batch, so no plan can give it memory.  This
executor runs the network node by node: operators with sparse forms on stored elements, others on
dense arrays, recorded on a tape of its own where gradients are asked for.  Networks without sparse
arrays never come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ..base import MXNetError
from ..config import is_exact
from ..executor import Executor
from ..graph import Entry, Graph, Node
from ..ndarray import NDArray, invoke, zeros
from ..ndarray.gradients import backward
from ..ndarray.recording import RecordingScope
from ..ndarray.sparse_array import of_value
from ..ndarray.tape import Marked, live_entry
from ..ops.sparse.storage_types import STYPES, result
from ..passes.gradient import gradient
from ..passes.infer_storage import infer_storage
from .bind import BindArguments
from .call_arguments import load_arguments, load_head_gradients
from .step_monitor import StepMonitor, named_inputs, named_outputs
from .steps import States

if TYPE_CHECKING:
    from os import PathLike

    from ..base import Array
    from ..symbol.symbol import Arrays

__all__ = ["SparseExecutor"]


class SparseExecutor(Executor):
    """An executor that runs a network with sparse arrays node by node.

    Parameters
    ----------
    given : BindArguments
        The network, its arrays by name, and where to compute.
    shared : Executor, optional
        Has no effect: intermediate results are not planned.
    states : dict, optional
        Has no effect.
    optimize, numpy_forms : bool
        Have no effect.
    """

    def __init__(self, given: BindArguments, shared: Executor | None = None,
                 states: States | None = None, optimize: bool = True, numpy_forms: bool = False):
        self._given = given if given.exact is not None else given._replace(exact=is_exact())
        self.arg_dict, self.aux_dict = dict(given.args), dict(given.aux)
        self.grad_dict = {name: given.grads.get(name) for name in given.args}
        self._graph = graph = given.inferred.graph
        for node in graph.nodes:
            if node.op is not None and (node.op.runs_subgraphs or given.groups):
                raise MXNetError(f"bind: {node.describe()} runs a graph of its own, or the network "
                                 "is spread over devices (group2ctx); both need dense arrays")
        self._letters = infer_storage(graph, {name: array.stype for name, array
                                              in self.arg_dict.items()})
        self._heads = self._head_arrays_read()
        self._results: list[NDArray] = []
        self._monitor = None
        self.outputs = self._new_outputs()

    def _head_arrays_read(self) -> dict[int, NDArray]:
        """Arrays for the head gradients that gradients depend on, by position of the output."""
        wrt = [node for node in self._graph.arguments if self._is_trained(node.name)]
        heads = [Entry(Node(None, "head")) for _ in self._graph.outputs]
        read = {id(node) for node in Graph(gradient(self._graph, wrt, heads)).variables}
        return {position: self._zeros(output) for position, (head, output)
                in enumerate(zip(heads, self._graph.outputs, strict=True)) if id(head.node) in read}

    def _is_trained(self, name: str) -> bool:
        return self.grad_dict.get(name) is not None and self._given.requests[name] != "null"

    def _zeros(self, entry: Entry, stype: str = "default") -> NDArray:
        """Zeros like an entry of the graph."""
        shape, dtype = self._given.inferred.specs[self._graph.eid(entry)]
        return zeros(shape, self._given.ctx, dtype, stype)

    def _new_outputs(self) -> list[NDArray]:
        return [self._zeros(entry, STYPES[self._letters[entry]]) for entry in self._graph.outputs]

    # -- running ----------------------------------------------------------------------------

    def forward(self, is_train: bool = False, **kwargs: NDArray | Array) -> list[NDArray]:
        """Compute the outputs; see `Executor.forward`."""
        if kwargs:
            load_arguments(self.arg_dict, kwargs)
        trained = [name for name in self.arg_dict if self._is_trained(name)]
        with RecordingScope(bool(is_train and trained), bool(is_train)):
            values = self._run_nodes()
        self._results = [values[entry] for entry in self._graph.outputs]
        for output, found in zip(self.outputs, self._results, strict=True):
            found.copyto(output)
        return self.outputs

    def backward(self, out_grads: NDArray | Arrays | None = None, is_train: bool = True) -> None:
        """Compute the gradients of the last `forward`; see `Executor.backward`."""
        if not any(map(self._is_trained, self.arg_dict)):
            return
        recorded = [(found, self._heads.get(position)) for position, found
                    in enumerate(self._results) if live_entry(found) is not None]
        if not recorded:
            raise MXNetError("backward: call forward(is_train=True) first")
        if self._heads or out_grads is not None:
            load_head_gradients(self._heads, self._given.symbol.list_outputs(), out_grads)
        backward([found for found, _ in recorded], [head for _, head in recorded],
                 retain_graph=True, train_mode=bool(is_train))

    def _run_nodes(self) -> dict[Entry, NDArray]:
        """The values of all entries."""
        values: dict[Entry, NDArray] = {}
        for node in self._graph.nodes:
            if node.op is None:
                values[Entry(node)] = self._leaf(node.name)
                continue
            try:
                found = self._run_node(node, [values[entry] for entry in node.inputs])
            except MXNetError as error:
                raise type(error)(f"{node.describe()}: {error}") from error
            values.update({Entry(node, index): array for index, array in enumerate(found)})
        return values

    def _leaf(self, name: str) -> NDArray:
        """An array bound, under an entry of its own: what the user records is not touched."""
        array = self.arg_dict[name] if name in self.arg_dict else self.aux_dict[name]
        leaf = of_value(array.handle, array.context)
        if self._is_trained(name):
            leaf._entry = Entry(Marked(leaf.handle, leaf.context, self.grad_dict[name],
                                       self._given.requests[name]))
        return leaf

    def _run_node(self, node: Node, inputs: list[NDArray]) -> list[NDArray]:
        """The visible outputs of a node."""
        op, monitor = node.required_op, self._monitor
        if isinstance(monitor, StepMonitor) and monitor.monitor_all:
            monitor.show(named_inputs(node, inputs))
        out = None if inputs else [self._zeros(Entry(node, index))
                                   for index in range(node.num_visible)]
        found = invoke(op, inputs, out, self._given.ctx)
        outputs: list[NDArray] = found if isinstance(found, list) else [found]
        if isinstance(monitor, StepMonitor):
            hidden = [None] * (node.num_outputs - len(outputs))
            monitor.show(named_outputs(node, [*outputs, *hidden]))
        return outputs

    def renew_outputs(self) -> None:
        """Leave the arrays in `outputs` to those who have them, and make new ones."""
        self.outputs = self._new_outputs()

    def release(self) -> None:
        """Release intermediate results, which `backward` reads."""
        self._results = []

    # -- looking at it ------------------------------------------------------------------------

    def debug_str(self) -> str:
        """Describe what runs: every node, and the storage types of its inputs and output.

        Returns
        -------
        str
            A line for each node; those that convert sparse inputs to dense arrays say so.
        """
        lines = ["run node by node, as arguments or gradients are sparse:"]
        for node in self._graph.nodes:
            if node.op is not None:
                letters = "".join(self._letters[entry] for entry in node.inputs)
                kinds = ", ".join(STYPES[letter] for letter in letters)
                converts = set(letters) - {"d"} and result(node.op, letters) is None
                note = "  (on dense arrays)" if converts else ""
                lines.append(f"{node.op.name} {node.name}: ({kinds}) -> "
                             f"{STYPES[self._letters[Entry(node)]]}{note}")
        return "\n".join(lines) + "\n"

    def plan_chart(self, path: str | PathLike[str] | None = None) -> NoReturn:
        """Not defined: sparse arrays have no plan.

        Raises
        ------
        MXNetError
            Always.
        """
        raise MXNetError("plan_chart: arguments or gradients are sparse, so there is no plan; see "
                         "debug_str")
