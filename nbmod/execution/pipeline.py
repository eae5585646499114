"""The recipe: from a symbol's graph to a compiled graph, one line for each pass.

`compile_graph` gives a `CompiledGraph`: everything that is decided when a symbol is bound, and no
array.  Each of its lines makes a value of the one before, so a reader can stop after any of them
and print that.  A graph that a node runs, such as the body of a loop, is compiled to the same value
(`compile_subgraph`), which ends in the same line (`_schedule`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..core.config import CONFIG
from ..core.reprs import safe_repr
from ..core.scope import scoped
from ..graph import Entry, Graph, Node
from ..ops.device import CPU, device_of
from ..ops.dispatch import Choice
from ..ops.internal import CrossDeviceCopy
from ..ops.op import Backward, Spec
from ..ops.subgraph import SubgraphRun
from ..passes.infer import Inferred, infer_specs, require_static
from ..passes.memory.plan import ALIGNMENT, MemoryPlan, plan_memory
from ..passes.memory.plan_step import GUARD, NONE, PLANNER_PASSES, PlanStep
from ..passes.memory.verify import overwritten
from ..passes.optimize.fuse_elementwise import FusedGraph, fuse_elementwise
from ..passes.optimize.pipelines import optimized
from ..passes.place import place, with_copies
from ..passes.recompute import mirror
from ..passes.remarks import withheld
from ..passes.rewrite import Rewritten, carry, unchanged
from ..passes.subgraph_parts import needed_nodes, part_specs
from ..passes.switches import (
    PassChange,
    disabled_passes,
    is_enabled,
    observed,
    observers,
    without_passes,
)
from ..passes.training import stores_last, with_gradients, with_trained_bodies, write_gradients

if TYPE_CHECKING:
    from ..passes.translation_validation import Validation

__all__ = ["CompileOptions", "CompiledGraph", "CompiledSubgraph", "PlacedGraph", "compile_graph",
           "validating", "validation_of"]

_validates: ContextVar[bool] = ContextVar("validates", default=False)


@dataclass(frozen=True)
class CompileOptions:
    """Options on which the result depends, beside the graph, its shapes and types."""

    ctx: Context
    requests: Mapping[str, str]
    """For each argument 'write', 'add' or 'null'."""
    devices: Mapping[str, Context]
    """Where the arrays of variables are."""
    gradient_devices: Mapping[str, Context]
    groups: Mapping[str, Context] = field(default_factory=dict)
    """Context of nodes by the attribute ``ctx_group``."""
    exact: bool = False
    """Only optimizations that keep all results bitwise."""
    optimize: bool = True
    """False: every node of the symbol runs by itself."""
    mirror: bool = field(default_factory=lambda: CONFIG.mirror)
    """Whether the backward pass computes cheap nodes again."""
    disabled: frozenset[str] = field(default_factory=disabled_passes)
    """Passes that are switched off."""
    shared: frozenset[str] = frozenset()
    """Arguments whose gradients are stored last: in memory that other arrays have, too."""

    @property
    def trained(self) -> list[str]:
        """Arguments with gradients."""
        return [name for name, request in self.requests.items() if request != "null"]


@dataclass(frozen=True)
class PlacedGraph:
    """A graph, its facts and its order of execution."""

    graph: Graph
    specs: list[Spec]
    """Shape and type of every entry."""
    devices: list[Context]
    """Context of every entry."""
    nodes: list[Node]
    """In order of execution; constants, which are computed apart, are not among them."""
    num_forward: int
    """The first nodes are the forward pass."""
    external: Collection[int]
    """Entries with memory that is not planned: variables, gradients, constants."""
    outputs: Collection[int]
    """Entries that are read from outside."""
    accumulated: Collection[int] = ()
    """Entries that are added to what is in their arrays."""
    heads: Sequence[Node] = ()
    """Variables for the gradients of the outputs."""
    gradients: Mapping[int, str] = field(default_factory=dict)
    """Entry -> the argument whose gradient it is."""
    simplified: Rewritten | None = None
    fused: FusedGraph | None = None

    def context_of(self, node: Node) -> Context:
        """Where a node runs."""
        return self.devices[self.graph.output_eids(node)[0]]

    def input_specs(self, node: Node) -> list[Spec]:
        return [self.specs[eid] for eid in self.graph.input_eids(node)]

    def output_specs(self, node: Node) -> list[Spec]:
        return [self.specs[eid] for eid in self.graph.output_eids(node)]


@dataclass(frozen=True, repr=False, kw_only=True)
class CompiledGraph(PlacedGraph):
    """A graph with its memory plan."""

    subgraphs: Mapping[int, Sequence[CompiledSubgraph]]
    """By node, the subgraphs that it runs."""
    choices: list[Choice | None]
    """For every node its implementation; None if it runs subgraphs, or copies between devices."""
    workspaces: list[list[Spec]]
    """For every node its temporary arrays."""
    spaces: list[Context]
    """The contexts whose memory is planned, by their number in the plan."""
    plan_steps: list[PlanStep]
    plan: MemoryPlan

    @safe_repr
    def __repr__(self) -> str:
        return (f"<CompiledGraph: {self.num_forward} steps forward, "
                f"{len(self.nodes) - self.num_forward} backward, {self.plan.total_bytes:,} bytes>")

    @cached_property
    def sizes(self) -> list[int]:
        """Bytes of every entry."""
        return [spec.nbytes for spec in self.specs]

    @property
    def notes(self) -> list[str]:
        """The changes that passes have made, one line each."""
        return [*(self.simplified.notes if self.simplified else ()),
                *(self.fused.notes if self.fused else ())]

    @property
    def constants(self) -> list[list[Node]]:
        """Groups of nodes that run only when what they read has changed."""
        return self.simplified.groups if self.simplified else []

    @cached_property
    def is_simplified(self) -> bool:
        """Whether it computes what the symbol does only in inference."""
        return self.simplified is not None and bool(self.simplified.notes or self.constants)

    @cached_property
    def overwritten(self) -> set[int]:
        """Entries that the backward pass reads of the forward pass and does not keep."""
        return overwritten(self.plan_steps, self.sizes, self.plan, self.num_forward)

    def origin(self, node: Node) -> Node:
        """The node of the symbol on whose behalf `node` is there."""
        node = node.source or node
        for rewritten in (self.fused, self.simplified):
            if rewritten is not None:
                node = rewritten.origin.get(node, node)
        return node


class CompiledSubgraph(NamedTuple):
    """A part of a graph that a node runs, compiled to run in one block of that node's workspace.

    First in the block is what its plan needs, then an array for every entry that the node gives it
    or takes from it, apart from those that the node lends.
    """

    part: SubgraphRun
    compiled: CompiledGraph
    offsets: dict[int, int]
    """Entry -> where in the block its array is."""
    nbytes: int


@dataclass(frozen=True)
class JointGraph:
    """The forward pass and gradients in one graph, which passes rewrite."""

    graph: Graph
    simplified: Rewritten
    """The forward pass by itself."""
    num_outputs: int
    """The first outputs are those of the symbol, the others gradients."""
    heads: list[Node]
    trained: list[str]
    """The arguments that these are the gradients of."""
    contexts: Mapping[int, Context] = field(default_factory=dict)
    """Where a node runs, by its `id`; empty before that is decided."""

    @cached_property
    def specs(self) -> list[Spec]:
        """The spec of every entry: those of the symbol decide, heads and gradients follow."""
        symbol, specs = self.simplified.first
        if self.graph is symbol:
            return list(specs)
        known = {Entry(head): specs[symbol.eid(entry)]
                 for head, entry in zip(self.heads, symbol.outputs, strict=False)}
        return infer_specs(self.graph, known,
                           carry(specs, symbol, self.graph, self.simplified.origin))

    @cached_property
    def devices(self) -> list[Context]:
        """The context of every entry."""
        return [self.contexts[id(node)] for node in self.graph.nodes
                for _ in range(node.num_outputs)]

    def rewritten(self, name: str, graph: Graph, contexts: Mapping[int, Context] | None = None
                  ) -> JointGraph:
        """With the graph that the pass `name` has made, which observers see."""
        after = replace(self, graph=graph, contexts=contexts or self.contexts)
        for observer in observers() if graph is not self.graph else ():
            observer(PassChange(name, Inferred(self.graph, self.specs),
                                Inferred(graph, after.specs)))
        return after


def compile_graph(symbol: Inferred, options: CompileOptions) -> CompiledGraph:
    """Compile a symbol's graph, whose shapes and types are known; MXNetError for a node without a
    gradient, or without a kernel on its device."""
    _require_memory(symbol, options)
    with without_passes(*options.disabled):
        with observing(symbol, options):
            simplified = _simplify(symbol, options)
            joint = _differentiate(simplified, options)
            joint = _mirror(joint, options)
            joint = _place(joint, options)
            joint = _write_gradients(joint, options)
            fused = _fuse_elementwise(joint, options)
        placed = _order(joint, fused, options)
        _require_kernels(placed, [node for node in fused.graph.nodes if not node.is_variable])
        return _schedule(placed, options.ctx)


# -- the passes, as they apply to a symbol ---------------------------------------------------------


def _require_memory(symbol: Inferred, options: CompileOptions) -> None:
    """OutOfMemory for a result that the CPU has no memory for, before its kernel is planned."""
    for node in symbol.graph.nodes if not options.ctx.is_gpu else ():
        if node.op is not None and not node.op.view:
            for eid in symbol.graph.output_eids(node):
                CPU.require_memory(symbol.specs[eid])


def _simplify(symbol: Inferred, options: CompileOptions) -> Rewritten:
    """Rewrite the symbol's graph to the form that is fastest on its device, if it is one device."""
    if not options.optimize:
        return unchanged(*symbol)
    return optimized(*symbol, options.trained, options.exact, options.ctx.device_type == "cpu",
                     bool(options.groups))


