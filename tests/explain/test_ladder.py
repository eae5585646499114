"""NBMOD_DEBUG: each level tells what the one before does, and one thing more."""

from __future__ import annotations

from dataclasses import replace

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.core.config import CONFIG
from nbmod.explain.explanation import Explanation
from nbmod.explain.facts_json import from_json, to_json
from nbmod.explain.step_kernels import step_kernels
from nbmod.ops.jit import lacks_compiler

needs_compiler = pytest.mark.skipif(lacks_compiler(), reason="there are no kernels")


def network():
    """A layer with kernels, which writes its states, and steps that NumPy runs."""
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
    return mx.sym.tanh(mx.sym.exp(net, name="exp"), name="tanh")


def bound(grad_req="write"):
    return network().simple_bind(mx.cpu(), grad_req=grad_req, data=(4, 3))


@pytest.fixture
def told(monkeypatch, capsys):
    """What a bind prints at a level."""
    def call(level):
        monkeypatch.setattr(CONFIG, "debug", level)
        capsys.readouterr()
        bound()
        return capsys.readouterr().out
    return call


def test_the_first_level_is_a_line(told):
    assert told(0) == ""
    assert told(1).count("\n") == 1 and told(1).startswith("bind tanh on cpu(0): data (4, 3)")


def test_the_second_level_is_the_table_of_steps(told):
    assert told(2).startswith(told(1))
    assert bound().debug_str().splitlines()[-3] in told(2)
    assert "pass with_gradients" not in told(2)


def test_the_third_level_tells_of_passes(told):
    text = told(3)
    assert text.startswith(told(2).rstrip())
    assert "pass with_gradients: " in text and "pass write_gradients: " in text
    assert "kernel " not in text


@needs_compiler
def test_the_fourth_level_has_the_source_of_kernels(told):
    text = told(4)
    assert "kernel " in text and "def " in text and "hot loop" not in text


@needs_compiler
def test_the_fifth_level_has_machine_code(told):
    text = told(5)
    assert "hot loop of " in text and " instructions, vectors of " in text


@needs_compiler
def test_steps_know_their_kernels_and_leave_arrays_alone():
    executor = bound("add")
    arrays = [*executor.aux_dict.values(), *executor.grad_dict.values()]
    for array in arrays:
        array[:] = 3
    kernels = step_kernels(executor.planned)
    running = [index for index, step in enumerate(executor.explain().facts.plan.steps)
               if not step.is_view]
    assert sorted(kernels) == running
    assert {kernels[index][0].name for index in running if kernels[index]} == {
        "_forward_columns", "_backward_columns"}
    assert all((array.asnumpy() == 3).all() for array in arrays if array is not None)


@needs_compiler
def test_code_of_steps_is_among_the_facts_once_somebody_asked():
    explanation = bound().explain()
    text = str(explanation.code("bn"))
    assert "kernel _forward_columns at ops/nn/batch_norm.py:" in text
    assert "before code generation" in text and "def _forward_columns(" in text
    assert [(each.step, each.kernels) for each in explanation.facts.code.steps] == [(0, [0])]
    code = explanation.code().data
    facts = explanation.facts
    assert {int(step) for step in code} == {
        index for index, step in enumerate(facts.plan.steps) if not step.is_view}
    assert [each.name for each in facts.code.kernels] == ["_forward_columns", "_backward_columns"]
    for kernel in facts.code.kernels:
        assert kernel.vector_bits >= 128 and kernel.instructions == len(
            kernel.assembly.splitlines())
        assert "x float>" in kernel.intermediate or "x double>" in kernel.intermediate
    loaded = Explanation(from_json(to_json(facts)))
    assert str(loaded.code("bn")) == text
    with pytest.raises(MXNetError, match="without arrays"):
        Explanation(replace(facts, code=None)).code("bn")
