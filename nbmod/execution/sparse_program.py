"""The program of networks with sparse arguments or gradients.

What is stored of a sparse array differs from batch to batch, so no plan can give it memory.  Nodes
with sparse entries run one by one (`execution.interpreted`); the dense parts between them are bound
as ordinary executors, planned and fused (`passes.dense_regions`).  Where a node has no sparse form,
a `cast_storage` node before it makes a dense array (`passes.insert_casts`).  Networks without
sparse arrays never come here.

Assumes: all nodes are on one CPU, and those that run subgraphs are in dense regions; checked in
`_require_supported` and `_require_no_loops`.  Values that gradients read are kept by reference: an
argument that is written between `forward` and `backward` is read as it is then, as in any executor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from ..base import MXNetError
from ..graph import Entry, Graph, Node
from ..ndarray import NDArray
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
from ..passes.switches import PassChange, is_enabled
from .bind import Arrays, BindArguments
from .bound_region import Bind, BoundRegion
from .interpreted import Differentiated, InterpretedProgram, differentiate
from .pipeline import validation_of
from .step_monitor import StepMonitor
from .steps import StepWatcher

__all__ = ["SparseProgram"]


class StorageTypes(NamedTuple):
    """A network and its gradients, and the storage types of all entries."""

    network: Inferred
    """With `cast_storage` nodes."""
    gradients: Graph
    letters: Letters

    @property
    def outputs(self) -> list[str]:
        """The storage types of the outputs."""
        return [STYPES[self.letters[entry]] for entry in self.network.graph.outputs]


def infer_network(binding: BindArguments) -> StorageTypes:
    """Insert casts where nodes have no sparse form, and say so."""
    declared = {name: array.stype for name, array in binding.args.items()}
    letters = infer_storage(binding.inferred.graph, declared)
    tell_fallbacks(binding.inferred.graph, letters)
    graph = with_casts(binding.inferred.graph, letters)
    specs = infer_specs(graph, {name: Spec(array.shape, array._data.dtype)
                                for name, array in (*binding.args.items(), *binding.aux.items())})
    wrt = {node.name: node for node in graph.arguments}
    gradients, letters = infer_gradient_storage(graph, infer_storage(graph, declared),
                                                [wrt[name] for name in binding.trained])
    tell_fallbacks(gradients, letters)
    return StorageTypes(Inferred(graph, specs), gradients, letters)


class SparseProgram:
    """A network with sparse arrays that runs node by node, and region by region.

    `bind` makes the executor of a region.
    """

    def __init__(self, binding: BindArguments, bind: Bind):
        _require_supported(binding)
        self._binding, self._bind, self._types = binding, bind, infer_network(binding)
        contracted = self._contracted()
        _require_no_loops(contracted.graph)
        self._program = self._ran = self._interpreted(contracted)
        for region in self._regions:
            self._program.facts.state(region)["executor"] = self._bound(region)

    def _contracted(self) -> Inferred:
        """The graph that runs, with regions."""
        (network, gradients, letters), trained = self._types, self._binding.trained
        if not is_enabled("dense_regions"):
            return network
        known = network.of(network.graph.variables)
        graph = dense_regions(network, dense_nodes(network.graph, gradients, letters), trained)
        validation = validation_of(network, trained)
        if validation is not None:
            whole = expanded(graph)
            validation.compare(PassChange("dense_regions", network,
                                          Inferred(whole, infer_specs(whole, known))))
        return Inferred(graph, infer_specs(graph, known))

    def _interpreted(self, network: Inferred) -> InterpretedProgram:
        differentiated = differentiate(network, self._binding.trained)
        return InterpretedProgram(self._binding, {}, "sparse", differentiated._replace(
            stypes=self._types.outputs, written=self._written(differentiated)))

    def _written(self, network: Differentiated) -> dict[str, Entry]:
        """The gradients that dense regions write to the arrays of the arguments."""
        read, grads = Counter(network.read), self._binding.grads
        return {name: entry for name, entry in network.gradients.items()
                if isinstance(op := entry.node.op, Backward) and isinstance(op.fwd, DenseRegion)
                and read[entry] == 1 and not grads[name].is_sparse}

    @property
    def _regions(self) -> list[Node]:
        return [node for node in self._program.network.forward.nodes
                if isinstance(node.op, DenseRegion)]

    def _region(self, node: Node) -> BoundRegion:
        region = self._program.facts.state(node)["executor"]
        assert isinstance(region, BoundRegion)
        return region

    def _bound(self, region: Node) -> BoundRegion:
        op, network = region.op, self._program.network
        assert isinstance(op, DenseRegion)
        own = {name for name, entry in network.written.items() if entry.node.source is region}
        read = {op.names[entry.index] for entry in network.read
                if entry.node.source is region and isinstance(entry.node.op, Backward)}
        return BoundRegion(op, self._binding, own, read - own, self._bind)

    @cached_property
    def _node_by_node(self) -> InterpretedProgram:
        """The program of the symbol's own nodes, for monitors: these convert what they read.

        Loops run in regions only, so that monitors of networks with loops see these as a node.
        """
        has_loops = any(node.runs_subgraphs for node in self._binding.inferred.graph.nodes)
        return self._program if has_loops else self._interpreted(self._binding.inferred)

    @property
    def outputs(self) -> list[NDArray]:
        """In the order of the symbol's `list_outputs`."""
        return self._program.outputs

    def renew_outputs(self) -> None:
        """Leave the arrays in `outputs` to those who have them, and make new ones."""
        self._program.renew_outputs()

    def release(self) -> None:
        """Release intermediate results, which `backward` reads."""
        self._ran.release()

    def forward(self, is_train: bool, observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the outputs; monitors among `observers` see the symbol's own nodes."""
        is_monitored = any(isinstance(one, StepMonitor) for one in observers)
        self._ran.release()
        self._ran = self._node_by_node if is_monitored else self._program
        self._ran.outputs = self.outputs
        self._ran.forward(is_train, observers)

    def backward(self, out_grads: NDArray | Arrays | None, is_train: bool,
                 observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the gradients of the last forward pass in training."""
        self._ran.backward(out_grads, is_train)

    def retain(self) -> None:
        """Keep what the next backward pass of dense regions reads, so that another may follow."""
        for region in self._regions:
            self._region(region).executor.retain()

    def debug_str(self) -> str:
        """Describe what runs: a line for each node with sparse arrays, with the storage types of
        its inputs and its output; `cast_storage` where a sparse array is converted to a dense one,
        also in the backward pass; and the dense regions, each with its plan."""
        graph = self._program.network.forward
        letters = infer_storage(graph, {name: array.stype
                                        for name, array in self._binding.args.items()})
        lines = ["sparse arrays: nodes run one by one, dense regions as executors of their own"]
        for node in graph.nodes:
            if isinstance(node.op, DenseRegion):
                plan = self._region(node).executor.debug_str().splitlines()
                lines += [f"dense region {node.name}:", *(f"    {line}" for line in plan)]
            elif node.op is not None:
                lines.append(_line(node.op.name, node.name, letters_in(node, letters),
                                   letters[Entry(node)]))
        backward = [*_backward_casts(self._types)]
        return "\n".join([*lines, *(["-- backward --"] if backward else []), *backward, ""])


def _require_no_loops(graph: Graph) -> None:
    """Require that loops are in dense regions."""
    for node in graph.nodes:
        if node.runs_subgraphs:
            raise MXNetError(f"bind: {node.describe()} runs a graph of its own, which reads or "
                             "makes sparse arrays; it needs dense ones")


def _require_supported(binding: BindArguments) -> None:
    for node in binding.inferred.graph.nodes:
        if node.op is not None and binding.groups:
            raise MXNetError(f"bind: {node.describe()} is in a network that is spread over devices "
                             "(group2ctx), which needs dense arrays")
    for name, array in binding.aux.items():
        if array.is_sparse:
            raise MXNetError(f"bind: auxiliary state {name} is {array.stype}, expected a dense "
                             "array; use tostype('default')")


def _line(op: str, name: str, ins: str, out: str) -> str:
    kinds = ", ".join(STYPES[letter] for letter in ins)
    return f"{op} {name}: ({kinds}) -> {STYPES[out]}"


def _backward_casts(types: StorageTypes) -> Iterator[str]:
    """Conversions in the backward pass, a line each."""
    for node in types.gradients.nodes:
        if falls_back(node, types.letters):
            for entry in dict.fromkeys(node.inputs):
                if (letter := types.letters[entry]) != "d":
                    yield (_line("cast_storage", cast_name(entry), letter, "d")
                           + f", for {node.name}")
