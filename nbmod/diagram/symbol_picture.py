"""The picture of a symbol: what is said of its nodes, and which of them are weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ..base import MXNetError
from ..graph import Entry, Graph, Node
from ..ops.shape import is_known
from ..passes.entry_names import distinct_names
from ..symbol import Symbol
from .blocks import NodeFacts, draw_graph
from .picture import Picture, svg

__all__ = ["HIDDEN", "facts_of", "label_of", "network_picture", "notebook_svg"]

Fact: TypeAlias = Any
"""A shape or an element type."""

HIDDEN = ("_weight", "_bias", "_gamma", "_beta", "_moving_mean", "_moving_var", "_running_mean",
          "_running_var")
"""Suffixes of the names of variables that a drawing omits."""

DETAILS = ("eps", "momentum", "fix_gamma", "use_global_stats", "output_mean_var", "cudnn_off",
           "workspace", "num_args", "dtype", "ctx")
"""Parameters that a drawing omits."""
MOST_NODES, MOST_BOXES = 5000, 400
"""Limits of what a notebook draws unasked."""


def facts_of(symbol: Symbol, method: str, arguments: Mapping[str, Fact], what: str
             ) -> dict[Entry, Fact]:
    """Shapes or types of entries, as far as they follow from what was given for variables."""
    internals = symbol.get_internals()
    _, facts, _ = getattr(internals, method)(**arguments)
    if facts is None:
        raise ValueError(f"Input {what} is incomplete: give the {what} of more inputs "
                         f"(given: {dict(arguments)})")
    return dict(zip(internals.entries, facts, strict=True))


def label_of(node: Node) -> str:
    """The op with its main attributes for the most common ops, the name for all others."""
    attrs = node.attrs
    kernel, stride = _by(attrs.get("kernel", ""), "[]"), _by(attrs.get("stride", ""), "1")
    labels = {"Convolution": lambda: f"{kernel}/{stride}, {attrs['num_filter']}",
              "FullyConnected": lambda: attrs["num_hidden"],
              "Activation": lambda: attrs["act_type"],
              "LeakyReLU": lambda: attrs.get("act_type", "Leaky"),
              "Pooling": lambda: f"{attrs.get('pool_type', 'max')}, {kernel}/{stride}"}
    if node.op_name in labels:
        return f"{node.op_name}\n{labels[node.op_name]()}"
    return attrs["op_type"] if node.op_name == "Custom" else node.name


def _by(text: str, otherwise: str) -> str:
    """`(3, 3)` as `3x3`."""
    return "x".join(re.findall(r"\d+", text)) or otherwise


def network_picture(symbol: Symbol, shape: Mapping[str, Sequence[int]] | None,
             dtype: Mapping[str, DTypeLike] | None, hide_weights: bool) -> Picture:
    """The picture of `plot_network`."""
    nodes = Graph(symbol.entries).nodes
    try:
        shapes = facts_of(symbol, "infer_shape_partial", shape or {}, "shape")
    except MXNetError:  # a network whose shapes contradict each other is drawn without
        shapes = {}
    types = facts_of(symbol, "infer_type", dtype, "type") if dtype else {}

    def result(node: Node) -> str:
        """Shapes and types of the outputs of a node, the different ones."""
        entries = [Entry(node, index) for index in range(node.num_visible)]
        return ", ".join(dict.fromkeys(
            f"{_times(shapes[entry])} {np.dtype(types[entry]).name if types else ''}".strip()
            for entry in entries if shapes.get(entry) and is_known(shapes[entry])))

    return draw_graph(nodes, NodeFacts(
        _detail, result, _is_weight if hide_weights else lambda node: False, distinct_names(nodes)))


def _times(shape: Sequence[int]) -> str:
    return "\u00d7".join(map(str, shape))


def _is_weight(node: Node) -> bool:
    return node.is_variable and node.name.endswith(HIDDEN)


def _detail(node: Node) -> str:
    """The operator of a node and its parameters, in words."""
    if node.is_variable:
        return ""
    label = label_of(node)
    if label != node.name:
        return label.replace("\n", " ")
    parameters = [f"{key}={value}" for key, value in node.attrs.items()
                  if not key.startswith("__") and key not in DETAILS]
    return " ".join([node.op_name, *(text for text in parameters if len(text) <= 24)][:4])


def notebook_svg(symbol: Symbol) -> str | None:
    """The drawing that notebooks show of a symbol; None for a graph that is too large for one."""
    if len(Graph(symbol.entries).nodes) > MOST_NODES:
        return None
    picture = network_picture(symbol, None, None, True)
    return svg(picture, symbol.name or "network") if len(picture.boxes) <= MOST_BOXES else None
