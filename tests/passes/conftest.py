"""Networks of these tests are bound with their passes validated, unless they are large."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nbmod.execution.pipeline import validating


@pytest.fixture(autouse=True)
def passes_are_validated(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("planned_only"):
        yield
    else:
        with validating():
            yield
