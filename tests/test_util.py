"""`mx.util`: names, the meaning of shapes, environment variables, GPUs."""

from __future__ import annotations

import ast
import threading

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.core.config import CONFIG
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


def test_networks_compute_with_arrays_without_elements_as_in_mxnet(oracle):
    theirs, ours = oracle.call("mx_scripts.run", "np_shapes", "bound_answers"), \
        np_shapes.bound_answers(mx)
    assert [text for text, found in ours.items() if "error" in found] == ["S.broadcast_add(e, f)"]
    assert theirs["S.broadcast_add(e, f)"] == ["error"]
    # Some of MXNet's operators fail in a gradient, others whenever such an error is still pending.
    done = {text: found[:-1] if found[-1] == "error" else found for text, found in theirs.items()}
    assert {text: (ours[text], found) for text, found in done.items()
            if ours[text][:len(found)] != found} == {}
    assert sum(map(len, done.values())) > 110


def test_sizes_that_a_file_leaves_unknown_stay_so_in_numpys_meaning(oracle):
    theirs, ours = oracle.call("mx_scripts.run", "np_shapes", "loaded"), np_shapes.loaded(mx)
    assert ours == theirs
    assert ours["(128, 0) read as True"] == "(128, 784)"
    scalar = mx.sym.var("x", attr={"__shape__": "()"}).tojson()
    with mx.np_shape():
        assert mx.sym.load_json(scalar).infer_shape_partial()[0] == [None]


@pytest.mark.parametrize("text", np_shapes.FORWARD)
def test_gradients_of_layers_without_samples_are_zero(text):
    gradients = ast.literal_eval(np_shapes.bound(mx, text, True)[2])
    assert any(size for shape, _ in gradients.values() for size in [np.prod(shape)])
    for shape, values in gradients.values():
        assert np.shape(values)[:len(shape)] == shape[:np.ndim(values)] and not np.any(values)


def test_networks_without_elements_are_bound_again_and_checked(monkeypatch):
    monkeypatch.setattr(CONFIG, "check", 2)
    layer = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="layer")
    with mx.np_shape():
        full = layer.simple_bind(mx.cpu(), x=(4, 3), grad_req="add")
        empty = full.reshape(x=(0, 3))
        empty.grad_dict["layer_bias"][:] = 7
        assert empty.forward(is_train=True)[0].shape == (0, 2)
        empty.backward(mx.nd.ones((0, 2)))
        assert empty.grad_dict["layer_bias"].asnumpy().tolist() == [7, 7]
        assert empty.reshape(x=(6, 3), allow_up_sizing=True).forward()[0].shape == (6, 2)
        args = {"x": mx.nd.zeros((0, 3)), "w": mx.nd.ones(3)}
        product = mx.sym.sum(mx.sym.var("x"), axis=0) * mx.sym.var("w")
        assert product.bind(mx.cpu(), args).forward()[0].asnumpy().tolist() == [0, 0, 0]
    with pytest.raises(MXNetError, match=r"x has shape \(0, 3\), without .* unless mx.np_shape is"):
        product.bind(mx.cpu(), args)


def test_long_arrays_are_joined_with_ones_without_elements():
    with mx.np_shape():
        long = mx.nd.concat(mx.nd.zeros((0,)), mx.nd.ones((2_000_000,)), dim=0)
    assert long.shape == (2_000_000,)


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


def test_what_has_no_meaning_without_elements_is_refused_by_name():
    x = mx.sym.var("x")
    with mx.name.NameManager():
        looped, _ = mx.sym.contrib.foreach(lambda row, state: (row + state, row + state), x,
                                           mx.sym.var("state"))
    conv = mx.sym.Convolution(x, kernel=(3, 3), num_filter=2, name="conv")
    with mx.np_shape():
        with pytest.raises(MXNetError, match="foreach0.* cannot have loops and branches;"):
            looped.simple_bind(mx.cpu(), x=(0, 2), state=(2,))
        with pytest.raises(MXNetError, match=r"conv \(Convolution\): no shape follows from inputs"):
            conv.infer_shape(x=(1, 2, 0, 5))
        with pytest.raises(MXNetError, match="cannot infer the shape of x"):
            (x + 1).simple_bind(mx.cpu(), x=(-1, 2))
        with pytest.raises(MXNetError, match=r"made .* not follow from the inputs, only \(-1, 3\)"):
            mx.sym.zeros((-1, 3), name="made").simple_bind(mx.cpu())
        with pytest.raises(MXNetError, match=r"max0 \(max\): .*\[input shapes: \(0, 2\)\]"):
            mx.sym.max(x, name="max0").simple_bind(mx.cpu(), x=(0, 2)).forward()
        with pytest.raises(MXNetError, match=r"max: .*\[inputs: data \(0, 2\)\]"):
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
