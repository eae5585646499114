"""The part of the tests that runs where numba and llvmlite cannot be imported: NumPy computes.

    python -m tests.without_compiler       as .ci/run does it; further arguments are pytest's

Modules of these names that raise ImportError come first in the search path, also in processes that
tests start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TESTS = (
    "tests/gluon/test_gluon.py", "tests/image/test_image.py", "tests/io/test_io.py",
    "tests/io/test_iterator_calls.py", "tests/kvstore/test_kvstore.py", "tests/metric",
    "tests/module/test_module.py", "tests/optimizer/test_optimizer.py", "tests/test_autograd.py",
    "tests/test_examples.py::test_example[mlp.py]",
    "tests/test_examples.py::test_example[lenet.py]",
)
COMPILED = {
    "test_numpy_parses_the_text_that_kernels_parse": "compares with kernels",
    "test_text_is_parsed_without_the_compiler": "asks for Python functions, which is reported",
}
"""Left out: part of a test's name -> why."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out `COMPILED`."""
    items[:] = [item for item in items if not any(name in item.name for name in COMPILED)]


@contextmanager
def blocked() -> Iterator[dict[str, str]]:
    """A block with the environment of processes that cannot import numba and llvmlite."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("numba", "llvmlite"):
            Path(folder, f"{name}.py").write_text(f"raise ImportError('{name} is blocked')\n")
        paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        yield os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def main(args: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-p", "tests.without_compiler", "-m",
               "not oracle and not gpu and not slow", "-q", "-r", "fE", *args]
    if not any(arg.startswith("tests") for arg in args):
        command += TESTS
    with blocked() as environment:
        return subprocess.call(command, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
