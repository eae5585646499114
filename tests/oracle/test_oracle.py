"""The oracle itself: the pipes transport data unchanged, errors and crashes are distinguished."""

from __future__ import annotations

import io
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from bench import mxnet_environment, virtual_environment
from bench.virtual_environment import Environment
from nbmod.bench.foreign import foreign_worker
from tests import conftest
from tests.nested import run_pytest
from tests.oracle.client import Oracle, OracleCrash, OracleError


@pytest.mark.parametrize(
    "message",
    [
        None,
        {"a": [1, 2.5, "text", True, None], "b": (1, (2,))},
        {"bytes": b"\0\1", "empty": b"", "nested": [{"x": b"y"}]},
        [np.arange(6, dtype=kind).reshape(2, 3) for kind in ("float16", "int8", "uint8", "int64")],
        np.zeros((0, 3), np.float32),
        np.float32(0.5),
    ],
    ids=["none", "json", "bytes", "arrays", "empty-array", "scalar"],
)
def test_messages_come_back_as_sent(message):
    pipe = io.BytesIO()
    foreign_worker.send(pipe, message)
    pipe.seek(0)
    np.testing.assert_equal(foreign_worker.receive(pipe), message)


def test_a_cut_frame_is_an_eof():
    pipe = io.BytesIO()
    foreign_worker.send(pipe, {"a": np.ones(3)})
    with pytest.raises(EOFError):
        foreign_worker.receive(io.BytesIO(pipe.getvalue()[:-1]))


def test_it_is_the_real_one(oracle):
    assert oracle.call("mx_ops.version") == "1.9.1"
    names = oracle.call("mx_ops.list_ops")
    assert {"Convolution", "_plus_scalar", "_contrib_box_nms"} <= set(names)


def test_run_op_returns_gradients_and_states(oracle):
    x = np.array([[1, 2], [3, 6]], np.float32)
    inputs = {
        "data": x,
        "gamma": np.full(2, 5, np.float32),
        "beta": np.zeros(2, np.float32),
        "moving_mean": np.zeros(2, np.float32),
        "moving_var": np.ones(2, np.float32),
    }
    grad = {"data": "write", "beta": "add"}
    ran = oracle.call(
        "mx_ops.run_op", "BatchNorm", {"momentum": "0.5"}, inputs, grad=grad, heads=[x]
    )
    np.testing.assert_allclose(ran["aux"]["moving_mean"], x.mean(0) / 2)
    np.testing.assert_allclose(ran["grads"]["beta"], 1 + x.sum(0))
    np.testing.assert_allclose(ran["args"]["gamma"], 1)  # fix_gamma, its default, writes ones


def test_infer_and_run_graph(oracle):
    json = oracle.call("mx_scripts.evaluate", _NET, {})[0]
    found = oracle.call("mx_ops.infer", json, {"data": (2, 3)}, {"data": "float32"})
    assert found["arg_shapes"] == [(2, 3), (4, 3), (4,), (2,)]
    assert found["out_types"] == ["float32"]
    assert oracle.call("mx_ops.infer", json, {}, partial=True)["out_shapes"] == [()]
    arrays = {"arg:fc_weight": np.ones((4, 3), np.float32), "arg:fc_bias": np.zeros(4, np.float32)}
    params = oracle.call("mx_ops.save_arrays", arrays)
    np.testing.assert_equal(oracle.call("mx_ops.load_arrays", params), arrays)
    data = {"data": np.ones((2, 3), np.float32)}
    ran = oracle.call("mx_ops.run_graph", json, params, data)
    assert ran["output_names"] == ["softmax_output"]
    np.testing.assert_allclose(ran["outputs"][0], 0.25)


def test_exceptions_keep_the_process(oracle):
    oracle.call("mx_ops.version")
    process = oracle._process
    with pytest.raises(OracleError, match="has no op Nonsense"):
        oracle.call("mx_ops.run_op", "Nonsense", {}, {})
    assert oracle.call("mx_ops.version") and oracle._process is process


