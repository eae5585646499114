"""The table of implementations: choices among several rows, with reasons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import OutOfMemory
from nbmod.ops import OPS, dispatch
from nbmod.ops.device import device_of
from nbmod.ops.dispatch import EAGER, NUMBA, Candidate, Estimate, Implementation
from nbmod.ops.op import Backward, Call, Op, Spec

SHORT, LONG = (Spec((size,), np.dtype(np.float32)) for size in (4, 400))


@dataclass(frozen=True)
class Chosen(Op):
    """An op without methods that compute."""

    name = "chosen"


def row(key, name, estimate):
    return Implementation(key, f"tests.{name}", lambda op, ins, outs, call: name,
                          lambda op, ins, outs: [*ins], estimate, name)


@pytest.fixture
def table():
    """A row for long arrays, a cheap one for short ones, and one with another key."""
    for each in (
            row(NUMBA, "long", lambda op, ins, outs: Estimate(10.0)),
            row(NUMBA, "short", lambda op, ins, outs: Estimate(
                5.0, "takes up to 100 elements" if ins[0].size > 100 else "")),
            row(EAGER, "slow", dispatch.unknown)):
        dispatch.declare(Chosen, each)
    yield
    for key in (NUMBA, EAGER):
        dispatch._ROWS.pop((Chosen, key, False))
    dispatch._FOUND.clear()


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("spec, name, rejected", [
    (SHORT, "short", ["long (10 ns)", "slow (numba precedes it)"]),
    (LONG, "long", ["short (takes up to 100 elements)", "slow (numba precedes it)"]),
], ids=["short", "long"])  # fmt: skip
def test_the_cheapest_that_applies_is_chosen(spec, name, rejected):
    choice = dispatch.choose(Chosen(), [NUMBA, EAGER], [spec], [spec])
    assert choice.name == name and [*map(str, choice.rejected)] == rejected
    assert choice.workspace == [spec]
    assert choice.prepare([spec], [spec], Call()) == name
    assert dispatch.prepare(Chosen(), [NUMBA, EAGER], [spec], [spec], Call()) == name


@pytest.mark.usefixtures("table")
def test_keys_are_preferred_in_their_order():
    choice = dispatch.choose(Chosen(), [EAGER, NUMBA], [SHORT], [SHORT])
    assert choice.name == "slow" and choice.cost == np.inf
    assert [*map(str, choice.rejected)] == ["long (eager precedes it)", "short (eager precedes it)"]


@pytest.mark.usefixtures("table")
def test_the_next_key_serves_where_none_applies():
    refused = Estimate(why_not="takes nothing")
    for name in ("long", "short"):
        dispatch.declare(Chosen, row(NUMBA, name, lambda op, ins, outs: refused))
    choice = dispatch.choose(Chosen(), [NUMBA, EAGER], [SHORT], [SHORT])
    assert choice.name == "slow"
    assert [each.estimate for each in choice.rejected] == [refused] * 2
    choice = dispatch.choose(Chosen(), [NUMBA], [SHORT], [SHORT])
    assert choice.chosen is None and len(choice.rejected) == 2
    with pytest.raises(mx.MXNetError, match="chosen has no implementation 'numba'"):
        choice.prepare([SHORT], [SHORT], Call())


def test_a_candidate_says_what_it_consists_of():
    part = dispatch.choose(OPS["relu"](), [EAGER])
    candidate = Candidate(row(NUMBA, "pair", dispatch.unknown), Estimate(1200.0, "", [part, part]))
    assert str(candidate) == "pair (1,200 ns) of eager + eager"


def test_estimates_are_of_the_arrays_that_are_computed_with():
    """Not of float16 tensors, nor of channels-last ones."""
    found = []
    for layout, dtype in (("NCHW", "float32"), ("NHWC", "float32"), ("NHWC", "float16")):
        net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 2), num_filter=2,
                                 layout=layout)
        shape = (2, 5, 9, 7) if layout == "NCHW" else (2, 9, 7, 5)
        executor = net.simple_bind(mx.cpu(), data=shape, type_dict={"data": dtype})
        choices = [each for each in executor.compiled.choices if each and each.parts]
        assert all(isinstance(each.op, Backward) == (len(each.parts) == 2) for each in choices)
        found.append([(part.op, part.name, part.cost) for each in choices for part in each.parts])
    assert len(found[0]) == 3 and found[0] == found[1] == found[2]


def test_a_plan_shows_what_was_rejected():
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=2, name="conv")
    text = net.simple_bind(mx.cpu(), data=(1, 3, 6, 6)).debug_str()
    lines = [line for line in text.splitlines() if "; rejected: " in line]
    assert [line.split(": ")[0] for line in lines] == [
        "conv forward", "conv_backward data", "conv_backward weight"]
    assert all(" ns)" in line and "conv_gemm" in line for line in lines)


def test_interpreted_nodes_ask_for_their_workspace_once(monkeypatch):
    asked, device = [], device_of(mx.cpu())
    monkeypatch.setattr(type(device), "workspace",
                        lambda self, op, ins, outs: asked.append(op) or [])
    x = mx.nd.array([[0, 2]]).tostype("csr")
    executor = mx.sym.relu(mx.sym.Variable("x", stype="csr") * 2).bind(mx.cpu(), {"x": x})
    executor.forward()
    first = len(asked)
    executor.forward()
    assert 0 < first == len(asked)


@pytest.mark.parametrize("ask", ["choose", "workspace"])
def test_what_no_machine_has_memory_for_is_refused_before_it_is_planned(ask):
    spec = Spec((2 ** 50,), np.dtype(np.float32))
    with pytest.raises(OutOfMemory):
        getattr(device_of(mx.cpu()), ask)(OPS["relu"](), [spec], [spec])
