"""Interpreted programs: networks whose nodes run one by one, with their gradients.

`differentiate` makes one graph of a network and its gradients.  Its forward part keeps what the
backward part reads, so that both are nodes of an `Interpreter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base import MXNetError, OutOfMemory
from ..graph import Entry, Graph, Node
from ..interrupts import from_handler
from ..ndarray import NDArray, mutation
from ..ops.device import device_of
from ..ops.internal import Accumulate
from ..ops.op import Call
from ..passes.gradient import gradient
from ..passes.infer import Inferred, infer_specs
from ..passes.place import place
from .bind import BindArguments
from .call_arguments import load_head_gradients
from .interpreter import Interpreter, NetworkFacts, Value, to_context
from .step_monitor import StepMonitor
from .steps import States, StepWatcher

if TYPE_CHECKING:
    from ..symbol.symbol import Arrays

__all__ = ["Differentiated", "InterpretedProgram", "differentiate"]


class Differentiated(NamedTuple):
    """A network and its gradients in one graph."""

    forward: Graph
    joint: Inferred
    heads: list[Node]
    """Variables for the gradients of the outputs."""
    gradients: dict[str, Entry]
    """By argument."""

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
    found = gradient(graph, [wrt[name] for name in trained], [*map(Entry, heads)])
    joint = Graph([*graph.outputs, *found])
    known = {Entry(head): specs[eid] for head, eid in zip(heads, graph.output_ids, strict=True)}
    known |= {Entry(node): specs[graph.eid(Entry(node))] for node in graph.variables}
    return Differentiated(graph, Inferred(joint, infer_specs(joint, known)), heads,
                          dict(zip(trained, found, strict=True)))


class InterpretedProgram:
    """A network on its arrays that runs node by node.

    Parameters
    ----------
    given : BindArguments
        The network and its arrays by name.
    states : dict
        What nodes keep between runs.
    key : str, default "eager"
        The implementation that runs; see `Interpreter`.

    Attributes
    ----------
    outputs : list of NDArray
        In the order of the symbol's `list_outputs`.
    """

    def __init__(self, given: BindArguments, states: States, key: str = "eager"):
        for node in given.inferred.graph.nodes:
            if node.op is not None and node.op.runs_subgraphs:
                raise MXNetError(f"{node.describe()}: a graph with arrays without elements cannot "
                                 "have loops and branches; call them eagerly (mx.nd.contrib)")
        self._given, self._key = given, key
        network = self._network = differentiate(
            given.inferred, [name for name, request in given.requests.items() if request != "null"])
        graph, ends = network.joint.graph, [*network.gradients.values()]
        arrays = {**given.args, **given.aux}
        known = {id(node): arrays[node.name].context for node in network.forward.variables}
        devices = place(graph, given.groups, known, given.ctx)
        self._facts = _ProgramFacts(network.joint, [
            devices[id(node)] for node in graph.nodes for _ in range(node.num_outputs)], states)
        forward = [node for node in network.forward.nodes if node.op is not None]
        self._forward = Interpreter(self._facts, forward,
                                    [*network.forward.outputs, *network.read], key)
        self._backward = Interpreter(self._facts, network.nodes(ends), ends, key)
        read = {*network.read}
        self._heads = {position: self._zeros(head) for position, head in enumerate(network.heads)
                       if Entry(head) in read}
        self._kept: dict[Entry, Value] | None = None
        self.renew_outputs()

    def _zeros(self, node: Node, index: int = 0) -> NDArray:
        ctx = self._facts.context(node)
        return NDArray(device_of(ctx).full(*self._facts.specs(node, ())[index], 0), ctx)

    def renew_outputs(self) -> None:
        """Leave the arrays in `outputs` to those who have them, and make new ones."""
        self.outputs = [self._zeros(*entry) for entry in self._network.forward.outputs]

    def release(self) -> None:
        """Release intermediate results, which `backward` reads."""
        self._kept = None

    def forward(self, is_train: bool, observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the outputs; monitors among `observers` see the nodes."""
        arrays = {**self._given.args, **self._given.aux}
        values = {Entry(node): arrays[node.name]._data for node in self._network.forward.variables}
        self._run(self._forward, values, is_train, observers)
        self._kept = values
        for output, entry in zip(self.outputs, self._network.forward.outputs, strict=True):
            _store(values[entry], output)

    def backward(self, out_grads: NDArray | Arrays | None, is_train: bool,
                 observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the gradients of the last forward pass."""
        network, given = self._network, self._given
        if not network.gradients:
            return
        if self._kept is None:
            raise MXNetError("backward: call forward(is_train=True) first")
        if self._heads or out_grads is not None:
            load_head_gradients(self._heads, given.symbol.list_outputs(), out_grads)
        values = self._kept | {Entry(network.heads[position]): head._data
                               for position, head in self._heads.items()}
        self._run(self._backward, values, is_train, observers)
        for name, (node, index) in network.gradients.items():
            grad, value = given.grads[name], values[Entry(node, index)]
            if given.requests[name] == "add":
                value = to_context(value, self._facts.context(node), grad.context)
                device_of(grad.context).run(Accumulate(), [value], [grad._data],
                                            Call(add=[True], ctx=grad.context))
                mutation.written(grad._data)
            else:
                _store(value, grad)

    def _run(self, interpreter: Interpreter, values: dict[Entry, Value], is_train: bool,
             observers: Sequence[StepWatcher]) -> None:
        watch = next((one.watch for one in observers if isinstance(one, StepMonitor)), None)
        with np.errstate(all="ignore"):     # infinity and NaN are results, not events
            interpreter.run(values, is_train, watch)

    def debug_str(self) -> str:
        """Describe the nodes, in the order in which they run."""
        lines = ["Symbol outputs: " + ", ".join(self._given.symbol.list_outputs()),
                 f"Interpreted: nodes run one by one, without a memory plan, as {self._key!r}"]
        for node in self._network.joint.graph.nodes:
            if node.op is not None:
                shapes = ", ".join(str(spec.shape) for spec in self._facts.specs(node, ()))
                lines.append(f"{node.describe()}  {shapes}  {self._facts.context(node)}")
        return "\n".join([*lines, ""])


def _store(value: Value, target: NDArray) -> None:
    device_of(target.context).copy(value, target._data)
    mutation.written(target._data)


class _ProgramFacts(NetworkFacts):
    """Facts of an executor, whose errors are those of planned steps."""

    def located(self, node: Node, error: Exception) -> Exception:
        """`error` with the name of the node that it came from."""
        known = isinstance(error, MXNetError) and str(error).startswith(node.name)
        if known or from_handler(error):
            return error
        shapes = ", ".join(str(self.specs(source, ())[index].shape)
                           for source, index in node.inputs)
        kind = OutOfMemory if isinstance(error, MemoryError) else MXNetError
        return kind(f"{node.describe()}: {error} [input shapes: {shapes}]")
