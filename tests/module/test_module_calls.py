"""Random sequences of calls of a Module, in nbmod and in MXNet: answers agree, call by call."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import module_calls

EACH = 40


@pytest.mark.parametrize("first", range(0, 400, EACH))
def test_calls_in_any_order_answer_as_in_mxnet(oracle, first):
    for seed in range(first, first + EACH):
        theirs = oracle.call("mx_scripts.run", "module_calls", "run", seed)
        ours = module_calls.run(mx, seed)
        net, options, calls = module_calls.draw(seed)
        for number, (call, *answers) in enumerate(zip(calls, ours, theirs, strict=False)):
            # Float32 sums are in another order, and updates add them up.
            assert_like(*answers, 1e-4, f"sequence {seed} ({net}, {options}), call {number} {call}")
        assert len(ours) == len(theirs), f"sequence {seed} ends after another call"
