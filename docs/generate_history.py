"""Writes the page of the site about benchmarks and their history.

    python docs/generate_history.py          prints it

Histories are those of the tables in `bench/results/` whose rows are workloads, in all commits that
git knows.  They are of times relative to MXNet, which ran in turns with nbmod: machines differ.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []

from nbmod.bench.change_points import change_points  # noqa: E402

HEAD = """# Benchmarks, and their history

[Times that can be believed](README.md) says how to measure and to compare; `python -m bench.goals`
and its like ([bench](../../bench/README.md)) wrote these results:

"""
ABOUT = """
Below are times of a step relative to MXNet, which ran in turns with nbmod on the same machine:
below 1, nbmod is faster. A column is a commit that measured again, some on other machines, so that
a ratio may change because they did. *Changes* are steps that last, as `nbmod bench --history` finds
them in six results or more: the ratio of the medians after and before, and since when.
"""


class Version(NamedTuple):
    """Ratios by workload, as a commit left them."""

    commit: str
    date: str
    ratios: Mapping[str, float]


def results() -> list[Path]:
    """The pages of results."""
    return sorted(ROOT.glob("bench/results/*.md"))


def versions(path: Path) -> list[Version]:
    """What commits that measured again left, the oldest first; without git, what is there now."""
    name = path.relative_to(ROOT).as_posix()
    log = _git("log", "--reverse", "--date=short", "--format=%h %ad", "--", name)
    found: list[Version] = []
    for commit, date in (line.split() for line in log.splitlines()):
        ratios = ratios_in(_git("show", f"{commit}:{name}"))
        if ratios and (not found or found[-1].ratios != ratios):
            found.append(Version(commit, date, ratios))
    now = ratios_in(path.read_text(encoding="utf-8"))
    if now and (not found or found[-1].ratios != now):
        found.append(Version("now", "", now))
    return found


def _git(*command: str) -> str:
    """The output of git; empty where there is no repository."""
    try:
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.decode("utf-8")


def ratios_in(text: str) -> dict[str, float]:
    """Ratios to MXNet in the first table of workloads."""
    rows = [[cell.strip(" *") for cell in line.strip("|").split("|")]
            for line in re.split(r"\n(?!\|)", text[text.find("\n| workload |"):].lstrip())[0]
            .splitlines() if line.startswith("|")]
    if not rows:
        return {}
    column = next((index for index, name in enumerate(rows[0]) if name == "ratio"), None) or next(
        (index for index, name in enumerate(rows[0]) if name.startswith("MXNet")), 0)
    return {row[0]: float(row[column]) for row in rows[2:]
            if re.fullmatch(r"\d+(\.\d+)?", row[column])}


def page() -> str:
    """The page as Markdown."""
    return "".join([HEAD, *_list(), ABOUT, *(
        f"\n## {_title(path)}\n\n{table(found)}" for path in results()
        if len(found := versions(path)) > 1)])


def _list() -> Iterator[str]:
    yield from (f"- [{_title(path)}](../../{path.relative_to(ROOT).as_posix()})\n"
                for path in results())


def _title(path: Path) -> str:
    with open(path, encoding="utf-8") as file:
        return file.readline().strip("# \n")


def table(found: list[Version]) -> str:
    """Ratios by workload and version, and the changes that last."""
    names = dict.fromkeys(name for version in found for name in version.ratios)
    head = ["workload", *(f"{each.date} {each.commit}".strip() for each in found), "changes"]
    rows = [head, ["---", *["--:" for _ in found], "---"]]
    for name in names:
        known = [version for version in found if name in version.ratios]
        steps = change_points([version.ratios[name] for version in known])
        changes = [f"{step.ratio:.2f} since {known[step.index].commit}" for step in steps]
        rows.append([name, *(f"{version.ratios[name]:g}" if name in version.ratios else ""
                             for version in found), ", ".join(changes)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    print(page(), end="")
