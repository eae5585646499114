"""Functions of another Python as arms; the transport is tested by `tests.oracle.test_oracle`."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from nbmod import bench
from nbmod.base import MXNetError
from nbmod.bench.foreign.foreign_worker import seconds_of
from nbmod.bench.foreign.worker_process import WorkerError, WorkerProcess
from nbmod.bench.subjects import CallableArm, InputSets

PEER = """
import os, statistics, sys, time
import numpy as np
import helper

def negative(x, sign=-1.0):
    assert "nbmod" not in sys.modules and hasattr(statistics, "median"), "a file of nbmod"
    assert (os.environ["OMP_NUM_THREADS"], os.environ["EXTRA"]) == ("3", "1"), os.environ
    x = helper.doubled(x)
    assert x.tolist() == [2.0, 4.0]
    return lambda: np.multiply(sign, x)

def failing():
    def run():
        failing.calls += 1
        if failing.calls > 1:
            raise ValueError("no further call")
    return run
failing.calls = 0

def ending():
    return lambda: os._exit(3) if os.path.exists("called") else open("called", "w").close()

def sleeping():
    return lambda: time.sleep(0.05), lambda: None

def idle():
    return lambda: time.sleep(0.05)

def unprepared():
    raise KeyError("weights")
"""


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """The path of a file with functions, which imports another file beside it."""
    (tmp_path / "peer.py").write_text(PEER)
    (tmp_path / "helper.py").write_text("def doubled(x):\n    return 2 * x\n")
    monkeypatch.chdir(tmp_path)
    return "peer.py"


def test_a_function_of_another_python_is_a_baseline(peer):
    x = np.array([1.0, 2.0])
    with bench.other_python(sys.executable, f"{peer}:negative", x, name="theirs", threads=3,
                            environment={"EXTRA": "1"}, sign=1.0) as arm:
        assert arm.pace.settle, "threads of OpenMP spin after their work"
        result = bench.measure(np.negative, x, baseline=arm, seconds=0.05)
        assert result.baseline == "theirs" and result.ratio > 0
        assert bench.side_by_side({"ours": np.negative, "theirs": arm}, x,
                                  seconds=0.05)["theirs"].seconds > 0


def test_errors_of_another_python_are_told(peer):
    told = r"(?s)bench: peer.py:unprepared in .*: KeyError: 'weights'\n.*, in unprepared\n"
    with pytest.raises(MXNetError, match=told), \
            bench.other_python(sys.executable, f"{peer}:unprepared"):
        pass
    with pytest.raises(MXNetError, match="peer.py:failing: .*ValueError: no further call"), \
            bench.other_python(sys.executable, f"{peer}:failing") as arm:
        arm.time(1, 0)
    with pytest.raises(MXNetError, match="peer.py:ending: .*the process ended"), \
            bench.other_python(sys.executable, f"{peer}:ending") as arm:
        arm.time(1, 0)
    with pytest.raises(MXNetError, match="absent-python"), \
            bench.other_python("absent-python", f"{peer}:failing"):
        pass


def test_what_is_called_before_takes_no_time(peer):
    """Neither what is asleep, by the clock of processors."""
    process = WorkerProcess(Path(sys.executable), Path(), "")
    try:
        pair = process.arm(f"{peer}:sleeping")
        assert pair.pace == bench.Pace()
        alone = process.arm(f"{peer}:idle")
        asleep = process.arm(f"{peer}:idle", processor=True)
        # A sleep of 0.05 s is never shorter, and a call that does nothing takes microseconds.
        assert pair.time(2, 0) < 0.05 <= alone.time(2, 0)
        assert asleep.time(2, 0) < 0.05
        alone.forget()
        with pytest.raises(MXNetError, match="KeyError"):
            alone.time(1, 0)
        with pytest.raises(WorkerError, match="No module named 'nothing'"):
            process.call("nothing:at_all")
    finally:
        process.close()


def test_the_clock_is_read_around_the_calls_alone():
    ticks, calls = count(), []
    clock = lambda: float(next(ticks))   # noqa: E731
    assert seconds_of(calls.append, [(1,), (2,)], clock) == 0.5
    assert seconds_of(calls.append, [(3,), (4,)], clock, before=lambda x: calls.append(-x)) == 1.0
    assert calls == [1, 2, -3, 3, -4, 4]
    arm = CallableArm("f", calls.append, InputSets((7,)), before=lambda x: next(ticks),
                      clock=clock)
    assert arm.time(2, 0) == 1.0 and calls[6:] == [7, 7, 7], "an untimed call precedes a block"