def _differentiate(simplified: Rewritten, options: CompileOptions) -> JointGraph:
    """Forward and gradients in one graph."""
    graph, trained = simplified.graph, set(options.trained)
    joint = JointGraph(graph, simplified, len(graph.outputs), [], [])
    if not trained:
        return joint
    has_bodies = any(node.runs_subgraphs for node in graph.nodes)
    forward = with_trained_bodies(graph, options.mirror) if has_bodies else graph
    wrt = [node for node in forward.variables if node.name in trained]
    graph, heads = with_gradients(forward, wrt)
    joint = replace(joint, heads=heads, trained=[node.name for node in wrt])
    return joint.rewritten("with_gradients", graph)


def _mirror(joint: JointGraph, options: CompileOptions) -> JointGraph:
    """The graph in which nodes that are computed again are twice."""
    return joint.rewritten("mirror", mirror(joint.graph, joint.num_outputs, options.mirror))


def _place(joint: JointGraph, options: CompileOptions) -> JointGraph:
    """The graph with copies between devices, and the context of every node."""
    if options.groups:
        return _place_groups(joint, options)
    return replace(joint, contexts=dict.fromkeys(map(id, joint.graph.nodes), options.ctx))


def _place_groups(joint: JointGraph, options: CompileOptions) -> JointGraph:
    graph = joint.graph
    known = {id(node): options.devices[node.name] for node in graph.variables
             if node.name in options.devices and node not in joint.heads}
    known |= {id(entry.node): options.gradient_devices[name] for name, entry
              in zip(joint.trained, graph.outputs[joint.num_outputs:], strict=True)}
    contexts = place(graph, options.groups, known, options.ctx)
    return joint.rewritten("place", *with_copies(graph, contexts))


