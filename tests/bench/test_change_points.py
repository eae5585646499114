"""Results over time: change points in simulated noise, files and their comparison."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nbmod.base import MXNetError
from nbmod.bench import Verdict, change_points


def series(generator, count=30):
    """Times with noise of 1%, one in twenty of which is disturbed."""
    noise = generator.normal(0, 0.01, count)
    return np.exp(noise + (generator.random(count) < 0.05) * generator.exponential(0.3, count))


def test_a_step_of_3_percent_is_noticed_in_30_commits():
    generator, noticed = np.random.default_rng(0), 0
    for _ in range(100):
        times = series(generator)
        times[15:] *= 1.03
        noticed += any(abs(point.index - 15) <= 2 and point.ratio > 1.02
                       for point in change_points.change_points(times))
    assert noticed >= 90


def test_noise_has_no_steps():
    generator = np.random.default_rng(1)
    assert sum(bool(change_points.change_points(series(generator))) for _ in range(100)) <= 8


def test_two_steps_and_short_series():
    times = np.repeat([1.0, 1.2, 0.9], 8)
    steps = change_points.change_points(times)
    assert [(step.index, round(step.ratio, 2)) for step in steps] == [(8, 1.2), (16, 0.75)]
    assert change_points.change_points([]) == change_points.change_points([1.0] * 5) == []


def test_files_are_appended_read_and_compared(tmp_path):
    rows = [{"name": "a", "seconds": 1.0, "noise": 0.01, "rounds": [[1.0]], "order": [[0]]},
            {"name": "b", "seconds": 1.0, "noise": 0.5, "rounds": [], "order": []}]
    before, after = tmp_path / "before.jsonl", tmp_path / "after.json"
    change_points.append(before, rows, commit="1a2b")
    change_points.append(before, rows[:1], commit="3c4d")
    assert change_points.read(before)[0] == {"commit": "1a2b", "name": "a", "seconds": 1.0,
                                       "noise": 0.01}
    after.write_text(json.dumps({"benchmarks": [
        {"extra_info": {"name": "a", "seconds": 1.2, "noise": 0.01}},
        {"extra_info": {"name": "b", "seconds": 1.2, "noise": 0.01}},
        {"extra_info": {}}]}))
    compared = change_points.compare_files(before, after)
    assert [(row.name, row.verdict) for row in compared] == [
        ("a", Verdict.SLOWER), ("b", Verdict.SAME)]
    assert compared[0].ratio == pytest.approx(1.2)
    lines = change_points.table(compared)
    assert lines[1].split() == ["a", "1.200", "SLOWER"]


def test_a_history_tells_when_times_changed():
    times = {"conv": [1.0] * 6 + [1.25] * 6, "dot": [1.0] * 12}
    rows = [{"name": name, "seconds": times[name][day], "date": f"2026-01-{day + 1:02}",
             "commit": f"c{day}"} for day in range(12) for name in times]
    assert [line.split() for line in change_points.history_table(rows)] == [
        ["kernel", "after/before", "verdict", "since"],
        ["conv", "1.250", "SLOWER", "2026-01-07", "c6"],
        "24 results of 2 kernels, 1 change points".split()]
    del rows[12]["date"], rows[12]["commit"]
    assert change_points.history_table(rows)[1].endswith("result 7")
    assert change_points.history_table([]) == ["0 results of 0 kernels, 0 change points"]


@pytest.mark.parametrize("text", ["[1, 2", "[1, 2]", '{"name": "a"}', "seconds"])
def test_other_files_are_named(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(MXNetError, match="x.json: result 1 is .*, expected JSON with name"):
        change_points.read(path)
