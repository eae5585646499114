"""Writer of graphs in MXNet 1.9's JSON format, byte for byte.

The layout is that of MXNet's writer: two spaces per level, ", " at line ends, an object of one
entry or an array of at most ten numbers on one line, attributes sorted, and only the escapes that
its reader supports.

Nodes are in topological order.  An entry is [node, output, version], where the version is the
number of preceding writes to a variable.  Writes are counted in topological order, which is MXNet's
order if the nodes were composed in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..core.shape_semantics import is_np_shape
from ..graph import Entry, Node

__all__ = ["write_graph", "entry_versions", "VERSION"]

VERSION = 10901

Inputs = Callable[[Node], list[Entry]]

_ONE_LINE = 10
_FUSED = "_sg_"  # MXNet counts no writes in the graphs of fused operators
_AMP = ("amp_cast", "amp_multicast")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})

_TOTAL_OUTPUTS = {"BatchNorm": 3, "BatchNorm_v1": 3, "BilinearSampler": 2, "Correlation": 3,
                  "CTCLoss": 2, "Dropout": 2, "GridGenerator": 2, "GroupNorm": 3, "InstanceNorm": 3,
                  "L2Normalization": 2, "LayerNorm": 3, "LRN": 2, "ROIPooling": 2, "sort": 2,
                  "SpatialTransformer": 3, "_contrib_box_nms": 2,
                  "_contrib_DeformablePSROIPooling": 2, "_contrib_MultiProposal": 2,
                  "_contrib_Proposal": 2}
"""Number of outputs in MXNet's `node_row_ptr`, hidden ones included; nbmod may have fewer."""

_CHANNELS_LAST = ("NWC", "NHWC", "NDHWC")


def write_graph(entries: Sequence[Entry], remove_amp_cast: bool = True) -> str:
    """Write a graph as JSON, on request without the casts of automatic mixed precision."""
    fields = _graph(entries, _amp_inputs if remove_amp_cast else node_inputs, 0)
    attrs = {"is_np_shape": 1} if is_np_shape() else {}
    written = [f'"{key}": ["int", {value}]' for key, value in
               {**attrs, "mxnet_version": VERSION}.items()]
    fields.append('"attrs": ' + _bracketed("{", written, "}", bool(attrs), 1))
    return _bracketed("{", fields, "}", True, 0)


def _graph(entries: Sequence[Entry], inputs_of: Inputs, level: int, counts: bool = True
           ) -> list[str]:
    """The fields of a graph at nesting `level`; without `counts`, all versions are 0."""
    nodes = _order(entries, inputs_of)
    ids = {id(node): nid for nid, node in enumerate(nodes)}
    lines = []
    for node, versions in zip(nodes, entry_versions(nodes, inputs_of), strict=True):
        inputs = [f"[{ids[id(e.node)]}, {e.index}, {version if counts else 0}]"
                  for e, version in zip(inputs_of(node), versions, strict=True)]
        lines.append(_node(node, inputs, ids, level + 2))
    row_ptr = [0]
    for node in nodes:
        row_ptr.append(row_ptr[-1] + _total_outputs(node))
    arguments = [nid for nid, node in enumerate(nodes) if node.is_variable]
    heads = [[ids[id(node)], index, 0] for node, index in entries]
    return ['"nodes": ' + _bracketed("[", lines, "]", True, level + 1),
            '"arg_nodes": ' + _json(arguments, level + 1),
            '"node_row_ptr": ' + _json(row_ptr, level + 1),
            '"heads": ' + _json(heads, level + 1)]


def node_inputs(node: Node) -> list[Entry]:
    """Inputs of a node as they are."""
    return node.inputs


