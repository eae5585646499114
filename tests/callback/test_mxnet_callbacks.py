"""Callbacks, monitor and loggers: what they print and when."""

from __future__ import annotations

import io
import logging
import re
import time
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest

from nbmod import callback, contrib, log, metric, nd
from nbmod.core import screen as live_lines
from nbmod.monitor import Monitor
from tests.callback import runs
from tests.terminals import Terminal, screen


@pytest.fixture(autouse=True)
def log_everything(caplog):
    caplog.set_level(logging.INFO)


def param(nbatch: int, found: metric.EvalMetric | None, epoch: int = 3) -> SimpleNamespace:
    return SimpleNamespace(epoch=epoch, nbatch=nbatch, eval_metric=found, locals={})


def accurate() -> metric.EvalMetric:
    found = metric.create(["acc", "mse"])
    found.update([np.ones(1)], [np.ones(1)])
    return found


def without_speed(messages: list[str]) -> list[str]:
    return [re.sub(r"Speed: \S+ samples", "Speed: x samples", message) for message in messages]


@pytest.mark.parametrize("auto_reset, ranges", [(True, ["0-2", "2-4"]), (False, ["0-2", "0-4"])])
def test_speedometer(caplog, auto_reset, ranges):
    speed, found = callback.Speedometer(16, 2, auto_reset), accurate()
    for batch in range(5):
        found.update([np.ones(1)], [np.ones(1)])
        speed(param(batch, found))
    speed(param(0, found))  # the next epoch: a first batch only starts the clock
    assert without_speed(caplog.messages) == [
        f"Epoch[3] Batch [{batches}]\tSpeed: x samples/sec\taccuracy=1.000000\tmse=0.000000"
        for batches in ranges]
    assert np.isnan(found.get()[1][0]) == auto_reset
    assert found.get_global()[1] == [1, 0]


def test_speedometer_without_metric(caplog, monkeypatch):
    clock = iter([0.0, 0.25, 0.5])  # begun, elapsed, begun again
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    speed = callback.Speedometer(16, 1)
    speed(param(0, None))
    speed(param(1, None))
    assert caplog.messages == ["Iter[3] Batch [1]\tSpeed: 64.00 samples/sec"]


def test_log_train_metric(caplog):
    logged = callback.log_train_metric(2, auto_reset=True)
    for batch in range(3):
        logged(param(batch, accurate()))
    logged(param(4, None))
    assert caplog.messages == [f"Iter[3] Batch[{batch}] Train-{name}={value:f}"
                               for batch in (0, 2) for name, value in (("accuracy", 1), ("mse", 0))]


def test_log_validation_metrics(caplog):
    callback.LogValidationMetricsCallback()(param(7, accurate()))
    assert caplog.messages == ["Epoch[3] Validation-accuracy=1.000000",
                               "Epoch[3] Validation-mse=0.000000"]


def test_progress_bar_on_a_terminal(monkeypatch, caplog):
    clock = iter(np.arange(0, 100, 1.0).tolist())  # a second between reads
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    bar = callback.ProgressBar(4, length=20, stream=terminal)
    for epoch in range(2):
        for batch in range(4):
            bar(param(batch, accurate(), epoch))
    assert caplog.messages == []
    *epochs, rest = terminal.getvalue().split("\n")
    assert len(epochs) == 2 and rest == ""
    first = [line for line in epochs[0].split("\r") if line.strip()]
    assert first[0].startswith("Epoch[0] [=====---------------] 25% accuracy=1 mse=0")
    assert first[1].startswith("Epoch[0] [==========----------] 50% accuracy=1 mse=0")
    assert first[1].rstrip().endswith(" 4s left")  # 2 s for one batch since the first, 2 to come
    assert first[3].startswith("Epoch[0] [====================] 100% accuracy=1 mse=0 ")
    assert all(len(line) < 70 for line in first)
    assert epochs[1].split("\r")[1].startswith("Epoch[1] [=====---------------] 25%")
    rows, column = screen(terminal.getvalue(), 70)
    assert [row.startswith("Epoch[") and "] 100%" in row for row in rows[:-1]] == [True, True]
    assert rows[-1] == "" and column == 0


def test_progress_bar_elsewhere(caplog):
    bar = callback.ProgressBar(40, length=10, stream=io.StringIO())
    for batch in range(40):
        bar(param(batch, None))
    assert len(caplog.messages) == 10
    assert caplog.messages[4] == "Epoch[3] [=====-----] 50%"
    assert caplog.messages[-1] == "Epoch[3] [==========] 100%"


def test_module_checkpoint():
    saved = []
    module = SimpleNamespace(save_checkpoint=lambda *args: saved.append(args))
    every_second = callback.module_checkpoint(module, "name", 2, save_optimizer_states=True)
    for epoch in range(4):
        every_second(epoch, None, {}, {})
    assert saved == [("name", 2, True), ("name", 4, True)]


def test_do_checkpoint(monkeypatch):
    saved = []
    monkeypatch.setattr("nbmod.callback.mxnet_callbacks.save_checkpoint",
                        lambda *args: saved.append(args))
    for period, wanted in ((2, [2, 4]), (0, [1, 2, 3, 4])):
        saved.clear()
        for epoch in range(4):
            callback.do_checkpoint("name", period)(epoch, "net", {}, {})
        assert saved == [("name", epoch, "net", {}, {}) for epoch in wanted]


