"""Measured times among the facts: of the steps that run, and whole after a file."""

from __future__ import annotations

import json

import pytest

from nbmod import bench
from nbmod.explain.facts_json import from_json
from tests.explain.test_facts import bound


@pytest.mark.parametrize("grad_req", ["null", "write"])
def test_every_step_has_a_time(grad_req):
    executor = bound(grad_req)
    explanation = executor.explain(measured=bench.step_facts(executor, rounds=2))
    facts, measured = explanation.facts, explanation.facts.measured
    assert [each.step for each in measured.steps] == list(range(len(facts.plan.steps)))
    assert all(each.seconds > 0 for each in measured.steps)
    roofs = {"float32 peak", *(f"{level} bandwidth" for level in measured.bandwidths)}
    for each in measured.steps:
        step = facts.plan.steps[each.step]
        assert (each.roof in roofs and each.share > 0) if step.nbytes else each.share is None
        answer = explanation.step(each.step)
        assert (answer.data["seconds"], answer.data["share"]) == (each.seconds, each.share)
        assert (f"bounded by {each.roof}" in str(answer)) == (each.share is not None)
    assert from_json(json.loads(explanation.json())).measured.steps == measured.steps


def test_a_run_of_inference_leaves_the_plan_as_it_is():
    executor = bound("null")
    before = executor.explain().json()
    bench.step_facts(executor, rounds=1)
    assert executor.explain().json() == before
