"""Symbols and parameters of quantized networks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import ndarray as nd
from ...base import MXNetError
from ...context import cpu
from ...graph import Entry, Graph, Node
from ...ndarray import NDArray
from ...ops.op import Spec
from ...ops.quantization.quantized_elementwise import QuantizedBatchNorm
from ...passes.entry_names import distinct_names
from ...passes.optimize.fold_batch_norm import LAYERS, fold_batch_norm
from ...passes.quantize_graph import Quantization, quantize
from ...passes.rewrite import Replacement, rewrite, unchanged
from ...symbol import Symbol
from ...symbol.compose import copy_graph

__all__ = ["Params", "distinct_layers", "fold_norms", "quantize_params", "quantized_symbol"]

Params = dict[str, NDArray]


def distinct_layers(sym: Symbol) -> tuple[Symbol, dict[str, list[str]]]:
    """The network with a name of its own for every layer, and the names of those of each name.

    Ranges are found by name, and layers of one name have ranges of their own.
    """
    copy = Symbol(copy_graph(sym.entries))
    names: dict[str, list[str]] = {}
    for node, name in distinct_names(node for node in Graph(copy.entries).nodes
                                     if not node.is_variable).items():
        names.setdefault(node.name, []).append(name)
        node.name = name
    return copy, names


def quantized_symbol(sym: Symbol, logger: logging.Logger | None, options: Quantization
                      ) -> tuple[Symbol, list[str]]:
    """The quantized symbol, and the names of tensors to calibrate."""
    result = quantize(Graph(sym.entries), options)
    if logger:
        for note in result.notes:
            logger.info(note)
    return Symbol(result.graph.outputs), result.to_calibrate


def quantize_params(qsym: Symbol, params: Mapping[str, NDArray],
                     th_dict: Mapping[str, Any] | None = None) -> Params:
    """The parameters of a quantized symbol, from those of the symbol that it was made from.

    `th_dict` is an argument of MXNet's function of this name and has no effect.
    """
    codes: Params = {}
    ones = {node.inputs[1].node.name for node in Graph(qsym.entries).nodes
            if isinstance(node.op, QuantizedBatchNorm) and node.op.fix_gamma}
    for name in qsym.list_arguments():
        plain = name.removesuffix("_quantize")
        if name in params:
            codes[name] = nd.ones_like(params[name]) if name in ones else params[name]
        elif plain != name and plain in params:
            array = params[plain]
            codes[name], codes[f"{name}_min"], codes[f"{name}_max"] = nd.contrib.quantize(
                array, array.min().reshape((1,)), array.max().reshape((1,)), out_type="int8")
    return codes


def fold_norms(sym: Symbol, arg_params: Params, aux_params: Params) -> tuple[Symbol, Params]:
    """The network with BatchNorm folded into the layers before, and its parameters."""
    graph, params = Graph(sym.entries), dict(arg_params)
    values = {**arg_params, **aux_params}

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if node.op_name != "_folded_batch_norm":
            return None
        name, number = node.name, 0
        while f"{name}_weight" in params:       # that of another layer of this name
            number += 1
            name = f"{node.name}_{number}"
        names = [f"{name}_{output}" for output in ("weight", "bias")]
        folded = Symbol([Entry(node, 0), Entry(node, 1)])
        missing = [name for name in folded.list_inputs() if name not in values]
        if missing:
            raise MXNetError(f"quantize_model_mkldnn: {missing[0]} is in neither arg_params nor "
                             f"aux_params; it is needed for {node.name.removesuffix('_folded')}")
        values_read = {name: values[name] for name in folded.list_inputs()}
        arrays = folded.bind(cpu(), values_read, grad_req="null", numpy_first=False).forward()
        params.update(zip(names, arrays, strict=True))
        return Replacement([Entry(Node(None, name)) for name in names], "")

    whole = rewrite(fold_batch_norm(unchanged(graph, _layer_specs(graph, values))), rule).graph
    return Symbol(whole.outputs), params


def _layer_specs(graph: Graph, values: Mapping[str, NDArray]) -> list[Spec]:
    """The rank and type of the outputs of layers, which are those of the weight; no sizes."""
    specs = [Spec((), np.dtype(np.float32))] * graph.num_entries
    for node in graph.nodes:
        weight = values.get(node.inputs[1].node.name) if node.op_name in LAYERS else None
        if weight is not None and getattr(node.op, "flatten", True):
            specs[graph.eid(Entry(node))] = Spec((0,) * weight.ndim, np.dtype(weight.dtype))
    return specs
