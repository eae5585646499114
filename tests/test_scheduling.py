"""The processes of `--dist loadgroup` share test files, not tests."""

from __future__ import annotations

import json
from pathlib import Path

from tests.nested import run_pytest
from tests.scheduling import LONGEST, OPERATORS, unit_of

CONFTEST = """
import json, os, pathlib
from tests.conftest import pytest_xdist_make_scheduler

def pytest_runtest_call(item):
    with open(pathlib.Path(__file__).with_name(os.environ["PYTEST_XDIST_WORKER"]), "a") as file:
        file.write(json.dumps([item.path.name, item.name]) + "\\n")
"""
TESTS = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_passes(number):
    pass
"""


def test_a_file_runs_in_one_process_in_its_order(tmp_path):
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    names = ["test_a.py", "test_b.py", "test_c.py"]
    for name in names:
        (folder / name).write_text(TESTS)
    done = run_pytest(tmp_path, "-n", "2", "--dist", "loadgroup", str(folder))
    assert "18 passed" in done.stdout, done.stdout + done.stderr
    ran = {path.name: [json.loads(line) for line in path.read_text().splitlines()]
           for path in folder.glob("gw*")}
    assert len(ran) == 2
    files = [file for tests in ran.values() for file in dict.fromkeys(file for file, _ in tests)]
    assert sorted(files) == names
    assert all(tests == [[file, f"test_passes[{number}]"]
                         for file in dict.fromkeys(file for file, _ in tests)
                         for number in range(6)] for tests in ran.values())


def test_long_units_exist(request):
    root = request.config.rootpath
    assert [unit for unit in LONGEST if unit != OPERATORS and not (root / unit).is_file()] == []
    assert {unit_of(f"{unit}::test_it[a::b]") for unit in LONGEST[1:]} == {*LONGEST[1:]}
    assert unit_of("tests/ops/test_ops.py::test_it[1]") == OPERATORS


def test_quick_tests_are_there():
    from tests.conftest import QUICK

    folder = Path(__file__).parent
    assert [name for name in QUICK if not (folder / name).is_file()] == []
