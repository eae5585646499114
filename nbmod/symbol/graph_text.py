"""A graph as text, for debugging: `Symbol.debug_str`."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Entry, topological_order
from .json_writer import entry_versions

__all__ = ["graph_text"]


def graph_text(entries: Sequence[Entry]) -> str:
    """For every node: operator, name, inputs with their output index, attributes."""
    if len(entries) == 1 and entries[0].node.is_variable:
        return f"Variable:{entries[0].node.name}\n"
    lines = ["Symbol Outputs:"]
    lines += [f"\toutput[{i}]={node.name}({index})"
              for i, (node, index) in enumerate(entries)]
    nodes = topological_order(entries)
    for node, versions in zip(nodes, entry_versions(nodes), strict=True):
        if node.is_variable:
            lines.append(f"Variable:{node.name}")
            continue
        lines += ["--------------------", f"Op:{node.op_name}, Name={node.name}", "Inputs:"]
        for i, (entry, version) in enumerate(zip(node.inputs, versions, strict=True)):
            shown = f" version={version}" if entry.node.is_variable else ""
            lines.append(f"\targ[{i}]={entry.node.name}({entry.index}){shown}")
        if node.attrs:
            lines += ["Attrs:", *(f"\t{k}={v}" for k, v in sorted(node.attrs.items()))]
    return "\n".join(lines) + "\n"
