"""Conversions to dense arrays, as nodes: sparse inputs of ops that have no form for them.

A graph has them where `infer_storage` finds that a node falls back.  So what runs a network never
converts anything without being told to, and who looks at the graph sees where it does.

Assumes: all nodes are on one device and run no subgraph, so that one conversion of an entry serves
all its readers; checked in `execution.sparse_program._require_supported`.
"""

from __future__ import annotations

from ..graph import Entry, Graph, Node
from ..ops.sparse.fallback import tell
from ..ops.sparse.storage_casts import CastStorage
from .infer_storage import Letters, falls_back, letters_in

__all__ = ["tell_fallbacks", "with_casts"]


def with_casts(graph: Graph, letters: Letters) -> Graph:
    """`graph` with a `cast_storage` node for every sparse entry that is read as a dense one."""
    casts: dict[Entry, Entry] = {}

    def wire(node: Node, old: Entry, new: Entry) -> Entry:
        if letters[old] == "d" or not falls_back(node, letters):
            return new
        if new not in casts:
            casts[new] = Entry(Node(CastStorage(stype="default"), cast_name(old), [new],
                                    {"stype": "default"}))
        return casts[new]

    return graph.rewired(wire)[0]


def cast_name(entry: Entry) -> str:
    """Name of the node that converts an entry."""
    return f"{entry.node.name}{entry.index or ''}_dense"


def tell_fallbacks(graph: Graph, letters: Letters) -> None:
    """Warn once of each node that falls back, in forward or backward pass."""
    for node in graph.nodes:
        if falls_back(node, letters):
            tell(node.required_op.name, letters_in(node, letters), node.name)
