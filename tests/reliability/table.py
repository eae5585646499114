"""The table of results: as text, and in docs/reliability.md."""

from __future__ import annotations

import datetime
import pathlib
import re
import subprocess
from dataclasses import dataclass

from tests.reliability.figures import Figure, Promise

BEGIN, END = "<!-- row {} -->", "<!-- end of row {} -->"


@dataclass(frozen=True)
class Row:
    """A promise, what was measured of it here and in MXNet, and how long ours took."""

    promise: Promise
    ours: list[Figure]
    theirs: list[Figure]
    seconds: float

    @property
    def broken(self) -> bool:
        """Whether a trial broke the promise."""
        return any(figure.failures for figure in self.ours)


def as_text(row: Row) -> str:
    """The row for a terminal, with the first failures of each figure."""
    lines = [f"{row.promise.number}. {row.promise.name} ({row.seconds:.0f} s): {row.promise.goal}"]
    for owner, figures in (("nbmod", row.ours), ("MXNet", row.theirs)):
        for figure in figures:
            lines.append(f"   {owner}: {figure.what}: {_kept(figure)}"
                         + f" ({figure.detail})" * bool(figure.detail))
            lines += [f"      {failure}" for failure in figure.failures[:5]]
    return "\n".join(lines)


def write(path: str, rows: list[Row], command: str) -> None:
    """Replace the rows in the page by these, each with its date, commit and command."""
    page = pathlib.Path(path)
    text = page.read_text(encoding="utf-8")
    for row in rows:
        number = row.promise.number
        begin, end = BEGIN.format(number), END.format(number)
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{path} has no place for row {number}: add\n{begin}\n{end}")
        block = f"{begin}\n{as_markdown(row, command)}\n{end}"
        text = pattern.sub(lambda _, block=block: block, text)
    page.write_text(text, encoding="utf-8")


def as_markdown(row: Row, command: str) -> str:
    """The row as a small table."""
    theirs = {figure.what: figure for figure in row.theirs}
    lines = ["| | nbmod | MXNet 1.9.1 |", "|---|---|---|"]
    for figure in row.ours:
        other = theirs.get(figure.what)
        lines.append(f"| {figure.what} | {_cell(figure)} | {_cell(other) if other else '-'} |")
    today = datetime.date.today().isoformat()
    return "\n".join([*lines, "", f"{today}, {_commit()}, {row.seconds:.0f} s: `python {command}`"])


def _cell(figure: Figure) -> str:
    return _kept(figure) + f"; {figure.detail}" * bool(figure.detail)


def _kept(figure: Figure) -> str:
    return f"{figure.trials - len(figure.failures):,} of {figure.trials:,}"


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                           check=False)
    return found.stdout.strip() or "no commit"
