"""From a graph of nbmod to a graph of ONNX: asks the converter of every node.

A node that has none, or that its converter refuses, is recorded and the export goes on, so that the
error lists all of them.  With a custom domain such nodes are written as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...base import MXNetError
from ...graph import Entry, Graph, Node
from .converter import CONVERTERS, OPSETS, NodeExport, NotExpressible, as_list, describe_op
from .onnx_graph import ExportLimits, GraphBuilder, Tensor, Value, unique_name
from .tensor_info import TensorInfo

__all__ = ["ExportedGraph", "UnsupportedNodes", "export_graph", "output_names", "set_outputs"]


@dataclass(frozen=True)
class Refusal:
    """A node that cannot be expressed, and why."""

    node: Node
    reason: str

    def __str__(self) -> str:
        op = self.node.required_op
        return f"{self.node.name}: {op.name} ({describe_op(op)}): {self.reason}"


class UnsupportedNodes(MXNetError):
    """Nodes that cannot be exported; `nodes` are (name, operator, reason) of all of them."""

    def __init__(self, refusals: Sequence[Refusal], opset: int):
        self.nodes = [(each.node.name, each.node.op_name, each.reason) for each in refusals]
        lines = "".join(f"\n  {each}" for each in refusals)
        super().__init__(
            f"export_model: {len(refusals)} node(s) cannot be expressed in ONNX opset {opset}:"
            f"{lines}\nExport the graph up to a node before them with until={_before(refusals)!r}, "
            "or write them as operators of your own domain with custom_domain='DOMAIN' (a runtime "
            "then needs kernels for these); docs/onnx.md lists the operators that are supported")


def _before(refusals: Sequence[Refusal]) -> str:
    """A node that the first of the refused ones reads, and that needs none of them."""
    refused = {each.node for each in refusals}
    for node in (entry.node for each in refusals for entry in each.node.inputs):
        if not node.is_variable and refused.isdisjoint(Graph([Entry(node)]).nodes):
            return node.name
    return "NAME"


@dataclass
class ExportedGraph:
    """A graph of ONNX, and what the graph of nbmod became in it."""

    builder: GraphBuilder
    values: dict[Entry, Value] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    custom_domain: str | None = None
    named: set[int] = field(default_factory=set)
    """`id`s of values that have the name of their node."""

    def export(self, graph: Graph, infos: Sequence[TensorInfo]) -> None:
        """Convert all nodes whose inputs are known; inputs must be in `values`."""
        names = _unique_names(graph, [value.hint for value, _ in self.builder.inputs])
        for node in graph.nodes:
            if node.op is not None:
                self._convert(node, names[node], [infos[eid] for eid in graph.input_eids(node)],
                              [infos[eid] for eid in graph.output_eids(node)])

    def _convert(self, node: Node, name: str, ins: list[TensorInfo], outs: list[TensorInfo]
                 ) -> None:
        inputs = [self.values[entry] for entry in node.inputs]
        self.named.update(map(id, inputs))
        start, limits = len(self.builder.nodes), (self.builder.root or self.builder).limits
        call = NodeExport(node.required_op, name, inputs, ins, outs, self.builder)
        if limits is not None:
            limits.check(call.op, inputs, ins, outs)
        try:
            results = _converted(call)
        except NotExpressible as error:
            del self.builder.nodes[start:]
            results = self._unexpressed(call, node, str(error))
        names = output_names(node, name)
        for index in range(node.num_outputs):
            hint = names[index] if index < len(names) else f"{name}/output{index}"
            value = results[index] if index < len(results) else Value(hint)
            if value.array is None and id(value) not in self.named:
                value.hint = hint
            self.named.add(id(value))
            self.values[Entry(node, index)] = value

    def _unexpressed(self, call: NodeExport, node: Node, reason: str) -> list[Value]:
        if self.custom_domain is None or node.required_op.runs_subgraphs:
            self.refusals.append(Refusal(node, reason))
            return [Value(node.name) for _ in range(node.num_outputs)]
        return call.emit_many(call.op.name, call.op.num_visible, *call.inputs,
                              domain=self.custom_domain, **call.op.to_attrs())


def _converted(call: NodeExport) -> list[Value]:
    converter = CONVERTERS.get(call.op.name)
    if converter is None:
        call.refuse("it draws random numbers" if call.op.random
                    else "it runs Python code" if call.op.name == "Custom"
                    else "there is no converter")
    first = OPSETS.get(call.op.name, 0)
    if call.opset < first:
        call.refuse(f"it needs opset {first}")
    results = as_list(converter(call))
    if len(results) < call.op.num_visible:
        call.refuse(f"only the first {len(results)} of its outputs can be expressed")
    return results


def _unique_names(graph: Graph, inputs: Iterable[str]) -> dict[Node, str]:
    """A name of its own for every node; outputs keep theirs, where nodes have the same."""
    taken = dict.fromkeys(inputs, 0)
    outputs = [entry.node for entry in graph.outputs if not entry.node.is_variable]
    names = {node: unique_name(node.name, taken) for node in dict.fromkeys(outputs)}
    taken = dict.fromkeys((node.name for node in graph.variables), 0) | taken
    for node in graph.nodes:
        if not node.is_variable and node not in names:
            names[node] = unique_name(node.name, taken)
    return names


def output_names(node: Node, name: str = "") -> list[str]:
    """Names of the visible outputs in files: that of the node if it has one output.

    `name` is the name of the node in the file, if it has another one.
    """
    op, name = node.required_op, name or node.name
    if op.num_visible == 1:
        return [name]
    return [f"{name}_{output}" for output in op.list_outputs()[:op.num_visible]]


def export_graph(graph: Graph, infos: Sequence[TensorInfo], parameters: Mapping[str, Tensor],
                 opset: int, custom_domain: str | None = None, limits: ExportLimits | None = None
                 ) -> ExportedGraph:
    """Export a whole graph, in inference form; variables without parameters are inputs.

    Raises UnsupportedNodes if nodes cannot be expressed and there is no custom domain for them.
    """
    exported = ExportedGraph(GraphBuilder(opset, limits=limits), custom_domain=custom_domain)
    builder = exported.builder
    for node in graph.variables:
        entry = Entry(node)
        if node.name in parameters:
            exported.values[entry] = builder.parameter(parameters[node.name], node.name)
        else:
            exported.values[entry] = Value(node.name)
            builder.inputs.append((exported.values[entry], infos[graph.eid(entry)]))
    exported.export(graph, infos)
    if exported.refusals:
        raise UnsupportedNodes(exported.refusals, opset)
    return exported


def set_outputs(exported: ExportedGraph, outputs: Iterable[tuple[Entry, str, TensorInfo]]) -> None:
    """Make entries the outputs of the graph, under these names."""
    builder = exported.builder
    produced = {id(value) for node in builder.nodes for value in node.outputs}
    for entry, name, info in outputs:
        value = exported.values[entry]
        if id(value) not in produced:
            value = builder.add("Identity", [value], [name], {})[0]
        produced.discard(id(value))  # an output of its own for every name
        value.hint = name
        builder.outputs.append((value, info))
