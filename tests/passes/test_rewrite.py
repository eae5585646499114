"""Rewriting: new nodes read the new graph."""

from __future__ import annotations

import pytest

import nbmod as mx
from nbmod.graph import Entry, Graph, Node
from nbmod.ops import OPS
from nbmod.passes.rewrite import Replacement, rewrite, unchanged


def test_a_rule_that_builds_on_the_old_graph_is_refused():
    """What it reads has been replaced: the node before would run in its old form."""
    graph = Graph(mx.sym.sqrt(mx.sym.sqrt(mx.sym.Variable("x"), name="a"), name="b").entries)

    def squares(node: Node, inputs: list[Entry]) -> Replacement:
        return Replacement([Entry(Node(OPS["square"](), node.name, inputs))], "")

    found = rewrite(unchanged(graph, []), squares)
    assert [node.op_name for node in found.graph.nodes] == ["null", "square", "square"]
    with pytest.raises(ValueError, match=r"b \(square\) reads what its pass has replaced"):
        rewrite(unchanged(graph, []), lambda node, _: squares(node, node.inputs))
