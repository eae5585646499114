"""The symbol in the metadata of a file: written by the exporter, read by the importer.

Some operators become nodes from which nobody could guess them, such as the thirty around
NonMaxSuppression of `box_nms`.  So the file has the symbol that it was exported from, in inference
form, as an entry of its metadata.  Variables declare the shapes and types of the export, which
nodes may follow from where axes are dynamic; operators have their parameters and no other
attributes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base import FLAG_OF_DTYPE
from ...graph import Entry, Graph, Node
from ...ops import OPS
from ...symbol import Symbol
from .export_graph import output_names
from .tensor_info import TensorInfo

__all__ = ["KEY", "stored_symbol"]

KEY = "nbmod.symbol"
"""The entry of the metadata."""


def stored_symbol(graph: Graph, infos: Sequence[TensorInfo], names: Sequence[str]) -> Symbol:
    """The symbol for the metadata: of an inference graph whose outputs have these names."""
    copies: dict[Node, Node] = {}
    for node in graph.nodes:
        info = infos[graph.eid(Entry(node))]
        attrs = {"__shape__": str(info.shape), "__dtype__": str(FLAG_OF_DTYPE[info.dtype])}
        if node.op is not None:
            attrs = node.op.to_attrs()
            attrs.pop("subgraphs", None)  # no attribute, in files
        copies[node] = Node(node.op, node.name,
                            [Entry(copies[source], index) for source, index in node.inputs], attrs)
    return Symbol([_named(Entry(copies[node], index), name)
               for (node, index), name in zip(graph.outputs, names, strict=True)])


def _named(entry: Entry, name: str) -> Entry:
    """An output of this name, which may be that of a loss that the inference form leaves out."""
    node, index = entry
    if not node.is_variable and output_names(node)[index] == name:
        return entry
    return Entry(Node(OPS["_copy"](), name, [entry]))
