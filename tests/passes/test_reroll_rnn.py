"""Rerolling of unrolled RNN cells: results equal those of single nodes, requested or monitored."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops import jit
from tests.programs import recurrent

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 6, 5

CELLS = {
    "lstm": lambda prefix: mx.rnn.LSTMCell(HIDDEN, prefix=prefix),
    "gru": lambda prefix: mx.rnn.GRUCell(HIDDEN, prefix=prefix),
    "tanh": lambda prefix: mx.rnn.RNNCell(HIDDEN, prefix=prefix),
    "relu": lambda prefix: mx.rnn.RNNCell(HIDDEN, activation="relu", prefix=prefix),
}


def stack(*cells: Any) -> Any:
    whole = mx.rnn.SequentialRNNCell()
    for cell in cells:
        whole.add(cell)
    return whole


def unrolled(cell: Any, layout: str = "NTC", merge: bool | None = False, **options: Any) -> Any:
    """Outputs and last states, as one symbol."""
    outputs, states = cell.unroll(STEPS, mx.sym.Variable("data"), layout=layout,
                                  merge_outputs=merge, **options)
    flat = [one for state in states for one in (state if isinstance(state, list) else [state])]
    return mx.sym.Group([*([outputs] if merge else outputs), *flat])


def shape_of_data(layout: str) -> tuple[int, ...]:
    return tuple({"T": STEPS, "N": BATCH, "C": INPUTS}[axis] for axis in layout)


def bound(symbol: Any, exact: bool = False, dtype: str = "float32", requests: Any = "write",
          **shapes: tuple[int, ...]) -> Any:
    """An executor with the same values for every argument of a name."""
    arguments, types = symbol.list_arguments(), dict.fromkeys(symbol.list_arguments(), dtype)
    with mx.exact() if exact else nullcontext():
        executor = symbol.simple_bind(mx.cpu(), grad_req=requests, type_dict=types, **shapes)
    rng = np.random.default_rng(0)
    for name in sorted(arguments):
        executor.arg_dict[name][:] = 0.5 * rng.standard_normal(executor.arg_dict[name].shape)
    return executor


def results(executor: Any, is_train: bool = True) -> dict[str, np.ndarray]:
    """Outputs and gradients of a step, the latter twice where they accumulate."""
    executor.forward(is_train=is_train)
    found = {f"output {i}": array.asnumpy() for i, array in enumerate(executor.outputs)}
    if not is_train:
        return found
    heads = [mx.nd.array(np.cos(np.arange(array.size)).reshape(array.shape), dtype=array.dtype)
             for array in executor.outputs]
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(heads)
    return found | {f"gradient of {name}": array.asnumpy()
                    for name, array in executor.grad_dict.items() if array is not None}


def require_equal(symbol: Any, layers: int, is_train: bool = True, **options: Any) -> Any:
    """The results of `symbol` are those of its own nodes, and it has become `layers` RNN layers.

    Sums of about ten terms of size 1 in another order differ by some units in the last place.
    """
    ours, plain = bound(symbol, **options), bound(symbol, exact=True, **options)
    assert ops_of(ours).count("_recurrent_layer") == layers
    assert "_recurrent_layer" not in ops_of(plain)
    expected, close = results(plain, is_train), 1e-5
    if options.get("dtype") == "float64":
        close = 1e-13
    for name, array in results(ours, is_train).items():
        np.testing.assert_allclose(array, expected[name], rtol=close, atol=close, err_msg=name)
    return ours


def ops_of(executor: Any) -> list[str]:
    return [node.op_name for node in executor.compiled.graph.head(len(executor.outputs)).nodes]


# -- cells that become a layer --------------------------------------------------------------------

@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("merge", [True, False])
def test_stacks(name, layout, merge):
    symbol = unrolled(stack(CELLS[name]("a_"), CELLS[name]("b_")), layout, merge)
    require_equal(symbol, 2, data=shape_of_data(layout))


OTHERS: dict[str, tuple[Any, int]] = {
    "bidirectional": (lambda: mx.rnn.FusedRNNCell(
        HIDDEN, num_layers=2, mode="lstm", bidirectional=True, prefix="f_").unfuse(), 4),
    "mixed": (lambda: stack(*[make(f"{name}_") for name, make in CELLS.items()]), 4),
    "residual": (lambda: stack(CELLS["gru"]("a_"), mx.rnn.ResidualCell(CELLS["lstm"]("b_"))), 2),
    "zoneout": (lambda: mx.rnn.ZoneoutCell(CELLS["lstm"]("a_"), zoneout_states=0.5), 0),
    "dropout": (lambda: stack(CELLS["gru"]("a_"), mx.rnn.DropoutCell(0.5), CELLS["gru"]("b_")), 2),
}


@pytest.mark.parametrize("name", OTHERS)
def test_containers_and_modifiers_in_inference(name):
    make, layers = OTHERS[name]
    require_equal(unrolled(make(), "TNC"), layers, False, requests="null",
                  data=shape_of_data("TNC"))


BETWEEN: dict[str, Any] = {
    "times 2": lambda x: x * 2, "relu": mx.sym.relu, "tanh": mx.sym.tanh,
    "twice": lambda x: mx.sym.tanh(x * 2), "reshaped": lambda x: mx.sym.reshape(x * 2, (0, -1)),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("batch", [1, 3])
def test_operators_on_every_step_between_stacked_cells(name, between, batch):
    """Gradients of steps are slices of one tensor, concatenated in another at equal offsets."""
    steps, _ = CELLS[name]("a_").unroll(STEPS, mx.sym.Variable("data"), merge_outputs=False)
    symbol, _ = CELLS[name]("b_").unroll(STEPS, [BETWEEN[between](x) for x in steps],
                                         merge_outputs=True)
    require_equal(symbol, 2, data=(batch, STEPS, INPUTS))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("requests", ["write", "null"])
def test_two_directions_of_small_batches(name, batch, requests):
    """Of an odd number of steps the middle one is at the same offset in both directions."""
    cell = mx.rnn.BidirectionalCell(CELLS[name]("l_"), CELLS[name]("r_"))
    symbol, _ = cell.unroll(5, mx.sym.Variable("data"), layout="NTC", merge_outputs=True)
    require_equal(symbol, 2, requests == "write", requests=requests, data=(batch, 5, INPUTS))


@pytest.mark.parametrize("name", ["bidirectional", "mixed", "residual"])
def test_containers_and_modifiers_in_training(name):
    make, layers = OTHERS[name]
    require_equal(unrolled(make(), "NTC"), layers, data=shape_of_data("NTC"))


def states(cell: Any) -> list[Any]:
    return cell.begin_state(func=mx.sym.Variable)


def test_states_get_gradients():
    cell = CELLS["lstm"]("a_")
    begin = states(cell)
    executor = require_equal(unrolled(cell, begin_state=begin), 1, data=shape_of_data("NTC"),
                             **{state.name: (BATCH, HIDDEN) for state in begin})
    assert all(executor.grad_dict[state.name].asnumpy().any() for state in begin)


@pytest.mark.parametrize("request_", ["add", "null"])
@pytest.mark.parametrize("name", CELLS)
def test_requests(name, request_):
    symbol = unrolled(CELLS[name]("a_"))
    for argument in symbol.list_arguments():
        requests = dict.fromkeys(symbol.list_arguments(), "write") | {argument: request_}
        require_equal(symbol, 1, requests=requests, data=shape_of_data("NTC"))


def test_double():
    for name in CELLS:
        outputs, _, shapes = steps_of(CELLS[name]("a_"))
        require_equal(mx.sym.Group(outputs), 1, dtype="float64", **shapes)


def test_weights_of_two_sequences():
    """As an encoder that reads two sentences: their gradients are added."""
    cell = CELLS["gru"]("a_")
    ends = [cell.unroll(STEPS, mx.sym.Variable(name), layout="TNC")[1][0] for name in "xy"]
    require_equal(mx.sym.Group(ends), 2, x=(STEPS, BATCH, INPUTS), y=(STEPS, BATCH, INPUTS))


def test_a_sequence_to_a_sequence():
    """A decoder that begins with the state of an encoder."""
    _, middle = CELLS["lstm"]("a_").unroll(STEPS, mx.sym.Variable("x"), layout="TNC")
    outputs, _ = CELLS["lstm"]("b_").unroll(STEPS, mx.sym.Variable("y"), middle, "TNC", True)
    require_equal(outputs, 2, x=(STEPS, BATCH, INPUTS), y=(STEPS, BATCH, 2))


def test_joins_of_other_kinds():
    outputs, _ = CELLS["lstm"]("a_").unroll(STEPS, mx.sym.Variable("data"), layout="NTC")
    for joined in (mx.sym.Concat(*outputs, dim=0), mx.sym.Concat(*outputs, dim=1),
                   mx.sym.Concat(*outputs[::-1], dim=0), mx.sym.Concat(*outputs[:3], dim=1),
                   mx.sym.stack(*outputs, axis=1),
                   mx.sym.Concat(*[mx.sym.expand_dims(o, axis=2) for o in outputs], dim=2)):
        require_equal(joined, 1, data=shape_of_data("NTC"))


def test_the_last_output_alone():
    outputs, _ = CELLS["lstm"]("a_").unroll(STEPS, mx.sym.Variable("data"), layout="NTC")
    executor = require_equal(outputs[-1], 1, data=shape_of_data("NTC"))
    assert "SliceChannel" not in ops_of(executor)


# -- cells written by users -----------------------------------------------------------------------

Layers = tuple[Any, Any]
"""Symbols of i2h and h2h."""


class Weights:
    """Parameters of a cell, the same at every step."""

    def __init__(self, biased: str = "ih"):
        self.params, self.biased = mx.rnn.RNNParams(""), biased

    def layers(self, x: Any, h: Any, gates: int) -> Layers:
        return self._dense(x, "i2h", gates), self._dense(h, "h2h", gates)

    def _dense(self, x: Any, name: str, gates: int) -> Any:
        biased = name[0] in self.biased
        bias = {"bias": self.params.get(f"{name}_bias")} if biased else {}
        return mx.sym.FullyConnected(x, self.params.get(f"{name}_weight"), no_bias=not biased,
                                     num_hidden=gates * HIDDEN, **bias)


def lstm_step(layers: Layers, c: Any, order: tuple[int, ...] = (0, 1, 2, 3)) -> Layers:
    """h and c; `order` gives the positions of i, f, u and o."""
    pieces = mx.sym.SliceChannel(layers[1] + layers[0], num_outputs=4)
    i, f, u, o = (pieces[k] for k in order)
    c = mx.sym.tanh(u) * mx.sym.sigmoid(i) + c * mx.sym.sigmoid(f)
    return mx.sym.Activation(c, act_type="tanh") * mx.sym.sigmoid(o), c


def gru_step(layers: Layers, h: Any, order: tuple[int, ...] = (0, 1, 2),
             other: tuple[int, ...] = (), ones: Any = mx.sym.ones_like) -> Any:
    """h; `order` gives the positions of r, z and the candidate, `other` the same for h2h."""
    i2h, h2h = (mx.sym.SliceChannel(layer, num_outputs=3) for layer in layers)
    (ir, iz, iu), (hr, hz, hu) = ([pieces[k] for k in places] for pieces, places
                                  in ((i2h, order), (h2h, other or order)))
    r, z = mx.sym.sigmoid(hr + ir), mx.sym.sigmoid(iz + hz)
    return z * h + mx.sym.tanh(iu + r * hu) * (ones(z) - z)


def written(kind: str, biased: str = "ih", **how: Any) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """All outputs of a cell of this module, and the shapes of its inputs."""
    h, c, outputs = mx.sym.Variable("h"), mx.sym.Variable("c"), []
    weights, gates = Weights(biased), {"lstm": 4, "gru": 3}.get(kind, 1)
    for t in range(STEPS):
        layers = weights.layers(mx.sym.Variable(f"x{t}"), h, gates)
        if kind == "lstm":
            h, c = lstm_step(layers, c, **how)
        elif kind == "gru":
            h = gru_step(layers, h, **how)
        else:
            h = mx.sym.Activation(layers[0] + layers[1], act_type=kind)
        outputs.append(h)
    shapes = {f"x{t}": (BATCH, INPUTS) for t in range(STEPS)} | {"h": (BATCH, HIDDEN)}
    return mx.sym.Group(outputs), shapes | ({"c": (BATCH, HIDDEN)} if kind == "lstm" else {})


@pytest.mark.parametrize("order", [*permutations(range(4))], ids=str)
def test_lstm_with_gates_in_another_order(order):
    symbol, shapes = written("lstm", order=order)
    require_equal(symbol, 1, **shapes)


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_gru_with_gates_in_another_order(order):
    symbol, shapes = written("gru", order=order)
    require_equal(symbol, int(order[2] == 2), **shapes)


def test_gates_of_two_orders():
    symbol, shapes = written("gru", order=(0, 1, 2), other=(1, 0, 2))
    require_equal(symbol, 0, **shapes)


@pytest.mark.parametrize("biased", ["", "i", "h"])
@pytest.mark.parametrize("kind", CELLS)
def test_layers_without_bias(kind, biased):
    symbol, shapes = written(kind, biased=biased)
    require_equal(symbol, 1, **shapes)
    require_equal(symbol, 1, dtype="float64", **shapes)


@pytest.mark.parametrize(("layers", "ones"), [
    (1, lambda z: 1), (0, lambda z: 2), (0, lambda z: mx.sym.ones((BATCH, HIDDEN))),
    (0, lambda z: mx.sym.ones_like(mx.sym.exp(z)))])
def test_what_is_left_of_a_gate(layers, ones):
    """1 - z with a scalar or with `ones_like`, which the other tests use; no other constant."""
    symbol, shapes = written("gru", ones=ones)
    require_equal(symbol, layers, **shapes)


def test_gates_that_change_places_divide_a_chain():
    h, c, weights = mx.sym.Variable("h"), mx.sym.Variable("c"), Weights()
    for t, order in enumerate(2 * [(0, 1, 2, 3)] + 2 * [(0, 2, 1, 3)]):
        h, c = lstm_step(weights.layers(mx.sym.Variable(f"x{t}"), h, 4), c, order)
    require_equal(h, 2, **written("lstm")[1])


@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_of_gluon_are_layers_with_mxnets_numbers(oracle, cell):
    json = oracle.call("mx_scripts.run", "recurrent", "gluon_unrolled", cell, STEPS, HIDDEN)
    shapes = {"data": shape_of_data("NTC")}
    theirs = oracle.call("mx_scripts.run", "recurrent", "trained", json, shapes)
    ours = recurrent.trained(mx, json, shapes)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():  # sums as those of `require_equal`
        np.testing.assert_allclose(ours[name], array, rtol=1e-5, atol=1e-5, err_msg=name)
    require_equal(mx.sym.load_json(json), 1, **shapes)


@pytest.mark.parametrize("kind", CELLS)
def test_gradients_are_nan_where_those_of_single_nodes_are(kind):
    symbol, shapes = written(kind)
    ours, plain = (bound(symbol, exact, **shapes) for exact in (False, True))
    for executor in (ours, plain):
        executor.arg_dict["x1"][1, 2] = np.nan
    expected = results(plain)
    assert np.isnan(expected["gradient of x0"]).any()
    for name, array in results(ours).items():
        np.testing.assert_array_equal(np.isnan(array), np.isnan(expected[name]), name)


# -- cells that do not ----------------------------------------------------------------------------

def steps_of(cell: Any, feed: Any = None) -> tuple[list[Any], list[list[Any]], Any]:
    """Outputs and states of every step; `feed` makes the input of a step from the last output."""
    begin = states(cell)
    now, outputs, seen = begin, [], []
    for t in range(STEPS):
        x = mx.sym.Variable(f"x{t}")
        if feed and outputs:
            x = feed(x, outputs[-1])
        output, now = cell(x, now)
        outputs.append(output)
        seen.append(now)
    shapes = {f"x{t}": (BATCH, HIDDEN) for t in range(STEPS)}
    return outputs, seen, shapes | {state.name: (BATCH, HIDDEN) for state in begin}


def test_inputs_that_depend_on_outputs():
    for name in CELLS:
        outputs, _, shapes = steps_of(CELLS[name]("a_"), lambda x, h: x * h)
        require_equal(mx.sym.Group(outputs), 0, **shapes)


def test_outputs_that_are_inputs():
    for name in CELLS:
        outputs, _, shapes = steps_of(CELLS[name]("a_"), lambda x, h: h)
        require_equal(outputs[-1], 0, **{key: shape for key, shape in shapes.items()
                                         if key in outputs[-1].list_arguments()})


def test_a_cell_state_that_is_read_divides_a_chain():
    outputs, seen, shapes = steps_of(CELLS["lstm"]("a_"))
    require_equal(mx.sym.Group([outputs[-1], seen[1][1]]), 2, **shapes)


def test_a_gate_that_is_read_stays():
    outputs, _, shapes = steps_of(CELLS["lstm"]("a_"))
    gate = outputs[-1].get_internals()["a_t1_f_output"]
    executor = require_equal(mx.sym.Group([outputs[-1], gate]), 1, **shapes)
    assert "a_t3_out" in executor.debug_str()


def test_layers_that_need_each_other_stay_apart():
    """Two chains, each of which reads a step of the other: only one can become a layer."""
    a, b = CELLS["gru"]("a_"), CELLS["gru"]("b_")
    (a0, now_a), (b0, now_b) = (cell(mx.sym.Variable(name), states(cell))
                                for cell, name in ((a, "x"), (b, "y")))
    symbol = mx.sym.Group([a(b0, now_a)[0], b(a0, now_b)[0]])
    shapes = {name: (BATCH, HIDDEN) for name in symbol.list_arguments()
              if name in "xy" or "state" in name}
    require_equal(symbol, 1, **shapes)


def test_half_precision_stays():
    outputs, _, shapes = steps_of(CELLS["gru"]("a_"))
    executor = bound(outputs[-1], dtype="float16", **shapes)
    assert "_recurrent_layer" not in ops_of(executor)


# -- visible effects ------------------------------------------------------------------------------

def test_a_monitor_sees_every_node():
    symbol = unrolled(CELLS["lstm"]("a_"), merge=True)
    executor, plain = (bound(symbol, exact, data=shape_of_data("NTC")) for exact in (False, True))
    found: list[dict[str, Any]] = []
    for one in (executor, plain):
        found.append({})
        one.set_monitor_callback(lambda name, array: found[-1].setdefault(name, array.asnumpy()))
        one.forward(is_train=True)
        one.backward([mx.nd.ones(output.shape) for output in one.outputs])
    assert found[0].keys() == found[1].keys() >= {"a_t0_i2h_output", "a_t3_slice_output2"}
    for name in plain.grad_dict:
        np.testing.assert_array_equal(executor.grad_dict[name].asnumpy(),
                                      plain.grad_dict[name].asnumpy())


def test_debug_str_says_what_became_of_steps():
    text = bound(unrolled(CELLS["lstm"]("a_")), data=shape_of_data("NTC")).debug_str()
    assert "4 steps from a_t0_out to a_t3_out are the layer a_t0_out_layer" in text


def test_another_batch():
    symbol = unrolled(CELLS["lstm"]("a_"))
    executor = bound(symbol, data=shape_of_data("NTC")).reshape(
        allow_up_sizing=True, data=(2 * BATCH, STEPS, INPUTS))
    executor.arg_dict["data"][:] = 1
    executor.forward(is_train=True)
    first, last = np.split(executor.outputs[-1].asnumpy(), 2)
    np.testing.assert_allclose(first, last, rtol=1e-6)  # the same samples at other positions


def test_threads_do_not_change_a_bit():
    symbol = unrolled(stack(CELLS["lstm"]("a_"), CELLS["gru"]("b_")))
    before = jit.num_threads()
    found = []
    try:
        for count in {1, before}:
            jit.set_num_threads(count)
            found.append(results(bound(symbol, data=shape_of_data("NTC"))))
    finally:
        jit.set_num_threads(before)
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[-1][name], name)