class Array:
    """The part of an NDArray's interface that the monitor uses."""

    def __init__(self, values):
        self.values = np.atleast_1d(np.float32(values))
        self.shape, self.size = self.values.shape, self.values.size

    def norm(self):
        return Array(np.linalg.norm(self.values))

    def __truediv__(self, number):
        return Array(self.values / number)

    def asscalar(self):
        return self.values[0]

    def asnumpy(self):
        return self.values


class Executor:
    """Reports one output in each forward pass."""

    arg_dict = OrderedDict(data=Array([3, 4]), weight=Array([2]))
    aux_dict = OrderedDict(mean=Array([1]))

    def set_monitor_callback(self, function, monitor_all):
        self.function, self.monitor_all = function, monitor_all

    def forward(self):
        self.function("out_output", Array([5]))


def test_monitor(caplog):
    executor, monitor = Executor(), Monitor(2, pattern="w|o|d", sort=True, monitor_all=True)
    monitor.install(executor)
    assert executor.monitor_all
    results = []
    for _ in range(3):
        monitor.tic()
        executor.forward()
        results.append(monitor.toc())
    values = [("data", str(np.float32(np.sqrt(12.5)))), ("out_output", "5.0"), ("weight", "2.0")]
    assert results[0] == [(1, name, f"{value}\t") for name, value in values]
    assert results[1] == [] and [step for step, _, _ in results[2]] == [3] * 3
    monitor.tic()
    monitor.tic()
    monitor.toc_print()
    assert caplog.messages[0] == f"Batch: {5:7d} {'data':30s} {values[0][1]}\t"


def test_monitor_with_a_statistic_of_its_own():
    executor, monitor = Executor(), Monitor(1, lambda array: [array, array.size], "out|data")
    monitor.install(executor)
    monitor.tic()
    executor.forward()
    assert monitor.toc() == [(1, "out_output", "5.0\t1\t"), (1, "data", "[3. 4.]\t2\t")]


def test_get_logger(tmp_path, capsys):
    logger = log.get_logger("nbmod.test", level=log.INFO)
    assert log.getLogger("nbmod.test") is logger and len(logger.handlers) == 1
    logger.warning("careful")
    line = capsys.readouterr().err
    assert re.fullmatch(r"W\d{4} [\d:]{8} \d+ \S+test_mxnet_callbacks.py:test_get_logger:\d+\] "
                        r"careful\n", line)
    coloured = log._Formatter().format(logger.makeRecord("n", log.DEBUG, "f", 1, "x", (), None))
    assert coloured.startswith("\x1b[33mD") and coloured.endswith("\x1b[0m x")
    path = tmp_path / "log.txt"
    to_file = log.get_logger("nbmod.file", str(path), level=log.DEBUG)
    to_file.debug("plain")
    for handler in to_file.handlers:
        handler.close()
    assert path.read_text() == "plain\n"


class Odd(metric.EvalMetric):
    """A metric whose value is given."""

    def __init__(self, value: object):
        self.value = value
        super().__init__("odd")

    def update(self, labels: object, preds: object) -> None:
        pass

    def get(self) -> tuple[str, object]:
        return self.name, self.value


@pytest.mark.parametrize("value, text", [
    (np.array([0.5]), "0.500000"), (np.array([[0.5]], np.float16), "0.500000"),
    (nd.array([0.5]), "0.500000"), (np.array([0.25, 0.5]), "[0.25 0.5 ]"),
    (nd.array([0.25, 0.5]), "[0.25 0.5 ]"), ("none yet\n", "none yet"), (None, "None"),
    (1 + 2j, "(1+2j)"), (10 ** 400, "1" + "0" * 400), ({"a": 1}, "{'a': 1}"),
    (np.float32("nan"), "nan")], ids=repr)
def test_metric_that_is_no_plain_number(caplog, tmp_path, value, text):
    """Every callback and `fit` itself print it, or leave it out of records of numbers."""
    loggers = [callback.JSONLogger(tmp_path / "a.json"), callback.TensorBoard(tmp_path / "a"),
               contrib.tensorboard.LogMetricsCallback(str(tmp_path / "b"))]
    stream = Terminal()
    batch = [callback.Speedometer(4, 1), callback.log_train_metric(1), *loggers,
             callback.ProgressBar(4, stream=stream), callback.Progress(4, Terminal())]
    found = runs.module()
    found.fit(runs.data(), runs.data(), Odd(value), num_epoch=2, batch_end_callback=batch,
              eval_end_callback=[callback.LogValidationMetricsCallback(),
                                 callback.CSVLogger(tmp_path / "a.csv"), *loggers])
    assert any(message.endswith(f"\todd={text}") for message in caplog.messages)
    assert f"Epoch[1] Train-odd={text}" in caplog.messages
    assert f"Epoch[1] Validation-odd={text}" in caplog.messages
    assert " odd=" in stream.getvalue()
    assert set(found.history[-1]["train"]) == ({"odd"} if text in ("0.500000", "nan") else set())


def test_a_bar_that_begins_anew_leaves_no_line_open():
    """Of an epoch that was left before its end, in a loop of one's own."""
    before, bar = [*live_lines._open], callback.ProgressBar(3, stream=Terminal())
    for nbatch in (0, 1, 0, 1, 2):
        bar(param(nbatch, None))
    assert live_lines._open == before
