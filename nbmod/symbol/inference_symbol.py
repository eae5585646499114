"""The part of a symbol that predictions need: training symbols without labels.

A training symbol has inputs that only training feeds, and outputs that only training reads, such
as the loss of boxes in SSD.  Two facts of the graph tell them apart: a loss layer such as
SoftmaxOutput outputs its prediction, whatever its label is; what else is computed from a label is a
target or a loss.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from ..base import ArgumentError, ArgumentTypeError, did_you_mean
from ..graph import Entry, Graph, Node
from ..passes.rewrite import Replacement, rewrite, unchanged
from .symbol import Symbol

__all__ = ["Outputs", "implied_shapes", "inference_symbol", "labels_of", "likely_shape",
           "predicting"]

Outputs: TypeAlias = "str | int | Symbol | Sequence[str | int] | None"
LABEL_UNREAD = {"LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput",
                "SVMOutput", "SoftmaxOutput"}
"""Loss layers: the output is a function of the first input, the second is the label."""
LABEL_INPUTS = {"label", "gt_boxes"}
"""Names of inputs of operators that take labels."""
LOSSES = {"CTCLoss", "MakeLoss", "make_loss", "smooth_l1", "softmax_cross_entropy"}
"""Operators that end a network in a loss, which no prediction is."""
PASSING = {"BatchNorm", "BlockGrad", "Cast", "_copy", "_div_scalar", "_minus_scalar", "_mul_scalar",
           "_plus_scalar"}
"""Operators that often stand before the first layer, and keep the channels."""


def labels_of(symbol: Symbol, known: Collection[str] = ()) -> list[str]:
    """Names that end with ``label``, and those of variables that operators read as labels only.

    Names in `known`, of parameters and of inputs that are given, are no labels.

    Examples
    --------
    >>> from nbmod.symbol.inference_symbol import labels_of
    >>> labels_of(mx.sym.SoftmaxOutput(mx.sym.Variable("data"), mx.sym.Variable("target")))
    ['target']
    """
    graph = Graph(symbol.entries)
    needed = _needed_without_labels(graph)
    return [node.name for node in graph.arguments if node.name not in known
            and (node.name.endswith("label") or node not in needed)]


def _needed_without_labels(graph: Graph) -> set[Node]:
    """Nodes that outputs depend on by other ways than the labels of operators."""
    needed: set[Node] = set()
    waiting = [entry.node for entry in graph.outputs]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            names = () if node.op is None else node.op.list_inputs()
            waiting += [entry.node for name, entry in zip_longest(names, node.inputs)
                        if entry is not None and name not in LABEL_INPUTS]
    return needed


def inference_symbol(symbol: Symbol, outputs: Outputs = None, known: Collection[str] = ()
                     ) -> Symbol:
    """Leave out of a training symbol what only labels and losses need.

    Labels of loss layers become variables whose shapes follow from the predictions, so that nobody
    has to give them.

    Parameters
    ----------
    symbol, known
        As for `labels_of`.
    outputs : str, int, Symbol, or list of str and int, optional
        Outputs to keep, by the name of an output or of an inner node, or by position; or the
        network to keep. By default the outputs that need no labels; of a network that ends in
        losses alone, the predictions that these read.

    Returns
    -------
    Symbol
        The network, with the names and operators of the outputs that are kept.

    Raises
    ------
    ArgumentError
        If there is no such output, or it needs a label.

    Examples
    --------
    >>> from nbmod.symbol.inference_symbol import inference_symbol
    >>> scores = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    >>> error = mx.sym.square(scores - mx.sym.Variable("label"))
    >>> net = mx.sym.Group([scores, mx.sym.MakeLoss(error, name="loss")])
    >>> inference_symbol(net).list_outputs(), inference_symbol(net).list_arguments()
    (['fc_output'], ['data', 'fc_weight', 'fc_bias'])
    """
    chosen = symbol if outputs is None else _chosen(symbol, outputs)
    labels = {*labels_of(chosen, known)}
    if not labels:
        return chosen
    graph = _cut(Graph(chosen.entries), labels)
    dependent = _dependent(graph, labels)
    free = [entry for entry in graph.outputs if entry.node not in dependent]
    if outputs is not None or not free:
        return Symbol(_required(graph, dependent, sorted(labels), outputs is None))
    return Symbol(free)


def predicting(symbol: Symbol, known: Collection[str] = ()) -> Symbol:
    """Leave out of a symbol what only labels and losses need, as far as it predicts at all.

    A symbol whose outputs all need labels is returned itself; otherwise see `inference_symbol`.
    """
    try:
        return inference_symbol(symbol, known=known)
    except ArgumentError:
        return symbol


def _chosen(symbol: Symbol, outputs: Outputs) -> Symbol:
    """The outputs that a user names."""
    if isinstance(outputs, Symbol):
        return outputs
    names = [outputs] if isinstance(outputs, (str, int)) else outputs
    if not isinstance(names, Sequence) or not names:
        raise ArgumentTypeError(f"outputs is {outputs!r}, expected names or positions of outputs, "
                                "or a Symbol")
    return Symbol([entry for name in names for entry in _entries(symbol, name)])


def _entries(symbol: Symbol, name: str | int) -> list[Entry]:
    if isinstance(name, int):
        if not -len(symbol.entries) <= name < len(symbol.entries):
            raise ArgumentError(f"outputs: there is no output {name}; there are "
                                f"{len(symbol.entries)}: {symbol.list_outputs()}")
        return [symbol.entries[name]]
    inner = symbol.get_internals()
    names = inner.list_outputs()
    entries = [entry for entry, own in zip(inner.entries, names, strict=True)
               if own == name and not entry.node.is_variable]
    if not entries:
        nodes = [node for node in Graph(symbol.entries).nodes
                 if node.name == name and not node.is_variable]
        entries = [Entry(node, index) for node in nodes[:1] for index in range(node.num_visible)]
        if not entries or len(nodes) > 1:
            raise ArgumentError(
                f"outputs: {len(nodes) or 'no'} outputs are called {name!r}; the network has "
                f"{symbol.list_outputs()}{did_you_mean(name, names)}")
    return entries[:1] if len({*entries}) == 1 else entries


def _cut(graph: Graph, labels: Collection[str]) -> Graph:
    """The graph in which loss layers have variables as labels, of no declared shape."""
    free: dict[str, Node] = {}
    from_labels = _dependent(graph, labels)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if node.op_name not in LABEL_UNREAD or len(inputs) < 2:
            return None
        label = node.inputs[1].node
        if label not in from_labels:
            return None
        name = label.name if label.is_variable else f"{node.name}_label"
        variable = free.setdefault(name, Node(None, name))
        clone = node.clone([inputs[0], Entry(variable), *inputs[2:]], node.source)
        return Replacement([Entry(clone, index) for index in range(node.num_outputs)], "", True)

    return rewrite(unchanged(graph, []), rule).graph


def _dependent(graph: Graph, labels: Collection[str]) -> set[Node]:
    """Labels, and nodes whose outputs depend on them."""
    nodes: set[Node] = set()
    for node in graph.nodes:
        read = node.inputs[:1] if node.op_name in LABEL_UNREAD else node.inputs
        if node.name in labels if node.is_variable else any(entry.node in nodes for entry in read):
            nodes.add(node)
    return nodes


def _required(graph: Graph, dependent: Collection[Node], labels: Sequence[str], by_default: bool
              ) -> list[Entry]:
    """The outputs, or what losses are computed from; ArgumentError if they need labels."""
    wrong = [entry.node for entry in graph.outputs if entry.node in dependent]
    if not wrong:
        return graph.outputs
    if by_default and all(node.op_name in LOSSES for node in wrong):
        read = [entry for node in graph.nodes if node in dependent for entry in node.inputs
                if entry.node not in dependent and not entry.node.is_variable]
        if read:
            return [*dict.fromkeys(read)]
    raise ArgumentError(
        f"the output of {wrong[0].describe()} is computed from the labels {list(labels)}; choose "
        "others by outputs=[...], or give shapes of the labels, to feed them as inputs")


def likely_shape(symbol: Symbol, parameters: Mapping[str, tuple[int, ...]], name: str
                 ) -> list[int | str]:
    """Tell the shape of an input as far as the first layer that reads it does.

    It has sizes, and words for sizes that are not known, the batch size first; `parameters` has
    the shapes of the parameters.

    Examples
    --------
    >>> from nbmod.symbol.inference_symbol import likely_shape
    >>> net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=8, name="conv")
    >>> likely_shape(net, {"conv_weight": (8, 3, 3, 3)}, "data")
    ['batch size', 3, 'height', 'width']
    """
    reached: set[Node] = set()
    for node in Graph(symbol.entries).nodes:
        if node.is_variable:
            if node.name == name:
                reached.add(node)
        elif node.inputs and node.inputs[0].node in reached:
            weight = parameters.get(node.inputs[1].node.name) if len(node.inputs) > 1 else None
            if node.op_name == "FullyConnected" and weight:
                return ["batch size", weight[1]]
            if node.op_name == "Convolution" and weight:
                channels = weight[1] * int(getattr(node.op, "num_group", 1))
                sizes = ["depth", "height", "width"][-len(weight[2:]):]
                return ["batch size", channels, *sizes]
            if node.op_name in PASSING:
                reached.add(node)
    return ["batch size", "..."]


def implied_shapes(symbol: Symbol, parameters: Mapping[str, tuple[int, ...]]
                   ) -> dict[str, tuple[int, ...]]:
    """Shapes, for one sample, of inputs that declare none and are those of a dense layer.

    Examples
    --------
    >>> from nbmod.symbol.inference_symbol import implied_shapes
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    >>> implied_shapes(net, {"fc_weight": (2, 4), "fc_bias": (2,)})
    {'data': (1, 4)}
    """
    shapes = {node.name: likely_shape(symbol, parameters, node.name)
              for node in Graph(symbol.entries).arguments
              if node.name not in parameters and "__shape__" not in node.attrs}
    return {name: (1, *sizes) for name, (_, *rest) in shapes.items()
            if len(sizes := [size for size in rest if isinstance(size, int)]) == len(rest)}
