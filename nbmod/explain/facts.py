"""Facts from a compiled graph, and from what passes told while it was compiled.

`facts_of` compiles a network once more, without arrays: compilation depends on nothing but the
graph, its specs, the options and the switches of the passes, so the plan is the one that was bound
(`_require_same` checks that).  Binding itself records nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass

from .. import graph as graphs
from ..base import MXNetError
from ..execution.cost_model import costs_of
from ..execution.debug import entry_names
from ..execution.pipeline import CompiledGraph, CompileOptions, compile_graph
from ..graph import Graph
from ..ops import dispatch
from ..ops.op import Op, Spec
from ..ops.shape import is_known
from ..passes import remarks
from ..passes.infer import Inferred
from ..passes.memory.plan import ALIGNMENT, MemoryPlan
from ..passes.memory.plan_step import NONE, AliasedRows
from ..passes.provenance import origins
from ..passes.switches import PASSES, PassChange, observed
from .schema import (
    BindFacts,
    CandidateFacts,
    EntryFacts,
    GraphNodeFacts,
    ImplementationFacts,
    Json,
    Keeper,
    MemoryFacts,
    NetworkFacts,
    PassFacts,
    PlanFacts,
    RemarkFacts,
    Replaced,
    StepFacts,
    StorageFacts,
    TensorFacts,
)

__all__ = ["facts_of", "facts_without_plan", "plan_facts"]


def facts_of(symbol: Inferred, options: CompileOptions, name: str, outputs: Sequence[str],
             bound: CompiledGraph | None = None) -> BindFacts:
    """The facts of the plan of a network with this name and names of outputs.

    MXNetError if it is another plan now than the one that was `bound`.
    """
    changes: list[PassChange] = []
    with remarks.recording() as recorded, observed(changes.append):
        compiled = compile_graph(symbol, options)
    if bound is not None:
        _require_same(compiled, bound, name)
    return _facts(symbol, _network(symbol.graph, options, name, outputs), changes, recorded,
                  compiled)


def facts_without_plan(symbol: Inferred, options: CompileOptions, name: str,
                       outputs: Sequence[str]) -> BindFacts:
    """Facts of a network that cannot be bound: the symbol, and the passes before the failure.

    Parameters
    ----------
    symbol : Inferred
        The graph, and what is known of its entries; no pass runs where that is not all.
    options, name, outputs
        As for `facts_of`.
    """
    changes: list[PassChange] = []
    with remarks.recording() as recorded, observed(changes.append):
        if all(each is not None and each.dtype is not None and is_known(each.shape)
               for each in symbol.specs):
            with contextlib.suppress(Exception):
                compile_graph(symbol, options)
    return _facts(symbol, _network(symbol.graph, options, name, outputs), changes, recorded, None)


def _network(graph: Graph, options: CompileOptions, name: str, outputs: Sequence[str]
             ) -> NetworkFacts:
    return NetworkFacts(name, [node.name for node in graph.arguments],
                        [node.name for node in graph.states], list(outputs), str(options.ctx),
                        {each: options.requests[each] for each in options.trained}, options.exact,
                        sorted(options.disabled))


def _facts(symbol: Inferred, network: NetworkFacts, changes: Sequence[PassChange],
           recorded: Sequence[remarks.Remark], compiled: CompiledGraph | None) -> BindFacts:
    """All facts, if nothing was compiled those without a plan."""
    changes = [each for each in changes if each.after.graph is not each.before.graph]
    numbered = _numbered(symbol, changes, compiled)
    numbered.trace(symbol.graph, compiled, recorded)
    plan = (PlanFacts([], [], [], [], MemoryFacts(0, 0, {}, 0, [], None)) if compiled is None
            else _Planned(compiled, numbered).plan())
    told = [each for each in recorded if compiled is not None or not isinstance(each.subject, int)]
    return BindFacts(
        network, numbered.facts(), numbered.ids(symbol.graph.nodes),
        numbered.entry_ids(symbol.graph.outputs), [_pass_facts(each, numbered) for each in changes],
        [_remark(each, plan, numbered) for each in told], plan)


def _require_same(compiled: CompiledGraph, bound: CompiledGraph, name: str) -> None:
    """MXNetError if the network would now be compiled to another plan than the one bound."""
    names, then = ([node.name for node in each.nodes] for each in (compiled, bound))
    if names != then or compiled.plan.storages != bound.plan.storages:
        raise MXNetError(f"explain: {name} would be bound to another plan now ({len(names)} steps, "
                         f"{compiled.plan.total_bytes:,} bytes) than it was ({len(then)} steps, "
                         f"{bound.plan.total_bytes:,} bytes): environment variables or "
                         "the number of threads have changed; bind it again")


# -- graphs ---------------------------------------------------------------------------------------


def _numbered(symbol: Inferred, changes: Sequence[PassChange], compiled: CompiledGraph | None
              ) -> _NumberedNodes:
    """The nodes of all graphs, from the symbol's to the one that runs."""
    known = _NumberedNodes()
    for each in (symbol, *(change.after for change in changes)):
        known.add(*each)
    if compiled is not None:
        known.add(compiled.graph, compiled.specs)
    return known


