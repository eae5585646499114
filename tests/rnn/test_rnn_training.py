"""Recurrent networks are trained as in MXNet, and old scripts that train them run unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nbmod as mx
from tests.compare import assert_same
from tests.programs import language_model

SGD = ("sgd", {"learning_rate": 0.1, "momentum": 0.9})
ADAM = ("adam", {"learning_rate": 0.01, "wd": 1e-3})
RUNS = [("lstm", [6, 4], *SGD), ("lstm", [5], *ADAM), ("gru", [3, 6, 5], *ADAM),
        ("bidirectional", [4, 6], *SGD), ("fused lstm", [6, 4], *ADAM), ("fused gru", [5], *SGD)]


@pytest.mark.parametrize("cell, lengths, optimizer, options", RUNS, ids=[
    f"{cell} {lengths} {optimizer}" for cell, lengths, optimizer, _ in RUNS])
def test_twenty_steps_are_mxnets(oracle, cell, lengths, optimizer, options):
    """Sums in another order differ by 1e-7 a step; twenty steps stay below 1e-4."""
    args = (cell, lengths, optimizer, options, 20)
    ours = language_model.trained(mx, *args)
    theirs = oracle.call("mx_scripts.run", "language_model", "trained", *args)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert_same(ours[name], theirs[name], 1e-4, name)
    assert ours["moved"] > 0.01


SCRIPTS = Path(__file__).parents[1] / "scripts"


def printed(folder, script, *args):
    """Words and numbers of the lines that `nbmod run` prints for an MXNet script."""
    command = [sys.executable, "-m", "nbmod", "run", str(SCRIPTS / script), *args]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return figures(ran.stdout)


def figures(text):
    return [(line.split()[0], [float(figure) for figure in line.split()[1:]])
            for line in text.splitlines() if not line.startswith("WARNING")]


def test_a_script_from_before_there_were_cells_prints_mxnets_figures(oracle, tmp_path):
    script = str(SCRIPTS / "handmade_lstm.py")
    ours = printed(tmp_path, script, "--prefix", "ours", "--gpus", "0")
    ran = subprocess.run([oracle.python, script, "--prefix", "theirs"], cwd=tmp_path,
                         capture_output=True, text=True, timeout=300)
    theirs = figures(ran.stdout)
    assert [name for name, _ in ours] == [name for name, _ in theirs] == 8 * ["perplexity"] + [
        "loaded"]
    for (_, (our,)), (_, (their,)) in zip(ours, theirs, strict=True):
        assert our == pytest.approx(their, abs=2e-4)  # the last printed digit, either way
    # It falls, and the checkpoint holds what was trained.
    assert ours[7][1][0] < 0.9 * ours[0][1][0] and ours[8][1] == ours[7][1]


@pytest.mark.parametrize("gpus", ["0", "0,1"])
def test_a_script_with_fused_cells_and_checkpoints_runs(tmp_path, gpus):
    """18 words: it has learned something, and the unfused network from the file equals it."""
    (name, (unfused, fused)), = printed(tmp_path, "cell_lstm.py", "--model-prefix", "net",
                                        "--gpus", gpus)
    assert name == "perplexity" and fused < 12
    assert unfused == pytest.approx(fused, rel=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net-0002.params", "net-0004.params", "net-0006.params", "net-symbol.json"]
