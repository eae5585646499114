"""Prints the coverage table of the comparisons with MXNet; skips where MXNet is unreliable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.oracle import coverage
from tests.oracle.client import Oracle


@pytest.fixture
def exact_products(oracle: Oracle) -> Callable[..., AbstractContextManager[None]]:
    """A block that compares products of 8-bit integers with MXNet's.

    On x86 processors without VNNI instructions oneDNN adds pairs of such products in 16 bits, which
    saturate.  Differences there are skipped.
    """
    @contextmanager
    def block(concerned: bool = True) -> Iterator[None]:
        try:
            yield
        except AssertionError:
            if concerned and oracle.call("mx_quantize.saturates"):
                pytest.skip("MXNet's 8-bit products saturate on this processor: it has no VNNI")
            raise

    return block


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """What agreed with MXNet, op by op; a failed run shows its failures, not 400 lines more."""
    lines = list(coverage.table())
    if lines and exitstatus == pytest.ExitCode.OK:
        terminalreporter.section(f"compared with MXNet 1.9.1: {len(lines) - 1} ops")
        for line in lines:
            terminalreporter.line(line)
