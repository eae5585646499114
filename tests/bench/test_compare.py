"""`bench.compare` without its peers: its results, and what is counted."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from bench import compare, goals, gpu, levels, report
from bench.virtual_environment import ROOT
from bench.workloads import SUITES, workloads
from nbmod.base import MXNetError
from nbmod.bench import Pace
from nbmod.bench.foreign.worker_process import WorkerProcess
from nbmod.core.config import CONFIG
from nbmod.ops.simd.host import Registers

RESNET50 = 7.7e9
"""Operations for an image of 224 x 224, stride in the first convolution of a unit (He et al.: 3.8
billion products)."""


def test_a_run_leaves_a_table_figures_and_a_chart(tmp_path, capsys):
    compare.main(["small", "--only", "perceptron", "--peers", "nbmod", "--rounds", "1",
                  "--out", str(tmp_path)])
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in table[1:3]] == [
        ["perceptron", phase, "64", "ms"] for phase in ("infer", "train")]
    text = (tmp_path / "small.json").read_text()
    found = json.loads(text)
    assert set(found["about"]) == {"date", "versions", "threads", "machine", "cpu", "level",
                                   "features", "python", "GFLOP/s", "GB/s", "clock"}
    assert found["about"]["versions"].keys() == {"nbmod"}
    assert [row["name"] for row in found["results"]] == ["perceptron infer 64",
                                                         "perceptron train 64"]
    assert all(row["values"]["nbmod"] > 0 for row in found["results"])
    assert str(tmp_path) not in text
    assert "| perceptron infer 64 | ms |" in (tmp_path / "small.md").read_text()
    assert ">perceptron train 64</text>" in (tmp_path / "small.svg").read_text()


def test_work_is_counted_on_the_symbol():
    operations = {one.name: one.cost()[0] for one in workloads("models", ["resnet50"])}
    assert operations["resnet50 infer 1"] == pytest.approx(RESNET50, rel=0.02)
    assert operations["resnet50 infer 16"] == 16 * operations["resnet50 infer 1"]
    # gradients by data and weight of all but the first layer, whose data gradient is not needed
    ratio = operations["resnet50 train 16"] / operations["resnet50 infer 16"]
    assert 2.9 < ratio < 3


@pytest.mark.parametrize("suite", SUITES)
def test_every_workload_has_all_its_shapes(suite):
    for one in workloads(suite, []):
        network = one.network(1)
        assert all(all(shape) for shape in (network["args"] | network["aux"]).values())
        assert bool(network["wanted"]) and not set(one.inputs) & set(network["wanted"])


def test_who_computes_something_else_is_left_out(capsys):
    ready = {name: {"first": first} for name, first in
             [("nbmod", [1.0, 2.0]), ("mxnet", [1.0, 2.001]), ("pytorch", [9.0, 2.0])]}
    compare._require_agreement("net", ready)
    assert list(ready) == ["nbmod", "mxnet"]
    assert "net: PyTorch is left out" in capsys.readouterr().err


def test_ratios_and_bars(tmp_path):
    result = report.Result("net", "ms", {"nbmod": 1.0, "mxnet": 2.0})
    assert result.ratios == {"mxnet": 0.5} and result.share is None
    about = dict.fromkeys(("date", "threads", "cpu", "level", "clock"), "") | {
        "versions": {"nbmod": "1"}, "features": [], "GFLOP/s": 1.0, "GB/s": 1.0}
    noisy = report.Result("noisy", "ms", {"nbmod": 1.0, "mxnet": 2.0}, noise={"mxnet": 0.1})
    report.publish(tmp_path, "suite", [result, noisy], about)
    assert ": `python -m bench.compare suite`" in (tmp_path / "suite.md").read_text()
    report.publish(tmp_path, "suite", [result, noisy], about | {"level": "x86-64-v3"})
    assert ": `NBMOD_CPU_LEVEL=x86-64-v3 python -m" in (tmp_path / "suite.md").read_text()
    chart = (tmp_path / "suite.svg").read_text()
    assert chart.count("<title>MXNet: 0.50</title>") == 2 and chart.count('class="whisker"') == 3
    nothing = report.Result("net", "MB", {"nbmod": 1.0, "mxnet": 0.0})
    assert nothing.ratios == {} and report.show([nothing], ["nbmod", "mxnet"])[1].split()[3:] == [
        "-", "-"]


def test_who_ends_in_the_middle_is_left_out(capsys, monkeypatch):
    class Worker:
        def __init__(self, ends):
            self.ends = ends

        def call(self, function, *args):
            return {"entry.prepare": {"first": [1.0], "note": ""}, "entry.forget": None}[function]

        def arm(self, source, processor, warm):
            return self

        def time(self, calls, turn):
            if self.ends:
                raise MXNetError("gone")
            return 0.25

        def forget(self):
            pass

    monkeypatch.setattr(compare, "PACE", Pace())
    workers = {"nbmod": Worker(False), "mxnet": Worker(True)}
    options = compare._options(["--rounds", "2"])
    result = compare.measured(workloads("small", ["perceptron train"])[0], workers, options)
    assert result.values == {"nbmod": 250.0} and result.noise == {}
    options.rounds = 8
    assert compare.measured(workloads("small", ["perceptron train"])[0], {"nbmod": Worker(False)},
                            options).noise == {"nbmod": 0.0}
    assert "MXNet is left out: gone" in capsys.readouterr().err


def test_frameworks_compute_at_the_level_of_this_process(monkeypatch, capsys):
    """One that does not obey is left out, and so is one that does not tell."""
    class Worker:
        answers: ClassVar = {"nbmod": 256, "mxnet": 256, "pytorch": 512, "onnxruntime": None}
        started: ClassVar = []

        def __init__(self, *args, environment, **options):
            self.started.append(environment)

        def call(self, function, name):
            assert function == "entry.vector_bits"
            return self.answers[name]

        def close(self):
            pass

    monkeypatch.setattr(compare, "WorkerProcess", Worker)
    monkeypatch.setattr(compare, "python_of", Path)
    monkeypatch.setattr(levels, "registers", lambda: Registers(32, 16))
    for level, names in (("", list(Worker.answers)), ("x86-64-v3", ["nbmod", "mxnet"])):
        monkeypatch.setattr(CONFIG, "cpu_level", level)
        assert [name for name, _ in compare.workers_of(list(Worker.answers), 2)] == names
        assert Worker.started[-1] == levels.LIMITS.get(level, {})
    assert capsys.readouterr().err.splitlines() == [
        "*** x86-64-v3: PyTorch is left out: it computes with vectors of 512 bits, x86-64-v3 asks "
        "for 256",
        "*** x86-64-v3: onnxruntime is left out: it has no such switch, x86-64-v3 asks for 256"]
    monkeypatch.setattr(CONFIG, "cpu_level", "apple-m1")
    with pytest.raises(MXNetError, match="can only be limited to x86-64-v3"):
        levels.limits()


def test_a_level_narrows_the_vectors_of_a_worker():
    for level, nbytes in (("x86-64-v3", 32), ("x86-64-v4", 64)):
        with closing(WorkerProcess(Path(sys.executable), ROOT, "bench.frameworks",
                                   environment={"NBMOD_CPU_LEVEL": level})) as worker:
            assert worker.call("entry.vector_bits", "nbmod") == 8 * nbytes


def test_goals_are_for_workloads_that_there_are():
    assert goals.RATIOS.keys() <= goals.workloads_by_name().keys()


def test_a_run_for_the_goals_leaves_tables(tmp_path, monkeypatch, capsys):
    """A missed goal is bold; a failure is reported, and the rest is run."""
    def failing():
        raise ValueError("no peak here")

    monkeypatch.setattr(goals, "product", failing)
    monkeypatch.setattr(goals, "plans", lambda: iter([("plan", "small", "large", False)]))
    monkeypatch.setattr(goals.plans, "__name__", "plans")
    goals.main(["--only", "perceptron", "failing", "plans", "--peers", "nbmod", "--rounds", "1",
                "--out", str(tmp_path)])
    assert "failing: no peak here" in capsys.readouterr().err
    lines = (tmp_path / "cpu-engine.md").read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")] == [
        "| workload", "| perceptron train 64", "| what", "| plan"]
    assert lines[-1] == "| plan | small | **large** |"
    row = report.Result("resnet50 train 16", "ms", {"nbmod": 1.0, "mxnet": 1.9, "pytorch": 2.0})
    assert goals._time_row(row, ["mxnet", "pytorch", "onnxruntime"]).startswith(
        "| resnet50 train 16 | 1 | **0.53** | 0.5 | 0.50 | 0.85 | - | - |")


def test_an_unknown_suite_is_a_complaint(capsys):
    with pytest.raises(SystemExit):
        compare.main(["modles"])
    assert "there is no suite modles" in capsys.readouterr().err


@pytest.mark.gpu
def test_a_run_on_a_gpu_compares_steps_and_graphs(monkeypatch, tmp_path, capsys):
    """PyTorch does not see a simulated GPU, or is absent; that is reported, and the rest runs."""
    monkeypatch.setattr(gpu, "LAYERS", 3)
    gpu.main(["launches", "--rounds", "1", "--out", str(tmp_path / "gpu.json")])
    said = capsys.readouterr()
    assert "PyTorch is left out" in said.err and "launches infer" in said.out
    found = json.loads((tmp_path / "gpu.json").read_text())
    (row,) = found["results"]
    assert row["values"].keys() == {"nbmod", "nbmod graphs", "nbmod TF32"} == (
        found["versions"].keys())
    assert all(value > 0 for value in row["values"].values())


def test_workloads_for_gpus_are_named_once():
    names = [one.name for one in gpu.workloads()]
    assert len(set(names)) == len(names) > 20
    with pytest.raises(SystemExit):
        gpu.main(["absent"])


def test_ratios_on_a_gpu_are_between_equal_precisions():
    found = report.Result("product", "ms", {"nbmod": 4.0, "nbmod graphs": 2.0, "nbmod TF32": 1.0,
                                            "PyTorch": 8.0, "PyTorch TF32": 2.0}, 3e9, 5e6)
    (line,) = gpu.table([found], list(gpu.VARIANTS), head=False)
    assert line.split() == ["product", "4.000", "2.000", "1.000", "8.000", "2.000", "0.25", "0.50",
                            "3.00", "5"]
    (line,) = gpu.table([found], ["nbmod", "PyTorch TF32"], head=False)
    assert line.split() == ["product", "4.000", "2.000", "nan", "0.75", "1"]
