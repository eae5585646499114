"""Loops and branches: foreach as Scan, while_loop as Loop, cond as If.

Bodies are exported as graphs of their own; what they read from outside is read by name, as ONNX's
bodies may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....graph import Entry
from ....ops.control_flow.control_base import row_shape
from ....ops.op import Spec
from ....ops.subgraph import Body
from ..converter import NodeExport, converts
from ..export_graph import ExportedGraph, set_outputs
from ..inference_form import inference_form
from ..onnx_graph import GraphBuilder, Value
from ..tensor_info import TensorInfo, infer_graph_specs

TRUTH, COUNT = TensorInfo((), np.dtype(np.bool_)), TensorInfo((), np.dtype(np.int64))


class BodyExport:
    """The export of one body: its graph, and the values of its variables."""

    def __init__(self, node: NodeExport, index: int, builder: GraphBuilder):
        self.node, self.index, self.builder = node, index, builder
        self.body: Body = node.op.bodies[index]
        self.values: dict[Entry, Value] = {}
        self.infos: dict[Entry, TensorInfo] = {}
        for entry, source in node.op.free(index).items():
            self.give(entry, node.inputs[source], node.ins[source])

    def give(self, entry: Entry, value: Value, info: TensorInfo) -> None:
        """The value of a variable."""
        self.node.static(info)
        self.values[entry], self.infos[entry] = value, info

    def take(self, entry: Entry, info: TensorInfo) -> None:
        """A variable that is an input of the body."""
        value = Value(entry.node.name)
        self.builder.inputs.append((value, info))
        self.give(entry, value, info)

    def run(self) -> list[tuple[Value, TensorInfo]]:
        """Export the nodes; values of the outputs."""
        graph = inference_form(self.body.forward)
        known = {entry: Spec(info.shape, info.dtype) for entry, info in self.infos.items()}
        infos = [TensorInfo(*spec) for spec in infer_graph_specs(graph, known)]
        exported = ExportedGraph(self.builder, dict(self.values))
        exported.export(graph, infos)
        if exported.refusals:
            name = self.node.op.body_names[self.index]
            self.node.refuse(f"its {name} has nodes that cannot be expressed: "
                             + "; ".join(map(str, exported.refusals)))
        return [(exported.values[entry], infos[graph.eid(entry)]) for entry in graph.outputs]


def _truth(node: NodeExport, builder: GraphBuilder, results: Sequence[tuple[Value, TensorInfo]]
           ) -> Value:
    """A condition of one element as a scalar."""
    inside = replace(node, graph=builder)
    (value, info), = results
    return inside.emit("Reshape", inside.cast_from(value, info.dtype, np.bool_),
                       np.zeros(0, np.int64))


def _finish(builder: GraphBuilder, outputs: Sequence[tuple[Value, TensorInfo]], name: str) -> None:
    """Make values the outputs of a body, under names of their own."""
    entries = {Entry(None, i): value  # type: ignore[arg-type]  # keys alone
               for i, (value, _) in enumerate(outputs)}
    set_outputs(ExportedGraph(builder, entries), [
        (entry, f"{name}/out{entry.index}", info)
        for entry, (_, info) in zip(entries, outputs, strict=True)])


def _states(node: NodeExport, body: BodyExport) -> list[Value]:
    """The states as inputs of a body; their first values."""
    sources, entries = node.op._states
    for source, entry in zip(sources, entries, strict=True):
        body.take(entry, node.ins[source])
    return [node.inputs[source] for source in sources]


def _next(node: NodeExport, results: Sequence[tuple[Value, TensorInfo]]
          ) -> list[tuple[Value, TensorInfo]]:
    """Results of a body in ONNX's order: next states, then what is stacked."""
    count = node.op.num_out_data
    return [*results[count:], *results[:count]]


@converts("_foreach")
def _foreach(node: NodeExport) -> list[Value]:
    op = node.op
    builder = node.graph.body()
    body = BodyExport(node, 0, builder)
    first = _states(node, body)
    sources, entries = op._data
    for source, entry in zip(sources, entries, strict=True):
        info = node.ins[source]
        rows = TensorInfo(info.shape[1:], info.dtype)
        body.take(entry, rows)
        if rows.shape != row_shape(info.shape):  # a row of a vector has one element
            inside, row = replace(node, graph=builder), body.values[entry]
            body.give(entry, inside.reshape_to(row, 1), TensorInfo((1,), info.dtype))
    _finish(builder, _next(node, body.run()), node.name)
    results = node.emit_many("Scan", op.num_outputs, *first,
                             *[node.inputs[source] for source in sources], body=builder,
                             num_scan_inputs=len(sources))
    return [*results[len(first):], *results[:len(first)]]


@converts("_while_loop")
def _while_loop(node: NodeExport) -> list[Value]:
    op = node.op
    outside = BodyExport(node, 0, node.graph)
    start = _truth(node, node.graph, outside.run())
    builder = node.graph.body()
    builder.inputs += [(Value(f"{node.name}/iteration"), COUNT), (Value(f"{node.name}/go"), TRUTH)]
    body = BodyExport(node, 1, builder)
    first = _states(node, body)
    body_results = body.run()
    again = BodyExport(node, 0, builder)
    _replace_states(node, again, body_results[op.num_out_data:])
    go = _truth(node, builder, again.run())
    _finish(builder, [(go, TRUTH), *_next(node, body_results)], node.name)
    results = node.emit_many("Loop", op.num_outputs, node.scalar(op.max_iterations, np.int64),
                             start, *first, body=builder)
    stacked = [_padded(node, value, info) for value, info in zip(
        results[len(first):], node.outs, strict=False)]
    return [*stacked, *results[:len(first)]]


def _replace_states(node: NodeExport, condition: BodyExport,
                    states: Sequence[tuple[Value, TensorInfo]]) -> None:
    """The condition of the next iteration reads the new states."""
    new = dict(zip(node.op._states[0], states, strict=True))
    for entry, source in node.op.free(0).items():
        if source in new:
            condition.give(entry, *new[source])


def _padded(node: NodeExport, value: Value, info: TensorInfo) -> Value:
    """Rows of the iterations, with zeros for those that did not happen."""
    missing = node.emit("Sub", [info.shape[0]], node.emit("Shape", value, start=0, end=1))
    pads = [node.value([0] * info.ndim), missing]
    if info.ndim > 1:
        pads.append(node.value([0] * (info.ndim - 1)))
    return node.emit("Pad", value, node.emit("Concat", *pads, axis=0))


@converts("_cond")
def _cond(node: NodeExport) -> list[Value]:
    truth = _truth(node, node.graph, BodyExport(node, 0, node.graph).run())
    branches = [node.graph.body(), node.graph.body()]
    for index, builder in enumerate(branches, 1):
        _finish(builder, BodyExport(node, index, builder).run(), f"{node.name}/branch{index}")
    return node.emit_many("If", node.op.num_outputs, truth, then_branch=branches[0],
                          else_branch=branches[1])
