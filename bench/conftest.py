"""Fixtures of all suites: one process of MXNet for all rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.oracle.client import Oracle

from .peers import mxnet_worker


@pytest.fixture(scope="module")
def worker() -> Iterator[Oracle | None]:
    """MXNet's process, or None without it."""
    client = mxnet_worker()
    yield client
    if client:
        client.close()