def entry_versions(nodes: Iterable[Node], inputs: Inputs = node_inputs) -> Iterator[list[int]]:
    """For each node, the versions of its inputs: the number of writes to each so far."""
    writes: dict[int, int] = {}
    for node in nodes:
        aux = node.op.aux_indices() if node.op is not None and node.op.aux else ()
        versions = []
        for i, entry in enumerate(inputs(node)):
            count = writes.get(id(entry.node), 0)
            if i in aux:
                count += 1
                writes[id(entry.node)] = count
            versions.append(count)
        yield versions


def _amp_inputs(node: Node) -> list[Entry]:
    """Inputs of a node, past automatic casts."""
    inputs = []
    for entry in node.inputs:
        while entry.node.op_name in _AMP:
            entry = entry.node.inputs[entry.index]
        inputs.append(entry)
    return inputs


def _order(entries: Iterable[Entry], inputs: Inputs) -> list[Node]:
    """Nodes in the order of the file, in which control dependencies count as inputs."""
    def producers(node: Node) -> Iterator[Node]:
        return iter([*(entry.node for entry in inputs(node)), *node.control_deps])

    order: list[Node] = []
    seen: set[int] = set()
    for root in entries:
        stack = [(root.node, producers(root.node))]
        fresh = id(root.node) not in seen
        seen.add(id(root.node))
        while stack and fresh:
            node, sources = stack[-1]
            child = next((source for source in sources if id(source) not in seen), None)
            if child is None:
                stack.pop()
                order.append(node)
            else:
                seen.add(id(child))
                stack.append((child, producers(child)))
    return order


def _total_outputs(node: Node) -> int:
    if node.op_name == "RNN":
        return node.num_visible  # MXNet keeps the inputs of its backward pass outside the graph
    if node.op_name == "topk":
        return min(node.num_outputs, 2)  # its backward pass reads the visible indices
    total = max(node.num_outputs, _TOTAL_OUTPUTS.get(node.op_name, 1))
    if (node.op_name == "Pooling" and node.attrs.get("pool_type", "max") == "max"
            and "kernel" in node.attrs and node.attrs.get("layout") not in _CHANNELS_LAST):
        return 2  # positions of the maxima
    return total


def _node(node: Node, inputs: list[str], ids: dict[int, int], level: int) -> str:
    """One node at nesting `level`."""
    fields = [f'"op": {_text(node.op_name)}', f'"name": {_text(node.name)}']
    if node.attrs:
        fields.append('"attrs": ' + _json(dict(sorted(node.attrs.items())), level + 1))
    fields.append('"inputs": ' + _bracketed("[", inputs, "]", len(inputs) > _ONE_LINE, level + 1))
    if node.control_deps:
        deps = [ids[id(dep)] for dep in node.control_deps]
        fields.append('"control_deps": ' + _json(deps, level + 1))
    if node.op is not None and node.op.subgraphs:
        graphs = [_bracketed("{", _graph(graph.outputs, node_inputs, level + 2,
                                         not node.op_name.startswith(_FUSED)), "}", True, level + 2)
                  for graph in node.op.subgraphs]
        fields.append('"subgraphs": ' + _bracketed("[", graphs, "]", True, level + 1))
    return _bracketed("{", fields, "}", True, level)


def _text(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


def _json(value: object, level: int) -> str:
    """A JSON value in MXNet's layout, whose first line is at nesting `level`."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        items = [f"{_text(key)}: {_json(item, level + 1)}" for key, item in value.items()]
        return _bracketed("{", items, "}", len(items) > 1, level)
    if isinstance(value, list):
        spread = len(value) > _ONE_LINE or any(isinstance(item, dict) for item in value)
        return _bracketed("[", [_json(item, level + 1) for item in value], "]", spread, level)
    return str(value) if type(value) is int else json.dumps(value)


def _bracketed(opening: str, items: list[str], closing: str, spread: bool, level: int) -> str:
    if not spread:
        return opening + ", ".join(items) + closing
    indent = "  " * (level + 1)
    body = ", \n".join(indent + item for item in items)
    return f"{opening}\n{body}\n{'  ' * level}{closing}"
