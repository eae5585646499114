"""Results over time: a file of JSON lines, the points where times changed, and two files compared.

Results of different runs were not interleaved: whatever differed between the runs, such as the
frequency or a neighbour, is part of their ratio.  A change point is therefore a step that lasts,
not one slow run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base import MXNetError
from ..core.reprs import aligned
from .statistics import SMALLEST_EFFECT, Verdict

__all__ = ["ChangePoint", "FileComparison", "append", "change_points", "compare_files",
           "history_table", "read"]

SHORT = 3
"""Fewest results before and after a change point: fewer may be one disturbed session."""
PENALTY = 5.0
"""Price of a change point, in variances of the noise times the logarithm of the number of results
(Yao 1988 has 1 for normal noise; that of times has heavier tails)."""


@dataclass(frozen=True)
class ChangePoint:
    """A step in a series of times.

    Attributes
    ----------
    index : int
        The first result after the step.
    ratio : float
        Median time after the step over that before it: 1.03 is 3% slower.
    """

    index: int
    ratio: float


def append(path: str | Path, results: Iterable[Mapping[str, Any]], **facts: object) -> None:
    """Add results to a history.

    Parameters
    ----------
    path : str or Path
        A file of JSON lines, created if it does not exist.
    results : iterable of mapping
        Of `Result.as_json`; the times of single rounds are left out.
    **facts
        Stored with each result, such as ``commit="1a2b3c"`` or ``date="2026-01-01"``.
    """
    with open(path, "a", encoding="utf-8") as file:
        for result in results:
            facts_only = {key: value for key, value in result.items()
                          if key not in ("rounds", "order")}
            file.write(json.dumps({**facts, **facts_only}) + "\n")


def read(path: str | Path) -> list[dict[str, Any]]:
    """Read results: a history, or the JSON that pytest-benchmark or `nbmod bench --json` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    list of dict
        In the order of the file.

    Raises
    ------
    MXNetError
        If the file is none of these; names the result.
    """
    text = Path(path).read_text(encoding="utf-8")
    whole = _loaded(text)
    if isinstance(whole, dict) and "benchmarks" in whole:
        return [each["extra_info"] for each in whole["benchmarks"]
                if "seconds" in each.get("extra_info", {})]
    values = whole if isinstance(whole, list) else [
        _loaded(line) for line in text.splitlines() if line.strip()]
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict) or not {"name", "seconds"} <= value.keys():
            raise MXNetError(f"{path}: result {number} is {str(value)[:60]!r}, expected JSON with "
                             "name and seconds, as bench.Result.as_json() has it")
    return values


def _loaded(text: str) -> Any:
    """The value of JSON text, or the text itself if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def change_points(seconds: ArrayLike, smallest: float = SMALLEST_EFFECT) -> list[ChangePoint]:
    """Find the steps in a series of times.

    The logarithms are divided into stretches of constant value so that the sum of squared
    distances, plus a price for each step, is least (Jackson et al. 2005).  Single outliers are
    replaced by the medians of their neighbourhoods first.

    Parameters
    ----------
    seconds : array_like
        Shape (n,): times in the order of commits.
    smallest : float
        Smaller steps are of no interest.

    Returns
    -------
    list of ChangePoint
        In order; none for fewer than six results.

    Examples
    --------
    >>> from nbmod.bench.change_points import change_points
    >>> [(step.index, round(step.ratio, 2)) for step in change_points([10.0] * 8 + [11.0] * 8)]
    [(8, 1.1)]
    """
    logs = np.log(np.asarray(seconds, np.float64))
    smooth = _without_outliers(logs)
    noise = _noise(smooth)
    price = PENALTY * max(noise, 1e-4) ** 2 * math.log(max(len(logs), 2))
    points = []
    bounds = [0, *_best_division(smooth, price), len(logs)]
    for first, index, last in zip(bounds, bounds[1:], bounds[2:], strict=False):
        step = float(np.median(logs[index:last]) - np.median(logs[first:index]))
        if abs(step) >= math.log1p(smallest):
            points.append(ChangePoint(index, math.exp(step)))
    return points


