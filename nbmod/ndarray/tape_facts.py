"""Facts about the gradient graph of a tape, in which no shape is known before its nodes run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..context import Context
from ..execution.interpreter import named
from ..graph import Entry, Node
from ..ops.device import device_of
from ..ops.op import Backward, Spec
from .eager import specs_of
from .tape import Recorded, save_for_backward

__all__ = ["TapeFacts", "source_of"]


class TapeFacts:
    """The gradient graph of a tape: shapes follow while it runs, and it may be recorded."""

    def __init__(self) -> None:
        self._specs: dict[int, Sequence[Spec]] = {}
        self._recorded: dict[int, Recorded] = {}

    def context(self, node: Node) -> Context:
        """The context of the recorded node that a node is the gradient of."""
        return source_of(node).ctx

    def state(self, node: Node) -> dict[str, Any]:
        """That of the recorded node."""
        return source_of(node).state

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
        return named(f"backward of {source_of(node).name}", error)

    def record(self, node: Node, ins: Sequence[Any], outs: Sequence[Any], ctx: Context) -> None:
        """Record a node that has run."""
        op, inputs = node.required_op, [*map(self.entry, node.inputs)]
        if isinstance(op, Backward) and op.fwd.is_opaque:
            inputs += source_of(node).inputs    # on which it may depend, too
        clone = Recorded(op, inputs, ctx)
        save_for_backward(clone, ins, outs, self.specs(node, ins))
        self._recorded[id(node)] = clone

    def entry(self, entry: Entry) -> Entry:
        """The entry on the tape of an entry of the gradient graph."""
        return Entry(self._recorded.get(id(entry.node), entry.node), entry.index)


def source_of(node: Node) -> Recorded:
    """The recorded node of which a node computes the gradient."""
    while not isinstance(node, Recorded):
        assert node.source is not None
        node = node.source
    return node
