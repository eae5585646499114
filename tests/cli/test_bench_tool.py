"""`nbmod bench`: a row for every step with its costs, their total, fractions of peak."""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import nbmod as mx
from nbmod.bench.networks import bound
from nbmod.bench.roofs import Roofs, Share
from nbmod.bench.step_facts import StepTime
from nbmod.cli import bench
from nbmod.cli import main as cli
from nbmod.execution.cost_model import StepCost, cost_of, costs_of
from nbmod.ops.op import Spec

SHAPE = (2, 3, 8, 8)


def network():
    x = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=4, kernel=(3, 3), name="conv")
    x = mx.sym.Activation(x, act_type="tanh", name="tanh")
    x = mx.sym.FullyConnected(x, num_hidden=5, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


@pytest.fixture
def lines(tmp_path, capsys):
    """The words of every line of the table for a network, after the line about the host."""
    network().save(str(tmp_path / "net.json"))

    def run(*options):
        status = cli.main(["bench", str(tmp_path / "net.json"), "--shape", "data=2,3,8,8",
                           "--repeats", "2", *options])
        assert status == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_a_row_for_every_step(lines):
    about, head, *rows, total = lines()
    assert "inference, " in about
    assert "GFLOP/s in registers" in about and "GB/s from memory" in about
    assert tuple(head.replace("% time", "%").split()) == tuple(
        column.split()[0] for column in bench.COLUMNS)
    assert len(set(map(len, rows))) == 1  # columns are aligned
    found = {row.split()[0]: row.split() for row in rows}
    assert {"conv", "tanh", "fc", "softmax"} <= set(found)
    # 2 multiplications and additions: 4 filters of 27 weights on 2 images of 36 pixels; 144 to 5
    assert found["conv"][5] == f"{2 * 4 * 27 * 72 / 1e9:.3f}"
    assert found["conv"][-1] in ("float32", "L1", "L2")
    assert found["tanh"][-1] in ("L1", "L2") and len(found["tanh"]) == len(found["conv"]) - 2
    assert sum(float(row[4]) for row in found.values()) == pytest.approx(100, abs=0.06 * len(rows))
    assert total.split()[:3] == ["total", str(len(rows)), "steps"]


def test_training_has_backward_steps_and_the_longest_may_come_first(lines):
    about, _, *rows, _ = lines("--train", "--sort")
    assert "training, " in about
    assert {"conv_backward", "fc_backward"} <= {row.split()[0] for row in rows}
    times = [float(row.split()[2]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert len(lines("--train", "--top", "3")) == 2 + 3 + 1


def test_steps_are_written_and_compared(lines, tmp_path, capsys):
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    lines("--json", str(before))
    rows = json.loads(before.read_text())
    assert not any("noise" in row for row in rows), "two rounds do not tell it"
    lines("--repeats", "9", "--json", str(before))
    rows = json.loads(before.read_text())
    assert all(row.pop("noise") > 0 for row in rows)
    before.write_text(json.dumps(rows))
    assert {"conv", "tanh", "fc", "softmax"} <= {row["name"] for row in rows}
    for row in rows:
        row["seconds"] *= 2
    after.write_text(json.dumps(rows))
    assert cli.main(["bench", "--compare", str(before), str(after)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(rows) and all("2.000  SLOWER" in line for line in printed[1:])


def test_steps_are_drawn_and_kept(lines, tmp_path, capsys):
    chart, history = tmp_path / "a.svg", tmp_path / "h.jsonl"
    lines("--svg", str(chart), "--history", str(history))
    assert "conv" in chart.read_text() and "inference, " in chart.read_text()
    rows = [json.loads(line) for line in history.read_text().splitlines()]
    assert {"conv", "tanh", "fc", "softmax"} <= {row["name"] for row in rows}
    assert all(row["date"] and "commit" in row for row in rows)
    assert cli.main(["bench", "--history", str(history)]) == 0
    assert capsys.readouterr().out == (
        f"{len(rows)} results of {len(rows)} kernels, 0 change points\n")


def test_files_are_compared_in_a_chart(tmp_path):
    for name, seconds in [("a.json", 1.0), ("b.json", 1.2)]:
        (tmp_path / name).write_text(json.dumps([{"name": "conv", "seconds": seconds}]))
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    assert cli.main(["bench", "--compare", *files, "--svg", str(tmp_path / "c.svg")]) == 0
    assert ">1.200 SLOWER</text>" in (tmp_path / "c.svg").read_text()


OPERATOR = """
import nbmod as mx, numpy as np
class Slow(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        for _ in range({turns}):
            np.sort(np.arange(5000.0))
        self.assign(out_data[0], req[0], in_data[0])
@mx.operator.register("slow_twice")
class SlowProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Slow()
"""


@pytest.mark.skipif(shutil.which("git") is None, reason="git is absent")
def test_a_network_is_compared_with_another_commit(tmp_path, monkeypatch, capsys):
    """Its operator, a module of the repository, takes three times as long as one commit before."""
    for turns in (10, 30):
        (tmp_path / "bench_slow_operator.py").write_text(OPERATOR.format(turns=turns))
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "operator"]):
            subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@example.org",
                            *command], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("bench_slow_operator")
    monkeypatch.delitem(sys.modules, "bench_slow_operator")
    files = [tmp_path / name for name in ("net.json", "c.svg", "r.json")]
    mx.sym.Custom(mx.sym.Variable("data"), op_type="slow_twice", name="slow").save(str(files[0]))
    assert cli.main(["bench", "net.json", "--shape", "data=2,3", "--import", "bench_slow_operator",
                     "--baseline", "HEAD~1", "--svg", "c.svg", "--json", "r.json"]) == 0
    result, = json.loads(files[2].read_text())
    assert result["verdict"] == "SLOWER" and result["ratio"] > 1
    assert "SLOWER" in capsys.readouterr().out and ">HEAD~1</text>" in files[1].read_text()


@pytest.mark.parametrize("command", ["bench", "warmup"])
def test_a_prefix_names_a_network(command, tmp_path):
    parser = argparse.ArgumentParser()
    importlib.import_module(f"nbmod.cli.{command}").arguments(parser)
    prefix, file = str(tmp_path / "net"), tmp_path / "net-symbol.json"
    assert parser.parse_args([prefix]).symbol == prefix  # its error tells what is not there
    file.write_text("")
    assert parser.parse_args([prefix]).symbol == parser.parse_args([str(file)]).symbol == str(file)


def test_a_network_without_shapes_is_an_error(capsys):
    assert cli.main(["bench", "net-symbol.json"]) == 1
    assert "give a network and the shapes of its inputs" in capsys.readouterr().err


def test_parameters_get_gradients_and_inputs_none():
    executor = bound(network(), {"data": SHAPE}, training=True)
    assert [name for name, array in executor.grad_dict.items() if array is not None] == [
        "conv_weight", "conv_bias", "fc_weight", "fc_bias"]


def test_blocks_of_channels_are_counted_as_they_are_defined():
    """Steps count the operations of the symbol's operators, in any transformed form."""
    executor = bound(network(), {"data": SHAPE}, training=True)
    total = sum(cost.operations for cost in costs_of(executor.compiled))
    forward = 2 * 4 * 27 * 72 + 2 * 2 * 144 * 5
    assert total == 2 * forward + 2 * 2 * 144 * 5  # the data of fc has a gradient, too
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=5).entries[0].node.op
    specs = [Spec(shape, np.dtype(np.float32)) for shape in [(2, 144), (5, 144), (5,), (2, 5)]]
    assert cost_of(dense, specs[:3], specs[3:]).operations == 2 * 2 * 144 * 5


def test_the_share_is_of_what_limits_a_step_and_what_exceeds_it_is_explained():
    roofs = Roofs(1, {"float32": 100.0}, dict.fromkeys(("L1", "L2", "L3", "memory"), 10.0),
                  dict.fromkeys(("L1", "L2", "L3"), 10 ** 9), "2026-01-01")
    assert StepTime("a", "b", 2.0, StepCost(50, 1)).share(roofs) == Share(
        0.25, "float32 peak")
    assert StepTime("a", "b", 2.0, StepCost(0, 10)).share(roofs) == Share(
        0.5, "L1 bandwidth")
    rows = [StepTime("a", "b", 2.0, StepCost(500, 1), is_winograd=True),
            StepTime("c", "d", 2.0, StepCost(0, 100)),
            StepTime("e", "f", 2.0, StepCost(0, 10))]
    *_, winograd, other = bench.table(rows, roofs)
    assert winograd.startswith("a is above its roof: Winograd's algorithm")
    assert other.startswith("c is above its roof: its inputs were")


@pytest.mark.parametrize("text", ["data", "data=", "=3", "data=1,x", "data=1,-2"])
def test_a_shape_that_is_none_is_a_complaint(text, capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "net.json", "--shape", text])
    assert "is not like data=16,3,224,224" in capsys.readouterr().err
