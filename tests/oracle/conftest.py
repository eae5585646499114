"""Prints the coverage table of the comparisons with MXNet."""

from __future__ import annotations

import pytest

from tests.oracle import coverage


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What agreed with MXNet, op by op."""
    lines = list(coverage.table())
    if lines:
        terminalreporter.section(f"compared with MXNet 1.9.1: {len(lines) - 1} ops")
        for line in lines:
            terminalreporter.line(line)
