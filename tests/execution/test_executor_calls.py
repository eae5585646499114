"""Random sequences of calls of executors, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

from tests.compare import assert_sequences_agree
from tests.programs import executor_calls

EACH = 100


@pytest.mark.parametrize("first", range(0, 300, EACH))
def test_executors_answer_as_in_mxnet(oracle, first):
    # Gradients through the statistics of two samples, in float32.
    assert_sequences_agree(oracle, executor_calls, range(first, first + EACH), 1e-3)
