"""`mx.util`: names, the meaning of shapes, environment variables, GPUs."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.programs import np_shapes


@pytest.fixture(autouse=True)
def _own_meaning_of_shapes():
    yield
    mx.set_np_shape(False)


def test_every_name_of_mxnet_is_there(oracle):
    assert [name for name in oracle.call("mx_gluon.names_of", "util")
            if not hasattr(mx.util, name)] == []


def test_shapes_mean_what_they_mean_in_mxnet(oracle):
    theirs, ours = oracle.call("mx_gluon.np_shapes"), np_shapes.answers(mx)
    assert {text: (found, theirs[text]) for text, found in ours.items()
            if found != theirs[text]} == {}


def test_operators_make_of_arrays_without_elements_what_mxnet_does(oracle):
    theirs, ours = oracle.call("mx_gluon.empty_arrays"), np_shapes.empty_answers(mx)
    assert {text: (found, theirs[text]) for text, found in ours.items()
            if found != theirs[text]} == {}


def test_layers_take_no_samples():
    with mx.np_shape():
        rows, images = mx.nd.zeros((0, 3)), mx.nd.zeros((0, 2, 5, 5))
        weight = mx.nd.ones((4, 3))
        weight.attach_grad()
        with mx.autograd.record():
            y = mx.nd.FullyConnected(rows, weight, mx.nd.ones(4), num_hidden=4)
        y.backward()
        assert y.shape == (0, 4) and not weight.grad.asnumpy().any()
        conv = mx.nd.Convolution(images, mx.nd.ones((3, 2, 3, 3)), no_bias=True, num_filter=3,
                                 kernel=(3, 3))
        assert conv.shape == (0, 3, 3, 3) and conv.flatten().shape == (0, 27)
    with pytest.raises(MXNetError, match="_plus_scalar: the result would have no elements"):
        rows + 1


def test_the_meaning_of_shapes_is_that_of_the_thread_and_nests():
    seen = []
    with mx.np_shape():
        thread = threading.Thread(target=lambda: seen.append(mx.is_np_shape()))
        thread.start()
        thread.join()
        with mx.np_shape(False):
            seen.append(mx.is_np_shape())
        seen.append(mx.is_np_shape())
    assert [*seen, mx.is_np_shape()] == [False, False, True, False]
    assert (mx.set_np_shape(True), mx.set_np_shape(False)) == (False, True)
    with pytest.raises(TypeError):
        mx.set_np_shape("yes")


def test_scalars_are_bound_and_differentiated():
    with mx.np_shape():
        x = mx.nd.array([2, 3])
        x.attach_grad()
        with mx.autograd.record():
            y = x[1] * x[1]
        y.backward()
        assert y.shape == () and x[0].shape == () and x[:1].shape == (1,)
        assert mx.nd.ones((2, 2))[1].shape == (2,) and mx.nd.ones((2, 2))[0, 1].shape == ()
        assert x.grad.asnumpy().tolist() == [0, 6]
        executor = (mx.sym.var("x") * 2).simple_bind(mx.cpu(), x=())
        executor.forward(x=mx.nd.ones(()))
        assert executor.outputs[0].shape == () and executor.outputs[0].asscalar() == 2
    assert x[0].shape == (1,)


def test_arrays_without_elements_are_refused_by_name():
    with mx.np_shape(), pytest.raises(MXNetError, match=r"shape of x is \(0, 2\): operators of"):
        (mx.sym.var("x") + 1).infer_shape(x=(0, 2))
    with mx.np_shape(), pytest.raises(MXNetError, match=r"max: .*\[inputs: data \(0, 2\)\]"):
        mx.nd.zeros((0, 2)).max()


def test_functions_and_classes_are_decorated():
    @mx.use_np_shape
    class Shapes:
        def method(self):
            return mx.is_np_shape()

        @property
        def value(self):
            return mx.is_np_shape()

        @staticmethod
        def static():
            return mx.is_np_shape()

        @classmethod
        def of_class(cls):
            return mx.is_np_shape()

    assert all((Shapes().method(), Shapes().value, Shapes.static(), Shapes.of_class()))
    with pytest.raises(TypeError, match="use_np_shape can only decorate classes and callable"):
        mx.use_np_shape(3)


def test_arrays_of_numpys_kind_are_refused():
    @mx.use_np
    class Network(mx.gluon.HybridBlock):
        def forward(self, x):
            return x

    @mx.use_np_array
    def function():
        return 1

    with pytest.raises(MXNetError, match=r"function: arrays of NumPy's kind .*use mx.nd"):
        function()
    with pytest.raises(MXNetError, match="forward: arrays of NumPy's kind"):
        Network.forward(None, 1)
    for call in (mx.util.set_np, mx.np_array):
        with pytest.raises(MXNetError, match="_np|np_array"):
            call()
    with pytest.raises(ValueError, match="NumPy Shape semantics is required"):
        mx.util.set_np(shape=False)
    mx.util.set_np(array=False)
    assert mx.is_np_shape() and not mx.is_np_array()
    mx.util.reset_np()
    with mx.np_array(False):
        assert not mx.is_np_shape()


def test_environment_variables_are_set_and_removed(monkeypatch):
    monkeypatch.setenv("NBMOD_TEST_NAME", "1")
    assert mx.util.getenv("NBMOD_TEST_NAME") == "1"
    mx.util.setenv("NBMOD_TEST_NAME", "2")
    assert mx.util.getenv("NBMOD_TEST_NAME") == "2"
    mx.util.setenv("NBMOD_TEST_NAME", None)
    assert mx.util.getenv("NBMOD_TEST_NAME") is None


def test_gpus_are_asked_for(monkeypatch):
    assert mx.util.get_gpu_count() == mx.num_gpus()
    with pytest.raises(ValueError, match="Expecting a gpu context"):
        mx.util.get_cuda_compute_capability(mx.cpu())
    with pytest.raises(MXNetError, match=r"gpu\(99\)"):
        mx.util.get_gpu_memory(99)


def test_options_of_universal_functions(oracle):
    cases = [(key, value) for key, values in {
        "where": [True, False, 1], "casting": ["no", "same_kind", "x", 3], "order": ["K", "X"],
        "dtype": ["float32", "int16", "x", None], "subok": [True, 1], "other": [1]}.items()
        for value in values]
    theirs = oracle.call("mx_gluon.legal_options", cases)
    assert [mx.util.np_ufunc_legal_option(*case) for case in cases] == theirs
    assert mx.util.np_ufunc_legal_option("dtype", np.float16)

    def function(x, y=None, out=None):
        return x, y, out

    one, two = mx.util.wrap_np_unary_func(function), mx.util.wrap_np_binary_func(function)
    assert one(1, where=True) == (1, None, None) and two(1, 2, out=3) == (1, 2, 3)
    with pytest.raises(NotImplementedError, match="casting=no is not implemented yet"):
        one(1, casting="no")
    with pytest.raises(TypeError, match="dtype x not understood"):
        two(1, 2, dtype="x")
    with pytest.raises(TypeError, match="foo is an invalid keyword to function 'function'"):
        one(1, foo=1)
    assert mx.util.set_module("a.b")(function).__module__ == "a.b"
