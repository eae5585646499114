"""Plans without passes: what is told of them is what a bind without the pass gives."""

from __future__ import annotations

import json

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.explain.explanation import Explanation
from nbmod.explain.facts_json import from_json
from nbmod.passes.memory.plan_step import PLANNER_PASSES


def network():
    """Something for every pass of the planner, and a chain that fuses."""
    data = mx.sym.Variable("data")
    left, right = mx.sym.split(data, num_outputs=2, axis=1, name="halves")
    net = mx.sym.Concat(mx.sym.exp(left * 2), mx.sym.relu(right), dim=1, name="joined")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=32, name="fc1")
    net = mx.sym.Activation(net, act_type="tanh") + mx.sym.FullyConnected(net, num_hidden=32)
    return mx.sym.SoftmaxOutput(net, name="softmax")


def bound(grad_req="write", net=None):
    return (net or network()).simple_bind(mx.cpu(), grad_req=grad_req, data=(4, 8, 6, 6))


@pytest.mark.parametrize("grad_req", ["null", "write"])
def test_plans_without_a_pass_are_those_of_a_bind_without_it(grad_req):
    variants = bound(grad_req).explain().variants(*PLANNER_PASSES, "fuse_elementwise")
    for variant in variants:
        with mx.without_passes(variant.without):
            executor = bound(grad_req)
        plan = executor.explain().facts.plan
        assert variant.total == executor.compiled.plan.total_bytes, variant.without
        assert variant.steps == sum(not step.is_view for step in plan.steps)
        assert variant.nbytes == sum(step.nbytes for step in plan.steps)
    assert len({(each.total, each.steps) for each in variants}) > 2


@pytest.mark.parametrize("is_on", [False, True])
def test_recomputation_is_switched(monkeypatch, is_on):
    def executor(mirror):
        monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", str(int(mirror)))
        return bound()

    other, this = executor(not is_on), executor(is_on)
    variant, = this.explain().variants("mirror")
    assert (variant.without, variant.added) == (("mirror", "") if is_on else ("", "mirror"))
    assert variant.total == other.compiled.plan.total_bytes != this.compiled.plan.total_bytes


def test_loops_are_planned_anew():
    def body(data, states):
        return mx.sym.exp(data * states[0]), [states[0] + 1]

    net = mx.sym.contrib.foreach(body, mx.sym.Variable("data"), [mx.sym.Variable("state")])[0]
    shapes = {"data": (3, 4), "state": (4,)}
    variant, = net.simple_bind(mx.cpu(), **shapes).explain().variants("reuse_memory")
    with mx.without_passes("reuse_memory"):
        assert variant.total == net.simple_bind(mx.cpu(), **shapes).compiled.plan.total_bytes


def test_passes_that_are_off_stay_off():
    with mx.without_passes("inplace"):
        executor = bound()
    variants = executor.explain().variants()
    assert "inplace" not in {each.without for each in variants}
    variant = next(each for each in variants if each.without == "reuse_memory")
    with mx.without_passes("inplace", "reuse_memory"):
        assert variant.total == bound().compiled.plan.total_bytes


def test_files_have_the_variants_that_were_asked_for():
    explanation = bound().explain()
    asked = explanation.variants("inplace")
    again = Explanation(from_json(json.loads(explanation.json())))
    assert again.variants("inplace") == again.variants() == asked
    with pytest.raises(MXNetError, match="does not tell the plan without view"):
        again.variants("view")


def test_the_table_tells_differences():
    explanation = bound().explain()
    variant, = explanation.variants("reuse_memory")
    answer = explanation.without("reuse_memory")
    line = str(answer).splitlines()[-1]
    assert line.startswith("without reuse_memory")
    more = variant.total - explanation.facts.plan.memory.total
    assert f"{more:+,}" in line and answer.data["reuse_memory"]["bytes"] == more > 0
