"""The live line: what a terminal shows while `fit` and others write to it, and afterwards."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest

import nbmod as mx
from nbmod.callback import epoch_bars
from nbmod.cli import counter
from nbmod.core import screen
from nbmod.core.config import CONFIG
from tests.callback import runs
from tests.terminals import PseudoTerminal, Terminal
from tests.terminals import screen as shown

pytestmark = pytest.mark.filterwarnings("ignore:.*FeedForward has been deprecated")
LEFT = re.compile(r"epoch (\d)/(\d): .*accuracy=\S+ .*\d\.\d s")


@pytest.fixture(params=[40, 80, 200])
def columns(request):
    return request.param


@pytest.fixture
def on_terminal(monkeypatch):
    """A function that makes a block in a terminal; pytest replaces the streams before the test."""
    return partial(watched, monkeypatch, 80)


@contextlib.contextmanager
def watched(monkeypatch, columns):
    """A pseudo terminal in place of both standard streams, on which every batch is shown."""
    pytest.importorskip("termios")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(epoch_bars, "INTERVAL", 0)
    monkeypatch.setattr(epoch_bars, "SHARE", 0)
    monkeypatch.setattr(CONFIG, "progress", True)
    monkeypatch.setattr(screen, "is_child", lambda: False)
    found = PseudoTerminal(columns)
    try:
        with monkeypatch.context() as streams:
            streams.setattr(sys, "stdout", found.out)
            streams.setattr(sys, "stderr", found.err)
            yield found
    finally:
        if not found.out.closed:
            found.close()


@contextlib.contextmanager
def logging_to(stream):
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def fit(**options):
    found = runs.module()
    found.fit(runs.data(), runs.data(), num_epoch=2,
              **{"initializer": mx.init.Xavier(), "optimizer_params": runs.RATE} | options)
    return found


# -- what `fit` shows --------------------------------------------------------------------------


def test_fit_shows_a_bar_and_leaves_a_line_for_each_epoch(monkeypatch, columns):
    with watched(monkeypatch, columns) as terminal:
        found = fit()
        text = terminal.close()
    rows, column = shown(text, columns)
    left = "".join(rows)    # lines that stay may be longer than a narrow terminal
    assert column == 0 and not rows[-1]
    for past in found.history:
        value = past["validation"]["accuracy"]
        assert f"epoch {past['epoch'] + 1}/2: " in left
        assert f"validation-accuracy={value:.4g}" in left
    assert "left" not in left and "[" not in left and "\x1b" not in text
    live = [line.rstrip() for line in re.split(r"[\r\n]+", text) if "%" in line]
    assert max(map(len, live)) <= min(79, columns - 1)
    assert {re.search(r"(\d+)%", line)[1] for line in live} == {"25", "50", "75", "100"}
    assert any("validation" in line for line in live)
    if columns > 40:
        assert re.fullmatch(r"epoch 2/2 \[=====-----\]  50% accuracy=\S+ validation=\S+ [\d,]+/s "
                            r"\d+ s left", next(line for line in live if "2/2 [=====-" in line))


@pytest.mark.parametrize("variable", ["NBMOD_PROGRESS", "TERM", "child"])
def test_nothing_is_shown_to_those_who_do_not_want_it(monkeypatch, on_terminal, variable):
    with on_terminal() as terminal:
        if variable == "NBMOD_PROGRESS":
            monkeypatch.setattr(CONFIG, "progress", False)
        elif variable == "TERM":
            monkeypatch.setenv("TERM", "dumb")
        else:
            monkeypatch.setattr(screen, "is_child", lambda: True)
        fit()
        assert terminal.close() == ""


class Notebook(io.StringIO):
    """As the streams of a notebook: no terminal, and no file."""

    def fileno(self):
        raise io.UnsupportedOperation


@pytest.mark.parametrize("stream", [io.StringIO, Notebook])
@pytest.mark.parametrize("logs", [False, True])
def test_pipes_and_notebooks_get_what_mxnet_logs(monkeypatch, stream, logs):
    file = stream()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(sys, "stdout", file)
    with logging_to(file) if logs else contextlib.nullcontext():
        fit(batch_end_callback=mx.callback.Speedometer(4, 2))
    lines = re.sub(r"\d+\.\d+", "x", file.getvalue()).splitlines()
    assert lines == logs * [
        line.format(epoch) for epoch in (0, 1) for line in (
            "Epoch[{}] Batch [0-2]\tSpeed: x samples/sec\taccuracy=x", "Epoch[{}] Train-accuracy=x",
            "Epoch[{}] Time cost=x", "Epoch[{}] Validation-accuracy=x")]


@pytest.mark.parametrize("callback", [
    lambda: mx.callback.Speedometer(4, 2), lambda: mx.callback.log_train_metric(2)])
def test_callbacks_that_show_progress_replace_the_bar(on_terminal, callback):
    with on_terminal() as terminal:
        with logging_to(terminal.err):
            fit(batch_end_callback=callback())
        text = terminal.close()
        assert "epoch 1/2" not in text and "\r" not in text.replace("\r\n", "")
        assert text.count("Batch") in (2, 4) and text.count("Validation-accuracy") == 2


def test_the_log_on_the_terminal_is_whole_and_tells_of_epochs_alone(on_terminal):
    with on_terminal() as terminal:
        with logging_to(terminal.err):
            fit()
        rows, column = shown(terminal.close())
        assert column == 0
        assert [re.sub(r"[\d.]+$", "x", row) for row in rows] == [
            *(line.format(epoch) for epoch in (0, 1) for line in (
                "Epoch[{}] Train-accuracy=x", "Epoch[{}] Time cost=x",
                "Epoch[{}] Validation-accuracy=x")), ""]


def test_a_log_in_a_file_leaves_the_bar_alone(on_terminal):
    with on_terminal() as terminal:
        file = io.StringIO()
        with logging_to(file):
            fit()
        rows, _ = shown(terminal.close())
        assert sum(bool(LEFT.fullmatch(row)) for row in rows) == 2
        assert file.getvalue().count("Validation-accuracy") == 2


def test_a_callback_that_prints_is_all_that_is_shown_from_then_on(on_terminal):
    with on_terminal() as terminal:
        def tell(param):
            if param.nbatch == 1:
                print("mine", param.epoch)

        fit(batch_end_callback=tell)
        text = terminal.close()
        assert "epoch 1/2" in text and "epoch 2/2" not in text
        assert shown(text) == (["mine 0", "mine 1", ""], 0)


def test_a_callback_that_is_silent_is_not_in_the_way(on_terminal):
    with on_terminal() as terminal:
        fit(batch_end_callback=[lambda param: None, mx.callback.ClipGradients(1.0)])
        rows, _ = shown(terminal.close())
        assert [bool(LEFT.fullmatch(row)) for row in rows] == [True, True, False]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("where", ["batch_end_callback", "eval_batch_end_callback"])
def test_an_exception_leaves_no_part_of_the_line(on_terminal, error, where):
    before = [*screen._open]
    with on_terminal() as terminal:
        def fail(param):
            if param.nbatch == 2:
                os.write(sys.stderr.fileno(), b"^C")    # the terminal's echo
                raise error

        with pytest.raises(error):
            fit(**{where: fail})
        assert screen._open == before and (before or "write" not in vars(sys.stderr))
        text = terminal.close()
        assert "epoch 1/2" in text
        assert shown(text) == ([""], 0)


def test_an_interrupt_while_the_line_is_written_leaves_no_part_of_it(monkeypatch):
    """Ctrl-C arrives between the write and what follows it."""
    class Interrupted(Terminal):
        def flush(self):
            if "50%" in self.getvalue() and not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt

        interrupted = False

    with watched(monkeypatch, 80):
        terminal = Interrupted()
        monkeypatch.setattr(sys, "stderr", terminal)
        with pytest.raises(KeyboardInterrupt):
            fit()
        print("after", file=sys.stderr)
    assert shown(terminal.getvalue()) == (["after", ""], 0)


def test_what_others_write_comes_before_the_line(on_terminal):
    with on_terminal() as terminal:
        line = screen.LiveLine()
        line.show("a line that is long")
        print("from print")
        line.show("again")
        print("to standard error", file=sys.stderr)
        line.show("again")
        print("half", end="", flush=True)
        line.show("not over the half")
        print(" and half")
        line.show("last")
        line.close()
        print("after", file=sys.stderr)
        text = terminal.close()
        assert "not over" not in text
        assert shown(text) == (["from print", "to standard error", "half and half", "after", ""], 0)


def test_a_terminal_that_goes_away_ends_no_training(monkeypatch):
    class Gone(Terminal):
        def write(self, text):
            raise OSError(5, "Input/output error")

    with watched(monkeypatch, 80):
        monkeypatch.setattr(sys, "stderr", Gone())
        assert len(fit().history) == 2


def test_metrics_that_cannot_be_read_within_an_epoch_end_no_training(on_terminal):
    with on_terminal() as terminal:
        class AtTheEnd(mx.metric.Accuracy):
            def get(self):
                if self.num_inst < 16:
                    raise ZeroDivisionError
                return super().get()

        assert len(fit(eval_metric=AtTheEnd()).history) == 2
        assert "epoch 2/2 [=====-----]  50% " in terminal.close()


def test_an_iterator_of_unknown_length_is_counted_first(on_terminal):
    with on_terminal() as terminal:
        class Unknown(mx.io.DataIter):
            def __init__(self):
                super().__init__(4)
                self.inner = runs.data()
                self.provide_data = self.inner.provide_data
                self.provide_label = self.inner.provide_label
                self.reset, self.next = self.inner.reset, self.inner.next

        found = runs.module()
        found.fit(Unknown(), num_epoch=2)
        text = terminal.close()
        assert re.search(r"epoch 1/2 batch 2 accuracy=\S+", text) and "epoch 1/2 [" not in text
        assert re.search(r"epoch 2/2 \[=====-----\]  50%", text)


def test_feed_forward_shows_the_same(on_terminal):
    with on_terminal() as terminal:
        model = mx.model.FeedForward(runs.network(), num_epoch=2, learning_rate=0.1)
        model.fit(runs.data(), eval_data=runs.data())
        text = terminal.close()
        assert "epoch 2/2 [=====-----]  50%" in text and "100%" in text
        rows, column = shown(text)
        assert [bool(LEFT.fullmatch(row)) for row in rows] == [True, True, False] and column == 0


def test_batches_are_counted_by_iterators():
    data = runs.data(batch_size=3)
    assert epoch_bars.batches_in(data) == 6
    assert epoch_bars.batches_in(mx.io.ResizeIter(data, 4)) == 4
    assert epoch_bars.batches_in(mx.io.PrefetchingIter(runs.data(3))) == 6
    assert epoch_bars.batches_in(mx.io.NDArrayIter(mx.nd.ones((16, 2)), batch_size=3,
                                                   last_batch_handle="discard")) == 5
    assert epoch_bars.batches_in(SimpleNamespace(size=4, num_data=3)) is None


def test_an_uncaught_error_of_a_program_is_all_that_is_left(tmp_path):
    """Of a program of its own, whose traceback the interpreter prints."""
    pytest.importorskip("termios")
    script = tmp_path / "train.py"
    script.write_text("""
