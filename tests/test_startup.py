"""What a new process loads: importing is lazy, and compiles nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("module", ["nbmod", "nbmod.ops", "nbmod.serialization"])
def test_import_loads_no_compiler_and_no_image_library(module):
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = set(run(code).split())
    assert not loaded & {"numba", "llvmlite", "PIL", "cv2", "matplotlib"}


def test_the_first_eager_expression_needs_no_compiler():
    """Arithmetic, reduction, shape and indexing; `bench.startup` measures how long they take."""
    code = """
import nbmod as mx, sys
y = ((mx.nd.ones((2, 3)) * 2 + 1).reshape((3, 2))[1:].sum()).asscalar()
print(y, 'numba' in sys.modules)
"""
    assert run(code).split() == ["12.0", "False"]
