"""Fixtures of all suites: one process of MXNet for all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nbmod.bench.foreign.worker_process import WorkerProcess

from .peers import SECONDS, arms_of, mxnet_worker

pytest_plugins = ["nbmod_pytest"]


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess | None]:
    """MXNet's process, or None without it."""
    client = mxnet_worker()
    yield client
    if client:
        client.close()


@pytest.fixture
def beside(kernel_benchmark: Callable[..., Any], worker: WorkerProcess | None
           ) -> Callable[..., None]:
    """Time a subject of `bench.programs` in nbmod, with MXNet as the baseline if it is there."""
    def run(program: Callable[..., Any], *args: Any) -> None:
        arms = arms_of(worker, program, *args)
        kernel_benchmark(arms["nbmod"].function, baseline=arms.get("MXNet"), seconds=SECONDS)
        if "MXNet" in arms:
            arms["MXNet"].forget()

    return run
