"""Random sequences of calls of iterators, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import iterator_calls

EACH = 50


@pytest.mark.parametrize("first", range(0, 300, EACH))
def test_calls_of_iterators_answer_as_in_mxnet(oracle, first):
    for seed in range(first, first + EACH):
        theirs = oracle.call("mx_scripts.run", "iterator_calls", "run", seed)
        ours = iterator_calls.run(mx, seed)
        *made, calls = iterator_calls.draw(seed)
        # What did not come about has the one answer "error".
        for number, answers in enumerate(zip(ours, theirs, strict=True)):
            assert_like(*answers, 0, f"program {seed} {made}, call {number} {calls[number]}")
