"""Random sequences of calls of a Module, in nbmod and in MXNet: answers agree, call by call."""

from __future__ import annotations

import pytest

from tests.compare import assert_sequences_agree
from tests.programs import bucket_calls, module_calls, sequential_calls

EACH = 40


@pytest.mark.parametrize("first", range(0, 400, EACH))
@pytest.mark.parametrize("programs, tolerance", [
    (module_calls, 1e-4), (bucket_calls, 1e-4), (sequential_calls, 1e-3)])
def test_calls_in_any_order_answer_as_in_mxnet(oracle, programs, tolerance, first):
    # Float32 sums are in another order, and updates add them up.
    assert_sequences_agree(oracle, programs, range(first, first + EACH), tolerance)
