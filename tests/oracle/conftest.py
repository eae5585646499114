"""Prints the coverage table of the comparisons with MXNet."""

from __future__ import annotations

import pytest

from tests.oracle import coverage


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """What agreed with MXNet, op by op; a run that failed shows what failed, not 400 lines more."""
    lines = list(coverage.table())
    if lines and exitstatus == pytest.ExitCode.OK:
        terminalreporter.section(f"compared with MXNet 1.9.1: {len(lines) - 1} ops")
        for line in lines:
            terminalreporter.line(line)
