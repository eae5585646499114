"""Recurrent cells against MXNet: their graphs, outputs and gradients, and their weights.
"""

from __future__ import annotations

import difflib

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.compare import assert_same
from tests.programs import rnn_numbers, rnn_programs

MODIFIERS = ("ResidualCell(", "ZoneoutCell(", "ModifierCell(")
"""What MXNet's modifiers refuse, because they pass arguments on wrongly, works here."""


@pytest.fixture(scope="module")
def theirs(oracle):
    return oracle.call("mx_scripts.run", "rnn_programs", "digests")


@pytest.mark.parametrize("subject", rnn_programs.SUBJECTS)
def test_graphs_are_mxnets_to_the_byte(oracle, theirs, subject):
    for line, want in zip(rnn_programs.lines(subject), theirs[subject], strict=True):
        got = rnn_programs.answer(mx, line)
        if rnn_programs.digest(got) == want:
            continue
        if want == "error" and any(modifier in line for modifier in MODIFIERS):
            continue
        answer = oracle.call("mx_scripts.run", "rnn_programs", "answer", line)
        pytest.fail(f"{line}\n{difference(answer, got)[:3000]}")


def difference(theirs, ours):
    """The lines in which two results differ."""
    texts = [str(answer).replace("\\n", "\n").splitlines() for answer in (theirs, ours)]
    return "\n".join(difflib.unified_diff(*texts, "MXNet", "nbmod", lineterm="", n=2))


R = mx.rnn
X = mx.sym.Variable("x")

MODIFIED = {
    "zoneout of a stack": (lambda: R.ZoneoutCell(stack(R.RNNCell(4), R.GRUCell(4)), .5, .5), 2),
    "zoneout of images": (lambda: R.ZoneoutCell(R.ConvRNNCell((1, 4, 5, 5), 4), .5), 1),
    "residual of both directions": (lambda: R.ResidualCell(
        R.BidirectionalCell(R.RNNCell(2, prefix="l_"), R.RNNCell(2, prefix="r_"))), 2),
    "residual in a residual stack": (lambda: R.ResidualCell(
        stack(R.LSTMCell(4, "a_"), R.ResidualCell(R.GRUCell(4)))), 3),
}  # fmt: skip


def stack(*cells):
    stacked = R.SequentialRNNCell()
    for cell in cells:
        stacked.add(cell)
    return stacked


@pytest.mark.parametrize("case", MODIFIED)
def test_modifiers_that_mxnet_lacks(case):
    """They begin with states of any kind, and unroll into a graph that runs."""
    make, count = MODIFIED[case]
    cell = make()
    states = cell.begin_state(func=mx.sym.ones, dtype="float32")
    assert len(states) == count and all('"_ones"' in state.tojson() for state in states)
    cell = make()
    outputs, _ = cell.unroll(3, X, merge_outputs=True)
    shape = (2, 3, 4, 5, 5) if "images" in case else (2, 3, 4)
    executor = outputs.simple_bind(mx.cpu(), x=shape)
    for array in executor.arg_dict.values():
        array[:] = 0.1
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(shape))
    assert executor.outputs[0].shape == shape
    assert np.isfinite(executor.grad_dict["x"].asnumpy()).all()


def test_zoneout_keeps_whole_elements_of_the_last_step():
    """Each element of an output is the new one or the last step's, both about equally often."""
    mx.random.seed(1)
    outputs, _ = R.ZoneoutCell(R.RNNCell(64), 0.5).unroll(4, X, merge_outputs=False)
    plain = mx.sym.Group(outputs)
    executor = plain.simple_bind(mx.cpu(), x=(32, 4, 3))
    rng = np.random.default_rng(0)
    for array in executor.arg_dict.values():
        array[:] = 0.2 * rng.standard_normal(array.shape)
    trained = [o.asnumpy() for o in executor.forward(is_train=True)]
    tested = [o.asnumpy() for o in executor.forward(is_train=False)]
    new = np.isclose(trained[0], tested[0], atol=1e-6)
    assert ((trained[0] == 0) | new).all() and 0.4 < new.mean() < 0.6
    for before, after, fresh in zip(trained, trained[1:], tested[1:], strict=False):
        # The states are never kept, so new outputs are those of inference.
        new = np.isclose(after, fresh, atol=1e-6)
        assert ((after == before) | new).all() and 0.4 < new.mean() < 0.6
    same = [np.mean(a == b) for a, b in zip(tested, tested[1:], strict=False)]
    assert max(same) < 0.01


