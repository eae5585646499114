"""Answers about a plan agree with the plan itself, on networks that meet every kind of pass."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

import nbmod as mx
from nbmod.base import ArgumentError, MXNetError
from nbmod.explain.explanation import Explanation
from nbmod.explain.facts_json import from_json, to_json
from nbmod.explain.schema import RemarkFacts
from nbmod.passes.memory.plan import ALIGNMENT
from tests.explain.networks import NETWORKS, planned

each_network = pytest.mark.parametrize("name", NETWORKS)
plan_of = cache(planned)


def small(extra=False):
    """A ReLU that one layer reads, or a layer and much later a product."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64, name="fc1")
    relu = x = mx.sym.relu(x, name="relu1")
    for number in range(2, 5):
        x = mx.sym.FullyConnected(x, num_hidden=64, name=f"fc{number}")
    return mx.sym.dot(x, relu, transpose_b=True, name="product") if extra else x


def bound(symbol, request="null", **shapes):
    return symbol.simple_bind(mx.cpu(), grad_req=request, **(shapes or {"data": (16, 8)}))


# -- nodes ----------------------------------------------------------------------------------------


@each_network
def test_every_node_is_followed_to_where_it_is_computed(name):
    plan = plan_of(name)
    facts, final = plan.facts, {entry.node for entry in plan.facts.plan.entries}
    computed = [node for index in range(len(facts.plan.steps))
                for node in plan.step(index).data["computes"]]
    assert len(computed) == len(set(computed))
    for node in facts.graph:
        data = plan.why(node).data
        assert data["final"] is None or data["final"] in final
        assert (data["step"] is not None) == (node in computed)
        if data["final"] is None:     # only what reaches no output may go
            reached = {source for each in facts.outputs for source in [each[0]]}
            assert node not in reached
    reads = {node for each in facts.outputs for node in [each[0]]}
    assert all(plan.why(node).data["final"] is not None for node in reads)


def test_a_node_that_another_one_absorbs():
    plan = plan_of("residual")
    answer = plan.why("a_relu")
    assert "fuse_epilogue: becomes part of a_bn" in str(answer)
    step = plan.facts.plan.steps[answer.data["step"]]
    assert step.name == "a_bn" and answer.data["entries"]
    assert "a_relu" in str(plan.step("a_bn")).splitlines()[1]
    assert plan.why_not("a_relu", "fuse_epilogue").data["changed"]
    assert "a_relu became part of a_bn" in str(plan.why_not("a_relu", "fuse_elementwise"))


def test_layers_that_passes_replace():
    plan = plan_of("separable")
    assert plan.why("stem_bn").data["step"] == plan.why("stem_conv").data["step"]
    assert "fold_batch_norm: becomes part of stem_conv" in str(plan.why("stem_bn"))
    assert "computed when" in str(plan.why("stem_conv_packed"))
    assert "read by step" in str(plan.why("data"))


def test_refusals_tell_rule_evidence_and_place():
    facts = plan_of("residual").facts
    node = next(number for number in facts.graph if facts.nodes[number].name == "fc")
    remark = RemarkFacts("fuse_epilogue", node, None, "fc", "refused", "one reader",
                         {"readers": [{"node": 3, "name": "a"}, {"node": 4, "name": "b"}]},
                         "passes/optimize/fuse_epilogue.py:57")
    plan = Explanation(replace(facts, remarks=[remark]))
    answer = plan.why_not("fc_output", "fuse_epilogue")
    assert answer.data["refused"] == [0] and not answer.data["changed"]
    assert "fc: refused, since it needs: one reader (readers: a, b); rule at nbmod/passes/" in (
        str(answer))
    assert "one reader" in str(plan.why("fc")) and "refused: fuse_epilogue 1" in str(plan)
    assert "here it met FullyConnected" in str(plan.why_not("pool", "fuse_epilogue"))


