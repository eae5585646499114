"""MXNet 1.9.1 beside nbmod: a worker process in MXNet's own virtual environment.

The environment is the one the oracle tests use (`python -m tests.oracle.setup` makes it).
"""

from __future__ import annotations

import os
import sys

from tests.oracle.client import Oracle

from .mxnet_environment import find_python

__all__ = ["mxnet_worker"]


def mxnet_worker(threads: int = 0) -> Oracle | None:
    """The worker, by default with a thread per core; None, and a message, without MXNet."""
    python = find_python()
    if python is None:
        print("real MXNet is absent, so there is nothing beside nbmod; "
              "`python -m tests.oracle.setup` installs it", file=sys.stderr)
        return None
    return Oracle(python, timeout=600, threads=threads or os.cpu_count() or 1)