def _write_gradients(joint: JointGraph, options: CompileOptions) -> JointGraph:
    """The graph whose gradients are computed in the user's arrays."""
    if not is_enabled("write_gradients"):
        return joint
    requests = [options.requests[name] for name in joint.trained]
    return joint.rewritten("write_gradients", write_gradients(
        joint.graph, requests, [name in options.shared for name in joint.trained]))


def _fuse_elementwise(joint: JointGraph, options: CompileOptions) -> FusedGraph:
    """The graph with one node for each chain of elementwise nodes."""
    graph, specs = joint.graph, joint.specs
    if not (options.optimize and is_enabled("fuse_elementwise")):
        return FusedGraph(graph, list(range(graph.num_entries)), {}, [])
    hoisted = [node for group in joint.simplified.groups for node in group]
    fused = fuse_elementwise(graph, specs, joint.devices, joint.num_outputs, hoisted,
                             options.exact)
    for observer in observers():
        observer(PassChange("fuse_elementwise", Inferred(graph, specs),
                            Inferred(fused.graph, fused.facts(specs)), facts=fused.facts))
    return fused


def _order(joint: JointGraph, fused: FusedGraph, options: CompileOptions) -> PlacedGraph:
    """The nodes that run, in order, and entries that are arrays of users, constants or heads."""
    graph = fused.graph
    gradients = dict(zip(graph.output_ids[joint.num_outputs:], joint.trained, strict=True))
    hoisted = {id(node) for group in joint.simplified.groups for node in group}
    nodes = stores_last(
        [node for node in graph.nodes if not node.is_variable and id(node) not in hoisted],
        joint.graph, {new.node: old.node for new, old, name in zip(
            graph.outputs[joint.num_outputs:], joint.graph.outputs[joint.num_outputs:],
            joint.trained, strict=True) if name in options.shared})
    last = max(graph.output_ids[:joint.num_outputs], default=-1)
    # Constants are the results of hoisted nodes that others read.
    read = {eid for node in nodes for eid in graph.input_eids(node)}
    external = {*gradients, *(eid for node in graph.nodes for eid in graph.output_eids(node)
                              if node.is_variable or (id(node) in hoisted and eid in read))}
    return PlacedGraph(
        graph, fused.facts(joint.specs), fused.facts(joint.devices), nodes,
        sum(graph.output_eids(node).start <= last for node in nodes), external, graph.output_ids,
        {eid for eid, name in gradients.items() if options.requests[name] == "add"},
        joint.heads, gradients, joint.simplified, fused)


