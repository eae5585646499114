"""Plans that a network would have, if something about it were different."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property

from ..execution.cost_model import costs_of
from ..execution.pipeline import CompiledGraph, CompileOptions, compile_graph
from ..graph import Entry, Graph, Node
from ..passes.infer import Inferred, infer_specs
from ..passes.memory.plan import plan_memory
from ..passes.memory.plan_step import PLANNER_PASSES
from .schema import Variant

__all__ = ["MIRROR", "WhatIf", "variant_of"]

MIRROR = "mirror"
"""The part of bind that MXNET_BACKWARD_DO_MIRROR switches on."""


class WhatIf:
    """A network, and what its plan would be.

    `bound` is the plan that it has, which is compiled when it is needed.
    """

    def __init__(self, symbol: Inferred, options: CompileOptions,
                 bound: CompiledGraph | None = None):
        self.symbol, self.options, self._bound = symbol, options, bound

    @cached_property
    def compiled(self) -> CompiledGraph:
        """The plan that it has."""
        return self._bound or self._compile()

    def variant(self, name: str) -> Variant:
        """The plan without a pass; for "mirror" with recomputation, or without where it is on."""
        if name != MIRROR:
            return variant_of(self.without(name), name)
        compiled = self._compile(options=replace(self.options, mirror=not self.options.mirror))
        return variant_of(compiled, *((MIRROR,) if self.options.mirror else ("", MIRROR)))

    def without(self, name: str) -> CompiledGraph:
        """The plan without a pass.

        The nodes stay where a pass of the memory planner is left out, so that nothing is compiled.
        """
        if name not in PLANNER_PASSES or self.compiled.subgraphs:
            return self._compile(options=replace(self.options,
                                                 disabled=self.options.disabled | {name}))
        off, steps = self.options.disabled | {name}, self.compiled.plan_steps
        if name != "reuse_memory" and steps == [step.without(off) for step in steps]:
            return self.compiled
        return self._replanned(off, self.compiled)

    def mirrored(self, names: Collection[str]) -> CompiledGraph:
        """The plan where these nodes of the symbol have the attribute `force_mirroring`."""
        graph = _with_attribute(self.symbol.graph, names, "__force_mirroring__", "True")
        return self._compile(symbol=Inferred(graph, self.symbol.specs))

    def requested(self, requests: Mapping[str, str]) -> CompiledGraph:
        """The plan with these requests for gradients instead of those for the same arguments."""
        return self._compile(options=replace(self.options,
                                             requests={**self.options.requests, **requests}))

    def part(self, symbol: Inferred, requests: Mapping[str, str]) -> CompiledGraph:
        """The plan of a part of the network, with requests for gradients."""
        ctx, names = self.options.ctx, [node.name for node in symbol.graph.variables]
        devices = dict.fromkeys(names, ctx)
        return self._compile(symbol=symbol, options=replace(
            self.options, requests={**dict.fromkeys(names, "null"), **requests}, devices=devices,
            gradient_devices=devices, groups={}))

    def read_once(self, reader: str, source: str, index: int) -> CompiledGraph:
        """The plan where node `reader` alone reads output `index` of node `source`.

        What comes after it reads its result instead, and the output is none of the network.

        Raises
        ------
        MXNetError
            If the result of `reader` has another shape or type.
        """
        graph = self.symbol.graph
        nodes = {node.name: node for node in graph.nodes}
        read, result = Entry(nodes[source], index), Entry(nodes[reader])
        later = set(map(id, graph.nodes[graph.nodes.index(result.node) + 1:]))
        left = Graph([entry for entry in graph.outputs if entry != read])
        rewired, _ = left.rewired(lambda node, old, new: result if (
            old == read and id(node) in later) else new)
        known = {Entry(node): self.symbol.specs[graph.eid(Entry(node))]
                 for node in rewired.variables}
        return self._compile(symbol=Inferred(rewired, infer_specs(rewired, known)))

    def moved(self, index: int, place: int) -> CompiledGraph:
        """The plan whose step `index` runs before step `place`, which comes earlier."""
        compiled = self.compiled
        order = [*range(len(compiled.nodes))]
        order.insert(place, order.pop(index))
        steps, nodes = ([each[i] for i in order] for each in (compiled.plan_steps, compiled.nodes))
        return self._replanned(self.options.disabled,
                               replace(compiled, plan_steps=steps, nodes=nodes))

    def _replanned(self, off: Collection[str], compiled: CompiledGraph) -> CompiledGraph:
        steps = [step.without(off) for step in compiled.plan_steps]
        plan = plan_memory(steps, compiled.sizes, compiled.external,
                           {*compiled.outputs} - {*compiled.external}, "reuse_memory" not in off)
        return replace(compiled, plan_steps=steps, plan=plan)

    def _compile(self, symbol: Inferred | None = None, options: CompileOptions | None = None
                 ) -> CompiledGraph:
        return compile_graph(symbol or self.symbol, options or self.options)


def variant_of(compiled: CompiledGraph, without: str = "", added: str = "") -> Variant:
    """The figures of a plan."""
    costs = costs_of(compiled)
    operations, nbytes = (sum(each[i] for each in costs) for i in (0, 1))
    return Variant(without, compiled.plan.total_bytes,
                   len(compiled.nodes) - len(compiled.plan.views), operations, nbytes, added)


def _with_attribute(graph: Graph, names: Collection[str], key: str, value: str) -> Graph:
    """A copy of a graph in which nodes of these names have an attribute."""
    copies: dict[int, Node] = {}
    for node in graph.nodes:
        copy = node.clone([Entry(copies[id(source)], index) for source, index in node.inputs],
                          node.source)
        if node.name in names:
            copy.attrs = {**node.attrs, key: value}
        copies[id(node)] = copy
    return Graph([Entry(copies[id(node)], index) for node, index in graph.outputs],
                 [*copies.values()])