def _pass_facts(change: PassChange, numbered: _NumberedNodes) -> PassFacts:
    """A pass, and the graph that it left."""
    old, new = (dict.fromkeys(numbered.ids(each.graph.nodes))
                for each in (change.before, change.after))
    added = [each for each in new if each not in old]
    removed = [each for each in old if each not in new]
    named = {numbered.nodes[each].name: each for each in removed}
    replaced = [Replaced(named[name], each) for each in added
                if (name := numbered.nodes[each].name) in named]
    moved = {each for pair in replaced for each in (pair.before, pair.after)}
    return PassFacts(change.name, PASSES.get(change.name, "a part of bind"), list(new),
                     numbered.entry_ids(change.after.graph.outputs),
                     [each for each in added if each not in moved],
                     [each for each in removed if each not in moved], replaced)


class _NumberedNodes:
    """Nodes of several graphs, numbered in the order in which they came to be."""

    def __init__(self) -> None:
        self.nodes: list[graphs.Node] = []
        self._ids: dict[int, int] = {}
        self._specs: list[list[Spec | None]] = []
        self._origins: dict[graphs.Node, list[graphs.Node]] = {}

    def add(self, graph: Graph, specs: Sequence[Spec | None]) -> None:
        """Number the nodes of a graph that are new, and keep what is known of their outputs."""
        for node in graph.nodes:
            eids = graph.output_eids(node)
            known = specs[eids.start:eids.stop]
            if id(node) not in self._ids:
                self._ids[id(node)] = len(self.nodes)
                self.nodes.append(node)
                self._specs.append(list(known))
            elif None in self._specs[self.id(node)]:
                self._specs[self.id(node)] = list(known)

    def id(self, node: graphs.Node) -> int:
        return self._ids[id(node)]

    def find(self, node: graphs.Node) -> int | None:
        """The number of a node; None if it is in no graph that was kept."""
        return self._ids.get(id(node))

    def ids(self, nodes: Iterable[graphs.Node]) -> list[int]:
        return [self._ids[id(node)] for node in nodes]

    def entry_ids(self, entries: Iterable[graphs.Entry]) -> list[list[int]]:
        """Nodes and numbers of outputs."""
        return [[self.id(node), index] for node, index in entries]

    def trace(self, symbol: Graph, compiled: CompiledGraph | None,
              recorded: Sequence[remarks.Remark]) -> None:
        """Find the nodes of the symbol that each node is there for."""
        rewritten = () if compiled is None else (compiled.simplified, compiled.fused)
        clones = {clone: node for each in rewritten if each is not None
                  for clone, node in each.origin.items()}
        known = origins(self.nodes, symbol, clones, recorded)
        for node in self.nodes:     # inputs before users
            sources = [clones.get(node), *(source for source, _ in node.inputs)]
            if not known[node]:
                known[node] = [*dict.fromkeys(
                    each for source in ([node.source] if node.source else sources)
                    if source is not None for each in known.get(source, ()))]
        self._origins = known

    def facts(self) -> list[GraphNodeFacts]:
        """The nodes as plain values."""
        return [GraphNodeFacts(node.name, "" if node.is_variable else node.op_name,
                     _parameters(node.op), self.entry_ids(node.inputs),
                     [None if spec is None else _tensor(spec) for spec in specs],
                     self.ids(self._origins.get(node, ())))
                for node, specs in zip(self.nodes, self._specs, strict=True)]


LONGEST = 60
"""Characters of a parameter; the rest of a program or a table is left out."""


