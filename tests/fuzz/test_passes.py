"""Every pass separately: the transformed random graph computes what the original computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.context import cpu
from nbmod.graph import Graph
from nbmod.ops.blocked.layout import LANES
from nbmod.ops.op import Spec
from nbmod.passes.infer import Inferred, infer_shape, infer_type, specs_of
from nbmod.passes.optimize.blocked_layout import blocked_layout
from nbmod.passes.optimize.cse import cse, skip_identities
from nbmod.passes.optimize.fold_batch_norm import fold_batch_norm
from nbmod.passes.optimize.fuse_depthwise import fuse_depthwise
from nbmod.passes.optimize.fuse_elementwise import fuse_elementwise
from nbmod.passes.optimize.fuse_epilogue import fuse_epilogue
from nbmod.passes.optimize.fuse_int8 import fuse_int8
from nbmod.passes.optimize.hoist_constants import derived_groups, fold_shape_reads
from nbmod.passes.optimize.reroll_rnn import reroll_rnn
from nbmod.passes.optimize.tile_batch import tile_batch
from nbmod.passes.place import place, with_copies
from nbmod.passes.recompute import mirror
from nbmod.passes.rewrite import Rewritten, unchanged
from nbmod.passes.switches import PassChange
from nbmod.passes.training import with_gradients, write_gradients
from nbmod.passes.translation_validation import Validation
from tests.fuzz import drawing
from tests.fuzz.evaluate import evaluate
from tests.fuzz.program import Line, Program, build, drawn
from tests.fuzz.quantized import RandomNetwork, numbers
from tests.fuzz.search import small_chains_fuse

CLOSE = 1e-4
"""Of the largest element.  Winograd's tiles err by up to 4e-6 of it, a few layers in turn more; a
wrong graph is off by something like 1."""
fuzzed = settings(max_examples=25, deadline=None, print_blob=True,
                  suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                                         HealthCheck.large_base_example])


class Case:
    """A graph, the facts about its entries, and values of its variables."""

    def __init__(self, program: Program):
        symbol, fixed = build(mx, program)
        self.graph = Graph(symbol.entries)
        shapes = {f"x{i}": shape for i, shape in enumerate(program.inputs)}
        self.specs = list(map(Spec, infer_shape(self.graph, shapes), infer_type(self.graph, {})))
        self.values = {}
        for node in self.graph.variables:
            spec = self.specs[self.graph.output_eids(node)[0]]
            given = fixed[node.name]("float32") if node.name in fixed else drawn(
                node.name, *spec)
            self.values[node.name] = np.asarray(given, spec.dtype).reshape(spec.shape)

    @property
    def unchanged(self) -> Rewritten:
        return unchanged(self.graph, self.specs)

    def require_same(self, found: Rewritten, is_train: bool = False) -> None:
        """Outputs, and in training gradients, are those of the graph before: by kernels node by
        node, and by the definitions of the ops (`passes.translation_validation`)."""
        known = specs_of(found.graph, found.specs)
        pairs = [(self.graph, self.specs), (found.graph, known)]
        if is_train:
            pairs = [self._with_gradients(*pair) for pair in pairs]
        (before, after) = (evaluate(graph, self.values, specs, is_train) for graph, specs in pairs)
        scale = max(map(_largest, before), default=0.0)
        for expected, array in zip(before, after, strict=True):
            close = CLOSE * max(_largest(expected), 1e-2 * scale)
            np.testing.assert_allclose(array, expected, rtol=0, atol=close)
        trained = trained_names(self) if is_train else []
        Validation(Inferred(self.graph, self.specs), trained).compare(
            PassChange.of_forward("of a test", self.unchanged, found))

    def _with_gradients(self, graph: Graph, specs: Any) -> tuple[Graph, Any]:
        """The graph with gradients of all variables except states."""
        states = {node.name for node in graph.states}
        wrt = [node for name in sorted(self.values) for node in graph.variables
               if node.name == name and name not in states]
        trained, heads = with_gradients(graph, wrt)
        for head, entry in zip(heads, graph.outputs, strict=True):
            self.values[head.name] = drawn(head.name, *specs[graph.eid(entry)])
        known: dict[Any, Any] = {head.name: specs[graph.eid(entry)]
                                 for head, entry in zip(heads, graph.outputs, strict=True)}
        before = [None] * trained.num_entries
        for node in trained.nodes:
            eids = graph.find(node)
            if eids:
                for new, old in zip(trained.output_eids(node), eids, strict=True):
                    before[new] = specs[old]
        shapes = infer_shape(trained, {name: spec.shape for name, spec in known.items()},
                             [spec and spec.shape for spec in before])
        types = infer_type(trained, {name: spec.dtype for name, spec in known.items()},
                           [spec and spec.dtype for spec in before])
        return trained, list(map(Spec, shapes, types))


def _largest(array: np.ndarray) -> float:
    """Of the finite elements: the gradient of a product with a factor 0 is NaN, as in MXNet."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0))


