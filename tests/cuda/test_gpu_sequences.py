"""Sequences on a GPU: recurrent networks in training, labels without a context, loops."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.ops.cuda.runtime import simulator
from nbmod.ops.cuda.runtime.simulator import SCHEDULES
from nbmod.ops.device import device_of
from tests import sample_runs
from tests.cases import all_samples
from tests.compare import assert_same
from tests.programs import common, language_model
from tests.programs import control_programs as programs

pytestmark = pytest.mark.gpu

SGD = ("sgd", {"learning_rate": 0.1, "momentum": 0.9})
# Three steps of training; each adds a rounding error or two of 6e-8 to values of order 1.
TRAINED = 1e-5


@pytest.mark.parametrize("cell, lengths", [
    ("fused lstm", [4]), ("fused gru", [3]), ("fused lstm", [3, 2]), ("lstm", [2])], ids=str)
def test_recurrent_networks_learn_the_same_on_a_gpu(cell, lengths):
    args = (mx, cell, lengths, *SGD, 3)
    want = language_model.trained(*args)
    got = language_model.trained(*args, context=mx.gpu(0))
    assert got.keys() == want.keys() and want["moved"] > 10 * TRAINED
    for name, value in want.items():
        assert_same(got[name], value, TRAINED, name)


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
def test_recurrent_layers_hide_no_nan(mode):
    """Neither in results nor in gradients."""
    net = mx.sym.RNN(mx.sym.Variable("data"), mx.sym.Variable("weights"), mx.sym.zeros((1, 2, 3)),
                     *[mx.sym.zeros((1, 2, 3))] * (mode == "lstm"), state_size=3, num_layers=1,
                     mode=mode)
    size = net.infer_shape(data=(2, 2, 4))[0][1]
    rng = np.random.default_rng(0)
    values = {"data": rng.standard_normal((2, 2, 4)), "weights": rng.standard_normal(size)}
    values = {name: array.astype(np.float32) for name, array in values.items()}
    values["data"][1, 0, 2] = np.nan
    heads, found = [np.ones((2, 2, 3), np.float32)], []
    for place in (mx.cpu(), mx.gpu(0)):
        with place:
            ran = common.run(mx, net, values, dict.fromkeys(values, "write"), heads)
        found.append([ran["outputs"][0], ran["grads"]["data"]])
    for mine, other in zip(*found, strict=True):
        assert np.isnan(other[1, 0]).all()
        np.testing.assert_array_equal(np.isnan(mine), np.isnan(other))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_labels_of_many_lengths(monkeypatch, schedule):
    """More samples than blocks, positions for four iterations of a block, ragged ends."""
    from nbmod.ops.cuda.lib.block_reduce import BLOCK_SIZE, MAX_GRID

    monkeypatch.setattr(simulator, "schedule", schedule)
    most, samples, classes, rng = 2 * BLOCK_SIZE, MAX_GRID + 2, 5, np.random.default_rng(0)
    time = most + 3
    assert 2 * most + 1 > 3 * BLOCK_SIZE
    values = {"data": rng.standard_normal((time, samples, classes)),
              "label": rng.integers(1, classes, (samples, most)),
              "data_lengths": rng.integers(most, time + 1, samples),
              "label_lengths": rng.integers(0, most // 2 + 1, samples)}
    values["label_lengths"][:2] = most, 0
    values["data_lengths"][:3] = time, time, 0
    values = {name: array.astype(np.float32) for name, array in values.items()}
    net = mx.sym.CTCLoss(**{name: mx.sym.Variable(name) for name in values}, use_data_lengths=True,
                         use_label_lengths=True)
    heads, runs = [rng.standard_normal(samples).astype(np.float32)], []
    for place in (mx.cpu(), mx.gpu(0)):
        with place:
            runs.append(common.run(mx, net, values, {"data": "write"}, heads))
    assert_same(runs[1]["outputs"][0], runs[0]["outputs"][0], 1e-5, "loss")
    assert_same(runs[1]["grads"]["data"], runs[0]["grads"]["data"], 1e-5, "gradient")


WRONG = {name: sample for name, sample in all_samples().items()
         if sample.op in ("CTCLoss", "RNN") and sample.error.startswith((
             r"label\[", "labels end", "sequence_length has the value"))}


@pytest.mark.parametrize("name", WRONG)
def test_labels_and_lengths_that_cannot_be_are_errors(name):
    sample = WRONG[name]
    with mx.gpu(0), pytest.raises(mx.MXNetError, match=sample.error):
        sample_runs.run(sample, "float32", {})


# -- loops --------------------------------------------------------------------------------------

LOOPS = {
    "rnn": {"data": (3, 2, 2), "state": (2, 3), "weight": (3, 2), "recurrent": (3, 3),
            "bias": (3,)},
    "powers": {"count": (1,), "x": (2, 2), "weight": (2, 2)},
    "branch": {"test": (1,), "x": (2, 3), "y": (2, 3)},
}
READS = {"rnn": [], "powers": [1, 1, 1, 1], "branch": [1, 1]}
"""Sizes of what the host looks at: conditions, and in backward which ones were met."""


@pytest.mark.parametrize("program", LOOPS)
@pytest.mark.parametrize("graphs", [False, True])
def test_bodies_run_on_the_card(monkeypatch, program, graphs):
    """Intermediate tensors stay on the GPU; with CUDA graphs a body is one launch."""
    monkeypatch.setattr(CONFIG, "cuda_graphs", graphs)
    rng = np.random.default_rng(1)
    values = {name: rng.standard_normal(shape).astype(np.float32)
              for name, shape in LOOPS[program].items()}
    net = programs.symbol(mx, program, list(values))
    read, written, card = [], [], type(device_of(mx.gpu(0)).card)
    download, upload = card.download, card.upload
    monkeypatch.setattr(card, "download", lambda self, block, offset, host: (
        read.append(host.size), download(self, block, offset, host)))
    monkeypatch.setattr(card, "upload", lambda self, host, block, offset: (
        written.append(host.size), upload(self, host, block, offset)))
    want = executed(net, values, mx.cpu())
    executor = bound(net, values, mx.gpu(0))
    heads = [mx.nd.ones(y.shape, ctx=mx.gpu(0)) for y in executor.outputs]
    for _ in range(2):
        read.clear()
        written.clear()
        executor.forward(is_train=True)
        executor.backward(heads)
        assert read == READS[program] and not written
    got = [array.asnumpy() for array in (*executor.outputs, *executor.grad_arrays)]
    for mine, theirs in zip(got, want, strict=True):
        assert_same(mine, theirs, 1e-5, program)


def bound(net, values, place):
    args = {name: mx.nd.array(array, ctx=place) for name, array in values.items()}
    return net.bind(place, args, {name: mx.nd.zeros_like(args[name]) for name in args})


def executed(net, values, place):
    executor = bound(net, values, place)
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.ones(y.shape, ctx=place) for y in outputs])
    return [array.asnumpy() for array in (*outputs, *executor.grad_arrays)]


@pytest.mark.parametrize("graphs", [False, True])
def test_every_iteration_draws_anew_what_it_draws_on_a_cpu(monkeypatch, graphs):
    """Training and inference alternate: kernel nodes of captured bodies are updated."""
    monkeypatch.setattr(CONFIG, "cuda_graphs", graphs)
    out, last = mx.sym.contrib.foreach(lambda x, s: (mx.sym.Dropout(x, p=0.5) + s, s + x),
                                       mx.sym.Variable("data"), mx.sym.Variable("state"))
    net, values = mx.sym.Group([out, last]), {"data": np.ones((3, 16), np.float32),
                                              "state": np.zeros(16, np.float32)}
    runs = []
    for place in (mx.cpu(), mx.gpu(0)):
        mx.random.seed(4)
        executor = bound(net, values, place)
        runs.append([executor.forward(is_train=training)[0].asnumpy()
                     for training in (True, False, True)])
    np.testing.assert_array_equal(*runs)
    first, _, other = runs[0]
    assert (first != other).any() and (first[0] != first[1] - 1).any()