def _parameters(op: object) -> dict[str, str]:
    """The parameters of an op that are not defaults, as short texts."""
    if not is_dataclass(op) or isinstance(op, type):
        return {}
    return {part.name: _shown(option) for part in fields(op) if part.init and part.repr
            and (option := getattr(op, part.name)) != part.default}


def _shown(value: object) -> str:
    """A parameter, or an op with the parameters that are not defaults."""
    if not isinstance(value, Op):
        text = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
        return text if len(text) <= LONGEST else f"{text[:LONGEST - 3]}..."
    changed = [f"{name}={text}" for name, text in _parameters(value).items()]
    return f"{value.name}({', '.join(changed)})" if changed else value.name


def _tensor(spec: Spec) -> TensorFacts:
    return TensorFacts(list(spec.shape), "?" if spec.dtype is None else str(spec.dtype))


# -- remarks --------------------------------------------------------------------------------------


def _remark(remark: remarks.Remark, plan: PlanFacts, numbered: _NumberedNodes) -> RemarkFacts:
    subject = remark.subject
    node, entry, name = ((None, subject, plan.entries[subject].name) if isinstance(subject, int)
                         else (numbered.find(subject), None, subject.name))
    return RemarkFacts(remark.pass_name, node, entry, name, remark.verdict, remark.rule,
                  {key: _evidence(value, plan, numbered) for key, value in remark.evidence.items()},
                  remark.where)


