"""Advice: followed, it changes the plan by what it says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.explain.advice import advice_on
from nbmod.explain.explanation import Explanation
from nbmod.explain.facts_json import from_json
from nbmod.explain.schema import MeasuredFacts, StepTimeFacts

SYM = mx.sym
DATA = {"data": (512, 64)}


def dense(net, size, name):
    return SYM.FullyConnected(net, num_hidden=size, name=name)


def trained():
    """Layers whose activations are kept for the gradients of weights."""
    net = SYM.Variable("data")
    for number in range(4):
        net = SYM.square(dense(net, 256, f"fc{number}"), name=f"act{number}")
    return SYM.SoftmaxOutput(dense(net, 10, "fc"), name="softmax")


def late(first):
    """A network with a mean of a large tensor, which is read first or last."""
    big = dense(SYM.Variable("data"), 512, "big")
    mean = SYM.mean(big, axis=1, name="mean")
    net = SYM.relu(dense(dense(big, 64, "small"), 1024, "wide"))
    net = SYM.exp(dense(net, 1024, "last"))
    return SYM.Group([mean, net] if first else [net, mean])


def convolved(between):
    """Two convolutions, with a step between or behind them that has no form for blocks."""
    net = SYM.Variable("data")
    for number in range(2):
        net = SYM.Convolution(net, num_filter=32, kernel=(3, 3), pad=(1, 1), name=f"conv{number}")
        if (number == 0) == between:
            net = SYM.flip(net, axis=3, name="flip")
    return net


def activated(reader):
    """A layer with ReLU, the sum of one of the two, or the layer itself, being an output, too."""
    layer = dense(SYM.Variable("data"), 256, "layer")
    net = SYM.relu(layer, name="relu")
    read = {"layer": layer, "relu": net}.get(reader)
    others = [] if reader == "nothing" else [layer] if read is None else [
        SYM.sum(read, axis=1, name="sum")]
    return SYM.Group([net, *others])


def plan_of(net, grad_req="write", **shapes):
    executor = net.simple_bind(mx.cpu(), grad_req=grad_req, **(shapes or DATA))
    return executor.explain()


def advice_of(explanation, kind, subject):
    explanation.advice()
    return next(each for each in explanation.facts.advice if (each.kind, each.subject) == (
        kind, subject))


def assert_came_true(advice, before, after):
    """What the advice says is what changed, within a fifth."""
    for said, count in ((advice.total, lambda plan: plan.memory.total),
                        (advice.nbytes, lambda plan: sum(step.nbytes for step in plan.steps)),
                        (advice.steps, lambda plan: sum(not each.is_view for each in plan.steps))):
        changed = count(after.facts.plan) - count(before.facts.plan)
        assert changed == pytest.approx(said, rel=0.2, abs=0), advice
    assert advice.total < 0 or advice.nbytes < 0


def test_unread_gradients():
    before = plan_of(trained())
    advice = advice_of(before, "unread gradient", "data, softmax_label")
    net = trained()
    requests = eval(advice.change.removeprefix("grad_req="), {"net": net, "dict": dict})
    assert_came_true(advice, before, plan_of(net, requests))
    assert advice.operations == -2 * 512 * 64 * 256


def test_recomputation_of_a_kind_of_nodes():
    before = plan_of(trained())
    advice = advice_of(before, "recompute", "square")
    assert advice.change.startswith('with mx.AttrScope(force_mirroring="True"): around act0, act1')
    net = trained()
    for number in range(4):
        net.get_internals()[f"act{number}_output"]._set_attr(force_mirroring="True")
    assert_came_true(advice, before, plan_of(net))


def test_recomputation_of_all_cheap_nodes(monkeypatch):
    before = plan_of(trained())
    advice = advice_of(before, "recompute", "cheap nodes")
    monkeypatch.setenv(*advice.change.split("="))
    assert_came_true(advice, before, plan_of(trained()))


def test_tensors_that_are_read_late():
    before = plan_of(late(first=False), "null")
    advice = advice_of(before, "read earlier", "mean")
    after = plan_of(late(first=True), "null")
    assert_came_true(advice, before, after)
    assert "read earlier" not in [each.kind for each in advice_on(after.facts, after._what_if)]


def test_steps_between_reorders_of_layouts():
    shape = {"data": (2, 32, 32, 32)}
    before = plan_of(convolved(between=True), "null", **shape)
    advice = replace(advice_of(before, "layout", "flip"))
    after = plan_of(convolved(between=False), "null", **shape)
    counts = [len(each.facts.plan.steps) for each in (before, after)]
    moved = [sum(step.nbytes for step in each.facts.plan.steps) for each in (before, after)]
    assert counts[1] - counts[0] == advice.steps
    assert moved[1] - moved[0] == pytest.approx(advice.nbytes, rel=0.2)


@pytest.mark.parametrize(("reader", "after", "change"), [
    ("output", "nothing", "leave layer out of the outputs"),
    ("layer", "relu", "let sum read relu instead of layer")])
def test_nodes_that_are_not_fused(reader, after, change):
    before = plan_of(activated(reader), "null")
    advice = advice_of(before, "fuse", "relu")
    assert advice.change == change and "fuse_epilogue needs: " in advice.reason
    assert_came_true(advice, before, plan_of(activated(after), "null"))


def test_steps_far_from_their_roofs():
    explanation = plan_of(trained())
    times = [StepTimeFacts(index, 0.001, 0.01, 0.25 if index == 3 else 0.999, "float32 peak")
             for index in range(len(explanation.facts.plan.steps))]
    explanation.facts = replace(explanation.facts, measured=MeasuredFacts(
        1, 20, times, {"float32": 1e11}, {"memory": 1e10}))
    name = explanation.facts.plan.steps[3].name
    advice = advice_of(explanation, "slow step", name)
    assert advice.seconds == pytest.approx(-0.00075)
    assert [each.subject for each in explanation.facts.advice if each.kind == "slow step"] == [name]
    other = advice_of(explanation, "recompute", "square")
    assert other.seconds == pytest.approx(other.operations / 1e11 + other.nbytes / 1e10)


def test_the_best_advice_comes_first():
    explanation = plan_of(trained())
    answer = explanation.advice()
    by_kind = [each.subject for each in explanation.facts.advice if each.kind == "recompute"]
    # Dense layers free more memory than squares, and take far more time.
    assert by_kind.index("square") < by_kind.index("FullyConnected")
    first = explanation.facts.advice[0]
    assert answer.text.splitlines()[1].startswith(f"1.  {first.kind}: {first.subject}")
    assert f"{first.total / 1e6:+,.2f}" in answer.text


def test_files_keep_advice():
    explanation = plan_of(trained())
    explanation.advice()
    again = Explanation(from_json(json.loads(explanation.json())))
    assert str(again.advice()) == str(explanation.advice())
    with pytest.raises(MXNetError, match="does not tell what to change"):
        Explanation(plan_of(trained()).facts).advice()
