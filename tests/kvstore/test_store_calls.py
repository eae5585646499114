"""Random sequences of calls of a key-value store, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import store_calls

EACH = 50


@pytest.mark.parametrize("first", range(0, 300, EACH))
def test_calls_of_a_store_answer_as_in_mxnet(oracle, first):
    for seed in range(first, first + EACH):
        theirs = oracle.call("mx_scripts.run", "store_calls", "run", seed)
        ours = store_calls.run(mx, seed)
        kind, calls = store_calls.draw(seed)
        for number, (call, *answers) in enumerate(zip(calls, ours, theirs, strict=True)):
            # Values are integers; Adam's roots are rounded in either order.
            assert_like(*answers, 1e-5, f"store {kind}, program {seed}, call {number} {call}")
