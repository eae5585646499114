"""Compiled code on disk: made ahead, by several processes at once, where nothing can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

import nbmod as mx
from nbmod import cli
from nbmod.ops import jit, progress

LATER = """
import sys
from nbmod import sym
from nbmod.ops.jit import kept_files
from nbmod.tools.warmup import warm
before = kept_files()
warm(sym.load(sys.argv[1]), {"data": (256, 300)}, training=False)
print(before, kept_files())
"""


@pytest.fixture
def saved(tmp_path):
    """A small network in a file."""
    net = mx.sym.softmax(mx.sym.tanh(mx.sym.Variable("data")))
    net.save(str(tmp_path / "net-symbol.json"))
    return str(tmp_path / "net-symbol.json")


def begin(folder, *words):
    """A process with compiled code in `folder`."""
    return subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"NBMOD_CACHE_DIR": str(folder)})


def end(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def test_two_processes_warm_an_empty_cache_and_a_third_compiles_nothing(saved, tmp_path):
    words = "-m", "nbmod", "warmup", saved, "--shape", "data=256,300"
    both = [begin(tmp_path / "kept", *words) for _ in range(2)]
    for process in both:
        out, err = end(process)
        assert " kernels compiled in " in out and str(tmp_path / "kept") in out and not err
    out, err = end(begin(tmp_path / "kept", "-c", LATER, saved))
    before, after = map(int, out.split())
    assert before == after >= 2 and not err


def test_common_layers_are_warmed(capsys):
    assert cli.main(["warmup"]) == 0
    assert capsys.readouterr().out.endswith(f"kept in {jit.cache_folder()}\n")


def test_what_is_missing_is_said(saved, capsys, monkeypatch):
    assert cli.main(["warmup", saved]) == 1
    assert "--shape data=1,3,224,224" in capsys.readouterr().err
    monkeypatch.setattr(jit.CONFIG, "cache", False)
    assert cli.main(["warmup"]) == 1
    assert "NBMOD_CACHE=0" in capsys.readouterr().err


def test_where_nothing_can_be_written_one_warning_says_so(saved, tmp_path):
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    out, err = end(begin(tmp_path / "file" / "kept", "-c", LATER, saved))
    before, after = map(int, out.split())
    assert before == 0 and after >= 2
    assert err.count("UserWarning: compiled kernels cannot be kept in") == 1
    assert "NBMOD_CACHE_DIR" in err


def test_what_was_compiled_is_used_where_nothing_more_can_be_written(saved, tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "code").write_text("compiled")

    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(jit.tempfile, "TemporaryFile", refuse)
    with pytest.warns(UserWarning, match="Permission denied"):
        other = jit._writable(tmp_path / "kept")
    assert (other / "code").read_text() == "compiled" and other != tmp_path / "kept"
    monkeypatch.setattr(jit.tempfile, "mkdtemp", lambda prefix: refuse(None))
    monkeypatch.setattr(jit.CONFIG, "cache", True)
    with pytest.warns(UserWarning, match="Permission denied"):
        jit._writable(tmp_path / "kept")
    assert not jit.keeps_code()


def test_long_compilation_is_told_of_once(capsys, monkeypatch):
    """Compilations within others do not count twice, and nothing goes to stdout."""
    clock = iter([0, 0.6, 10, 10.7, 20, 29])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    listener, told = progress.Progress(), []
    start, end = (SimpleNamespace(is_start=flag) for flag in (True, False))
    for event in (start, start, end, end, start, end, start, end):
        listener.notify(event)
        told.append(capsys.readouterr())
    assert [each.err.count("compiling kernels") for each in told] == [0, 0, 0, 0, 0, 1, 0, 0]
    assert not any(each.out for each in told)


def test_who_does_not_watch_is_told_nothing(tmp_path, monkeypatch):
    code = """
from nbmod.ops import jit, progress
import numpy as np
progress.LONG = 0
@jit.kernel
def double(x):
    for i in range(len(x)):
        x[i] *= 2
double(np.ones(3))
"""
    (tmp_path / "script.py").write_text(code)
    assert end(begin(tmp_path / "kept", tmp_path / "script.py")) == ("", "")
    monkeypatch.setenv("NBMOD_DEBUG", "1")
    out, err = end(begin(tmp_path / "other", tmp_path / "script.py"))
    assert err.count("nbmod: compiling kernels") == 1 and not out
