"""`Progress`: by rich, by tqdm, and as lines."""

from __future__ import annotations

import io
import logging

import pytest

import nbmod as mx
from nbmod.base import ArgumentError, MXNetError
from nbmod.callback import epoch_bars
from tests.callback.runs import data, fit, module


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("library", ["rich", "tqdm"])
def test_a_bar_for_each_epoch(library, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    found = fit(module(), None, 2, batch_end_callback=mx.callback.Progress(
        library=library, stream=terminal))
    text = terminal.getvalue()
    assert "Epoch 0" in text and "Epoch 1" in text and "4/4" in text
    assert f"accuracy={found.history[1]['train']['accuracy']:.4g}" in text


def test_lines_where_there_is_no_terminal(caplog):
    caplog.set_level(logging.INFO)
    fit(module(), None, 1, batch_end_callback=mx.callback.Progress(stream=io.StringIO()))
    bars = [message for message in caplog.messages if "] " in message and "%" in message]
    assert [bar.partition("] ")[2].partition("]")[2].split()[0] for bar in bars] == [
        "25%", "50%", "75%", "100%"]


@pytest.mark.parametrize("installed, chosen", [
    ({"rich", "tqdm"}, "rich"), ({"tqdm"}, "tqdm"), (set(), "plain")])
def test_the_library_that_is_installed_is_chosen(installed, chosen, monkeypatch):
    monkeypatch.setattr(epoch_bars, "find_spec", lambda name: name if name in installed else None)
    assert mx.callback.Progress(stream=Terminal())._chosen() == chosen
    assert mx.callback.Progress(stream=io.StringIO())._chosen() == "plain"


def test_an_unknown_number_of_batches_is_known_from_the_second_epoch_on(caplog):
    caplog.set_level(logging.INFO)

    source = data()
    bar = mx.callback.Progress(library="plain")
    for _ in range(2):
        batches = list(source)
        for number, _batch in enumerate(batches):
            bar(mx.model.BatchEndParam(0, number, mx.metric.create("acc"),
                                       {"end_of_batch": number == len(batches) - 1}))
        source.reset()
    assert sum("%" in message for message in caplog.messages) == 4 and bar.total == 4


def test_after_an_error_the_next_bar_begins_anew():
    pytest.importorskip("rich")
    bar = mx.callback.Progress(library="rich", stream=Terminal())

    def fail(param):
        if param.nbatch == 1:
            raise ValueError("for a test")

    with pytest.raises(ValueError, match="for a test"):
        fit(module(), None, 1, batch_end_callback=[bar, fail])
    fit(module(), None, 1, batch_end_callback=bar)
    assert bar.stream.getvalue().count("4/4") >= 1


def test_mistakes_are_named(monkeypatch):
    with pytest.raises(ArgumentError, match="library is 'curses'"):
        mx.callback.Progress(library="curses")
    monkeypatch.setattr(epoch_bars, "find_spec", lambda name: None)
    with pytest.raises(MXNetError, match=r"pip install 'nbmod\[progress\]'"):
        mx.callback.Progress(library="rich")
