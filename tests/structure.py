"""Figures of the structure of the package, read from its source and traced.

`python -m tests.structure` prints them, CI does so in every run: what a change is to make smaller
can be followed from commit to commit.  They are no limits; those are in `tests.test_house`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from .reading_path import ROOT, Function, coverage, trace, trace_bind
from .test_house import circles

EMPTY = re.compile(r"lacks_elements|is_idle|has_zero_gradients|_prepare_eagerly|_write_zeros")
"""Names of what only arrays without elements need."""
REGISTRIES = {
    "methods of Op": "ops/op.py: def prepare(", "FloatOp": "ops/elementwise/float_op.py: compiled(",
    "SpatialOp": "ops/nn/spatial.py: def steps(",
    "NumPy forms": "ops/numpy_forms/__init__.py: FORMS",
    "sparse forms": "ops/sparse/forms.py: FORMS: dict",
    "GPU twins": "ops/cuda/runtime/launch.py: on_gpu(",
    "dispatch": "ops/dispatch.py: def implements("}
"""Ways to register how an op is computed -> file, and text that it has as long as it is one."""
INTERPRETERS = {
    "GradientExecutor": "ndarray/tape_backward.py: class GradientExecutor",
    "StaticTape": "execution/static_tape.py: class StaticTape",
    "unsimplified": "executor.py: def unsimplified(", "NumPy first": "executor.py: def in_numpy(",
    "interpreter": "execution/interpreter.py: def "}
"""Walks over the nodes of a graph that compute them, beside the planned loop, likewise."""


def sources(folder: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """The modules of a package, and their text."""
    for path in sorted(folder.rglob("*.py")):
        yield path, path.read_text(encoding="utf-8")


def present(table: dict[str, str]) -> list[str]:
    """The names of a table whose file has the text."""
    found = []
    for name, place in table.items():
        file, _, text = place.partition(": ")
        path = ROOT / file
        if path.exists() and text in path.read_text(encoding="utf-8"):
            found.append(name)
    return found


def attributes(path: Path, name: str) -> set[str]:
    """Names that the methods of a class assign to ``self``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return {node.attr for node in ast.walk(cls) if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"}


def untyped_parameters(folder: Path) -> tuple[int, int]:
    """Parameters whose type is ``Any``, and all that have a type."""
    untyped = typed = 0
    for _, text in sources(folder):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.arg) and node.annotation is not None:
                typed += 1
                untyped += ast.unparse(node.annotation) in ("Any", "Any | None")
    return untyped, typed


def lines_of(functions: list[Function]) -> str:
    files = {function.file for function in functions}
    return f"{sum(function.lines for function in functions):,} lines in {len(files)} files"


def figures() -> Iterator[tuple[str, Callable[[], object]]]:
    """What is counted -> its value."""
    def share() -> str:
        untyped, typed = untyped_parameters(ROOT / "ops")
        return f"{untyped:,} of {typed:,}: {untyped / typed:.1%}"

    yield "lines of nbmod/", lambda: f"{sum(text.count(chr(10)) for _, text in sources()):,}"
    yield "circles of imports, and files of the largest", lambda: (
        lambda found: f"{len(found)}, {len(found[0])}")(circles())
    yield "files at the top of nbmod/", lambda: len([*ROOT.glob("*.py")])
    yield "ways to register execution", lambda: ", ".join(present(REGISTRIES))
    yield "interpreters", lambda: ", ".join(present(INTERPRETERS))
    yield "files that handle arrays without elements", lambda: sum(
        bool(EMPTY.search(text)) for _, text in sources())
    yield "attributes of Executor", lambda: len(attributes(ROOT / "executor.py", "Executor"))
    yield "parameters typed Any in ops/", share
    yield "a fit at run time", lambda: lines_of(trace())
    yield "of these, on the reading page", lambda: f"{coverage(trace()):.1%}"
    yield "a bind", lambda: lines_of(trace_bind())


def main() -> None:
    for name, value in figures():
        print(f"{name}: {value()}", flush=True)


if __name__ == "__main__":
    main()
