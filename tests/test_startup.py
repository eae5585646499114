"""What a new process pays: importing is quick, lazy, and compiles nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def seconds(code: str) -> float:
    """The number that `code` prints last in a process of its own; the best of five tries."""
    return min(float(run(code).split()[-1]) for _ in range(5))


def run(code: str) -> str:
    # Users have byte code after the first start; a developer's switch must not be what is timed.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=env
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_import_is_quick():
    code = "import time; t = time.perf_counter(); import nbmod; print(time.perf_counter() - t)"
    assert seconds(code) < 0.7


@pytest.mark.parametrize("module", ["nbmod", "nbmod.ops", "nbmod.serialization"])
def test_import_loads_no_compiler_and_no_image_library(module):
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = set(run(code).split())
    assert not loaded & {"numba", "llvmlite", "PIL", "cv2", "matplotlib"}


def test_the_first_eager_expression_needs_no_compiler():
    """Arithmetic, reduction, shape and indexing within 50 ms of the import being done.

    Processor time: in so short a span a busy machine would be timed instead.
    """
    code = """
import nbmod as mx, sys, time
start = time.process_time()
y = ((mx.nd.ones((2, 3)) * 2 + 1).reshape((3, 2))[1:].sum()).asscalar()
took = time.process_time() - start
assert y == 12 and 'numba' not in sys.modules, (y, 'numba' in sys.modules)
print(took)
"""
    assert seconds(code) < 0.05
