"""Quantization: layers become their twins on 8-bit integers; and calibration of the result.

    y = layer(x, w)

becomes

    y = dequantize(requantize(quantized_layer(quantize(x), w_quantize, ranges)))

node by node.  A layer whose input is a `dequantize` reads the integers before it instead, so
consecutive layers exchange integers, and a `dequantize` that nothing reads is not part of the
graph.  Parameters are integers in variables of their own: `w_quantize`, and its range.

`quantize` gives the names of the tensors whose ranges should be known.  `calibrate` writes these
into the nodes that need them.

Assumes: a layer has a twin for its parameters, and one output that is read; checked in
`_is_possible`, by `_Twin.fits`.
Inputs may coincide: a tensor is quantized once (`_QuantizedGraphBuilder.integers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from ..graph import Entry, Graph, Node
from .entry_names import inserted_name, output_name
from .rewrite import Replacement, node_of, rewrite, unchanged

if TYPE_CHECKING:
    from ..ops.nn.batch_norm import BatchNormOp
    from ..ops.nn.convolution import Convolution
    from ..ops.nn.pooling import Pooling
    from ..ops.quantization.quantize import QuantizeV2, Requantize
    from ..ops.quantization.quantized_elementwise import QuantizedBatchNorm

__all__ = ["MODES", "Quantization", "Quantized", "calibrate", "quantize"]

MODES = ("smart", "full")
"""Quantize layers with weights and what is between them, or all that is possible."""

Ranges = Mapping[str, tuple[float, float]]
Integers = tuple[Entry, Entry, Entry]
"""A tensor of integers, and the two bounds of its range."""


class Quantization(NamedTuple):
    """The choice of tensors to quantize, and of the method."""

    offline: frozenset[str] = frozenset()
    """Variables that are quantized before the network runs."""
    dtype: str = "int8"
    mode: str = "smart"
    excluded_names: frozenset[str] = frozenset()
    excluded_ops: frozenset[str] = frozenset()
    calibrated: bool = True
    """Whether ranges will be calibrated."""


class Quantized(NamedTuple):
    """A quantized graph."""

    graph: Graph
    to_calibrate: list[str]
    """Names of tensors whose ranges are needed."""
    notes: list[str]
    """A line for each layer that was quantized."""


class _Twin(NamedTuple):
    """The operator on integers that does what a float operator does."""

    op: str
    has_weight: bool = False
    """It makes quantization worth while: `smart` quantizes it, and what is between two of them."""
    requantize: bool = False
    """Its output are int32 sums."""
    float_inputs: range = range(0)
    """Positions of inputs that stay float."""
    fits: Callable[[Node, Quantization], bool] = lambda node, options: True
    """Whether there is a twin for these parameters."""


def _channels_second(node: Node, options: Quantization) -> bool:
    return not cast("Convolution", node.op).channels_last


def _pools_bytes(node: Node, options: Quantization) -> bool:
    op = cast("Pooling", node.op)
    return op.pool_type in ("max", "avg") and not op.channels_last


def _is_relu(node: Node, options: Quantization) -> bool:
    return getattr(node.op, "act_type", "") == "relu"


def _is_calibrated_norm(node: Node, options: Quantization) -> bool:
    op = cast("BatchNormOp", node.op)
    return options.calibrated and op.axis == 1 and not op.output_mean_var


def _of_int8(node: Node, options: Quantization) -> bool:
    return options.dtype == "int8"


_TWINS = {
    "Convolution": _Twin("_contrib_quantized_conv", True, True, fits=_channels_second),
    "FullyConnected": _Twin("_contrib_quantized_fully_connected", True, True),
    "Pooling": _Twin("_contrib_quantized_pooling", fits=_pools_bytes),
    "Activation": _Twin("_contrib_quantized_act", fits=_is_relu),
    "Flatten": _Twin("_contrib_quantized_flatten"),
    "Concat": _Twin("_contrib_quantized_concat"),
    "elemwise_add": _Twin("_contrib_quantized_elemwise_add", requantize=True),
    "elemwise_mul": _Twin("_contrib_quantized_elemwise_mul", requantize=True, fits=_of_int8),
    "BatchNorm": _Twin("_contrib_quantized_batch_norm", float_inputs=range(1, 5),
                       fits=_is_calibrated_norm),
    "Embedding": _Twin("_contrib_quantized_embedding", float_inputs=range(1)),
}


def quantize(graph: Graph, options: Quantization) -> Quantized:
    """`graph` with quantized layers."""
    chosen, writer = _chosen(graph, options), _QuantizedGraphBuilder(options)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if node not in chosen:
            return None
        output = writer.layer(node, inputs, _TWINS[node.op_name])
        return Replacement([output] * node.num_outputs, f"{node.describe()} is quantized")

    network = rewrite(unchanged(graph, []), rule)
    return Quantized(network.graph, writer.to_calibrate, network.notes)


# -- choice ----------------------------------------------------------------------------------------


def _chosen(graph: Graph, options: Quantization) -> set[Node]:
    """The nodes to quantize."""
    possible = [node for node in graph.nodes if _is_possible(node, options)]
    layers = {node for node in possible if _TWINS[node.op_name].has_weight}
    between = set(possible) - layers
    if options.mode == "smart":
        between &= _after(possible, layers) & _before(between, layers)
    return layers | between


def _is_possible(node: Node, options: Quantization) -> bool:
    twin = _TWINS.get(node.op_name)
    return (twin is not None and node.name not in options.excluded_names
            and node.op_name not in options.excluded_ops and twin.fits(node, options))


def _after(possible: Sequence[Node], layers: set[Node]) -> set[Node]:
    """The nodes that read from a layer, directly or through others of them."""
    nodes = set(layers)
    for node in possible:
        if any(entry.node in nodes for entry in node.inputs):
            nodes.add(node)
    return nodes


def _before(between: set[Node], layers: set[Node]) -> set[Node]:
    """The nodes that a layer reads, directly or through others of them."""
    nodes: set[Node] = set()
    waiting = list(layers)
    while waiting:
        for entry in waiting.pop().inputs:
            if entry.node in between and entry.node not in nodes:
                nodes.add(entry.node)
                waiting.append(entry.node)
    return nodes


# -- writing ---------------------------------------------------------------------------------------


class _QuantizedGraphBuilder:
    """Makes the nodes of a quantized graph; a tensor is quantized once for all that read it."""

    def __init__(self, options: Quantization):
        self.options = options
        self.to_calibrate: list[str] = []
        self._integers: dict[Entry, Integers] = {}

    def layer(self, node: Node, inputs: Sequence[Entry], twin: _Twin) -> Entry:
        """The output, in floating point, of the twin of `node`."""
        triples = [None if i in twin.float_inputs else self.integers(entry)
                   for i, entry in enumerate(inputs)]
        tensors = [entry if integers is None else integers[0]
                   for entry, integers in zip(inputs, triples, strict=True)]
        ends = [end for integers in triples if integers is not None for end in integers[1:]]
        layer = node_of(twin.op, f"quantized_{node.name}", [*tensors, *ends], node.attrs)
        if twin.requantize or node.op_name == "BatchNorm":
            self.to_calibrate.append(output_name(Entry(node)))
        if twin.requantize:
            layer = node_of("_contrib_requantize", f"requantize_{node.name}", _outputs(layer),
                            {"out_type": self.options.dtype})
        return Entry(node_of("_contrib_dequantize", f"{node.name}_dequantize", _outputs(layer), {}))

    def integers(self, entry: Entry) -> Integers:
        """A tensor as integers."""
        if entry.node.op_name == "_contrib_dequantize":
            data, low, high = entry.node.inputs
            return data, low, high
        if entry not in self._integers:
            self._integers[entry] = self._quantized(entry)
        return self._integers[entry]

    def _quantized(self, entry: Entry) -> Integers:
        name = entry.node.name
        if entry.node.is_variable and name in self.options.offline:
            data, low, high = (Entry(Node(None, f"{name}_quantize{end}"))
                               for end in ("", "_min", "_max"))
            return data, low, high
        self.to_calibrate.append(output_name(entry))
        return _outputs(node_of("_contrib_quantize_v2", inserted_name(entry, "quantize"), [entry],
                                {"out_type": self.options.dtype}))


def _outputs(node: Node) -> Integers:
    return Entry(node, 0), Entry(node, 1), Entry(node, 2)


# -- calibration -----------------------------------------------------------------------------------


def calibrate(graph: Graph, ranges: Ranges) -> Graph:
    """A quantized graph with known `ranges` of tensors of the graph that it was made from."""
    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        name = _calibrated_name(node, inputs)
        if name not in ranges:
            return None
        low, high = (float(bound) for bound in ranges[name])
        op = cast("QuantizeV2 | Requantize | QuantizedBatchNorm", node.op)
        clone = Node(replace(op, min_calib_range=low, max_calib_range=high), node.name, inputs,
                     {**node.attrs, "min_calib_range": f"{low:.9g}",
                      "max_calib_range": f"{high:.9g}"})
        return Replacement(_outputs(clone), f"{node.describe()} is calibrated")

    return rewrite(unchanged(graph, []), rule).graph


def _calibrated_name(node: Node, inputs: Sequence[Entry]) -> str:
    """The name, before quantization, of the tensor whose range a node needs; or nothing."""
    if node.op_name == "_contrib_quantize_v2":
        return output_name(inputs[0])
    prefixes = {"_contrib_requantize": "requantize_", "_contrib_quantized_batch_norm": "quantized_"}
    if node.op_name not in prefixes:
        return ""
    return node.name.removeprefix(prefixes[node.op_name]) + "_output"
