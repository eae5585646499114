"""Random sequences of calls of iterators, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

from tests.compare import assert_sequences_agree
from tests.programs import iterator_calls

EACH = 50


@pytest.mark.parametrize("first", range(0, 300, EACH))
def test_calls_of_iterators_answer_as_in_mxnet(oracle, first):
    # What did not come about has the one answer "error".
    assert_sequences_agree(oracle, iterator_calls, range(first, first + EACH), 0)
