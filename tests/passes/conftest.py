"""Every network of these tests is bound with its passes validated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nbmod.execution.pipeline import validating


@pytest.fixture(autouse=True)
def passes_are_validated() -> Iterator[None]:
    with validating():
        yield
