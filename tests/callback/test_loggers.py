"""CSVLogger and JSONLogger: what is in their files."""

from __future__ import annotations

import csv
import json

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.callback.runs import fit, module


def rows(path) -> list[dict]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_of_csv_for_each_epoch(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("something older\n")
    found = fit(module(), [.5, .6], 2, eval_end_callback=mx.callback.CSVLogger(path))
    first, second = rows(path)
    assert [*first] == ["epoch", "seconds", "learning_rate", "train-accuracy",
                        "validation-accuracy"]
    assert second["epoch"] == "1" and second["validation-accuracy"] == "0.6"
    assert float(first["train-accuracy"]) == found.history[0]["train"]["accuracy"]
    assert float(first["learning_rate"]) == .1
    fit(module(), [.7], 1, eval_end_callback=mx.callback.CSVLogger(path, append=True))
    assert [row["validation-accuracy"] for row in rows(path)] == ["0.5", "0.6", "0.7"]
    with pytest.raises(MXNetError, match="has the columns"):
        fit(module(), [.7], 1, name="f1", eval_end_callback=mx.callback.CSVLogger(path, True))


def test_csv_without_validation_data(tmp_path):
    path = tmp_path / "log.csv"
    fit(module(), None, 3, eval_metric=["acc", "ce"],
        batch_end_callback=[mx.callback.Speedometer(4, 1), mx.callback.CSVLogger(path)])
    assert [row["epoch"] for row in rows(path)] == ["0", "1", "2"]
    assert [*rows(path)[0]][3:] == ["train-accuracy", "train-cross-entropy"]
    assert "nan" not in path.read_text()  # although Speedometer has reset the metrics


def test_json_lines(tmp_path):
    path = tmp_path / "log.jsonl"
    logger = mx.callback.JSONLogger(path, period=3)
    fit(module(), [.5, float("nan")], 2, batch_end_callback=logger, eval_end_callback=logger)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(one["event"], one["epoch"], one["batch"]) for one in events] == [
        *[("batch", 0, 0), ("batch", 0, 3), ("train", 0, 3), ("validation", 0, 4)],
        *[("batch", 1, 0), ("batch", 1, 3), ("train", 1, 3), ("validation", 1, 4)]]
    assert events[3]["metrics"] == {"accuracy": .5} and events[-1]["metrics"] == {"accuracy": None}
    assert events[0]["learning_rate"] == .1 and events[0]["time"] <= events[-1]["time"]
    fit(module(), None, 1, batch_end_callback=mx.callback.JSONLogger(path, 0, append=True))
    assert len(path.read_text().splitlines()) == 9


def test_metrics_of_one_name_are_told_apart(tmp_path):
    """In MXNet's records the last of a name hides the others."""
    both = [mx.metric.CustomMetric(lambda label, pred, to=to: to, name="score") for to in (1, 2)]
    json_logger = mx.callback.JSONLogger(tmp_path / "log.jsonl", period=1)
    found = fit(module(), None, 1, eval_metric=both, batch_end_callback=[
        json_logger, mx.callback.CSVLogger(tmp_path / "log.csv")])
    assert found.history[0]["train"] == {"score": 1, "score_1": 2}
    assert [*rows(tmp_path / "log.csv")[0]][3:] == ["train-score", "train-score_1"]
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(one["metrics"] == {"score": 1, "score_1": 2} for one in events)


def test_values_may_be_an_iterator(tmp_path, caplog):
    """Of a metric of one's own; they are read several times."""
    class Lazy(mx.metric.Accuracy):
        def get_name_value(self):
            return zip(["mine"], [0.5], strict=True)

        get_global_name_value = get_name_value

    caplog.set_level("INFO")
    logger = mx.callback.JSONLogger(tmp_path / "log.jsonl", period=1)
    found = fit(module(), None, 1, eval_metric=Lazy(),
                batch_end_callback=[mx.callback.Speedometer(4, 2), logger])
    assert found.history[0]["train"] == {"mine": 0.5} and "Epoch[0] Train-mine=0.5" in caplog.text
    assert "Speed" in caplog.text
    assert '"metrics": {"mine": 0.5}' in (tmp_path / "log.jsonl").read_text()
