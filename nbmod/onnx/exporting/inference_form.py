"""The graph that predictions need.

Loss layers become what they predict, so that labels are no longer inputs; what only training does
is left out.  MXNet's own export leaves such nodes in the file.
"""

from __future__ import annotations

from ...graph import Entry, Graph, Node
from ...ops import OPS
from ...passes.rewrite import Replacement, rewrite, unchanged

__all__ = ["IDENTITIES", "REPLACED", "inference_form"]

IDENTITIES = {"BlockGrad", "IdentityAttachKLSparseReg", "LinearRegressionOutput",
              "MAERegressionOutput", "MakeLoss", "SVMOutput", "_contrib_gradientmultiplier",
              "_copy", "make_loss"}
"""Operators whose output is their first input."""
REPLACED = {"LogisticRegressionOutput", "SoftmaxOutput"}
"""Operators that only the inference form expresses."""


def inference_form(graph: Graph) -> Graph:
    """The graph without losses, labels and dropout; its outputs are those of `graph`."""
    return rewrite(unchanged(graph, []), _rule).graph


def _rule(node: Node, inputs: list[Entry]) -> Replacement | None:
    op = node.required_op
    if op.name in IDENTITIES or (op.name == "Dropout" and getattr(op, "mode", "") == "training"):
        return Replacement([inputs[0]] * node.num_outputs, "")
    if op.name == "LogisticRegressionOutput":
        return Replacement([Entry(Node(OPS["sigmoid"](), node.name, inputs[:1]))], "")
    return Replacement([_probabilities(node, inputs[0])], "") if op.name == "SoftmaxOutput" else (
        None)


def _probabilities(node: Node, data: Entry) -> Entry:
    """The prediction of SoftmaxOutput: softmax over channels, the last axis, or all of a sample."""
    op = node.required_op
    if getattr(op, "multi_output", False) or getattr(op, "preserve_shape", False):
        axis = 1 if getattr(op, "multi_output", False) else -1
        return Entry(Node(OPS["softmax"].from_attrs({"axis": axis}), node.name, [data]))
    flat = Node(OPS["Flatten"](), f"{node.name}_flat", [data])
    softmax = Node(OPS["softmax"].from_attrs({"axis": -1}), node.name, [Entry(flat)])
    return Entry(Node(OPS["reshape_like"](), f"{node.name}_shaped", [Entry(softmax), data]))
