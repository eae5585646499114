"""The backward pass of `autograd`: execution of the gradient graph of a tape.

The recorded nodes that the heads depend on are a graph, so the pass that differentiates symbols
(`passes.gradient`) makes the gradient nodes.  An `Interpreter` runs these in topological order and
frees every value after its last use.  For higher-order gradients, each gradient node is recorded on
the tape when it has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base import MXNetError
from ..context import Context
from ..execution.interpreter import Interpreter, named, to_context
from ..graph import Entry, Graph, Node
from ..ops import OPS
from ..ops.device import device_of
from ..ops.op import Spec
from ..passes.gradient import gradient
from .eager import execute, specs_of
from .tape import (
    DirectGradientOp,
    LeafGroup,
    Marked,
    Recorded,
    direct_op,
    save_for_backward,
)

__all__ = ["Gradient", "differentiate"]


class Gradient(NamedTuple):
    """The gradient of one leaf."""

    array: Any
    """Array of the leaf's device."""
    entry: Entry | None
    """Its entry on the tape, with `create_graph`."""
    owns_memory: bool
    """False if it is another array or a view of one."""


def differentiate(graph: Graph, heads: Sequence[Entry], wrt: Sequence[Recorded], training: bool,
                  create_graph: bool) -> list[Gradient]:
    """The gradients of the outputs of `graph`, with head gradients `heads`, for leaves `wrt`."""
    if not create_graph and (calls := _calls_alone(graph, wrt)) is not None:
        flows = _flow(calls, graph, heads, training)
        return [Gradient(flows[Entry(leaf)] if Entry(leaf) in flows else _zeros(leaf, 0), None,
                         False) for leaf in wrt]
    grads, tape = gradient(graph, wrt, heads), TapeFacts()
    nodes = [node for node in Graph(grads).nodes if not isinstance(node, Recorded)]
    values = {entry: _saved(entry) for entry in (
        *grads, *(entry for node in nodes for entry in node.inputs))
        if isinstance(entry.node, Recorded)}
    Interpreter(tape, nodes, grads, "sparse").run(values, training,
                                                  tape.record if create_graph else None)
    return [Gradient(to_context(values[entry], tape.context(entry.node), leaf.ctx),
                     tape.entry(entry) if create_graph else None,
                     _owns_memory(entry) and entry not in grads[:i])
            for i, (entry, leaf) in enumerate(zip(grads, wrt, strict=True))]


def _calls_alone(graph: Graph, wrt: Sequence[Recorded]) -> list[Recorded] | None:
    """The nodes of a tape in order, if they are calls of networks and `wrt` all their leaves."""
    calls, ends = [], {*map(id, wrt)}
    for node in graph.nodes:
        assert isinstance(node, Recorded)
        if isinstance(node.op, DirectGradientOp):
            calls.append(node)
        elif node.op is not None or id(node) not in ends and _has_gradient(node):
            return None
    return calls


def _flow(calls: Sequence[Recorded], graph: Graph, heads: Sequence[Entry], is_train: bool
          ) -> dict[Entry, Any]:
    """The gradients of leaves of a tape of calls of networks.

    It is walked back without a gradient graph, which would take longer than a small network.
    """
    flows: dict[Entry, Any] = {}
    for entry, head in zip(graph.outputs, heads, strict=True):
        _add(flows, entry, _saved(head))
    for node in reversed(calls):
        op, ograds = node.op, [flows.get(Entry(node, i)) for i in range(node.num_visible)]
        assert isinstance(op, DirectGradientOp)
        if op.head_gradients() and all([ograd is None for ograd in ograds]):
            continue
        filled = [_zeros(node, i) if ograd is None else ograd for i, ograd in enumerate(ograds)]
        try:
            results = op.gradients(node, filled, is_train)
        except Exception as error:
            located = named(f"backward of {node.name}", error)
            if located is error:
                raise
            raise located from error
        for entry, result in zip(node.inputs, results, strict=True):
            _add(flows, entry, result)
    return flows


def _has_gradient(node: Node) -> bool:
    """Whether a variable of a tape is a leaf with a gradient, or stands for some."""
    return isinstance(node, Marked) or isinstance(node, LeafGroup) and bool(node.leaves)


def _zeros(node: Recorded, index: int) -> Any:
    spec = node.specs[index]
    assert spec is not None
    return device_of(node.ctx).full(*spec, 0)


def _add(flows: dict[Entry, Any], entry: Entry, flow: Any) -> None:
    """Add to the gradient of an entry, in an array of its own."""
    node = entry.node
    assert isinstance(node, Recorded)
    if entry in flows:
        flow = execute(OPS["_grad_add"](), [flows[entry], flow], device_of(node.ctx))[0]
    flows[entry] = flow


def _saved(entry: Entry) -> Any:
    """The value of a recorded entry."""
    assert isinstance(entry.node, Recorded)
    value = entry.node.values[entry.index]
    if value is None:
        raise MXNetError(f"{entry.node.name}: output {entry.index}, which the gradient reads, was "
                         "not saved")
    return value


def _owns_memory(entry: Entry) -> bool:
    op = entry.node.op
    return (op is not None and not isinstance(entry.node, Recorded) and not op.view
            and direct_op(op) is None)


class TapeFacts:
    """The gradient graph of a tape: shapes follow while it runs, and it may be recorded."""

    def __init__(self) -> None:
        self._specs: dict[int, Sequence[Spec]] = {}
        self._recorded: dict[int, Recorded] = {}

    def context(self, node: Node) -> Context:
        """The context of the recorded node that a node is the gradient of."""
        return _source(node).ctx

    def state(self, node: Node) -> dict[str, Any]:
        """That of the recorded node."""
        return _source(node).state

    def specs(self, node: Node, ins: Sequence[Any]) -> Sequence[Spec]:
        """Specs of the outputs of a node, by its op's rule or by inference from its inputs."""
        if id(node) not in self._specs:
            op, like = node.required_op, node.required_op.like(node)
            self._specs[id(node)] = (specs_of(op, ins, device_of(self.context(node)))
                                     if like is None else [self._spec(entry) for entry in like])
        return self._specs[id(node)]

    def _spec(self, entry: Entry) -> Spec:
        """Shape and type of an entry, computed or not."""
        node = entry.node
        specs = node.specs if isinstance(node, Recorded) else self.specs(
            node, [self._spec(source) for source in node.inputs])
        spec = specs[entry.index]
        assert spec is not None
        return spec

    def located(self, node: Node, error: Exception) -> Exception:
        """`error` with the name of the recorded node."""
        return named(f"backward of {_source(node).name}", error)

    def record(self, node: Node, ins: Sequence[Any], outs: Sequence[Any], ctx: Context) -> None:
        """Record a node that has run."""
        clone = Recorded(node.required_op, map(self.entry, node.inputs), ctx)
        save_for_backward(clone, ins, outs, self.specs(node, ins))
        self._recorded[id(node)] = clone

    def entry(self, entry: Entry) -> Entry:
        """The entry on the tape of an entry of the gradient graph."""
        return Entry(self._recorded.get(id(entry.node), entry.node), entry.index)


def _source(node: Node) -> Recorded:
    """The recorded node of which a node computes the gradient."""
    while not isinstance(node, Recorded):
        assert node.source is not None
        node = node.source
    return node
