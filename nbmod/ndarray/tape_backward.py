"""Backward over a tape: the gradient graph of `passes.gradient`, executed as it comes.

The recorded nodes below the heads are a graph like any other, so the pass that differentiates
symbols writes the gradient nodes.  `_Sweep` then runs these in topological order, and lets go of
every value after its last use.  When the gradients are to be differentiated again, each gradient
node is entered on the tape once it has run: that is all there is to higher derivatives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..context import Context
from ..graph import Entry, Graph, Node
from ..ops.device import device_of
from ..ops.op import Backward, Call, Mode, Op, Spec
from ..passes.gradient import gradient
from .eager import execute
from .mutation import written
from .tape import Recorded, keep

__all__ = ["differentiate"]


def differentiate(graph: Graph, heads: Sequence[Entry], wrt: Sequence[Recorded], training: bool,
                  create_graph: bool) -> list[tuple[Any, Entry | None, bool]]:
    """For each leaf of `wrt` the gradient of the outputs of `graph`, weighted by `heads`.

    An array, its place on the tape with `create_graph` (else None), and whether its memory is its
    own: some gradients are other arrays, or views of them.
    """
    grads = gradient(graph, wrt, heads)
    sweep = _Sweep(Graph(grads), training, create_graph)
    sweep.run()
    return [(_bring(sweep.value(entry), _context(entry), leaf.ctx),
             sweep.place(entry) if create_graph else None,
             _is_new(entry) and entry not in grads[:i])
            for i, (entry, leaf) in enumerate(zip(grads, wrt, strict=True))]


def _is_new(entry: Entry) -> bool:
    op = entry.node.op
    return op is not None and not isinstance(entry.node, Recorded) and not op.view


class _Sweep:
    """Executes the nodes of a gradient graph, those that are not recorded, one after another."""

    def __init__(self, graph: Graph, training: bool, create_graph: bool):
        self.nodes = [node for node in graph.nodes if not isinstance(node, Recorded)]
        self.uses = Counter(entry for node in self.nodes for entry in node.inputs)
        self.uses.update(graph.outputs)
        self.mode = Mode(training)
        self.create_graph = create_graph
        self.values: dict[Entry, Any] = {}
        self.recorded: dict[int, Recorded] = {}
        self.specs: dict[int, list[Spec]] = {}

    def run(self) -> None:
        for node in self.nodes:
            try:
                self._step(node)
            except MXNetError as error:
                about = f"backward of {_source(node).name}"
                if str(error).startswith(about):
                    raise
                raise type(error)(f"{about}: {error}") from error

    def value(self, entry: Entry) -> Any:
        """The array of an entry, recorded or computed here."""
        if not isinstance(entry.node, Recorded):
            return self.values[entry]
        value = entry.node.values[entry.index]
        if value is None:
            raise MXNetError(f"{entry.node.name} has output {entry.index} no longer, which its "
                             "gradient reads")
        return value

    def place(self, entry: Entry) -> Entry:
        """The same entry on the tape."""
        return Entry(self.recorded.get(id(entry.node), entry.node), entry.index)

    def _spec(self, entry: Entry) -> Spec:
        """Shape and type of an entry, also of one that is not computed."""
        node = entry.node
        if isinstance(node, Recorded):
            spec = node.specs[entry.index]
            assert spec is not None
            return spec
        if id(node) not in self.specs:
            self.specs[id(node)] = self._infer(node)
        return self.specs[id(node)][entry.index]

    def _infer(self, node: Node) -> list[Spec]:
        """Of the outputs of a node: those they are like, or what follows from its inputs."""
        op = node.required_op
        like = op.like(node)
        if like is not None:
            return [self._spec(entry) for entry in like]
        ins, unknown = [self._spec(entry) for entry in node.inputs], [None] * node.num_outputs
        shapes = op.infer_shape([spec.shape for spec in ins], [*unknown])[1]
        types = op.infer_type([spec.dtype for spec in ins], [*unknown])[1]
        return [Spec(*fact) for fact in zip(shapes, types, strict=True)]  # type: ignore[arg-type]

    def _step(self, node: Node) -> None:
        op, ctx = node.required_op, _source(node).ctx
        ins = [_bring(self.value(entry), _context(entry), ctx) for entry in node.inputs]
        outs = self._execute(node, op, ins, ctx)
        if self.create_graph:
            clone = Recorded(op, [self.place(entry) for entry in node.inputs], ctx)
            keep(clone, ins, outs, self._infer(node))
            self.recorded[id(node)] = clone
        for index, array in enumerate(outs):
            if array is not None:
                self.values[Entry(node, index)] = array
        for entry in node.inputs:
            self.uses[entry] -= 1
            if not self.uses[entry]:
                self.values.pop(entry, None)

    def _execute(self, node: Node, op: Op, ins: list[Any], ctx: Context) -> list[Any]:
        device = device_of(ctx)
        if op.like(node) is None:
            return execute(op, ins, device, (), ctx)
        specs = [self._spec(Entry(node, index)) for index in range(node.num_outputs)]
        if op.view:
            return [ins[0].reshape(specs[0].shape)]
        outs = [device.empty(*spec) if self.uses[Entry(node, index)] else None
                for index, spec in enumerate(specs)]
        scratch = device.scratch(op, [Spec(a.shape, a.dtype) for a in ins], specs)
        call = Call(self.mode, [device.empty(*spec) for spec in scratch], (), specs, ctx,
                    _source(node).state)
        device.run(op, ins, outs, call)
        if isinstance(op, Backward) and op.fwd.aux:  # BatchNorm moves its statistics here
            written(*ins)
        return outs


def _source(node: Node) -> Recorded:
    """The recorded node that a node computes a gradient of."""
    while not isinstance(node, Recorded):
        assert node.source is not None
        node = node.source
    return node


def _context(entry: Entry) -> Context:
    return _source(entry.node).ctx


def _bring(array: Any, ctx: Context, wanted: Context) -> Any:
    """`array` of `ctx` where `wanted` is."""
    device, here = device_of(ctx), device_of(wanted)
    if device is here:
        return array
    copy = here.empty(array.shape, array.dtype)
    (here if wanted.is_gpu else device).copy(array, copy)
    return copy
