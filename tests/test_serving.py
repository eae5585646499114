"""`Predictor`: outputs of a Module from any number of samples and threads, and named mistakes."""

from __future__ import annotations

import os
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import ArgumentError, ArgumentTypeError, MXNetError


def network() -> mx.sym.Symbol:
    x = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="one"),
                         fix_gamma=False, name="bn")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="two"), name="softmax")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The prefix of a checkpoint, and a function that computes outputs by a Module."""
    prefix = str(tmp_path_factory.mktemp("model") / "net")
    module = mx.mod.Module(network())
    module.bind([("data", (4, 5))], for_training=False)
    mx.random.seed(1)
    module.init_params(mx.init.Uniform(1.0))
    for epoch in (1, 12):
        module.save_checkpoint(prefix, epoch)
    return prefix, lambda x: module.predict(mx.nd.array(x)).asnumpy()


def samples(count: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).normal(size=(count, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def predictor(trained):
    return mx.Predictor(trained[0], {"data": (8, 5)}, batch_sizes=(1, 3, 8), workers=2)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 9, 19])
def test_any_number_of_samples(trained, predictor, count):
    output, = predictor(samples(count))
    assert output.dtype == np.float32 and output.flags.writeable
    # Other batch sizes take other ways through a product: sums of 8 terms in another order.
    np.testing.assert_allclose(output, trained[1](samples(count)), rtol=1e-5, atol=1e-6)


def test_padding_does_not_reach_the_samples_and_outputs_are_kept(trained, predictor):
    predictor(np.full((8, 5), np.nan))  # what a request leaves behind
    first, = predictor(samples(2))
    kept = first.copy()
    predictor(samples(2, seed=1))
    assert np.isfinite(first).all() and (first == kept).all()


def test_threads_get_their_own_results(trained, predictor):
    wanted = {seed: trained[1](samples(1 + seed % 9, seed)) for seed in range(40)}
    wrong: list[object] = []

    def ask(seeds):
        for seed in seeds:
            try:
                output, = predictor(data=samples(1 + seed % 9, seed))
                np.testing.assert_allclose(output, wanted[seed], rtol=1e-5, atol=1e-6)
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=ask, args=(range(k, 40, 8),)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_files_that_it_reads(trained, tmp_path, monkeypatch):
    prefix, expected = trained
    shapes, x = {"data": (2, 5)}, samples(2)
    symbol, args, auxs = mx.model.load_checkpoint(prefix, 12)
    for found in (mx.Predictor(prefix, shapes, epoch=1),
                  mx.Predictor(f"{prefix}-symbol.json", shapes),
                  mx.Predictor(f"{prefix}-symbol.json", shapes, params=f"{prefix}-0012.params"),
                  mx.Predictor((symbol, args, auxs), shapes)):
        np.testing.assert_allclose(found(x)[0], expected(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(MXNetError, match=r"no files .*other-0000\.params"):
        mx.Predictor(str(tmp_path / "other"), shapes)
    calls = []

    def read(path):
        calls.append(path)
        return symbol, args, auxs

    for module, function in (("onnx", "import_model"), ("safetensors", "load_model")):
        monkeypatch.setitem(sys.modules, f"nbmod.{module}", SimpleNamespace(**{function: read}))
        mx.Predictor(tmp_path / f"net.{module}", shapes)
    assert calls == [str(tmp_path / "net.onnx"), str(tmp_path / "net.safetensors")]


def test_shapes_of_variables_and_integer_inputs():
    net = mx.sym.Embedding(mx.sym.var("words", shape=(4, 2)), input_dim=5, output_dim=3,
                           name="embed")
    weight = mx.nd.array(np.arange(15).reshape(5, 3))
    found = mx.Predictor((net, {"embed_weight": weight}, {}), dtypes={"words": "int32"})
    assert found.input_names == ["words"] and found.output_names == ["embed_output"]
    assert found([[4, 0]])[0].tolist() == [[[12, 13, 14], [0, 1, 2]]]
    with pytest.raises(ArgumentTypeError, match="words has the type float64.*to int32"):
        found([[.5, 1]])


def test_types_follow_from_the_parameters():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, no_bias=True, name="fc")
    found = mx.Predictor((net, {"fc_weight": mx.nd.ones((1, 2), dtype="float16")}, {}),
                         {"data": (1, 2)})
    output, = found(np.array([[1, 2]]))
    assert output.dtype == np.float16 and output.tolist() == [[3]]


def test_fixed_shapes():
    """Samples along no first axis, or with an influence on each other."""
    net = mx.sym.sum(mx.sym.var("data")) + mx.sym.var("offset")
    with pytest.raises(ArgumentError, match="no common first axis of samples"):
        mx.Predictor((net, {}, {}), {"data": (2, 3), "offset": (1,)})
    net = mx.sym.sum(mx.sym.var("data"))
    with pytest.raises(ArgumentError, match=r"output sum\d+_output has the shape \(1,\) for 2 sam"):
        mx.Predictor((net, {}, {}), {"data": (2, 3)})
    found = mx.Predictor((net, {}, {}), {"data": (2, 3)}, fixed=True)
    assert found(np.ones((2, 3)))[0].tolist() == [6]
    with pytest.raises(ArgumentError, match=r"data has the shape \(1, 3\), expected \(2, 3\)"):
        found(np.ones((1, 3)))


@pytest.mark.parametrize("values, named, error", [
    ([], {"dat": 1}, "no input 'dat'; inputs are .'data'.; did you mean 'data'"),
    ([], {}, "no value for the inputs .'data'"),
    ([1, 2], {}, "2 inputs are given"),
    ([[[0] * 5]], {"data": 1}, "'data' is given twice"),
    ([np.zeros(5)], {}, r"shape \(5,\), expected \(samples, 5\); a single sample needs a first"),
    ([np.zeros((2, 4))], {}, r"shape \(2, 4\), expected \(samples, 5\)"),
    ([np.zeros((0, 5))], {}, "no samples"),
    ([np.zeros((1, 5), complex)], {}, "type complex128"),
    ([[["a"] * 5]], {}, "type <U1"),
    ([[[0] * 5, [0]]], {}, "data is no array of numbers"),
    ([[[0.5, 10 ** 400, 0, 0, 0]]], {}, "type object"),
    ([[[1e39] * 5]], {}, "data has numbers beyond the range of float32"),
    ([], {"self": 1}, "no input 'self'")])
def test_mistakes_of_a_call(predictor, values, named, error):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=error):
        predictor(*values, **named)


def test_mistakes_of_the_constructor(trained):
    prefix, _ = trained
    symbol, args, auxs = mx.model.load_checkpoint(prefix, 1)
    pooled = mx.sym.Pooling(mx.sym.var("data"), kernel=(2, 2), name="pool")
    with pytest.raises(ArgumentError, match=r"'data' is not known.*'data': \(batch size, \.\.\.\)"):
        mx.Predictor((pooled, {}, {}))
    with pytest.raises(ArgumentError, match="'dta' of shapes is no argument.*did you mean 'data'"):
        mx.Predictor(prefix, {"dta": (1, 5)})
    with pytest.raises(MXNetError, match=r"one_weight has the shape \(8, 5\), .* needs \(8, 6\)"):
        mx.Predictor(prefix, {"data": (1, 6)})
    with pytest.raises(ArgumentError, match="the parameters lack .'two_weight'."):
        mx.Predictor((symbol, {name: array for name, array in args.items()
                               if name != "two_weight"}, auxs), {"data": (1, 5)})
    with pytest.raises(MXNetError, match="lack the states .'bn_moving_mean', 'bn_moving_var'"):
        mx.Predictor((symbol, args, {}), {"data": (1, 5)})
    with pytest.raises(ArgumentError, match="workers is 0"):
        mx.Predictor(prefix, {"data": (1, 5)}, workers=0)
    with pytest.raises(ArgumentError, match="batch_sizes is .0, 2"):
        mx.Predictor(prefix, {"data": (1, 5)}, batch_sizes=[0, 2])


def test_inputs_have_equal_numbers_of_samples():
    found = mx.Predictor((mx.sym.var("a") + mx.sym.var("b"), {}, {}), {"a": (2, 1), "b": (2, 1)})
    assert found([[1]], b=[[2]])[0].tolist() == [[3]]
    with pytest.raises(ArgumentError, match="different numbers of samples: {'a': 1, 'b': 2}"):
        found([[1]], [[1], [2]])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_process_may_go_on(trained, predictor):
    expected = trained[1](samples(2))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = int(not np.allclose(predictor(samples(2))[0], expected, atol=1e-6))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
