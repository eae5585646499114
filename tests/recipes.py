"""Follow the recipes of CONTRIBUTING.md from a clean clone, and say how long each command takes.

    python -m tests.recipes                     a table on the terminal
    python -m tests.recipes bench/results/recipes.md    and as a page

The clone has the last commit, an environment of its own and an empty kernel cache, as on a
newcomer's machine; MXNet is that of the running environment.  In commands that have a part to fill
in, `EXAMPLES` stands for what was added.
"""

from __future__ import annotations

import datetime
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench import mxnet_environment

ROOT = Path(__file__).resolve().parents[1]
FOLLOWED = ("Add an operator", "Add an optimizer", "Add a metric", "Add an iterator",
            "Add a converter for ONNX", "Mend a fault")
"""Recipes that need neither a GPU nor hours."""
EXAMPLES = {"NAME": "adamax", "OpName": "LeakyReLU"}
UNFOLLOWED = {"python -m nbmod explain": "it asks for a network",
              ".ci/run": "it has a page of times of its own: its output"}
"""Commands that are not run, and why."""


class Command(NamedTuple):
    """A command of a recipe, as the page has it."""

    recipe: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of the command, with examples in the place of names."""
        return [EXAMPLES.get(word, word) for word in shlex.split(self.text)]


def commands(page: str) -> Iterator[Command]:
    """The commands of all sections of the page that are recipes: `## Add ...`, `## Mend ...`."""
    for title, text in re.findall(r"^## ((?:Add|Mend) .*)\n((?:(?!^## ).*\n)*)", page, re.M):
        for span in re.findall(r"`([^`]+)`", text):
            command = " ".join(span.split())
            if command.startswith(("python ", ".ci/")):
                yield Command(title, command)


def main(page: str = "") -> int:
    """Follow all recipes; the number of commands that fail."""
    rows: list[tuple[str, str, float | None]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "nbmod"
        environment = _environment(Path(scratch))
        setup = ["git clone", "python -m venv", "python -m pip install -e '.[test]'"]
        seconds = [_seconds(words, Path(scratch), environment) for words in (
            ["git", "clone", "-q", str(ROOT), str(folder)],
            [sys.executable, "-m", "venv", str(folder / ".venv")],
            ["python", "-m", "pip", "install", "-q", "-e", f"{folder}[test]"])]
        rows += [("Set up", *row) for row in zip(setup, seconds, strict=True)]
        for command in commands((folder / "CONTRIBUTING.md").read_text(encoding="utf-8")):
            if command.recipe in FOLLOWED and command.text not in UNFOLLOWED:
                rows.append((command.recipe, shlex.join(command.words),
                             _seconds(command.words, folder, environment)))
                print(*rows[-1], flush=True)
    if page:
        Path(page).write_text(_markdown(rows), encoding="utf-8")
    return sum(taken is None for _, _, taken in rows)


def _environment(scratch: Path) -> Mapping[str, str]:
    """The variables of a shell in which the clone's environment is active."""
    binaries = scratch / "nbmod" / ".venv" / ("Scripts" if os.name == "nt" else "bin")
    oracle = mxnet_environment.find_python()
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("NBMOD_", "PYTHON", "VIRTUAL_ENV"))}
    return kept | {"PATH": os.pathsep.join([str(binaries), os.environ["PATH"]]),
                   "NBMOD_CACHE_DIR": str(scratch / "kernels"),
                   **({"NBMOD_ORACLE_PYTHON": str(oracle)} if oracle else {})}


def _seconds(words: list[str], folder: Path, environment: Mapping[str, str]) -> float | None:
    """The time of a command; None where it fails."""
    begun = time.perf_counter()
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        print(done.stdout[-3000:] + done.stderr[-3000:], file=sys.stderr)
        return None
    return time.perf_counter() - begun


def _markdown(rows: list[tuple[str, str, float | None]]) -> str:
    total = sum(taken or 0 for _, _, taken in rows)
    lines = [f"| {recipe} | `{text}` | {'fails' if taken is None else f'{taken:.0f} s'} |"
             for recipe, text, taken in rows]
    return "\n".join([
        "# Recipes, followed", "",
        "The commands of the [recipes](../../CONTRIBUTING.md), run one after the other from a "
        "clean clone with an empty kernel cache, so that the first to need a kernel compiles it: "
        f"{datetime.date.today()}, {os.cpu_count()} cores, `python -m tests.recipes`. "
        f"Together they take {total / 60:.0f} minutes.", "",
        "| recipe | command | takes |", "|---|---|--:|", *lines]) + "\n"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
