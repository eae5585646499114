"""Ranks that die, hang or fail: what is said, that all of them end, and that training goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from nbmod.launcher import mpiexec, position
from tests.kvstore.distributed import kills
from tests.kvstore.distributed.launched import Launch, require_mpi

require_mpi()

FOLDER = Path(__file__).parent
SCRIPT = str(FOLDER / "misfortunes.py")
OOM = "; if nobody has sent this signal, the host may have run out of memory"

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes")


@pytest.mark.parametrize("what, status, message", [
    ("be_killed", 137, f"was killed by SIGKILL at epoch 0, batch 3{OOM}"),
    ("exit_with_a_status", 7, "ended with exit status 7 at epoch 0, batch 3"),
    ("exit_with_words", 1, "ended with exit status 1 at epoch 0, batch 3"),
    ("vanish", 1, "ended with exit status 0 at epoch 0, batch 3; it did not come to the end of its "
     "script, as after os._exit(0)"),
    ("raise_an_error", 1, "ended with ValueError: a label of 11 is no class at epoch 0, batch 3"),
])
def test_the_death_of_a_rank_is_one_line_and_ends_all(what, status, message):
    run = Launch(["-n", "3", SCRIPT, what, "1"])
    assert run.wait() == status, run.text
    assert run.said("nbmod: ") == [f"nbmod: rank 1 of 3 (host {os.uname().nodename}) {message}"]
    assert "-----" not in run.text, "Open MPI's own report is left out"
    assert ("[1] ValueError: a label of 11" in run.text) == (what == "raise_an_error")
    assert ("[1] no data here" in run.text) == (what == "exit_with_words")


@pytest.mark.parametrize("what, account", [
    ("never_return", "it is at epoch 0, batch 3, in never_return (misfortunes.py:"),
    ("sleep_long", "it is at epoch 0, batch 3, in sleep_long (misfortunes.py:"),
    ("end_early", "its script has ended; ranks 0, 2 wait for it"),
    ("be_stopped", "it does not answer, so it is stopped"),
])
def test_a_rank_that_hangs_is_named(what, account):
    run = Launch(["-n", "3", SCRIPT, what, "1"], {"NBMOD_DIST_TIMEOUT": "1"})
    assert run.wait() == 1, run.text
    line, = run.said("nbmod: ")
    assert line.startswith(f"nbmod: rank 1 of 3 (host {os.uname().nodename}) has not reached the "
                           "push of key 'w' of epoch 0, batch 3 for "), line
    assert account in line


def test_a_rank_whose_script_has_ended_is_named_without_a_timeout():
    run = Launch(["-n", "3", SCRIPT, "end_early", "1"], {"NBMOD_DIST_TIMEOUT": "0"})
    assert run.wait() == 1, run.text
    line, = run.said("nbmod: ")
    assert line.startswith(f"nbmod: rank 1 of 3 (host {os.uname().nodename}) has not reached the "
                           "push of key 'w' of epoch 0, batch 3 for "), line
    assert "its script has ended; ranks 0, 2 wait for it" in line


@pytest.mark.parametrize("what, message", [
    ("raise_an_error", "ended with ValueError: a label of 11 is no class at epoch 0, batch 3"),
    ("never_return", "has not reached the push of key 'w' of epoch 0, batch 3")])
def test_ranks_that_mpiexec_started_end_as_well(what, message):
    """Without `launch`."""
    program = mpiexec.find()
    line = mpiexec.command(program, mpiexec.kind_of(program), mpiexec.Ranks(2),
                           [sys.executable, "-m", "nbmod", "run", SCRIPT, what, "1"])
    ran = subprocess.run(line, env=mpiexec.environment() | {"NBMOD_DIST_TIMEOUT": "1"},
                         capture_output=True, timeout=120)
    assert ran.returncode != 0
    assert f"nbmod: rank 1 of 2 (host {os.uname().nodename}) {message}" in ran.stderr.decode()


@pytest.mark.slow
def test_killed_training_is_resumed_and_ends_with_the_same_bits(tmp_path):
    options = ["--pause", "0.1"]
    expected = kills.trained(tmp_path / "whole", 2, options)
    chance = random.Random(1)
    for number in range(3):
        trial = kills.kill_once(tmp_path / f"killed{number}", 2, chance, expected, options)
        assert not trial.problem, trial


@pytest.mark.slow
def test_restarts_are_counted_and_end(tmp_path):
    run = Launch(["-n", "2", "--restarts", "2", SCRIPT, "exit_with_a_status", "1"])
    assert run.wait() == 7
    assert [line.partition(": launch: ")[2] for line in run.said("nbmod: launch: ")] == [
        "restart 1 of 2: all 2 ranks begin anew", "restart 2 of 2: all 2 ranks begin anew"]
    assert len(run.said("nbmod: rank 1 of 2")) == 3


@pytest.mark.slow
def test_training_goes_on_with_another_number_of_ranks(tmp_path):
    """The batch of all ranks together changes, which is said."""
    script, prefix = str(FOLDER / "training.py"), str(tmp_path / "net")
    first = Launch(["-n", "3", script, prefix, "--epochs", "2"])
    assert first.wait() == 0, first.text
    second = Launch(["-n", "2", script, prefix, "--epochs", "4"])
    assert second.wait() == 0, second.text
    ends = {line.partition("] ")[2] for line in second.said("[") if "began at 2" in line}
    assert len(ends) == 1, "all ranks have the same parameters"
    assert "written by 3 worker(s), and there are 2 now" in second.text


# ------------------------------------------------------------------------------------ positions

def test_a_position_is_read_from_what_a_process_leaves(tmp_path, monkeypatch):
    file = tmp_path / "position"
    file.write_bytes(position.blank())
    monkeypatch.setattr(position, "_file", None)
    monkeypatch.setattr(position, "_now", position.Position())
    assert not position.is_supervised() and position.read(file.read_bytes()) == position.Position()
    position.adopt(str(file))
    position.tell(3, 117)
    position.doing("push of 3 keys")
    assert position.is_supervised()
    assert str(position.read(file.read_bytes())) == "epoch 3, batch 117, in push of 3 keys"
    position.doing("x" * 10_000)
    position.last_words("\N{SNOWMAN}" * 10_000)
    found = position.read(file.read_bytes())
    assert found == position.current() and found.last_words == "\N{SNOWMAN}" * 1000


def test_a_process_killed_while_it_writes_leaves_the_position_before(tmp_path, monkeypatch):
    file = tmp_path / "position"
    file.write_bytes(position.blank())
    monkeypatch.setattr(position, "_file", None)
    monkeypatch.setattr(position, "_now", position.Position())
    position.adopt(str(file))
    position.tell(1, 2)
    before = file.read_bytes()
    position.tell(1, 3)
    after = bytearray(file.read_bytes())
    assert str(position.read(bytes(after))) == "epoch 1, batch 3"
    after[:1] = before[:1]    # all but the number of the slot is written
    assert str(position.read(bytes(after))) == "epoch 1, batch 2"


@pytest.mark.parametrize("content", [b"", b"0", b"1[]", b"0[1,2]\n", b"0{}\n", b"7\xff\xfe",
                                     b'0[[], {}, 1, "x", 2]\n', b'0[[], {}, 1, "x"]\n',
                                     b"0" + b"[" * 100_000])
def test_damaged_positions_are_none(content):
    found = position.read(content)
    assert found.epoch is None and found.batch is None