WRONG = {
    "steps": (lambda: R.RNNCell(3).unroll(2, [X]), ["1 inputs", "2 steps"]),
    "a group": (lambda: R.RNNCell(3).unroll(2, mx.sym.Group([X, X])), ["2 outputs", "list("]),
    "no sequence": (lambda: R.RNNCell(3).unroll(2, 3), ["int", "Symbol"]),
    "layout": (lambda: R.RNNCell(3).unroll(2, X, layout="NC"), ["'NC'", "'TNC'"]),
    "modified": (lambda: (R.ResidualCell(cell := R.LSTMCell(3)), cell.begin_state()),
                 ["LSTMCell 'lstm_'", "modifier"]),
    "zoneout of both directions": (lambda: R.ZoneoutCell(R.ResidualCell(R.BidirectionalCell(
        R.RNNCell(3), R.RNNCell(3)))), ["BidirectionalCell", "each direction"]),
    "dropout": (lambda: R.DropoutCell("much"), ["'much'"]),
    "even kernel": (lambda: R.ConvGRUCell((1, 3, 8, 8), 4, h2h_kernel=(2, 3)), ["(2, 3)", "odd"]),
    "params twice": (lambda: R.BidirectionalCell(R.RNNCell(3), R.RNNCell(3), R.RNNParams()),
                     ["BidirectionalCell", "RNNCell", "one of the two"]),
    "states": (lambda: stack(R.LSTMCell(3), R.GRUCell(3)).unroll(2, X, [X]), ["1 states", "2 + 1"]),
    "packed": (lambda: R.LSTMCell(3).unpack_weights({"lstm_i2h_weigth": 1}),
               ["'lstm_i2h_weight'", "did you mean 'lstm_i2h_weigth'"]),
    "unpacked": (lambda: R.GRUCell(3).pack_weights({}), ["'gru_i2h_r_weight'"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_explained(case):
    act, words = WRONG[case]
    with pytest.raises(MXNetError) as caught:
        act()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_cells_without_a_step_say_what_to_do():
    with pytest.raises(NotImplementedError, match="use unroll"):
        R.BidirectionalCell(R.RNNCell(3), R.GRUCell(3))(X, [X, X])
    with pytest.raises(NotImplementedError, match="BaseRNNCell"):
        R.BaseRNNCell().unroll(2, X, begin_state=[])


@pytest.mark.parametrize("case", rnn_numbers.CASES)
def test_outputs_and_gradients_are_mxnets(oracle, case):
    """The graphs are the same ops in the same order; only sums differ: 1e-5."""
    ours = rnn_numbers.unrolled(mx, case)
    theirs = oracle.call("mx_scripts.run", "rnn_numbers", "unrolled", case)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert_same(ours[name], theirs[name], 1e-5, name)


@pytest.mark.parametrize("case", rnn_numbers.CASES)
def test_weights_are_unpacked_as_in_mxnet(oracle, case):
    ours = rnn_numbers.unpacked(mx, case)
    if case != "shared":  # where MXNet does not find what the first cell has taken
        theirs = oracle.call("mx_scripts.run", "rnn_numbers", "unpacked", case)
        np.testing.assert_equal(ours, theirs)
    assert ours["packed again"].keys() == ours["packed"].keys()
    for name, array in ours["packed"].items():
        np.testing.assert_array_equal(ours["packed again"][name], array)


FUSED = [f"R.FusedRNNCell(3, {layers}, {mode!r}, {both})" for mode in
         ("rnn_relu", "rnn_tanh", "lstm", "gru") for layers, both in ((1, False), (2, True))]


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.filterwarnings("ignore:NTC layout")
def test_fused_and_unfused_networks_agree(fused, layout):
    """Outputs, gradients of data, and gradients of weights as the other's weights: sums in another
    order, 1e-5.
    """
    one = eval(fused)
    many = one.unfuse()
    nets = [cell.unroll(4, mx.sym.Variable("data"), layout=layout, merge_outputs=True)[0]
            for cell in (one, many)]
    shape = (4, 2, 5) if layout == "TNC" else (2, 4, 5)
    packed = {name: mx.nd.array(array) for name, array in
              rnn_numbers.drawn(nets[0], data=shape).items()}
    apart = many.pack_weights(one.unpack_weights(packed))
    results = [rnn_numbers.ran(mx, net, {name: array.asnumpy() for name, array in args.items()},
                               data=shape) for net, args in zip(nets, (packed, apart), strict=True)]
    (whole, parts) = ({key: mx.nd.array(value) for key, value in result.items()}
                      for result in results)
    gradients = [{key[2:]: value for key, value in result.items() if key[:2] == "d "}
                 for result in (whole, parts)]
    again = one.pack_weights(many.unpack_weights(gradients[1]))
    assert again.keys() == gradients[0].keys() == {"data", one._parameter.name}
    for name, array in gradients[0].items():
        assert_same(again[name].asnumpy(), array.asnumpy(), 1e-5, name)
    outputs = [next(value for key, value in result.items() if key[:2] == "0 ")
               for result in results]
    assert_same(outputs[1], outputs[0], 1e-5, "output")
