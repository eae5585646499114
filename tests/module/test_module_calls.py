"""Random sequences of calls of a Module, in nbmod and in MXNet: answers agree, call by call."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import bucket_calls, module_calls

EACH = 40


@pytest.mark.parametrize("first", range(0, 400, EACH))
@pytest.mark.parametrize("programs", [module_calls, bucket_calls])
def test_calls_in_any_order_answer_as_in_mxnet(oracle, programs, first):
    for seed in range(first, first + EACH):
        name = programs.__name__.rpartition(".")[2]
        theirs = oracle.call("mx_scripts.run", name, "run", seed)
        ours = programs.run(mx, seed)
        net, options, calls = programs.draw(seed)
        for number, (call, *answers) in enumerate(zip(calls, ours, theirs, strict=False)):
            # Float32 sums are in another order, and updates add them up.
            assert_like(*answers, 1e-4, f"sequence {seed} ({net}, {options}), call {number} {call}")
        assert len(ours) == len(theirs), f"sequence {seed} ends after another call"
