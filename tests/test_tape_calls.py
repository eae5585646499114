"""Random programs of recorded arithmetic, in nbmod and in MXNet: gradients agree."""

from __future__ import annotations

import pytest

from tests.compare import assert_sequences_agree
from tests.programs import tape_calls

EACH = 100


@pytest.mark.parametrize("first", range(0, 500, EACH))
def test_recorded_programs_have_the_gradients_of_mxnet(oracle, first):
    # float64, in another order of sums
    assert_sequences_agree(oracle, tape_calls, range(first, first + EACH), 1e-7)
