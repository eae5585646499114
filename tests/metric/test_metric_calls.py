"""Random sequences of calls of metrics, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

from tests.compare import assert_sequences_agree
from tests.programs import metric_calls

EACH = 150


@pytest.mark.parametrize("first", range(0, 300, EACH))
def test_metrics_have_mxnets_values(oracle, first):
    assert_sequences_agree(oracle, metric_calls, range(first, first + EACH), 1e-5)  # of float32
