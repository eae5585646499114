"""Startup of a process: importing is lazy, and compiles nothing. Processes that compile kernels
and processes that load them compute the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.compare import assert_same
from tests.without_compiler import blocked


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("module", ["nbmod", "nbmod.ops", "nbmod.core.serialization"])
def test_import_loads_no_compiler_and_no_image_library(module):
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = set(run(code).split())
    assert not loaded & {"numba", "llvmlite", "PIL", "cv2", "matplotlib"}


def test_the_first_eager_expression_needs_no_compiler():
    """Arithmetic, reduction, shape and indexing; `bench.startup` measures how long they take."""
    code = """
import nbmod as mx, sys
y = ((mx.nd.ones((2, 3)) * 2 + 1).reshape((3, 2))[1:].sum()).asscalar()
print(y, 'numba' in sys.modules)
"""
    assert run(code).split() == ["12.0", "False"]


def test_light_ops_run_without_a_compiler():
    """Elementwise, reduction, shape and indexing ops, eagerly, where numba cannot be imported."""
    code = """
import sys
sys.modules["numba"] = None
import nbmod as mx
from nbmod.ops import LIGHT, OPS
from tests.programs import common
from tests.cases import all_samples
done = set()
for name, sample in all_samples().items():
    if OPS[sample.op].__module__.removeprefix("nbmod.ops.") in LIGHT and not sample.error:
        inputs = {k: common.nd(mx, v) for k, v in sample.arrays(sample.dtypes[0]).items()}
        function = common.op_function(mx.nd, sample.op)
        if sample.keyword:
            function(**inputs, **sample.attrs)
        else:
            function(*inputs.values(), **sample.attrs)
        done.add(sample.op)
print(len(done))
"""
    assert int(run(code)) > 200


def test_kernels_run_as_python_functions(monkeypatch):
    """NUMBA_DISABLE_JIT=1: for debuggers, and for coverage (`tests.interpreted`)."""
    code = """
import nbmod as mx
net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=2, name="conv")
executor = mx.sym.softmax(mx.sym.flatten(net)).simple_bind(mx.cpu(), data=(1, 1, 4, 4))
for array in executor.arg_arrays:
    array[:] = mx.nd.arange(array.size).reshape(array.shape) / array.size
print(executor.forward(is_train=True)[0].asnumpy().round(4).tolist())
executor.backward(mx.nd.arange(8).reshape((1, 8)))
print(executor.grad_dict["conv_weight"].asnumpy().round(4).tolist())
"""
    compiled = run(code)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert run(code) == compiled


def results_of_programs(folder, name: str, threads: int) -> dict[str, np.ndarray]:
    """Results of `cold_programs` in a process of its own, with the cache in `folder`."""
    path = folder / f"{name}.npz"
    places = {"NBMOD_CACHE_DIR": folder / "nbmod", "NUMBA_CACHE_DIR": folder / "numba",
              "NUMBA_NUM_THREADS": threads}
    environment = os.environ | {key: str(value) for key, value in places.items()}
    ran = subprocess.run([sys.executable, "-m", "tests.programs.cold_programs", path], timeout=600,
                         capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    return dict(np.load(path))


def test_processes_that_compile_and_that_load_compute_the_same_bits(tmp_path):
    cold = results_of_programs(tmp_path, "cold", threads=2)
    for name, threads in (("warm", 2), ("warm again", 2), ("one thread", 1)):
        warm = results_of_programs(tmp_path, name, threads)
        different = [key for key in cold if cold[key].tobytes() != warm[key].tobytes()]
        assert warm.keys() == cold.keys() and not different, name


TRAINING = """
import json
import numpy as np
import nbmod as mx
x = mx.sym.Variable("data")
for number, kernel in enumerate((3, 2)):
    x = mx.sym.Convolution(x, kernel=(kernel, kernel), num_filter=8, no_bias=True,
                           name=f"conv{number}")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, name=f"bn{number}"), act_type="relu")
x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=4, name="fc")
net = mx.sym.SoftmaxOutput(x, name="softmax")
rng = np.random.default_rng(0)
data, label = rng.random((24, 3, 12, 12)), rng.integers(0, 4, 24)
batches = mx.io.NDArrayIter(data, label, batch_size=8)
mx.random.seed(0)
module = mx.mod.Module(net)
module.fit(batches, num_epoch=2, optimizer_params={"momentum": 0.9}, initializer=mx.init.Xavier())
args, aux = module.get_params()
print(json.dumps({name: array.asnumpy().tolist() for name, array in (args | aux).items()}))
print(json.dumps(module.predict(batches).asnumpy().tolist()))
mx.set_num_threads(1)
print(mx.get_num_threads(), *module._exec_group.execs[0].debug_str().splitlines()[:2])
"""


def test_networks_are_trained_where_there_is_no_compiler():
    """And one sentence says why it takes longer."""
    with blocked() as environment:
        done = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True,
                              env=environment)
    parameters, predictions, plan = done.stdout.splitlines()
    assert done.stderr == ("No kernel can be compiled (ImportError: numba is blocked); NumPy "
                           "computes, slower\n")
    assert plan.startswith("1 ") and "there is no compiler" in plan
    expected, found, _ = run(TRAINING).splitlines()
    # Sums in another order, six updates: 1e-4 is ten times what they differ by.
    for name, value in json.loads(expected).items():
        assert_same(np.array(json.loads(parameters)[name]), np.array(value), 1e-4, name)
    assert_same(np.array(json.loads(predictions)), np.array(json.loads(found)), 1e-4, "outputs")


def test_a_numba_for_older_numpy_is_none(tmp_path):
    """It is installed, and refuses to be imported; binding does not import one that works."""
    package = tmp_path / "numba"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('Numba needs NumPy 1.20 or less')")
    facts = tmp_path / "numba-0.50.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Name: numba\nRequires-Dist: numpy<1.21,>=1.15\n")
    done = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.stderr == ("No kernel can be compiled (ImportError: Numba needs NumPy 1.20 or "
                           "less); NumPy computes, slower\n")
    assert "there is no compiler" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("command", ["warmup", "doctor --compile", "bench x --shape data=1"])
def test_commands_for_kernels_say_that_there_is_no_compiler(command):
    with blocked() as environment:
        done = subprocess.run([sys.executable, "-m", "nbmod", *command.split()], text=True,
                              capture_output=True, env=environment)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "there is no compiler (ImportError: numba is blocked); install" in done.stderr


def test_the_report_says_that_there_is_no_compiler():
    with blocked() as environment:
        done = subprocess.run([sys.executable, "-m", "nbmod", "doctor"], text=True,
                              capture_output=True, env=environment)
    assert not done.returncode, done.stderr
    assert "none, NumPy computes (ImportError: numba is blocked)" in done.stdout
    assert "passed, 1 threads of NumPy" in done.stdout
