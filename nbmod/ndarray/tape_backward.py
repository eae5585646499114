"""The backward pass of `autograd`: execution of the gradient graph of a tape.

The recorded nodes that the heads depend on are a graph, so the pass that differentiates symbols
(`passes.gradient`) makes the gradient nodes.  `GradientExecutor` executes these in topological
order and frees every value after its last use.  For higher-order gradients, each gradient node is
recorded on the tape when it has run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base import MXNetError
from ..context import Context
from ..graph import Entry, Graph, Node
from ..ops.device import CPU, device_of
from ..ops.op import Backward, Call, Mode, Op, Spec
from ..ops.sparse.formats import as_dense, letters_of
from ..ops.sparse.forms import compute
from ..ops.sparse.row_gradients import row_gradients
from ..ops.sparse.storage_types import result
from ..passes.gradient import gradient
from .eager import execute
from .mutation import written
from .tape import Recorded, save_for_backward

__all__ = ["Gradient", "GradientExecutor", "differentiate"]


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
    grads = gradient(graph, wrt, heads)
    executor = GradientExecutor(Graph(grads).nodes, grads, training, create_graph)
    executor.run()
    return [Gradient(_to_context(executor.value(entry), _context(entry), leaf.ctx),
                     executor.tape_entry(entry) if create_graph else None,
                     _owns_memory(entry) and entry not in grads[:i])
            for i, (entry, leaf) in enumerate(zip(grads, wrt, strict=True))]


def _owns_memory(entry: Entry) -> bool:
    op = entry.node.op
    return op is not None and not isinstance(entry.node, Recorded) and not op.view


class GradientExecutor:
    """Executes the nodes of a gradient graph that are not recorded, and keeps its outputs."""

    def __init__(self, nodes: Sequence[Node], outputs: Sequence[Entry], training: bool,
                 create_graph: bool):
        self.nodes = [node for node in nodes if not isinstance(node, Recorded)]
        self.uses = Counter(entry for node in self.nodes for entry in node.inputs)
        self.uses.update(outputs)
        self.mode = Mode(training)
        self.create_graph = create_graph
        self.values: dict[Entry, Any] = {}
        self.recorded: dict[int, Recorded] = {}
        self.specs: dict[int, list[Spec]] = {}

    def run(self) -> None:
        for node in self.nodes:
            try:
                self._execute_node(node)
            except MXNetError as error:
                about = f"backward of {_source(node).name}"
                if str(error).startswith(about):
                    raise
                raise type(error)(f"{about}: {error}") from error

    def value(self, entry: Entry) -> Any:
        """The array of an entry, recorded or computed."""
        if not isinstance(entry.node, Recorded):
            return self.values[entry]
        value = entry.node.values[entry.index]
        if value is None:
            raise MXNetError(f"{entry.node.name}: output {entry.index}, which the gradient reads, "
                             "was not saved")
        return value

    def tape_entry(self, entry: Entry) -> Entry:
        """The entry on the tape of an entry of the gradient graph."""
        return Entry(self.recorded.get(id(entry.node), entry.node), entry.index)

    def _spec(self, entry: Entry) -> Spec:
        """Shape and type of an entry, computed or not."""
        node = entry.node
        if isinstance(node, Recorded):
            spec = node.specs[entry.index]
            assert spec is not None
            return spec
        if id(node) not in self.specs:
            self.specs[id(node)] = self._infer(node)
        return self.specs[id(node)][entry.index]

    def _infer(self, node: Node) -> list[Spec]:
        """Specs of the outputs of a node, by its op's rule or by inference from its inputs."""
        op = node.required_op
        like = op.like(node)
        if like is not None:
            return [self._spec(entry) for entry in like]
        ins, unknown = [self._spec(entry) for entry in node.inputs], [None] * node.num_outputs
        shapes = op.infer_shape([spec.shape for spec in ins], [*unknown])[1]
        types = op.infer_type([spec.dtype for spec in ins], [*unknown])[1]
        return [Spec(*fact) for fact in zip(shapes, types, strict=True)]  # type: ignore[arg-type]

    def _execute_node(self, node: Node) -> None:
        op, ctx = node.required_op, _source(node).ctx
        ins = [_to_context(self.value(entry), _context(entry), ctx) for entry in node.inputs]
        outs = self._run_op(node, op, ins, ctx)
        if self.create_graph:
            clone = Recorded(op, [self.tape_entry(entry) for entry in node.inputs], ctx)
            save_for_backward(clone, ins, outs, self._infer(node))
            self.recorded[id(node)] = clone
        for index, array in enumerate(outs):
            if array is not None:
                self.values[Entry(node, index)] = array
        for entry in node.inputs:
            self.uses[entry] -= 1
            if not self.uses[entry]:
                self.values.pop(entry, None)

    def _run_op(self, node: Node, op: Op, ins: list[Any], ctx: Context) -> list[Any]:
        if (found := self._run_sparse(node, op, ins)) is not None:
            return found
        device, ins = device_of(ctx), [*map(as_dense, ins)]
        if op.like(node) is None:
            return execute(op, ins, device, (), ctx)
        specs = [self._spec(Entry(node, index)) for index in range(node.num_outputs)]
        if op.view:
            return [ins[0].reshape(specs[0].shape)]
        heads = [array for name, array in zip(op.list_inputs(), ins, strict=True)
                 if name.startswith("ograd")]
        if heads and not any(array.size for array in heads):
            return [device.full(*spec, 0) for spec in specs]
        outs = [device.empty(*spec) if self.uses[Entry(node, index)] else None
                for index, spec in enumerate(specs)]
        scratch = device.scratch(op, [Spec(a.shape, a.dtype) for a in ins], specs)
        call = Call(self.mode, [device.empty(*spec) for spec in scratch], (), specs, ctx,
                    _source(node).state)
        device.run(op, ins, outs, call)
        if isinstance(op, Backward) and op.fwd.aux:  # BatchNorm updates its statistics
            written(*ins)
        return outs

    def _run_sparse(self, node: Node, op: Op, ins: list[Any]) -> list[Any] | None:
        """The outputs of an op that has a form for such inputs; None: it takes dense arrays."""
        if isinstance(op, Backward):
            return row_gradients(op, ins, [self.uses[Entry(node, index)] > 0
                                           for index in range(node.num_outputs)])
        letters = letters_of(ins)
        letter = None if set(letters) <= {"d"} else result(op, letters)
        if letter is None:
            return None
        return [compute(op, ins, letter, lambda op, arrays: execute(op, arrays, CPU)[0])]


def _source(node: Node) -> Recorded:
    """The recorded node of which a node computes the gradient."""
    while not isinstance(node, Recorded):
        assert node.source is not None
        node = node.source
    return node


def _context(entry: Entry) -> Context:
    return _source(entry.node).ctx


def _to_context(array: Any, ctx: Context, target: Context) -> Any:
    """`array`, which is on `ctx`, or a copy of it on `target`."""
    device, target_device = device_of(ctx), device_of(target)
    if device is target_device:
        return array
    copy = target_device.empty(array.shape, array.dtype)
    (target_device if target.is_gpu else device).copy(array, copy)
    return copy