# -- who sees the passes ---------------------------------------------------------------------------


def validating() -> AbstractContextManager[None]:
    """A block in which every pass of networks that are bound is validated, as with NBMOD_CHECK=3.

    MXNetError names the first pass that changes a result (see `passes.translation_validation`).
    """
    return scoped(_validates, True)


def validation_of(symbol: Inferred, trained: Sequence[str]) -> Validation | None:
    """The observer of the passes of a network; None unless that is asked for."""
    if CONFIG.check < 3 and not _validates.get():
        return None
    from ..passes.translation_validation import Validation

    return Validation(symbol, trained)


@contextmanager
def observing(symbol: Inferred, options: CompileOptions) -> Iterator[None]:
    """A block in which the passes of a network are validated, if that is on."""
    validation = validation_of(symbol, options.trained) if options.optimize else None
    with observed(*[validation.compare] if validation else []):
        yield
    if validation and CONFIG.check > 2:
        validation.report()


# -- subgraphs -------------------------------------------------------------------------------------


@withheld()     # remarks are about the entries of the graph that is bound
def compile_subgraph(part: SubgraphRun, ctx: Context) -> CompiledSubgraph:
    """Compile a part of a graph that a node on `ctx` runs: from its feeds to its fetches."""
    graph = part.body.graph
    require_static(graph)
    nodes = needed_nodes(part.fetches, {*part.feeds, *part.shared} - {*part.fetches}, graph.nodes)
    read = {entry for node in nodes for entry in node.inputs}
    external = {entry: graph.eid(entry) for entry in (*part.feeds, *part.shared, *part.fetches)
                if entry in read or entry in part.fetches}
    specs = part_specs(part)
    placed = PlacedGraph(graph, specs, [ctx] * graph.num_entries, nodes, len(nodes),
                         {*external.values()}, [graph.eid(entry) for entry in part.fetches],
                         {graph.eid(entry) for entry in part.accumulated})
    _require_kernels(placed, nodes)
    compiled = _schedule(placed, ctx)
    offsets, end = {}, compiled.plan.arena.get(0, 0)
    for entry, eid in external.items():
        if entry not in part.shared:
            offsets[eid] = end
            end += -(-compiled.sizes[eid] // ALIGNMENT) * ALIGNMENT
    return CompiledSubgraph(part, compiled, offsets, end)


# -- from nodes to a memory plan -------------------------------------------------------------------


def _schedule(placed: PlacedGraph, ctx: Context) -> CompiledGraph:
    """Subgraphs, implementations, workspaces and the memory plan."""
    live = _live(placed)
    spaces = list(dict.fromkeys([ctx, *placed.devices]))
    subgraphs = {index: _subgraphs(placed, node, live) for index, node in enumerate(placed.nodes)
                 if node.required_op.runs_subgraphs}
    choices = [None if index in subgraphs else _choose(placed, node)
               for index, node in enumerate(placed.nodes)]
    workspaces = [
        [Spec((body.nbytes,), np.dtype(np.uint8)) for body in subgraphs.get(index, ())]
        if choice is None else choice.workspace for index, choice in enumerate(choices)]
    off = [name for name in PLANNER_PASSES if not is_enabled(name)]
    steps = [_plan_step(placed, node, live, workspace, spaces.index(placed.context_of(node)))
             .without(off) for node, workspace in zip(placed.nodes, workspaces, strict=True)]
    # Outputs that no variable holds are kept.
    plan = plan_memory(steps, [spec.nbytes for spec in placed.specs], placed.external,
                       {*placed.outputs} - {*placed.external}, "reuse_memory" not in off)
    return CompiledGraph(**vars(placed), subgraphs=subgraphs, choices=choices,
                         workspaces=workspaces, spaces=spaces, plan_steps=steps, plan=plan)


def _subgraphs(placed: PlacedGraph, node: Node, live: Collection[int]) -> list[CompiledSubgraph]:
    """The subgraphs that a node runs, compiled."""
    requests = [eid in live for eid in placed.graph.output_eids(node)]
    return [compile_subgraph(part, placed.context_of(node))
            for part in node.required_op.subgraph_parts(placed.input_specs(node), requests)]


def _choose(placed: PlacedGraph, node: Node) -> Choice | None:
    """The implementation of a node."""
    ins, outs = placed.input_specs(node), placed.output_specs(node)
    if isinstance(node.op, CrossDeviceCopy):
        return None
    return device_of(placed.context_of(node)).choose(node.required_op, ins, outs)


def _require_kernels(placed: PlacedGraph, nodes: Iterable[Node]) -> None:
    """One MXNetError for all nodes that their device cannot execute."""
    missing = [node for node in nodes if not (
        node.required_op.runs_subgraphs or isinstance(node.op, CrossDeviceCopy)
        or device_of(placed.context_of(node)).supports(node.required_op))]
    if missing:
        raise _without_kernels(placed.context_of(missing[0]), [
            node for node in missing if placed.context_of(node) == placed.context_of(missing[0])])


def _without_kernels(ctx: Context, missing: Sequence[Node]) -> MXNetError:
    listed = ", ".join(node.describe() for node in missing[:20])
    more = f" and {len(missing) - 20} more" if len(missing) > 20 else ""
    return MXNetError(f"bind: {ctx} has no kernels yet for {listed}{more}; bind to "
                      "mx.cpu(), or put these nodes in a ctx_group on mx.cpu()")


def _live(placed: PlacedGraph) -> set[int]:
    """Entries that have to be computed; the first output of a forward node always is."""
    read = {eid for node in placed.nodes for eid in placed.graph.input_eids(node)}
    first = {placed.graph.output_eids(node)[0] for node in placed.nodes
             if not isinstance(node.op, Backward)}
    return read.union(first, placed.outputs, placed.external)


def _plan_step(placed: PlacedGraph, node: Node, live: Collection[int], workspace: Sequence[Spec],
               space: int) -> PlanStep:
    """A node as the planner sees it: integers only."""
    op, specs = node.required_op, (placed.input_specs(node), placed.output_specs(node))
    ins, outs = placed.graph.input_eids(node), placed.graph.output_eids(node)
    inputs, outputs = op.list_inputs(), op.list_outputs()
    inplace = tuple([(inputs.index(i), outputs.index(o)) for i, o in op.inplace
                     if i in inputs and o in outputs])
    guard = GUARD if CONFIG.check > 1 else 0
    step = PlanStep(ins, tuple([eid if eid in live else NONE for eid in outs]), inplace,
                    tuple([spec.nbytes + guard for spec in workspace]), view=op.view,
                    accumulates=op.accumulates, sums=op.name == "_grad_add", space=space)
    # What is concatenated or sliced, and tensors whose rows need not be adjacent.
    if joined := op.concat_offsets(*specs):
        size = specs[1][0].dtype.itemsize
        step = step._replace(rows=joined.number,
                             concat_offsets=tuple([size * at for at in joined.offsets]))
    if cut := op.split_offsets(*specs):
        size = specs[0][0].dtype.itemsize
        step = step._replace(rows=cut.number,
                             split_offsets=tuple([size * at for at in cut.offsets]))
    if (names := op.strided()) and placed.context_of(node).device_type == "cpu":
        named = zip((*inputs, *outputs), (*ins, *outs), strict=True)
        step = step._replace(strided=tuple([eid for name, eid in named if name in names]))
    return step
