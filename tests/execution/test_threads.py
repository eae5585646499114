"""Threads of kernels: results do not depend on their number; handling of denormals."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading

import numba  # noqa: TID251
import numpy as np
import pytest

import nbmod as mx
from nbmod.ops import jit
from nbmod.ops.jit import switch_here
from nbmod.ops.simd.denormals import FLUSH

SMALL = np.float32(1e-30)
needs_flush = pytest.mark.skipif(not FLUSH, reason="denormals cannot be switched here")


def keeps_denormals():
    """Whether NumPy does, in this thread."""
    return bool(np.full(1, 1e-30, "f") * np.full(1, 1e-10, "f") > 0)


def products(kernel, size=100_000):
    """1e-30 * 1e-10 = 1e-40, a denormal number, computed in as many threads as there are."""
    out = np.full(size, np.nan, "f")
    kernel(np.full(size, 1e-30, "f"), np.full(size, 1e-10, "f"), out)
    return out


@jit.kernel(parallel=True)
def multiply(a, b, out):
    for i in jit.prange(len(out)):
        out[i] = a[i] * b[i]


@needs_flush
def test_denormals_are_0_in_parallel_kernels_only():
    assert not products(multiply).any()
    assert keeps_denormals()
    with mx.exact():
        assert (products(multiply) > 0).all()
    assert not products(multiply).any()


@pytest.mark.parametrize("given, spins", [({}, jit.SPINS), ({"OMP_WAIT_POLICY": "active"}, None),
                                          ({"GOMP_SPINCOUNT": "7"}, 7)])
def test_how_threads_wait_is_said_to_libgomp_unless_users_do(given, spins):
    """In a process where no kernel has run."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    program = ("import os, nbmod; nbmod.get_num_threads(); "
               "print(os.environ['OMP_WAIT_POLICY'], os.environ.get('GOMP_SPINCOUNT'))")
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True,
                          text=True, env=environment | given)
    assert done.stdout.split() == [given.get("OMP_WAIT_POLICY", "passive"), str(spins)]


def network(layer, **shapes):
    x = mx.sym.Variable("data")
    if layer == "dense":
        net = mx.sym.FullyConnected(x, num_hidden=33, no_bias=True, name="layer")
    else:
        net = mx.sym.Convolution(x, num_filter=33, kernel=(3, 3), pad=(1, 1), no_bias=True,
                                 name="layer")
    bound = net.simple_bind(mx.cpu(), **shapes)
    for name, array in bound.arg_dict.items():
        array[:] = 1e-30 if name == "data" else 1e-10
    return bound


@needs_flush
@pytest.mark.parametrize("layer, shape", [("dense", (4, 50)), ("convolution", (2, 5, 9, 9))])
def test_denormals_are_0_in_networks(layer, shape):
    bound = network(layer, data=shape)
    assert not bound.forward(is_train=True)[0].asnumpy().any()
    assert keeps_denormals()
    bound.backward(mx.nd.full(bound.outputs[0].shape, 1e-30))
    assert not bound.grad_dict["data"].asnumpy().any()
    with mx.exact():
        kept = network(layer, data=shape)
    assert (kept.forward(is_train=True)[0].asnumpy() > 0).all()
    assert keeps_denormals()


def test_custom_operators_keep_denormals():
    seen = []

    class Look(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            seen.append(keeps_denormals())
            self.assign(out_data[0], req[0], in_data[0])

    @mx.operator.register("looks_at_denormals")
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Look()

    net = mx.sym.Custom(mx.sym.Variable("data"), op_type="looks_at_denormals")
    net.simple_bind(mx.cpu(), data=(2,)).forward()
    assert seen == [True]


@needs_flush
def test_what_others_have_set_stays():
    """A library may have set the bits already."""
    before = np.empty(1, np.int64)
    switch_here(before, FLUSH)
    try:
        assert not products(multiply).any() and not keeps_denormals()
    finally:
        switch_here(np.empty(1, np.int64), before[0])
    assert keeps_denormals()


@pytest.mark.parametrize("count", [0, -1, 10_000])
def test_impossible_numbers_of_threads_are_refused(count):
    with pytest.raises(mx.MXNetError, match=f"set_num_threads: count is {count}, expected 1 to"):
        mx.set_num_threads(count)


def test_every_python_thread_uses_the_number_that_was_set():
    before, seen = mx.get_num_threads(), []
    try:
        mx.set_num_threads(1)
        thread = threading.Thread(target=lambda: seen.extend(
            [products(multiply).size, mx.get_num_threads(), numba.get_num_threads()]))
        thread.start()
        thread.join()
    finally:
        mx.set_num_threads(before)
    assert seen == [100_000, 1, 1]


def has(module: str) -> bool:
    try:
        return bool(importlib.import_module(f"numba.np.ufunc.{module}"))
    except ImportError:
        return False


LAYERS = {"omp": "omppool", "workqueue": "workqueue", "tbb": "tbbpool"}


@pytest.mark.parametrize("layer", [layer for layer, module in LAYERS.items() if has(module)])
def test_training_is_the_same_with_any_threads(layer):
    """The same bits with one, two and three threads, and in several Python threads at once."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.programs.thread_runs"], capture_output=True, text=True,
        timeout=300,
        env=os.environ | {"NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "3"})
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [layer, "1", "True"]
