"""Interpreted programs: networks whose nodes run one by one, with their gradients.

`differentiate` makes one graph of a network and its gradients.  Its forward part keeps what the
backward part reads, so that both are nodes of an `Interpreter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..graph import Entry, Graph, Node
from ..ndarray import NDArray, mutation, zeros
from ..ndarray.recording import RecordingScope
from ..ndarray.sparse_array import of_value
from ..ops.device import device_of
from ..ops.internal import Accumulate, ZeroGradient
from ..ops.op import Call, Spec
from ..ops.sparse.formats import letters_of
from ..passes.gradient import gradient
from ..passes.infer import Inferred, infer_specs
from ..passes.place import place
from .bind import Arrays, BindArguments
from .call_arguments import load_head_gradients
from .interpreter import Interpreter, Value, located, to_context
from .step_monitor import StepMonitor
from .steps import States, StepWatcher

__all__ = ["Differentiated", "InterpretedProgram", "differentiate"]


class Differentiated(NamedTuple):
    """A network and its gradients in one graph."""

    forward: Graph
    joint: Inferred
    heads: list[Node]
    """Variables for the gradients of the outputs."""
    gradients: dict[str, Entry]
    """By argument."""
    written: Mapping[str, Entry] = {}
    """Gradients that their nodes write to the arrays of the arguments."""
    stypes: Sequence[str] | None = None
    """Storage types of the outputs; None: all are dense."""

    @property
    def read(self) -> list[Entry]:
        """The gradients, and the entries that their nodes read."""
        return [*self.gradients.values(), *self.inputs(self.gradients.values())]

    def nodes(self, ends: Iterable[Entry]) -> list[Node]:
        """The nodes that compute `ends`, without those of the network."""
        own = set(map(id, self.forward.nodes))
        return [node for node in Graph(ends).nodes if node.op is not None and id(node) not in own]

    def inputs(self, ends: Iterable[Entry]) -> list[Entry]:
        """The entries that these nodes read."""
        return [entry for node in self.nodes(ends) for entry in node.inputs]


def differentiate(network: Inferred, trained: Sequence[str]) -> Differentiated:
    """A network and the gradients of the arguments in `trained`."""
    graph, specs = network
    heads = [Node(None, f"_head_grad_{i}") for i in range(len(graph.outputs))]
    wrt = {node.name: node for node in graph.arguments}
    grads = gradient(graph, [wrt[name] for name in trained], [*map(Entry, heads)])
    joint = Graph([*graph.outputs, *grads])
    known = {Entry(head): specs[eid] for head, eid in zip(heads, graph.output_ids, strict=True)}
    known |= {Entry(node): specs[graph.eid(Entry(node))] for node in graph.variables}
    return Differentiated(graph, Inferred(joint, infer_specs(joint, known)), heads,
                          dict(zip(trained, grads, strict=True)))


class InterpretedProgram:
    """A network on its arrays that runs node by node, each by the implementation `key`
    (see `Interpreter`); with `network`, that runs instead of the graph of `binding`.

    Attributes
    ----------
    outputs : list of NDArray
        In the order of the symbol's `list_outputs`.
    """

    def __init__(self, binding: BindArguments, states: States, key: str = "eager",
                 network: Differentiated | None = None):
        for node in (network.forward if network else binding.inferred.graph).nodes:
            if node.runs_subgraphs:
                raise MXNetError(f"{node.describe()}: a graph with arrays without elements cannot "
                                 "have loops and branches; call them eagerly (mx.nd.contrib)")
        self._binding, self._key = binding, key
        self.network = network = network or differentiate(binding.inferred, binding.trained)
        self.facts = facts = _Facts(network, binding, states)
        flowing = {name: entry for name, entry in network.gradients.items()
                   if not isinstance(entry.node.op, ZeroGradient)}
        read = [*flowing.values(), *network.inputs(flowing.values())]
        outputs = network.forward.outputs
        nodes = [node for node in network.forward.nodes if node.op is not None]
        self._inference = Interpreter(facts, nodes, outputs, key)
        self._training = Interpreter(facts, nodes, [*outputs, *read], key)
        self._computed = {name: entry for name, entry in flowing.items()
                          if name not in network.written}
        # In the order in which a plan stores those of one array (`passes.training.stores_last`).
        self._stored = sorted(
            (name for name in network.gradients if name not in network.written),
            key=lambda name: network.joint.graph.output_eids(network.gradients[name].node).start)
        self._backward = Interpreter(facts, network.nodes(flowing.values()),
                                     self._computed.values(), key)
        self._heads = {position: self._zeros(Entry(head)) for position, head
                       in enumerate(network.heads) if Entry(head) in read}
        self._kept: dict[Entry, Value] | None = None
        self.renew_outputs()

    def _zeros(self, entry: Entry, stype: str = "default") -> NDArray:
        shape, dtype = self.facts.specs(entry.node, ())[entry.index]
        ctx = self.facts.context(entry.node)
        if stype != "default":
            return zeros(shape, ctx, dtype, stype)
        return NDArray(device_of(ctx).full(shape, dtype, 0), ctx)

    def renew_outputs(self) -> None:
        """Leave the arrays in `outputs` to those who have them, and make new ones."""
        outputs = self.network.forward.outputs
        self.outputs = [*map(self._zeros, outputs,
                             self.network.stypes or ["default"] * len(outputs))]

    def release(self) -> None:
        """Release intermediate results, which `backward` reads."""
        self._kept = None

    def forward(self, is_train: bool, observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the outputs; monitors among `observers` see the nodes."""
        binding, keeps = self._binding, bool(self.network.gradients)
        arrays = {**binding.args, **binding.aux}
        values = {Entry(node): arrays[node.name]._data for node in self.network.forward.variables}
        self._run(self._training if keeps else self._inference, values, is_train, observers)
        self._kept = values if keeps else None
        with RecordingScope(False, None):
            for output, entry in zip(self.outputs, self.network.forward.outputs, strict=True):
                self._store(values[entry], entry, output)

    def backward(self, out_grads: NDArray | Arrays | None, is_train: bool,
                 observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the gradients of the last forward pass."""
        network, binding = self.network, self._binding
        if not network.gradients:
            return
        if self._kept is None:
            raise MXNetError("backward: call forward(is_train=True) first")
        if self._heads or out_grads is not None:
            load_head_gradients(self._heads, binding.symbol.list_outputs(), out_grads)
        values = self._kept | {Entry(network.heads[position]): head._data
                               for position, head in self._heads.items()}
        self._run(self._backward, values, is_train, observers)
        with RecordingScope(False, None):
            for name in self._stored:
                grad, adds = binding.grads[name], binding.requests[name] == "add"
                if entry := self._computed.get(name):
                    self._store(values[entry], entry, grad, adds)
                elif not adds:
                    grad[:] = zeros(grad.shape, grad.context, grad.dtype, grad.stype)

    def retain(self) -> None:
        """Change nothing: no backward pass overwrites what it reads."""

    def _store(self, value: Value, entry: Entry, target: NDArray, add: bool = False) -> None:
        """Write the value of an entry to a user's array, or add it."""
        ctx = self.facts.context(entry.node)
        if target.is_sparse or letters_of([value]) != "d":
            array = of_value(value, ctx)
            target[:] = array + target if add else array
        elif add:
            device_of(target.context).run(
                Accumulate(), [to_context(value, ctx, target.context)], [target._data],
                Call(add=[True], ctx=target.context))
            mutation.written(target._data)
        else:
            device_of(target.context).copy(value, target._data)
            mutation.written(target._data)

    def _run(self, interpreter: Interpreter, values: dict[Entry, Value], is_train: bool,
             observers: Sequence[StepWatcher]) -> None:
        watch = next((one.watch for one in observers if isinstance(one, StepMonitor)), None)
        with np.errstate(all="ignore"):     # infinity and NaN are results, not events
            interpreter.run(values, is_train, watch)

    def debug_str(self) -> str:
        """Describe the nodes, in the order in which they run."""
        lines = ["Symbol outputs: " + ", ".join(self._binding.symbol.list_outputs()),
                 f"Interpreted: nodes run one by one, without a memory plan, as {self._key!r}"]
        for node in self.network.joint.graph.nodes:
            if node.op is not None:
                shapes = ", ".join(str(spec.shape) for spec in self.facts.specs(node, ()))
                lines.append(f"{node.describe()}  {shapes}  {self.facts.context(node)}")
        return "\n".join([*lines, ""])


class _Facts:
    """Facts of a network and its gradients; what nodes keep between runs is in `states`, by `id`.
    """

    def __init__(self, network: Differentiated, binding: BindArguments, states: States):
        arrays = {**binding.args, **binding.aux}
        known = {id(node): arrays[node.name].context for node in network.forward.variables}
        self._network, self._states = network.joint, states
        self._devices = place(network.joint.graph, binding.groups, known, binding.ctx)

    def context(self, node: Node) -> Context:
        """Where a node runs."""
        return self._devices[id(node)]

    def specs(self, node: Node, ins: Sequence[Value]) -> list[Spec]:
        """Shape and type of every output."""
        graph, specs = self._network
        return [specs[eid] for eid in graph.output_eids(node)]

    def state(self, node: Node) -> dict[str, object]:
        """State that a node shares with its gradient."""
        return self._states.setdefault(id(node.source or node), {})

    def located(self, node: Node, error: Exception) -> Exception:
        """`error` with the name of the node that it came from."""
        return located(node, [self.specs(source, ())[index].shape for source, index in node.inputs],
                       error)
