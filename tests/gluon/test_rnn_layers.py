"""`mx.gluon.rnn`'s layers: names, texts and graphs are MXNet's, and so are values."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nbmod as mx
from nbmod.gluon import nn, rnn
from nbmod.gluon.rnn import rnn_layer
from tests.compare import assert_like, assert_same
from tests.programs import gluon_cells
from tests.programs.gluon_layers import numbers

TOLERANCE = 1e-4
"""Three steps of float32, whose sums have another order than MXNet's."""


def test_texts_parameters_and_graphs_are_mxnets(oracle):
    theirs = oracle.call("mx_scripts.run", "gluon_cells", "describe_layers")
    ours = gluon_cells.describe_layers(mx)
    for case, found, expected in zip(gluon_cells.LAYERS, ours, theirs, strict=True):
        assert found == expected, case


@pytest.mark.parametrize("hybridized", [False, True])
def test_values_and_gradients_are_mxnets(oracle, hybridized):
    """Hybridized, too, where calls with and without states alternate: MXNet confuses their traces,
    so that its values are those of plain calls."""
    theirs = oracle.call("mx_scripts.run", "gluon_cells", "layer_values")
    assert_like(gluon_cells.layer_values(mx, hybridized), theirs, TOLERANCE)


def test_cells_of_a_layer_have_its_parameters(oracle):
    theirs = oracle.call("mx_scripts.run", "gluon_cells", "unfused")
    assert_like(gluon_cells.unfused(mx), theirs, TOLERANCE)
    with pytest.raises(AssertionError, match="projection"):
        rnn.LSTM(3, projection_size=2)._unfuse()


def layer_of(make, *shape):
    layer = make()
    layer.initialize(mx.init.Uniform(1))
    layer(mx.nd.ones(shape))
    return layer


def test_samples_end_where_their_lengths_say():
    """A sample of length n has the outputs and states of its first n steps alone."""
    layer = rnn.LSTM(3, bidirectional=True, use_sequence_length=True, input_size=4)
    layer.initialize(mx.init.Uniform(1))
    inputs, lengths = mx.nd.array(numbers((3, 3, 4), 1)), [1, 3, 2]
    outputs, states = layer(inputs, layer.begin_state(3), mx.nd.array(lengths))
    for sample, length in enumerate(lengths):
        alone, after = layer(inputs[:length, sample:sample + 1], layer.begin_state(1),
                             mx.nd.array([length]))
        assert_same(outputs[:length, sample].asnumpy(), alone[:, 0].asnumpy(), 1e-6, "outputs")
        assert not outputs[length:, sample].asnumpy().any()
        for state, expected in zip(states, after, strict=True):
            assert_same(state[:, sample].asnumpy(), expected[:, 0].asnumpy(), 1e-6, "state")


def test_projected_outputs_are_those_of_the_equations():
    layer = rnn.LSTM(3, projection_size=2, input_size=4)
    layer.initialize(mx.init.Uniform(1))
    x = numbers((2, 1, 4), 1)
    outputs, (h, c) = layer(mx.nd.array(x), layer.begin_state(1))
    w, r, p = (getattr(layer, f"l0_{name}_weight").data().asnumpy()
               for name in ("i2h", "h2h", "h2r"))
    out, memory = np.zeros((1, 2), "f"), np.zeros((1, 3), "f")
    for step in x:
        i, f, g, o = np.split(step @ w.T + out @ r.T, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-each)) for each in (i, f, o))
        memory = f * memory + i * np.tanh(g)
        out = o * np.tanh(memory) @ p.T
    assert_same(outputs[-1].asnumpy(), out, 1e-5, "outputs")
    assert_same(h[0].asnumpy(), out, 1e-5, "h")
    assert_same(c[0].asnumpy(), memory, 1e-5, "c")


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_files_hold_the_names_of_cells(tmp_path, kind):
    layer = layer_of(lambda: getattr(rnn, kind)(3, 2, bidirectional=True, dropout=0.5), 2, 1, 4)
    file = str(tmp_path / "net.params")
    layer.save_parameters(file)
    assert "_unfused.1.r_cell.h2h_bias" in mx.nd.load(file)
    twin = getattr(rnn, kind)(3, 2, bidirectional=True)
    twin.load_parameters(file)
    x = mx.nd.ones((2, 1, 4))
    assert_same(twin(x).asnumpy(), layer(x).asnumpy(), 0, "outputs")


