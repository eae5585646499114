"""The executor of networks with sparse arguments or gradients.

What is stored of a sparse array differs from batch to batch, so no plan can give it memory.  Nodes
with sparse entries run one by one (`execution.interpreter`); the dense parts between them are bound
as ordinary executors, planned and fused (`passes.dense_regions`).  Where a node has no sparse form,
a `cast_storage` node before it makes a dense array (`passes.insert_casts`).  Networks without
sparse arrays never come here.

Assumes: all nodes are on one CPU and none runs a subgraph; checked in `_require_supported`.  Values
that gradients read are kept by reference: an argument that is written between `forward` and
`backward` is read as it is then, as in any executor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ..base import MXNetError
from ..config import is_exact
from ..executor import Executor
from ..graph import Entry, Graph, Node
from ..ndarray import NDArray, zeros
from ..ndarray.recording import RecordingScope
from ..ndarray.sparse_array import of_value
from ..ops.internal import ZeroGradient
from ..ops.op import Backward, Spec
from ..ops.sparse.dense_region import DenseRegion
from ..ops.sparse.storage_types import STYPES
from ..passes.dense_regions import dense_nodes, dense_regions, expanded
from ..passes.infer import Inferred, infer_specs
from ..passes.infer_storage import (
    Letters,
    falls_back,
    infer_gradient_storage,
    infer_storage,
    letters_in,
)
from ..passes.insert_casts import cast_name, tell_fallbacks, with_casts
from ..passes.switches import is_enabled
from .bind import BindArguments
from .bound_region import BoundRegion
from .call_arguments import load_arguments, load_head_gradients
from .interpreted import Differentiated, differentiate
from .interpreter import Interpreter, NetworkFacts, Value
from .pipeline import validation_of
from .steps import States

if TYPE_CHECKING:
    from os import PathLike

    from ..base import Array
    from ..symbol.symbol import Arrays

__all__ = ["SparseExecutor"]


class StorageTypes(NamedTuple):
    """A network and its gradients, and the storage types of all entries."""

    network: Inferred
    """With `cast_storage` nodes."""
    gradients: Graph
    letters: Letters


class GradientTargets(NamedTuple):
    """Which gradients of a network go where, by argument."""

    computed: dict[str, Entry]
    """Those that nodes compute, to be stored."""
    regions: dict[str, Entry]
    """Those that dense regions write to the arrays of the arguments."""
    zeros: list[str]
    """Nothing flows to these."""


class NodePlan(NamedTuple):
    """A graph and its gradients, to be interpreted."""

    network: Differentiated
    facts: NetworkFacts
    targets: GradientTargets
    inference: Interpreter
    training: Interpreter
    """This keeps what gradients read."""
    backward: Interpreter

    @property
    def regions(self) -> list[Node]:
        """The nodes of dense regions."""
        return [node for node in self.network.forward.nodes if isinstance(node.op, DenseRegion)]


def infer_network(given: BindArguments, trained: Sequence[str]) -> StorageTypes:
    """Insert casts where nodes have no sparse form, and say so."""
    declared = {name: array.stype for name, array in given.args.items()}
    letters = infer_storage(given.inferred.graph, declared)
    tell_fallbacks(given.inferred.graph, letters)
    graph = with_casts(given.inferred.graph, letters)
    specs = infer_specs(graph, {name: Spec(array.shape, array._data.dtype)
                                for name, array in (*given.args.items(), *given.aux.items())})
    wrt = {node.name: node for node in graph.arguments}
    gradients, letters = infer_gradient_storage(graph, infer_storage(graph, declared),
                                                [wrt[name] for name in trained])
    tell_fallbacks(gradients, letters)
    return StorageTypes(Inferred(graph, specs), gradients, letters)


class SparseExecutor(Executor):
    """An executor of a network with sparse arrays.

    Parameters
    ----------
    given : BindArguments
        The network, its arrays by name, and where to compute.
    shared : Executor, optional
        Has no effect: dense regions have memory of their own.
    states : dict, optional
        Has no effect.
    optimize, key : optional
        Have no effect.
    """

    def __init__(self, given: BindArguments, shared: Executor | None = None,
                 states: States | None = None, optimize: bool = True, key: str | None = None):
        _require_supported(given)
        self._given = given if given.exact is not None else given._replace(exact=is_exact())
        self.arg_dict, self.aux_dict = dict(given.args), dict(given.aux)
        self.grad_dict = {name: given.grads.get(name) for name in given.args}
        self._trained = [name for name, grad in self.grad_dict.items()
                         if grad is not None and given.requests[name] != "null"]
        self._types = infer_network(self._given, self._trained)
        self._plan = self._bound_plan()
        self._kept: tuple[NodePlan, dict[Entry, Value]] | None = None
        network = self._plan.network
        read = {*network.read}
        self._heads = {position: self._zeros(given.inferred.graph.outputs[position])
                       for position, head in enumerate(network.heads) if Entry(head) in read}
        self._monitor = None
        self._outputs = self._new_outputs()

    def _bound_plan(self) -> NodePlan:
        """The plan that runs, its regions bound."""
        network, gradients, letters = self._types
        if not is_enabled("dense_regions"):
            return self._plan_of(network.graph)
        dense = dense_nodes(network.graph, gradients, letters)
        contracted = dense_regions(network, dense, self._trained)
        validation = validation_of(network, [*self._trained])
        if validation is not None:
            whole = expanded(contracted)
            validation.graphs("dense_regions", network, Inferred(whole, infer_specs(
                whole, network.of(network.graph.variables))))
        plan = self._plan_of(contracted)
        for region in plan.regions:
            op = region.op
            assert isinstance(op, DenseRegion)
            own = [name for name, entry in plan.targets.regions.items()
                   if entry.node.source is region]
            others = {op.names[entry.index] for entry in plan.network.read
                      if entry.node.source is region and isinstance(entry.node.op, Backward)}
            plan.facts.state(region)["executor"] = BoundRegion(op, self._given, own,
                                                                 others - {*own})
        return plan

    @cached_property
    def _node_by_node(self) -> NodePlan:
        """The plan of the symbol's own nodes, for monitors: these convert what they read."""
        return self._plan_of(self._given.inferred.graph)

    def _plan_of(self, graph: Graph) -> NodePlan:
        known = {name: Spec(array.shape, array._data.dtype)
                 for name, array in (*self.arg_dict.items(), *self.aux_dict.items())}
        network = differentiate(Inferred(graph, infer_specs(graph, known)), self._trained)
        facts = NetworkFacts(network.joint, [self._given.ctx] * network.joint.graph.num_entries)
        targets = self._targets(network)
        flowing = [*targets.computed.values(), *targets.regions.values()]
        kept = [*flowing, *network.inputs(flowing)]
        forward = [node for node in graph.nodes if node.op is not None]
        return NodePlan(
            network, facts, targets, Interpreter(facts, forward, graph.outputs, "sparse"),
            Interpreter(facts, forward, [*graph.outputs, *kept], "sparse"),
            Interpreter(facts, network.nodes(flowing), targets.computed.values(), "sparse"))

    def _targets(self, network: Differentiated) -> GradientTargets:
        """Where gradients go."""
        read, found = Counter(network.read), GradientTargets({}, {}, [])
        for name, entry in network.gradients.items():
            op, grad = entry.node.op, self.grad_dict[name]
            if isinstance(op, ZeroGradient):
                found.zeros.append(name)
            elif (isinstance(op, Backward) and isinstance(op.fwd, DenseRegion)
                  and read[entry] == 1 and grad is not None and not grad.is_sparse):
                found.regions[name] = entry
            else:
                found.computed[name] = entry
        return found

    def _zeros(self, entry: Entry, stype: str = "default") -> NDArray:
        """Zeros like an entry of the symbol's graph."""
        inferred = self._given.inferred
        shape, dtype = inferred.specs[inferred.graph.eid(entry)]
        return zeros(shape, self._given.ctx, dtype, stype)

    def _new_outputs(self) -> list[NDArray]:
        letters = self._types.letters
        return [self._zeros(entry, STYPES[letters[mine]]) for entry, mine in zip(
            self._given.inferred.graph.outputs, self._types.network.graph.outputs, strict=True)]

    is_planned = False

    @property
    def outputs(self) -> list[NDArray]:
        """In the order of the symbol's `list_outputs`."""
        return self._outputs

    # -- running ----------------------------------------------------------------------------

    def forward(self, is_train: bool = False, **kwargs: NDArray | Array) -> list[NDArray]:
        """Compute the outputs; see `Executor.forward`."""
        if kwargs:
            load_arguments(self.arg_dict, kwargs)
        plan = self._plan if self._monitor is None else self._node_by_node
        values = {Entry(node): self._value(node.name) for node in plan.network.forward.variables}
        with RecordingScope(False, bool(is_train)):
            (plan.training if is_train else plan.inference).run(
                values, bool(is_train), None if self._monitor is None else self._monitor.watch)
        self._kept = (plan, values) if is_train else None
        for output, entry in zip(self.outputs, plan.network.forward.outputs, strict=True):
            of_value(values[entry], self._given.ctx).copyto(output)
        return self.outputs

    def _value(self, name: str) -> Value:
        array = self.arg_dict[name] if name in self.arg_dict else self.aux_dict[name]
        return array._data

    def backward(self, out_grads: NDArray | Arrays | None = None, is_train: bool = True) -> None:
        """Compute the gradients of the last `forward`; see `Executor.backward`."""
        if not self._trained:
            return
        if self._kept is None:
            raise MXNetError("backward: call forward(is_train=True) first")
        if self._heads or out_grads is not None:
            load_head_gradients(self._heads, self._given.symbol.list_outputs(), out_grads)
        plan, kept = self._kept
        values = kept | {Entry(plan.network.heads[position]): head._data
                         for position, head in self._heads.items()}
        with RecordingScope(False, bool(is_train)):
            plan.backward.run(values, bool(is_train))
            for name, entry in plan.targets.computed.items():
                self._store(name, of_value(values[entry], self._given.ctx))
            for name in plan.targets.zeros:
                self._store(name, None)

    def _store(self, name: str, found: NDArray | None) -> None:
        """Write a gradient to the array of an argument, or add it; None: zeros."""
        grad = self.grad_dict[name]
        assert grad is not None
        if self._given.requests[name] != "add":
            grad[:] = zeros(grad.shape, grad.context, grad.dtype, grad.stype) if (
                found is None) else found
        elif found is not None:
            grad[:] = found + grad

    def renew_outputs(self) -> None:
        """Leave the arrays in `outputs` to those who have them, and make new ones."""
        self._outputs = self._new_outputs()

    def release(self) -> None:
        """Release intermediate results, which `backward` reads."""
        self._kept = None

    # -- looking at it ------------------------------------------------------------------------

    def debug_str(self) -> str:
        """Describe what runs.

        Returns
        -------
        str
            A line for each node with sparse arrays, with the storage types of its inputs and its
            output; `cast_storage` where a sparse array is converted to a dense one, also in the
            backward pass; and the dense regions, each with its plan.
        """
        declared = {name: array.stype for name, array in self.arg_dict.items()}
        letters = infer_storage(self._plan.network.forward, declared)
        lines = ["sparse arrays: nodes run one by one, dense regions as executors of their own"]
        for node in self._plan.network.forward.nodes:
            if isinstance(node.op, DenseRegion):
                lines += [f"dense region {node.name}:", *_indented(self._region_plan(node))]
            elif node.op is not None:
                lines.append(_line(node.op.name, node.name, letters_in(node, letters),
                                   letters[Entry(node)]))
        backward = [*_backward_casts(self._types)]
        return "\n".join([*lines, *(["-- backward --"] if backward else []), *backward, ""])

    def _region_plan(self, node: Node) -> str:
        bound = self._plan.facts.state(node)["executor"]
        assert isinstance(bound, BoundRegion)
        return bound.executor.debug_str()

    def plan_chart(self, path: str | PathLike[str] | None = None) -> NoReturn:
        """Not defined: sparse arrays have no plan.

        Raises
        ------
        MXNetError
            Always.
        """
        raise MXNetError("plan_chart: arguments or gradients are sparse, so there is no plan; see "
                         "debug_str")


def _require_supported(given: BindArguments) -> None:
    for node in given.inferred.graph.nodes:
        if node.op is not None and (node.op.runs_subgraphs or given.groups):
            raise MXNetError(f"bind: {node.describe()} runs a graph of its own, or the network "
                             "is spread over devices (group2ctx); both need dense arrays")
    for name, array in given.aux.items():
        if array.is_sparse:
            raise MXNetError(f"bind: auxiliary state {name} is {array.stype}, expected a dense "
                             "array; use tostype('default')")


# -- as text ----------------------------------------------------------------------------------


def _line(op: str, name: str, ins: str, out: str) -> str:
    kinds = ", ".join(STYPES[letter] for letter in ins)
    return f"{op} {name}: ({kinds}) -> {STYPES[out]}"


def _indented(text: str) -> Iterator[str]:
    return (f"    {line}" for line in text.splitlines())


def _backward_casts(types: StorageTypes) -> Iterator[str]:
    """Conversions in the backward pass, a line each."""
    for node in types.gradients.nodes:
        if falls_back(node, types.letters):
            for entry in dict.fromkeys(node.inputs):
                if (letter := types.letters[entry]) != "d":
                    yield (_line("cast_storage", cast_name(entry), letter, "d")
                           + f", for {node.name}")