def test_without_the_obstacle_that_is_named_a_node_is_fused():
    def plan(is_read_twice):
        x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64, name="fc1")
        relu = mx.sym.relu(x, name="relu1")
        last = mx.sym.FullyConnected(relu, num_hidden=64, name="fc2")
        return bound(mx.sym.Group([last, mx.sym.softmax(x, name="other")] if is_read_twice
                                  else [last])).explain()

    answer = plan(True).why_not("relu1", "fuse_epilogue")
    assert answer.data["refused"] and not answer.data["changed"]
    assert "other" in str(answer)
    answer = plan(False).why_not("relu1", "fuse_epilogue")
    assert answer.data["changed"] and not answer.data["refused"]


def test_memory_is_refused_by_tensors_and_steps_of_the_plan():
    plan = plan_of("residual")
    answer = plan.why_not("a_bn", "inplace")
    assert answer.data["refused"]
    assert "input: a_conv; steps: step" in str(answer) and "a_bn_backward" in str(answer)


def test_passes_that_are_switched_off_refuse_nothing():
    answer = planned("residual", "fuse_epilogue").why_not("a_relu", "fuse_epilogue")
    assert answer.data["disabled"] and "switched off" in str(answer)


# -- memory ---------------------------------------------------------------------------------------


@each_network
def test_what_keeps_a_tensor_is_the_last_that_touches_its_memory(name):
    plan = plan_of(name)
    build, shapes, request = NETWORKS[name]
    compiled = build().simple_bind(mx.cpu(), grad_req=request, **shapes).compiled
    last: dict[int, int] = {}
    for index, step in enumerate(compiled.plan_steps):
        for eid in step.inputs:
            last[compiled.plan.storage[eid]] = index
    for eid, sid in enumerate(compiled.plan.storage):
        if sid < 0:
            continue
        storage = compiled.plan.storages[sid]
        for index in {0, storage.first, storage.last, len(compiled.nodes) - 1}:
            data = plan.alive(eid, index).data
            assert data["alive"] == (storage.first <= index
                                     and (storage.held or index <= storage.last))
            waiting = [at for at, _ in data["waiting"]]
            assert waiting == sorted(waiting) and all(at >= index for at in waiting)
            if data["alive"] and not storage.held and index <= last.get(sid, -1):
                assert waiting[-1] == last[sid] == data["keeper"]["step"]


def test_without_its_last_reader_a_tensor_is_free_earlier():
    """The plan confirms the answer: it names the product, and without it the memory is free."""
    answers = [bound(small(extra)).explain().alive("relu1_output", "fc3")
               for extra in (True, False)]
    assert answers[0].data["alive"] and not answers[1].data["alive"]
    keeper = answers[0].data["keeper"]["step"]
    assert bound(small(True)).explain().facts.plan.steps[keeper].name == "product"
    assert str(answers[0]).startswith("relu1_output is fc1 in the plan: fc1 is alive")
    assert "yet to come: step 4 product reads fc1" in str(answers[0])
    assert answers[1].data["last"] < answers[0].data["last"]


def test_a_tensor_lives_on_in_those_that_overwrite_it():
    plan = plan_of("residual")
    heirs = [(eid, entry) for eid, entry in enumerate(plan.facts.plan.entries)
             if entry.in_place_of is not None]
    assert heirs
    for _, entry in heirs:
        before = plan.facts.plan.entries[entry.in_place_of]
        assert f"shares it with {entry.name}" in str(plan.alive(before.name, entry.producer))


@each_network
def test_storages_add_up(name):
    plan = plan_of(name)
    facts = plan.facts.plan
    for sid, storage in enumerate(facts.storages):
        data = plan.storage(sid).data
        members = [eid for eid, entry in enumerate(facts.entries) if entry.storage == sid]
        assert sorted(data["entries"]) == members
        if members:
            assert data["apart"] == sum(facts.entries[eid].nbytes for eid in members)
            assert data["cost"] == data["apart"] - storage.nbytes
        for other in data["same_addresses"]:
            each = facts.storages[other]
            assert each.last < storage.first or storage.last < each.first


