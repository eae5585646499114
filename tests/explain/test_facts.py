"""Facts of a plan: whole, true to the plan that is bound, and the same after a file."""

from __future__ import annotations

import json

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.executor import Executor
from nbmod.explain.facts_json import from_json, to_json
from tests.explain.networks import NETWORKS, planned


def network():
    """A convolution with ReLU, a dense layer and a loss."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=16, kernel=(3, 3), name="conv")
    net = mx.sym.FullyConnected(mx.sym.relu(net, name="relu"), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def bound(grad_req="write", net=None):
    return (network() if net is None else net).simple_bind(
        mx.cpu(), grad_req=grad_req, data=(2, 3, 16, 16))


@pytest.mark.parametrize("grad_req", ["null", "write", "add"])
def test_facts_are_those_of_the_plan(grad_req):
    executor = bound(grad_req)
    facts, compiled = executor.explain().facts, executor.compiled
    plan = facts.plan
    assert facts.network.training == (grad_req != "null")
    assert [step.name for step in plan.steps] == [node.name for node in compiled.nodes]
    assert plan.memory.total == compiled.plan.total_bytes
    assert [each.offset for each in plan.storages if not each.held] == [
        each.offset for each in compiled.plan.storages if not each.held]
    for index, storage in enumerate(plan.storages):
        assert all(plan.entries[eid].storage == index for eid in storage.entries)
        keeper = storage.keeper
        if keeper.reason == "read":
            assert keeper.step == storage.last
            assert keeper.entry in plan.steps[keeper.step].reads
    for index, step in enumerate(plan.steps):
        assert all(index in plan.entries[eid].readers for eid in step.reads)
        assert all(plan.entries[eid].producer == index for eid in step.writes if eid is not None)


def test_graphs_follow_from_each_other():
    facts = bound().explain().facts
    graph = set(facts.graph)
    for each in facts.passes:
        graph -= {*each.removed, *(pair.before for pair in each.replaced)}
        graph |= {*each.added, *(pair.after for pair in each.replaced)}
        assert graph == set(each.graph)
    assert {entry.node for entry in facts.plan.entries} == graph


@pytest.mark.parametrize("name", NETWORKS)
def test_every_node_has_origins_in_the_symbol(name):
    facts = planned(name).facts
    for number, node in enumerate(facts.nodes):
        assert {*node.origins} <= {*facts.graph}
        assert node.origins or not node.inputs, node.name
        assert number in node.origins or number not in facts.graph


def test_reorders_of_layouts_have_the_origins_of_what_they_convert():
    explanation = bound().explain()
    facts = explanation.facts
    origins = {facts.nodes[step.node].op: [facts.nodes[each].name for each in facts.nodes[
        step.node].origins] for step in facts.plan.steps}
    assert origins["_into_blocks"] == ["data"]
    assert origins["_from_blocks"] == origins["_backward__from_blocks"] == ["relu"]
    assert origins["_blocked_convolution"] == ["conv"]
    converter = next(index for index, step in enumerate(facts.plan.steps)
                     if step.op == "_from_blocks")
    assert "inserted by blocked_layout for relu" in str(explanation.step(converter))


def test_equal_networks_have_equal_facts():
    first, second = (bound().explain().json() for _ in range(2))
    assert first == second


def test_facts_outlive_a_file():
    facts = bound().explain().facts
    text = json.dumps(to_json(facts))
    again = from_json(json.loads(text))
    assert json.dumps(to_json(again)) == text
    assert again.plan.steps[0] == facts.plan.steps[0]


@pytest.mark.parametrize("values", [
    {}, {"schema": "nbmod.explain", "version": 99}, {"schema": "nbmod.explain", "version": 1},
    {"schema": "nbmod.explain", "version": 1, "network": 3}])
def test_other_files_are_refused(values):
    with pytest.raises(MXNetError, match="explain: the file"):
        from_json(values)


def test_passes_that_were_switched_off_stay_off():
    with mx.without_passes("blocked_layout"):
        executor = bound("null")
    facts = executor.explain().facts
    assert facts.network.disabled_passes == ["blocked_layout"]
    assert "blocked_layout" not in [each.name for each in facts.passes]


def test_a_plan_without_passes_is_explained():
    """As networks are bound where there is no compiler."""
    executor = Executor(bound()._binding, optimize=False)
    facts = executor.explain().facts
    assert [each.name for each in facts.passes] == ["with_gradients", "write_gradients"]


def test_a_plan_that_would_be_another_one_is_refused(monkeypatch):
    executor = bound()
    assert any(executor.compiled.plan.scratch)
    monkeypatch.setattr(mx.core.config.CONFIG, "check", 2)     # guards behind workspaces
    with pytest.raises(MXNetError, match="another plan"):
        executor.explain()


def test_arenas_have_the_numbers_of_spaces():
    """Also where the first context has no memory of its own."""
    with mx.AttrScope(ctx_group="one"):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="first")
    with mx.AttrScope(ctx_group="two"):
        net = mx.sym.FullyConnected(mx.sym.exp(net), num_hidden=8, name="second")
    executor = net.simple_bind(mx.cpu(0), grad_req="write", data=(4, 8),
                               group2ctx={"one": mx.cpu(1), "two": mx.cpu(2)})
    plan = executor.explain().facts.plan
    arenas = [*plan.memory.arenas]
    planned = [entry for entry in plan.entries if entry.storage is not None]
    assert {plan.steps[entry.producer].context for entry in planned} == {"cpu(1)", "cpu(2)"}
    for entry in planned:
        assert arenas[plan.storages[entry.storage].space] == plan.steps[entry.producer].context
