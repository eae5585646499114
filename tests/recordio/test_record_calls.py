"""Random sequences of calls of record files, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

from tests.compare import assert_sequences_agree
from tests.programs import record_calls

EACH = 100


@pytest.mark.parametrize("first", range(0, 200, EACH))
def test_record_files_answer_as_in_mxnet(oracle, first):
    assert_sequences_agree(oracle, record_calls, range(first, first + EACH), 0)
