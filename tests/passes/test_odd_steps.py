"""Cells that are unrolled by hand, with odd steps: results equal those without rerolling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from tests.passes.test_reroll_rnn import (
    BATCH,
    CELLS,
    HIDDEN,
    Weights,
    bound,
    gru_step,
    lstm_step,
    ops_of,
    results,
)

ODD = ("state", "memory", "older", "sides", "weight", "same", "twice", "input", "fed", "order", "")
"""h2h reads another state, or the gate blends one, or both read that of two steps ago; i2h and h2h
change sides, have another weight or the same; another step continues this one; the input is that of
the step before, or its output; gates change places; nothing is odd."""


def odd_steps(kind: str, odds: Sequence[str], shown: Sequence[bool]) -> Any:
    """A cell that is unrolled by hand, with something odd in each step; outputs are those shown."""
    weights, others, orders = Weights(), Weights(), {"lstm": (0, 2, 1, 3), "gru": (1, 0, 2)}
    others.params = mx.rnn.RNNParams("other_")
    past = [(mx.sym.Variable("h"), mx.sym.Variable("c"))]
    inputs, outputs = [mx.sym.Variable("x")], []

    def step(odd: str) -> tuple[Any, Any]:
        h, c = past[-2] if odd == "older" and len(past) > 1 else past[-1]
        x = {"input": inputs[-1], "fed": h}.get(odd, mx.sym.Variable(f"x{len(inputs)}"))
        inputs.append(x)
        read = mx.sym.tanh(h * 2) if odd == "state" else h
        h, c = (mx.sym.sin(each) if odd == "memory" else each for each in (h, c))
        gates = {"lstm": 4, "gru": 3}.get(kind, 1)
        layers = (others if odd == "weight" else weights).layers(
            *((read, x) if odd == "sides" else (x, read)), gates)
        if odd == "same":
            layers = weights.layers(x, read, gates)[0], weights.layers(h, x, gates)[0]
        order = {"order": orders[kind]} if odd == "order" and kind in orders else {}
        if kind == "lstm":
            return lstm_step(layers, c, **order)
        if kind == "gru":
            h = gru_step(layers, h, **order)
            return h, h
        h = mx.sym.Activation(layers[0] + layers[1], act_type=kind)
        return h, h

    for odd in odds:
        if odd == "twice":
            outputs.append(step("")[0])
        past.append(step(odd))
    outputs += [h for (h, _), show in zip(past[1:-1], shown, strict=False) if show]
    return mx.sym.Group([*outputs, past[-1][0]])


def compare_odd(kind: str, odds: Sequence[str], shown: Sequence[bool], is_train: bool) -> list[str]:
    """Results are those without the pass; the ops that ran.  Sums of some ten terms of size 1."""
    symbol, found = odd_steps(kind, odds, shown), []
    shapes = dict.fromkeys((name for name in symbol.list_arguments() if "_" not in name),
                           (BATCH, HIDDEN))
    for off in ((), ("reroll_rnn",)):
        with mx.without_passes(*off):
            found.append(bound(symbol, False, "float64", "write" if is_train else "null", **shapes))
    ours, plain = (results(executor, is_train) for executor in found)
    for name, array in plain.items():
        np.testing.assert_allclose(ours[name], array, rtol=1e-12, atol=1e-12, err_msg=name)
    return ops_of(found[0])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(CELLS)), st.lists(st.sampled_from(ODD), min_size=2, max_size=7),
       st.lists(st.booleans(), min_size=6, max_size=6), st.booleans())
def test_odd_steps_compute_what_single_nodes_do(kind, odds, shown, is_train):
    compare_odd(kind, odds, shown, is_train)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(("where", "is_train"), [(0, True), (2, False)])
def test_an_odd_step_does_not_keep_others_from_being_a_layer(kind, odd, where, is_train):
    """Of five the first or the middle one: at least two others are in a row."""
    odds = ["", "", "", "", ""]
    odds[where] = odd
    assert "_recurrent_layer" in compare_odd(kind, odds, [True] * 4, is_train)
