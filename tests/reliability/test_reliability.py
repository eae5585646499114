"""The short form of every measurement."""

from __future__ import annotations

import pytest

from tests.reliability import promises, table
from tests.reliability.figures import Effort

SHORT = Effort(share=0.002)


@pytest.mark.parametrize("promise", list(promises.load()), ids=lambda promise: promise.name)
def test_promise_holds(promise):
    row = table.Row(promise, promise.measure(SHORT), [], 0.0)
    assert sum(figure.trials for figure in row.ours)
    assert not row.broken, table.as_text(row)
