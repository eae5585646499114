"""The command line: the demo and its errors, and MXNet scripts run unchanged."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys

import pytest

import nbmod as mx
from nbmod.cli import demo
from nbmod.cli import main as cli


def test_demo_leaves_a_checkpoint_and_a_plot(tmp_path, capsys, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    figures = []
    plot = demo.history.plot
    monkeypatch.setattr(demo.history, "plot", lambda *args: figures.append(plot(*args)))
    assert cli.main(["demo", "--out", str(tmp_path / "new"), "--epochs", "2"]) == 0
    prefix = tmp_path / "new" / "lenet"
    lines = capsys.readouterr().out.splitlines()
    accuracy = float(re.fullmatch(r"validation accuracy .*: ([\d.]+)%", lines[-2])[1])
    assert accuracy > 80  # after 2 of its 12 epochs
    epochs = [line for line in lines if line.startswith("epoch")]
    assert [line[:10] for line in epochs] == ["epoch 1/2:", "epoch 2/2:"]
    assert f"validation-accuracy={accuracy / 100:.3f}" in epochs[-1]
    assert figures[0].axes[0].get_lines()[1].get_xdata()[-1] == 2   # as the checkpoint's number
    for name in (f"{prefix}-symbol.json", f"{prefix}-0002.params",
                 str(prefix.parent / "learning-curve.png")):
        assert name in lines[-1] and os.path.getsize(name) > 1000
    module = mx.mod.Module.load(str(prefix), 2)
    images, labels = demo.load_digits()
    validation = mx.io.NDArrayIter(images[::demo.EVERY], labels[::demo.EVERY], demo.BATCH)
    module.bind(validation.provide_data, validation.provide_label, for_training=False)
    scored = dict(module.score(validation, "acc"))["accuracy"]
    assert scored == pytest.approx(accuracy / 100, abs=1e-3)


def fail(error):
    def raise_it(*_):
        raise error
    return raise_it


@pytest.mark.parametrize("error, status, text", [
    (KeyboardInterrupt(), 130, "nbmod: interrupted\n"),
    (mx.MXNetError("no kernels"), 1, "nbmod: no kernels\n"),
    (FileExistsError(17, "File exists", "x"), 1, "nbmod: [Errno 17] File exists: 'x'\n")])
def test_what_ends_the_demo_is_one_line(monkeypatch, capsys, error, status, text):
    monkeypatch.setattr(demo, "demo", fail(error))
    assert cli.main(["demo"]) == status
    assert capsys.readouterr().err == text


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["demo", "--out", str(tmp_path / "new")]) == 1
    assert "pip install 'nbmod[demo]'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("args, text", [
    (["demo", "--epochs", "0"], "at least 1"), (["walk"], "walk")])
def test_wrong_arguments_are_explained(capsys, args, text):
    with pytest.raises(SystemExit, match="2"):
        cli.main(args)
    assert text in capsys.readouterr().err


def test_without_a_command_help_is_printed(capsys):
    assert cli.main([]) == 0
    found = capsys.readouterr()
    assert "usage:" in found.out and "demo" in found.out and not found.err


def run_script(folder, text, *args):
    (folder / "helper.py").write_text("value = 7\n")
    (folder / "script.py").write_text(text)
    return subprocess.run([sys.executable, "-m", "nbmod", "run", str(folder / "script.py"), *args],
                          capture_output=True, text=True, timeout=120)


def test_scripts_run_unchanged(tmp_path):
    """Their arguments, their folder, `__main__`, MXNet's name and version, and GPUs."""
    ran = run_script(tmp_path, """
import sys
assert "mxnet" not in sys.modules  # some begin processes only before MXNet is there
import mxnet as mx, numpy as np
from mxnet.module.module import Module
import mxnet.ndarray as nd
from helper import value
if __name__ == "__main__":
    a = mx.nd.array(np.arange(3), ctx=mx.gpu(1)) + mx.nd.ones((3,), mx.gpu(1))
    print(sys.argv[1:], value, mx.__version__, a.asnumpy(), a.context, Module is mx.mod.Module)
""", "--gpus", "0,1", "-h")
    assert ran.stdout == "['--gpus', '0,1', '-h'] 7 1.9.1 [1. 2. 3.] cpu(1) True\n"
    assert ran.stderr.count("gpu(1) is not available") == 1 and ran.returncode == 0
    assert "script.py:9: UserWarning" in ran.stderr


def test_names_of_mxnets_days_are_there(tmp_path):
    """Names that NumPy and Python have removed since, without any output on stderr."""
    ran = run_script(tmp_path, """
import time
import numpy as np
from collections import Iterable, Mapping
print(np.arange(2.5).astype(np.int), np.zeros(1, np.float).dtype, np.asscalar(np.ones(1)), np.Inf)
print(np.fromstring(b"\\1\\2\\3", dtype=np.uint8, count=2), np.fromstring("4 5", sep=" "))
print(time.clock() <= time.clock(), np.product([2, 3]), isinstance({}, Mapping))
""")
    assert ran.stdout == "[0 1 2] float64 1.0 inf\n[1 2] [4. 5.]\nTrue 6 True\n"
    assert ran.stderr == "" and ran.returncode == 0


def test_a_scripts_own_end_is_kept(tmp_path, capsys):
    ran = run_script(tmp_path, "raise SystemExit(5)")
    assert ran.returncode == 5 and ran.stderr == ""
    ran = run_script(tmp_path, "import mxnet as mx\nmx.sym.Variable('x').bind(mx.cpu(), {})")
    assert ran.returncode == 1 and "nothing given for" in ran.stderr
    assert "script.py" in ran.stderr
    assert cli.main(["run", str(tmp_path / "none.py")]) == 2
    assert capsys.readouterr().err.startswith("nbmod: run: there is no file")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes of exceptions")
@pytest.mark.parametrize("error, cure", [
    ("TypeError('only 0-dimensional arrays can be converted to Python scalars')", "x.item()"),
    ("AttributeError(\"'numpy.ndarray' object has no attribute 'tostring'\")", "x.tobytes()"),
    ("AttributeError(\"module 'numpy' has no attribute 'cast'\")", "numpy<2"),
    ("OverflowError('Python integer 300 out of bounds for uint8')", "astype"),
    ("ValueError('... has an inhomogeneous shape after 1 dimensions.')", "dtype=object")])
def test_errors_of_numpy_2_name_the_cure(tmp_path, error, cure):
    ran = run_script(tmp_path, f"raise {error}")
    assert ran.returncode == 1 and cure in ran.stderr.splitlines()[-1]


def test_other_errors_get_no_cure(tmp_path):
    assert run_script(tmp_path, "raise ValueError('mine')").stderr.endswith("ValueError: mine\n")
