"""nbmod's own results for verification: a graph computed node by node with eager operators.

Nothing is compiled, nothing rewritten, and every intermediate tensor can be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ..context import cpu
from ..graph import Entry, Graph, Node
from ..ndarray import NDArray, array
from ..ndarray.eager import execute
from ..ops.device import device_of
from ..ops.op import Spec
from ..symbol import Symbol
from .exporting.tensor_info import infer_graph_specs

__all__ = ["Tensor", "run_graph", "run_node"]

Tensor: TypeAlias = np.ndarray  # of any element type


def run_graph(graph: Graph, variables: Mapping[str, Tensor],
              rounded: Callable[[Tensor], Tensor] | None = None) -> dict[Entry, Tensor]:
    """Outputs of a graph in predictions.

    `rounded` changes the results of every node before others read them.
    """
    created = _created_specs(graph, variables)
    readers = Counter(entry for node in graph.nodes for entry in node.inputs)
    outputs = set(graph.outputs)
    tensors: dict[Entry, Tensor] = {}
    for node in graph.nodes:
        if node.is_variable:
            tensors[Entry(node)] = variables[node.name]
            continue
        needed = 1 + max((index for index in range(node.num_outputs)
                          if readers[Entry(node, index)] or Entry(node, index) in outputs),
                         default=0)
        results = run_node(node, [tensors[entry] for entry in node.inputs],
                           created.get(node, ()), needed)
        if rounded is not None:
            results = [result if result is None else rounded(result) for result in results]
        tensors.update({Entry(node, index): result for index, result in enumerate(results)
                        if result is not None})
        for entry in node.inputs:
            readers[entry] -= 1
            if not readers[entry] and entry not in outputs:
                tensors.pop(entry, None)
    return {entry: tensors[entry] for entry in graph.outputs}


def _created_specs(graph: Graph, variables: Mapping[str, Tensor]) -> dict[Node, list[Spec]]:
    """Shapes and types of tensors without inputs, which may follow from those who read them."""
    creators = [node for node in graph.nodes if node.op is not None and not node.inputs]
    if not creators:
        return {}
    specs = infer_graph_specs(graph, {node.name: Spec(variables[node.name].shape,
                                                      variables[node.name].dtype)
                                      for node in graph.variables})
    return {node: [specs[eid] for eid in graph.output_eids(node)] for node in creators}


def run_node(node: Node, inputs: Sequence[Tensor], specs: Sequence[Spec] = (), needed: int = 1
             ) -> list[Tensor]:
    """Results of one node; `specs` are those of its outputs, read where it has no inputs."""
    if node.required_op.runs_subgraphs:
        return _run_bound(node, inputs)
    arrays = [np.ascontiguousarray(each) for each in inputs]
    outs = [] if inputs else [np.empty(*spec) for spec in specs[:node.num_visible]]
    return execute(node.required_op, arrays, device_of(cpu()), outs, cpu(), needed)


def _run_bound(node: Node, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Loops and branches have no eager form: the node is bound alone."""
    variables = [Entry(Node(None, f"input{i}")) for i in range(len(inputs))]
    alone = Node(node.op, node.name, variables, node.attrs)
    symbol = Symbol([Entry(alone, i) for i in range(node.num_visible)])
    arguments: dict[str, NDArray] = {
        f"input{i}": array(each, dtype=each.dtype) for i, each in enumerate(inputs)}
    states = symbol.list_auxiliary_states()
    executor = symbol.bind(cpu(), {name: each for name, each in arguments.items()
                                   if name not in states},
                           grad_req="null", aux_states={name: arguments[name] for name in states})
    return [each.asnumpy() for each in executor.forward(is_train=False)]
