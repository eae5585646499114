"""Fused operators as MXNet's oneDNN back end writes them; imports neither package.

Such nodes hold a graph, so there is no function for them: `function` simulates one, from the JSON
that a file would have.  Attributes of a sample besides the node's own define the graph: `layer`
(parameters of the convolution or the dense layer), `norm` (of BatchNorm, or absent), and the
activations `before` and `after` a sum, which exists if the node has an input `sum`.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

LAYERS = {"_sg_mkldnn_conv": "Convolution", "_sg_mkldnn_fully_connected": "FullyConnected"}
ACTIVATIONS: dict[str, tuple[str, dict[str, str]]] = {
    "relu": ("Activation", {"act_type": "relu"}),
    "tanh": ("Activation", {"act_type": "tanh"}),
    "relu6": ("clip", {"a_min": "0", "a_max": "6"}),
    "leaky": ("LeakyReLU", {"act_type": "leaky", "slope": "0.1"}),
    "gelu": ("LeakyReLU", {"act_type": "gelu"}),
    "abs": ("abs", {}),
}  # fmt: skip
NORM = ("gamma", "beta", "moving_mean", "moving_var")


def function(namespace: Any, op: str) -> Callable[..., Any]:
    """A node of `op` on tensors given by name: a symbol, or a list of arrays."""
    mx = sys.modules[namespace.__name__.partition(".")[0]]

    def call(*, name: str = "op", **given: Any) -> Any:
        tensors = {key: value for key, value in given.items()
                   if isinstance(value, (mx.sym.Symbol, mx.nd.NDArray))}  # fmt: skip
        attrs = {key: value for key, value in given.items() if key not in tensors}
        symbol = mx.sym.load_json(text(op, name, list(tensors), attrs))
        if namespace is not mx.nd:
            return symbol
        states = {key: tensors.pop(key) for key in symbol.list_auxiliary_states()}
        return symbol.bind(mx.cpu(), tensors, aux_states=states, grad_req="null").forward()

    return call


def text(op: str, name: str, names: Sequence[str], attrs: dict[str, Any]) -> str:
    """A file with one node of `op` over variables."""
    given = {key: ast.literal_eval(value) if isinstance(value, str) and key in ("layer", "norm")
             else value for key, value in attrs.items()}  # fmt: skip
    layer, norm = given.pop("layer"), given.pop("norm", None)
    acts = [given.pop("before", ""), given.pop("after", "")]
    graph = _Graph()
    last = graph.add(LAYERS[op], [graph.variable(n) for n in names if n in _LAYER_INPUTS], layer)
    if norm is not None:
        last = graph.add("BatchNorm", [last, *map(graph.variable, NORM)], norm)
    if acts[0]:
        last = graph.add(ACTIVATIONS[acts[0]][0], [last], ACTIVATIONS[acts[0]][1])
    if "sum" in names:
        last = graph.add("elemwise_add", [last, graph.variable("sum")], {})
        if acts[1]:
            last = graph.add(ACTIVATIONS[acts[1]][0], [last], ACTIVATIONS[acts[1]][1])
    outer = _Graph()
    inputs = [outer.variable(n) for n in names]
    node = outer.add(op, inputs, given, name)
    outer.nodes[node]["subgraphs"] = [graph.record(last)]
    return json.dumps({**outer.record(node), "attrs": {"mxnet_version": ["int", 10901]}})


_LAYER_INPUTS = ("data", "weight", "bias")


class _Graph:
    """A graph as JSON in construction."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []

    def variable(self, name: str) -> int:
        self.nodes.append({"op": "null", "name": name, "inputs": []})
        return len(self.nodes) - 1

    def add(self, op: str, inputs: Sequence[int], attrs: dict[str, Any], name: str = "") -> int:
        self.nodes.append({"op": op, "name": name or f"node{len(self.nodes)}",
                           "attrs": {key: str(value) for key, value in attrs.items()},
                           "inputs": [[i, 0, 0] for i in inputs]})  # fmt: skip
        return len(self.nodes) - 1

    def record(self, head: int) -> dict[str, Any]:
        variables = [i for i, node in enumerate(self.nodes) if node["op"] == "null"]
        return {"nodes": self.nodes, "arg_nodes": variables, "heads": [[head, 0, 0]],
                "node_row_ptr": list(range(len(self.nodes) + 1))}  # fmt: skip
