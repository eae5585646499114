"""Remarks: passes record as data what they did and refused, and decide as they do without."""

from __future__ import annotations

import os
from random import Random
from typing import NamedTuple
from unittest.mock import patch

import pytest

import nbmod as mx
from nbmod.context import Context
from nbmod.execution.bind import infer_arrays
from nbmod.execution.pipeline import CompiledGraph, CompileOptions, compile_graph
from nbmod.graph import Graph, Node
from nbmod.passes.place import array_devices
from nbmod.passes.provenance import origins
from nbmod.passes.remarks import Remark, is_recording, recording, withheld
from nbmod.passes.switches import PASSES
from tests.fuzz import drawing
from tests.fuzz.program import Program, build
from tests.fuzz.search import small_chains_fuse

STYLES = ["dense", "recurrent", "images", "mixed", "loops", "cells"]
PARTS = {"with_gradients", "mirror", "place"}
"""Parts of bind that cannot be switched off."""


class Recorded(NamedTuple):
    """A compiled network and its remarks."""

    symbol: Graph
    compiled: CompiledGraph
    remarks: list[Remark]

    def computed(self) -> set[Node]:
        """The nodes of the symbol that nodes of the final graph compute, or nodes that nothing
        reads any more after some pass."""
        clones = {**self.compiled.simplified.origin, **self.compiled.fused.origin}
        unread = [remark.subject for remark in self.remarks
                  if remark.rule == "nothing reads it any more"]
        parts = origins([*self.compiled.graph.nodes, *unread], self.symbol, clones, self.remarks)
        return {part for each in parts.values() for part in each}


def compiled(symbol: mx.sym.Symbol, shapes: dict[str, tuple[int, ...]], request: str = "null",
             types: dict[str, str] | None = None, ctx: Context | None = None,
             groups: dict[str, Context] | None = None, exact: bool = False,
             trained: tuple[str, ...] | None = None) -> CompiledGraph:
    graph, here = Graph(symbol.entries), ctx or mx.cpu()
    devices = array_devices(graph, groups or {}, here)
    known = {name: shape for name, shape in shapes.items() if name in devices}
    requests = {node.name: request for node in graph.arguments}
    if trained is not None:
        requests = {name: "write" if name in trained else "null" for name in requests}
    return compile_graph(infer_arrays(graph, known, types or {}), CompileOptions(
        here, requests, devices, devices, groups or {}, exact))


def recorded(symbol: mx.sym.Symbol, shapes: dict[str, tuple[int, ...]], request: str = "null",
             **options) -> Recorded:
    with recording() as remarks:
        found = compiled(symbol, shapes, request, **options)
    return Recorded(Graph(symbol.entries), found, remarks)


def shapes_of(program: Program) -> dict[str, tuple[int, ...]]:
    return {f"x{i}": shape for i, shape in enumerate(program.inputs)}


# -- what passes did ------------------------------------------------------------------------------

@pytest.mark.planned_only
@pytest.mark.parametrize("request_of_all", ["null", "write"])
@pytest.mark.parametrize("style", STYLES)
def test_every_node_of_a_symbol_is_somewhere(style, request_of_all):
    """A node of the final graph computes it, or a remark says that nothing reads it any more."""
    first = int.from_bytes(os.urandom(5), "little")
    for seed in range(first, first + 20):
        network = drawn(seed, style, request_of_all)
        lost = {*network.symbol.nodes} - {*network.symbol.variables} - network.computed()
        assert not lost, f"seed {seed}: {lost}"


@pytest.mark.planned_only
@pytest.mark.parametrize("style", STYLES)
def test_recording_changes_no_decision(style):
    for seed in range(8):
        for request in ("null", "write"):
            network, plain = drawn(seed, style, request), drawn(seed, style, request, False)
            assert decisions(network.compiled) == decisions(plain.compiled), f"seed {seed}"
            assert not plain.remarks
            assert {remark.pass_name for remark in network.remarks} <= PASSES.keys() | PARTS


def decisions(compiled: CompiledGraph) -> list[str]:
    plan = compiled.plan
    return [str(each) for each in (
        compiled.graph, compiled.notes, compiled.nodes, compiled.constants, plan.storage,
        plan.storages, plan.scratch, plan.views, plan.view_of, plan.add, plan.inplace,
        plan.pieces, plan.arena)]


def test_nothing_is_recorded_outside_of_a_block():
    symbol, shapes = mx.sym.relu(mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3)), {
        "x": (2, 3)}
    with recording() as remarks:
        compiled(symbol, shapes)
        count = len(remarks)
        with withheld() as tried:
            compiled(symbol, shapes)
        assert len(tried) == count == len(remarks) > 0
    assert not is_recording()
    with withheld() as tried:
        compiled(symbol, shapes)
    assert len(remarks) == count and not tried and not is_recording()


def drawn(seed: int, style: str, request_of_all: str, records: bool = True) -> Recorded:
    """A random network of the fuzzer; what is small is fused, too."""
    program = drawing.program(Random(seed), style)
    symbol, _ = build(mx, program)
    groups = {"g0": mx.cpu(0), "g1": mx.cpu(1)} if program.groups else {}
    mirror = {"MXNET_BACKWARD_DO_MIRROR": str(int(program.mirror))}
    with small_chains_fuse(), patch.dict(os.environ, mirror):
        if records:
            return recorded(symbol, shapes_of(program), request_of_all, groups=groups)
        plain = compiled(symbol, shapes_of(program), request_of_all, groups=groups)
        return Recorded(Graph(symbol.entries), plain, [])
