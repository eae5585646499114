"""Networks that cannot be bound or run: where, why, and what is known of their shapes by then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..base import MXNetError
from ..context import Context, current_context, resolve
from ..core.config import is_exact
from ..core.shape_semantics import is_np_shape
from ..execution.bind import infer_arrays, requests_by_name, require_unique
from ..execution.pipeline import CompileOptions
from ..graph import Entry, Graph, Node
from ..ops.op import Spec
from ..ops.shape import is_known
from ..passes.infer import Inferred, infer_shape, infer_type
from .facts import facts_of, facts_without_plan
from .schema import ArgumentFacts, BindFacts, FailureFacts, TensorFacts
from .what_if import WhatIf
from .wording import counted, described_node, described_tensor, listed, step_title

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..execution.bind import GradReq
    from ..execution.steps import PlannedProgram
    from ..ops.op import PartialType
    from ..ops.shape import PartialShape
    from ..symbol import Symbol

__all__ = ["described_failure", "facts_of_symbol", "failure_of_bind", "failure_of_run"]

T = TypeVar("T")


def facts_of_symbol(symbol: Symbol, shapes: Mapping[str, Sequence[int]], ctx: Context | None,
                    grad_req: GradReq | None, type_dict: Mapping[str, DTypeLike] | None
                    ) -> tuple[BindFacts, WhatIf | None]:
    """The facts of a network that is not bound, and the network; None if it cannot be bound.

    Parameters
    ----------
    symbol, shapes, ctx, grad_req, type_dict
        As for `Explanation.planned`.
    """
    graph, name, outputs = Graph(symbol.entries), symbol.name or "group", symbol.list_outputs()
    here, requests = resolve(ctx or current_context()), requests_by_name(
        grad_req, [node.name for node in graph.arguments])
    devices, types = dict.fromkeys([node.name for node in graph.variables], here), type_dict or {}
    options = CompileOptions(here, requests, devices, devices, exact=is_exact())
    stage = "bind"
    try:
        require_unique([node.name for node in graph.variables])
        stage = "inference"
        inferred = infer_arrays(graph, shapes, types, "explain")
        stage = "bind"
        facts = facts_of(inferred, options, name, outputs)
    except MXNetError as error:
        known = Inferred(graph, _known_specs(graph, shapes, types))
        facts = facts_without_plan(known, options, name, outputs)
        return replace(facts, failure=failure_of_bind(known, error, stage)), None
    return facts, WhatIf(inferred, options)


def _known_specs(graph: Graph, shapes: Mapping[str, Sequence[int]],
                 types: Mapping[str, DTypeLike]) -> list[Spec]:
    """Shapes and types of all entries, as far as they follow before rules contradict each other."""
    tuples, dtypes = ({name: tuple(shape) for name, shape in shapes.items()},
                      {name: np.dtype(dtype) for name, dtype in types.items()})
    lengths = is_np_shape()
    known_shapes = _before_conflict(graph, lambda part: infer_shape(part, tuples, lengths=lengths))
    known_types = _before_conflict(graph, lambda part: infer_type(part, dtypes))
    # Nothing computes with them; what reads them expects gaps.
    return [None if shape is None else Spec(tuple(max(size, 0) for size in shape), dtype)  # type: ignore[arg-type,misc]
            for shape, dtype in zip(known_shapes, known_types, strict=True)]


def _before_conflict(graph: Graph, infer: Callable[[Graph], Sequence[T | None]]) -> list[T | None]:
    """Facts of entries, from the nodes before the one at which there is a contradiction."""
    count = len(graph.nodes)
    while True:
        part = Graph([Entry(node) for index, node in enumerate(graph.nodes)
                      if index < count or node.is_variable])
        known: list[T | None] = [None] * graph.num_entries
        try:
            facts = infer(part)
        except MXNetError as error:
            node = _named_node(graph.nodes[:count], str(error))
            if not count:
                return known
            count = 0 if node is None else graph.nodes.index(node)
        else:
            for node in part.nodes:
                here, there = (each.output_eids(node) for each in (graph, part))
                known[here.start:here.stop] = facts[there.start:there.stop]
            return known


def _named_node(nodes: Sequence[Node], text: str) -> Node | None:
    """The node that a message names first, as `Node.describe` does or else in quotes."""
    for pattern, shown in ((r"(?<![\w.+-]){}", Node.describe), ("{}", _quoted_name)):
        places = [(place.start(), node) for node in nodes
                  if (place := re.search(pattern.format(re.escape(shown(node))), text))]
        if places:
            return min(places, key=lambda each: each[0])[1]
    return None


def _quoted_name(node: Node) -> str:
    return repr(node.name)


def failure_of_bind(symbol: Inferred, error: Exception, stage: str = "bind") -> FailureFacts:
    """Why a network cannot be bound.

    Parameters
    ----------
    symbol : Inferred
        The graph, and what is known of its entries.
    error : Exception
        The error that binding it raised.
    stage : str
        As `FailureFacts` has it.
    """
    graph, specs = symbol
    unknown = (node for node in graph.nodes for spec in [specs[graph.output_eids(node).start]]
               if spec is None or not is_known(spec.shape))
    node = _named_node(graph.nodes, str(error)) or next(unknown, None)
    return FailureFacts(stage, type(error).__name__, str(error),
                        None if node is None else graph.nodes.index(node), None,
                        [] if node is None else list(_arguments(symbol, node)))


def failure_of_run(program: PlannedProgram, facts: BindFacts, step: int | None, error: Exception
                   ) -> FailureFacts:
    """Why a run of a plan failed.

    Parameters
    ----------
    program : PlannedProgram
        The plan.
    facts : BindFacts
        Its facts.
    step : int, optional
        The step that failed, if one did.
    error : Exception
        What it raised.
    """
    if step is None:
        return FailureFacts("run", type(error).__name__, str(error), None, None, [])
    number = facts.plan.steps[step].node
    names = program.compiled.nodes[step].required_op.list_inputs()
    arguments = [ArgumentFacts(name, source, facts.nodes[source].outputs[output], None)
                 for name, (source, output) in zip(names, facts.nodes[number].inputs,
                                                   strict=False)]
    return FailureFacts("run", type(error).__name__, str(error), number, step, arguments)


def _arguments(symbol: Inferred, node: Node) -> Iterator[ArgumentFacts]:
    """The inputs of a node, and what each would have to be to fit the others."""
    graph, specs = symbol
    if node.op is None:
        return
    eids = graph.input_eids(node)
    shapes, types = ([getattr(specs[eid], name, None) for eid in eids]
                     for name in ("shape", "dtype"))
    for index, (name, entry) in enumerate(zip(node.op.list_inputs(), node.inputs, strict=False)):
        fits = _without(node, "infer_shape", shapes, index), _without(node, "infer_type", types,
                                                                      index)
        yield ArgumentFacts(name, graph.nodes.index(entry.node), _tensor(shapes[index],
                                                                         types[index]),
                            _tensor(fits[0], fits[1] or types[index]))


def _without(node: Node, rule: str, inputs: Sequence[T | None], index: int) -> T | None:
    """An input as the rule of a node infers it from the others; None if it does not."""
    op = node.required_op
    if op.runs_subgraphs or op.like(node) is not None:
        return None
    others = [None if position == index else each for position, each in enumerate(inputs)]
    try:
        fits: T | None = getattr(op, rule)(others, [None] * node.num_outputs)[0][index]
    except MXNetError:
        return None
    return fits


def _tensor(shape: PartialShape, dtype: PartialType) -> TensorFacts | None:
    return None if shape is None else TensorFacts(
        [max(size, 0) for size in shape], "?" if dtype is None else str(np.dtype(dtype)))


def described_failure(facts: BindFacts) -> Iterator[str]:
    """Lines about a failure: where, why, and what fits.

    Parameters
    ----------
    facts : BindFacts
        With a failure.
    """
    failure = facts.failure
    assert failure is not None
    yield f"fails in {failure.stage}: {failure.message}"
    if failure.step is not None:
        yield f"  at {step_title(facts.plan, failure.step)}"
    elif failure.node is not None:
        node = facts.nodes[failure.node]
        yield f"  at {node.name}: {described_node(node)}"
    for each in failure.arguments:
        fits = f"; the others need {described_tensor(each.fits)}" if (
            each.fits is not None and each.fits != each.tensor) else ""
        yield (f"    {each.name} is {facts.nodes[each.node].name}, "
               f"{described_tensor(each.tensor)}{fits}")
    unknown = [facts.nodes[number].name for number in facts.graph
               if None in facts.nodes[number].outputs or any(
                   0 in each.shape for each in facts.nodes[number].outputs if each is not None)]
    if unknown:
        yield (f"  unknown by then: {counted(len(unknown), 'node')} of {len(facts.graph)}: "
               f"{listed(unknown)}")