def _evidence(value: remarks.Evidence, plan: PlanFacts, numbered: _NumberedNodes) -> Json:
    """Evidence as JSON: nodes, entries and steps by number and name."""
    if isinstance(value, remarks.EntryId):
        return {"entry": int(value), "name": plan.entries[value].name}
    if isinstance(value, remarks.StepNumber):
        return {"step": int(value), "name": plan.steps[value].name}
    if isinstance(value, graphs.Node):
        return {"node": numbered.find(value), "name": value.name}
    if isinstance(value, graphs.Entry):
        return {"node": numbered.find(value.node), "name": value.node.name, "output": value.index}
    if isinstance(value, (list, tuple)):
        return [_evidence(each, plan, numbered) for each in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


# -- the plan -------------------------------------------------------------------------------------


class _Planned:
    """Steps and memory of a compiled graph as plain values."""

    def __init__(self, compiled: CompiledGraph, numbered: _NumberedNodes):
        self.compiled, self.numbered = compiled, numbered
        self.readers: list[list[int]] = [[] for _ in compiled.specs]
        self.producer: list[int | None] = [None] * len(compiled.specs)
        for index, step in enumerate(compiled.plan_steps):
            for eid in dict.fromkeys(step.inputs):
                self.readers[eid].append(index)
            for eid in step.outputs:
                if eid != NONE:
                    self.producer[eid] = index

    def plan(self) -> PlanFacts:
        """All of it."""
        storages = self._storages()
        return PlanFacts(self._entries(), storages, list(self._steps()),
                    [self.numbered.ids(group) for group in self.compiled.constants],
                    self._memory(storages))

    def _entries(self) -> list[EntryFacts]:
        compiled, plan = self.compiled, self.compiled.plan
        names, kinds = entry_names(compiled), self._kinds()
        nodes = [(node, index) for node in compiled.graph.nodes
                 for index in range(node.num_outputs)]
        outputs = {*compiled.outputs} - {*compiled.gradients}
        entries = []
        for eid, (node, index) in enumerate(nodes):
            piece, sid = plan.pieces.get(eid, AliasedRows(0)), plan.storage[eid]
            entries.append(EntryFacts(
                names[eid], self.numbered.id(node), index, _tensor(compiled.specs[eid]),
                compiled.sizes[eid], kinds[eid], None if sid == NONE else sid, *piece,
                plan.view_of.get(eid), plan.inplace.get(eid),
                eid in plan.add or eid in compiled.accumulated, self.producer[eid],
                self.readers[eid], eid in outputs))
        return entries

    def _kinds(self) -> list[str]:
        compiled, plan = self.compiled, self.compiled.plan
        kinds = ["unread" if sid == NONE and eid not in plan.view_of else "planned"
                 for eid, sid in enumerate(plan.storage)]
        for eid in compiled.external:
            kinds[eid] = "constant"
        for node in compiled.graph.nodes:
            if node.is_variable:
                kinds[compiled.graph.output_eids(node)[0]] = "variable"
        for eid in compiled.gradients:
            kinds[eid] = "gradient"
        return kinds

    def _storages(self) -> list[StorageFacts]:
        plan = self.compiled.plan
        members: list[list[int]] = [[] for _ in plan.storages]
        for eid, sid in enumerate(plan.storage):
            if sid != NONE:
                members[sid].append(eid)
        scratch = {sid: index for index, sids in enumerate(plan.scratch) for sid in sids}
        return [StorageFacts(each.space, None if each.held else each.offset, each.size, each.first,
                        each.last, each.held, members[sid], scratch.get(sid),
                        self._keeper(plan, sid, members[sid], scratch.get(sid)))
                for sid, each in enumerate(plan.storages)]

    def _keeper(self, plan: MemoryPlan, sid: int, members: Sequence[int], scratch: int | None
                ) -> Keeper:
        """The last event of a storage."""
        storage = plan.storages[sid]
        if scratch is not None:
            return Keeper("scratch", scratch, None)
        if storage.held:
            return Keeper("output", None, next(
                eid for eid in members if eid in self.compiled.outputs))
        inputs = self.compiled.plan_steps[storage.last].inputs
        for eid in inputs:
            if plan.storage[self._root(eid)] == sid:
                return Keeper("read", storage.last, eid)
        return Keeper("written", storage.last, next(
            (eid for eid in members if self.producer[eid] == storage.last), None))

    def _root(self, eid: int) -> int:
        while eid in self.compiled.plan.view_of:
            eid = self.compiled.plan.view_of[eid]
        return eid

    def _memory(self, storages: Sequence[StorageFacts]) -> MemoryFacts:
        compiled, plan = self.compiled, self.compiled.plan
        change = [0] * (len(compiled.nodes) + 1)
        for each in storages:
            size = -(-each.nbytes // ALIGNMENT) * ALIGNMENT
            change[each.first] += size
            change[len(compiled.nodes) if each.held else each.last + 1] -= size
        live, alive = [], 0
        for delta in change[:-1]:
            alive += delta
            live.append(alive)
        planned = sum(compiled.sizes[eid] for eid, sid in enumerate(plan.storage) if sid != NONE)
        workspaces = sum(plan.storages[sid].size for sids in plan.scratch for sid in sids)
        return MemoryFacts(plan.total_bytes, plan.held_bytes,
                      {str(context): plan.arena.get(space, 0)
                       for space, context in enumerate(compiled.spaces)},
                      planned + workspaces, live, live.index(max(live)) if live else None)

    def _steps(self) -> Iterator[StepFacts]:
        compiled, plan = self.compiled, self.compiled.plan
        order = {id(node): index for index, node in enumerate(compiled.nodes)}
        costs = costs_of(compiled)
        for index, (node, step) in enumerate(zip(compiled.nodes, compiled.plan_steps,
                                                 strict=True)):
            yield StepFacts(
                self.numbered.id(node), node.name, node.op_name,
                "forward" if index < compiled.num_forward else "backward",
                str(compiled.context_of(node)), list(step.inputs),
                [None if eid == NONE else eid for eid in step.outputs], index in plan.views,
                list(plan.scratch[index]), *costs[index],
                None if node.source is None else order.get(id(node.source)),
                _implementation(compiled.choices[index]),
                [plan_facts(each.compiled) for each in compiled.subgraphs.get(index, ())])


def plan_facts(compiled: CompiledGraph) -> PlanFacts:
    """The plan of a compiled graph by itself, whose nodes have numbers of their own."""
    numbered = _NumberedNodes()
    numbered.add(compiled.graph, compiled.specs)
    return _Planned(compiled, numbered).plan()


def _implementation(choice: dispatch.Choice | None) -> ImplementationFacts | None:
    if choice is None:
        return None
    return ImplementationFacts(str(choice.op), None if choice.chosen is None else _candidate(
        choice.chosen), [_candidate(each) for each in choice.rejected])


def _candidate(candidate: dispatch.Candidate) -> CandidateFacts:
    row, estimate = candidate.row, candidate.estimate
    parts = [part for each in estimate.parts if (part := _implementation(each)) is not None]
    return CandidateFacts(row.name or row.key, row.key, row.source, estimate.cost, estimate.why_not,
                     parts)