def test_elements_that_are_not_numbers_are_compared():
    """A factor of 0, of which relu makes one, has a gradient that is NaN; one of tanh has not."""
    first, other = (Case(Program(((2, 2),), (
        Line("unary", (0,), {"op": op}),
        Line("reduce", (1,), {"op": "prod", "axis": 0, "keepdims": True})), (2,)))
        for op in ("relu", "tanh"))
    first.values["x0"][:] = [[-1, 2], [1, 3]]
    first.require_same(first.unchanged, is_train=True)
    with pytest.raises(AssertionError):
        first.require_same(other.unchanged, is_train=True)


def case(rng: Any, style: str) -> Case:
    """A random case without loops and branches, whose bodies only executors run."""
    while True:
        found = Case(replace(drawing.program(rng, style), groups=False))
        if not any(node.runs_subgraphs for node in found.graph.nodes):
            return found


def blocked(case: Case) -> Rewritten:
    return blocked_layout(case.unchanged)


def trained_names(case: Case) -> list[str]:
    return [node.name for node in case.graph.arguments]


INFERENCE: dict[str, tuple[str, Callable[[Case], Rewritten]]] = {
    "skip_identities": ("dense", lambda case: skip_identities(case.unchanged)),
    "cse": ("recurrent", lambda case: cse(case.unchanged)),
    "cse of dense graphs": ("dense", lambda case: cse(case.unchanged)),
    "fold_shape_reads": ("mixed", lambda case: fold_shape_reads(case.unchanged)),
    "fold_batch_norm": ("images", lambda case: fold_batch_norm(case.unchanged)),
    "reroll_rnn": ("recurrent", lambda case: reroll_rnn(case.unchanged)),
    "blocked_layout": ("images", blocked),
    "fuse_depthwise": ("images", lambda case: fuse_depthwise(blocked(case))),
    "tile_batch": ("images", lambda case: tile_batch(blocked(case))),
    "fuse_epilogue": ("images", lambda case: fuse_epilogue(blocked(case), ())),
    "fuse_epilogue of plain layers": ("images", lambda case: fuse_epilogue(
        case.unchanged, (), plain=True)),
    "fuse_epilogue of dense layers": ("dense", lambda case: fuse_epilogue(case.unchanged, ())),
}


@pytest.mark.parametrize("name", INFERENCE)
@given(rng=st.randoms(use_true_random=False))
@fuzzed
def test_graphs_for_inference_compute_the_same(name, rng):
    style, function = INFERENCE[name]
    found = case(rng, style)
    with small_chains_fuse():       # and bands and tiles of small images
        found.require_same(function(found))


TRAINING: dict[str, tuple[str, Callable[[Case], Rewritten]]] = {
    "reroll_rnn": ("recurrent", lambda case: reroll_rnn(case.unchanged)),
    "blocked_layout": ("images", lambda case: blocked_layout(
        case.unchanged, trained_names(case))),
    "fuse_epilogue": ("images", lambda case: fuse_epilogue(
        blocked_layout(case.unchanged, trained_names(case)), trained_names(case))),
}


@pytest.mark.parametrize("name", TRAINING)
@given(rng=st.randoms(use_true_random=False))
@fuzzed
def test_graphs_for_training_have_the_same_gradients(name, rng):
    style, function = TRAINING[name]
    found = case(rng, style)
    found.require_same(function(found), is_train=True)


def trained(rng: Any, style: str) -> tuple[Case, Graph, list[Spec], int]:
    """A case, its graph with gradients, the facts about that, and the number of its outputs."""
    found = case(rng, style)
    graph, specs = found._with_gradients(found.graph, found.specs)
    return found, graph, specs, len(found.graph.outputs)


def facts_of(graph: Graph, before: Graph, specs: list[Spec]) -> list[Spec]:
    """The facts that follow for `graph` from the variables of `before`, with entries of `specs`."""
    known = {node.name: specs[before.output_eids(node)[0]] for node in before.variables}
    return list(map(Spec, infer_shape(graph, {name: spec.shape for name, spec in known.items()}),
                    infer_type(graph, {name: spec.dtype for name, spec in known.items()})))


