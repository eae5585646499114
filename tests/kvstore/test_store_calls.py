"""Random sequences of calls of a key-value store, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

from tests.compare import assert_sequences_agree
from tests.programs import store_calls

EACH = 50


@pytest.mark.parametrize("first", range(0, 300, EACH))
def test_calls_of_a_store_answer_as_in_mxnet(oracle, first):
    # Values are integers; Adam's roots are rounded in either order.
    assert_sequences_agree(oracle, store_calls, range(first, first + EACH), 1e-5)