@each_network
def test_the_peak_adds_up(name):
    plan = plan_of(name)
    data, facts = plan.peak().data, plan.facts.plan
    padded = [-(-facts.storages[sid].nbytes // ALIGNMENT) * ALIGNMENT for sid in data["storages"]]
    assert sum(padded) == data["nbytes"] == max(facts.memory.live)


def test_arrays_of_the_caller_have_no_memory_of_the_plan():
    plan = plan_of("residual")
    assert "an array of the caller" in str(plan.alive("fc_weight", 0))
    assert plan.alive("fc_weight", 0).data["storage"] is None


# -- steps ----------------------------------------------------------------------------------------


@each_network
def test_steps_are_told_as_they_are(name):
    plan = plan_of(name)
    for index, step in enumerate(plan.facts.plan.steps):
        answer = plan.step(index)
        assert answer.data["reads"] == list(step.reads)
        assert all(plan.facts.plan.steps[back].forward == index
                   for back in answer.data["gradients"])
        json.dumps(answer.data)


def test_steps_of_a_body_and_gradients_are_told():
    plan = plan_of("loop")
    assert "runs a body of" in str(plan.step(0)) and "fc (FullyConnected)" in str(plan.step(0))
    answer = plan_of("residual").step("a_conv")
    gradient = answer.data["gradients"][0]
    assert plan_of("residual").facts.plan.steps[gradient].name == "a_conv_backward"
    assert f"gradient of step {answer.data['step']} a_conv" in str(
        plan_of("residual").step(gradient))


# -- comparisons ----------------------------------------------------------------------------------


@each_network
def test_a_plan_equals_itself_and_its_file(name, tmp_path):
    plan = plan_of(name)
    (tmp_path / "facts.json").write_text(plan.json())
    for other in (plan, tmp_path / "facts.json"):
        answer = plan.compare(other)
        assert str(answer) == "the plans are equal" and answer.data["equal"]
        assert not answer.data["bytes"] and not answer.data["passes"]


@pytest.mark.parametrize("name, without", [
    ("joined", "alias_concat"), ("joined", "alias_slice"),
    ("lenet", "blocked_layout"), ("lenet", "reuse_memory"), ("residual", "fuse_epilogue"),
    ("residual", "inplace"), ("separable", "fold_batch_norm"), ("unrolled", "reroll_rnn"),
    ("recurrent", "write_gradients"), ("shared", "fuse_elementwise"), ("detector", "view"),
    ("bytes", "fuse_int8")])
def test_a_plan_without_a_pass_differs_by_that(name, without):
    with_pass, plain = plan_of(name), planned(name, without)
    data = with_pass.compare(plain).data
    assert not data["equal"] and any(without in line for line in data["network"])
    growth = data["total"][1] - data["total"][0]
    assert sum(sum(each.values()) for each in data["bytes"].values()) == growth
    changes = {each.name for each in with_pass.facts.passes}
    if without in changes:
        assert data["first"].startswith(f"the graph after {without}")
        assert any(line.startswith(f"{without}:") for line in data["passes"])
    else:
        assert data["bytes"]


def test_causes_of_growth_are_named():
    data = plan_of("residual").compare(planned("residual", "inplace")).data
    lost = data["bytes"]["no longer in place of another"]
    entries = {entry.name for entry in plan_of("residual").facts.plan.entries
               if entry.in_place_of is not None}
    assert lost and set(lost) <= entries
    views = plan_of("detector").compare(planned("detector", "view")).data["bytes"]
    assert "flat" in views["no longer a view"]


def test_steps_that_are_new_gone_or_moved():
    first, second = bound(small()).explain(), bound(small(True)).explain()
    data = first.compare(second).data
    assert data["new"] == ["product (dot)"] and not data["gone"] and not data["moved"]
    assert second.compare(first).data["gone"] == ["product (dot)"]
    x, y = (mx.sym.exp(mx.sym.Variable(name), name=f"exp_{name}") for name in "xy")
    orders = [bound(mx.sym.Group(order), x=(2, 3), y=(2, 3)).explain()
              for order in ([x, y], [y, x])]
    assert len(orders[0].compare(orders[1]).data["moved"]) == 1


def test_networks_that_are_built_again_are_equal():
    """Automatic names count on; those of parameters follow them."""
    def plan(request):
        x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64)
        return bound(mx.sym.tanh(x * 2) + mx.sym.Activation(x, act_type="relu"), request,
                     data=(64, 8)).explain()

    first, second = plan("write"), plan("write")
    assert first.facts.network.arguments != second.facts.network.arguments
    assert first.compare(second).data["equal"]
    assert second.compare(first).data["equal"]


def test_other_implementations_are_told():
    facts = to_json(plan_of("joined").facts)
    values = json.loads(json.dumps(facts))
    step = next(each for each in values["plan"]["steps"] if each["implementation"])
    step["implementation"]["chosen"]["name"] = "another"
    answer = plan_of("joined").compare(Explanation(from_json(values)))
    assert answer.data["implementations"] == [f"{step['name']}: numba becomes another"]
    assert step["name"] in answer.data["first"]


# -- names and questions --------------------------------------------------------------------------


def test_tensors_have_the_names_of_both_mxnet_and_the_plan():
    plan = plan_of("residual")
    assert plan.alive("a_conv", 3).data == plan.alive("a_conv_output", 3).data
    assert plan.alive("a_bn_mean", 3).data == plan.alive("a_bn.mean", 3).data
    assert plan.alive("a_bn", 3).data == plan.alive("a_bn.output", 3).data
    assert plan.step("a_bn").data["step"] == plan.alive("a_bn", "a_bn").data["step"]
    assert plan.why("a_conv").data == plan.why("a_conv_output").data
    assert plan.alive("a_relu_output", 3).data["entry"] == plan.alive("a_bn", 3).data["entry"]


@pytest.mark.parametrize("question, message", [
    (lambda plan: plan.why("a_rel"), "did you mean 'a_relu'"),
    (lambda plan: plan.alive("a_con", 1), "did you mean 'a_conv'"),
    (lambda plan: plan.step("a_con"), "did you mean 'a_conv'"),
    (lambda plan: plan.why_not("a_relu", "fuse_epilog"), "did you mean 'fuse_epilogue'"),
    (lambda plan: plan.step(999), "no step 999; the last one is"),
    (lambda plan: plan.storage(-1), "no storage -1"),
    (lambda plan: plan.why(10000), "no node 10000")])
def test_unknown_names_get_a_suggestion(question, message):
    with pytest.raises(MXNetError, match=message):
        question(plan_of("residual"))


def test_a_name_of_several_nodes_asks_for_a_number():
    x = mx.sym.Variable("data")
    net = mx.sym.Group([mx.sym.exp(x, name="twice"), mx.sym.sin(x, name="twice")])
    plan = bound(net).explain()
    with pytest.raises(MXNetError, match=r"several nodes .*1 \(exp\), 2 \(sin\)"):
        plan.why("twice")
    with pytest.raises(MXNetError, match="several tensors"):
        plan.alive("twice", 0)
    assert plan.why(2).data["name"] == "twice"


def test_a_value_that_is_nowhere_says_who_computes_it():
    x = mx.sym.exp(mx.sym.sin(mx.sym.Variable("data"), name="inner"), name="outer")
    with pytest.raises(MXNetError, match=r"(?s)no memory.*becomes part of inner\+outer"):
        bound(x, data=(64, 64)).explain().alive("inner", 0)


def test_executors_answer_directly(tmp_path):
    executor = bound(small(True))
    plan = executor.explain()
    assert executor.explain("relu1") == plan.why("relu1")
    assert executor.explain("relu1", not_in="cse") == plan.why_not("relu1", "cse")
    assert executor.explain("relu1", alive_at=3) == plan.alive("relu1", 3)
    assert executor.explain(step=0) == plan.step(0)
    assert executor.compare(executor).data["equal"]
    (tmp_path / "facts.json").write_text(plan.json())
    assert executor.compare(tmp_path / "facts.json").data["equal"]
    assert not bound(small()).compare(plan).data["equal"]
    for wrong in ({"node": "relu1", "step": 3}, {"not_in": "cse"}, {"alive_at": 3},
                  {"node": "relu1", "not_in": "cse", "alive_at": 3}):
        with pytest.raises(ArgumentError, match="ask about a node"):
            executor.explain(**wrong)
