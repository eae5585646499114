"""Modules of `mx.contrib`, and modules beside them, that old scripts import."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import nbmod as mx
from nbmod.contrib import autograd


def test_gradients_under_their_old_names():
    x, gradient = mx.nd.array([1, 2]), mx.nd.zeros(2)
    autograd.mark_variables([x], [gradient])
    before = autograd.set_is_training(True)
    y = x * x
    assert autograd.set_is_training(before) is True and not mx.autograd.is_recording()
    autograd.compute_gradient([y])
    assert gradient.asnumpy().tolist() == [2, 4]
    with autograd.train_section():
        assert mx.autograd.is_recording() and mx.autograd.is_training()
        with autograd.test_section():
            assert not mx.autograd.is_recording() and not mx.autograd.is_training()


def test_functions_become_their_gradients():
    def product(a, b):
        return a * b

    a, b = mx.nd.array([2, 3]), mx.nd.array([5, 7])
    gradients, value = autograd.grad_and_loss(product)(a, b)
    assert [g.asnumpy().tolist() for g in gradients] == [[5, 7], [2, 3]]
    assert value.asnumpy().tolist() == [10, 21]
    only, = autograd.grad(product, argnum=1)(a, b)
    assert only.asnumpy().tolist() == [2, 3]


def test_loaders_feed_fit():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((50, 4)).astype(np.float32)
    label = (data.sum(axis=1) > 0).astype(np.float32)

    class Loader:
        def __iter__(self):
            return ((data[i:i + 16], label[i:i + 16]) for i in range(0, 50, 16))

    batches = mx.contrib.io.DataLoaderIter(Loader())
    assert [batch.pad for batch in batches] == [0, 0, 0, 14]
    batches.reset()
    assert batches.provide_data[0].shape == (16, 4)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2),
                               name="softmax")
    module = mx.mod.Module(net)
    module.fit(batches, num_epoch=20, optimizer_params={"learning_rate": 0.5})
    batches.reset()
    assert module.score(batches, "acc")[0][1] > 0.9
    with pytest.raises(mx.MXNetError, match="gives no batch"):
        mx.contrib.io.DataLoaderIter([])


def test_loaders_give_batches_step_by_step():
    batches = mx.contrib.io.DataLoaderIter([([[1, 2], [3, 4]], [5, 6]), ([[7, 8]], [9])])
    assert batches.iter_next() and batches.getpad() == 0
    assert batches.iter_next() and batches.getpad() == 1 and batches.getindex() is None
    assert batches.getdata()[0].asnumpy().tolist() == [[7, 8], [0, 0]]
    assert batches.getlabel()[0].asnumpy().tolist() == [9, 0]
    assert not batches.iter_next()


def test_metrics_are_logged_where_a_writer_is_installed(monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder):
            assert folder == "logs"

        def add_scalar(self, name, value, global_step):
            written.append((name, value, global_step))

    module = importlib.import_module("nbmod.contrib.tensorboard")
    monkeypatch.setattr(module, "_writer", Writer)
    log = module.LogMetricsCallback("logs", prefix="train")
    metric = mx.metric.create("acc")
    metric.update([mx.nd.array([0])], [mx.nd.array([[1, 0]])])
    log(mx.model.BatchEndParam(0, 0, metric, {}))
    log(mx.model.BatchEndParam(0, 1, None, {}))
    assert written == [("train-accuracy", 1.0, 1)]


@pytest.mark.parametrize("name", ["symbol", "ndarray"])
def test_operators_are_found_in_modules_of_contrib(name):
    module = importlib.import_module(f"nbmod.contrib.{name}")
    assert module.MultiBoxPrior.__name__ == "MultiBoxPrior" and "box_nms" in dir(module)
    assert "foreach" in vars(module) or module.foreach


@pytest.mark.parametrize("path, what", [
    ("rtc.CudaModule", "CUDA code"), ("library.load", "C.. libraries"), ("th.zeros", "Lua Torch")])
def test_parts_that_need_other_compilers_say_so(path, what):
    module = importlib.import_module(f"nbmod.{path.partition('.')[0]}")
    with pytest.raises(mx.MXNetError, match=f"mx.{path}: nbmod has no .*{what}"):
        getattr(module, path.partition(".")[2])
    with pytest.raises(RuntimeError, match="no C library"):
        mx.libinfo.find_lib_path()
    assert mx.libinfo.__version__ == "1.9.1"


def test_inputs_are_named_as_mxnet_does():
    for module in ("io", "io.utils"):
        init_data = importlib.import_module(f"nbmod.{module}")._init_data
        assert [name for name, _ in init_data([np.ones(2), np.ones(2)], False, "data")] == [
            "_0_data", "_1_data"]
        assert init_data(None, True, "label") == []