def test_layers_are_copied_and_pickled_after_hybridized_calls():
    layer = layer_of(lambda: rnn.GRU(3), 2, 1, 4)
    layer.hybridize()
    x = mx.nd.ones((2, 1, 4))
    outputs, _ = layer(x, layer.begin_state(1))
    assert layer(x).shape == (2, 1, 3)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert_same(twin(x).asnumpy(), outputs.asnumpy(), 1e-6, "outputs")


@pytest.mark.parametrize("hybridized", [False, True])
def test_threads_call_a_layer_with_states_and_without(hybridized):
    """Each in its own form: threads change after each call of a hook, within that of the layer."""
    layer, data, turns = rnn.LSTM(3, input_size=2), mx.nd.ones((4, 2, 2)), threading.Barrier(2)
    layer.initialize()
    layer.hybridize(hybridized)
    states = layer.begin_state(batch_size=2)
    expected = layer(data).asnumpy(), layer(data, states)[0].asnumpy()
    np.testing.assert_allclose(*expected, rtol=1e-6)
    layer.register_forward_pre_hook(lambda *call: turns.wait(10))

    def called(with_states):
        return [(layer(data, states)[0] if with_states else layer(data)).asnumpy()
                for _ in range(3)]

    with ThreadPoolExecutor(2) as pool:
        for form, outputs in zip((0, 1), pool.map(called, (False, True)), strict=True):
            for found in outputs:
                np.testing.assert_allclose(found, expected[form], rtol=1e-6)
    assert layer.skip_states in (False, True)   # of the last call, for `export`
    if hybridized:
        assert layer.executor is not None


def test_layers_are_parts_of_symbols():
    """Their first states are zeros of a batch size that follows."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(rnn.LSTM(3), nn.Dense(2, flatten=False))
    net.initialize(mx.init.Uniform(1))
    x = mx.nd.array(numbers((4, 2, 5), 1))
    outputs = net(x)
    executor = net(mx.sym.var("data")).simple_bind(mx.cpu(), grad_req="null", data=x.shape)
    arrays = {name: each.data() for name, each in net.collect_params().items()}
    assert {"net_lstm0_l0_h2h_bias", "net_dense0_weight"} <= {*arrays}
    executor.copy_params_from(arrays)
    assert_same(executor.forward(data=x)[0].asnumpy(), outputs.asnumpy(), 1e-6, "outputs")


def test_hybrid_networks_with_layers_are_exported_and_learn(tmp_path):
    net = nn.HybridSequential()
    net.add(rnn.LSTM(3, num_layers=2, bidirectional=True), nn.Dense(2, flatten=False))
    net.initialize(mx.init.Uniform(1))
    x = mx.nd.array(numbers((4, 2, 5), 1))
    expected = net(x).asnumpy()
    net.hybridize()
    assert_same(net(x).asnumpy(), expected, 1e-6, "outputs")
    net.export(str(tmp_path / "net"))
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                         str(tmp_path / "net-0000.params"))
    assert_same(again(x).asnumpy(), expected, 1e-6, "outputs of the file")
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    losses = []
    for _ in range(20):
        with mx.autograd.record():
            loss = mx.nd.square(net(x)).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: rnn.LSTM(3, layout="CNT"), AssertionError, "Invalid layout CNT"),
    (lambda: rnn.RNN(3, activation="foo"), KeyError, "activation is 'foo'"),
    (lambda: rnn.GRU(3, projection_size=2), TypeError, "projection_size"),
    (lambda: layer_of(lambda: rnn.GRU(3), 2, 1, 4)(mx.nd.ones((2, 1, 4)), mx.nd.ones((1, 2, 3))),
     ValueError, r"Invalid recurrent state shape. Expecting \(1, 1, 3\), got \(1, 2, 3\)"),
])
def test_wrong_arguments(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("kind", rnn_layer.__all__)
@pytest.mark.parametrize("hybridized", [False, True])
def test_states_have_the_type_that_parameters_were_cast_to(kind, hybridized):
    """By themselves, without the layer's `cast`, and in a trace that has states as constants."""
    layer = getattr(rnn, kind)(3, input_size=4)
    net = nn.HybridSequential()
    net.add(layer)
    net.initialize(mx.init.One())
    net.hybridize(hybridized)
    expected = net(mx.nd.ones((2, 1, 4))).asnumpy()
    for dtype in ("float64", "float32", "float64"):
        for parameter in net.collect_params().values():
            parameter.cast(dtype)
        x = mx.nd.ones((2, 1, 4), dtype=dtype)
        for found in (net(x), layer(x, layer.begin_state(1))[0]):
            assert_same(found.asnumpy(), expected.astype(dtype), 1e-5, kind)