def require_equal(case: Case, before: tuple[Graph, Any], after: tuple[Graph, Any]) -> None:
    """Bit by bit, except for the sign of zero."""
    validation = Validation(Inferred(case.graph, case.specs), trained_names(case))
    validation.compare(PassChange("of a test", Inferred(*before), Inferred(*after)))
    expected, found = (evaluate(graph, case.values, specs, True)
                       for graph, specs in (before, after))
    for array, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("style", ["dense", "recurrent"])
@given(rng=st.randoms(use_true_random=False))
@fuzzed
def test_fused_graphs_compute_the_same_bits(style, rng):
    case, graph, specs, count = trained(rng, style)
    with small_chains_fuse():
        fused = fuse_elementwise(graph, specs, [cpu(0)] * graph.num_entries, count, (), True)
    require_equal(case, (graph, specs), (fused.graph, fused.facts(specs)))


@pytest.mark.parametrize("style", ["dense", "recurrent", "images"])
@given(rng=st.randoms(use_true_random=False))
@fuzzed
def test_gradients_land_where_they_are_computed(style, rng):
    case, graph, specs, count = trained(rng, style)
    requests = [rng.choice(["write", "add"]) for _ in graph.outputs[count:]]
    landed = write_gradients(graph, requests)
    facts = [specs[graph.output_eids(node)[i]] for node in landed.nodes
             for i in range(node.num_outputs)]
    require_equal(case, (graph, specs), (landed, facts))


@pytest.mark.parametrize("style", ["dense", "images"])
@given(rng=st.randoms(use_true_random=False))
@fuzzed
def test_recomputing_forward_changes_nothing(style, rng):
    case, graph, specs, count = trained(rng, style)
    mirrored = mirror(graph, count, True)
    require_equal(case, (graph, specs), (mirrored, facts_of(mirrored, graph, specs)))


@given(rng=st.randoms(use_true_random=False))
@fuzzed
def test_copies_between_devices_change_nothing(rng):
    case, graph, specs, _ = trained(rng, "dense")
    for node in graph.nodes:
        if node.op is not None and rng.random() < 0.5:
            node.attrs = {**node.attrs, "__ctx_group__": "other"}
    copied, _ = with_copies(graph, place(graph, {"other": cpu(1)}, {}, cpu(0)))
    require_equal(case, (graph, specs), (copied, facts_of(copied, graph, specs)))


@given(rng=st.randoms(use_true_random=False))
@fuzzed
def test_hoisted_groups_read_nothing_that_changes(rng):
    """Constants and derived values alone; no group reads another one."""
    found = case(rng, rng.choice(["images", "recurrent"]))
    graph = found.graph
    groups = derived_groups(graph, found.specs)
    group_of = {node: i for i, group in enumerate(groups) for node in group}
    for node, i in group_of.items():
        assert all(group_of.get(entry.node) == i for entry in node.inputs
                   if not entry.node.is_variable)
        assert node.op.derived or not any(entry.node.is_variable for entry in node.inputs)


# -- fuse_int8 ----------------------------------------------------------------------------------

def quantized(rng: Any) -> tuple[Graph, list[Spec], dict[str, np.ndarray]]:
    """A random network of 8-bit integers, the facts about its entries, and its values."""
    network = RandomNetwork(rng)
    graph = Graph(mx.sym.Group(network.outputs).entries)
    specs = list(map(Spec, infer_shape(graph, {}), infer_type(graph, {})))
    return graph, specs, {name: numbers(name, *spec) for name, spec in network.variables.items()}


@given(rng=st.randoms(use_true_random=False))
@fuzzed
def test_fused_layers_of_bytes_compute_the_same_bits(rng):
    graph, specs, values = quantized(rng)
    found = fuse_int8(unchanged(graph, specs))
    Validation(Inferred(graph, specs), ()).compare(
        PassChange.of_forward("fuse_int8", unchanged(graph, specs), found))
    expected = evaluate(graph, values, specs)
    for array, other in zip(evaluate(found.graph, values, found.specs), expected,
                            strict=True):
        assert array.dtype == other.dtype
        np.testing.assert_array_equal(array, other)


@pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")
def test_networks_of_bytes_are_such_as_can_be_fused():
    """Layers in blocks, with epilogues, and without the reorders between them."""
    notes = ""
    for seed in range(100):
        graph, specs, _ = quantized(Random(seed))
        notes += "".join(fuse_int8(unchanged(graph, specs)).notes)
    for words in ("works on blocks of bytes", "requantize) is done by", "act) is done by",
                  "are those of"):
        assert notes.count(words) > 2
