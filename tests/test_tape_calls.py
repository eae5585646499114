"""Random programs of recorded arithmetic, in nbmod and in MXNet: gradients agree."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import tape_calls

EACH = 100


@pytest.mark.parametrize("first", range(0, 500, EACH))
def test_recorded_programs_have_the_gradients_of_mxnet(oracle, first):
    for seed in range(first, first + EACH):
        theirs = oracle.call("mx_scripts.run", "tape_calls", "run", seed)
        ours = tape_calls.run(mx, seed)
        requests, steps = tape_calls.draw(seed)
        assert len(ours) == len(theirs), f"program {seed} ends after another step"
        for number, results in enumerate(zip(ours, theirs, strict=True)):
            # float64, in another order of sums
            assert_like(*results, 1e-7, f"program {seed} {requests}, {number} {steps[number]}")
