"""Startup of a process: importing is lazy, and compiles nothing. Processes that compile kernels
and processes that load them compute the same bits."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("module", ["nbmod", "nbmod.ops", "nbmod.serialization"])
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