import sys
from tests.callback import runs
from nbmod.callback import epoch_bars
epoch_bars.INTERVAL = epoch_bars.SHARE = 0
def fail(param):
    if param.nbatch == 2:
        raise SystemError("for a test")
print("begins")
runs.module().fit(runs.data(), num_epoch=1, batch_end_callback=fail)
""")
    terminal = PseudoTerminal(80)
    run = subprocess.run([sys.executable, str(script)], stdout=terminal.out, stderr=terminal.err,
                         env={**os.environ, "PYTHONPATH": os.getcwd(), "TERM": "xterm",
                              "NBMOD_PROGRESS": "1"}, check=False)
    text = terminal.close()
    rows, column = shown(text, 10_000)
    assert run.returncode == 1 and column == 0 and "50%" in text
    assert rows[0] == "begins" and rows[1] == "Traceback (most recent call last):"
    assert rows[-2:] == ["SystemError: for a test", ""]


@pytest.mark.parametrize("variable, coloured", [(None, True), ("", True), ("1", False)])
def test_loggers_are_coloured_unless_that_is_unwanted(on_terminal, monkeypatch, variable, coloured):
    if variable is None:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", variable)
    with on_terminal() as terminal:
        name = f"tests.screen.{variable}"
        mx.log.get_logger(name, level=mx.log.INFO).info("text")
        assert ("\x1b[" in terminal.close()) == coloured
    logging.getLogger(name).handlers.clear()


@pytest.mark.parametrize("ends", [True, False])
def test_a_counter_of_a_tool_leaves_one_line(monkeypatch, ends):
    monkeypatch.setattr(counter, "INTERVAL", 0)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with contextlib.suppress(KeyboardInterrupt), counter.ProgressCounter("a", 3, terminal) as found:
        for _ in range(3 if ends else 2):
            found.add()
        if not ends:
            raise KeyboardInterrupt
    rows, column = shown(terminal.getvalue())
    assert "[====================----------] 2 of 3 a" in terminal.getvalue()
    assert len(rows) == 2 and rows[1] == "" and column == 0
    assert rows[0].startswith(f"a: {3 if ends else 2} of 3 in ")
    assert rows[0].endswith("not finished") != ends


# -- parts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds, text", [(0.4, "0 s"), (119, "119 s"), (200, "3:20"),
                                           (3600, "1:00:00")])
def test_durations(seconds, text):
    assert screen.duration(seconds) == text


def test_names_with_wide_or_control_characters_take_one_column_each(on_terminal):
    with on_terminal() as terminal:
        line = screen.LiveLine()
        line.show("卷积\n\x1b[31m")
        line.close()
        text = terminal.close()
        assert text.startswith("\r???" "?[31m\r") and shown(text) == ([""], 0)


@pytest.mark.parametrize("level, handler_level, told", [
    (logging.INFO, logging.NOTSET, True), (logging.WARNING, logging.NOTSET, False),
    (logging.INFO, logging.WARNING, False)])
def test_whether_a_log_is_on_the_terminal(level, handler_level, told):
    logger = logging.getLogger("tests.screen")
    logger.propagate, handler = False, logging.StreamHandler(Terminal())
    logger.setLevel(level)
    handler.setLevel(handler_level)
    logger.addHandler(handler)
    try:
        assert screen.tells(logger) == told
        handler.stream = io.StringIO()
        assert not screen.tells(logger)
    finally:
        logger.removeHandler(handler)
