"""Unrolled cells of Gluon, hybridized: their plans have layers, and their numbers are those."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod import autograd, gluon
from nbmod.gluon import rnn

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 6, 4
TOLERANCE = 1e-5
"""About ten float32 terms of size 1, summed in another order."""

LAYERS = {
    "tanh": lambda **how: rnn.RNN(HIDDEN, activation="tanh", **how),
    "relu": lambda **how: rnn.RNN(HIDDEN, activation="relu", **how),
    "lstm": lambda **how: rnn.LSTM(HIDDEN, **how),
    "gru": lambda **how: rnn.GRU(HIDDEN, **how),
}


class Unrolled(gluon.HybridBlock):
    """The outputs of a cell for a sequence."""

    def __init__(self, cell: Any, layout: str):
        super().__init__()
        self.cell, self.layout = cell, layout

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.cell.unroll(STEPS, x, layout=self.layout, merge_outputs=True)[0]


def data(layout: str) -> mx.nd.NDArray:
    shape = [{"T": STEPS, "N": BATCH, "C": INPUTS}[axis] for axis in layout]
    return mx.nd.array(np.random.default_rng(0).standard_normal(shape))


def results(net: gluon.HybridBlock, x: mx.nd.NDArray) -> dict[str, np.ndarray]:
    """Output and gradients of a recorded call."""
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(mx.nd.array(np.cos(np.arange(y.size)).reshape(y.shape)))
    return {"output": y.asnumpy(), "data": x.grad.asnumpy(),
            **{name: parameter.grad().asnumpy()
               for name, parameter in net.collect_params().items()}}


def require_close(ours: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert ours.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(ours[name], array, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def operators(net: gluon.HybridBlock, x: mx.nd.NDArray) -> list[str]:
    """Those of the plan that predicts."""
    net(x)
    return [step.node.op_name for step in net.executor.steps]

STEPS_OF_PLANS = {"TNC": {(1, 1): 1, (2, 1): 2, (1, 2): 5, (2, 2): 11},
                  "NTC": {(1, 1): 3, (2, 1): 4, (1, 2): 9, (2, 2): 15}}
"""By layout, and by the numbers of layers and of directions."""


@pytest.mark.planned_only
@pytest.mark.parametrize("name, count, directions, layout", [
    *product(LAYERS, (1, 2), (1, 2), ("NTC", "TNC"))])
def test_cells_of_a_layer_become_layers(name, count, directions, layout):
    """Nothing is between layers of one direction; two directions are turned and joined."""
    layer = LAYERS[name](num_layers=count, bidirectional=directions == 2, layout=layout,
                         input_size=INPUTS)
    layer.initialize(mx.init.Uniform(1))
    cells, x = Unrolled(layer._unfuse(), layout), data(layout)
    layer.hybridize()
    cells.hybridize()
    require_close(results(cells, x), results(layer, x))
    plan = operators(cells, x)
    assert plan.count("_recurrent_layer") == count * directions
    assert len(plan) == STEPS_OF_PLANS[layout][count, directions]
    assert {*plan} <= {"_recurrent_layer", "transpose", "reverse", "Concat"}


CELLS = {
    "sequential": (lambda: stack(rnn.LSTMCell(HIDDEN), rnn.GRUCell(HIDDEN)), 2),
    "residual": (lambda: stack(rnn.RNNCell(INPUTS), rnn.ResidualCell(rnn.GRUCell(INPUTS))), 2),
    "dropout": (lambda: stack(rnn.GRUCell(HIDDEN), rnn.DropoutCell(0.5), rnn.LSTMCell(HIDDEN)), 2),
    "another activation": (lambda: rnn.LSTMCell(HIDDEN, recurrent_activation="tanh"), 0),
    "soft": (lambda: rnn.RNNCell(HIDDEN, activation="softrelu"), 0),
}


def stack(*cells: Any) -> rnn.HybridSequentialRNNCell:
    whole = rnn.HybridSequentialRNNCell()
    for cell in cells:
        whole.add(cell)
    return whole


@pytest.mark.planned_only
@pytest.mark.parametrize("name", CELLS)
def test_containers_and_modifiers(name):
    """Predictions are those of calls step by step, of as many layers as there are such cells."""
    make, layers = CELLS[name]
    net, x = Unrolled(make(), "NTC"), data("NTC")
    net.initialize(mx.init.Uniform(1))
    expected = net(x).asnumpy()
    net.hybridize()
    assert operators(net, x).count("_recurrent_layer") == layers
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.planned_only
def test_inputs_of_concatenated_matrices_stay_apart():
    """Steps that are joined of matrices of no sequence, or of different numbers of them."""
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.cell = rnn.GRUCell(HIDDEN)

        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
            one, two = F.split(x, num_outputs=2, axis=0, squeeze_axis=True)
            steps = [F.concat(one, y, dim=1), F.concat(two, y * 2, dim=1)]
            return F.concat(*self.cell.unroll(2, steps, merge_outputs=False)[0], dim=1)

    net, x, y = Net(), mx.nd.ones((2, BATCH, 2)), mx.nd.ones((BATCH, 1))
    net.initialize(mx.init.Uniform(1))
    expected = net(x, y).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x, y).asnumpy(), expected, rtol=TOLERANCE, atol=TOLERANCE)
    plan = [step.node.op_name for step in net.executor.steps]
    assert plan.count("_recurrent_layer") == 1 and plan.count("Concat") == 3
