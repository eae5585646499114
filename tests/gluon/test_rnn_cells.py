"""`mx.gluon.rnn`'s cells: names, texts and graphs are MXNet's, and so are values."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import nbmod as mx
from nbmod.gluon import nn, rnn
from tests.compare import assert_like, assert_same
from tests.programs import gluon_cells
from tests.programs.gluon_layers import numbers

TOLERANCE = 1e-4
"""Three steps of float32, whose sums have another order than MXNet's."""


def test_texts_parameters_and_graphs_are_mxnets(oracle):
    theirs = oracle.call("mx_scripts.run", "gluon_cells", "describe_cells")
    ours = gluon_cells.describe_cells(mx)
    failed = [(name, key) for name, facts in theirs.items() for key in facts if facts[key] is None]
    assert failed == [("residual", "False NTC True")]
    for name, key in failed:
        ours[name][key] = None
    for name, expected in theirs.items():
        assert ours[name] == expected, name


@pytest.mark.parametrize("hybridized", [False, True])
def test_values_and_gradients_are_mxnets(oracle, hybridized):
    theirs = oracle.call("mx_scripts.run", "gluon_cells", "cell_values")
    assert_like(gluon_cells.cell_values(mx, hybridized), theirs, TOLERANCE)


@pytest.mark.parametrize("name", gluon_cells.cells(rnn))
def test_cells_are_copied_and_pickled(name):
    cell = gluon_cells.cells(rnn)[name]()
    for twin in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        assert type(twin) is type(cell) and repr(twin) == repr(cell)
        assert [*twin.collect_params()] == [*cell.collect_params()]


STEPS = mx.nd.array(numbers((2, 3, 4), 1))


def cell_of(make):
    cell = make()
    cell.initialize(mx.init.Uniform(1))
    return cell


@pytest.mark.parametrize("merge", [None, False, True])
@pytest.mark.parametrize("inputs", [STEPS, [*mx.nd.split(STEPS, 3, squeeze_axis=True)]])
def test_sequences_are_arrays_or_lists(inputs, merge):
    cell = cell_of(lambda: rnn.GRUCell(3))
    outputs, states = cell.unroll(3, inputs, merge_outputs=merge)
    if merge:
        outputs = [*mx.nd.split(outputs, 3, squeeze_axis=True)]
    assert isinstance(outputs, list) and [each.shape for each in outputs] == [(2, 3)] * 3
    assert_same(outputs[-1].asnumpy(), states[0].asnumpy(), 0, "state")


def test_a_sequence_of_one_step():
    cell = cell_of(lambda: rnn.BidirectionalCell(rnn.RNNCell(3), rnn.RNNCell(3)))
    for lengths in (None, mx.nd.array([1, 1])):
        outputs, _ = cell.unroll(1, STEPS[:, :1], merge_outputs=True, valid_length=lengths)
        assert outputs.shape == (2, 1, 6)


def test_a_residual_cell_ends_where_lengths_say():
    """In steps, too, of symbols, where MXNet fails."""
    cell = rnn.ResidualCell(rnn.RNNCell(4, input_size=4))
    outputs, _ = cell.unroll(3, mx.sym.var("x"), merge_outputs=False,
                             valid_length=mx.sym.var("n"))
    shapes = mx.sym.Group(outputs).infer_shape(x=(2, 3, 4), n=(2,))[1]
    assert shapes == [(2, 4)] * 3
    cell.initialize()
    outputs, _ = cell.unroll(3, STEPS, valid_length=mx.nd.array([1, 3]))
    assert not outputs[0, 1:].asnumpy().any() and outputs[1, 2].asnumpy().all()


@pytest.mark.parametrize("hybridized", [False, True])
def test_zoneout_keeps_old_values_in_training(hybridized):
    """Also hybridized, where MXNet takes zeros for them."""
    cell = cell_of(lambda: rnn.ZoneoutCell(rnn.RNNCell(500), zoneout_outputs=0.5))
    if hybridized:
        cell.hybridize()
    with mx.autograd.train_mode():
        outputs, _ = cell.unroll(3, STEPS)
    kept = [outputs[0].asnumpy() == 0] + [
        (now == before).asnumpy() > 0
        for before, now in zip(outputs, outputs[1:], strict=False)]
    assert all(0.4 < each.mean() < 0.6 for each in kept)    # of 1,000 draws: six deviations


def test_activations_are_names_layers_or_functions():
    x, zeros = mx.nd.array([[-1, 2]]), mx.nd.zeros((1, 2))
    values = []
    for activation in ("relu", "softrelu", nn.LeakyReLU(0.5), mx.nd.square):
        cell = rnn.RNNCell(2, activation, input_size=2)
        cell.initialize()
        cell.i2h_weight.set_data(mx.nd.array(np.eye(2)))
        values.append(cell(x, [zeros])[0].asnumpy()[0])
    np.testing.assert_allclose(values, [[0, 2], [0.313, 2.127], [-0.5, 2], [1, 4]], atol=1e-3)


def test_a_cell_of_users_is_unrolled():
    class Sum(rnn.RecurrentCell):
        def state_info(self, batch_size=0):
            return [{"shape": (batch_size, 4), "__layout__": "NC"}]

        def forward(self, inputs, states):
            total = inputs + states[0]
            return total, [total]

    outputs, _ = Sum().unroll(3, STEPS, merge_outputs=True)
    assert_same(outputs.asnumpy(), STEPS.asnumpy().cumsum(axis=1), 1e-6, "sums")


def test_a_modified_cell_is_called_by_its_modifier_alone():
    cell = rnn.LSTMCell(3)
    outer = rnn.ZoneoutCell(cell)
    assert outer.params is cell.params and outer.begin_state(mx.nd.zeros, batch_size=2)
    with pytest.raises(AssertionError, match="After applying modifier cells"):
        cell.begin_state(2)
    with pytest.raises(AssertionError, match="already modified"):
        rnn.ResidualCell(cell)


def both():
    return rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.LSTMCell(3))


def row(cell):
    outer = rnn.SequentialRNNCell()
    outer.add(cell)
    return outer


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: both()(STEPS, []), NotImplementedError, "Please use unroll"),
    (lambda: row(both())(STEPS, []), AssertionError, "Please use unroll"),
    (lambda: rnn.ZoneoutCell(both()), AssertionError, "doesn't support zoneout"),
    (lambda: rnn.ZoneoutCell(row(both())), AssertionError, "doesn't support zoneout"),
    (lambda: rnn.HybridSequentialRNNCell().add(row(both())), ValueError, "must also be HybridBl"),
    (lambda: rnn.DropoutCell("a"), AssertionError, "rate must be a number"),
    (lambda: rnn.GRUCell(3).unroll(2, STEPS), AssertionError, "length is 2, but .* 3 steps"),
    (lambda: rnn.GRUCell(3).unroll(2, [STEPS]), AssertionError, "length is 2, but .* 1 steps"),
    (lambda: rnn.GRUCell(3).unroll(2, None), AssertionError, "inputs=None"),
    (lambda: rnn.GRUCell(3).unroll(2, mx.sym.Group([mx.sym.var("a"), mx.sym.var("b")])),
     AssertionError, "grouped symbol"),
    (lambda: rnn.RecurrentCell().state_info(), NotImplementedError, "state_info"),
])
def test_wrong_calls(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
