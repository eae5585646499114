"""`nbmod doctor`: the report, and what a cold compile costs."""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.cli import doctor, self_test
from nbmod.cli import main as cli
from nbmod.core.config import CONFIG
from nbmod.ops import jit
from nbmod.ops.build import costs

compiles = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1",
                              reason="nothing is compiled")


@pytest.fixture
def saved(tmp_path):
    """A small network in a file."""
    net = mx.sym.softmax(mx.sym.tanh(mx.sym.Variable("data")))
    net.save(str(tmp_path / "net-symbol.json"))
    return str(tmp_path / "net-symbol.json")


def test_the_report_tells_what_an_issue_should(capsys, monkeypatch):
    monkeypatch.setenv("NBMOD_NO_SUCH_SWITCH", "7")
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert [part.splitlines()[0] for part in out.split("\n\n")] == [
        "Versions", "Processor", "Compile cache", "GPUs", "Extras", "Environment", "Self test"]
    rows = dict(re.findall(r"^  (.+?)  +(.+)$", out, re.MULTILINE))
    assert rows["nbmod"] == mx.__version__ and rows["numpy"] == np.__version__
    assert rows["folder"].startswith(str(jit.cache_folder()))
    assert int(rows["kernels"]) >= 0 and re.fullmatch(r"[\d.]+ of \d+ MB", rows["size"])
    assert rows["vector registers"].endswith(" bits")
    assert rows["NBMOD_NO_SUCH_SWITCH"] == "7" and rows["image"].startswith("simplejpeg ")
    assert mx.num_gpus() or rows["usable"].startswith("0 usable CUDA device(s)")
    for check in ("arrays", "network, gradients", "files", "GPUs"):
        assert re.match(r"passed.* \([\d.]+ s\)", rows[check])
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        assert re.search(r"\d+ threads of (omp|tbb|workqueue)", rows["network, gradients"])


@pytest.mark.parametrize("file, told", [
    ("", "nothing: only under `nbmod run`"), ("mxnet.py", "nbmod, by nbmod-mxnet in {}"),
    ("mxnet/__init__.py", "the real MXNet in {}/mxnet")])
def test_whose_mxnet_programs_import(tmp_path, monkeypatch, file, told):
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert doctor._mxnet().replace(os.sep, "/").startswith(told.format(tmp_path.as_posix()))


def test_every_extra_is_told():
    extras = configparser.ConfigParser()
    extras.read(Path(__file__).parents[2] / "setup.cfg")
    same = {"all", "bench", "docs", "test", "demo", "cu12", "cu12-mlir", "cu13", "nccl-cu12",
            "safetensors"}
    assert {*extras["options.extras_require"]} - same == {*doctor.EXTRAS}


def test_failed_tests_are_part_of_the_report(capsys, monkeypatch):
    def wrong():
        self_test._close([1, 2], [1, 2.1], "output")

    def broken():
        raise OSError("no\n space")

    monkeypatch.setattr(self_test, "CHECKS", {"sums": wrong, "files": broken, "rest": str})
    assert cli.main(["doctor", "--markdown"]) == 1
    out = capsys.readouterr().out
    assert "  sums   FAILED: MXNetError: output differs by 0.1 of 2.1\n" in out
    assert "  files  FAILED: OSError: no space\n" in out and "  rest   passed (0.0 s)\n" in out
    assert out.startswith("<details>") and out.endswith("\n```\n\n</details>\n")
    assert cli.main(["doctor", "--no-test"]) == 0
    assert "FAILED" not in capsys.readouterr().out


@compiles
def test_a_cold_compile_is_measured(saved, capsys):
    assert cli.main(["doctor", "--compile", saved, "--shape", "data=256,300"]) == 0
    title, head, *rows, total, last = capsys.readouterr().out.splitlines()
    assert title.startswith(saved) and "data (256, 300)" in title
    assert head.split()[:2] == ["kernel", "CPU"]
    kernels, seconds = [row.split()[0] for row in rows], [float(row.split()[1]) for row in rows]
    assert any(name.startswith("nn.softmax_kernels.") for name in kernels)
    assert any("tanh" in name for name in kernels)
    assert seconds == sorted(seconds, reverse=True) and max(seconds) > 0.05
    assert all(float(row.split()[-1]) > 0 for row in rows)
    assert total.startswith(f"total of {len(rows)} kernels")
    assert re.fullmatch(r"[\d.]+ s from start to end, [\d.]+ s of CPU time; "
                        r"\d+ files of \d+ kB", last)


def test_what_is_missing_or_wrong_is_said(saved, tmp_path, capsys):
    for words, told in [(["--train"], "are for --compile"),
                        (["--compile", saved], "--shape data=1,3,224,224"),
                        (["--compile", "--train"], "need a network"),
                        (["--compile", str(tmp_path / "none"), "--shape", "data=1"], "none"),
                        (["--compile", saved, "--shape", "other=2,3"], "other")]:
        assert cli.main(["doctor", *words]) == 1
        assert told in capsys.readouterr().err


@jit.inlined
def added(x, y):
    return x + y


@compiles
def test_costs_of_helpers_are_those_of_the_kernel(monkeypatch):
    monkeypatch.setattr(CONFIG, "cache", False)
    @jit.kernel
    def add(x, y):
        for i in range(len(x)):
            x[i] = added(x[i], y[i])

    with costs.measured() as found:
        add(np.ones(3), np.ones(3))
    (cost,) = found
    assert cost.name == f"{__name__}.add" and 100 < cost.nbytes < 10_000
    assert min(cost.frontend, cost.lowering, cost.llvm) > 0
    assert cost.seconds == cost.frontend + cost.lowering + cost.llvm
    with costs.measured() as found:
        add(np.ones(3), np.ones(3))
    assert not found


@compiles
def test_a_kernel_that_cannot_be_compiled_has_no_code():
    @jit.kernel
    def wrong(x):
        x.no_such_method()

    with costs.measured() as found, pytest.raises(mx.MXNetError, match="wrong"):
        wrong(np.ones(3))
    assert [cost.nbytes for cost in found] == [0]
