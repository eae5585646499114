"""`Progress`: on a terminal, and as lines."""

from __future__ import annotations

import io
import logging

import pytest

import nbmod as mx
from nbmod.callback import epoch_bars
from tests.callback.runs import data, fit, module
from tests.terminals import Terminal, screen


@pytest.fixture(autouse=True)
def every_batch(monkeypatch):
    monkeypatch.setattr(epoch_bars, "INTERVAL", 0)
    monkeypatch.setattr(epoch_bars, "SHARE", 0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def test_a_bar_for_each_epoch():
    terminal = Terminal()
    found = fit(module(), None, 2, batch_end_callback=mx.callback.Progress(stream=terminal))
    text = terminal.getvalue()
    for past in found.history:
        number, value = past["epoch"] + 1, past["train"]["accuracy"]
        assert f"epoch {number}/2 [=====-----]  50%" in text
        assert f"epoch {number}/2: accuracy={value:.4g} " in text
    rows, column = screen(text)
    assert "write" not in vars(terminal)
    assert len(rows) == 3 and column == 0 and all(row.endswith(" s") for row in rows[:2])


def test_lines_where_there_is_no_terminal(caplog):
    caplog.set_level(logging.INFO)
    fit(module(), None, 1, batch_end_callback=mx.callback.Progress(stream=io.StringIO()))
    bars = [message for message in caplog.messages if "] " in message and "%" in message]
    assert [bar.partition("] ")[2].partition("]")[2].split()[0] for bar in bars] == [
        "25%", "50%", "75%", "100%"]


@pytest.mark.parametrize("stream, lines", [(io.StringIO, 4), (Terminal, 0)])
def test_an_unknown_number_of_batches_is_known_from_the_second_epoch_on(caplog, stream, lines):
    caplog.set_level(logging.INFO)
    source = data()
    bar = mx.callback.Progress(stream=stream())
    for epoch in range(2):
        batches = list(source)
        for number, _batch in enumerate(batches):
            bar(mx.model.BatchEndParam(epoch, number, mx.metric.create("acc"),
                                       {"end_of_batch": number == len(batches) - 1}))
        source.reset()
    assert sum("%" in message for message in caplog.messages) == lines and bar.total == 4


def test_after_an_error_the_next_bar_begins_anew():
    bar = mx.callback.Progress(stream=Terminal())

    def fail(param):
        if param.nbatch == 1:
            raise ValueError("for a test")

    with pytest.raises(ValueError, match="for a test"):
        fit(module(), None, 1, batch_end_callback=[bar, fail])
    fit(module(), None, 1, batch_end_callback=bar)
    assert bar.line.stream.getvalue().count(" 25%") == 2
    assert "100%" in bar.line.stream.getvalue()


def test_slow_metrics_are_read_less_often(monkeypatch):
    """A look that takes 1 s is followed by 20 s without one."""
    clock = [0.0]
    monkeypatch.setattr(epoch_bars, "SHARE", 20)
    monkeypatch.setattr(epoch_bars.time, "perf_counter", lambda: clock[0])

    class Slow(mx.metric.Accuracy):
        reads = 0

        def get(self):
            self.reads += 1
            clock[0] += 1.0
            return super().get()

    metric, bar = Slow(), mx.callback.Progress(100, stream=Terminal())
    for number in range(100):
        bar(mx.model.BatchEndParam(0, number, metric, {}))
        clock[0] += 1.0
    assert metric.reads == 5