def history_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a table of all change points in a history, by kernel.

    Parameters
    ----------
    rows : sequence of mapping
        Of `read`.
    """
    series: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        series.setdefault(row["name"], []).append(row)
    steps = [(name, f"{point.ratio:.3f}", str(Verdict.SLOWER if point.ratio > 1 else
              Verdict.FASTER), _when(results[point.index], point.index))
             for name, results in series.items()
             for point in change_points([each["seconds"] for each in results])]
    lines = aligned([("kernel", "after/before", "verdict", "since"), *steps], (0, 2, 3))
    lines = lines if steps else []
    return [*lines, f"{len(rows)} results of {len(series)} kernels, {len(steps)} change points"]


def _when(row: Mapping[str, Any], index: int) -> str:
    """The date and commit of a result, or its number."""
    return " ".join(filter(None, (row.get("date"), row.get("commit")))) or f"result {index + 1}"


def _without_outliers(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values, those far from their neighbourhood replaced by its median."""
    smooth = logs.copy()
    for k in range(1, len(logs) - 1):
        around = np.median(logs[max(0, k - 2):k + 3])
        if abs(logs[k] - around) > 3 * _noise(logs):
            smooth[k] = around
    return smooth


def _noise(logs: NDArray[np.float64]) -> float:
    """The standard deviation of single results, from differences of neighbours."""
    if len(logs) < 2:
        return 0.0
    return float(1.4826 * np.median(np.abs(np.diff(logs))) / math.sqrt(2))


def _best_division(values: NDArray[np.float64], price: float) -> list[int]:
    """Indices at which stretches begin, of the division with the least cost."""
    count = len(values)
    sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (values, values ** 2))
    cost, begins = [-price] + [math.inf] * count, [0] * (count + 1)
    for end in range(SHORT, count + 1):
        for first in (0, *range(SHORT, end - SHORT + 1)):
            total, size = sums[end] - sums[first], end - first
            spread = squares[end] - squares[first] - total ** 2 / size
            if size >= SHORT and cost[first] + spread + price < cost[end]:
                cost[end], begins[end] = cost[first] + spread + price, first
    indices, end = [], count
    while begins[end]:
        end = begins[end]
        indices.append(end)
    return indices[::-1]


@dataclass(frozen=True)
class FileComparison:
    """A result of one file beside that of the same name in another.

    Attributes
    ----------
    name : str
        Of both.
    ratio : float
        Time in the second file over that in the first.
    verdict : Verdict
        FASTER or SLOWER if they differ by more than the noise of both and 5%, which machines drift
        between runs.
    """

    name: str
    ratio: float
    verdict: Verdict


DRIFT = 0.05


def compare_files(before: str | Path, after: str | Path) -> list[FileComparison]:
    """Compare the results of two files by name.

    Parameters
    ----------
    before, after : str or Path
        Files that `read` reads; the last result of a name counts.
    """
    old, new = ({row["name"]: row for row in read(path)} for path in (before, after))
    return [_compared(old[name], new[name]) for name in old if name in new]


def _compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> FileComparison:
    ratio = new["seconds"] / old["seconds"]
    floor = math.log1p(max(DRIFT, old.get("noise", 0.0), new.get("noise", 0.0)))
    step = math.log(ratio)
    verdict = Verdict.SAME if abs(step) <= floor else (
        Verdict.SLOWER if step > 0 else Verdict.FASTER)
    return FileComparison(new["name"], ratio, verdict)


def table(rows: Sequence[FileComparison]) -> list[str]:
    """The lines of a table."""
    width = max([len(row.name) for row in rows] + [6])
    return [f"{'kernel':{width}}  after/before  verdict",
            *(f"{row.name:{width}}  {row.ratio:12.3f}  {row.verdict}" for row in rows)]
