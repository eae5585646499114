"""Which of the library's Python functions a training run calls, and how many lines they have.

`trace` records every function called during the second `fit` of a small network, after the first
has bound and compiled everything: the code that processes a batch at run time.  A nested function
(generator expression, comprehension, lambda) counts as part of the function around it.

`docs/internals/reading.md` lists the functions to read, in three sittings; `coverage` is the part
of the lines of `trace` that it has.

`python -m tests.reading_path` prints the functions by file.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import nbmod as mx
from nbmod.ops.elementwise import codegen, formula, formula_op, kernel_cache
from nbmod.ops.optimizer import sgd_update

ROOT = Path(mx.__file__).parent
PAGE = ROOT.parent / "docs" / "internals" / "reading.md"
SITTINGS = ("First", "Second", "Third")


class Function(NamedTuple):
    """A function of the library: its file below `nbmod`, first line, name, and lines of code."""

    file: str
    line: int
    name: str
    lines: int


def called_by(call: Callable[[], object]) -> list[Function]:
    """The functions of nbmod that a call executes, by file and line."""
    codes: set[CodeType] = set()

    def record(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
    found = {_enclosing(Path(code.co_filename), code.co_firstlineno) for code in codes
             if code.co_filename.startswith(str(ROOT))}
    return sorted(function for function in found if function is not None)


def _enclosing(path: Path, line: int) -> Function | None:
    """The outermost function that contains a line; None for the body of a class or module."""
    around = [function for first, last, function in _functions(path) if first <= line <= last]
    return around[0] if around else None


@cache
def _functions(path: Path) -> list[tuple[int, int, Function]]:
    """First line (of decorators), last line and size of the functions of a file that are not
    nested in another."""
    found = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                assert child.end_lineno is not None
                lines = child.end_lineno - first + 1 - docstring_lines(child)
                found.append((first, child.end_lineno, Function(
                    path.relative_to(ROOT).as_posix(), first, prefix + child.name, lines)))
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(ast.parse(path.read_text(encoding="utf-8")), "")
    return found


def docstring_lines(tree: ast.AST) -> int:
    """Lines of the docstrings of a function, or of those in a class or module."""
    total = 0
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            text = node.body[0]
            assert text.end_lineno is not None
            total += text.end_lineno - text.lineno + 1
    return total


class Session(NamedTuple):
    """A float32 perceptron on the CPU, and batches for it."""

    net: mx.sym.Symbol
    data: mx.io.NDArrayIter
    module: mx.mod.Module

    @classmethod
    def make(cls) -> Session:
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=128, name="fc1")
        net = mx.sym.Activation(net, act_type="relu", name="relu1")
        net = mx.sym.FullyConnected(net, num_hidden=10, name="fc2")
        net = mx.sym.SoftmaxOutput(net, name="softmax")
        rng = np.random.default_rng(7)
        data = mx.io.NDArrayIter(rng.standard_normal((256, 784), np.float32),
                                 rng.integers(0, 10, 256).astype(np.float32), batch_size=64)
        return cls(net, data, mx.mod.Module(net))

    def fit(self) -> None:
        """One epoch of stochastic gradient descent with momentum."""
        self.data.reset()
        self.module.fit(self.data, num_epoch=1, optimizer="sgd",
                        optimizer_params={"learning_rate": 0.1, "momentum": 0.9})


def trace() -> list[Function]:
    """The functions of the second `fit`: those that run when everything is bound."""
    session = Session.make()
    session.fit()
    return called_by(session.fit)


def trace_bind() -> list[Function]:
    """The functions that bind the module for training."""
    session = Session.make()
    return called_by(lambda: session.module.bind(session.data.provide_data,
                                                 session.data.provide_label))


def trace_kernels() -> list[Function]:
    """The functions of a first `fit` that finds no kernel of a formula and writes them all."""
    for module in (codegen, formula, formula_op, kernel_cache, sgd_update):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    sgd_update.Update.program.cache_clear()
    for name in [name for name in sys.modules if name.startswith("Activation_")]:
        del sys.modules[name]       # a kernel that is made anew is compiled anew
    return called_by(Session.make().fit)


def listed(sitting: str) -> list[tuple[str, str]]:
    """(file, function) of the rows of a sitting's tables on the page."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"## {sitting} sitting")
    rows = [row.split("|") for row in section.split("\n## ")[0].splitlines()
            if row.startswith("| `nbmod/")]
    return [(row[1].strip(" `").removeprefix("nbmod/"), name)
            for row in rows for name in re.findall(r"`([\w.]+)`", row[2])]


def page() -> set[tuple[str, str]]:
    """(file, function) of all sittings."""
    return {one for sitting in SITTINGS for one in listed(sitting)}


def coverage(functions: Iterable[Function]) -> float:
    """The part of the lines of these functions that the page has, a number from 0 to 1."""
    on_page = page()
    lines = {on: sum(one.lines for one in functions if ((one.file, one.name) in on_page) is on)
             for on in (False, True)}
    return lines[True] / sum(lines.values())


def main() -> None:
    """Print the functions, file by file: those of `fit` once all is bound, or with an argument
    those of `bind`, or those of a first `fit` that makes `kernels`.
    """
    functions = {"bind": trace_bind, "kernels": trace_kernels, "": trace}["".join(sys.argv[1:])]()
    on_page = page()
    for file in sorted({function.file for function in functions}):
        mine = [function for function in functions if function.file == file]
        print(f"{file}: {sum(function.lines for function in mine)}")
        for function in mine:
            star = "*" if (file, function.name) in on_page else " "
            print(f" {star}{function.line:4} {function.name}: {function.lines}")
    print(f"{sum(one.lines for one in functions)} lines of {len(functions)} functions in "
          f"{len({one.file for one in functions})} files; {coverage(functions):.0%} of these lines "
          f"are on the page")


if __name__ == "__main__":
    main()
