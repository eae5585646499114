"""A dense part of a network with sparse arrays, as one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...graph import Entry, Graph, Node
from ..internal import ZeroGradient
from ..op import Backward, Call, Op, Spec, Types
from ..shape import Shapes

__all__ = ["DenseRegion", "RegionExecutor"]


class RegionExecutor(Protocol):
    """An executor that computes a region, in `Call.state["executor"]`."""

    def forward(self, ins: Sequence[Any], is_train: bool) -> list[Any]:
        """The outputs of the region."""

    def backward(self, heads: Sequence[Any], outs: Sequence[Any], is_train: bool) -> None:
        """Write the gradients of the inputs to those of `outs` that are not None."""


class DenseRegion(Op):
    """A graph of dense arrays as one op.

    Its inputs are the variables of `body` in `names`; others are arrays of the network.  `flows`
    says which inputs have a gradient, `heads` on the gradients of which outputs these depend, and
    `starts` whether a loss layer starts one without them.
    """

    name = "_dense_region"
    needs = ("ograds",)

    def __init__(self, body: Graph, specs: list[Spec], names: Sequence[str], flows: Sequence[bool],
                 heads: Sequence[int], starts: bool):
        self.body, self.specs, self.names = body, specs, tuple(names)
        self.flows, self.heads, self.starts = flows, tuple(heads), starts

    def list_inputs(self) -> tuple[str, ...]:
        return self.names

    def list_outputs(self) -> tuple[str, ...]:
        return tuple([f"output{i}" for i in range(len(self.body.outputs))])

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        return [spec.shape for spec in self._ins()], [spec.shape for spec in self._outs()]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return [spec.dtype for spec in self._ins()], [spec.dtype for spec in self._outs()]

    def _ins(self) -> list[Spec]:
        variables = {node.name: self.body.output_eids(node)[0] for node in self.body.variables}
        return [self.specs[variables[name]] for name in self.names]

    def _outs(self) -> list[Spec]:
        return [self.specs[eid] for eid in self.body.output_ids]

    def head_gradients(self) -> tuple[int, ...]:
        return () if self.starts else self.heads

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None]:
        """Gradients of inputs; None, not zeros, for inputs through which nothing flows."""
        heads = [ograds[i] or Entry(Node(ZeroGradient(i), f"{node.name}_zero_grad", source=node))
                 for i in self.heads]
        names = [f"ograd{i}" for i in self.heads]
        backward = Node(Backward(self, len(self.names), names), f"{node.name}_backward", heads)
        return [Entry(backward, i) if flows else None for i, flows in enumerate(self.flows)]

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        assert call.state is not None
        call.state["executor"].backward(ins, outs, call.is_train)