def test_after_a_crash_or_a_timeout_the_next_call_works(oracle):
    other = Oracle(oracle.python)
    try:
        with pytest.raises(OracleCrash, match="the process ended"):
            other.call("mx_scripts.evaluate", "__import__('os').abort()", {})
        with pytest.raises(OracleCrash, match="no answer within 1.5 s"):
            other.call("mx_scripts.evaluate", "__import__('time').sleep(60)", {}, timeout=1.5)
        assert other.call("mx_ops.version") == "1.9.1"
        assert other.repeats == 2  # a timeout is not repeated
    finally:
        other.close()


def test_what_an_earlier_call_broke_is_asked_of_a_fresh_process(oracle):
    other = Oracle(oracle.python)
    try:
        other.call("mx_scripts.evaluate", _BREAKS_SOON, {})
        assert other.call("mx_scripts.evaluate", "__import__('time').sleep(1) or 7", {}) == [7]
        assert other.repeats == 1
    finally:
        other.close()


def test_a_disagreement_is_asked_of_a_fresh_process_once(oracle):
    asked = []
    again = SimpleNamespace(pytest_pyfunc_call=lambda pyfuncitem: asked.append(pyfuncitem) or True)
    item = SimpleNamespace(user_properties=[], funcargs={"oracle": oracle}, ihook=again)
    oracle.call("mx_ops.version")
    assert disagree(item) is True and asked == [item] and oracle._process is None
    with pytest.raises(AssertionError, match="off by one"):
        disagree(item)
    with pytest.raises(AssertionError, match="off by one"):
        disagree(SimpleNamespace(**{**vars(item), "user_properties": [], "funcargs": {}}))
    assert asked == [item]


def disagree(item):
    """A failing test's call is replaced by this value."""
    wrapper = conftest.pytest_pyfunc_call(item)
    next(wrapper)
    with pytest.raises(StopIteration) as end:
        wrapper.throw(AssertionError("off by one"))
    return end.value.value


@pytest.mark.parametrize("required, outcome", [("0", "1 skipped"), ("1", "1 error")])
def test_a_python_that_is_not_there_is_told(tmp_path, required, outcome):
    """Visibly where the tests are skipped, and where they must run."""
    missing = str(tmp_path / "python")
    ran = run_pytest(tmp_path, "-rs", f"{__file__}::test_it_is_the_real_one",
                     NBMOD_ORACLE_PYTHON=missing, NBMOD_REQUIRE_ORACLE=required)
    told = f"NBMOD_ORACLE_PYTHON names {missing}, which is no program"
    assert outcome in ran.stdout and f"1 TESTS DID NOT RUN. MXNet's environment is absent: {told}" \
        in ran.stdout


def test_no_environment_is_made_beside_one_that_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NBMOD_ORACLE_PYTHON", str(tmp_path / "python"))
    assert mxnet_environment.find_python() is None and mxnet_environment.main() == 1
    assert "which is no program" in capsys.readouterr().err
    monkeypatch.setenv("NBMOD_ORACLE_PYTHON", sys.executable)
    assert str(mxnet_environment.find_python()) == sys.executable and mxnet_environment.main() == 0


def test_an_environment_counts_once_it_is_whole(tmp_path, monkeypatch):
    wanted, asked = Environment("peer", tmp_path / "it", ("one==1", "two")), []

    def run(command, **options):
        asked.append(command)
        (tmp_path / "it").mkdir(exist_ok=True)
        if "two" in command and len(asked) == 2:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(virtual_environment.subprocess, "run", run)
    with pytest.raises(subprocess.CalledProcessError):
        wanted.make()
    assert wanted.find() is None
    wanted.make(before=("three",))
    assert wanted.find() == wanted.python and asked[-2][-1] == "three"
    assert Environment("peer", tmp_path / "it", ("one==2", "two")).find() is None


_NET = (
    "mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=4, name='fc'),"
    " name='softmax').tojson()"
)

_BREAKS_SOON = (
    "__import__('threading').Timer(0.5, __import__('os').abort).start() or mx.__version__"
)
