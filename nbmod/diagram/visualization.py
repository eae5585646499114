"""Networks as a table of layers, and as drawings.

    mx.viz.print_summary(net, {"data": (1, 3, 224, 224)})
    mx.viz.plot_network(net, shape={"data": (1, 3, 224, 224)}).render("net")
    mx.viz.network_dot(net)         the same graph as text for Graphviz

All read the graph and the shapes that follow from those given.  `nbmod.diagram` draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike

from ..base import warn_user
from ..graph import Graph
from ..passes.entry_names import distinct_names
from ..symbol import Symbol
from .rendering import NetworkDrawing
from .summary import Summary, summarize
from .symbol_picture import HIDDEN, facts_of, label_of, network_picture

__all__ = ["print_summary", "plot_network", "network_dot"]
__dir__ = __all__.copy


def _require_symbol(symbol: object) -> Symbol:
    if not isinstance(symbol, Symbol):
        hint = "; that of a HybridBlock is net(mx.sym.var('data'))" * hasattr(symbol, "hybridize")
        raise TypeError(f"symbol must be a Symbol, given a {type(symbol).__name__}{hint}")
    return symbol


def _dims(shape: Sequence[int]) -> str:
    """A shape without its batch: `3x8x8`."""
    return "x".join(map(str, shape[1:]))


# -- the table --------------------------------------------------------------------------------


def print_summary(symbol: Symbol, shape: Mapping[str, Sequence[int]] | None = None,
                  line_length: int | None = None, positions: Sequence[float] | None = None
                  ) -> Summary:
    """Print a table of the layers, and return them as data.

    Columns are the name and operator of a layer, the shape of its output, the number of its
    parameters, its multiplications with an addition, and the memory of its outputs. A parameter is
    counted where it is first used. With `line_length` or `positions` the table is MXNet's, whose
    columns are name, shape without the batch axis, parameters, and the layers that it reads.

    Parameters
    ----------
    symbol : Symbol
        The network.
    shape : dict of str to tuple, optional
        Shapes of inputs by name. Without it, only those parameters are counted whose sizes do not
        depend on inputs.
    line_length : int, optional
        Width of MXNet's table in characters; 120 if only `positions` are given.
    positions : list of float, optional
        Ends of its four columns: fractions of `line_length` if the last one is at most 1, else
        characters; (.44, .64, .74, 1.) if only `line_length` is given.

    Returns
    -------
    Summary
        The layers: `layers`, `parameters`, `macs` and `nbytes`; its ``str`` is the table.

    Raises
    ------
    TypeError
        If `symbol` is not a Symbol.
    ValueError
        If not all shapes follow from those given.

    Examples
    --------
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=10, name="fc")
    >>> summary = mx.viz.print_summary(net, {"data": (1, 4)})
    --------------------------------------------------------------------------------
    Layer (type)                     Output                 Params     MACs   Memory
    --------------------------------------------------------------------------------
    data (null)                      1x4                         0        0     16 B
    fc (FullyConnected)              1x10                       50       40     40 B
    --------------------------------------------------------------------------------
    Total params: 50
    Total MACs: 40 (40)
    Outputs of all layers: 56 bytes (56 B)
    --------------------------------------------------------------------------------
    >>> summary.parameters, summary.macs
    (50, 40)
    """
    summary = summarize(_require_symbol(symbol), shape)
    print(summary if line_length is None and positions is None
          else summary.table(line_length or 120, positions or (.44, .64, .74, 1.)))
    return summary


# -- the drawing ------------------------------------------------------------------------------


STYLE = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034",
         "style": "filled"}
ARROW = {"dir": "back", "arrowtail": "open"}  # drawn from what is read to its reader
COLOURS = {"null": "#8dd3c7", "Convolution": "#fb8072", "FullyConnected": "#fb8072",
           "BatchNorm": "#bebada", "Activation": "#ffffb3", "LeakyReLU": "#ffffb3",
           "Pooling": "#80b1d3", "Concat": "#fdb462", "Flatten": "#fdb462", "Reshape": "#fdb462"}
OTHERS = "#fccde5"


def _diagram(symbol: Symbol, shape: Mapping[str, Sequence[int]] | None,
             dtype: Mapping[str, DTypeLike] | None, node_attrs: Mapping[str, str],
             hide_weights: bool
             ) -> tuple[list[tuple[str, dict[str, str]]], list[tuple[str, str, str]]]:
    """Boxes: name and attributes; arrows: reader, what it reads, and label."""
    nodes = Graph(_require_symbol(symbol).entries).nodes
    if repeated := [name for name, count in Counter(node.name for node in nodes).items()
                    if count > 1]:
        warn_user("There are multiple variables with the same name in your graph, which have "
                  f"numbers in the drawing: {', '.join(repeated)}", RuntimeWarning)
    shapes = None if shape is None else facts_of(symbol, "infer_shape", shape, "shape")
    types = None if dtype is None else facts_of(symbol, "infer_type", dtype, "type")
    hidden = {node for node in nodes if node.is_variable and node.name.endswith(HIDDEN)}
    names = distinct_names(nodes)
    boxes, arrows = [], []
    for node in nodes:
        if node in hidden:
            continue
        outline = {"shape": "oval"} if node.is_variable else {}
        colour = COLOURS.get(node.op_name, OTHERS)
        boxes.append((names[node], {"label": node.name if node.is_variable else label_of(node),
                                     **STYLE, **node_attrs, **outline, "fillcolor": colour}))
        for entry in node.inputs:
            if not (hide_weights and entry.node in hidden):
                text = _dims(shapes[entry]) if shapes else ""
                text += f"({np.dtype(types[entry]).name})" if types else ""
                arrows.append((names[node], names[entry.node], text))
    return boxes, arrows


def plot_network(symbol: Symbol, title: str = "plot", save_format: str = "pdf",
                 shape: Mapping[str, Sequence[int]] | None = None,
                 dtype: Mapping[str, DTypeLike] | None = None,
                 node_attrs: Mapping[str, str] = {},  # noqa: B006  # as MXNet's signature has it
                 hide_weights: bool = True) -> NetworkDrawing:
    """Draw the network.

    Rows go from inputs to outputs. Activations and normalizations share the box of the layer that
    they follow, and blocks that repeat in sequence are drawn once, with their number. SVG needs no
    package, other formats need matplotlib.

    Parameters
    ----------
    symbol : Symbol
        The network.
    title : str, default 'plot'
        Name of the graph.
    save_format : str, default 'pdf'
        File format of `render`: svg, dot, or one of matplotlib's, such as pdf and png.
    shape : dict of str to tuple, optional
        Shapes of inputs by name; boxes then have the shapes of their outputs. Without it, they
        have those that follow from the graph alone.
    dtype : dict of str to type, optional
        Types of inputs by name; boxes then have the types of their outputs.
    node_attrs : dict of str to str, optional
        Attributes for all nodes in ``.source``, Graphviz's form of the graph.
    hide_weights : bool, default True
        Omit variables that are named like weights.

    Returns
    -------
    NetworkDrawing
        The drawing; ``.render(name)`` writes it to a file, ``.svg`` is its SVG, ``.source`` the
        graph in Graphviz's language.

    Raises
    ------
    TypeError
        If `symbol` is not a Symbol.
    ValueError
        If not all shapes or types follow from those given.

    Examples
    --------
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=10, name="fc")
    >>> drawing = mx.viz.plot_network(net, shape={"data": (1, 4)})
    >>> drawing.svg.startswith("<svg "), "1\u00d710" in drawing.svg
    (True, True)
    """
    source = network_dot(symbol, title, shape, dtype, node_attrs, hide_weights)
    return NetworkDrawing(lambda: network_picture(symbol, shape, dtype, hide_weights), source,
                          title, save_format)


def network_dot(symbol: Symbol, title: str = "plot",
                shape: Mapping[str, Sequence[int]] | None = None,
                dtype: Mapping[str, DTypeLike] | None = None,
                node_attrs: Mapping[str, str] | None = None, hide_weights: bool = True) -> str:
    """Describe the graph of `plot_network` in Graphviz's language.

    Parameters
    ----------
    symbol, title, shape, dtype, node_attrs, hide_weights
        As for `plot_network`.

    Examples
    --------
    >>> print(mx.viz.network_dot(mx.sym.Variable("x"), title="net").splitlines()[0])
    digraph "net" {
    """
    boxes, arrows = _diagram(symbol, shape, dtype, node_attrs or {}, hide_weights)
    lines = [f"{_quoted(name)} [{_listed(attributes)}]" for name, attributes in boxes]
    lines += [f"{_quoted(reader)} -> {_quoted(read)} [{_listed({'label': label, **ARROW})}]"
              for reader, read, label in arrows]
    return "\n\t".join([f"digraph {_quoted(title)} {{", *lines]) + "\n}\n"


def _listed(attributes: Mapping[str, str]) -> str:
    return " ".join(f"{key}={_quoted(value)}" for key, value in attributes.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
