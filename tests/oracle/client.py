"""The test side: `Oracle` is a process of MXNet that calls functions of `tests/oracle/mx_*.py`.

    oracle = Oracle(find_python())
    oracle.call("mx_ops.list_ops")
"""

from __future__ import annotations

from pathlib import Path

from bench.virtual_environment import ROOT
from nbmod.bench.foreign.worker_process import WorkerCrash as OracleCrash
from nbmod.bench.foreign.worker_process import WorkerError as OracleError
from nbmod.bench.foreign.worker_process import WorkerProcess

__all__ = ["Oracle", "OracleCrash", "OracleError"]


class Oracle(WorkerProcess):
    """Calls functions of this package, or of another one, in a process of MXNet."""

    def __init__(self, python: Path, timeout: float = 60.0, threads: int = 1,
                 package: str = "tests.oracle") -> None:
        super().__init__(python, ROOT, package, timeout, threads, {"MXNET_SUBGRAPH_VERBOSE": "0"})
