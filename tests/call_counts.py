"""Costs measured as counts of Python calls, which do not depend on the machine or its load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_of(work: Callable[[], Any]) -> int:
    """The calls and returns of functions, Python's and C's, that `work` makes."""
    count = 0

    def tick(*event: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
