"""One engine times functions, `nbmod.bench`: no other file has a timing loop of its own."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "docs", "examples", "kernels", "nbmod", "tests/oracle", "tests/programs")
ENGINE = "nbmod/bench/"
CLOCKS = {f"{clock}{unit}" for clock in ("perf_counter", "process_time", "thread_time")
          for unit in ("", "_ns")} | {"clock_gettime", "timeit", "repeat"}
DEADLINES = {"monotonic", "time"}
"""Clocks that also tell when to give up: only their differences count."""
READS = re.compile("|".join([*CLOCKS - {"repeat"}, *(f"time.{each}" for each in DEADLINES)]))
LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
PARTS = "tells how long each part of a single run took"
ALLOWED = {
    **dict.fromkeys(("bench/onnx_export.py", "bench/onnx_models.py", "bench/verdicts.py",
                     "kernels/__main__.py", "nbmod/cli/doctor.py", "nbmod/cli/self_test.py",
                     "tests/programs/graph_runs.py"), PARTS),
    **dict.fromkeys(("nbmod/compat/feedforward.py", "nbmod/module/base_module.py"),
                    "MXNet's log has the seconds of every epoch"),
    **dict.fromkeys(("bench/gpu.py", "nbmod/ops/cuda/check.py"), "begin nothing after a limit"),
    "bench/distributed_ranks.py": "all ranks enter an exchange together; events of training steps",
    "bench/loader.py": "processor time of the processes of a loader, over epochs",
    "bench/serving.py": "requests a second of a server and its clients",
    "bench/startup.py": "processes from their start to their end, which are cold only once",
    "nbmod/cli/dist_test.py": "all ranks enter an exchange together",
    "nbmod/kvstore/distributed/watchdog.py": "how long an exchange has waited",
    "nbmod/ops/blocked/autotune.py": "chooses an algorithm while a network runs, below the bench",
    "nbmod/ops/build/progress.py": "a progress bar",
    "nbmod/profiler/recorder.py": "the times of events",
}
"""File with a clock in a loop, around one, or in a function that a loop calls -> reason."""


def is_clock(node: ast.AST, names: set[str]) -> bool:
    """Whether this calls `time.perf_counter`, or `perf_counter`, or passes it on."""
    if isinstance(node, ast.Attribute):
        return node.attr in names and isinstance(node.value, ast.Name) and node.value.id in (
            "time", "timeit")
    return isinstance(node, ast.Name) and node.id in names - DEADLINES - {"repeat"}


def reads(tree: ast.Module) -> Iterator[ast.AST]:
    """Where clocks are read: the first kind anywhere, deadlines only in `time.time() - began`."""
    for node in ast.walk(tree):
        if is_clock(node, CLOCKS):
            yield node
        elif (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
              and isinstance(node.left, ast.Call) and is_clock(node.left.func, DEADLINES)):
            yield node


def repeated(tree: ast.Module) -> list[int]:
    """Lines that read a clock in a loop, or in a function that is called in a loop, and those
    that divide the seconds of one."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    called = {name for loop in ast.walk(tree) if isinstance(loop, LOOPS)
              for node in ast.walk(loop) if isinstance(node, ast.Call)
              for name in [getattr(node.func, "attr", getattr(node.func, "id", ""))]}
    found = []
    for node in reads(tree):
        above = node
        while above in parents:
            above = parents[above]
            if isinstance(above, LOOPS) or (
                    isinstance(above, ast.FunctionDef) and above.name in called) or (
                    isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div)):
                found.append(node.lineno)
                break
    return found


def test_no_file_but_the_engine_has_a_timing_loop():
    found = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8")
            if READS.search(text) and not name.startswith(ENGINE) and (
                    lines := repeated(ast.parse(text, name))):
                found[name] = lines
    assert found.keys() == ALLOWED.keys(), {
        name: found.get(name, "no timing loop") for name in found.keys() ^ ALLOWED.keys()}


@pytest.mark.parametrize("text", [
    "for _ in x:\n    began = time.perf_counter()", "[clock() for clock in [time.process_time]]",
    "def f():\n    return perf_counter()\nwhile x:\n    f()",
    "class A:\n    def f(self):\n        return time.time() - self.began\nfor a in x:\n    a.f()",
    "for _ in x:\n    timeit.repeat('f()')", "mean = (time.perf_counter() - began) / count"])
def test_a_timing_loop_is_noticed(text):
    assert repeated(ast.parse(textwrap.dedent(text)))


@pytest.mark.parametrize("text", [
    "began = time.perf_counter()\nf()\nprint(time.perf_counter() - began)",
    "while time.monotonic() < end:\n    f()", "for _ in x:\n    left = end - time.monotonic()"])
def test_a_single_figure_and_a_deadline_are_none(text):
    assert not repeated(ast.parse(textwrap.dedent(text)))


def test_benchmarks_import_no_tests():
    for path in (ROOT / "bench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = ([alias.name for alias in node.names] if isinstance(node, ast.Import)
                     else [node.module or ""] if isinstance(node, ast.ImportFrom)
                     and not node.level else [])
            assert not any(name.split(".")[0] == "tests" for name in names), (path, node.lineno)
