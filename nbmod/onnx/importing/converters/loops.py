"""Control flow: If, Loop and Scan as MXNet's cond, while_loop and foreach.

Shapes are fixed when a graph is bound, so the number of iterations of a loop with stacked outputs
must be a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ....ops.param import Shape
from ....symbol.control_flow import cond, foreach, while_loop
from ....symbol.symbol import Symbol
from ..composition import numeric, truth
from ..imported_tensor import BOOL, FLOAT, INT64, ImportedTensor
from ..node_import import NodeImport, imports

if TYPE_CHECKING:
    from onnx import GraphProto

MAX_ITERATIONS = 2 ** 20
Body = Callable[[Sequence[ImportedTensor], Sequence[ImportedTensor]],
                tuple[Sequence[ImportedTensor], Sequence[ImportedTensor]]]


def _symbol(node: NodeImport, tensor: ImportedTensor) -> Symbol:
    return Symbol([node.entry(tensor)])


def _like(symbol: Symbol, tensor: ImportedTensor, shape: Shape | None = None) -> ImportedTensor:
    """A placeholder or a result that carries what `tensor` does."""
    return ImportedTensor(tensor.shape if shape is None else shape, tensor.dtype,
                          entry=symbol.entries[0], carrier=tensor.inner_dtype)


def _listed(value: object) -> list[Symbol]:
    return [value] if isinstance(value, Symbol) else list(value)  # type: ignore[call-overload]


@imports("If")
def branch(node: NodeImport) -> list[ImportedTensor]:
    """One of two graphs."""
    then_graph = node.attribute("then_branch")
    else_graph = node.attribute("else_branch")
    choice = node.data
    if choice.array is not None:
        chosen = then_graph if bool(choice.array.ravel()[0]) else else_graph
        return node.owner.run_subgraph(chosen, [])
    results: list[list[ImportedTensor]] = []

    def run(graph: GraphProto) -> list[Symbol]:
        tensors = [numeric(node, each) if each.dtype == BOOL else node.plain(each)
                   for each in node.owner.run_subgraph(graph, [])]
        results.append(tensors)
        return [_symbol(node, each) for each in tensors]

    condition = numeric(node, choice)
    outputs = _listed(cond(_symbol(node, condition), lambda: run(then_graph),
                           lambda: run(else_graph), name=node.name))
    for one, other in zip(*results, strict=True):
        if one.inner_shape != other.inner_shape or one.inner_dtype != other.inner_dtype:
            node.refuse(f"the branches return {one.shape} and {other.shape}; shapes are fixed")
    return [_like(symbol, each) for symbol, each in zip(outputs, results[0], strict=True)]


def _repeat(node: NodeImport, body: Body, rows: Sequence[ImportedTensor],
            states: Sequence[ImportedTensor], count: int) -> list[ImportedTensor]:
    """The last states, then the stacked outputs of a body that is called for every row."""
    traces: list[Sequence[ImportedTensor]] = []

    def step(data: object, before: object) -> tuple[list[Symbol], list[Symbol]]:
        slices = [_like(symbol, each, (each.shape or ())[1:])
                  for symbol, each in zip(_listed(data), rows, strict=True)]
        held = [_like(symbol, each) for symbol, each in zip(_listed(before), states, strict=True)]
        after, outputs = body(slices, held)
        after = [node.cast(each, old.inner_dtype) if each.dtype != BOOL or old.dtype != BOOL
                 else numeric(node, each) for each, old in zip(after, states, strict=True)]
        outputs = [numeric(node, each) for each in outputs]
        _require_shapes(node, states, after)
        traces.append(outputs)
        anchor = _anchor(node, [*slices, *held])
        return ([_symbol(node, each) for each in outputs],
                [_symbol(node, _anchored(node, each, anchor)) for each in after])

    outputs, last = foreach(step, [_symbol(node, each) for each in rows],
                            [_symbol(node, each) for each in states], name=node.name)
    results = [_like(symbol, each) for symbol, each in zip(_listed(last), states, strict=True)]
    for symbol, each in zip(_listed(outputs), traces[0], strict=True):
        stacked = _like(symbol, each, (count, *(each.inner_shape or ())))
        results.append(node.reshape(stacked, (count,)) if each.shape == () else stacked)
    return results


def _anchor(node: NodeImport, tensors: Sequence[ImportedTensor]) -> ImportedTensor | None:
    """A zero that depends on every argument of a body: MXNet wants all of them used."""
    total = None
    for tensor in tensors:
        part = node.emit("slice", numeric(node, tensor), begin=(0,) * max(
            len(tensor.shape or ()), 1), end=(1,) * max(len(tensor.shape or ()), 1))
        part = node.cast(node.emit("zeros_like", node.reshape(part, (1,))), FLOAT)
        total = part if total is None else node.emit("elemwise_add", total, part)
    return total


def _anchored(node: NodeImport, tensor: ImportedTensor, anchor: ImportedTensor | None
              ) -> ImportedTensor:
    if anchor is None:
        return tensor
    zero = node.cast(anchor, tensor.inner_dtype)
    return replace(node.emit("broadcast_add", tensor, zero), shape=tensor.shape)


def _require_shapes(node: NodeImport, before: Sequence[ImportedTensor],
                    after: Sequence[ImportedTensor]) -> None:
    for old, new in zip(before, after, strict=True):
        if old.inner_shape != new.inner_shape:
            node.refuse(f"a state changes from shape {old.shape} to {new.shape}; shapes are fixed")


@imports("Scan")
def scan(node: NodeImport) -> list[ImportedTensor]:
    """A graph that is called for every slice of tensors."""
    if node.opset < 9:
        node.refuse("Scan of opset 8 is not supported")
    graph, count = node.attribute("body"), int(node.attribute("num_scan_inputs"))
    tensors = [node.input(i) for i in range(len(node.inputs))]
    if not 0 < count <= len(tensors):
        node.refuse(f"num_scan_inputs is {count} for {len(tensors)} inputs")
    states, data = tensors[:len(tensors) - count], tensors[len(tensors) - count:]
    outputs = len(graph.output) - len(states)
    axes = node.integers("scan_input_axes") or (0,) * count
    backward = node.integers("scan_input_directions") or (0,) * count
    rows = [_first_axis(node, tensor, axis, back)
            for tensor, axis, back in zip(data, axes, backward, strict=True)]
    steps = node.static(rows[0])[0]

    def body(slices: Sequence[ImportedTensor], held: Sequence[ImportedTensor]
             ) -> tuple[Sequence[ImportedTensor], Sequence[ImportedTensor]]:
        results = node.owner.run_subgraph(graph, [*held, *slices])
        return results[:len(states)], results[len(states):]

    results = _repeat(node, body, rows, [_carried(node, each) for each in states], steps)
    out_axes = node.integers("scan_output_axes") or (0,) * outputs
    out_backward = node.integers("scan_output_directions") or (0,) * outputs
    return results[:len(states)] + [
        _stacked_at(node, tensor, axis, back) for tensor, axis, back
        in zip(results[len(states):], out_axes, out_backward, strict=True)]


def _carried(node: NodeImport, tensor: ImportedTensor) -> ImportedTensor:
    """A tensor that arithmetic is possible with."""
    return truth(numeric(node, tensor)) if tensor.dtype == BOOL else node.plain(tensor)


def _first_axis(node: NodeImport, tensor: ImportedTensor, axis: int, back: int) -> ImportedTensor:
    axis = node.normal_axis(axis, tensor)
    order = [axis, *[i for i in range(node.rank(tensor)) if i != axis]]
    moved = node.transpose(_carried(node, tensor), order)
    return node.emit("reverse", moved, axis=0).typed(tensor.dtype) if back else moved


def _stacked_at(node: NodeImport, tensor: ImportedTensor, axis: int, back: int) -> ImportedTensor:
    if back:
        tensor = node.emit("reverse", tensor, axis=0).typed(tensor.dtype)
    axis = node.normal_axis(axis, tensor)
    rank = node.rank(tensor)
    return node.transpose(tensor, [*range(1, axis + 1), 0, *range(axis + 1, rank)])


@imports("Loop")
def loop(node: NodeImport) -> list[ImportedTensor]:
    """A graph that is called a number of times, or while a condition holds."""
    graph = node.attribute("body")
    limit, start = node.constant(0), node.optional(1)
    if limit is None:
        node.refuse("a loop without a constant number of iterations has no counterpart")
    count = int(limit.ravel()[0])
    if not 0 < count <= MAX_ITERATIONS:
        node.refuse(f"{count} iterations; only 1 to {MAX_ITERATIONS} have a counterpart")
    states = [_carried(node, node.input(i)) for i in range(2, len(node.inputs))]
    stacks = len(graph.output) > 1 + len(states)
    if not _always(graph) or (start is not None and start.array is None and not stacks):
        return _while(node, graph, states, count)
    runs = node.constant(1)
    if runs is not None and not runs.all():
        node.refuse("a loop that never runs has no counterpart")
    rows = [node.new_constant(np.arange(count), INT64)]

    def body(slices: Sequence[ImportedTensor], held: Sequence[ImportedTensor]
             ) -> tuple[Sequence[ImportedTensor], Sequence[ImportedTensor]]:
        results = node.owner.run_subgraph(graph, [slices[0], node.new_constant(True, BOOL), *held])
        return results[1:1 + len(states)], results[1 + len(states):]

    return _repeat(node, body, rows, states, count)


def _always(graph: GraphProto) -> bool:
    """Whether the condition that a body returns is the one it gets, or a constant."""
    name, condition = graph.output[0].name, graph.input[1].name
    makers = {output: node for node in graph.node for output in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if name in makers and makers[name].op_type == "Constant":
        value = next((each.t for each in makers[name].attribute if each.name == "value"), None)
        return value is not None and bool(any(value.raw_data) or any(value.int32_data))
    return name == condition


def _while(node: NodeImport, graph: GraphProto, states: Sequence[ImportedTensor], count: int
           ) -> list[ImportedTensor]:
    """A loop that may end earlier; without stacked outputs, whose length would not be known."""
    if len(graph.output) > 1 + len(states):
        node.refuse("stacked outputs of a loop that may end early have no static shape")
    start = node.optional(1) or node.new_constant(True, BOOL)
    variables = [node.cast(node.new_constant(np.zeros(1), FLOAT), FLOAT),
                 _carried(node, start), *states]

    def condition(*held: Symbol) -> Symbol:
        anchor = _anchor(node, [_like(symbol, each)
                                for symbol, each in zip(held, variables, strict=True)])
        return _symbol(node, _anchored(node, _like(held[1], variables[1]), anchor))

    def step(*held: Symbol) -> tuple[list[Symbol], list[Symbol]]:
        tensors = [_like(symbol, each) for symbol, each in zip(held, variables, strict=True)]
        index = node.cast(tensors[0], INT64).shaped(())
        results = node.owner.run_subgraph(graph, [index, *tensors[1:]])
        following = node.emit("_plus_scalar", tensors[0], scalar=1)
        after = [following, *[numeric(node, each) for each in results]]
        after = [node.cast(each, old.inner_dtype)
                 for each, old in zip(after, variables, strict=True)]
        _require_shapes(node, variables, after)
        anchor = _anchor(node, tensors)
        return [], [_symbol(node, _anchored(node, each, anchor)) for each in after]

    _, last = while_loop(condition, step, [_symbol(node, each) for each in variables],
                         max_iterations=count, name=node.name)
    return [_like(symbol, each) for symbol, each in zip(_listed(last), variables, strict=True)][2:]
