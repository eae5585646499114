"""Networks that cannot be bound or run: the node, the error, and what is known of shapes."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.explain.explanation import Explanation
from nbmod.explain.facts_json import from_json, to_json
from tests.explain.networks import NETWORKS

SYM = mx.sym


def layers():
    net = SYM.FullyConnected(SYM.Variable("data"), num_hidden=8, name="fc1")
    return SYM.FullyConnected(SYM.relu(net, name="relu1"), num_hidden=4, name="fc2")


def branches():
    """Two branches whose shapes do not agree."""
    left = layers()
    data = left.get_internals()["data"]
    right = SYM.FullyConnected(data, num_hidden=5, name="other")
    return SYM.exp(SYM.elemwise_add(left, right, name="sum"), name="exp")


def reshaped():
    return SYM.exp(SYM.Reshape(layers(), shape=(7, -1), name="rows"), name="exp")


@mx.operator.register("fails_when_it_runs")
class FailingProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        class Failing(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                raise ValueError("out of luck")

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                raise ValueError("out of luck")
        return Failing()


CONFLICTS = {
    "a parameter": (layers, {"data": (2, 3), "fc2_weight": (4, 9)}, {}, "fc2"),
    "two branches": (branches, {"data": (2, 3)}, {}, "sum"),
    "elements": (reshaped, {"data": (2, 3)}, {}, "rows"),
    "types": (layers, {"data": (2, 3)}, {"data": "float32", "fc2_weight": "float64"}, "fc2"),
    "nothing known": (layers, {}, {}, "data")}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_conflict_names_the_node_and_what_is_known_before_it(case):
    build, shapes, types, name = CONFLICTS[case]
    explanation = Explanation.planned(build(), shapes, type_dict=types)
    facts, failure = explanation.facts, explanation.facts.failure
    with pytest.raises(MXNetError) as raised:
        build().simple_bind(mx.cpu(), type_dict=types, **shapes)
    assert failure.message.partition(": ")[2] == str(raised.value).partition(": ")[2]
    assert (failure.stage, facts.nodes[failure.node].name) == ("inference", name)
    assert facts.graph and not facts.passes and not facts.plan.steps
    if shapes and not types:
        known = build().get_internals()["fc1_output"].infer_shape(data=(2, 3))[1][0]
        node = next(each for each in facts.nodes if each.name == "fc1")
        assert tuple(node.outputs[0].shape) == known
        assert facts.nodes[failure.node].outputs == [None]
    assert to_json(from_json(to_json(facts))) == to_json(facts)
    assert failure.message in str(explanation)
    assert "the network is not bound" in str(explanation.why(name))
    for ask in (explanation.advice, lambda: explanation.step(0)):
        with pytest.raises(MXNetError, match="not bound|has none"):
            ask()


def test_arguments_tell_what_would_fit():
    shapes = {"data": (2, 3), "fc2_weight": (4, 9)}
    failure = Explanation.planned(layers(), shapes).facts.failure
    fits = {each.name: each for each in failure.arguments}
    assert [*fits] == ["data", "weight", "bias"]
    assert fits["weight"].tensor.shape == [4, 9] and fits["weight"].fits.shape == [4, 8]
    shapes["fc2_weight"] = fits["weight"].fits.shape
    assert Explanation.planned(layers(), shapes).facts.failure is None


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_can_be_bound_have_no_failure(name):
    build, shapes, request = NETWORKS[name]
    facts = Explanation.planned(build(), shapes, grad_req=request).facts
    assert facts.failure is None and facts.plan.steps


def test_variables_of_one_name_are_named():
    net = layers() + SYM.FullyConnected(SYM.Variable("data"), num_hidden=4, name="other")
    facts = Explanation.planned(net, {"data": (2, 3)}).facts
    assert (facts.failure.stage, facts.nodes[facts.failure.node].name) == ("bind", "data")


def test_a_failure_of_bind_has_the_passes_before_it():
    net = SYM.exp(SYM.BlockGrad(SYM.Variable("x"), name="block"), name="exp")
    explanation = Explanation.planned(net, {"x": (2, 3)})
    failed = explanation.failed(MXNetError("bind: exp (exp): there is no memory"))
    failure = failed.facts.failure
    assert (failure.stage, failed.facts.nodes[failure.node].name) == ("bind", "exp")
    assert failure.arguments[0].tensor.shape == [2, 3]
    assert [each.name for each in failed.facts.passes] == ["skip_identities"]


def test_a_run_that_fails_tells_the_step_and_the_values_before_it():
    net = SYM.Custom(SYM.exp(SYM.Variable("x"), name="exp"), op_type="fails_when_it_runs",
                     name="own")
    executor = SYM.relu(net, name="relu").simple_bind(mx.cpu(), grad_req="null", x=(2, 3))
    explanation = executor.explain()
    with pytest.raises(MXNetError, match="out of luck"):
        explanation.record()
    facts, failure = explanation.facts, explanation.facts.failure
    step = next(index for index, each in enumerate(facts.plan.steps) if each.name == "own")
    assert (failure.stage, failure.step, failure.kind) == ("run", step, "MXNetError")
    assert [bool(each) for each in facts.run.steps] == [
        index < step for index in range(len(facts.plan.steps))]
    assert f"at step {step} own" in str(explanation)
    assert to_json(from_json(to_json(facts))) == to_json(facts)


def test_values_are_those_of_a_run_which_changes_no_array_of_the_user():
    net = SYM.BatchNorm(SYM.Variable("data"), fix_gamma=False, name="bn")
    net = SYM.FullyConnected(net, num_hidden=4, name="fc")
    executor = SYM.MakeLoss(SYM.log(net, name="log"), name="loss").simple_bind(
        mx.cpu(), grad_req="add", data=(3, 50))
    generator = np.random.default_rng(0)
    for array in (*executor.arg_dict.values(), *executor.grad_dict.values()):
        array[:] = generator.standard_normal(array.shape)
    arrays = [*executor.arg_dict.values(), *executor.grad_dict.values(),
              *executor.aux_dict.values()]
    before = [array.asnumpy() for array in arrays]
    explanation = executor.explain()
    answer = explanation.record()
    for array, values in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array.asnumpy(), values)
    facts = explanation.facts
    entries = {facts.plan.entries[each.entry].name: each for each in facts.run.arrays}
    data = before[0]
    assert entries["data"].low == float(f"{data.min():.4g}")
    assert len(entries["data"].sample) == 3 and len(entries["data"].sample[0]) == 16
    assert entries["data"].sample[2][15] == float(f"{data[2, 49]:.4g}")
    written = [{each.entry for each in step} for step in facts.run.steps]
    assert written == [{eid for eid in step.writes if eid is not None}
                       for step in facts.plan.steps]
    # Logarithms of negative numbers are no numbers.
    assert "the first values that are not finite" in str(answer)
    log = next(index for index, step in enumerate(facts.plan.steps) if "log" in step.name)
    assert answer.data["not_finite"][0] == log
    assert any(None in row for each in facts.run.steps[log] for row in each.sample)
    assert "not finite" in str(explanation.step(log))
