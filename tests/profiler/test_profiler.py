"""The profiler: every step once, in order, with its cost; no overhead when it is off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import nbmod as mx
from nbmod import profiler
from nbmod.base import MXNetError
from nbmod.execution.cost_model import cost_of
from nbmod.executor import Executor
from nbmod.ndarray import invocation
from nbmod.ops import OPS
from nbmod.ops.op import Backward, Spec, resolve_needs
from nbmod.profiler import session
from nbmod.profiler.recorder import RECORDER
from tests.compare import assert_like
from tests.programs import tools

EVERYTHING = {"profile_all": True}
NOTHING = dict.fromkeys(["profile_all", "profile_symbolic", "profile_imperative", "profile_memory",
                         "profile_api"], False)  # fmt: skip


@pytest.fixture(autouse=True)
def fresh(tmp_path):
    """A recorder without events, and a file of its own; the configuration is then restored."""
    before = dict(session._config)
    RECORDER.clear()
    profiler.set_config(**NOTHING, filename=str(tmp_path / "profile.json"))
    yield
    profiler.set_state("stop")
    profiler.set_config(**before)
    RECORDER.clear()
    RECORDER.clear_totals()


def trace(tmp_path, **config):
    """Contents of the file: (events except metadata, names of tracks)."""
    profiler.dump()
    events = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
    places = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    return [e for e in events if e["ph"] != "M"], places


def network():
    x = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=4, kernel=(3, 3), name="conv")
    x = mx.sym.Flatten(mx.sym.Activation(x, act_type="relu", name="relu"), name="flat")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=5, name="fc"), name="softmax")


def bound(context=None):
    executor = network().simple_bind(context or mx.cpu(1), data=(2, 3, 6, 6))
    executor.forward(is_train=True)
    executor.backward()
    return executor


def test_every_step_appears_once_for_each_run(tmp_path):
    executor = bound()
    profiler.set_config(profile_symbolic=True, profile_api=True)
    profiler.set_state("run")
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward()
    profiler.set_state("stop")
    executor.forward()
    events, places = trace(tmp_path)
    steps = [e for e in events if e["cat"] == "operator"]
    names = [node.name for node in executor.compiled.nodes]
    assert [e["name"] for e in steps] == names * 2
    ops = [node.op_name for node in executor.compiled.nodes]
    assert [e["args"]["op"] for e in steps] == ops * 2
    assert {places[e["pid"]] for e in steps} == {"cpu(1)"}
    assert {e["tid"] for e in steps} == {threading.get_ident()}
    views = [e for e in steps if e["args"].get("view")]
    assert {e["name"] for e in views} == {"flat", "flat_backward"}
    assert_nested(steps, [e for e in events if e["cat"] == "api"], executor.compiled.num_forward)


def assert_nested(steps, halves, num_forward):
    """Steps are sequential within their pass, so they take no longer than it."""
    assert [e["name"] for e in halves] == ["Executor.forward", "Executor.backward"] * 2
    per_run = len(steps) // 2
    starts = [0, num_forward, per_run, per_run + num_forward, len(steps)]
    for half, first, last in zip(halves, starts[:-1], starts[1:], strict=True):
        at = half["ts"]
        for step in steps[first:last]:
            assert step["ts"] >= at
            at = step["ts"] + step["dur"]
        assert at <= half["ts"] + half["dur"]
        assert sum(e["dur"] for e in steps[first:last]) <= half["dur"]


def test_a_convolution_is_counted_right(tmp_path):
    executor = bound()
    profiler.set_config(profile_symbolic=True)
    profiler.set_state("run")
    executor.forward(is_train=True)
    executor.backward()
    steps = {e["name"]: e for e in trace(tmp_path)[0]}
    products = 2 * 4 * 4 * 4 * (3 * 3 * 3)  # each element of (2, 4, 4, 4) needs a filter (3, 3, 3)
    assert steps["conv"]["args"]["operations"] == 2 * products
    assert steps["conv_backward"]["args"]["operations"] == 4 * products  # by data and by weight
    assert steps["fc"]["args"]["operations"] == 2 * 2 * 5 * 64
    single = 4 * (2 * 3 * 36 + 4 * 27 + 4 + 2 * 64)  # data, weight, bias, output; float32
    assert steps["conv"]["args"]["bytes"] == single
    speed = steps["conv"]["args"]["operations"] / steps["conv"]["dur"] / 1e3
    assert steps["conv"]["args"]["GFLOP/s"] == pytest.approx(speed, rel=1e-3)
    assert steps["relu"]["args"]["bytes"] == 4 * 2 * 2 * 64 and "GB/s" in steps["relu"]["args"]


def counted(name, params, shapes, wanted=None):
    """Operations of an op, or of its gradient by the inputs `wanted`, on float32 tensors."""
    op = OPS[name].from_attrs(params)
    ins, outs = op.infer_shape([shapes.get(n) for n in op.list_inputs()],
                               [None] * len(op.list_outputs()))
    specs = [[Spec(shape, np.dtype("float32")) for shape in some] for some in (ins, outs)]
    if wanted is None:
        return cost_of(op, *specs).operations
    read = list(resolve_needs(op))
    backward = Backward(op, len(ins), [need for need, _, _ in read])
    tensors = [specs[kind != "in"][index] for _, kind, index in read]
    grads = [spec if n in wanted else None
             for n, spec in zip(op.list_inputs(), specs[0], strict=True)]
    return cost_of(backward, tensors, grads).operations


COUNTS = {
    "grouped convolution": ("Convolution", {"num_filter": 4, "kernel": (3, 2), "num_group": 2},
                            {"data": (2, 6, 5, 5)}, 2 * (2 * 4 * 3 * 4) * (3 * 3 * 2)),
    "deconvolution": ("Deconvolution", {"num_filter": 4, "kernel": (3, 3), "stride": (2, 2)},
                      {"data": (2, 6, 5, 5)}, 2 * (2 * 6 * 25) * (4 * 9)),
    "dense layer": ("FullyConnected", {"num_hidden": 7}, {"data": (3, 2, 5)}, 2 * 3 * 7 * 10),
    "dot": ("dot", {"transpose_a": True}, {"lhs": (5, 3), "rhs": (5, 4)}, 2 * 3 * 4 * 5),
    "vectors": ("dot", {}, {"lhs": (5,), "rhs": (5,)}, 2 * 5),
    "large": ("dot", {}, {"lhs": (100003, 99991), "rhs": (99991, 99989)},
              2 * 100003 * 99991 * 99989),
    "stack": ("batch_dot", {"transpose_b": True}, {"lhs": (6, 2, 5), "rhs": (6, 3, 5)},
              2 * 6 * 2 * 3 * 5),
    "gemm": ("_linalg_gemm2", {}, {"A": (2, 3, 4, 5), "B": (2, 3, 5, 7)}, 2 * 6 * 4 * 7 * 5),
    "lstm": ("RNN", {"mode": "lstm", "state_size": 4, "num_layers": 2, "bidirectional": True},
             {"data": (5, 3, 6)}, 2 * 5 * 3 * 2 * 16 * (6 + 4 + 8 + 4)),
    "gru": ("RNN", {"mode": "gru", "state_size": 4, "num_layers": 1}, {"data": (5, 3, 6)},
            2 * 5 * 3 * 12 * (6 + 4)),
    "softmax": ("softmax", {}, {"data": (3, 4)}, 0),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTS)
def test_counts_are_those_of_the_definitions(case):
    name, params, shapes, operations = COUNTS[case]
    assert counted(name, params, shapes) == operations
    factors = [n for n in ("data", "weight", "parameters", "lhs", "rhs", "A", "B")
               if n in OPS[name].from_attrs(params).list_inputs()]
    assert counted(name, params, shapes, factors) == len(factors) * operations
    assert counted(name, params, shapes, ["bias"]) == 0


def places_of_hooks():
    import nbmod.io.data_iter
    import nbmod.kvstore.kvstore

    return [Executor.profiler, Executor.forward, invocation.execute, mx.nd.NDArray.asnumpy,
            mx.mod.Module.update, nbmod.kvstore.kvstore.KVStore.push,
            nbmod.io.data_iter.DataIter.__next__]


def test_nothing_of_it_remains_when_it_is_off():
    before = places_of_hooks()
    assert before[0] is None
    profiler.set_config(**EVERYTHING)
    for _ in range(2):
        profiler.set_state("run")
        profiler.set_state("run")
        assert all(a is not b for a, b in zip(before, places_of_hooks(), strict=True))
        profiler.set_state("stop")
        profiler.set_state("stop")
        assert places_of_hooks() == before


def test_training_shows_modules_stores_iterators_and_operations(tmp_path):
    profiler.set_config(**EVERYTHING)
    profiler.set_state("run")
    data = np.random.default_rng(0).standard_normal((8, 3, 6, 6)).astype(np.float32)
    batches = mx.io.NDArrayIter(data, np.zeros(8), 4)
    module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)])
    module.fit(batches, num_epoch=1)
    (mx.nd.ones((2, 2)) + 1).asnumpy()
    events, places = trace(tmp_path)
    names = {e["name"] for e in events}
    assert names >= {"Module.forward", "Module.backward", "Module.update", "KVStore.pushpull",
                     "DataIter.__next__", "NDArray.asnumpy", "_plus_scalar", "conv",
                     "conv_backward", "Memory: cpu/1"}
    assert [e["name"] for e in events].count("conv") == 4  # two batches on two devices
    assert set(places.values()) >= {"cpu(0)", "cpu(1)", "host"}
    assert not RECORDER.running and not RECORDER.events


def test_custom_operators_have_a_category_of_their_own(tmp_path):
    class Twice(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * 2 + mx.nd.zeros(2))

    @mx.operator.register("profiled_twice")
    class TwiceProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, types):
            return Twice()

    net = mx.sym.Custom(mx.sym.Variable("x"), op_type="profiled_twice", name="twice")
    executor = net.simple_bind(mx.cpu(), x=(2,))
    profiler.set_config(**EVERYTHING)
    profiler.set_state("run")
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(2))
    events, _ = trace(tmp_path)
    names = {e["name"] for e in events if e.get("cat") == "Custom Operator"}
    called = {f"{prefix}profiled_twice::{name}" for prefix in ("", "_backward_")
              for name in ("pure_python", "_mul_scalar")}
    assert names == {*called, *(f"_backward_profiled_twice::{name}"
                                for name in ("_zeros", "broadcast_add"))}
    assert {e["name"] for e in events if e.get("cat") == "operator"} >= {"twice", "twice_backward"}


def test_zeros_and_ones_are_recorded_as_operators(tmp_path):
    profiler.set_config(**EVERYTHING)
    profiler.set_state("run")
    mx.nd.zeros((2, 3)), mx.nd.ones(4)
    events, _ = trace(tmp_path)
    moved = {e["name"]: e["args"]["bytes"] for e in events if e.get("cat") == "operator"}
    assert moved == {"_zeros": 24, "_ones": 16}


def test_a_trace_that_cannot_be_written_is_an_oserror(tmp_path):
    profiler.set_config(**EVERYTHING, filename=str(tmp_path / "none" / "trace.json"))
    profiler.set_state("run")
    profiler.set_state("stop")
    for kind in (OSError, MXNetError):
        with pytest.raises(kind, match="cannot be written"):
            profiler.dump()


def test_monitors_see_the_same_while_it_runs():
    seen = {}
    executor = bound()
    for state in ("stop", "run"):
        profiler.set_config(**EVERYTHING)
        profiler.set_state(state)
        names = seen[state] = []
        executor.set_monitor_callback(lambda name, array, names=names: names.append(name), True)
        executor.forward(is_train=True)
    assert seen["run"] == seen["stop"]


def test_errors_pass_through_and_are_recorded():
    executor = bound()
    profiler.set_config(**EVERYTHING)
    profiler.set_state("run")
    with pytest.raises(MXNetError, match="unknown argument 'nothing'"):
        executor.forward(nothing=mx.nd.ones((1,)))
    assert RECORDER.times["api", "Executor.forward"].count == 1


def test_tables_are_mxnets(oracle, tmp_path):
    file = str(tmp_path / "theirs.json")
    theirs = oracle.call("mx_scripts.run", "tools", "profiled", file)
    assert_like(tools.profiled(mx, file), theirs)


def test_totals_are_sorted_as_asked():
    profiler.set_state("run")
    for name, values in {"few": [1000], "many": [1, 2, 3]}.items():
        counter = profiler.Domain("d").new_counter(name)
        for value in values:
            counter.set_value(value)
    first = {(key, ascending): list(json.loads(profiler.dumps(
        format="json", sort_by=key, ascending=ascending))["Time"]["d"])[0]
        for key in ("total", "avg", "min", "max", "count") for ascending in (True, False)}
    assert {key for key, name in first.items() if name == "few"} == {
        ("total", False), ("avg", False), ("min", False), ("max", False), ("count", True)}
    numbers = json.loads(profiler.dumps(format="json", reset=True))["Time"]["d"]["many"]
    assert numbers == {"Count": 3, "Total": 0.006, "Min": 0.001, "Max": 0.003, "Avg": 0.002}
    assert "d\n" not in profiler.dumps()


def test_pauses_and_scopes(tmp_path):
    profiler.set_config(profile_imperative=True)
    x = mx.nd.ones((2,))
    profiler.set_state("run")
    with profiler.scope("outer"), profiler.scope("inner:"):
        mx.nd.exp(x)
        with profiler.scope("alone", append_mode=False):
            mx.nd.log(x)
    profiler.pause()
    mx.nd.sin(x)
    with profiler.Event("unseen"):
        profiler.Domain("d").new_marker("unseen").mark()
    profiler.resume()
    mx.nd.cos(x)
    names = [e["name"] for e in trace(tmp_path)[0]]
    assert names == ["outer:inner:exp", "alone:log", "cos"]


def test_totals_go_on_when_events_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr("nbmod.profiler.recorder.MAX_EVENTS", 3)
    profiler.set_state("run")
    for _ in range(5):
        with profiler.Event("event"):
            pass
    assert RECORDER.times["event", "event"].count == 5
    events, _ = trace(tmp_path)
    assert len(events) == 3
    assert json.loads((tmp_path / "profile.json").read_text())["otherData"] == {
        "events left out": 2}


def test_older_names(tmp_path):
    file = tmp_path / "old.json"
    profiler.profiler_set_config(mode="symbolic", filename=str(file))
    profiler.profiler_set_state("run")
    bound().outputs[0].asnumpy()
    profiler.dump_profile()
    names = {e["name"] for e in json.loads(file.read_text())["traceEvents"]}
    assert "conv" in names and "NDArray.asnumpy" not in names


WRONG = {
    "argument": (lambda: profiler.set_config(file="x"), "unknown argument 'file'.*'filename'"),
    "value": (lambda: profiler.set_config(profile_all="maybe"), "'maybe', expected True or False"),
    "period": (lambda: profiler.set_config(dump_period="x"), "is 'x', expected a float"),
    "state": (lambda: profiler.set_state("go"), "state is 'go', expected 'run' or 'stop'"),
    "process": (lambda: profiler.set_state("run", "server"), "expected 'worker'"),
    "mode": (lambda: profiler.profiler_set_config("some"), "mode is 'some'"),
    "format": (lambda: profiler.dumps(format="csv"), "format is 'csv', expected 'table' or"),
    "sort": (lambda: profiler.dumps(sort_by="name"), "sort_by is 'name', expected one of"),
    "order": (lambda: profiler.dumps(ascending="up"), "ascending is 'up'"),
    "scope": (lambda: profiler.Domain("d").new_marker("m").mark("here"), "scope is 'here'"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_named(case):
    call, message = WRONG[case]
    with pytest.raises(MXNetError, match=message):
        call()


def test_it_starts_with_the_process_and_writes_at_its_end(tmp_path):
    script = "import nbmod as mx; mx.nd.exp(mx.nd.ones((2,)))"
    environment = {**os.environ, "MXNET_PROFILER_AUTOSTART": "1"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    events = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
    assert "exp" in {e["name"] for e in events}
